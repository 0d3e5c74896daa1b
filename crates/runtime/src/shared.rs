//! What the cores of one runtime share.
//!
//! Per core: the ready queue, the parking word, the wake-up, the task registry and the counters, each on lines of its
//! own. Counters have one writer (the core); snapshots add them up.

use crate::{
    blocking::Pool,
    code::Codes,
    color::{Head, Queue, Seat, Token},
    control::Control,
    core::current_of,
    costs::PublishedMoves,
    handler::{HandlerCounters, Handlers, slots},
    hints::{Gauge, Hints},
    limits::Limits,
    observed::{Noting, WORDS},
    registry::Registry,
    room::{Ends, Line},
    share::RuntimeId,
    times::Times,
};
use crossbeam_utils::CachePadded;
use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use vermeil_io::{Board, Clock, Unparker};
use vermeil_queue::{Cores, Lookout, Meetings, Parking, ReadyQueue, Ring, Runs, Tally};
use vermeil_sched::{
    Class, CoreIndex, Distance, HandlerIndex, Hint, Layout, Placement, Policy, Ready, Slot, Stealing,
    TurnLimits, WorthClass,
};

pub(crate) struct Shared {
    pub(crate) id: RuntimeId,
    pub(crate) cores: Box<[CachePadded<CoreShared>]>,
    pub(crate) limits: Limits,
    pub(crate) turn: TurnLimits,
    pub(crate) policy: Policy,
    pub(crate) stealing: Stealing,
    /// Handlers have classes, between which cores divide their time.
    pub(crate) divides: bool,
    pub(crate) layout: Layout,
    /// Places handlers, where the policy does.
    pub(crate) control: Option<Control>,
    pub(crate) clock: Clock,
    pub(crate) noting: Noting,
    /// Since when each core has not looked at its sockets.
    pub(crate) board: Arc<Board>,
    /// Cores that sleep; a hint.
    pub(crate) asleep: CachePadded<AtomicUsize>,
    /// By node, who of its cores looks for work and who watches the busy ones.
    lookouts: Box<[CachePadded<Lookout>]>,
    /// A color that may be moved was queued at some time: before that there is nothing to watch.
    pub(crate) something_moves: AtomicBool,
    pub(crate) default_color: OnceLock<Arc<Queue>>,
    pub(crate) meetings: Meetings,
    pub(crate) handlers: Handlers,
    pub(crate) codes: Codes,
    pub(crate) moves: PublishedMoves,
    /// What threads that are no cores have done, by handler.
    pub(crate) outside: Box<[HandlerCounters]>,
    pub(crate) blocking: Pool,
    pub(crate) stopping: AtomicBool,
    /// All cores have ended: what is queued from now on is dropped at once.
    pub(crate) ended: AtomicBool,
    pub(crate) ends: Ends,
    /// Colors made; the policy places by their numbers.
    colors: AtomicU64,
}

/// What a runtime is made of, beside its cores.
pub(crate) struct Setup {
    pub(crate) layout: Layout,
    pub(crate) control: Option<Control>,
    pub(crate) limits: Limits,
    pub(crate) turn: TurnLimits,
    pub(crate) policy: Policy,
    pub(crate) classes: Vec<Class>,
    pub(crate) pool: Pool,
    pub(crate) board: Arc<Board>,
    pub(crate) noting: Noting,
}

/// What the others may touch of a core.
pub(crate) struct CoreShared {
    pub(crate) cpu: usize,
    pub(crate) ready: ReadyQueue<Ready<Token>>,
    pub(crate) hints: CachePadded<Hints>,
    pub(crate) parking: CachePadded<Parking>,
    pub(crate) tasks: Registry,
    /// The core's loop has ended: what is spawned on it now is cleared away by whoever stops the runtime.
    pub(crate) stopped: AtomicBool,
    /// Handler events posted to colors of this core and not yet run.
    pub(crate) queued: CachePadded<Tally>,
    /// Who waits until there is room for one more of those.
    pub(crate) line: Mutex<Line>,
    /// Tasks spawned on this core, less those that ended on it.
    pub(crate) tasks_alive: CachePadded<Tally>,
    pub(crate) counters: CachePadded<CoreCounters>,
    pub(crate) handlers: Box<[HandlerCounters]>,
    /// By handler, what was observed of it here.
    pub(crate) times: Box<[OnceLock<Box<Times>>]>,
    /// The last events that ran here, where they are recorded.
    pub(crate) ring: Option<Ring<WORDS>>,
    pub(crate) unparker: OnceLock<Unparker>,
    pub(crate) io: OnceLock<String>,
    /// What it counts beside the time, or why not, once that was tried.
    pub(crate) witness: OnceLock<String>,
}

