//! State that the cores of a runtime share.
//!
//! Per core: the ready queue, the parking word, the wake-up, the task registry and the counters,
//! each on lines of its own. Each counter has a single writer (the core); snapshots add the
//! counters up.

use crate::{
    blocking_pool::BlockingPool,
    color_meta::{RuntimeHead, RuntimeQueue, RuntimeToken},
    control_state::RuntimeControl,
    core_load::{CoreLoadCell, QueueLoad},
    counters::CoreCounters,
    handlers::{HandlerCounters, Handlers, handlers_max},
    idle_tracker::IdleTracker,
    registry::Registry,
    runtime_end::RuntimeEnd,
    runtime_id::RuntimeId,
    settings::RuntimeSettings,
    stamps::WORDS,
    times::HandlerTimes,
    wakes_here::wakes_here,
};
use crossbeam_utils::CachePadded;
use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::Waker,
};
use vermeil_io::{Clock, LoadPage, Unparker, WorkPage};
use vermeil_queue::{
    AcquireOrder, Cores, IdleCoordinator, InFlight, Parking, ReadyQueue, TraceRing, WaitQueue,
};
use vermeil_sched::{
    Class, CoreIndex, CoreLoad, Distance, HandlerIndex, PublishedMoves, QueuedClass, Ready, ReadySlot,
    Stealing,
};

pub(crate) struct RuntimeShared {
    pub(crate) id: RuntimeId,
    pub(crate) cores: Box<[CachePadded<CoreShared>]>,
    pub(crate) settings: RuntimeSettings,
    /// Places handlers, if the policy does.
    pub(crate) control: Option<RuntimeControl>,
    pub(crate) clock: Clock,
    pub(crate) pages: CorePages,
    pub(crate) idle: IdleTracker,
    pub(crate) colors: NewColors,
    pub(crate) handlers: Handlers,
    pub(crate) moves: PublishedMoves<AtomicU32>,
    pub(crate) blocking: BlockingPool,
    pub(crate) end: RuntimeEnd,
}

/// The pages on which cores show their state.
pub(crate) struct CorePages {
    /// The time of each core's last look at its sockets.
    pub(crate) board: Arc<LoadPage>,
    /// The finished work of each core, for profilers.
    pub(crate) work: Option<Arc<WorkPage>>,
}

/// The state that new colors and acquisitions of colors share.
#[derive(Default)]
pub(crate) struct NewColors {
    /// The number of colors made; the policy places colors by number. On a line of its own, because
    /// every core that makes colors writes the number.
    made: CachePadded<AtomicU64>,
    pub(crate) default: OnceLock<Arc<RuntimeQueue>>,
    pub(crate) acquisitions: AcquireOrder,
}

