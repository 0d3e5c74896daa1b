//! Resolves names to indices: a [`CompiledProgram`] that the world runs.
//!
//! Owns the meaning of the words for colors and homes, and the checks of all names. Tested in
//! `workload/tests.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use vermeil_sched::{BatchWait, CLASSES_MAX, Class, ClassIndex, HandlerIndex, Leader, Policy};

use super::popularity::Popularity;
use super::ranges;
use super::spec::{
    Accept, ClassSpec, HandlerSpec, NextSpec, ObjectLife, ObjectSpec, ShiftSpec, SourceKind, SourceQueue,
    SourceSpec, TouchSpec, WorkloadSpec,
};
use crate::SimError;
use crate::machine::Pattern;
use crate::memory::Access;

/// Maximum number of objects of a request.
pub(crate) const REQUEST_OBJECTS_MAX: usize = 6;
/// Maximum number of instances of a shared object.
const INSTANCES_MAX: u32 = 1 << 22;
/// Touches of this size or more are sequential by default: a page.
const SEQUENTIAL_FROM_BYTES: u64 = 4096;

/// A program and its load, ready to run.
#[derive(Clone, Debug)]
pub struct CompiledProgram {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) run_ns: u64,
    pub(crate) warm_up_ns: u64,
    pub(crate) objects: Vec<ObjectKind>,
    pub(crate) handlers: Vec<SimHandler>,
    pub(crate) classes: Vec<Class>,
    pub(crate) sources: Vec<RequestSource>,
    pub(crate) shifts: Vec<Shift>,
    /// A recorded run in place of sources.
    pub(crate) trace: Option<super::trace::Trace>,
}

/// Bytes that handlers touch.
#[derive(Clone, Debug)]
pub(crate) struct ObjectKind {
    pub(crate) bytes: u64,
    pub(crate) life: ObjectLife,
    pub(crate) count: u32,
    pub(crate) home: ObjectHome,
    pub(crate) streamed: bool,
    /// Position among the objects of a request.
    pub(crate) request_slot: usize,
    pub(crate) popularity: Popularity,
}

impl ObjectKind {
    /// The instance that a random number chooses.
    pub(crate) fn instance(&self, random: u64) -> u32 {
        self.popularity.choose(self.count, random)
    }
}

/// The node of an object's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectHome {
    Touch,
    Spread,
    Active,
    Nic,
    Node(u16),
}

/// The events that must not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coloring {
    Request,
    Client,
    Event,
    Handler,
    Serial,
    Queue,
    Object(u16),
    /// As in the recording.
    Trace,
}

/// A handler.
#[derive(Clone, Debug)]
pub(crate) struct SimHandler {
    pub(crate) name: String,
    pub(crate) cycles: u64,
    pub(crate) spread_percent: u32,
    pub(crate) tail_permille: u32,
    pub(crate) tail_times: u32,
    pub(crate) code_bytes: u64,
    pub(crate) coloring: Coloring,
    pub(crate) follows: Option<Leader>,
    pub(crate) class: ClassIndex,
    pub(crate) gather: Option<BatchWait>,
    pub(crate) placed_whole: bool,
    pub(crate) touches: Vec<Touch>,
    pub(crate) next: Vec<NextHandler>,
    /// Sum of the weights of `next`.
    pub(crate) weights: u64,
    pub(crate) also: Vec<NextHandler>,
    pub(crate) reply: bool,
    pub(crate) annotated_cycles: u64,
    pub(crate) annotated_penalty: u32,
    /// The source whose arrivals this handler finds, if it polls.
    pub(crate) polls: Option<u16>,
}

/// A touch of an object by a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) object: u16,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    pub(crate) pattern: Pattern,
    pub(crate) by_nic: bool,
}

/// A successor of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHandler {
    pub(crate) handler: u16,
    pub(crate) weight: u32,
    pub(crate) after_ns: u64,
}

/// A source of requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestSource {
    pub(crate) entry: u16,
    pub(crate) load: SourceKind,
    pub(crate) choice: SourceQueue,
    pub(crate) queues: Option<u32>,
    pub(crate) accept: Accept,
    pub(crate) received_bytes: u64,
    pub(crate) interrupt_cycles: u64,
    pub(crate) poll: Option<Poll>,
}

