//! What the author of a handler, or of tasks of a kind, says about it: its name, what it may not run beside, where it may run, what it
//! costs.
//!
//! Annotations of cost and penalty are priors: what is measured replaces them, except under Mely's policy, which is built
//! on them. Leaves out running: `handler.rs`. Tested in `tests/model.rs`.

use crate::{
    Color, CoreIndex, Distance,
    color::{About, Queue, Seat},
    handle::Handle,
    share::Share,
};
use std::{
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    time::Duration,
};
use vermeil_sched::{CoreSet, Gather, HandlerIndex, Leader, Placement, Prior};

/// A handler, or a kind of tasks, before it is registered. A `&str` is one that has nothing but a name.
#[derive(Clone, Debug)]
pub struct Spec {
    pub(crate) name: String,
    pub(crate) prior: Prior,
    pub(crate) exclusion: Exclusion,
    pub(crate) most_runs: Option<NonZeroUsize>,
    pub(crate) place: Place,
    pub(crate) batch_events: Option<NonZeroUsize>,
    pub(crate) batch_ns: Option<NonZeroU64>,
    pub(crate) gather: Option<Gather>,
    pub(crate) class: Option<String>,
}

/// What a handler's events never run beside.
#[derive(Clone, Debug, Default)]
pub enum Exclusion {
    /// Events of the color that they are posted on.
    #[default]
    Color,
    /// Each other, whatever color they are posted on: the handler has a color of its own, which plans place.
    Handler,
    /// Events of every handler of the group, and those posted on the group's color, which plans place as one.
    Group(Color),
    /// Nothing: every event has a color of its own.
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
    /// On one of these cores.
    Cores(Vec<CoreIndex>),
    /// On the cores that share a cache of any level with this one.
    Cache(CoreIndex),
    /// On the cores of memory node `n`, counted in the order of the runtime's cores.
    Node(u32),
    /// Where the handler ([`crate::Handler::index`]) ran last: what it left in that core's cache is found there. Chosen anew
    /// whenever an event is posted on the empty color; until it has run all it has, nothing moves it.
    Follow(HandlerIndex),
    /// Where its events are posted: as [`Self::Follow`], with the poster as the one that is followed. What comes from
    /// outside the cores stays where the color was last.
    Producer,
}

