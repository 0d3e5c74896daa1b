//! A workload file: a program and its load, in TOML.
//!
//! A file describes handlers with their costs, touches, successors and exclusion; objects with size
//! and life; and sources of requests. Owns the format and the defaults. Leaves out the resolution
//! of names (`compile.rs`). Unknown keys are errors.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::machine::Pattern;

/// A program and its load.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Short name, without spaces.
    pub name: String,
    /// One line that describes the workload.
    pub about: String,
    /// Length of the simulation, in milliseconds of virtual time. 0: until everything has run, for
    /// workloads that end.
    #[serde(default)]
    pub run_ms: u64,
    /// The first part of `run_ms`, which is not counted, because caches and queues fill first.
    #[serde(default)]
    pub warm_up_ms: u64,
    /// The objects that handlers touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub object: Vec<ObjectSpec>,
    /// Classes of handlers. Cores divide their time between classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ClassSpec>,
    /// The handlers, in the order of the graph. Plans use this order.
    pub handler: Vec<HandlerSpec>,
    /// The sources of requests.
    pub source: Vec<SourceSpec>,
    /// The changes during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shift: Vec<ShiftSpec>,
}

/// A class of handlers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// The name of the class.
    pub name: String,
    /// The share of a core's time, in relation to the other classes with waiting events on the
    /// core.
    pub shares: NonZeroU32,
    /// The target for the wait of the class's colors, in microseconds.
    pub target_delay_us: Option<u64>,
}

/// Bytes that handlers touch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// The name of the object.
    pub name: String,
    /// The size of the object.
    pub bytes: u64,
    /// The lifetime and the users of the object.
    #[serde(default)]
    pub life: ObjectLife,
    /// The number of instances of a shared object. Each request uses one instance.
    #[serde(default = "one")]
    pub count: u32,
    /// The exponent of Zipf's law for the popularity of instances, in thousandths; 0 for equal
    /// popularity.
    #[serde(default)]
    pub skew_milli: u32,
    /// The node of the object's memory: `touch` (the node of the first touch), `spread` (all nodes
    /// in turn), `cores` (in turn over the nodes with running cores), `nic` (the node of the
    /// request's network card) or a node's number.
    #[serde(default = "home_touch")]
    pub home: String,
    /// No cache keeps the object, because the object is too large or read once.
    #[serde(default)]
    pub streamed: bool,
}

/// The lifetime and the users of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectLife {
    /// One object for each request, freed with the request.
    #[default]
    Request,
    /// One object for each client, kept between the client's requests.
    Client,
    /// `count` objects, for all requests.
    Shared,
    /// One object for each node, for the cores there.
    Node,
    /// One object for each core.
    Core,
}

/// A handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSpec {
    /// The name of the handler.
    pub name: String,
    /// Number of equal handlers in a row: `name-1`, `name-2`, … Each goes on to the next, and the
    /// last to `next`. The name without a number means the first.
    #[serde(default = "one")]
    pub repeat: u32,
    /// Cycles of a run with warm caches.
    pub cycles: u64,
    /// Maximum deviation of a run's cycles, in percent up or down (uniform).
    #[serde(default)]
    pub spread_percent: u32,
    /// Number of runs in 1,000 that take `tail_times` as long.
    #[serde(default)]
    pub tail_permille: u32,
    /// See `tail_permille`.
    #[serde(default = "one")]
    pub tail_times: u32,
    /// Size of the handler's instructions. A core fetches them again after it has run another
    /// handler.
    #[serde(default = "code_bytes")]
    pub code_bytes: u64,
    /// The events that must not overlap with the handler's events: `request`, `client`, `event`
    /// (none), `handler` (events of this handler), `serial` (all serial events), `queue` (events of
    /// requests from the same network queue, on that queue's core), or the name of a shared object
    /// (events with the same instance).
    #[serde(default = "color_request")]
    pub color: String,
    /// The core of the handler's events, if each event has a color (`event`) or the handler has a
    /// color (`handler`): `producer` (the core that posts), or the name of a handler (the core of
    /// that handler's last run). Default: the core that the policy chooses.
    pub follows: Option<String>,
    /// The class of the handler. Default: the default class, of 100 shares.
    pub class: Option<String>,
    /// An empty color waits until this number of events has come, …
    #[serde(default)]
    pub gather_events: u32,
    /// … or this time has passed, in microseconds.
    #[serde(default)]
    pub gather_us: u64,
    /// Under policies that place handlers, events of this handler exclude each other (true, as in
    /// the source document), or keep their color.
    #[serde(default = "yes")]
    pub placed_whole: bool,
    /// The touched objects, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touch: Vec<TouchSpec>,
    /// The handler goes on to one of these successors, by weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextSpec>,
    /// The handler also goes on to all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<NextSpec>,
    /// The client gets the answer when this handler has run.
    #[serde(default)]
    pub reply: bool,
    /// The author's annotation of the cost. Default: the cycles.
    pub annotated_cycles: Option<u64>,
    /// The author's annotation of the penalty (Mely's divisor): 1 for a handler that loses nothing
    /// by a move.
    #[serde(default = "one")]
    pub annotated_penalty: u32,
}