impl RequestSource {
    /// Number of clients that may send requests.
    pub(crate) fn clients(&self) -> u32 {
        match self.load {
            SourceKind::Closed { clients, .. } | SourceKind::Open { clients, .. } => clients.max(1),
            SourceKind::Burst { count, .. } | SourceKind::Start { count } => count.max(1),
        }
    }
}

/// The handler that finds arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poll {
    pub(crate) handler: u16,
    pub(crate) cycles_each: u64,
    pub(crate) batch: u32,
}

/// A change while the program runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) at_ns: u64,
    pub(crate) handler: Option<u16>,
    pub(crate) cycles_percent: Option<u32>,
    pub(crate) rate_percent: Option<u32>,
}

impl CompiledProgram {
    /// Reads a workload from TOML.
    ///
    /// # Errors
    /// The text does not have the format of [`WorkloadSpec`], or a name is unknown.
    pub fn from_toml(text: &str) -> Result<Self, SimError> {
        let spec: WorkloadSpec = toml::from_str(text)
            .map_err(|source| SimError::Toml { what: "workload", source: Box::new(source) })?;
        Self::new(&spec)
    }

    /// Resolves the names of a workload.
    ///
    /// # Errors
    /// A name is unknown, or a value exceeds a bound.
    pub fn new(spec: &WorkloadSpec) -> Result<Self, SimError> {
        ranges::check_repeats(spec)?;
        let spec = &expand(spec);
        ranges::check(spec)?;
        let names = NameTable::new(spec);
        let objects = objects(&names)?;
        let mut handlers: Vec<SimHandler> =
            spec.handler.iter().map(|handler| names.handler(handler)).collect::<Result<_, _>>()?;
        let sources: Vec<RequestSource> =
            spec.source.iter().map(|source| names.source(source)).collect::<Result<_, _>>()?;
        names.poll_handlers(&mut handlers, &sources)?;
        if sources.is_empty() {
            return Err(names.problem("has no [[source]]; nothing would happen"));
        }
        let shifts = spec.shift.iter().map(|shift| {
            let handler = shift.handler.as_deref().map(|name| names.handler_index(name)).transpose()?;
            let &ShiftSpec { at_ms, cycles_percent, rate_percent, .. } = shift;
            Ok(Shift { at_ns: at_ms * 1_000_000, handler, cycles_percent, rate_percent })
        });
        Ok(Self {
            name: spec.name.clone(),
            about: spec.about.clone(),
            run_ns: spec.run_ms * 1_000_000,
            warm_up_ns: spec.warm_up_ms * 1_000_000,
            shifts: shifts.collect::<Result<_, SimError>>()?,
            objects,
            handlers,
            classes: names.classes()?,
            sources,
            trace: None,
        })
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line that describes the program.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The handlers that a policy places as units: handlers with a color each, and under plans also
    /// the handlers with `placed_whole`.
    pub(crate) fn units(&self, policy: &Policy) -> Vec<u16> {
        let whole = matches!(policy, Policy::Placed(_) | Policy::Trial);
        let is_unit =
            |handler: &SimHandler| handler.coloring == Coloring::Handler || whole && handler.placed_whole;
        let is_unit = |handler: &SimHandler| handler.follows.is_none() && is_unit(handler);
        let all = (0..).zip(&self.handlers);
        all.filter(|(_, handler)| is_unit(handler)).map(|(index, _)| index).collect()
    }

    /// By handler, whether its colors may move: neither bound to a core, nor led by another color,
    /// nor set apart to gather events, nor placed as a unit.
    pub(crate) fn movable_handlers(&self, policy: &Policy) -> Vec<bool> {
        let moves = |handler: &SimHandler| {
            handler.coloring != Coloring::Queue && handler.follows.is_none() && handler.gather.is_none()
        };
        let mut movable: Vec<bool> = self.handlers.iter().map(moves).collect();
        self.units(policy).into_iter().for_each(|unit| movable[usize::from(unit)] = false);
        movable
    }

    /// The names of the handlers that a policy places as units, in the order of the policy's plans.
    pub fn placed_handlers(&self, policy: &Policy) -> Vec<&str> {
        let name = |index| self.handlers[usize::from(index)].name.as_str();
        self.units(policy).into_iter().map(name).collect()
    }

    /// Virtual time that is not counted.
    pub fn warm_up_ns(&self) -> u64 {
        self.warm_up_ns
    }

    /// The entry of a source that never ends, if the workload has no `run_ms` that ends the run.
    pub fn endless_source(&self) -> Option<&str> {
        let ends = |source: &&RequestSource| matches!(source.load, SourceKind::Start { .. });
        let endless = self.sources.iter().find(|source| !ends(source)).filter(|_| self.run_ns == 0)?;
        Some(&self.handlers[usize::from(endless.entry)].name)
    }

    /// Whether the program answers requests. A recording has no requests.
    pub(crate) fn answers(&self) -> bool {
        self.trace.is_none()
    }

    /// The handlers' names, in order.
    pub fn handlers(&self) -> impl Iterator<Item = &str> {
        self.handlers.iter().map(|handler| handler.name.as_str())
    }
}

/// Replaces a handler with `repeat` by a row of handlers.
fn expand(spec: &WorkloadSpec) -> WorkloadSpec {
    let mut expanded = spec.clone();
    expanded.handler.clear();
    for handler in &spec.handler {
        for number in 1..=handler.repeat {
            let mut one = HandlerSpec { repeat: 1, ..handler.clone() };
            if handler.repeat > 1 {
                one.name = format!("{}-{number}", handler.name);
            }
            if number < handler.repeat {
                let to = format!("{}-{}", handler.name, number + 1);
                one.next = vec![NextSpec { to, weight: 1, after_us: 0 }];
                one.reply = false;
            }
            expanded.handler.push(one);
        }
    }
    expanded
}

/// Resolves names. An error names the unknown name and the known names.
struct NameTable<'a> {
    spec: &'a WorkloadSpec,
    handlers: BTreeMap<&'a str, u16>,
}

