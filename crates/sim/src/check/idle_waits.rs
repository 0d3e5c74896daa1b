//! I11: no color waits for long while a core sleeps on which the color would have ended earlier.
//!
//! Separate books, from notes alone: since when each color waits, and since when each core sleeps.
//! A color and a core may overlap for as long as the scheduler may legally take to notice: the time
//! between two looks of a watcher, a wake-up, and a multiple of the longest run of the color's
//! handler so far. The multiple stands for penalties, which the scheduler learns and this file does
//! not know.
//!
//! Leaves out colors that must stay, because the author or a plan has placed them, and cores that a
//! fault disturbs. Two waits at a core that pauses do not count. The color whose event the pause
//! holds up runs until the end of the pause, so no core may take the color. The colors of a core
//! that runs no event wait unseen: the core was woken for them and does not come, but its published
//! load looks idle. To notice, each wake-up of a core for work would have to wake a second core
//! that watches. Behind an event of another color, a pause counts. Holds for policies that conserve
//! work, so only [`Policy::Adaptive`] is checked. Tested in `check.rs`, and by a planted bug in
//! `swarm/tests.rs`.

use std::collections::{BTreeMap, BTreeSet};

use vermeil_sched::{CoreIndex, Policy, WATCH_NS};

use crate::machine::SimMachine;
use crate::options::{InjectedFault, SimOptions};
use crate::workload::CompiledProgram;

/// Looks of a watcher that a color may miss: the watcher may sleep when the color arrives, and may
/// have looked just before.
const LOOKS: u64 = 2;

/// The multiple of the handler's longest run for which a color may wait: the bound of a penalty
/// that is not yet known, twice. The seeds of the swarm show no correct run beyond this number.
const RUNS: u64 = 24;

/// The wait of a color.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since_ns: u64,
    /// The handler of the color's first event.
    handler: u16,
    core: CoreIndex,
}

/// A pause of a core by a fault.
#[derive(Clone, Copy, Debug)]
struct Pause {
    core: CoreIndex,
    from_ns: u64,
    until_ns: u64,
}

/// The waits of colors and the sleep of cores.
#[derive(Debug)]
pub(super) struct IdleWaits {
    /// By handler, whether the handler's colors may move.
    moves: Vec<bool>,
    disturbed: BTreeSet<CoreIndex>,
    pauses: Vec<Pause>,
    /// Since when each core runs no event; without the cores that run one.
    between_events: BTreeMap<CoreIndex, u64>,
    notice_ns: u64,
    /// By handler, the longest run so far.
    longest_ns: Vec<u64>,
    /// By color.
    waiting: BTreeMap<u64, Wait>,
    /// The waiting colors, the longest wait first.
    by_time: BTreeSet<(u64, u64)>,
    asleep: BTreeMap<CoreIndex, u64>,
}

