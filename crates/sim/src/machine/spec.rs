//! A machine file: TOML over a topology in hwloc's notation.
//!
//! Owns the format and the defaults. Leaves out the conversion (`build.rs`) and the shipped
//! machines (`profiles.rs`), which also test the format. Unknown keys are errors. Times are in
//! nanoseconds, and bandwidths in gigabytes (10^9 bytes) per second. Numbers may have decimals.

use serde::Deserialize;

use crate::SimError;

/// A machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Short name, without spaces.
    pub name: String,
    /// One line that describes the machine.
    pub about: String,
    /// Nodes, caches, cores and cpus in hwloc's synthetic notation, for example `node:4
    /// l3:1(size=6MiB) core:4 pu:1`. Optional if the topology comes from an hwloc export.
    pub topology: Option<String>,
    /// Clock of a core at full speed, in MHz. Converts the cycles of handlers to time.
    pub mhz: u32,
    /// Instructions per cycle of handlers that do not wait for memory. Only for estimates in
    /// reports.
    #[serde(default = "one")]
    pub base_ipc: f64,
    /// Bytes of a cache line.
    #[serde(default = "line_bytes")]
    pub line_bytes: u32,
    /// Unit of the cache model in bytes: a multiple of the line. A smaller unit is finer and
    /// slower.
    #[serde(default = "chunk_bytes")]
    pub chunk_bytes: u32,
    /// The costs of each cache level of the topology. A level without an entry is not modelled,
    /// because a handler's base cycles contain hits in that level.
    #[serde(default)]
    pub cache: Vec<CacheSpec>,
    /// Memory.
    pub memory: MemorySpec,
    /// Links between nodes. Without links, every two nodes are one hop apart, and the path between
    /// the nodes has no bandwidth limit.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// Routes between nodes that differ from the shortest path.
    #[serde(default)]
    pub route: Vec<RouteSpec>,
    /// Network cards.
    #[serde(default)]
    pub nic: Vec<NicSpec>,
    /// Cores that are slower than the others.
    #[serde(default)]
    pub slow: Vec<SlowSpec>,
    /// The costs of the runtime's operations.
    pub costs: CostSpec,
}

impl MachineSpec {
    /// Reads a machine file.
    ///
    /// # Errors
    /// The text does not have this format.
    pub fn from_toml(text: &str) -> Result<Self, SimError> {
        toml::from_str(text).map_err(|source| SimError::Toml { what: "machine", source: Box::new(source) })
    }
}

/// The cost of a hit in a cache of one level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// The level in the topology.
    pub level: u8,
    /// Time to the first use of a line, beyond the time that base cycles contain.
    pub latency_ns: f64,
    /// Lines in flight at once when handlers access memory in order.
    #[serde(default = "overlap_sequential")]
    pub overlap_sequential: f64,
    /// Lines in flight at once when handlers access memory in random order.
    #[serde(default = "overlap_random")]
    pub overlap_random: f64,
    /// Bandwidth between one cache of this level and everything outside this cache, for example a
    /// front-side bus or a chiplet's link. Default: no limit.
    pub port_gb_per_s: Option<f64>,
}

/// The memory of every node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    /// Time to the first use of a line from local memory.
    pub latency_ns: f64,
    /// Bandwidth of a node's memory.
    pub gb_per_s: f64,
    /// Lines in flight at once when handlers access memory in order.
    #[serde(default = "overlap_sequential")]
    pub overlap_sequential: f64,
    /// Lines in flight at once when handlers access memory in random order.
    #[serde(default = "overlap_random")]
    pub overlap_random: f64,
    /// Wait of a line at a memory or link, as a multiple of the wait under evenly mixed (Poisson)
    /// traffic, because real traffic comes in bursts.
    #[serde(default = "one")]
    pub burstiness: f64,
    /// Bytes that each fetched line sends to every other node and gets back, to ask whether the
    /// caches of that node have the line. For machines without a directory.
    #[serde(default)]
    pub probe_bytes: f64,
}

/// A link between two nodes, with a separate bandwidth in each direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two nodes, by position from 0.
    pub nodes: [u16; 2],
    /// Bandwidth of each direction.
    pub gb_per_s: f64,
    /// Time that the link adds to the time to the first use of a line.
    pub latency_ns: f64,
}

/// A route between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// The first node.
    pub from: u16,
    /// The last node.
    pub to: u16,
    /// The nodes between, in order.
    pub via: Vec<u16>,
}

/// The network cards of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicSpec {
    /// The node of the cards' bus.
    pub node: u16,
    /// Number of cards.
    pub count: u32,
}

/// Cores that are slower than the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowSpec {
    /// Positions of the cores, from 0.
    pub cores: Vec<u32>,
    /// Speed in percent of the other cores.
    pub percent: u32,
    /// Whether policies know the speed. A core that is slow because another program uses the cpu is
    /// not announced.
    #[serde(default)]
    pub announced: bool,
}

/// The costs of the runtime's operations, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// Taking an event from a warm queue and calling the handler.
    pub dispatch_ns: f64,
    /// Putting an event into a color's warm inbox.
    pub post_ns: f64,
    /// Taking and releasing a lock that no other core has touched.
    pub lock_ns: f64,
    /// Reading another core's published hint, beyond the transfer of the cache line.
    pub search_ns: f64,
    /// Cache lines that move between two cores when a color is stolen, beyond the lock.
    #[serde(default = "steal_lines")]
    pub steal_lines: f64,
    /// Cache lines that a scan moves for each scanned event (`libasync` only).
    #[serde(default = "one")]
    pub scan_lines: f64,
    /// A system call without work.
    pub syscall_ns: f64,
    /// Going to sleep, from the last search to the kernel's idle loop.
    pub park_ns: f64,
    /// Waking another core: the cost for the waker.
    pub wake_call_ns: f64,
    /// Waking another core: the time until the core runs.
    pub wake: WakeSpec,
    /// Moving a cache line to a core from the core that wrote the line last.
    pub line: LineSpec,
    /// Speed of each of two hardware threads while both run, in percent of a thread that runs
    /// alone.
    #[serde(default = "smt_percent")]
    pub smt_percent: u32,
}

/// Time until a woken core runs: a usual time, and a tail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeSpec {
    /// The usual time.
    pub median_ns: f64,
    /// The time in the tail.
    pub tail_ns: f64,
    /// Number of wake-ups in 1,000 that take the time of the tail.
    #[serde(default)]
    pub tail_permille: u32,
}

/// Time of a cache line between cores, by distance. A missing value equals the value of the next
/// nearer distance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSpec {
    /// Between hardware threads of one core.
    pub smt: Option<f64>,
    /// Under one L2.
    pub l2: Option<f64>,
    /// Under one L3.
    pub l3: Option<f64>,
    /// Within a node, without a shared cache.
    pub node: Option<f64>,
    /// To the nearest other nodes.
    pub hop1: Option<f64>,
    /// To the nodes behind the nearest.
    pub hop2: Option<f64>,
    /// To farther nodes.
    pub hop3: Option<f64>,
}

fn line_bytes() -> u32 {
    64
}

fn chunk_bytes() -> u32 {
    4096
}

/// A prefetcher keeps about as many lines in flight as a core has miss buffers (10 to 16 on the
/// shipped machines).
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

/// The victim's queue word, the links of the token and of its neighbours, the color's two lines,
/// the hint.
fn steal_lines() -> f64 {
    6.0
}

/// SMT commonly gains 20 to 30 percent for both threads together.
fn smt_percent() -> u32 {
    62
}
