//! A program and its load as people write them: TOML.
//!
//! Handlers with what they cost and touch, where they go on to, what may not overlap; objects with their size and life;
//! sources that bring requests. Owns the form and its defaults; what the names refer to is settled in `compile.rs`. Unknown
//! keys are errors.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::machine::Pattern;

/// A program and its load.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Short name, without spaces.
    pub name: String,
    /// One line: what it is like.
    pub about: String,
    /// How long to simulate, in milliseconds of virtual time; 0: until everything has run (for workloads that end).
    #[serde(default)]
    pub run_ms: u64,
    /// What of it is not counted, because caches and queues fill first.
    #[serde(default)]
    pub warm_up_ms: u64,
    /// What handlers touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub object: Vec<ObjectSpec>,
    /// Classes of handlers, between which cores divide their time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ClassSpec>,
    /// The handlers, in the order of the graph: plans count them in this order.
    pub handler: Vec<HandlerSpec>,
    /// Where requests come from.
    pub source: Vec<SourceSpec>,
    /// What changes while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shift: Vec<ShiftSpec>,
}

/// A class of handlers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Its name.
    pub name: String,
    /// Its part of a core's time, against the other classes of which something waits there.
    pub shares: NonZeroU32,
    /// How long its colors should wait for their turn at most, in microseconds.
    pub target_delay_us: Option<u64>,
}

/// Bytes that handlers touch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectSpec {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// How long it lives and who shares it.
    #[serde(default)]
    pub life: Life,
    /// How many there are, of a shared one: each request is about one of them.
    #[serde(default = "one")]
    pub count: u32,
    /// How unequal their popularity is: the exponent of Zipf's law in thousandths, 0 for equal.
    #[serde(default)]
    pub skew_milli: u32,
    /// In which node's memory: `touch` (whoever touches it first), `spread` (in turn over all nodes),
    /// `cores` (in turn over those whose cores run), `nic` (the request's network card) or a
    /// node's number.
    #[serde(default = "home_touch")]
    pub home: String,
    /// Never kept in a cache: too large, or read once.
    #[serde(default)]
    pub streamed: bool,
}

/// How long an object lives and who shares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// One for each request, gone with it.
    #[default]
    Request,
    /// One for each client, kept between its requests.
    Client,
    /// `count` of them, for everybody.
    Shared,
    /// One for each node, used by the cores there.
    Node,
    /// One for each core.
    Core,
}

/// A handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSpec {
    /// Its name.
    pub name: String,
    /// How many like it stand in a row, each going on to the next and the last to `next`: `name-1`, `name-2`, … The name
    /// alone means the first.
    #[serde(default = "one")]
    pub repeat: u32,
    /// Cycles of one run with everything warm.
    pub cycles: u64,
    /// How far a run's cycles are from that, at most, in percent either way (uniformly).
    #[serde(default)]
    pub spread_percent: u32,
    /// In how many of 1,000 runs it takes `tail_times` as long.
    #[serde(default)]
    pub tail_permille: u32,
    /// See `tail_permille`.
    #[serde(default = "one")]
    pub tail_times: u32,
    /// Instructions it runs through, in bytes: fetched again after other handlers have run on the core.
    #[serde(default = "code_bytes")]
    pub code_bytes: u64,
    /// What its events must not overlap with: `request`, `client`, `event` (nothing), `handler` (each other), `serial`
    /// (everything serial), `queue` (what came by the same network queue, on that queue's core), or the name of a shared
    /// object (what is about the same one).
    #[serde(default = "color_request")]
    pub color: String,
    /// Where its events run, if each has a color (`event`) or they have one (`handler`): `producer` (where they are posted),
    /// or the name of a handler (where it ran last). Default: where the policy puts them.
    pub follows: Option<String>,
    /// The class it is in. Default: the default class, of 100 shares.
    pub class: Option<String>,
    /// An empty color waits until it has so many events, …
    #[serde(default)]
    pub gather_events: u32,
    /// … or so long, in microseconds.
    #[serde(default)]
    pub gather_us: u64,
    /// Under policies that place handlers, events of this handler exclude each other (true, as in the source document), or
    /// keep their color.
    #[serde(default = "yes")]
    pub placed_whole: bool,
    /// What it touches, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touch: Vec<TouchSpec>,
    /// Goes on to one of these, by weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextSpec>,
    /// Goes on to all of these, besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<NextSpec>,
    /// The client has its answer when this has run.
    #[serde(default)]
    pub reply: bool,
    /// What its author says it takes; default: its cycles.
    pub annotated_cycles: Option<u64>,
    /// What its author says of its penalty (Mely's divisor): 1 for a handler that has nothing to lose by a move.
    #[serde(default = "one")]
    pub annotated_penalty: u32,
}