impl IdleWaits {
    /// The books of a run; `None` if the run's policy does not promise this invariant.
    pub(super) fn of(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Option<Self> {
        if options.policy != Policy::Adaptive || options.ideal || options.leaves_half {
            return None;
        }
        let cores = machine.cores() as u32;
        let (mut disturbed, mut pauses, mut late, mut stale_ns) = (BTreeSet::new(), Vec::new(), 1, 0);
        for fault in &options.faults {
            if let InjectedFault::Pause { core, at_us, for_us } = *fault {
                let from_ns = u64::from(at_us) * 1_000;
                let until_ns = from_ns + u64::from(for_us) * 1_000;
                pauses.push(Pause { core: CoreIndex(core % cores), from_ns, until_ns });
            }
            match *fault {
                InjectedFault::SlowCore { core, .. }
                | InjectedFault::Pause { core, .. }
                | InjectedFault::RemoveCore { core, .. } => {
                    disturbed.insert(CoreIndex(core % cores));
                }
                InjectedFault::LateWakes { times } => late = u64::from(times.max(1)),
                InjectedFault::StaleHints { by_us } => stale_ns = u64::from(by_us) * 1_000,
                InjectedFault::SpuriousWakes { .. } | InjectedFault::Outliers { .. } => {}
            }
        }
        let wake_ns = late * machine.costs.wake_tail_ns.max(2 * machine.costs.wake_median_ns);
        Some(Self {
            moves: program.movable_handlers(&options.policy),
            disturbed,
            pauses,
            between_events: machine.layout().indices().map(|core| (core, 0)).collect(),
            notice_ns: LOOKS * (WATCH_NS + wake_ns + stale_ns),
            longest_ns: vec![0; program.handlers.len()],
            waiting: BTreeMap::new(),
            by_time: BTreeSet::new(),
            asleep: machine.layout().indices().map(|core| (core, 0)).collect(),
        })
    }

    /// Whether a color with an event of this handler may move.
    pub(super) fn may_move(&self, handler: u16) -> bool {
        self.moves[usize::from(handler)]
    }

    /// A color waits on a core from now on, to run an event of a handler.
    pub(super) fn waits(&mut self, color: u64, handler: u16, core: CoreIndex, at_ns: u64) {
        self.forget(color);
        self.remember(color, Wait { since_ns: at_ns, handler, core });
    }

    /// A color goes to another core.
    pub(super) fn moves(&mut self, color: u64, to: CoreIndex) {
        if let Some(wait) = self.waiting.get_mut(&color) {
            wait.core = to;
        }
    }

    /// A core runs an event of a color, which waits no longer. Returns the finding, if the wait was
    /// too long.
    pub(super) fn begins(&mut self, color: u64, core: CoreIndex, at_ns: u64) -> Option<String> {
        let finding = self.wait_ends(color, at_ns);
        self.excuse_pause(core, at_ns);
        self.between_events.remove(&core);
        finding
    }

    fn wait_ends(&mut self, color: u64, at_ns: u64) -> Option<String> {
        let wait = self.forget(color)?;
        let sleeping = self.asleep.iter().map(|(&core, &from_ns)| (core, from_ns));
        let longest = sleeping.min_by_key(|&(_, from_ns)| from_ns)?;
        self.finding(color, Wait { since_ns: self.counts_from(&wait, at_ns), ..wait }, longest, at_ns)
    }

    fn remember(&mut self, color: u64, wait: Wait) {
        self.by_time.insert((wait.since_ns, color));
        self.waiting.insert(color, wait);
    }

    fn forget(&mut self, color: u64) -> Option<Wait> {
        let wait = self.waiting.remove(&color)?;
        self.by_time.remove(&(wait.since_ns, color));
        Some(wait)
    }

    /// The time from which a wait counts: the end of a pause of the color's core between two
    /// events.
    fn counts_from(&self, wait: &Wait, at_ns: u64) -> u64 {
        let Some(&idle_ns) = self.between_events.get(&wait.core) else { return wait.since_ns };
        let from_ns = wait.since_ns.max(idle_ns);
        let overlaps =
            |pause: &&Pause| pause.core == wait.core && pause.from_ns < at_ns && pause.until_ns > from_ns;
        let paused = self.pauses.iter().filter(overlaps).map(|pause| pause.until_ns.min(at_ns)).max();
        paused.unwrap_or(wait.since_ns)
    }

    /// The colors of a core that begins an event wait from the end of the core's pause on.
    fn excuse_pause(&mut self, core: CoreIndex, at_ns: u64) {
        if !self.pauses.iter().any(|pause| pause.core == core) {
            return;
        }
        let here = self.waiting.iter().filter(|(_, wait)| wait.core == core);
        for (color, wait) in here.map(|(&color, &wait)| (color, wait)).collect::<Vec<_>>() {
            self.forget(color);
            self.remember(color, Wait { since_ns: self.counts_from(&wait, at_ns), ..wait });
        }
    }

    /// A run of a handler has ended on a core. Returns when other cores see the end: a pause of the
    /// core holds up the end, and the color runs until then.
    pub(super) fn ran(&mut self, core: CoreIndex, handler: u16, started_ns: u64, at_ns: u64) -> u64 {
        let longest_ns = &mut self.longest_ns[usize::from(handler)];
        *longest_ns = at_ns.saturating_sub(started_ns).max(*longest_ns);
        let holds_up =
            |pause: &&Pause| pause.core == core && pause.from_ns <= at_ns && pause.until_ns > at_ns;
        let until_ns = self.pauses.iter().filter(holds_up).map(|pause| pause.until_ns).max();
        let seen_ns = until_ns.unwrap_or(at_ns);
        self.between_events.insert(core, seen_ns);
        seen_ns
    }

    /// A core sleeps from now on.
    pub(super) fn sleeps(&mut self, core: CoreIndex, at_ns: u64) {
        if !self.disturbed.contains(&core) {
            self.asleep.insert(core, at_ns);
        }
    }

    /// A core wakes. Returns the finding, if the core slept beside a color for too long.
    pub(super) fn wakes(&mut self, core: CoreIndex, at_ns: u64) -> Option<String> {
        let from_ns = self.asleep.remove(&core)?;
        let counts = |&&(since_ns, color): &&(u64, u64)| {
            self.waiting.get(&color).is_some_and(|wait| self.counts_from(wait, at_ns) == since_ns)
        };
        let &(_, color) = self.by_time.iter().find(counts)?;
        self.finding(color, *self.waiting.get(&color)?, (core, from_ns), at_ns)
    }

    fn finding(
        &self,
        color: u64,
        Wait { since_ns, handler, core: at }: Wait,
        (core, from_ns): (CoreIndex, u64),
        at_ns: u64,
    ) -> Option<String> {
        let together_ns = at_ns.saturating_sub(since_ns.max(from_ns));
        let most_ns = self.notice_ns + RUNS * self.longest_ns[usize::from(handler)];
        (together_ns > most_ns && !self.disturbed.contains(&core)).then(|| {
            format!(
                "color {color} waited on {at} since {since_ns} ns and {core} slept beside it for \
                 {together_ns} ns; at most {most_ns} ns are allowed"
            )
        })
    }
}
