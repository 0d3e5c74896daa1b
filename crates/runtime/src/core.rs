//! A core: a pinned thread with a driver, timers and a ready queue, and its loop.
//!
//! The loop asks the scheduler for the next step and carries out the step. `Core` holds the state
//! of the thread; the tasks and handlers on the thread reach `Core` through a thread-local. Leaves
//! out every decision (`vermeil-sched`) and every lock-free step (`vermeil-queue`). The run of a
//! color: `core/batch_run.rs`.

mod batch_run;
mod batch_times;
mod clock;
mod hop_request;
mod run_state;

pub(crate) use hop_request::HopAsk;

use crate::{
    code::KnownCodes,
    color_meta::ColorMeta,
    control_state::CoreCounting,
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
use batch_times::BatchTimes;
use clock::ClockReadings;
use run_state::RunState;
use rustc_hash::FxHashMap;
use std::{
    cell::{Cell, RefCell, RefMut},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use vermeil_io::{CoreLoadPage, Driver, ObjectKey, ThreadTimes, take_contained_panics};
use vermeil_queue::{DriverCore as _, ScopedTls, StealBatch};
use vermeil_sched::{CoreIndex, Learner, STEAL_BATCH_MAX, Turn, TurnStep, TurnView};

/// The state that only a core's thread accesses.
pub(crate) struct Core {
    pub(crate) index: CoreIndex,
    pub(crate) home: HomeCore,
    pub(crate) shared: Arc<RuntimeShared>,
    /// This core's reference to the runtime, on which references that are made here count.
    pub(crate) share: RuntimeRef,
    pub(crate) io: CoreIo,
    clock: ClockReadings,
    pub(crate) measures: CoreMeasures,
    pub(crate) known: KnownHandlers,
    pub(crate) run: RunState,
    times: BatchTimes,
    pub(crate) idle: SearchState,
}

/// A core's I/O and timers.
pub(crate) struct CoreIo {
    pub(crate) driver: RefCell<Driver>,
    pub(crate) timers: RefCell<Timers>,
    /// Objects that leave the driver for another core, until their last completions.
    pub(crate) detaching: RefCell<FxHashMap<ObjectKey, DetachRequest>>,
    pace: CorePace,
}

/// The measurements that a core makes of its events.
pub(crate) struct CoreMeasures {
    pub(crate) learner: RefCell<Learner>,
    pub(crate) perf_counters: PerfCounters,
    pub(crate) counting: RefCell<CoreCounting>,
    pub(crate) stamping: Stamping,
    thread_times: ThreadTimes,
}

/// The core's copies of tables of handlers, which need no lock.
#[derive(Default)]
pub(crate) struct KnownHandlers {
    pub(crate) kinds: KnownKinds,
    pub(crate) codes: KnownCodes,
}

/// The state of a core between its last event and the next.
pub(crate) struct SearchState {
    /// Another thread has woken the core, and since then the core has neither run an event nor
    /// searched.
    pub(crate) called: Cell<bool>,
    /// The core has slept, and has run no event since.
    pub(crate) slept: Cell<bool>,
    /// Failed searches since the last success.
    pub(crate) failed_searches: Cell<u32>,
    /// Sleeps in a row that the core has given up because a color to steal was queued.
    pub(crate) given_up_sleeps: Cell<u8>,
    pub(crate) steal_batch: RefCell<StealBatch<ColorMeta>>,
}

impl SearchState {
    fn new(index: CoreIndex) -> Self {
        Self {
            called: Cell::new(false),
            slept: Cell::new(false),
            failed_searches: Cell::new(0),
            given_up_sleeps: Cell::new(0),
            steal_batch: RefCell::new(StealBatch::new(index.0, STEAL_BATCH_MAX)),
        }
    }

    /// A search has ended.
    pub(crate) fn searched(&self, found: bool) {
        self.failed_searches.set(if found { 0 } else { self.failed_searches.get().saturating_add(1) });
    }
}

thread_local! {
    static CORE: ScopedTls<Core> = const { ScopedTls::unset() };
}

/// Longest wait after a failure of the whole driver, before the next attempt.
const DRIVER_RETRY: Duration = Duration::from_millis(10);

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
            share: RuntimeRef::new(shared.clone()),
            io: CoreIo {
                driver: RefCell::new(driver),
                timers: RefCell::default(),
                detaching: RefCell::default(),
                pace: CorePace::default(),
            },
            clock: ClockReadings::new(epoch),
            measures: CoreMeasures {
                learner: RefCell::new(Learner::new(shared.settings.stealing)),
                perf_counters: PerfCounters::default(),
                counting: RefCell::default(),
                stamping: Stamping::new(),
                thread_times: ThreadTimes::open(),
            },
            known: KnownHandlers::default(),
            run: RunState::new(),
            times: BatchTimes::default(),
            idle: SearchState::new(index),
            shared,
        }
    }

    /// Time of the last look at I/O and timers, since the start of the first runtime.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The current time on the scale of [`now_ns`](Self::now_ns), also within a long event.
    pub(crate) fn right_now_ns(&self) -> u64 {
        self.clock.right_now_ns(&self.shared.clock)
    }

    pub(crate) fn mine(&self) -> &CoreShared {
        self.shared.core(self.index.0)
    }

    fn board(&self) -> &CoreLoadPage {
        self.shared.pages.board.core(self.index.0 as usize)
    }

    /// Shows profilers the work up to now.
    fn show_work(&self) {
        let Some(page) = &self.shared.pages.work else { return };
        let counters = &self.mine().counters;
        let [events, activations, steals] = [&counters.events, &counters.activations, &counters.steal.steals]
            .map(|counter| counter.load(Ordering::Relaxed));
        page.cores()[self.index.0 as usize].show_loop(events, activations, steals);
    }

    /// Makes this thread the core and runs it until the runtime stops.
    pub(crate) fn run(self) {
        self.clock.look(&self.shared.clock);
        // From the first event on, because the core may be stuck in the first event.
        self.board().begin_work(self.clock.page_ns(), 0);
        ScopedTls::set_during(&CORE, &self, || self.turns());
    }

    /// Shows that the core is alive during a long piece of work.
    fn note_progress(&self) {
        self.board().begin_work(self.clock.page_ns(), 0);
    }

    /// The number of this core in the process.
    #[inline]
    pub(crate) fn home_number(&self) -> u64 {
        self.home.number()
    }

    fn turns(&self) {
        let mut turn = Turn::new(self.shared.settings.turn, self.shared.settings.stealing);
        let mut tasks_left = usize::MAX;
        loop {
            let stopping = self.shared.end.is_stopping();
            self.attend_control();
            self.attend_batch_waits(stopping);
            match turn.next(TurnView { ready: self.mine().ready.len(), stopping }) {
                TurnStep::Run { batch, left } => {
                    if self.idle.called.take() {
                        // The core may have been woken as a thief and does not search now, so other
                        // cores may search.
                        self.shared.idle_coordinator(self.index).end_search();
                    }
                    self.pass_duty_on();
                    turn.ran(self.run_colors(batch, left));
                    if self.run.expired.take() {
                        turn.expire();
                    }
                }
                TurnStep::Poll => {
                    self.look();
                    turn.polled();
                }
                TurnStep::Search => {
                    if self.search() && self.has_unsubmitted() {
                        // The stolen color may run for long.
                        self.look();
                        turn.polled();
                    }
                    turn.searched();
                }
                TurnStep::Park => {
                    self.park();
                    turn.polled();
                }
                TurnStep::Stop => {
                    if self.stop(&mut tasks_left) {
                        return;
                    }
                    turn.polled();
                }
            }
        }
    }

    /// Cancels the tasks of this core, and ends the core if no core has a task any more. Otherwise
    /// looks at I/O. `tasks_left`: the tasks of this core at the last call. Returns whether the
    /// core has ended.
    ///
    /// The queue of a core that was left behind may hold tasks of this core, which nothing runs. So
    /// from then on this core ends as soon as its own queue ends no more of its tasks.
    fn stop(&self, tasks_left: &mut usize) -> bool {
        let mine = self.mine();
        mine.tasks.cancel_all(|| self.note_progress());
        let (queued, tasks) = (!mine.ready.is_empty(), mine.tasks.len());
        let ends_more = queued && tasks < std::mem::replace(tasks_left, tasks);
        let all_ended = tasks == 0 && self.shared.cores.iter().all(CoreShared::has_ended_tasks);
        if all_ended || self.shared.end.has_left_core() && !ends_more {
            mine.stopped.store(true, Ordering::Release);
            return true;
        }
        // The cancelled tasks are queued here, or wherever their colors have moved: run them to the
        // end.
        self.io(Some(if queued { Duration::ZERO } else { STOPPING_LOOK }));
        false
    }

    fn park(&self) {
        let mine = self.mine();
        mine.load_cell.idle();
        let sleep = mine.parking.announce();
        self.shared.idle.sleep();
        // Posters that wait for room made since the last look: see the argument in `capacity.rs`.
        self.attend_waiters();
        // Work that arrived between the last look and the announcement: see the argument in the
        // queue's parking.md.
        let work = !mine.ready.is_empty() || self.shared.end.is_stopping() || self.misses_color();
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
        mine.load_cell.utilization.measure(woke_ns, &self.measures.thread_times);
        self.end_watch();
        self.idle.slept.set(true);
        self.shared.idle.wake();
        if let Some(called_ns) = mine.parking.awake(sleep) {
            self.idle.called.set(true);
            if let Some(after_ns) = woke_ns.checked_sub(called_ns) {
                self.measures.learner.borrow_mut().woke(after_ns, &self.shared.moves);
            }
        }
        add(&mine.counters.io.parks, 1);
    }

    fn until_round(&self) -> Option<Duration> {
        let control = self.shared.control.as_ref()?;
        control.until_round_ns(self.index, self.shared.clock.now_ns()).map(Duration::from_nanos)
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let next_ns = self.io.timers.borrow().next_ns()?;
        self.clock.read();
        Some(Duration::from_nanos(next_ns.saturating_sub(self.now_ns())))
    }

    /// Polls I/O and timers without waiting.
    pub(crate) fn look(&self) {
        add(&self.mine().counters.io.polls, 1);
        self.mine().load_cell.idle();
        self.io(Some(Duration::ZERO));
    }

    /// Whether operations, such as sends, wait for the next look.
    pub(crate) fn has_unsubmitted(&self) -> bool {
        self.io.driver.borrow().has_unsubmitted()
    }

    /// The driver, for a call of an object of this core.
    ///
    /// # Panics
    /// Within a call of the driver, for example in the closure of `with_fd`.
    #[inline]
    pub(crate) fn driver(&self) -> RefMut<'_, Driver> {
        self.io.driver.try_borrow_mut().unwrap_or_else(|_| {
            panic!("the driver of this core is in use: use sockets after `with_fd`, not within, and not in a waker")
        })
    }

    /// The timeout of a wait after requests, which may have woken a task of this core or armed a
    /// timer.
    #[cold]
    fn timeout_after_requests(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.mine().ready.is_empty() {
            return Some(Duration::ZERO);
        }
        [timeout, self.until_next_timer()].into_iter().flatten().min()
    }

    fn io(&self, timeout: Option<Duration>) {
        let board = self.board();
        self.io.pace.done(self.shared.clock.now_ns());
        let timeout = if self.attend_requests() { self.timeout_after_requests(timeout) } else { timeout };
        self.count_contained_panics();
        self.show_work();
        board.begin_wait();
        let turned = self.io.driver.borrow_mut().turn(timeout);
        let completions = match turned {
            Ok(completions) => completions as u64,
            Err(_) => {
                // Counted, and retried with a pause, because a driver that fails at once must not
                // spin.
                add(&self.mine().counters.io.driver_errors, 1);
                std::thread::sleep(DRIVER_RETRY);
                0
            }
        };
        add(&self.mine().counters.io.completions, completions);
        self.attend_detaches();
        self.clock.look(&self.shared.clock);
        let pending_ns = self.io.pace.looked(self.clock.measured_ns(), completions);
        board.begin_work(self.clock.page_ns(), pending_ns);
        self.io.timers.borrow_mut().fire(self.now_ns());
    }

    /// Counts the panics of wakers and of owners of bodies since the last turn began. A core waits
    /// only behind this call, so none stays uncounted for long.
    fn count_contained_panics(&self) {
        let panics = take_contained_panics();
        if panics > 0 {
            add(&self.mine().counters.panics, panics);
        }
    }

    /// Ends the color's turn, and the core's turn if that has lasted too long. For tasks that do
    /// long work in parts.
    pub(crate) fn expire_long_turn(&self) {
        self.run.yield_turn(self.clock.is_turn_over_now());
    }

    /// Ends the color's turn and the core's.
    pub(crate) fn expire_turn(&self) {
        self.run.yield_turn(true);
    }
}
