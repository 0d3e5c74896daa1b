//! A core: a pinned thread with a driver, timers and a ready queue, and its loop.
//!
//! The loop asks the scheduler for the next step and carries out the step. `Core` holds the state
//! of the thread; the tasks and handlers on the thread reach `Core` through a thread-local. Leaves
//! out every decision (`vermeil-sched`) and every lock-free step (`vermeil-queue`). The run of a
//! color: `core/batch_run.rs`.

mod batch_run;

use crate::{
    acquisition::RuntimeAcquire,
    code::KnownCodes,
    color::Color,
    color_meta::ColorMeta,
    control_state::CoreCounting,
    costs::Learner,
    counters::add,
    home_core::{DetachRequest, HomeCore},
    kind_table::KnownKinds,
    pace::CorePace,
    perf_counters::PerfCounters,
    runtime_ref::RuntimeRef,
    shared::{CoreShared, RuntimeShared},
    stamps::Stamping,
    timers::Timers,
};
use rustc_hash::FxHashMap;
use std::{
    cell::{Cell, RefCell},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use vermeil_io::{CoreLoadPage, Driver, ObjectKey, monotonic_ns};
use vermeil_queue::{ColorId, DriverCore as _, ScopedTls, StealBatch};
use vermeil_sched::{
    CoreIndex, HandlerIndex, LifoSlotRule, RunAfter, STEAL_BATCH_MAX, TURN_NS, Turn, TurnStep, TurnView,
};

/// The state that only a core's thread accesses.
pub(crate) struct Core {
    pub(crate) index: CoreIndex,
    pub(crate) home: HomeCore,
    pub(crate) shared: Arc<RuntimeShared>,
    /// The lease of this core, which counts the parts in the runtime that were taken here.
    pub(crate) share: RuntimeRef,
    pub(crate) driver: RefCell<Driver>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) learner: RefCell<Learner>,
    pub(crate) perf_counters: PerfCounters,
    pub(crate) counting: RefCell<CoreCounting>,
    pub(crate) stamping: Stamping,
    pub(crate) kinds: KnownKinds,
    pub(crate) codes: KnownCodes,
    /// Whether a color runs that must stay on this core.
    pub(crate) runs_fixed_color: Cell<bool>,
    /// Objects that leave the driver for another core, until their last completions.
    pub(crate) detaching: RefCell<FxHashMap<ObjectKey, DetachRequest>>,
    /// The running event waits for a socket of another core, so its time says nothing about its
    /// cost.
    asks_for_socket: Cell<bool>,
    /// Ready answers that the running event may still get from its waits.
    pub(crate) budget: Cell<u32>,
    /// The acquisition for which the running event holds its color.
    pub(crate) acquisition: RefCell<Option<Arc<RuntimeAcquire>>>,
    /// Handler of the color's first event, which lacks a slot; the color has just run.
    needs_slot: Cell<Option<HandlerIndex>>,
    /// The color on which the running task wants to continue.
    pub(crate) hop: RefCell<Option<Color>>,
    /// Another thread has woken the core, and since then the core has neither run an event nor
    /// searched.
    pub(crate) called: Cell<bool>,
    /// The core has slept, and has run no event since.
    pub(crate) slept: Cell<bool>,
    /// Failed searches since the last success.
    pub(crate) looked_in_vain: Cell<u32>,
    pub(crate) steal_batch: RefCell<StealBatch<ColorMeta>>,
    /// The colors that the running activation has woken here and that may run next.
    pub(crate) lifo_slot_rule: Cell<LifoSlotRule>,
    /// The last reading of the measuring clock.
    measured_ns: Cell<u64>,
    /// Duration of the last activation, if each activation is measured.
    took_ns: Cell<u64>,
    /// Time that colors behind the taken color had to wait since the color was taken from the
    /// queue, and whether a part of that time was measured.
    held_back: Cell<(u64, bool)>,
    /// The color that ran last, and whether the next event follows an event of the same color.
    ran_last: Cell<Option<ColorId>>,
    after: Cell<RunAfter>,
    /// Whether the events of the last activation were timed, and whether the events of the next
    /// must be.
    timed: Cell<bool>,
    times_next: Cell<bool>,
    /// Time since the last color was taken up, to charge to that color's class.
    spent_ns: Cell<u64>,
    /// Time of the last look at I/O, on the same clock.
    looked_ns: Cell<u64>,
    pace: CorePace,
    epoch: Instant,
    /// The boards' clock at the epoch.
    epoch_board_ns: u64,
    now_ns: Cell<u64>,
    /// A task has noticed that this turn has lasted long enough.
    expired: Cell<bool>,
    /// A task of the running color lets other colors run before the task continues.
    yields: Cell<bool>,
}

/// Ready answers that the waits of an event give before the event must let other colors run
/// (`budget.rs`). Guess: as many as tokio allows.
pub(crate) const BUDGET: u32 = 128;

thread_local! {
    static CORE: ScopedTls<Core> = const { ScopedTls::unset() };
}

/// Longest wait after a failure of the whole driver, before the next attempt.
const DRIVER_RETRY: Duration = Duration::from_millis(10);

