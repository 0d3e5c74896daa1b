//! An author's description of a handler, or of a kind of tasks: name, exclusion, placement, costs.
//!
//! Annotations of cost and penalty are cost_hints: measurements replace them, except under Mely's
//! policy, which relies on annotations. Leaves out running: `handler.rs`. Tested in
//! `tests/model.rs`.

use crate::{
    Color, CoreIndex, Distance,
    affinity::Affinity,
    color_meta::{ColorMeta, RuntimeQueue},
    core::current_of,
    handle::Handle,
    handler_colors::HandlerColors,
    handlers::NewHandler,
    runtime_ref::RuntimeRef,
    shared::RuntimeShared,
};
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    time::Duration,
};
use vermeil_sched::{BatchWait, CoreSet, CostHint, HandlerIndex, Leader, Placement};

/// A handler, or a kind of tasks, before the registration. A `&str` converts to a spec with a name
/// only.
#[derive(Clone, Debug)]
pub struct Spec {
    pub(crate) name: String,
    pub(crate) cost_hint: CostHint,
    pub(crate) exclusion: Exclusion,
    pub(crate) most_runs: Option<NonZeroUsize>,
    pub(crate) place: Place,
    pub(crate) batch_events: Option<NonZeroUsize>,
    pub(crate) batch_ns: Option<NonZeroU64>,
    pub(crate) batch_wait: Option<BatchWait>,
    pub(crate) class: Option<String>,
}

/// The events that a handler's events never run beside.
#[derive(Clone, Debug, Default)]
pub enum Exclusion {
    /// Events of the color that the event is posted on.
    #[default]
    Color,
    /// All other events of the handler, whatever their color: the handler has its own color, which
    /// plans place.
    Handler,
    /// Events of every handler of the group, and events posted on the group's color. Plans place
    /// the group as a unit.
    Group(Color),
    /// No events: every event gets a new color.
    None,
}

/// Where a color or a handler may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Wherever the policy puts it.
    #[default]
    Any,
    /// On this core.
    Core(CoreIndex),
    /// On any of these cores.
    Cores(Vec<CoreIndex>),
    /// On the cores that share a cache of any level with this core.
    Cache(CoreIndex),
    /// On the cores of memory node `n`, counted in the order of the runtime's cores.
    Node(u32),
    /// On the core where the handler ([`crate::Handler::index`]) ran last, because the handler's
    /// data is in that core's cache. Chosen again whenever an event is posted on the empty color,
    /// and for a task with its own color at each wake-up. A color with events does not move.
    Follow(HandlerIndex),
    /// On the core of the poster, chosen as for [`Self::Follow`]. After a post by a thread that is
    /// no core, the color stays on its last core.
    Producer,
}

impl Spec {
    /// A handler of this name: posted with a color, placed by the policy, with learned costs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cost_hint: CostHint::default(),
            exclusion: Exclusion::default(),
            most_runs: None,
            place: Place::default(),
            batch_events: None,
            batch_ns: None,
            batch_wait: None,
            class: None,
        }
    }

    /// Expected time of a run, at most 4 s. Measurements replace the value.
    pub fn cost(mut self, expected: Duration) -> Self {
        self.cost_hint.cost_ns = u32::try_from(expected.as_nanos()).unwrap_or(u32::MAX);
        self
    }

    /// The factor by which a run may take longer on another core: 1 for a handler without data of
    /// its own, more for large data that lives long. Measurements replace the value.
    pub fn penalty(mut self, factor: u32) -> Self {
        self.cost_hint.penalty = factor;
        self
    }

    /// The events that the handler's events never run beside.
    pub fn exclusion(mut self, exclusion: Exclusion) -> Self {
        self.exclusion = exclusion;
        self
    }

    /// Most of the handler's events that run at once, at least 1, whatever their colors: for a
    /// resource with limited parallelism. For a task each poll counts, not its waits. A bound of at
    /// least the number of cores is no bound. Default: no bound.
    ///
    /// - [`Exclusion::Color`]: a color whose next event exceeds the bound waits, and the color that
    ///   has waited longest is next. The core continues with other colors, and the color's events
    ///   keep their order.
    /// - [`Exclusion::None`]: a handler has as many colors as the bound, and each event goes to the
    ///   color with the fewest events. Each task of a kind has its own color, which waits as above.
    /// - Any other exclusion runs a single event at a time.
    pub fn at_most(mut self, runs: usize) -> Self {
        self.most_runs = NonZeroUsize::new(runs.max(1));
        self
    }

    /// Where the handler may run, if it has colors of its own. With [`Exclusion::Color`] the
    /// events' colors decide, with [`Exclusion::Group`] the group's color. A task that is spawned
    /// without a color has its own color.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Most events of a color that run in a go if the last posted event is this handler's, at least
    /// 1 and at most the rest of the turn ([`crate::TurnLimits::turn_events`]). Default: the turn's
    /// [`crate::TurnLimits::batch_events`].
    pub fn batch(mut self, events: usize) -> Self {
        self.batch_events = NonZeroUsize::new(events.max(1));
        self
    }

    /// Longest go of a color if the last posted event is this handler's. No event but the first
    /// begins after this time. Combined with [`batch`](Self::batch), the earlier limit ends the go.
    /// Costs a reading of the clock for each event of a go. Default: the rest of the turn.
    pub fn batch_time(mut self, time: Duration) -> Self {
        self.batch_ns = NonZeroU64::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// Makes an empty color wait after an event of this handler is posted there: until the color
    /// has `events` events, or until an event of a handler that does not gather arrives, but at
    /// most for `time`. After an event of another handler that gathers, that handler's number of
    /// events counts.
    /// The events then run in sequence, on caches that the first event has warmed, as many in a go
    /// as [`batch`](Self::batch) and [`batch_time`](Self::batch_time) allow. Default: no wait.
    pub fn batch_wait(mut self, events: usize, time: Duration) -> Self {
        let within_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.batch_wait = (events > 1).then_some(BatchWait { events, within_ns });
        self
    }

    /// The class ([`crate::Builder::classes`]) whose share of time the handler uses. When a color
    /// is queued, its class is the class of the handler of its last posted event, so the handlers
    /// of a color should share a class. For a task each wake-up counts as an event of its
    /// [kind](Handle::kind). Default: the default class.
    pub fn class(mut self, name: impl Into<String>) -> Self {
        self.class = Some(name.into());
        self
    }
}

