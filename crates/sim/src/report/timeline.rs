//! A record of the cores' activities while a world runs, within a bound.
//!
//! A [`Timeline`] is a watcher that keeps spans: handlers on cores, steals, sleeps. `svg.rs` draws
//! the spans, `chrome.rs` writes a file for Perfetto.

use vermeil_sched::CoreIndex;

use crate::watch::{Note, Watch};

/// Maximum number of spans: about 50 MB of JSON. Later spans are left out, and the picture says so.
pub const SPANS_MAX: usize = 400_000;

/// The activity of a core in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Ran an event of this handler and color.
    Handler { handler: u16, color: u64, event: u64 },
    /// Took a color from this core.
    Steal { victim: CoreIndex },
    /// Slept.
    Asleep,
}

/// A span of a core's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimelineSpan {
    pub(super) core: CoreIndex,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) doing: Doing,
}

/// The activities of all cores between two moments.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) spans: Vec<TimelineSpan>,
    pub(super) is_cut: bool,
    /// The legend's name of [`Doing::Steal`].
    pub(super) steal_name: &'static str,
    running: Vec<Option<TimelineSpan>>,
    asleep: Vec<Option<u64>>,
}

impl Timeline {
    /// Records the activities on this number of cores between two moments of virtual time.
    pub fn new(cores: usize, from_ns: u64, to_ns: u64) -> Self {
        let (running, asleep) = (vec![None; cores], vec![Some(0); cores]);
        Self { from_ns, to_ns, spans: Vec::new(), is_cut: false, steal_name: "steal", running, asleep }
    }

    /// Number of cores.
    pub(super) fn cores(&self) -> usize {
        self.running.len()
    }

    /// A core did something from one moment to another.
    pub(super) fn ran(&mut self, core: CoreIndex, from_ns: u64, to_ns: u64, doing: Doing) {
        self.keep(TimelineSpan { core, from_ns, to_ns: to_ns.max(from_ns + 1), doing });
    }

    /// The legend calls events from another core so.
    pub(super) fn with_steal_name(self, steal_name: &'static str) -> Self {
        Self { steal_name, ..self }
    }

    /// An event came from another core, at a moment whose length is not known.
    pub(super) fn came(&mut self, core: CoreIndex, at_ns: u64, victim: CoreIndex) {
        self.ran(core, at_ns, at_ns, Doing::Steal { victim });
    }

    fn runs_until(&mut self, core: CoreIndex, to_ns: u64) {
        if let Some(span) = self.running[core.0 as usize].take() {
            self.keep(TimelineSpan { to_ns, ..span });
        }
    }

    fn sleeps_until(&mut self, core: CoreIndex, to_ns: u64) {
        if let Some(from_ns) = self.asleep[core.0 as usize].take() {
            self.keep(TimelineSpan { core, from_ns, to_ns, doing: Doing::Asleep });
        }
    }

    fn keep(&mut self, span: TimelineSpan) {
        if span.to_ns < self.from_ns || span.from_ns > self.to_ns || span.to_ns <= span.from_ns {
            return;
        }
        if self.spans.len() == SPANS_MAX {
            self.is_cut = true;
            return;
        }
        let (from_ns, to_ns) = (span.from_ns.max(self.from_ns), span.to_ns.min(self.to_ns));
        self.spans.push(TimelineSpan { from_ns, to_ns, ..span });
    }
}

impl Watch for Timeline {
    fn note(&mut self, note: Note) {
        match note {
            Note::Started { at_ns, core, event, color, handler } => {
                let doing = Doing::Handler { handler, color, event };
                self.running[core.0 as usize] =
                    Some(TimelineSpan { core, from_ns: at_ns, to_ns: at_ns, doing });
            }
            Note::Finished { at_ns, core, .. } => self.runs_until(core, at_ns),
            Note::Stole { at_ns, until_ns, thief, victim, .. } => {
                self.keep(TimelineSpan {
                    core: thief,
                    from_ns: at_ns,
                    to_ns: until_ns,
                    doing: Doing::Steal { victim },
                });
            }
            Note::Parked { at_ns, core } => self.asleep[core.0 as usize] = Some(at_ns),
            Note::Unparked { at_ns, core } => self.sleeps_until(core, at_ns),
            Note::Posted { .. } | Note::Moved { .. } => {}
        }
    }

    fn ended(&mut self, at_ns: u64) {
        for core in (0..self.cores() as u32).map(CoreIndex) {
            self.runs_until(core, at_ns);
            self.sleeps_until(core, at_ns);
        }
    }
}
