//! The simulated machine: cores, caches, nodes, links, and what everything costs.
//!
//! Owns the numbers as the simulation uses them: picoseconds for memory, nanoseconds for the runtime's operations,
//! indices instead of names. Leaves out how they are written (`machine/spec.rs`), put together (`machine/build.rs`) and
//! what ships (`machine/profiles.rs`). Distances are the scheduler's own type, so both speak of the same steps. Tested in
//! `machine/tests.rs`.

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

/// How a handler walks through what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pattern {
    /// In order: the prefetcher is ahead.
    Sequential,
    /// Here and there.
    #[default]
    Random,
}

/// Time per line at one level of the memory system, in picoseconds, with the overlap of accesses taken off.
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
pub(crate) struct Core {
    pub(crate) node: u16,
    /// Caches it uses, innermost first; the last is its domain.
    pub(crate) caches: Vec<u16>,
    /// Speed in percent of a normal core.
    pub(crate) speed_percent: u32,
    /// The other hardware thread of its physical core.
    pub(crate) sibling: Option<CoreIndex>,
}

/// A cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub(crate) level: u8,
    pub(crate) bytes: u64,
    pub(crate) hit: LineTime,
    pub(crate) node: u16,
    /// Bytes per microsecond between it and what is beyond.
    pub(crate) port_bytes_per_us: Option<u64>,
    /// A core that uses it, to measure distances from.
    pub(crate) first_core: u32,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) bytes_per_us: u64,
    pub(crate) latency_ps: u64,
}

/// The memory of all nodes, which are alike.
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

/// What the runtime's operations cost, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
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

impl Costs {
    /// One cache line over this distance.
    pub(crate) fn line_ps(&self, distance: Distance) -> u64 {
        self.line_ps[distance.class()]
    }

    /// The same in nanoseconds.
    pub(crate) fn line_ns(&self, distance: Distance) -> u64 {
        self.line_ns[distance.class()]
    }

    /// So many thousandths of a line over this distance, in nanoseconds.
    pub(crate) fn lines_ns(&self, lines_milli: u64, distance: Distance) -> u64 {
        lines_milli * self.line_ps(distance) / 1_000 / PS_PER_NS
    }
}

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) mhz: u32,
    pub(crate) base_ipc: f64,
    pub(crate) line_bytes: u32,
    pub(crate) chunk_bytes: u32,
    pub(crate) cores: Vec<Core>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) nodes: usize,
    pub(crate) dram: Dram,
    pub(crate) links: Vec<Link>,
    /// Row by row, the links from node to node in order.
    routes: Vec<Vec<u16>>,
    /// The node of each network card.
    pub(crate) nics: Vec<u16>,
    pub(crate) costs: Costs,
    layout: Layout,
}

impl Machine {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line about it.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// How many memory nodes it has.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Its clock in MHz.
    pub fn mhz(&self) -> u32 {
        self.mhz
    }

    /// Instructions per cycle where nothing waits for memory.
    pub fn base_ipc(&self) -> f64 {
        self.base_ipc
    }

    /// From which node to which each link leads, in the order of the results.
    pub fn link_ends(&self) -> impl Iterator<Item = (u16, u16)> {
        self.links.iter().map(|link| (link.from, link.to))
    }

    /// The cores as the scheduler sees them.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory node of a core.
    pub fn node(&self, core: CoreIndex) -> usize {
        usize::from(self.cores[core.0 as usize].node)
    }

    /// The links from one node to another, in order; empty within a node and where none are described.
    pub(crate) fn route(&self, from: u16, to: u16) -> &[u16] {
        &self.routes[usize::from(from) * self.nodes + usize::from(to)]
    }

    /// Cycles of a core at full speed as picoseconds.
    pub(crate) fn cycles_ps(&self, cycles: u64) -> u64 {
        match cycles.checked_mul(1_000_000) {
            Some(scaled) => scaled / u64::from(self.mhz),
            None => (u128::from(cycles) * 1_000_000 / u128::from(self.mhz)) as u64,
        }
    }

    /// Nanoseconds as cycles of a core at full speed.
    pub fn cycles(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.mhz) / 1_000) as u64
    }
}