/// Written by the core alone.
#[derive(Default)]
pub(crate) struct CoreCounters {
    /// Whether it runs a color.
    pub(crate) runs: Runs,
    /// The handler whose event began last, plus one; [`IDLE`] while none runs.
    pub(crate) running: AtomicU32,
    pub(crate) activations: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) completions: AtomicU64,
    pub(crate) driver_errors: AtomicU64,
    pub(crate) steals: AtomicU64,
    pub(crate) stolen_ns: AtomicU64,
    pub(crate) steal_ns: AtomicU64,
    pub(crate) explored_ns: AtomicU64,
    pub(crate) searches: AtomicU64,
    pub(crate) thieves_woken: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) rounds: AtomicU64,
}

/// No handler's event runs.
pub(crate) const IDLE: u32 = 0;

/// No core; also in the two bytes that a label has for one.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Adds to a counter that only the calling core writes.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Shared {
    pub(crate) fn new(cpus: &[usize], setup: Setup) -> Arc<Self> {
        let Setup { layout, control, limits, turn, policy, classes, pool, board, noting } = setup;
        let stealing = policy.stealing();
        let core = |cpu: &usize| {
            CachePadded::new(CoreShared {
                cpu: *cpu,
                ready: ReadyQueue::new(Ready::divided(stealing.order(), &classes), Gauge::measure),
                hints: CachePadded::default(),
                parking: CachePadded::default(),
                tasks: Registry::default(),
                stopped: AtomicBool::new(false),
                queued: CachePadded::default(),
                line: Mutex::default(),
                tasks_alive: CachePadded::default(),
                counters: CachePadded::default(),
                handlers: (0..slots(limits.handlers)).map(|_| HandlerCounters::default()).collect(),
                times: (0..slots(limits.handlers)).map(|_| OnceLock::new()).collect(),
                ring: noting.ring(),
                unparker: OnceLock::new(),
                io: OnceLock::new(),
                witness: OnceLock::new(),
            })
        };
        Arc::new(Self {
            id: RuntimeId::next(),
            cores: cpus.iter().map(core).collect(),
            default_color: OnceLock::new(),
            meetings: Meetings::default(),
            divides: !classes.is_empty(),
            outside: (0..slots(limits.handlers)).map(|_| HandlerCounters::default()).collect(),
            codes: Codes::default(),
            handlers: Handlers::new(limits.handlers, stealing, classes),
            moves: PublishedMoves::default(),
            limits,
            turn,
            policy,
            stealing,
            lookouts: (0..layout.nodes()).map(|_| CachePadded::default()).collect(),
            layout,
            control,
            clock: Clock::get(),
            noting,
            board,
            asleep: CachePadded::default(),
            something_moves: AtomicBool::new(false),
            blocking: pool,
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            ends: Ends::default(),
            colors: AtomicU64::new(0),
        })
    }

    pub(crate) fn indices(&self) -> impl ExactSizeIterator<Item = CoreIndex> + use<> {
        (0..self.cores.len() as u32).map(CoreIndex)
    }

    pub(crate) fn core(&self, index: u32) -> &CoreShared {
        &self.cores[index as usize]
    }

    /// Who looks for work and who watches on the node of `core`.
    pub(crate) fn lookout(&self, core: CoreIndex) -> &Lookout {
        &self.lookouts[self.layout.node(core) as usize]
    }

    /// Events of one activation: an order of events runs them one at a time.
    pub(crate) fn batch(&self, batch: usize) -> usize {
        if self.stealing == Stealing::Anything { 1 } else { batch }
    }

    /// What one event of `handler` adds to its color's worth; nothing where nobody asks.
    #[inline]
    pub(crate) fn worth_ns(&self, handler: HandlerIndex) -> u32 {
        if self.stealing.is_on() { self.handlers.published(handler).worth_ns() } else { 0 }
    }

    /// A color may run: puts its token into its core's ready queue, with so many entries of its events, wakes the core if it
    /// sleeps, and another if it should steal the color.
    pub(crate) fn schedule(&self, token: Token, entries: usize) {
        let thieves = self.stealing.is_on() && self.asleep.load(Ordering::Relaxed) > 0;
        // Not for what stays, as all that has a socket does.
        let color = (thieves && token.color().about.may_move()).then(|| token.color().clone());
        let handler = token.color().about.handler();
        let core = self.queue(token, entries);
        if !self.ring(core, handler)
            && let Some(color) = color
        {
            self.consider_thief(&color, core);
        }
    }

    /// Core `poster`, if it was one, has posted a task to its own color, which was empty.
    pub(crate) fn called(&self, token: Token, poster: Option<CoreIndex>) {
        if let Some(here) = poster {
            self.bring_task_to_poster(&token, here);
        }
        self.woken(token, poster);
    }

    /// Something was posted to a color while it runs: it goes back to a queue with it.
    pub(crate) fn called_again(&self, color: &Head) {
        if self.stealing == Stealing::Anything {
            self.post_entry(color);
        }
    }

    /// Something of `handler` was queued on core `index`: wakes it if it sleeps and is not the one that says so. Whether it did.
    pub(crate) fn ring(&self, index: u32, handler: HandlerIndex) -> bool {
        let here = current_of(self, |core| core.index.0 == index).unwrap_or(false);
        let rings = !here && self.core(index).parking.must_wake(|| self.clock.now_ns());
        if rings {
            self.count_wake(handler);
            self.core(index).unpark();
        }
        rings
    }

    /// An event was posted on a color that has its token already.
    #[inline]
    pub(crate) fn posted(&self, color: &Head, handler: HandlerIndex, added_ns: u32) {
        if color.about.gathering.load(Ordering::Relaxed)
            && self.handlers.gather(handler).is_none_or(|gather| gather.is_enough(color.len()))
        {
            self.end_gathering(color);
        }
        if !self.stealing.is_on() {
            return;
        }
        match self.stealing {
            Stealing::Anything => self.post_entry(color),
            _ => {
                let worth_ns = color.worth_ns();
                let class = WorthClass::of(worth_ns);
                if class != WorthClass::of(worth_ns.saturating_sub(added_ns.into())) {
                    self.reclass(color, class);
                }
            }
        }
    }

    /// Whether a color may be sent from one core to another, for all the policy says: not in Libasync-SMP's order, in which its entries
    /// would stay behind.
    pub(crate) fn sends_colors(&self, from: CoreIndex, to: CoreIndex) -> bool {
        self.stealing != Stealing::Anything && !self.keeps_apart(from, to)
    }

    /// Whether no color goes from one of these cores to the other, whose node is another.
    pub(crate) fn keeps_apart(&self, from: CoreIndex, to: CoreIndex) -> bool {
        self.policy.keeps_nodes_apart() && self.layout.node(from) != self.layout.node(to)
    }

    /// What `color` is worth to a thief; `None` if it must stay.
    pub(crate) fn class(&self, color: &Head) -> Option<WorthClass> {
        if !self.stealing.is_on() || !self.notes_that_moves(color) {
            return None;
        }
        let class = WorthClass::of(color.worth_ns());
        // Mely leaves what is worth too little; the others may take it yet, for its wait or without a reason.
        if self.stealing == Stealing::TimeLeft { class } else { class.or(Some(WorthClass::LEAST)) }
    }

    /// Whether a thief may take the color at all, which is noted once.
    pub(crate) fn notes_that_moves(&self, color: &Head) -> bool {
        let moves = color.about.may_move();
        if moves && !self.something_moves.load(Ordering::Relaxed) {
            self.something_moves.store(true, Ordering::Relaxed);
        }
        moves
    }

    #[cold]
    fn reclass(&self, color: &Head, class: Option<WorthClass>) {
        let index = color.core();
        if class.is_some() && color.about.may_move() {
            let name = color.id().0.get();
            self.core(index).ready.with(|ready| {
                // Read under the lock, where it is written; stale, it names a color that is not there.
                ready.reclass(Slot(color.about.slot.load(Ordering::Relaxed)), name, class);
            });
            self.consider_thief(color, index);
        }
    }

    /// How far what core `from` posts has to come to `here`; `None` if it does not, or came from no core.
    #[inline]
    pub(crate) fn distance_from(&self, from: u16, here: CoreIndex) -> Option<Distance> {
        let from = CoreIndex(from.into());
        let elsewhere = from != here && (from.0 as usize) < self.cores.len();
        elsewhere.then(|| self.layout.distance(from, here))
    }

    pub(crate) fn hint(&self, core: CoreIndex) -> Hint {
        let core = self.core(core.0);
        core.hints.hint(Gauge(core.ready.len()))
    }

    pub(crate) fn unpark_all(&self) {
        for core in &self.cores {
            core.unpark();
        }
    }

    /// Where a new color begins.
    pub(crate) fn place(&self, seat: &Seat) -> CoreIndex {
        // Not the color's name: those are the process's, and another runtime's would unbalance this one's placement.
        let number = || self.colors.fetch_add(1, Ordering::Relaxed) + 1;
        let maker = current_of(self, |core| core.index);
        let placement = if let Seat::Lives(placement) = seat.inner() { placement } else { &Placement::Any };
        self.policy.place(number, placement, maker, self.cores.len())
    }
}

impl CoreShared {
    /// Whether no task of this core is waited for, and none will be.
    pub(crate) fn has_ended_tasks(core: &CachePadded<Self>) -> bool {
        core.tasks.is_closed() && core.tasks.len() == 0 || core.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}