impl Spec {
    /// The properties that the runtime's table of handlers keeps.
    pub(crate) fn as_new(&self) -> NewHandler<'_> {
        NewHandler {
            name: &self.name,
            cost_hint: self.cost_hint,
            batch_events: self.batch_events,
            batch_ns: self.batch_ns,
            batch_wait: self.batch_wait,
            class: self.class.as_deref(),
        }
    }
}

impl From<&str> for Spec {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<&String> for Spec {
    fn from(name: &String) -> Self {
        Self::new(name)
    }
}

impl From<String> for Spec {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl Handle {
    /// A new color that lives where `place` says.
    ///
    /// # Panics
    /// If `place` names no core or no handler of this runtime.
    pub fn color_at(&self, place: &Place) -> Color {
        self.new_color(self.affinity(place))
    }

    /// The color of events that are posted without a color. These events run in sequence, so a
    /// program without colors is correct.
    pub fn default_color(&self) -> Color {
        self.shared.default_color()
    }

    pub(crate) fn affinity(&self, place: &Place) -> Affinity {
        let layout = &self.shared.settings.layout;
        let these = |keep: &dyn Fn(CoreIndex) -> bool| {
            let cores: CoreSet = layout.indices().filter(|core| keep(*core)).collect();
            Affinity::Placed(Placement::Cores(Arc::new(cores)))
        };
        match place {
            Place::Any => Affinity::default(),
            Place::Core(core) => Affinity::Placed(Placement::Core(*core)),
            Place::Cores(cores) => these(&|core| cores.contains(&core)),
            Place::Cache(near) => these(&|core| layout.distance(*near, core) <= Distance::L3),
            Place::Node(node) => these(&|core| layout.node(core) == *node),
            Place::Producer => Affinity::FollowsHandler(Leader::Producer),
            Place::Follow(leader) => {
                self.shared.handlers.lead(*leader);
                Affinity::FollowsHandler(Leader::Handler(*leader))
            }
        }
    }

    /// The colors that a handler with this spec owns, and how an event finds a color.
    pub(crate) fn lanes(&self, spec: &Spec) -> HandlerColors {
        match &spec.exclusion {
            Exclusion::Color => HandlerColors::Given,
            Exclusion::Handler => HandlerColors::One(self.color_at(&spec.place).queue),
            Exclusion::Group(color) => HandlerColors::One(color.queue.clone()),
            Exclusion::None => match self.most_runs(spec) {
                None => HandlerColors::Fresh(self.affinity(&spec.place)),
                Some(most) => {
                    HandlerColors::Some((0..most).map(|_| self.color_at(&spec.place).queue).collect())
                }
            },
        }
    }

    /// Most parallel runs of a handler or kind with this spec; `None` if there are no cores for
    /// more.
    pub(crate) fn most_runs(&self, spec: &Spec) -> Option<usize> {
        spec.most_runs.map(NonZeroUsize::get).filter(|most| *most < self.shared.cores.len())
    }
}

impl HandlerColors {
    /// The color for an event that is posted with `given`.
    pub(crate) fn color(&self, share: &RuntimeRef, given: Option<&Color>) -> Color {
        let of = |queue: &Arc<RuntimeQueue>| Color { queue: queue.clone(), shared: share.clone() };
        match self {
            Self::Given => given.cloned().unwrap_or_else(|| share.default_color()),
            Self::One(queue) => of(queue),
            Self::Some(lanes) => of(lanes.iter().min_by_key(|lane| lane.len()).expect("at least one lane")),
            Self::Fresh(affinity) => share.color(affinity.clone()),
        }
    }
}

impl RuntimeShared {
    /// The first core of a new color.
    pub(crate) fn place(&self, affinity: &Affinity) -> CoreIndex {
        // Not the color's id: ids count for the whole process, so another runtime would unbalance
        // this runtime's placement.
        let number = || self.colors.next();
        let maker = current_of(self, |core| core.index);
        let placement =
            if let Affinity::Placed(placement) = affinity.inner() { placement } else { &Placement::Any };
        self.settings.policy.place(number, placement, maker, self.cores.len())
    }
}

impl RuntimeRef {
    /// A new color that lives where `affinity` says.
    pub(crate) fn color(&self, affinity: Affinity) -> Color {
        let core = self.place(&affinity);
        Color::new(core, ColorMeta::new(affinity), self.clone())
    }

    fn default_color(&self) -> Color {
        let queue = self.colors.default.get_or_init(|| self.color(Affinity::default()).queue);
        Color { queue: queue.clone(), shared: self.clone() }
    }
}
