//! One virtual core: its current activity, its queues, and its counts so far.
//!
//! Owns the state; the steps are in `step.rs`, `search.rs` and `execute.rs`. The ready queue, the turn, the hint and the
//! sampler are the scheduler's own types.

use std::cell::Cell;

use vermeil_sched::{After, CoreIndex, Distance, Hint, Ready, Sampler, Succession, Turn};

/// How much a new activation weighs in the mean that a core publishes, as in the runtime: one part in so many.
const MEAN_WEIGHT: u64 = 16;

/// What a core does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Runs, searches or is between two events: its next step is on the clock.
    Awake,
    /// Sleeps since some time; a wake-up before it slept is noticed at once.
    Parked {
        /// When it will be (or has been) asleep.
        asleep_ns: u64,
    },
}

/// The event that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) event: u32,
    pub(crate) color: u32,
    pub(crate) started_ns: u64,
    pub(crate) ends_ns: u64,
    /// How far the color has come since its last event.
    pub(crate) cold: Option<Distance>,
    /// Requests found by a polling handler.
    pub(crate) found: u32,
}

/// A lock, as a time from which it is free. Whoever asks gets the next slot: first come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lock {
    pub(crate) free_ns: u64,
    pub(crate) holder: Option<CoreIndex>,
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) index: CoreIndex,
    pub(crate) phase: Phase,
    pub(crate) running: Option<Running>,
    pub(crate) activation_started_ns: u64,
    /// What the running activation was expected to take.
    pub(crate) activation_expected_ns: u64,
    /// The running activation's events are timed.
    pub(crate) is_timed: bool,
    /// Events the running color may still run before others, and those of them that were queued when the activation began.
    pub(crate) batch_left: usize,
    pub(crate) queued_left: usize,
    /// The color that ran last, by number, and what the next event runs after.
    pub(crate) ran_last: u64,
    pub(crate) after: After,
    /// When the running color would have gone first, had it not stayed.
    pub(crate) stays_since_ns: Option<u64>,
    /// The activation that comes is timed in any case.
    pub(crate) times_next: bool,
    /// When it looked at its I/O last.
    pub(crate) looked_ns: u64,
    /// The turn has lasted long enough.
    pub(crate) expired: bool,
    pub(crate) ready: Ready<u32>,
    /// Entries in a queue of order `Events`.
    pub(crate) entries: usize,
    /// Events of the colors whose tokens wait on this core.
    pub(crate) waiting_events: u64,
    pub(crate) turn: Turn,
    pub(crate) sampler: Sampler,
    /// What the activation that runs has woken here, if it is to follow.
    pub(crate) succession: Succession,
    pub(crate) kept: Option<u32>,
    /// What holds back those that wait, as a moving mean, for the hint; and what did since a color was taken from the queue, with
    /// whether any of it was timed.
    pub(crate) activation_ns: u64,
    held_back: (u64, bool),
    /// What others see when hints are stale.
    pub(crate) published: Cell<(u64, Hint)>,
    /// Interrupts to be paid for.
    pub(crate) debt_ns: u64,
    /// Has just been woken.
    pub(crate) woken: bool,
    pub(crate) last_handler: u16,
    /// Searches since one found something.
    pub(crate) looked_in_vain: u32,
    /// Until when it looks on before it sleeps.
    pub(crate) lingers_until_ns: u64,
    /// Since when it has found nothing to do.
    pub(crate) idle_since_ns: Option<u64>,
    pub(crate) speed_percent: u32,
    pub(crate) paused_until_ns: u64,
    /// Taken away from the machine.
    pub(crate) is_gone: bool,
    pub(crate) wakes: u64,
    pub(crate) counts: CoreCounts,
}

impl Core {
    pub(crate) fn new(index: CoreIndex, ready: Ready<u32>, turn: Turn, speed_percent: u32) -> Self {
        Self {
            index,
            phase: Phase::Parked { asleep_ns: 0 },
            running: None,
            activation_started_ns: 0,
            activation_expected_ns: 0,
            is_timed: false,
            batch_left: 0,
            queued_left: 0,
            ran_last: u64::MAX,
            after: After::Others,
            stays_since_ns: None,
            times_next: false,
            looked_ns: 0,
            expired: false,
            ready,
            entries: 0,
            waiting_events: 0,
            turn,
            sampler: Sampler::default(),
            succession: Succession::default(),
            kept: None,
            activation_ns: 0,
            held_back: (0, false),
            published: Cell::default(),
            debt_ns: 0,
            woken: false,
            last_handler: u16::MAX,
            looked_in_vain: 0,
            lingers_until_ns: 0,
            idle_since_ns: None,
            speed_percent,
            paused_until_ns: 0,
            is_gone: false,
            wakes: 0,
            counts: CoreCounts::default(),
        }
    }

    /// Whether the machine still has it.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_gone
    }

    /// What the core says about itself.
    pub(crate) fn hint(&self) -> Hint {
        let (waiting, stealable) = Self::queued(&self.ready);
        Hint {
            running_since_ns: self.running.map(|_| self.activation_started_ns),
            expected_ns: self.activation_expected_ns,
            activation_ns: self.activation_ns,
            waiting,
            stealable,
        }
    }

    /// Colors that wait in a core's queue, and those of them that a thief may take.
    pub(crate) fn queued(ready: &Ready<u32>) -> (u32, u32) {
        (ready.len().max(usize::from(ready.has_work())) as u32, ready.stealable() as u32)
    }

    /// An activation has ended.
    pub(crate) fn observe_activation(&mut self, now_ns: u64) {
        let took_ns = match self.is_timed {
            true => now_ns.saturating_sub(self.activation_started_ns),
            false => self.activation_expected_ns,
        };
        let (sum_ns, was_timed) = self.held_back;
        self.held_back = (sum_ns + took_ns, was_timed || self.is_timed);
    }

    /// What was taken from the queue has run, and all that followed it; or goes on and holds nobody back.
    pub(crate) fn publish_time(&mut self) {
        if let (took_ns, true) = std::mem::take(&mut self.held_back) {
            self.activation_ns = (self.activation_ns * (MEAN_WEIGHT - 1) + took_ns) / MEAN_WEIGHT;
        }
    }
}

/// What a core has done since counting began. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct CoreCounts {
    /// Events run.
    pub events: u64,
    /// Running handlers.
    pub busy_ns: u64,
    /// Of that, base cycles without waiting for memory.
    pub base_ns: u64,
    /// Looking for work, successfully or not.
    pub search_ns: u64,
    /// Waiting for locks.
    pub lock_ns: u64,
    /// Asleep, and going there.
    pub idle_ns: u64,
    /// Colors taken from others.
    pub steals: u64,
    /// Time that took, the search included.
    pub steal_ns: u64,
    /// Run time of the events that were queued when their color was stolen.
    pub stolen_work_ns: u64,
    /// Searches that found nothing.
    pub vain_searches: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Times it woke a core.
    pub wakes: u64,
    /// Events that ran on another core than their color's last.
    pub cold_runs: u64,
    /// Cache lines of queues, locks and colors that came from beyond the core's caches, in thousandths.
    pub runtime_lines_milli: u64,
}