/// A touch of an object by a handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TouchSpec {
    /// The name of the object.
    pub object: String,
    /// Number of touched bytes. Default: all.
    pub bytes: Option<u64>,
    /// Whether the handler changes the object.
    #[serde(default)]
    pub write: bool,
    /// The order of accesses. Default: sequential for a page or more, otherwise random.
    pub order: Option<OrderSpec>,
    /// The network card touches the object, not the core: a send.
    #[serde(default)]
    pub by_nic: bool,
}

/// The order in which a handler accesses the bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderSpec {
    /// In order.
    Sequential,
    /// In random order.
    Random,
}

impl From<OrderSpec> for Pattern {
    fn from(order: OrderSpec) -> Self {
        match order {
            OrderSpec::Sequential => Self::Sequential,
            OrderSpec::Random => Self::Random,
        }
    }
}

/// A successor of a handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NextSpec {
    /// The handler.
    pub to: String,
    /// The weight in relation to the other choices.
    #[serde(default = "one")]
    pub weight: u32,
    /// Wait before the successor (a back end, a disk, a timer), in microseconds.
    #[serde(default)]
    pub after_us: u64,
}

/// A source of requests.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// The first handler of a request.
    pub entry: String,
    /// The arrival of requests.
    pub load: SourceKind,
    /// The network queue of a request.
    #[serde(default)]
    pub choice: SourceQueue,
    /// Number of network queues. Core `q * cores / n` handles queue `q` of `n`. Default: one for
    /// each core.
    pub queues: Option<u32>,
    /// The core that accepts the connection. Colors of requests and clients begin there.
    #[serde(default)]
    pub accept: Accept,
    /// Bytes that arrive with a request, in the memory of the queue's core.
    #[serde(default)]
    pub received_bytes: u64,
    /// Cycles that each arrival takes from the queue's core, also while the core runs an event.
    #[serde(default)]
    pub interrupt_cycles: u64,
    /// A handler that finds arrived requests, as a loop around epoll does. Arrivals wait until this
    /// handler has run.
    pub poll: Option<PollSpec>,
}

/// A handler between the network and a request's first handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PollSpec {
    /// The name of the handler. The handler's cycles are the cost of a run that finds no request.
    pub handler: String,
    /// Cycles for each found request.
    pub cycles_each: u64,
    /// Maximum number of requests per run.
    #[serde(default = "poll_batch")]
    pub batch: u32,
}

/// The arrival of requests, for example `{ closed = { clients = 100 } }`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceKind {
    /// Clients that wait for the answer, think, and ask again.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Mean time from an answer to the next request, in microseconds. Exponentially
        /// distributed.
        #[serde(default)]
        think_us: u64,
    },
    /// Requests that come independently of answers.
    Open {
        /// Mean number per second.
        per_s: u64,
        /// Evenly, not at random (Poisson).
        #[serde(default)]
        even: bool,
        /// Number of clients, which send requests in turn.
        #[serde(default = "open_clients")]
        clients: u32,
    },
    /// Many requests at once, repeatedly.
    Burst {
        /// Number of requests in a burst.
        count: u32,
        /// Time between bursts, in microseconds.
        every_us: u64,
    },
    /// Requests at the start and none later, so the workload ends.
    Start {
        /// Number of requests.
        count: u32,
    },
}

/// The choice of a network queue for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceQueue {
    /// The same queue for all requests of a client.
    #[default]
    Fixed,
    /// The queues in turn, for each client.
    RoundRobin,
    /// A queue of the node with the fewest requests under way.
    LeastPending,
    /// A random queue for each request, as a card that hashes addresses and ports.
    Hash,
}

/// The core that accepts a request's connection: the modes of `vermeil serve --balance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// The core of the network queue.
    #[default]
    Local,
    /// A random core, independent of the queue.
    Hash,
    /// The same core for all requests of a client.
    Fixed,
    /// All cores in turn.
    RoundRobin,
    /// The core of the network queue, unless much more work waits on that node than on another.
    LoadAware,
}

/// A change while the workload runs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShiftSpec {
    /// Time of the change, in milliseconds from the start.
    pub at_ms: u64,
    /// The handler whose cycles change.
    pub handler: Option<String>,
    /// The new cycles, in percent of the cycles at the start; of all handlers if `handler` is
    /// missing. Default: unchanged.
    pub cycles_percent: Option<u32>,
    /// The new rate of open sources, in percent of the rate at the start. Default: unchanged.
    pub rate_percent: Option<u32>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn home_touch() -> String {
    "touch".to_owned()
}

fn color_request() -> String {
    "request".to_owned()
}

/// A few dozen lines of source, compiled.
fn code_bytes() -> u64 {
    2048
}

/// A usual number of events per call of epoll.
fn poll_batch() -> u32 {
    64
}

/// Enough clients that no client's color is the bottleneck.
fn open_clients() -> u32 {
    10_000
}
