//! What the cores of one runtime share, and the handle through which others reach it.
//!
//! Per core: the ready queue, the parking word, the wake-up, the task registry and the counters, each on lines of its
//! own. Counters have one writer (the core); snapshots add them up.

use crate::{
    blocking::Pool,
    builder::Limits,
    color::{About, Color, Queue, Token},
    control::{Control, Report},
    core::current_of,
    handler::{HandlerCounters, HandlerSnapshot, Handlers, slots},
    hints::{Gauge, Hints},
    observed::{Noting, WORDS},
    queued::Queued,
    task::Registry,
    times::{ObservedTimes, Times},
};
use crossbeam_utils::CachePadded;
use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use vermeil_io::{Board, Clock, Unparker};
use vermeil_queue::{Parking, ReadyQueue, Ring};
use vermeil_sched::{
    Candidate, Class, CoreIndex, Distance, Gather, HandlerIndex, Hint, Layout, Leader, Placement, Policy,
    Ready, Slot, StealCost, Stealing, Stolen, TurnLimits, WATCH_NS, WorthClass,
};

pub(crate) struct Shared {
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
    /// A core was woken as a thief, or looks for work by itself: nobody else is woken meanwhile.
    pub(crate) searching: CachePadded<AtomicBool>,
    /// A color that may be moved was queued at some time: before that there is nothing to watch.
    pub(crate) something_moves: AtomicBool,
    /// The sleeping core that watches the busy ones, or `NOBODY`.
    pub(crate) sentinel: CachePadded<AtomicU32>,
    /// When a sentinel was called last, on the measuring clock.
    sentinel_called_ns: CachePadded<AtomicU64>,
    pub(crate) default_color: OnceLock<Arc<Queue>>,
    /// Held while the events of one meeting are queued on all its colors: meetings have one order.
    pub(crate) meetings: Mutex<()>,
    pub(crate) handlers: Handlers,
    pub(crate) blocking: Pool,
    pub(crate) stopping: AtomicBool,
    /// All cores have ended: what is queued from now on is dropped at once.
    pub(crate) ended: AtomicBool,
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
    pub(crate) queued: CachePadded<Queued>,
    /// Tasks spawned on this core, less those that ended on it.
    pub(crate) tasks_alive: CachePadded<Queued>,
    pub(crate) counters: CachePadded<CoreCounters>,
    pub(crate) handlers: Box<[HandlerCounters]>,
    /// By handler, what was observed of it here.
    pub(crate) times: Box<[OnceLock<Box<Times>>]>,
    /// The last events that ran here, where they are recorded.
    pub(crate) ring: Option<Ring<WORDS>>,
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
    pub(crate) steals: AtomicU64,
    pub(crate) stolen_ns: AtomicU64,
    pub(crate) steal_ns: AtomicU64,
    pub(crate) searches: AtomicU64,
    pub(crate) thieves_woken: AtomicU64,
    pub(crate) rounds: AtomicU64,
}

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
                tasks_alive: CachePadded::default(),
                counters: CachePadded::default(),
                handlers: (0..slots(limits.handlers)).map(|_| HandlerCounters::default()).collect(),
                times: (0..slots(limits.handlers)).map(|_| OnceLock::new()).collect(),
                ring: noting.ring(),
                unparker: OnceLock::new(),
                io: OnceLock::new(),
            })
        };
        Arc::new(Self {
            cores: cpus.iter().map(core).collect(),
            default_color: OnceLock::new(),
            meetings: Mutex::new(()),
            divides: !classes.is_empty(),
            handlers: Handlers::new(limits.handlers, stealing, classes),
            limits,
            turn,
            policy,
            stealing,
            layout,
            control,
            clock: Clock::get(),
            noting,
            board,
            asleep: CachePadded::default(),
            searching: CachePadded::default(),
            something_moves: AtomicBool::new(false),
            sentinel: CachePadded::new(AtomicU32::new(NOBODY)),
            sentinel_called_ns: CachePadded::default(),
            blocking: pool,
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            colors: AtomicU64::new(0),
        })
    }

    pub(crate) fn core(&self, index: u32) -> &CoreShared {
        &self.cores[index as usize]
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
        let core = self.enqueue(token, entries);
        if !self.ring(core)
            && let Some(color) = color
        {
            self.consider_thief(&color, core);
        }
    }

    /// Something was queued on core `index`: wakes it if it sleeps and is not the one that says so. Whether it did.
    pub(crate) fn ring(&self, index: u32) -> bool {
        let here = current_of(self, |core| core.index.0 == index).unwrap_or(false);
        let rings = !here && self.core(index).parking.must_wake();
        if rings {
            self.core(index).unpark();
        }
        rings
    }

    /// Wakes a sleeping core to look for work, unless another looks already.
    pub(crate) fn wake_thief(&self, thief: CoreIndex) {
        if self.searching.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.core(thief.0).parking.must_wake() {
            current_of(self, |core| add(&core.mine().counters.thieves_woken, 1));
            self.core(thief.0).unpark();
        } else {
            // It woke by itself meanwhile, and need not search.
            self.searching.store(false, Ordering::Relaxed);
        }
    }

    /// An event was posted on a color that has its token already.
    #[inline]
    pub(crate) fn posted(&self, color: &Arc<Queue>, handler: HandlerIndex, added_ns: u32) {
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

    /// Queues a token where its color is, with so many entries of its events; gives the core.
    pub(crate) fn enqueue(&self, token: Token, entries: usize) -> u32 {
        if let Some(core) = token.color().about.take_wanted() {
            token.move_to(core.0);
        }
        let mut token = Some(token);
        loop {
            let index = token.as_ref().expect("taken only when queued").color().core();
            let queued = self.core(index).ready.with(|ready| {
                // Under the lock, under which everything was taken out after this was set: nothing slips in behind.
                if self.ended.load(Ordering::Relaxed) {
                    return None;
                }
                // The color may have been moved before the lock was had.
                let here = token.take_if(|token| token.color().core() == index)?;
                self.put(ready, here, entries);
                Some(())
            });
            if queued.is_some() {
                return index;
            }
            if self.ended.load(Ordering::Relaxed) {
                token.map(Token::discard);
                return index;
            }
        }
    }

    /// Puts a token of a color of this core into its queue.
    pub(crate) fn put(&self, ready: &mut Ready<Token>, token: Token, entries: usize) {
        let color = token.color();
        let (name, class) = (color.id().0.get(), self.class(color));
        ready.post(name, entries);
        let (of, now_ns) = match self.divides {
            true => (self.handlers.class(color.about.handler()), self.clock.now_ns()),
            false => Default::default(),
        };
        let slot = ready.push_in(name, token, class, of, now_ns);
        if let Some(token) = ready.get(slot) {
            token.color().about.slot.store(slot.0, Ordering::Relaxed);
        }
    }

    /// Keeps the token of a color that was empty until its events have gathered.
    #[cold]
    pub(crate) fn gather(&self, token: Token, gather: Gather) {
        let color = token.color().clone();
        // Nobody moves it: this is its token.
        let index = color.core();
        let name = color.id().0.get();
        let due_ns = self.clock.now_ns().saturating_add(gather.within_ns);
        let late = self.core(index).ready.with(|ready| {
            if self.ended.load(Ordering::Relaxed) {
                return Some(token);
            }
            color.about.gathering.store(true, Ordering::Relaxed);
            ready.post(name, 1);
            ready.gather(name, token, due_ns);
            None
        });
        if let Some(token) = late {
            token.discard();
        } else if gather.is_enough(color.len()) {
            // What was posted meanwhile may not have seen that it gathers.
            self.end_gathering(&color);
        } else {
            // It may sleep for longer.
            self.ring(index);
        }
    }

    fn end_gathering(&self, color: &Queue) {
        let name = color.id().0.get();
        let gathered = self.core(color.core()).ready.with(|ready| ready.take_gathering(name));
        if let Some(token) = gathered {
            self.gathered(token);
        }
    }

    /// A color has gathered its events, or waited for as long as it may.
    pub(crate) fn gathered(&self, token: Token) {
        token.color().about.gathering.store(false, Ordering::Relaxed);
        self.schedule(token, 0);
    }

    /// Sends `color` to core `to`: at once if it waits in a queue, when its activation ends if it runs, with its next event
    /// if it has none. Whoever holds the token does it, so the color is never on two cores. Not for Libasync-SMP's order, in
    /// which nothing is placed: its entries would stay behind.
    pub(crate) fn relocate(&self, color: &Color, to: CoreIndex) {
        let queue = &color.queue;
        queue.about.want(to);
        let name = queue.id().0.get();
        let waiting = self
            .core(queue.core())
            .ready
            .with(|ready| ready.remove(Slot(queue.about.slot.load(Ordering::Relaxed)), name));
        if let Some(Stolen { token, entries }) = waiting {
            self.schedule(token, entries);
        }
    }

    /// What `color` is worth to a thief; `None` if it must stay.
    fn class(&self, color: &Queue) -> Option<WorthClass> {
        if !self.stealing.is_on() || !color.about.may_move() {
            return None;
        }
        if !self.something_moves.load(Ordering::Relaxed) {
            self.something_moves.store(true, Ordering::Relaxed);
        }
        let class = WorthClass::of(color.worth_ns());
        // Mely leaves what is worth too little; the others may take it yet, for its wait or without a reason.
        if self.stealing == Stealing::TimeLeft { class } else { class.or(Some(WorthClass::LEAST)) }
    }

    /// Libasync-SMP's order: one more entry for an event of a color whose token is somewhere.
    fn post_entry(&self, color: &Queue) {
        loop {
            let index = color.core();
            let posted = self.core(index).ready.with(|ready| {
                let here = color.core() == index;
                if here {
                    ready.post(color.id().0.get(), 1);
                }
                here
            });
            if posted {
                self.ring(index);
                return;
            }
        }
    }

    #[cold]
    fn reclass(&self, color: &Arc<Queue>, class: Option<WorthClass>) {
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

    /// Wakes a sleeping core to steal `color`, which waits on `owner`, if that pays.
    fn consider_thief(&self, color: &Arc<Queue>, owner: u32) {
        if self.asleep.load(Ordering::Relaxed) == 0 || self.searching.load(Ordering::Relaxed) {
            return;
        }
        let asleep = |core: &&CoreIndex| self.core(core.0).parking.is_asleep() && self.may_go(color, **core);
        let owner = CoreIndex(owner);
        let Some(thief) = self.layout.neighbours(owner).iter().find(asleep) else { return };
        let now_ns = self.clock.now_ns();
        let hint = self.hint(owner);
        let distance = self.layout.distance(owner, *thief);
        let candidate = self.candidate(color, &hint, distance, now_ns);
        let (steal_ns, wake_ns) = move_costs(distance);
        let wakes = self.stealing.wakes(&candidate, &hint, steal_ns, wake_ns);
        if wakes || self.needs_sentinel(&hint, now_ns) {
            self.wake_thief(*thief);
        }
    }

    /// Whether a core must be woken to watch this one: something waits behind what runs there, too little to be stolen now,
    /// and nobody would notice if it had to wait for long. At most one call per watch.
    fn needs_sentinel(&self, owner: &Hint, now_ns: u64) -> bool {
        self.stealing == Stealing::Learned
            && owner.running_since_ns.is_some()
            && self.sentinel.load(Ordering::Relaxed) == NOBODY
            && now_ns.saturating_sub(self.sentinel_called_ns.load(Ordering::Relaxed)) > WATCH_NS
            && {
                self.sentinel_called_ns.store(now_ns, Ordering::Relaxed);
                true
            }
    }

    /// Whether `color` may be taken to `core`.
    pub(crate) fn may_go(&self, color: &Queue, core: CoreIndex) -> bool {
        let apart = self.policy.keeps_nodes_apart()
            && self.layout.node(CoreIndex(color.core())) != self.layout.node(core);
        !apart && color.about.may_move() && color.about.placement.allows(core)
    }

    /// `color` as whoever would take it over `distance` weighs it, when its core looks like `owner`.
    pub(crate) fn candidate(
        &self,
        color: &Queue,
        owner: &Hint,
        distance: Distance,
        now_ns: u64,
    ) -> Candidate {
        let moved_ns = color.about.moved_ns.load(Ordering::Relaxed);
        Candidate {
            worth_ns: color.worth_ns(),
            wait_ns: owner.wait_ns(now_ns),
            penalty_ns: self.handlers.published(color.about.handler()).penalty_ns(distance),
            since_move_ns: if moved_ns == 0 { u64::MAX } else { now_ns.saturating_sub(moved_ns) },
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

    pub(crate) fn new_color(self: &Arc<Self>, placement: Placement, leader: Option<Leader>) -> Color {
        // Not the color's name: those are the process's, and another runtime's would unbalance this one's placement.
        let number = || self.colors.fetch_add(1, Ordering::Relaxed) + 1;
        let maker = current_of(self, |core| core.index);
        let core = self.policy.place(number, &placement, maker, self.cores.len());
        Color::new(core, About::new(placement, leader), self.clone())
    }
}

impl CoreShared {
    /// Whether no task of this core is waited for.
    pub(crate) fn has_ended_tasks(core: &CachePadded<Self>) -> bool {
        core.tasks.len() == 0 || core.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn unpark(&self) {
        if let Some(unparker) = self.unparker.get() {
            unparker.unpark();
        }
    }
}

/// What a move over `distance` and the wake before it are taken to cost by whoever does not steal: the thief, who has
/// timed its own, asks again.
pub(crate) fn move_costs(distance: Distance) -> (u64, u64) {
    let assumed = StealCost::default();
    (assumed.estimate_ns(distance), assumed.wake_ns())
}

/// Reaches a runtime from anywhere; cheap to clone. Outliving the runtime does no harm: what is posted then is dropped, and
/// tasks end as cancelled.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// A new color, placed by the policy.
    pub fn color(&self) -> Color {
        self.shared.new_color(Placement::Any, None)
    }

    /// A new color that lives on `core`.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn color_on(&self, core: CoreIndex) -> Color {
        self.shared.new_color(Placement::Core(core), None)
    }

    /// What each core shows of itself: since when it has not looked at its sockets, by the clock of
    /// [`monotonic_ns`](crate::monotonic_ns).
    pub fn board(&self) -> &Board {
        &self.shared.board
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
            ready_colors: Gauge(core.ready.len()).waiting() as usize,
            queued_events: core.queued.len(),
            activations: get(&core.counters.activations),
            events: get(&core.counters.events),
            panics: get(&core.counters.panics),
            polls: get(&core.counters.polls),
            parks: get(&core.counters.parks),
            completions: get(&core.counters.completions),
            driver_errors: get(&core.counters.driver_errors),
            steals: get(&core.counters.steals),
            stolen_ns: get(&core.counters.stolen_ns),
            steal_ns: get(&core.counters.steal_ns),
            searches: get(&core.counters.searches),
            thieves_woken: get(&core.counters.thieves_woken),
            rounds: get(&core.counters.rounds),
            times: sum_times(core.times.iter()),
        });
        Snapshot {
            tasks: self.shared.tasks_alive(),
            cores: cores.collect(),
            handlers: self.handler_snapshots(),
        }
    }

    /// What the policy has decided about handlers lately (at most 256 decisions, oldest first) and where each handler
    /// with a color of its own stands.
    pub fn placements(&self) -> Placements {
        let report = self.shared.control.as_ref().map(Control::report);
        let Report { decisions, handlers, regret_ns } = report.unwrap_or_default();
        let decisions = decisions.iter().map(ToString::to_string).collect();
        Placements { handlers, decisions, regret: regret_ns.map(Duration::from_nanos) }
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
                HandlerSnapshot {
                    name: name.clone(),
                    runs: sum(|c| &c.runs),
                    panics: sum(|c| &c.panics),
                    times: sum_times(self.shared.cores.iter().map(|core| &core.times[index])),
                }
            })
            .collect()
    }
}