/// One thing a handler touches.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TouchSpec {
    /// The object's name.
    pub object: String,
    /// How much of it; default: all.
    pub bytes: Option<u64>,
    /// Whether it is changed.
    #[serde(default)]
    pub write: bool,
    /// How; default: in order from a page's size on.
    pub order: Option<OrderSpec>,
    /// By the network card instead of the core: a send.
    #[serde(default)]
    pub by_nic: bool,
}

/// How a handler walks through an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderSpec {
    /// In order.
    Sequential,
    /// Here and there.
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

/// Where a handler goes on to.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NextSpec {
    /// The handler.
    pub to: String,
    /// Against the other choices.
    #[serde(default = "one")]
    pub weight: u32,
    /// After a wait (a back end, a disk, a timer), in microseconds.
    #[serde(default)]
    pub after_us: u64,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// The first handler of a request.
    pub entry: String,
    /// How they come.
    pub load: SourceKind,
    /// Which network queue a request comes by.
    #[serde(default)]
    pub choice: Choice,
    /// Network queues; queue `q` of `n` is handled by core `q * cores / n`. Default: one for each core.
    pub queues: Option<u32>,
    /// Which core takes its connection: colors of requests and clients begin there.
    #[serde(default)]
    pub accept: Accept,
    /// Bytes that arrive with a request, in the memory of the queue's core.
    #[serde(default)]
    pub received_bytes: u64,
    /// Cycles that an arrival takes from the queue's core, whatever it runs.
    #[serde(default)]
    pub interrupt_cycles: u64,
    /// A handler that finds out what has arrived (as a loop around epoll does): arrivals wait until it has run.
    pub poll: Option<PollSpec>,
}

/// A handler between the network and a request's first handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PollSpec {
    /// Its name; its cycles are what one run costs whatever it finds.
    pub handler: String,
    /// Cycles for each request it finds.
    pub cycles_each: u64,
    /// Most requests it takes at once.
    #[serde(default = "poll_batch")]
    pub batch: u32,
}

/// How requests come: `{ closed = { clients = 100 } }` and so on.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceKind {
    /// Clients that wait for their answer, think, and ask again.
    Closed {
        /// How many.
        clients: u32,
        /// Mean time from an answer to the next request, exponentially distributed, in microseconds.
        #[serde(default)]
        think_us: u64,
    },
    /// Requests that come whether or not anybody has been served.
    Open {
        /// Mean number per second.
        per_s: u64,
        /// Evenly instead of by chance (Poisson).
        #[serde(default)]
        even: bool,
        /// Clients they are from, in turn.
        #[serde(default = "open_clients")]
        clients: u32,
    },
    /// Many at once, again and again.
    Burst {
        /// How many at once.
        count: u32,
        /// How often, in microseconds.
        every_us: u64,
    },
    /// So many at the start and none later: the workload ends.
    Start {
        /// How many.
        count: u32,
    },
}

/// Which network queue a request comes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The client's own, always.
    #[default]
    Fixed,
    /// The client's next, each time.
    RoundRobin,
    /// One of the node with the fewest requests under way.
    LeastPending,
    /// By chance, each time, as a card does that goes by a hash of addresses and ports.
    Hash,
}

/// Which core takes a request's connection: the ways of `vermeil serve --balance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// The core of its network queue.
    #[default]
    Local,
    /// By chance, whatever the queue.
    Hash,
    /// The client's own, always.
    Fixed,
    /// One core after the other.
    RoundRobin,
    /// The core of its network queue, unless much more work waits there than on another node.
    LoadAware,
}

/// A change while the workload runs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShiftSpec {
    /// When, in milliseconds from the start.
    pub at_ms: u64,
    /// The handler whose cycles change.
    pub handler: Option<String>,
    /// The new cycles, in percent of the cycles at the start; of all handlers if none is named. Default: unchanged.
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

/// What epoll loops ask for at once.
fn poll_batch() -> u32 {
    64
}

/// Enough that no client's color is the bottleneck.
fn open_clients() -> u32 {
    10_000
}
