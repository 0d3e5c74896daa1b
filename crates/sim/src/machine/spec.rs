//! A machine as people write it: TOML over a topology in hwloc's notation.
//!
//! Owns the form and its defaults. Leaves out what the numbers come to (`build.rs`) and the shipped machines
//! (`profiles.rs`, which also keep this form tested). Unknown keys are errors. Times are nanoseconds, bandwidths
//! gigabytes (10^9 bytes) per second, numbers may have decimals.

use serde::Deserialize;

use crate::Error;

/// A machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Short name, without spaces.
    pub name: String,
    /// One line: which machine this is.
    pub about: String,
    /// Nodes, caches, cores and cpus in hwloc's synthetic notation, such as `node:4 l3:1(size=6MiB) core:4 pu:1`. May be
    /// left out when the topology comes from an hwloc export.
    pub topology: Option<String>,
    /// Clock of a core at full speed, in MHz: cycles of handlers are converted with it.
    pub mhz: u32,
    /// Instructions per cycle of handlers where nothing waits for memory; only for estimates in reports.
    #[serde(default = "one")]
    pub base_ipc: f64,
    /// Bytes of a cache line.
    #[serde(default = "line_bytes")]
    pub line_bytes: u32,
    /// What the cache model keeps track of: a multiple of the line. Smaller is finer and slower.
    #[serde(default = "chunk_bytes")]
    pub chunk_bytes: u32,
    /// What each level of the topology's caches costs. Levels without an entry are not modelled: a hit in them is part
    /// of a handler's base cycles.
    #[serde(default)]
    pub cache: Vec<CacheSpec>,
    /// Memory.
    pub memory: MemorySpec,
    /// Links between nodes. Without any, every two nodes are one hop apart and the way between them has no bound.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// Ways between nodes that differ from the shortest.
    #[serde(default)]
    pub route: Vec<RouteSpec>,
    /// Network cards.
    #[serde(default)]
    pub nic: Vec<NicSpec>,
    /// Cores that are slower than the others.
    #[serde(default)]
    pub slow: Vec<SlowSpec>,
    /// What the runtime's own operations cost.
    pub costs: CostSpec,
}

impl MachineSpec {
    /// Reads what people wrote.
    ///
    /// # Errors
    /// The text is not of this form.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|source| Error::Toml { what: "machine", source: Box::new(source) })
    }
}

/// What a hit in a cache of one level costs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// The level in the topology.
    pub level: u8,
    /// Time to the first use of a line, beyond what base cycles contain.
    pub latency_ns: f64,
    /// Lines in flight at once when handlers walk through memory in order.
    #[serde(default = "overlap_sequential")]
    pub overlap_sequential: f64,
    /// Lines in flight at once when they do not.
    #[serde(default = "overlap_random")]
    pub overlap_random: f64,
    /// Bandwidth between one cache of this level and everything beyond it (a front-side bus, a chiplet's link). Default:
    /// no bound of its own.
    pub port_gb_per_s: Option<f64>,
}

/// Memory of every node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Time to the first use of a line from local memory.
    pub latency_ns: f64,
    /// Bandwidth of a node's memory.
    pub gb_per_s: f64,
    /// Lines in flight at once when handlers walk through memory in order.
    #[serde(default = "overlap_sequential")]
    pub overlap_sequential: f64,
    /// Lines in flight at once when they do not.
    #[serde(default = "overlap_random")]
    pub overlap_random: f64,
    /// How many times the wait of evenly mixed (Poisson) traffic a line waits at a memory or link: real traffic comes in
    /// bursts.
    #[serde(default = "one")]
    pub burstiness: f64,
    /// Bytes that each line fetched sends to every other node and gets back, to ask whether its caches have it: machines
    /// without a directory.
    #[serde(default)]
    pub probe_bytes: f64,
}

/// A link between two nodes, with its own bandwidth in each direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two nodes, by position from 0.
    pub nodes: [u16; 2],
    /// Bandwidth of each direction.
    pub gb_per_s: f64,
    /// What it adds to the time to the first use of a line.
    pub latency_ns: f64,
}

/// A way between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// From this node.
    pub from: u16,
    /// To this one.
    pub to: u16,
    /// Through these, in order.
    pub via: Vec<u16>,
}

/// Network cards of one node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicSpec {
    /// The node whose bus they hang on.
    pub node: u16,
    /// How many.
    pub count: u32,
}

/// Cores slower than the rest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowSpec {
    /// Their positions, from 0.
    pub cores: Vec<u32>,
    /// Their speed in percent of the others'.
    pub percent: u32,
    /// Whether policies are told. A core that is slow because something else runs on it is not announced.
    #[serde(default)]
    pub announced: bool,
}

/// What the runtime's own operations cost, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// Taking an event from a queue that is warm and calling its handler.
    pub dispatch_ns: f64,
    /// Putting an event into a color's inbox that is warm.
    pub post_ns: f64,
    /// Taking and releasing a lock that nobody else touched.
    pub lock_ns: f64,
    /// Reading another core's published hint, once near.
    pub search_ns: f64,
    /// Cache lines that move between two cores when a color is stolen, beyond the lock.
    #[serde(default = "steal_lines")]
    pub steal_lines: f64,
    /// Cache lines that a scan moves for each event it looks at (`libasync` only).
    #[serde(default = "one")]
    pub scan_lines: f64,
    /// A system call that does nothing.
    pub syscall_ns: f64,
    /// Going to sleep, from the last look to the kernel's idle loop.
    pub park_ns: f64,
    /// Waking another core: what the waker pays.
    pub wake_call_ns: f64,
    /// Waking another core: until it runs.
    pub wake: WakeSpec,
    /// One cache line from the core that wrote it last to another.
    pub line: LineSpec,
    /// Speed of each of two hardware threads while both run, in percent of one alone.
    #[serde(default = "smt_percent")]
    pub smt_percent: u32,
}

/// How long a woken core takes to run: a usual time, and a tail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeSpec {
    /// Usual.
    pub median_ns: f64,
    /// Of one in `tail_permille`.
    pub tail_ns: f64,
    /// How many in 1,000 take the tail.
    #[serde(default)]
    pub tail_permille: u32,
}

/// One cache line between cores, by distance. What is left out costs what the next nearer distance does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSpec {
    /// Between hardware threads of one core.
    pub smt: Option<f64>,
    /// Below one L2.
    pub l2: Option<f64>,
    /// Below one L3.
    pub l3: Option<f64>,
    /// Within a node, no cache shared.
    pub node: Option<f64>,
    /// To the nearest other nodes.
    pub hop1: Option<f64>,
    /// To those behind them.
    pub hop2: Option<f64>,
    /// Farther.
    pub hop3: Option<f64>,
}

fn line_bytes() -> u32 {
    64
}

fn chunk_bytes() -> u32 {
    4096
}

/// A prefetcher keeps about as many lines under way as a core has miss buffers (10 to 16 on the machines shipped).
fn overlap_sequential() -> f64 {
    8.0
}

/// Between a pointer chase (1) and independent accesses.
fn overlap_random() -> f64 {
    2.0
}

fn one() -> f64 {
    1.0
}

/// The victim's queue word, the token's links and their neighbours', the color's own two lines, the hint.
fn steal_lines() -> f64 {
    6.0
}

/// A common gain of SMT is 20 to 30 percent for both together.
fn smt_percent() -> u32 {
    62
}