/// The measuring clock's rate is wrong by less than one part in this number
/// ([`vermeil_io::Clock`]).
const CLOCK_ERROR_PART: u64 = 16_384;

/// How long a core without work waits for tasks that other cores still cancel, before the next
/// look.
const STOPPING_LOOK: Duration = Duration::from_millis(1);

/// Runs `f` with the core of this thread. Called several times for each event: inlined, because
/// otherwise the calls of the closures would cost more than their work.
#[inline(always)]
pub(crate) fn current<R>(f: impl FnOnce(&Core) -> R) -> Option<R> {
    ScopedTls::with(&CORE, |core| core.map(f))
}

/// As [`current`], if the core belongs to that runtime: indices of another runtime's cores and
/// handlers mean nothing here.
#[inline(always)]
pub(crate) fn current_of<R>(shared: &RuntimeShared, f: impl FnOnce(&Core) -> R) -> Option<R> {
    current(|core| std::ptr::eq(&*core.shared, shared).then(|| f(core))).flatten()
}

/// Index of this thread's core, if this thread is a core.
pub fn core_index() -> Option<CoreIndex> {
    current(|core| core.index)
}

/// Milliseconds on the runtime's clock at this core's last reading (once per turn, so the call
/// costs nothing).
///
/// # Panics
/// Off a core.
#[track_caller]
pub fn now_ms() -> u64 {
    current(Core::now_ns).expect("the runtime's clock is read on a core: in a task or a handler") / 1_000_000
}

impl Drop for Core {
    fn drop(&mut self) {
        self.home.end();
    }
}

impl Core {
    pub(crate) fn new(index: CoreIndex, shared: Arc<RuntimeShared>, driver: Driver, epoch: Instant) -> Self {
        Self {
            index,
            home: HomeCore::new(index, driver.unparker()),
            learner: RefCell::new(Learner::new(shared.stealing)),
            perf_counters: PerfCounters::default(),
            counting: RefCell::default(),
            stamping: Stamping::new(),
            kinds: KnownKinds::default(),
            codes: KnownCodes::default(),
            took_ns: Cell::new(0),
            held_back: Cell::default(),
            ran_last: Cell::default(),
            after: Cell::new(RunAfter::Others),
            timed: Cell::default(),
            times_next: Cell::default(),
            spent_ns: Cell::new(0),
            detaching: RefCell::default(),
            asks_for_socket: Cell::new(false),
            budget: Cell::new(BUDGET),
            acquisition: RefCell::default(),
            needs_slot: Cell::new(None),
            hop: RefCell::default(),
            called: Cell::new(false),
            slept: Cell::new(false),
            looked_in_vain: Cell::new(0),
            steal_batch: RefCell::new(StealBatch::new(index.0, STEAL_BATCH_MAX)),
            runs_fixed_color: Cell::default(),
            lifo_slot_rule: Cell::default(),
            measured_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            share: RuntimeRef::new(shared.clone()),
            shared,
            driver: RefCell::new(driver),
            timers: RefCell::default(),
            pace: CorePace::default(),
            epoch,
            epoch_board_ns: monotonic_ns().saturating_sub(epoch.elapsed().as_nanos() as u64),
            now_ns: Cell::new(0),
            expired: Cell::new(false),
            yields: Cell::new(false),
        }
    }

    /// Time of the last look at I/O and timers, since the core's start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// The current time on the scale of [`now_ns`](Self::now_ns), also within a long event. The
    /// result errs to the late side, by the possible error of the measuring clock's rate.
    pub(crate) fn right_now_ns(&self) -> u64 {
        let since_ns = self.shared.clock.now_ns().saturating_sub(self.looked_ns.get());
        self.now_ns() + since_ns + since_ns / CLOCK_ERROR_PART
    }

    pub(crate) fn mine(&self) -> &CoreShared {
        self.shared.core(self.index.0)
    }

    fn board(&self) -> &CoreLoadPage {
        self.shared.board.core(self.index.0 as usize)
    }

    /// Makes this thread the core and runs it until the runtime stops.
    pub(crate) fn run(self) {
        self.read_clocks();
        // From the first event on, because the core may be stuck in the first event.
        self.board().begin_work(self.epoch_board_ns + self.now_ns(), 0);
        ScopedTls::set_during(&CORE, &self, || self.turns());
    }

    /// Shows that the core is alive during a long piece of work.
    fn note_progress(&self) {
        self.board().begin_work(self.epoch_board_ns + self.now_ns(), 0);
    }

    /// The number of this core in the process.
    #[inline]
    pub(crate) fn home_number(&self) -> u64 {
        self.home.number()
    }

    /// The running event waits for a socket of another core.
    pub(crate) fn note_asks_for_socket(&self) {
        self.asks_for_socket.set(true);
    }

