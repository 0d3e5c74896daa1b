//! A core: one pinned thread with a driver, timers and a ready queue, and its loop.
//!
//! The loop asks the scheduler what to do next and does it. What belongs to the thread alone lives in `Core`, reached
//! through a thread-local by the tasks and handlers that run there. Leaves out every decision (`vermeil-sched`) and
//! every lock-free step (`vermeil-queue`).

use crate::{
    shared::{CoreShared, Shared, add},
    timers::Timers,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil_io::Driver;
use vermeil_queue::Activation;
use vermeil_sched::{CoreIndex, Seen, Step, Turn};

/// A core among all that the process ever has: what belongs to a driver or a timer queue is reached through it, since
/// another runtime has a core of the same index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home(u64);

/// What a core's thread owns.
pub(crate) struct Core {
    pub(crate) index: CoreIndex,
    pub(crate) home: Home,
    pub(crate) shared: Arc<Shared>,
    pub(crate) driver: RefCell<Driver>,
    pub(crate) timers: RefCell<Timers>,
    epoch: Instant,
    now_ns: Cell<u64>,
    /// A task has noticed that this turn has lasted long enough.
    expired: Cell<bool>,
}

thread_local! {
    static CORE: OnceCell<Core> = const { OnceCell::new() };
}

/// How long a turn may last when its tasks yield. Longer ones hold back everybody else's I/O.
const TURN: Duration = Duration::from_millis(1);

/// Longest wait after a driver failed as a whole, before it is tried again.
const DRIVER_RETRY: Duration = Duration::from_millis(10);

/// The core whose thread this is.
pub(crate) fn current<R>(f: impl FnOnce(&Core) -> R) -> Option<R> {
    // A destructor that runs while the thread ends finds no core.
    CORE.try_with(|core| core.get().map(f)).ok().flatten()
}

/// Whether this thread is core `index` of that runtime.
pub(crate) fn is_current(shared: &Shared, index: u32) -> bool {
    current(|core| core.index.0 == index && std::ptr::eq(&*core.shared, shared)).unwrap_or(false)
}

/// Index of the core whose thread this is, if it is one.
pub fn core_index() -> Option<CoreIndex> {
    current(|core| core.index)
}

/// Milliseconds on the runtime's clock, as of this core's last look at it (once per turn: free to ask).
///
/// # Panics
/// Off a core.
pub fn now_ms() -> u64 {
    current(Core::now_ns).expect("the runtime's clock is read on a core") / 1_000_000
}

impl Core {
    pub(crate) fn new(index: CoreIndex, shared: Arc<Shared>, driver: Driver, epoch: Instant) -> Self {
        static CORES: AtomicU64 = AtomicU64::new(0);
        Self {
            index,
            home: Home(CORES.fetch_add(1, Ordering::Relaxed)),
            shared,
            driver: RefCell::new(driver),
            timers: RefCell::default(),
            epoch,
            now_ns: Cell::new(0),
            expired: Cell::new(false),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn mine(&self) -> &CoreShared {
        self.shared.core(self.index.0)
    }

    /// Makes this thread the core and runs it until the runtime stops.
    pub(crate) fn run(self) {
        CORE.with(|cell| {
            let core = cell.get_or_init(|| self);
            core.read_clock();
            core.turns();
        });
    }

    fn turns(&self) {
        let mut turn = Turn::new(self.shared.turn);
        loop {
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            match turn.next(Seen { ready: self.mine().ready.len(), stopping }) {
                Step::Run { batch } => {
                    turn.ran(self.run_color(batch));
                    if self.expired.take() {
                        turn.expire();
                    }
                }
                Step::Poll => {
                    add(&self.mine().counters.polls, 1);
                    self.io(Some(Duration::ZERO));
                    turn.polled();
                }
                Step::Park => {
                    self.park();
                    turn.polled();
                }
                Step::Stop if self.mine().tasks.cancel_all() == 0 => return,
                // What was cancelled is queued: run it to its end.
                Step::Stop => turn.polled(),
            }
        }
    }

    fn run_color(&self, batch: usize) -> usize {
        let mine = self.mine();
        let Some(token) = mine.ready.pop() else { return 0 };
        let (ran, next) = token.run(batch);
        if let Activation::Again(token) = next {
            mine.ready.push(token);
        }
        add(&mine.counters.activations, 1);
        add(&mine.counters.events, ran.events as u64);
        if ran.panics > 0 {
            add(&mine.counters.panics, ran.panics as u64);
        }
        ran.events
    }

    fn park(&self) {
        let mine = self.mine();
        let sleep = mine.parking.announce();
        // Work that came between the last look and the announcement: see the argument in the queue's PROTOCOL.md.
        let work = !mine.ready.is_empty() || self.shared.stopping.load(Ordering::Acquire);
        let timeout = if work { Some(Duration::ZERO) } else { self.until_next_timer() };
        self.io(timeout);
        mine.parking.awake(sleep);
        add(&mine.counters.parks, 1);
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let next_ns = self.timers.borrow().next_ns()?;
        self.read_clock();
        Some(Duration::from_nanos(next_ns.saturating_sub(self.now_ns())))
    }

    fn io(&self, timeout: Option<Duration>) {
        let turned = self.driver.borrow_mut().turn(timeout);
        match turned {
            Ok(completions) => add(&self.mine().counters.completions, completions as u64),
            Err(_) => {
                // Counted, and not retried at full speed: a driver that fails at once must not spin.
                add(&self.mine().counters.driver_errors, 1);
                std::thread::sleep(DRIVER_RETRY);
            }
        }
        self.read_clock();
        self.timers.borrow_mut().fire(self.now_ns());
    }

    /// Ends the turn if it has lasted longer than it should; for tasks that do long work in parts.
    pub(crate) fn expire_long_turn(&self) {
        let lasted = self.epoch.elapsed().saturating_sub(Duration::from_nanos(self.now_ns()));
        self.expired.set(self.expired.get() || lasted > TURN);
    }

    fn read_clock(&self) {
        self.now_ns.set(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}