impl<'a> NameTable<'a> {
    fn new(spec: &'a WorkloadSpec) -> Self {
        let handlers = (0..).zip(&spec.handler).map(|(index, handler)| (handler.name.as_str(), index));
        Self { spec, handlers: handlers.collect() }
    }

    fn problem(&self, problem: impl Into<String>) -> SimError {
        SimError::workload(&self.spec.name, problem)
    }

    fn handler_index(&self, name: &str) -> Result<u16, SimError> {
        let first = format!("{name}-1");
        let found = [name, &first].into_iter().filter_map(|name| self.handlers.get(name)).min();
        let known =
            || self.spec.handler.iter().map(|handler| handler.name.as_str()).collect::<Vec<_>>().join(", ");
        found
            .copied()
            .ok_or_else(|| self.problem(format!("no handler is called {name:?}; there are: {}", known())))
    }

    fn object_index(&self, name: &str) -> Result<u16, SimError> {
        let found = self.spec.object.iter().position(|object| object.name == name);
        let known =
            || self.spec.object.iter().map(|object| object.name.as_str()).collect::<Vec<_>>().join(", ");
        found
            .map(|index| index as u16)
            .ok_or_else(|| self.problem(format!("no object is called {name:?}; there are: {}", known())))
    }

    fn coloring(&self, text: &str) -> Result<Coloring, SimError> {
        Ok(match text {
            "request" => Coloring::Request,
            "client" => Coloring::Client,
            "event" => Coloring::Event,
            "handler" => Coloring::Handler,
            "serial" => Coloring::Serial,
            "queue" => Coloring::Queue,
            name => {
                let object = self.object_index(name).map_err(|_| self.unknown_color(name))?;
                if self.spec.object[usize::from(object)].life != ObjectLife::Shared {
                    return Err(self.problem(format!("color {name:?} is not a shared object")));
                }
                Coloring::Object(object)
            }
        })
    }

    fn unknown_color(&self, name: &str) -> SimError {
        const WORDS: [&str; 6] = ["request", "client", "event", "handler", "serial", "queue"];
        let objects = self.spec.object.iter().filter(|object| object.life == ObjectLife::Shared);
        let known: Vec<&str> = WORDS.into_iter().chain(objects.map(|object| object.name.as_str())).collect();
        let nearest = known.iter().max_by(|a, b| strsim::jaro(name, a).total_cmp(&strsim::jaro(name, b)));
        let nearest = nearest.map(|near| format!(", the nearest is {near:?}")).unwrap_or_default();
        self.problem(format!("color {name:?} is unknown; there are: {}{nearest}", known.join(", ")))
    }

