//! What the cores of one runtime share, and the handle through which others reach it.
//!
//! Per core: the ready queue, the parking word, the wake-up, the task registry and the counters, each on lines of its
//! own. Counters have one writer (the core); snapshots add them up.

use crate::{
    blocking::Pool,
    builder::Limits,
    color::Color,
    core::is_current,
    handler::{HandlerCounters, HandlerSnapshot, Handlers},
    task::Registry,
};
use crossbeam_utils::CachePadded;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use vermeil_io::Unparker;
use vermeil_queue::{Parking, ReadyQueue, Token};
use vermeil_sched::{CoreIndex, Placement, Policy, TurnLimits};

pub(crate) struct Shared {
    pub(crate) cores: Box<[CachePadded<CoreShared>]>,
    pub(crate) limits: Limits,
    pub(crate) turn: TurnLimits,
    pub(crate) policy: Policy,
    pub(crate) handlers: Handlers,
    pub(crate) blocking: Pool,
    pub(crate) stopping: AtomicBool,
    /// Colors made; the policy places by their numbers.
    colors: AtomicU64,
}

/// What the others may touch of a core.
pub(crate) struct CoreShared {
    pub(crate) cpu: usize,
    pub(crate) ready: ReadyQueue,
    pub(crate) parking: CachePadded<Parking>,
    pub(crate) tasks: Registry,
    /// Handler events posted to colors of this core and not yet run.
    pub(crate) queued: CachePadded<AtomicUsize>,
    pub(crate) counters: CachePadded<CoreCounters>,
    pub(crate) handlers: Box<[HandlerCounters]>,
    pub(crate) unparker: OnceLock<Unparker>,
    pub(crate) io: OnceLock<String>,
}

/// Written by the core alone.
#[derive(Default)]
pub(crate) struct CoreCounters {
    pub(crate) activations: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) completions: AtomicU64,
    pub(crate) driver_errors: AtomicU64,
}

/// Adds to a counter that only the calling core writes.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Shared {
    pub(crate) fn new(
        cpus: &[usize],
        limits: Limits,
        turn: TurnLimits,
        policy: Policy,
        pool: Pool,
    ) -> Arc<Self> {
        let core = |cpu: &usize| {
            CachePadded::new(CoreShared {
                cpu: *cpu,
                ready: ReadyQueue::default(),
                parking: CachePadded::default(),
                tasks: Registry::default(),
                queued: CachePadded::default(),
                counters: CachePadded::default(),
                handlers: (0..limits.handlers).map(|_| HandlerCounters::default()).collect(),
                unparker: OnceLock::new(),
                io: OnceLock::new(),
            })
        };
        Arc::new(Self {
            cores: cpus.iter().map(core).collect(),
            handlers: Handlers::new(limits.handlers),
            limits,
            turn,
            policy,
            blocking: pool,
            stopping: AtomicBool::new(false),
            colors: AtomicU64::new(0),
        })
    }

    pub(crate) fn core(&self, index: u32) -> &CoreShared {
        &self.cores[index as usize]
    }

    /// Puts a token into its core's ready queue and wakes the core if it sleeps.
    pub(crate) fn schedule(&self, token: Token) {
        let index = token.color().core();
        let core = self.core(index);
        core.ready.push(token);
        if !is_current(self, index) && core.parking.must_wake() {
            core.unpark();
        }
    }

    pub(crate) fn unpark_all(&self) {
        for core in &self.cores {
            core.unpark();
        }
    }

    fn new_color(self: &Arc<Self>, placement: &Placement) -> Color {
        // Not the color's name: those are the process's, and another runtime's would unbalance this one's placement.
        let number = self.colors.fetch_add(1, Ordering::Relaxed) + 1;
        let core = self.policy.place(number, placement, None, self.cores.len());
        Color::new(core, self.clone())
    }
}

impl CoreShared {
    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}

/// Reaches a runtime from anywhere; cheap to clone. Outliving the runtime does no harm: what is posted then waits for
/// ever and is dropped with its color.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// A new color, placed by the policy.
    pub fn color(&self) -> Color {
        self.shared.new_color(&Placement::Any)
    }

    /// A new color that lives on `core`.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn color_on(&self, core: CoreIndex) -> Color {
        self.shared.new_color(&Placement::Core(core))
    }

    /// The cores of the runtime.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = CoreIndex> + use<> {
        (0..self.shared.cores.len() as u32).map(CoreIndex)
    }

    /// Counters as they are now; each is exact, together they are not of one instant.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cores = self.shared.cores.iter().map(|core| CoreSnapshot {
            cpu: core.cpu,
            io: core.io.get().cloned().unwrap_or_default(),
            tasks: core.tasks.len(),
            ready_colors: core.ready.len(),
            queued_events: core.queued.load(Ordering::Relaxed),
            activations: get(&core.counters.activations),
            events: get(&core.counters.events),
            panics: get(&core.counters.panics),
            polls: get(&core.counters.polls),
            parks: get(&core.counters.parks),
            completions: get(&core.counters.completions),
            driver_errors: get(&core.counters.driver_errors),
        });
        Snapshot { cores: cores.collect(), handlers: self.handler_snapshots() }
    }

    fn handler_snapshots(&self) -> Vec<HandlerSnapshot> {
        let names = self.shared.handlers.names();
        names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let sum = |of: fn(&HandlerCounters) -> &AtomicU64| {
                    self.shared
                        .cores
                        .iter()
                        .map(|core| of(&core.handlers[index]).load(Ordering::Relaxed))
                        .sum()
                };
                HandlerSnapshot { name: name.clone(), runs: sum(|c| &c.runs), panics: sum(|c| &c.panics) }
            })
            .collect()
    }
}

/// The runtime's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// One entry per core, in order.
    pub cores: Vec<CoreSnapshot>,
    /// One entry per handler, in order of registration.
    pub handlers: Vec<HandlerSnapshot>,
}

/// One core's counters. Counts are since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSnapshot {
    /// Cpu the core is pinned to.
    pub cpu: usize,
    /// The driver's description of itself.
    pub io: String,
    /// Tasks alive.
    pub tasks: usize,
    /// Colors waiting in the ready queue.
    pub ready_colors: usize,
    /// Handler events posted and not yet run.
    pub queued_events: usize,
    /// Times a color was taken up.
    pub activations: u64,
    /// Events run.
    pub events: u64,
    /// Events that panicked.
    pub panics: u64,
    /// Looks at I/O without waiting.
    pub polls: u64,
    /// Waits for I/O, timers or a wake-up.
    pub parks: u64,
    /// I/O completions taken in.
    pub completions: u64,
    /// Turns in which the driver failed as a whole.
    pub driver_errors: u64,
}
