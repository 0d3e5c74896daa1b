//! The state of one virtual core: phase, running event, ready queue, turn and counts.
//!
//! The steps are in `step.rs`, `search.rs` and `execute.rs`. The ready queue, the turn and the
//! hint are types of `vermeil_sched`. The world keeps the published hints and the locks.

use std::cell::Cell;

use super::colors::NONE;
use crate::results::CoreCounts;
use vermeil_sched::{
    AskOrder, CoreIndex, CoreLoad, Distance, FixedPace, HeldBack, LifoSlotRule, Ready, RunAfter, Turn,
};

/// The state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorePhase {
    /// Runs, searches or is between two events. The core's next step is on the clock.
    Awake,
    /// Sleeps, or is about to sleep. A wake-up before `asleep_ns` takes effect at `asleep_ns`,
    /// without the latency of a wake-up.
    Parked {
        /// When the core is asleep; may be in the future.
        asleep_ns: u64,
    },
}

/// The event that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningEvent {
    pub(crate) event: u32,
    pub(crate) color: u32,
    pub(crate) started_ns: u64,
    pub(crate) ends_ns: u64,
    /// The part of the run that is base cycles.
    pub(crate) base_ns: u64,
    /// Distance of the color's move since its last event; `None` without a move.
    pub(crate) cold: Option<Distance>,
    /// Requests found by a polling handler.
    pub(crate) found: u32,
}

/// The activation that runs, or that ran last.
#[derive(Debug)]
pub(crate) struct SimActivation {
    /// The color whose events the core runs, until its activation ends.
    pub(crate) color: u32,
    pub(crate) started_ns: u64,
    /// Expected time of the running activation.
    pub(crate) expected_ns: u64,
    /// The running activation's events are timed.
    pub(crate) is_timed: bool,
    /// Events that the running color may still run before other colors run.
    pub(crate) batch_left: usize,
    /// The part of those events that was queued when the activation began.
    pub(crate) queued_left: usize,
    /// When the running color would have left, had the color not stayed.
    pub(crate) stays_since_ns: Option<u64>,
    /// The next activation is timed in any case.
    pub(crate) times_next: bool,
}

/// The predecessors of the next event, which decide about warm caches.
#[derive(Debug)]
pub(crate) struct SimHistory {
    /// Number of the color that ran last.
    pub(crate) color_number: u64,
    /// The predecessor of the next event.
    pub(crate) after: RunAfter,
    /// The handler that ran last.
    pub(crate) handler: u16,
}

/// When the core polls its I/O and searches.
#[derive(Debug)]
pub(crate) struct SimPace {
    pub(crate) turn: Turn,
    /// When the core polled its I/O last.
    pub(crate) looked_ns: u64,
    /// How often colors that must stay run.
    pub(crate) fixed: FixedPace,
    /// The turn has lasted long enough; the core must poll.
    pub(crate) expired: bool,
}

/// The colors that wait on the core.
#[derive(Debug)]
pub(crate) struct SimReadyQueue {
    pub(crate) ready: Ready<u32>,
    /// Entries in a queue of order `Events`.
    pub(crate) entries: usize,
    /// Events of the colors whose tokens wait on this core.
    pub(crate) waiting_events: u64,
    /// The other cores to ask for their load, when a color would wait long.
    pub(crate) ask_order: AskOrder,
}

/// The color that follows the running activation outside of the queue.
#[derive(Debug, Default)]
pub(crate) struct SimLifoSlot {
    /// Whether a color that the running activation has woken on this core follows the activation.
    pub(crate) rule: LifoSlotRule,
    /// The color.
    pub(crate) kept: Option<u32>,
}

/// The numbers that other cores read.
#[derive(Debug, Default)]
pub(crate) struct SimHint {
    /// How long an activation and its successors hold back waiting colors, as a moving mean.
    pub(crate) activation_ns: u64,
    /// The delay since a color was last taken from the queue.
    held_back: HeldBack,
    /// The hint that other cores see if hints are stale, and when the hint was made.
    pub(crate) published: Cell<(u64, CoreLoad)>,
}