    fn class(&self, name: &str) -> Result<ClassIndex, SimError> {
        let at = self.spec.class.iter().position(|class| class.name == name);
        let at = at.ok_or_else(|| self.problem(format!("no [[class]] is called {name:?}")))?;
        Ok(ClassIndex(at as u8 + 1))
    }

    fn classes(&self) -> Result<Vec<Class>, SimError> {
        if self.spec.class.len() >= CLASSES_MAX {
            return Err(self.problem(format!("has more than {} classes", CLASSES_MAX - 1)));
        }
        let class = |spec: &ClassSpec| {
            let class = Class::new(&spec.name).shares(spec.shares);
            match spec.target_delay_us {
                Some(us) => class.target_delay(Duration::from_micros(us)),
                None => class,
            }
        };
        Ok(self.spec.class.iter().map(class).collect())
    }

    fn leader(&self, name: &str) -> Result<Leader, SimError> {
        if name == "producer" {
            return Ok(Leader::Producer);
        }
        self.handler_index(name).map(|handler| Leader::Handler(HandlerIndex(handler.into())))
    }

    fn home(&self, object: &ObjectSpec) -> Result<ObjectHome, SimError> {
        Ok(match object.home.as_str() {
            "touch" => ObjectHome::Touch,
            "spread" => ObjectHome::Spread,
            "cores" => ObjectHome::Active,
            "nic" => ObjectHome::Nic,
            number => ObjectHome::Node(number.parse().map_err(|_| {
                let problem = format!(
                    "home {number:?} of object {:?}; write touch, spread, cores, nic or a node's number",
                    object.name
                );
                self.problem(problem)
            })?),
        })
    }

    fn touch(&self, touch: &TouchSpec) -> Result<Touch, SimError> {
        let object = self.object_index(&touch.object)?;
        let bytes = touch.bytes.unwrap_or(self.spec.object[usize::from(object)].bytes);
        let usual = if bytes < SEQUENTIAL_FROM_BYTES { Pattern::Random } else { Pattern::Sequential };
        Ok(Touch {
            object,
            bytes,
            access: if touch.write { Access::Write } else { Access::Read },
            pattern: touch.order.map_or(usual, Pattern::from),
            by_nic: touch.by_nic,
        })
    }

    fn next(&self, next: &NextSpec) -> Result<NextHandler, SimError> {
        let (weight, after_ns) = (next.weight, next.after_us * 1_000);
        Ok(NextHandler { handler: self.handler_index(&next.to)?, weight, after_ns })
    }

    fn handler(&self, handler: &HandlerSpec) -> Result<SimHandler, SimError> {
        let next: Vec<NextHandler> =
            handler.next.iter().map(|next| self.next(next)).collect::<Result<_, _>>()?;
        Ok(SimHandler {
            name: handler.name.clone(),
            cycles: handler.cycles,
            spread_percent: handler.spread_percent.min(100),
            tail_permille: handler.tail_permille.min(1_000),
            tail_times: handler.tail_times.max(1),
            code_bytes: handler.code_bytes,
            coloring: self.coloring(&handler.color)?,
            follows: handler.follows.as_deref().map(|leader| self.leader(leader)).transpose()?,
            class: handler.class.as_deref().map_or(Ok(ClassIndex::default()), |name| self.class(name))?,
            gather: (handler.gather_events > 1).then(|| BatchWait {
                events: handler.gather_events as usize,
                within_ns: handler.gather_us * 1_000,
            }),
            placed_whole: handler.placed_whole,
            touches: handler.touch.iter().map(|touch| self.touch(touch)).collect::<Result<_, _>>()?,
            weights: next.iter().map(|next| u64::from(next.weight)).sum(),
            next,
            also: handler.also.iter().map(|next| self.next(next)).collect::<Result<_, _>>()?,
            reply: handler.reply,
            annotated_cycles: handler.annotated_cycles.unwrap_or(handler.cycles),
            annotated_penalty: handler.annotated_penalty.max(1),
            polls: None,
        })
    }

