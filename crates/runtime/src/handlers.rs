//! The handlers of a runtime: their rules, their counters, and the colors to which their events go.
//!
//! Leaves out posting (`handler.rs`). Tested in `tests/handler.rs` and
//! `tests/concurrency_limit.rs`.

use crate::{
    affinity::Affinity,
    code::HandlerCodes,
    color_meta::RuntimeHead,
    concurrency_limit::{ConcurrencyLimit, take_permit},
    counters::NOBODY,
    error::RegisterError,
    handler_colors::HandlerColors,
    kind_table::{KINDS_MAX, Kinds},
};
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};
use vermeil_sched::{
    BatchWait, Class, ClassIndex, CoreIndex, CostHint, HandlerIndex, PublishedCosts, Stealing,
};

/// The properties of a new handler.
pub(crate) struct NewHandler<'a> {
    pub(crate) name: &'a str,
    pub(crate) cost_hint: CostHint,
    pub(crate) batch_events: Option<NonZeroUsize>,
    pub(crate) batch_ns: Option<NonZeroU64>,
    pub(crate) batch_wait: Option<BatchWait>,
    pub(crate) class: Option<&'a str>,
}

impl<'a> NewHandler<'a> {
    fn named(name: &'a str) -> Self {
        let (cost_hint, batch_events, batch_ns) = (CostHint::default(), None, None);
        Self { name, cost_hint, batch_events, batch_ns, batch_wait: None, class: None }
    }
}

/// A handler's counters on a core, written by that core; or the counters of all threads that are no
/// cores.
#[derive(Default)]
pub(crate) struct HandlerCounters {
    pub(crate) runs: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) steals: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) wakes: AtomicU64,
}

/// The registered handlers of a runtime; a handler's index is its position. The first handler
/// counts the polls of tasks without a kind of their own.
pub(crate) struct Handlers {
    names: Mutex<Vec<String>>,
    pub(crate) kinds: Kinds,
    /// Number of handlers that a program has registered; at most `bound`.
    registered: AtomicUsize,
    bound: usize,
    cost_hints: Mutex<Vec<CostHint>>,
    classes: Vec<Class>,
    any_batch_waits: AtomicBool,
    rules: Box<[HandlerRules]>,
    published: Box<[PublishedCosts<AtomicU32>]>,
    stealing: Stealing,
    /// The code of each handler.
    pub(crate) codes: HandlerCodes,
    /// Counters by handler of threads that are not cores.
    pub(crate) outside: Box<[HandlerCounters]>,
}

/// The per-handler words that each event reads, together on a cache line.
struct HandlerRules {
    /// Most events of a color in a go; zero: the turn's limit.
    batch: AtomicUsize,
    /// The longest duration of a go; zero: the turn's limit.
    batch_ns: AtomicU64,
    /// The core of the handler's last run, if another handler follows this handler or if the
    /// handler has permits. `UNWATCHED` if nothing needs to happen when an event begins, `NOBODY`
    /// before the first run.
    lead: AtomicU32,
    class: AtomicU8,
    /// How its colors gather events, if they gather.
    batch_wait: OnceLock<BatchWait>,
    /// The permits of a handler with bounded parallelism. Such a handler is watched.
    concurrency_limit: OnceLock<ConcurrencyLimit>,
    /// The target of the handler's events, unless the events go to the colors that they are posted
    /// with.
    routes: OnceLock<Box<Routes>>,
}

/// The target of the events of a handler, or of the tasks of a kind.
pub(crate) struct Routes {
    pub(crate) lanes: HandlerColors,
    /// Placement of tasks that have a color for themselves.
    pub(crate) affinity: Affinity,
}

/// The result of an attempt to begin an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    Freely,
    /// The event has a permit, which the caller returns.
    WithPermit,
    /// The event has no permit yet, and must wait.
    NotYet,
}

impl HandlerRules {
    fn new() -> Self {
        Self {
            batch: AtomicUsize::new(0),
            batch_ns: AtomicU64::new(0),
            lead: AtomicU32::new(UNWATCHED),
            class: AtomicU8::new(0),
            batch_wait: OnceLock::new(),
            concurrency_limit: OnceLock::new(),
            routes: OnceLock::new(),
        }
    }
}