    fn turns(&self) {
        let mut turn = Turn::new(self.shared.turn, self.shared.stealing);
        loop {
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            self.attend_control();
            self.attend_batch_waits(stopping);
            match turn.next(TurnView { ready: self.mine().ready.len(), stopping }) {
                TurnStep::Run { batch, left } => {
                    if self.called.take() {
                        // The core may have been woken as a thief and does not search now, so other
                        // cores may search.
                        self.shared.idle_coordinator(self.index).end_search();
                    }
                    self.pass_duty_on();
                    turn.ran(self.run_colors(batch, left));
                    if self.expired.take() {
                        turn.expire();
                    }
                }
                TurnStep::Poll => {
                    self.look();
                    turn.polled();
                }
                TurnStep::Search => {
                    self.search();
                    turn.searched();
                }
                TurnStep::Park => {
                    self.park();
                    turn.polled();
                }
                TurnStep::Stop => {
                    self.mine().tasks.cancel_all(|| self.note_progress());
                    if self.mine().tasks.len() == 0
                        && self.shared.cores.iter().all(CoreShared::has_ended_tasks)
                    {
                        self.mine().stopped.store(true, Ordering::Release);
                        return;
                    }
                    // The cancelled tasks are queued here, or wherever their colors have moved: run
                    // them to the end.
                    let queued = !self.mine().ready.is_empty();
                    self.io(Some(if queued { Duration::ZERO } else { STOPPING_LOOK }));
                    turn.polled();
                }
            }
        }
    }

    fn park(&self) {
        let mine = self.mine();
        mine.load_cell.idle();
        let sleep = mine.parking.announce();
        self.shared.asleep.fetch_add(1, Ordering::Relaxed);
        // Posters that wait for room made since the last look: see the argument in `capacity.rs`.
        self.attend_waiters();
        // Work that arrived between the last look and the announcement: see the argument in the
        // queue's parking.md.
        let work = !mine.ready.is_empty() || self.shared.stopping.load(Ordering::Acquire);
        let timeout = if work {
            Some(Duration::ZERO)
        } else {
            let (timer, round) = (self.until_next_timer(), self.until_round());
            [timer, round, self.watch_timeout(), self.until_batched()].into_iter().flatten().min()
        };
        let slept_ns = self.shared.clock.now_ns();
        self.io(timeout);
        let woke_ns = self.shared.clock.now_ns();
        self.count_idle(woke_ns.saturating_sub(slept_ns));
        self.end_watch();
        self.slept.set(true);
        self.shared.asleep.fetch_sub(1, Ordering::Relaxed);
        if let Some(called_ns) = mine.parking.awake(sleep) {
            self.called.set(true);
            if let Some(after_ns) = woke_ns.checked_sub(called_ns) {
                self.learner.borrow_mut().woke(after_ns, &self.shared.moves);
            }
        }
        add(&mine.counters.parks, 1);
    }

    fn until_round(&self) -> Option<Duration> {
        let control = self.shared.control.as_ref()?;
        control.until_round_ns(self.index, self.shared.clock.now_ns()).map(Duration::from_nanos)
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let next_ns = self.timers.borrow().next_ns()?;
        self.read_clock();
        Some(Duration::from_nanos(next_ns.saturating_sub(self.now_ns())))
    }

    /// Polls I/O and timers without waiting.
    fn look(&self) {
        add(&self.mine().counters.polls, 1);
        self.mine().load_cell.idle();
        self.io(Some(Duration::ZERO));
    }

    fn io(&self, timeout: Option<Duration>) {
        let board = self.board();
        self.pace.done(self.shared.clock.now_ns());
        // A request may wake a task of this core, so the core must not sleep then.
        let woke = self.attend_requests() && !self.mine().ready.is_empty();
        let timeout = if woke { Some(Duration::ZERO) } else { timeout };
        board.begin_wait();
        let turned = self.driver.borrow_mut().turn(timeout);
        let completions = match turned {
            Ok(completions) => completions as u64,
            Err(_) => {
                // Counted, and retried with a pause, because a driver that fails at once must not
                // spin.
                add(&self.mine().counters.driver_errors, 1);
                std::thread::sleep(DRIVER_RETRY);
                0
            }
        };
        add(&self.mine().counters.completions, completions);
        if !self.detaching.borrow().is_empty() {
            self.end_detaches();
        }
        self.read_clocks();
        let pending_ns = self.pace.looked(self.measured_ns.get(), completions);
        board.begin_work(self.epoch_board_ns + self.now_ns(), pending_ns);
        self.timers.borrow_mut().fire(self.now_ns());
    }

    /// Ends the color's turn, and the core's turn if that has lasted too long. For tasks that do
    /// long work in parts.
    pub(crate) fn expire_long_turn(&self) {
        self.yields.set(true);
        let lasted = self.epoch.elapsed().saturating_sub(Duration::from_nanos(self.now_ns()));
        self.expired.set(self.expired.get() || lasted > Duration::from_nanos(TURN_NS));
    }

    /// Ends the color's turn and the core's.
    pub(crate) fn expire_turn(&self) {
        self.yields.set(true);
        self.expired.set(true);
    }

    /// Reads the clocks of a look at I/O and timers.
    fn read_clocks(&self) {
        // In this order, because otherwise later times would be early by the gap between the two
        // readings.
        self.measured_ns.set(self.shared.clock.now_ns());
        self.looked_ns.set(self.measured_ns.get());
        self.read_clock();
    }

    fn read_clock(&self) {
        self.now_ns.set(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}