/// The search for work and the sleep.
#[derive(Debug, Default)]
pub(crate) struct SimIdleness {
    /// Time of interrupts that the core has yet to pay.
    pub(crate) debt_ns: u64,
    /// The core has just been woken.
    pub(crate) woken: bool,
    /// Failed searches since the last success.
    pub(crate) looked_in_vain: u32,
    /// When the core stops searching and sleeps.
    pub(crate) lingers_until_ns: u64,
    /// Since when the core has found no work.
    pub(crate) idle_since_ns: Option<u64>,
    pub(crate) wakes: u64,
}

/// The effects of faults on the core.
#[derive(Debug)]
pub(crate) struct SimCoreFaults {
    pub(crate) speed_percent: u32,
    pub(crate) paused_until_ns: u64,
    /// A fault has removed the core from the machine.
    pub(crate) is_gone: bool,
}

/// A core.
#[derive(Debug)]
pub(crate) struct SimCore {
    pub(crate) index: CoreIndex,
    pub(crate) phase: CorePhase,
    pub(crate) running: Option<RunningEvent>,
    pub(crate) activation: SimActivation,
    pub(crate) history: SimHistory,
    pub(crate) pace: SimPace,
    pub(crate) queue: SimReadyQueue,
    pub(crate) slot: SimLifoSlot,
    pub(crate) hint: SimHint,
    pub(crate) idleness: SimIdleness,
    pub(crate) faults: SimCoreFaults,
    pub(crate) counts: CoreCounts,
}

impl SimCore {
    pub(crate) fn new(index: CoreIndex, ready: Ready<u32>, turn: Turn, speed_percent: u32) -> Self {
        Self {
            index,
            phase: CorePhase::Parked { asleep_ns: 0 },
            running: None,
            activation: SimActivation {
                color: NONE,
                started_ns: 0,
                expected_ns: 0,
                is_timed: false,
                batch_left: 0,
                queued_left: 0,
                stays_since_ns: None,
                times_next: false,
            },
            history: SimHistory { color_number: u64::MAX, after: RunAfter::Others, handler: u16::MAX },
            pace: SimPace { turn, looked_ns: 0, fixed: FixedPace::default(), expired: false },
            queue: SimReadyQueue { ready, entries: 0, waiting_events: 0, ask_order: AskOrder::default() },
            slot: SimLifoSlot::default(),
            hint: SimHint::default(),
            idleness: SimIdleness::default(),
            faults: SimCoreFaults { speed_percent, paused_until_ns: 0, is_gone: false },
            counts: CoreCounts::default(),
        }
    }

    /// Whether the machine still has the core.
    pub(crate) fn is_there(&self) -> bool {
        !self.faults.is_gone
    }

    /// The core's present hint.
    pub(crate) fn core_load(&self) -> CoreLoad {
        let (waiting, stealable) = Self::queued(&self.queue.ready);
        CoreLoad {
            running_since_ns: self.running.map(|_| self.activation.started_ns),
            expected_ns: self.activation.expected_ns,
            activation_ns: self.hint.activation_ns,
            waiting,
            stealable,
        }
    }

    /// Number of colors in a core's queue, and of those that a thief may take.
    pub(crate) fn queued(ready: &Ready<u32>) -> (u32, u32) {
        (ready.waiting() as u32, ready.stealable() as u32)
    }

    /// Adds the time of an activation that has ended.
    pub(crate) fn observe_activation(&mut self, now_ns: u64) {
        let took_ns = match self.activation.is_timed {
            true => now_ns.saturating_sub(self.activation.started_ns),
            false => self.activation.expected_ns,
        };
        self.hint.held_back.add(took_ns, self.activation.is_timed);
    }

    /// Publishes the time of a color from the queue and all its successors. Also called when a
    /// color goes on while no color waits.
    pub(crate) fn publish_time(&mut self) {
        if let Some(took_ns) = self.hint.held_back.end() {
            self.hint.activation_ns = CoreLoad::smooth_ns(self.hint.activation_ns, took_ns);
        }
    }
}
