//! Starting a runtime: its description, and the start of its cores. Leaves out the end:
//! `runtime.rs`.

use crate::{
    blocking_pool::BlockingPool,
    control_state::RuntimeControl,
    core::{Core, core_index},
    error::StartError,
    handlers::handlers_max,
    limits::Limits,
    runtime::{Runtime, Threads},
    settings::RuntimeSettings,
    shared::{CorePages, RuntimeSetup, RuntimeShared},
    stamps::Noting,
};
use rustc_hash::FxHashSet;
use std::{
    io,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::Ordering,
        mpsc::{self, Sender},
    },
    time::Instant,
};
use vermeil_io::{
    Driver, DriverOptions, LoadPage, WorkPage, allow_current_thread, current_affinity, pin_current_thread,
    run_in_idle_time,
};
use vermeil_sched::{Class, CoreIndex, Distance, Layout, Observe, Policy, TurnLimits, control::TrialOptions};
use vermeil_topology::{CpuId, sysfs};

/// The treatment of a core whose cpu is not available: offline, or outside the cpuset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pinning {
    /// The runtime does not start.
    #[default]
    Required,
    /// The core runs wherever its thread may run, and can be pinned individually later.
    WherePossible,
    /// As `Required`, and several cores may be pinned to the same cpu: for tests with more cores
    /// than the machine has.
    Shared,
    /// Every core runs on any of the cpus, in the time that no other thread wants (the kernel's
    /// class `SCHED_IDLE`). Their threads are called `vermeil-idle-0` and so on. For long events
    /// beside the cores of another runtime.
    InIdleTime,
}

impl Pinning {
    /// The name of a core's thread.
    fn thread_name(self, core: CoreIndex) -> String {
        match self {
            Self::InIdleTime => format!("vermeil-idle-{}", core.0),
            Self::Required | Self::WherePossible | Self::Shared => format!("vermeil-{}", core.0),
        }
    }
}

/// The threads of the cores.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadOptions {
    pinning: Pinning,
    /// Called first by each thread.
    start: Option<fn()>,
}

/// Describes a runtime before it starts.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    cpus: Option<Vec<usize>>,
    threads: ThreadOptions,
    io: DriverOptions,
    policy: Policy,
    trial: TrialOptions,
    layout: Option<Layout>,
    board: Option<Arc<LoadPage>>,
    work: Option<Arc<WorkPage>>,
    turn: TurnLimits,
    limits: Limits,
    classes: Vec<Class>,
    noting: Noting,
}