impl Spec {
    /// A handler of this name: posted with a color, placed by the policy, its costs learned.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            prior: Prior::default(),
            exclusion: Exclusion::default(),
            most_runs: None,
            place: Place::default(),
            batch_events: None,
            batch_ns: None,
            gather: None,
            class: None,
        }
    }

    /// How long a run is expected to take, at most 4 s. Measured runs replace it.
    pub fn cost(mut self, expected: Duration) -> Self {
        self.prior.cost_ns = u32::try_from(expected.as_nanos()).unwrap_or(u32::MAX);
        self
    }

    /// How many times as long a run may take on another core: 1 for a handler that touches nothing of its own, more for
    /// large data that lives long. Measured moves replace it.
    pub fn penalty(mut self, factor: u32) -> Self {
        self.prior.penalty = factor;
        self
    }

    /// What its events never run beside.
    pub fn exclusion(mut self, exclusion: Exclusion) -> Self {
        self.exclusion = exclusion;
        self
    }

    /// Most of its events that run at once, at least 1, whatever colors they are on: for what bears only so many. With
    /// [`Exclusion::Color`] a color whose next event comes when so many run waits, the longest wait ending first: its core goes on with
    /// others, its events keep their order. With [`Exclusion::None`] the handler has so many colors, of which each event takes the
    /// shortest; each task of a kind has its own, which waits as said. Each other exclusion has one run at a time. Of a task each poll
    /// counts, and not its waits. As many as there are cores, or more, is no bound. Default: no bound.
    pub fn at_most(mut self, runs: usize) -> Self {
        self.most_runs = NonZeroUsize::new(runs.max(1));
        self
    }

    /// Where it may run, if it has colors of its own: with [`Exclusion::Color`] the events' colors say, with [`Exclusion::Group`]
    /// the group's. A task that is spawned without a color has one of its own.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Most events of a color that run in one go when the last one posted is this handler's, at least 1 and at most what is left of
    /// the turn ([`crate::TurnLimits::turn_events`]). Default: the turn's [`crate::TurnLimits::batch_events`].
    pub fn batch(mut self, events: usize) -> Self {
        self.batch_events = NonZeroUsize::new(events.max(1));
        self
    }

    /// How long events of a color run in one go when the last one posted is this handler's: none begins later, one runs in any case. Goes
    /// together with [`batch`](Self::batch), whichever ends first. Costs a reading of the clock for each event of a go. Default: as long as the
    /// turn.
    pub fn batch_time(mut self, time: Duration) -> Self {
        self.batch_ns = NonZeroU64::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// An empty color that an event of this handler is posted to waits for company: until it has `events`, or an event of
    /// another handler comes, but no longer than `time`. They run one after the other then, on caches that the first has warmed: as
    /// many in one go as [`batch`](Self::batch) and [`batch_time`](Self::batch_time) say. Default: nobody waits.
    pub fn gather(mut self, events: usize, time: Duration) -> Self {
        let within_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.gather = (events > 1).then_some(Gather { events, within_ns });
        self
    }

    /// The class ([`crate::Builder::classes`]) in whose share of time it runs. A color stands in the class of the handler
    /// whose event was posted on it last when it is queued, so colors should have handlers of one class; of a task that counts each
    /// wake-up, as an event of its [kind](Handle::kind). Default: the default class.
    pub fn class(mut self, name: impl Into<String>) -> Self {
        self.class = Some(name.into());
        self
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
    /// When it names no core or no handler of this runtime.
    pub fn color_at(&self, place: &Place) -> Color {
        self.new_color(self.seat(place))
    }

    /// The color of events that nobody gave one: they run one after the other, so a program without colors is right.
    pub fn default_color(&self) -> Color {
        self.shared.default_color()
    }

    pub(crate) fn seat(&self, place: &Place) -> Seat {
        let layout = &self.shared.layout;
        let these = |keep: &dyn Fn(CoreIndex) -> bool| {
            let cores: CoreSet = layout.indices().filter(|core| keep(*core)).collect();
            Seat::Lives(Placement::Cores(Arc::new(cores)))
        };
        match place {
            Place::Any => Seat::default(),
            Place::Core(core) => Seat::Lives(Placement::Core(*core)),
            Place::Cores(cores) => these(&|core| cores.contains(&core)),
            Place::Cache(near) => these(&|core| layout.distance(*near, core) <= Distance::L3),
            Place::Node(node) => these(&|core| layout.node(core) == *node),
            Place::Producer => Seat::Follows(Leader::Producer),
            Place::Follow(leader) => {
                self.shared.handlers.lead(*leader);
                Seat::Follows(Leader::Handler(*leader))
            }
        }
    }

    /// The colors that a handler with this spec has for itself, and how an event finds one.
    pub(crate) fn lanes(&self, spec: &Spec) -> Lanes {
        match &spec.exclusion {
            Exclusion::Color => Lanes::Given,
            Exclusion::Handler => Lanes::One(self.color_at(&spec.place).queue),
            Exclusion::Group(color) => Lanes::One(color.queue.clone()),
            Exclusion::None => match self.most_runs(spec) {
                None => Lanes::Fresh(self.seat(&spec.place)),
                Some(most) => Lanes::Some((0..most).map(|_| self.color_at(&spec.place).queue).collect()),
            },
        }
    }

    /// Most runs at once of what has this spec, if there are cores for more.
    pub(crate) fn most_runs(&self, spec: &Spec) -> Option<usize> {
        spec.most_runs.map(NonZeroUsize::get).filter(|most| *most < self.shared.cores.len())
    }
}

/// Where a handler's events go. Kept by the runtime, so nothing here keeps the runtime.
pub(crate) enum Lanes {
    /// To the color they are posted with.
    Given,
    /// All to one.
    One(Arc<Queue>),
    /// To the shortest of these.
    Some(Box<[Arc<Queue>]>),
    /// To a new one each.
    Fresh(Seat),
}

impl Lanes {
    /// The color for an event that is posted with `given`.
    pub(crate) fn color(&self, share: &Share, given: Option<&Color>) -> Color {
        let of = |queue: &Arc<Queue>| Color { queue: queue.clone(), shared: share.clone() };
        match self {
            Self::Given => given.cloned().unwrap_or_else(|| share.default_color()),
            Self::One(queue) => of(queue),
            Self::Some(lanes) => of(lanes.iter().min_by_key(|lane| lane.len()).expect("at least one lane")),
            Self::Fresh(seat) => share.color(seat.clone()),
        }
    }
}

impl Share {
    /// A new color that lives where `seat` says.
    pub(crate) fn color(&self, seat: Seat) -> Color {
        let core = self.place(&seat);
        Color::new(core, About::new(seat), self.clone())
    }

    fn default_color(&self) -> Color {
        let queue = self.default_color.get_or_init(|| self.color(Seat::default()).queue);
        Color { queue: queue.clone(), shared: self.clone() }
    }
}