fn sum_times<'a>(times: impl Iterator<Item = &'a OnceLock<Box<Times>>>) -> ObservedTimes {
    let mut sum = ObservedTimes::default();
    times.filter_map(OnceLock::get).for_each(|times| times.add_to(&mut sum));
    sum
}

/// Where handlers stand, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// Handlers with a color of their own, by name, in order of registration.
    pub handlers: Vec<(String, CoreIndex)>,
    /// Decisions in words, oldest first.
    pub decisions: Vec<String>,
    /// Time that trials of plans have lost so far, of the whole machine and as measured: at most two percent, and 20 ms at once.
    /// None under policies that do not bound it.
    pub regret: Option<Duration>,
}

/// The runtime's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Tasks that have not ended.
    pub tasks: usize,
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
    /// Colors this core took from others.
    pub steals: u64,
    /// What the stolen colors' queued events were expected to take, in nanoseconds.
    pub stolen_ns: u64,
    /// What the successful steals themselves took, in nanoseconds.
    pub steal_ns: u64,
    /// Looks around for something to steal, successful or not.
    pub searches: u64,
    /// Sleeping cores that this core woke to steal from a busy one.
    pub thieves_woken: u64,
    /// Rounds of observation this core has answered.
    pub rounds: u64,
    /// Of the events of all handlers that ran here and were observed.
    pub times: ObservedTimes,
}