impl Runtime {
    /// Starts describing a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// The cpus to run on, a core for each cpu, in this order. Default: every cpu this process may
    /// use.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// The treatment of a core whose cpu is not available. Default: the runtime does not start.
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.threads.pinning = pinning;
        self
    }

    /// A function that each core's thread calls first, before the thread is pinned or gets the idle
    /// class of the kernel. For work under a lock that other threads need: a thread of the idle
    /// class may keep a lock for seconds.
    pub fn on_thread_start(mut self, start: fn()) -> Self {
        self.threads.start = Some(start);
        self
    }

    /// The I/O drivers' options.
    pub fn io(mut self, io: DriverOptions) -> Self {
        self.io = io;
        self
    }

    /// How colors find their cores.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How policy `trial` tries plans: how long each plan is tried, and how much extra cache cost
    /// is allowed. Other policies ignore the options.
    pub fn trial(mut self, trial: TrialOptions) -> Self {
        self.trial = trial;
        self
    }

    /// The distances between the cores, for the policy. Default: as `/sys` describes the cpus.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// The boards on which cores publish their activity; at least as many boards as cores. Default:
    /// memory of this process.
    pub fn board(mut self, board: Arc<LoadPage>) -> Self {
        self.board = Some(board);
        self
    }

    /// The page on which each core shows profilers the events that it has run; at least as many
    /// blocks as cores. Default: none.
    pub fn work(mut self, work: Arc<WorkPage>) -> Self {
        self.work = Some(work);
        self
    }

    /// How long a core runs events before it looks at I/O.
    pub fn turn(mut self, turn: TurnLimits) -> Self {
        self.turn = turn;
        self
    }

    /// The bounds of the runtime.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Classes for handlers ([`Spec::class`](crate::Spec::class)), beside the default class, which
    /// has [`Class::SHARES`]: at most [`CLASSES_MAX`](crate::CLASSES_MAX) in all. Default: none,
    /// and no time is measured for the division. Policy `libasync` runs events in the order of
    /// their posting, whatever their class.
    pub fn classes(mut self, classes: impl IntoIterator<Item = Class>) -> Self {
        self.classes = classes.into_iter().collect();
        self
    }

    /// The share of runs that is observed for the histograms of
    /// [`Handle::snapshot`](crate::Handle::snapshot). Default: as many as cost at most 1 % of the
    /// time.
    pub fn observe(mut self, observe: Observe) -> Self {
        self.noting.observe = observe;
        self
    }

    /// Keeps the last events that ran on each core, at most `events_per_core`, for
    /// [`Handle::recording`](crate::Handle::recording). Each event costs 32 bytes and two clock
    /// readings. Default: none.
    pub fn record(mut self, events_per_core: usize) -> Self {
        self.noting.record = events_per_core;
        self
    }

    /// Makes the cores count an event that every machine supports, in place of cache misses.
    #[cfg(test)]
    pub(crate) fn counted(mut self, counted: vermeil_io::CountedEvent) -> Self {
        self.noting.counted = counted;
        self
    }

    /// Starts the cores, and returns once every core runs.
    ///
    /// # Errors
    /// [`StartError`] if the system refused a thread, its pinning or its driver, or if the
    /// description is invalid. No thread is left running then. Also on a core of another runtime,
    /// because the wait would block that core.
    ///
    /// # Panics
    /// If there are more classes than [`CLASSES_MAX`](crate::CLASSES_MAX), or if a
    /// [`board`](Self::board) or a page of [`work`](Self::work) has too few entries.
    #[track_caller]
    pub fn build(self) -> Result<Runtime, StartError> {
        if core_index().is_some() {
            return Err(StartError::OnCore);
        }
        let allowed = current_affinity();
        let cpus = self.cpus.unwrap_or_else(|| allowed.clone());
        if cpus.is_empty() {
            return Err(StartError::NoCores);
        }
        if self.threads.pinning != Pinning::Shared
            && let Some(cpu) = given_twice(&cpus)
        {
            return Err(StartError::CpuTwice { cpu });
        }
        let pool =
            BlockingPool::new(self.limits.blocking_threads.max(1), self.limits.blocking_queue, allowed);
        let layout = self.layout.unwrap_or_else(|| layout_of(&cpus));
        if layout.cores() != cpus.len() {
            return Err(StartError::Layout { cores: cpus.len(), described: layout.cores() });
        }
        let board = self.board.clone().unwrap_or_else(|| Arc::new(LoadPage::private(cpus.len())));
        assert!(board.len() >= cpus.len(), "a board for each core");
        let work = self.work.clone();
        assert!(work.as_ref().is_none_or(|work| work.cores().len() >= cpus.len()), "a block for each core");
        self.trial.check().map_err(|error| StartError::Trial { reason: error.to_string() })?;
        let control =
            RuntimeControl::new(&self.policy, self.trial, &layout, handlers_max(self.limits.handlers))?;
        let Self { limits, turn, policy, classes, noting, .. } = self;
        let (stealing, divides) = (policy.stealing(), !classes.is_empty());
        let scatters = policy.scatters();
        let settings = RuntimeSettings { limits, turn, policy, stealing, scatters, divides, layout, noting };
        let setup = RuntimeSetup { settings, control, classes, pool, pages: CorePages { board, work } };
        let shared = RuntimeShared::new(&cpus, setup);
        let mut threads = Threads::default();
        let (started, starts) = mpsc::channel();
        let mut refused = None;
        let epoch = clock_zero();
        for (index, &cpu) in cpus.iter().enumerate() {
            let index = CoreIndex(index as u32);
            let (shared, options, started) = (shared.clone(), self.io.clone(), started.clone());
            let place = ThreadPlace { cpu, options: self.threads, all: cpus.clone() };
            let begun =
                threads.begin(index, self.threads.pinning.thread_name(index), shared.clone(), move || {
                    start(index, &place, shared, &options, epoch, started);
                });
            if let Err(source) = begun {
                refused = Some(StartError::Thread { core: index.0, cpu, source });
                break;
            }
        }
        drop(started);
        // Cores wait for each other, so a core that never began counts as stopped.
        for core in &shared.cores[threads.len()..] {
            core.stopped.store(true, Ordering::Release);
        }
        let runtime = Runtime::new(shared, threads);
        // Ends when every core has started, failed or panicked. The builder waits for all cores
        // even if a thread was refused: a core that is still starting has no unparker yet, so the
        // order to stop could miss that core.
        let starts: Vec<_> = starts.iter().collect();
        let panicked = starts.len() < runtime.threads();
        // If any core failed, dropping the runtime stops the other cores.
        starts.into_iter().collect::<Result<(), _>>()?;
        match refused {
            Some(error) => Err(error),
            None if panicked => Err(StartError::Panicked),
            None => Ok(runtime),
        }
    }
}