impl NewColors {
    /// The number of a new color, from 1.
    pub(crate) fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The parts of a runtime, beside its cores.
pub(crate) struct RuntimeSetup {
    pub(crate) settings: RuntimeSettings,
    pub(crate) control: Option<RuntimeControl>,
    pub(crate) classes: Vec<Class>,
    pub(crate) pool: BlockingPool,
    pub(crate) pages: CorePages,
}

/// The part of a core that other threads may access.
pub(crate) struct CoreShared {
    pub(crate) facts: CoreFacts,
    pub(crate) ready: ReadyQueue<Ready<RuntimeToken>>,
    pub(crate) load_cell: CachePadded<CoreLoadCell>,
    pub(crate) parking: CachePadded<Parking>,
    pub(crate) tasks: Registry,
    /// The core's loop has ended; the thread that stops the runtime clears tasks that are spawned
    /// on this core now.
    pub(crate) stopped: AtomicBool,
    /// Handler events posted to colors of this core and not yet run.
    pub(crate) queued: CachePadded<InFlight>,
    /// The waiters for room in `queued`.
    pub(crate) waiters: Mutex<WaitQueue<Waker>>,
    /// Tasks spawned on this core, minus the tasks that ended on this core.
    pub(crate) tasks_alive: CachePadded<InFlight>,
    pub(crate) counters: CachePadded<CoreCounters>,
    pub(crate) records: CoreRecords,
    pub(crate) unparker: OnceLock<Unparker>,
}

/// The facts about a core that snapshots show, each set once.
pub(crate) struct CoreFacts {
    pub(crate) cpu: usize,
    /// The description of the driver.
    pub(crate) io: OnceLock<String>,
    /// The quantity that this core counts beside the time, or the reason why it counts none; set
    /// after the first attempt.
    pub(crate) perf_counters: OnceLock<String>,
}

/// A core's records of its events, which only the core writes.
pub(crate) struct CoreRecords {
    /// The counters of each handler.
    pub(crate) handlers: Box<[HandlerCounters]>,
    /// By handler, the times observed on this core.
    pub(crate) times: Box<[OnceLock<Box<HandlerTimes>>]>,
    /// The last events of this core, if events are recorded.
    pub(crate) ring: Option<TraceRing<WORDS>>,
}

impl CoreShared {
    fn new(cpu: usize, settings: &RuntimeSettings, classes: &[Class]) -> Self {
        let handlers = handlers_max(settings.limits.handlers);
        Self {
            facts: CoreFacts { cpu, io: OnceLock::new(), perf_counters: OnceLock::new() },
            ready: ReadyQueue::new(Ready::divided(settings.stealing.order(), classes), QueueLoad::measure),
            load_cell: CachePadded::default(),
            parking: CachePadded::default(),
            tasks: Registry::default(),
            stopped: AtomicBool::new(false),
            queued: CachePadded::default(),
            waiters: Mutex::default(),
            tasks_alive: CachePadded::default(),
            counters: CachePadded::default(),
            records: CoreRecords {
                handlers: (0..handlers).map(|_| HandlerCounters::default()).collect(),
                times: (0..handlers).map(|_| OnceLock::new()).collect(),
                ring: settings.noting.ring(),
            },
            unparker: OnceLock::new(),
        }
    }
}

/// The nearest core that sleeps and may run a color, as seen at a time.
#[derive(Clone, Copy)]
pub(crate) struct SleepingCore {
    pub(crate) core: CoreIndex,
    pub(crate) distance: Distance,
    pub(crate) seen_ns: u64,
}

impl RuntimeShared {
    pub(crate) fn new(cpus: &[usize], setup: RuntimeSetup) -> Arc<Self> {
        let RuntimeSetup { settings, control, classes, pool, pages } = setup;
        let core = |cpu: &usize| CachePadded::new(CoreShared::new(*cpu, &settings, &classes));
        Arc::new(Self {
            id: RuntimeId::next(),
            cores: cpus.iter().map(core).collect(),
            idle: IdleTracker::new(settings.layout.nodes()),
            colors: NewColors::default(),
            handlers: Handlers::new(settings.limits.handlers, settings.stealing, classes),
            moves: PublishedMoves::default(),
            settings,
            control,
            clock: Clock::get(),
            pages,
            blocking: pool,
            end: RuntimeEnd::default(),
        })
    }

    pub(crate) fn indices(&self) -> impl ExactSizeIterator<Item = CoreIndex> + use<> {
        (0..self.cores.len() as u32).map(CoreIndex)
    }

    pub(crate) fn core(&self, index: u32) -> &CoreShared {
        &self.cores[index as usize]
    }

    /// The coordinator of the idle cores on the node of `core`.
    pub(crate) fn idle_coordinator(&self, core: CoreIndex) -> &IdleCoordinator {
        self.idle.coordinator(self.settings.layout.node(core))
    }

    /// The worth that an event of `handler` adds to its color; 0 if there are no thieves.
    #[inline]
    pub(crate) fn worth_ns(&self, handler: HandlerIndex) -> u32 {
        if self.settings.stealing.is_on() { self.handlers.published(handler).worth_ns() } else { 0 }
    }

    /// Makes a color ready: puts the token into the ready queue of the color's core, with `entries`
    /// entries of its events. Wakes the core if it sleeps, and a thief if a thief should steal the
    /// color.
    pub(crate) fn schedule(&self, token: RuntimeToken, entries: usize) {
        self.schedule_beside(token, entries, None);
    }

    /// As [`schedule`](Self::schedule), with the sleeping core that may steal the color, if known.
    pub(crate) fn schedule_beside(&self, token: RuntimeToken, entries: usize, asleep: Option<SleepingCore>) {
        if self.settings.scatters {
            self.scatter(&token);
        }
        let thieves = self.settings.stealing.is_on() && self.idle.any_asleep();
        // Not for a color that must stay.
        let color = (thieves && token.color().meta.may_move()).then(|| token.color().clone());
        let handler = token.color().meta.handler();
        let core = self.queue(token, entries);
        if self.wake_core(core, handler) {
            return;
        }
        match color {
            Some(color) => self.consider_thief(&color, core, asleep),
            // A core may have announced its sleep since. Its last look for a color (`misses_color`)
            // may have come before the token.
            None if !thieves && self.settings.stealing.is_on() && self.idle.any_asleep() => {
                self.call_late_thief(CoreIndex(core));
            }
            None => {}
        }
    }

    /// For policy `scatter`: sends a color that may move to the next core.
    #[cold]
    fn scatter(&self, token: &RuntimeToken) {
        let color = token.color();
        let cores = self.cores.len() as u32;
        let others = (1..cores).map(|step| (color.core() + step) % cores);
        if color.meta.may_move()
            && let Some(core) = others.into_iter().find(|core| color.meta.allows(CoreIndex(*core)))
        {
            self.count_move(color.meta.handler());
            token.move_to(core);
        }
    }