    /// Tells each poll handler its source. A poll handler has no request, and is posted by the
    /// arrivals of its source alone.
    fn poll_handlers(&self, handlers: &mut [SimHandler], sources: &[RequestSource]) -> Result<(), SimError> {
        for (index, source) in sources.iter().enumerate() {
            let Some(poll) = source.poll else { continue };
            let handler = &mut handlers[usize::from(poll.handler)];
            let thing = format!("the poll handler {:?}", handler.name);
            if handler.polls.replace(index as u16).is_some() {
                return Err(self.problem(format!("{thing} has two sources; write a handler for each")));
            }
            if matches!(handler.coloring, Coloring::Request | Coloring::Client | Coloring::Queue) {
                let color = &self.spec.handler[usize::from(poll.handler)].color;
                let cure = "write color = \"serial\", \"handler\" or \"event\"";
                return Err(self.problem(format!("{thing} has no {color} for its color; {cure}")));
            }
            if handler.reply || !handler.next.is_empty() || !handler.also.is_empty() {
                let problem = "goes on to the entry of each request that it finds, and to nothing else";
                return Err(self.problem(format!("{thing} {problem}; remove its reply, next and also")));
            }
        }
        let ways = handlers.iter().flat_map(|handler| handler.next.iter().chain(&handler.also));
        let mut led_to = ways.map(|next| next.handler).chain(sources.iter().map(|source| source.entry));
        match led_to.find(|&to| handlers[usize::from(to)].polls.is_some()) {
            None => Ok(()),
            Some(to) => Err(self.problem(format!(
                "the poll handler {:?} runs for arrivals alone; name another handler as an entry and in next and also",
                handlers[usize::from(to)].name
            ))),
        }
    }

    fn source(&self, source: &SourceSpec) -> Result<RequestSource, SimError> {
        let poll = source.poll.as_ref().map(|poll| -> Result<Poll, SimError> {
            let (cycles_each, batch) = (poll.cycles_each, poll.batch.max(1));
            Ok(Poll { handler: self.handler_index(&poll.handler)?, cycles_each, batch })
        });
        Ok(RequestSource {
            entry: self.handler_index(&source.entry)?,
            load: source.load.clone(),
            choice: source.choice,
            queues: source.queues.map(|queues| queues.max(1)),
            accept: source.accept,
            received_bytes: source.received_bytes,
            interrupt_cycles: source.interrupt_cycles,
            poll: poll.transpose()?,
        })
    }
}

fn objects(names: &NameTable<'_>) -> Result<Vec<ObjectKind>, SimError> {
    let mut request_slot = 0;
    let mut all = Vec::new();
    for object in &names.spec.object {
        if object.count > INSTANCES_MAX {
            let problem =
                format!("object {:?}: {} instances are more than {INSTANCES_MAX}", object.name, object.count);
            return Err(names.problem(problem));
        }
        all.push(ObjectKind {
            bytes: object.bytes,
            life: object.life,
            count: object.count.max(1),
            home: names.home(object)?,
            streamed: object.streamed,
            request_slot,
            popularity: Popularity::new(object.count, object.skew_milli),
        });
        request_slot += usize::from(object.life == ObjectLife::Request);
    }
    if request_slot > REQUEST_OBJECTS_MAX {
        let problem = format!("{request_slot} objects of a request are more than {REQUEST_OBJECTS_MAX}");
        return Err(names.problem(problem));
    }
    Ok(all)
}

/// The objects that the colors of a recording touch: one shared object for each color.
pub(super) fn trace_objects(colors: u32, bytes: u64) -> Vec<ObjectKind> {
    let object = ObjectKind {
        bytes,
        life: ObjectLife::Shared,
        count: colors.max(1),
        home: ObjectHome::Touch,
        streamed: false,
        request_slot: 0,
        popularity: Popularity::default(),
    };
    if bytes == 0 { Vec::new() } else { vec![object] }
}

/// Each event touches the whole object of the event's color.
pub(super) fn trace_touches(bytes: u64) -> Vec<Touch> {
    let touch = Touch { object: 0, bytes, access: Access::Write, pattern: Pattern::Random, by_nic: false };
    if bytes == 0 { Vec::new() } else { vec![touch] }
}