/// Number of handlers when a program may register `bound`: those, the handler of tasks, and a
/// handler for each kind of tasks. At most as many as a label has numbers for.
pub(crate) fn handlers_max(bound: usize) -> usize {
    bound.saturating_add(1 + KINDS_MAX).min(1 << 16)
}

/// A handler without followers and without permits: an event begins without further work.
const UNWATCHED: u32 = NOBODY - 1;

impl Handlers {
    pub(crate) fn new(bound: usize, stealing: Stealing, classes: Vec<Class>) -> Self {
        let handlers_max = handlers_max(bound);
        let published =
            (0..handlers_max).map(|_| PublishedCosts::new(CostHint::default(), Stealing::Never)).collect();
        let handlers = Self {
            names: Mutex::default(),
            kinds: Kinds::default(),
            registered: AtomicUsize::new(0),
            bound: bound.min(u16::MAX.into()),
            cost_hints: Mutex::default(),
            classes,
            any_batch_waits: AtomicBool::new(false),
            rules: (0..handlers_max).map(|_| HandlerRules::new()).collect(),
            published,
            stealing,
            codes: HandlerCodes::default(),
            outside: (0..handlers_max).map(|_| HandlerCounters::default()).collect(),
        };
        handlers.add(&NewHandler::named("task"), ClassIndex::default());
        handlers
    }

    fn rules(&self, handler: HandlerIndex) -> &HandlerRules {
        &self.rules[handler.0 as usize]
    }

    pub(crate) fn published(&self, handler: HandlerIndex) -> &PublishedCosts<AtomicU32> {
        &self.published[handler.0 as usize]
    }

    pub(crate) fn cost_hint(&self, handler: HandlerIndex) -> CostHint {
        self.cost_hints.lock().expect("nothing panics under this lock")[handler.0 as usize]
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names.lock().expect("nothing panics under this lock").clone()
    }

    pub(crate) fn name(&self, handler: HandlerIndex) -> String {
        self.names.lock().expect("nothing panics under this lock")[handler.0 as usize].clone()
    }

    /// Most events of a color in a go after an event of `handler` was posted there: `usual`, unless
    /// the handler sets its own limit, and never more than `left`.
    #[inline]
    pub(crate) fn batch(&self, handler: HandlerIndex, usual: usize, left: usize) -> usize {
        match self.rules(handler).batch.load(Ordering::Relaxed) {
            0 => usual,
            batch => batch.min(left),
        }
    }

    /// Longest go of a color after an event of `handler` was posted there, if the handler sets a
    /// limit.
    #[inline]
    pub(crate) fn batch_ns(&self, handler: HandlerIndex) -> Option<u64> {
        let batch_ns = self.rules(handler).batch_ns.load(Ordering::Relaxed);
        (batch_ns != 0).then_some(batch_ns)
    }

    /// The class of `handler`.
    #[inline]
    pub(crate) fn class(&self, handler: HandlerIndex) -> ClassIndex {
        ClassIndex(self.rules(handler).class.load(Ordering::Relaxed))
    }

    /// How a color gathers events if an event of `handler` is the first.
    #[inline]
    pub(crate) fn batch_wait(&self, handler: HandlerIndex) -> Option<BatchWait> {
        self.rules(handler).batch_wait.get().copied()
    }

    /// Whether the colors of any handler gather.
    #[inline]
    pub(crate) fn any_batch_wait(&self) -> bool {
        self.any_batch_waits.load(Ordering::Relaxed)
    }

    pub(crate) fn class_of(&self, new: &NewHandler<'_>) -> Result<ClassIndex, RegisterError> {
        let Some(name) = new.class else { return Ok(ClassIndex::default()) };
        let at = self.classes.iter().position(|class| class.name() == name);
        let at = at.ok_or_else(|| RegisterError::NoClass { name: name.to_owned() })?;
        Ok(ClassIndex(at as u8 + 1))
    }

    /// The target of the events of `handler`, unless the events go to the colors that they are
    /// posted with.
    #[inline]
    pub(crate) fn routes(&self, handler: HandlerIndex) -> Option<&Routes> {
        self.rules(handler).routes.get().map(|routes| &**routes)
    }