    /// A core (`poster`) or another thread has posted a task to the task's own color, which was
    /// empty.
    pub(crate) fn called(&self, token: RuntimeToken, poster: Option<CoreIndex>) {
        if !self.follow(&token, poster)
            && let Some(here) = poster
        {
            if wakes_here() {
                self.take_woken(&token, here);
            } else {
                self.move_task_to_poster(&token, here);
            }
        }
        self.woken(token, poster);
    }

    /// Moves a color that follows a handler or its poster, which has just made `token`, to the core
    /// of its leader. Returns whether such a core is known.
    #[inline]
    pub(crate) fn follow(&self, token: &RuntimeToken, poster: Option<CoreIndex>) -> bool {
        let color = token.color();
        let Some(core) = color.meta.leader(|leader| self.handlers.ran_on(leader), poster) else {
            return false;
        };
        if core.0 != color.core() && color.meta.has_run() {
            self.count_move(color.meta.handler());
        }
        token.move_to(core.0);
        true
    }

    /// For `wake_here`: a color that may move comes to its waker's core.
    #[cold]
    fn take_woken(&self, token: &RuntimeToken, here: CoreIndex) {
        let color = token.color();
        if color.core() != here.0 && color.meta.may_move() && color.meta.allows(here) {
            self.count_move(color.meta.handler());
            token.move_to(here.0);
        }
    }

    /// An event was posted to a running color, which returns to a ready queue with the event.
    pub(crate) fn called_again(&self, color: &RuntimeHead) {
        if self.settings.stealing == Stealing::Anything {
            self.post_entry(color);
        }
    }

    /// An event was posted to a color whose token is in a queue already.
    #[inline]
    pub(crate) fn posted(&self, color: &RuntimeHead, handler: HandlerIndex, added_ns: u32) {
        if color.meta.batch_waits.load(Ordering::Relaxed) && self.has_gathered(color, handler) {
            self.end_batch_wait(color);
        }
        if !self.settings.stealing.is_on() {
            return;
        }
        match self.settings.stealing {
            Stealing::Anything => self.post_entry(color),
            _ => {
                let worth_ns = color.worth_ns();
                let class = QueuedClass::of(worth_ns);
                if class != QueuedClass::of(worth_ns.saturating_sub(added_ns.into())) {
                    self.reclass(color, class);
                }
            }
        }
    }

    /// The worth of `color` to a thief; `None` if the color must stay.
    pub(crate) fn class(&self, color: &RuntimeHead) -> Option<QueuedClass> {
        if !self.settings.stealing.is_on() || !self.notes_that_moves(color) {
            return None;
        }
        color.meta.class_for_thieves(self.settings.stealing.class(color.worth_ns()))
    }

    /// Whether a thief may take the color at all. The first such color is noted.
    pub(crate) fn notes_that_moves(&self, color: &RuntimeHead) -> bool {
        let moves = self.cores.len() > 1 && color.meta.may_move();
        if moves {
            self.idle.note_movable();
        }
        moves
    }

    #[cold]
    fn reclass(&self, color: &RuntimeHead, class: Option<QueuedClass>) {
        let index = color.core();
        let class = color.meta.class_for_thieves(class);
        if class.is_some() && color.meta.may_move() {
            let name = color.id().0.get();
            self.core(index).ready.with(|ready| {
                // Read under the lock, under which the slot is written. A stale slot names a color
                // that is not there.
                ready.reclass(ReadySlot(color.meta.slot.load(Ordering::Relaxed)), name, class);
            });
            self.consider_thief(color, index, None);
        }
    }

    /// The distance from core `from`, which posted an event, to `here`; `None` if the cores are the
    /// same, or a thread that is not a core posted.
    #[inline]
    pub(crate) fn distance_from(&self, from: u16, here: CoreIndex) -> Option<Distance> {
        let from = CoreIndex(from.into());
        let elsewhere = from != here && (from.0 as usize) < self.cores.len();
        elsewhere.then(|| self.settings.layout.distance(from, here))
    }

    pub(crate) fn core_load(&self, core: CoreIndex) -> CoreLoad {
        let core = self.core(core.0);
        core.load_cell.load(QueueLoad(core.ready.len()))
    }

    pub(crate) fn unpark_all(&self) {
        for core in &self.cores {
            core.unpark();
        }
    }
}

impl CoreShared {
    /// Whether the end of this core's tasks is reached: no task is left, and no task will be
    /// registered.
    pub(crate) fn has_ended_tasks(core: &CachePadded<Self>) -> bool {
        core.tasks.is_closed() && core.tasks.len() == 0 || core.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}
