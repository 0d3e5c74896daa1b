//! I11: no color waits for long while a core sleeps on which the color would have ended earlier.
//!
//! Separate books, from notes alone: since when each color waits, and since when each core sleeps.
//! A color and a core may overlap for as long as the scheduler may legally take to notice: the time
//! between two looks of a watcher, a wake-up, and a multiple of the longest run of the color's
//! handler so far. The multiple stands for penalties, which the scheduler learns and this file does
//! not know.
//!
//! Leaves out colors that must stay, because the author or a plan has placed them, and cores that a
//! fault disturbs. Holds for policies that conserve work, so only [`Policy::Adaptive`] is checked.
//! Tested in `check.rs`, and by a planted bug in `swarm/tests.rs`.

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

/// The waits of colors and the sleep of cores.
#[derive(Debug)]
pub(super) struct IdleWaits {
    /// By handler, whether the handler's colors may move.
    moves: Vec<bool>,
    disturbed: BTreeSet<CoreIndex>,
    notice_ns: u64,
    /// By handler, the longest run so far.
    longest_ns: Vec<u64>,
    /// By color, since when the color waits, and the handler of its first event.
    waiting: BTreeMap<u64, (u64, u16)>,
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
        let (mut disturbed, mut late, mut stale_ns) = (BTreeSet::new(), 1, 0);
        for fault in &options.faults {
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

    /// A color waits from now on, to run an event of a handler.
    pub(super) fn waits(&mut self, color: u64, handler: u16, at_ns: u64) {
        if let Some((since_ns, _)) = self.waiting.insert(color, (at_ns, handler)) {
            self.by_time.remove(&(since_ns, color));
        }
        self.by_time.insert((at_ns, color));
    }

    /// A color waits no longer. Returns the finding, if the wait was too long.
    pub(super) fn begins(&mut self, color: u64, at_ns: u64) -> Option<String> {
        let (since_ns, handler) = self.waiting.remove(&color)?;
        self.by_time.remove(&(since_ns, color));
        let sleeping = self.asleep.iter().map(|(&core, &from_ns)| (core, from_ns));
        let longest = sleeping.min_by_key(|&(_, from_ns)| from_ns)?;
        self.finding((color, handler), since_ns, longest, at_ns)
    }

    /// A run of a handler has taken this long.
    pub(super) fn ran(&mut self, handler: u16, ns: u64) {
        let longest_ns = &mut self.longest_ns[usize::from(handler)];
        *longest_ns = ns.max(*longest_ns);
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
        let &(since_ns, color) = self.by_time.first()?;
        let &(_, handler) = self.waiting.get(&color)?;
        self.finding((color, handler), since_ns, (core, from_ns), at_ns)
    }

    fn finding(
        &self,
        (color, handler): (u64, u16),
        since_ns: u64,
        (core, from_ns): (CoreIndex, u64),
        at_ns: u64,
    ) -> Option<String> {
        let together_ns = at_ns.saturating_sub(since_ns.max(from_ns));
        let most_ns = self.notice_ns + RUNS * self.longest_ns[usize::from(handler)];
        (together_ns > most_ns && !self.disturbed.contains(&core)).then(|| {
            format!(
                "color {color} waited since {since_ns} ns and {core} slept beside it for {together_ns} ns; \
                 at most {most_ns} ns are allowed"
            )
        })
    }
}