    /// Set once, before the first event.
    pub(crate) fn route(&self, handler: HandlerIndex, routes: Routes) {
        self.rules(handler).routes.get_or_init(|| Box::new(routes));
    }

    /// Another handler follows `handler`.
    ///
    /// # Panics
    /// If there is no such handler.
    pub(crate) fn lead(&self, handler: HandlerIndex) {
        assert!((handler.0 as usize) < self.names().len(), "only a handler of this runtime can be followed");
        self.watch(handler);
    }

    /// Begins an event of `handler` on `color` and `core`, if the event may begin.
    #[inline]
    pub(crate) fn begins_on(&self, handler: HandlerIndex, core: CoreIndex, color: &RuntimeHead) -> Begins {
        let before = self.rules(handler).lead.load(Ordering::Relaxed);
        if before == UNWATCHED { Begins::Freely } else { self.begins_watched(handler, before, core, color) }
    }

    #[cold]
    #[inline(never)]
    fn begins_watched(
        &self,
        handler: HandlerIndex,
        before: u32,
        core: CoreIndex,
        color: &RuntimeHead,
    ) -> Begins {
        let rules = self.rules(handler);
        let concurrency_limit = rules.concurrency_limit.get();
        if concurrency_limit.is_some_and(|limit| !take_permit(limit, color)) {
            return Begins::NotYet;
        }
        if before != core.0 {
            rules.lead.store(core.0, Ordering::Relaxed);
        }
        if concurrency_limit.is_some() { Begins::WithPermit } else { Begins::Freely }
    }

    /// At most `most` events of `handler` run at once from now on. Set once, before the first
    /// event.
    pub(crate) fn bound_runs(&self, handler: HandlerIndex, most: usize) {
        self.rules(handler).concurrency_limit.get_or_init(|| ConcurrencyLimit::new(most));
        self.watch(handler);
    }

    /// The permits of a handler with bounded parallelism.
    pub(crate) fn concurrency_limit(&self, handler: HandlerIndex) -> Option<&ConcurrencyLimit> {
        self.rules(handler).concurrency_limit.get()
    }

    pub(crate) fn concurrency_limits(&self) -> impl Iterator<Item = &ConcurrencyLimit> {
        self.rules.iter().filter_map(|rules| rules.concurrency_limit.get())
    }

    /// From now on the begin of an event of `handler` needs work.
    fn watch(&self, handler: HandlerIndex) {
        let lead = &self.rules(handler).lead;
        let _ = lead.compare_exchange(UNWATCHED, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The core of the last run of a followed handler.
    pub(crate) fn ran_on(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        let core = self.rules(handler).lead.load(Ordering::Relaxed);
        (core < UNWATCHED).then_some(CoreIndex(core))
    }

    pub(crate) fn register(
        &self,
        new: &NewHandler<'_>,
        class: ClassIndex,
    ) -> Result<HandlerIndex, RegisterError> {
        let (bound, more) = (self.bound, |before: usize| (before < self.bound).then_some(before + 1));
        let registered = &self.registered;
        if registered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(RegisterError::TooMany { bound });
        }
        Ok(self.add(new, class))
    }

    /// Number of kinds of tasks with a handler of their own: the numbers that are left.
    pub(crate) fn kinds_max(&self) -> usize {
        self.published.len() - 1 - self.bound
    }

    pub(crate) fn add(&self, new: &NewHandler<'_>, class: ClassIndex) -> HandlerIndex {
        let mut names = self.names.lock().expect("nothing panics under this lock");
        let index = HandlerIndex(names.len() as u32);
        self.cost_hints.lock().expect("nothing panics under this lock").push(new.cost_hint);
        self.published(index).start(new.cost_hint, self.stealing);
        let batch = new.batch_events.map_or(0, NonZeroUsize::get);
        self.rules(index).batch.store(batch, Ordering::Relaxed);
        self.rules(index).batch_ns.store(new.batch_ns.map_or(0, NonZeroU64::get), Ordering::Relaxed);
        self.rules(index).class.store(class.0, Ordering::Relaxed);
        if let Some(batch_wait) = new.batch_wait {
            self.rules(index).batch_wait.get_or_init(|| batch_wait);
            self.any_batch_waits.store(true, Ordering::Relaxed);
        }
        names.push(new.name.to_owned());
        index
    }
}