/// Zero of the clock of all runtimes of this process. A sleep may go from one runtime to another,
/// so their clocks are the same.
fn clock_zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// The first cpu that occurs more than once.
fn given_twice(cpus: &[usize]) -> Option<usize> {
    let mut seen = FxHashSet::default();
    cpus.iter().copied().find(|cpu| !seen.insert(*cpu))
}

/// The layout of cores on these cpus, as `/sys` describes the machine. If `/sys` cannot be read,
/// all cores are equally near.
fn layout_of(cpus: &[usize]) -> Layout {
    let ids: Option<Vec<_>> = cpus.iter().map(|&cpu| u32::try_from(cpu).ok().map(CpuId)).collect();
    let machine = sysfs::read(Path::new("/")).ok();
    let layout = machine.zip(ids).and_then(|(machine, ids)| Layout::from_machine(&machine, &ids).ok());
    layout.unwrap_or_else(|| {
        let distance = |a, b| if a == b { Distance::Same } else { Distance::L3 };
        let matrix: Vec<Vec<_>> =
            (0..cpus.len()).map(|a| (0..cpus.len()).map(|b| distance(a, b)).collect()).collect();
        Layout::from_matrix(&matrix).expect("a matrix of equals is a layout")
    })
}

/// Where the thread of a core may run.
struct ThreadPlace {
    cpu: usize,
    options: ThreadOptions,
    /// The cpus of all cores.
    all: Vec<usize>,
}

impl ThreadPlace {
    /// Moves the calling thread there.
    fn take(&self) -> io::Result<()> {
        let ThreadOptions { pinning, start } = self.options;
        if let Some(start) = start {
            start();
        }
        if pinning == Pinning::InIdleTime {
            allow_current_thread(&self.all)?;
            return run_in_idle_time();
        }
        match pin_current_thread(self.cpu) {
            Err(source)
                if source.kind() == io::ErrorKind::InvalidInput && pinning == Pinning::WherePossible =>
            {
                Ok(())
            }
            pinned => pinned,
        }
    }
}

/// A core's thread, from its start to its end. `started` receives the result of the start and is
/// dropped then.
fn start(
    index: CoreIndex,
    place: &ThreadPlace,
    shared: Arc<RuntimeShared>,
    options: &DriverOptions,
    epoch: Instant,
    started: Sender<Result<(), StartError>>,
) {
    let taken = place.take();
    let driver = taken
        .map_err(|source| StartError::Pin { core: index.0, cpu: place.cpu, source })
        .and_then(|()| Driver::new(options).map_err(|source| StartError::Driver { core: index.0, source }));
    let driver = match driver {
        Ok(driver) => driver,
        Err(error) => return started.send(Err(error)).expect("the builder waits for every core"),
    };
    let mine = shared.core(index.0);
    let fresh = mine.unparker.set(driver.unparker()).is_ok()
        && mine.facts.io.set(driver.description().to_owned()).is_ok();
    assert!(fresh, "a core starts once");
    started.send(Ok(())).expect("the builder waits for every core");
    drop(started);
    Core::new(index, shared, driver, epoch).run();
}
