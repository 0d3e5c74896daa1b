//! The simulated machine: cores, caches, nodes, links, and the costs.
//!
//! Owns the numbers in the units of the simulation: picoseconds for memory, nanoseconds for the
//! runtime's operations, indices instead of names. Leaves out the file format (`machine/spec.rs`),
//! the conversion (`machine/build.rs`) and the shipped machines (`machine/profiles.rs`). Distances
//! have the scheduler's type. Tested in `machine/tests.rs`.

mod build;
mod profiles;
mod ranges;
mod spec;
#[cfg(test)]
mod tests;

use vermeil_sched::{CoreIndex, Distance, Layout};

pub use profiles::{profile, profile_text, profiles};
pub use spec::{
    CacheSpec, CostSpec, LineSpec, LinkSpec, MachineSpec, MemorySpec, NicSpec, RouteSpec, SlowSpec, WakeSpec,
};

/// Picoseconds in a nanosecond.
pub(crate) const PS_PER_NS: u64 = 1_000;

/// The order in which a handler accesses the bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pattern {
    /// In order, so the prefetcher is ahead.
    Sequential,
    /// In random order.
    #[default]
    Random,
}

/// Time per line at one level of the memory system, in picoseconds, divided by the overlap of
/// accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineTime {
    sequential_ps: u32,
    random_ps: u32,
}

impl LineTime {
    pub(crate) fn ps(self, pattern: Pattern) -> u64 {
        u64::from(match pattern {
            Pattern::Sequential => self.sequential_ps,
            Pattern::Random => self.random_ps,
        })
    }
}

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct MachineCore {
    pub(crate) node: u16,
    /// The core's modelled caches, innermost first. The last is the core's domain.
    pub(crate) caches: Vec<u16>,
    /// Speed in percent of a normal core.
    pub(crate) speed_percent: u32,
    /// The other hardware thread of the physical core.
    pub(crate) sibling: Option<CoreIndex>,
}

/// A cache.
#[derive(Clone, Debug)]
pub(crate) struct SimCache {
    pub(crate) level: u8,
    pub(crate) bytes: u64,
    pub(crate) hit: LineTime,
    pub(crate) node: u16,
    /// Bytes per microsecond between the cache and everything outside.
    pub(crate) port_bytes_per_us: Option<u64>,
    /// A core that uses the cache; distances are measured from this core.
    pub(crate) first_core: u32,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub(crate) struct MachineLink {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) bytes_per_us: u64,
    pub(crate) latency_ps: u64,
}

/// The memory of a node; all nodes have equal memories.
#[derive(Clone, Debug)]
pub(crate) struct Dram {
    pub(crate) latency_ps: u64,
    pub(crate) bytes_per_us: u64,
    /// Lines in flight, in thousandths.
    pub(crate) overlap_sequential_milli: u64,
    pub(crate) overlap_random_milli: u64,
    /// In thousandths.
    pub(crate) burstiness_milli: u64,
    pub(crate) probe_bytes_milli: u64,
}

impl Dram {
    pub(crate) fn overlap_milli(&self, pattern: Pattern) -> u64 {
        match pattern {
            Pattern::Sequential => self.overlap_sequential_milli,
            Pattern::Random => self.overlap_random_milli,
        }
    }
}

/// The costs of the runtime's operations, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct OperationCosts {
    pub(crate) dispatch_ns: u64,
    pub(crate) post_ns: u64,
    pub(crate) lock_ns: u64,
    pub(crate) search_ns: u64,
    pub(crate) steal_lines_milli: u64,
    pub(crate) scan_lines_milli: u64,
    pub(crate) syscall_ns: u64,
    pub(crate) park_ns: u64,
    pub(crate) wake_call_ns: u64,
    pub(crate) wake_median_ns: u64,
    pub(crate) wake_tail_ns: u64,
    pub(crate) wake_tail_permille: u32,
    pub(crate) smt_percent: u32,
    /// By [`Distance::class`].
    line_ps: [u64; Distance::CLASSES],
    line_ns: [u64; Distance::CLASSES],
}

impl OperationCosts {
    /// Time to move a cache line over this distance.
    pub(crate) fn line_ps(&self, distance: Distance) -> u64 {
        self.line_ps[distance.class()]
    }

    /// The same in nanoseconds.
    pub(crate) fn line_ns(&self, distance: Distance) -> u64 {
        self.line_ns[distance.class()]
    }

    /// Time to move thousandths of a line over this distance, in nanoseconds.
    pub(crate) fn lines_ns(&self, lines_milli: u64, distance: Distance) -> u64 {
        lines_milli * self.line_ps(distance) / 1_000 / PS_PER_NS
    }
}

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct SimMachine {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) mhz: u32,
    pub(crate) base_ipc: f64,
    pub(crate) line_bytes: u32,
    pub(crate) chunk_bytes: u32,
    pub(crate) cores: Vec<MachineCore>,
    pub(crate) caches: Vec<SimCache>,
    pub(crate) nodes: usize,
    pub(crate) dram: Dram,
    pub(crate) links: Vec<MachineLink>,
    /// Row by row, the links on the route from node to node, in order.
    routes: Vec<Vec<u16>>,
    /// The node of each network card.
    pub(crate) nics: Vec<u16>,
    pub(crate) costs: OperationCosts,
    layout: Layout,
}

impl SimMachine {
    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line that describes the machine.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Number of memory nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The clock in MHz.
    pub fn mhz(&self) -> u32 {
        self.mhz
    }

    /// Instructions per cycle without waits for memory.
    pub fn base_ipc(&self) -> f64 {
        self.base_ipc
    }

    /// The first and the last node of each link, in the order of the results.
    pub fn link_ends(&self) -> impl Iterator<Item = (u16, u16)> {
        self.links.iter().map(|link| (link.from, link.to))
    }

    /// The cores from the scheduler's view.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory node of a core.
    pub fn node(&self, core: CoreIndex) -> usize {
        usize::from(self.cores[core.0 as usize].node)
    }

    /// The links from one node to another, in order. Empty within a node, and if no links are
    /// described.
    pub(crate) fn route(&self, from: u16, to: u16) -> &[u16] {
        &self.routes[usize::from(from) * self.nodes + usize::from(to)]
    }

    /// Converts cycles of a core at full speed to picoseconds.
    pub(crate) fn cycles_ps(&self, cycles: u64) -> u64 {
        match cycles.checked_mul(1_000_000) {
            Some(scaled) => scaled / u64::from(self.mhz),
            None => (u128::from(cycles) * 1_000_000 / u128::from(self.mhz)) as u64,
        }
    }

    /// Converts nanoseconds to cycles of a core at full speed.
    pub fn cycles(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.mhz) / 1_000) as u64
    }
}
