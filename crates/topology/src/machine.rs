//! The machine as data: nodes, packages, caches, cores, cpus, and their distances.
//!
//! Contains the types and the queries. Leaves out the sources of the data (`sysfs`, `xml`,
//! `synthetic`) and the filling of gaps (`draft`, which also keeps the invariants stated on
//! [`Machine`]). Tested in `machine/tests.rs`.

use serde::Serialize;

use crate::{CoreId, CpuId, CpuSet, NodeId, PackageId};

#[cfg(test)]
mod tests;

/// A memory node. Nodes share no cpu. A node without cpus is memory only. A node may also have cpus
/// and no memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The system's number.
    pub id: NodeId,
    /// The cpus to which this memory is local.
    pub cpus: CpuSet,
    /// Memory in bytes, 0 if the node has none or the source does not say.
    pub memory_bytes: u64,
}

/// A package, that is a socket. Packages share no cpu.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// The number the machine reports.
    pub id: PackageId,
    /// The online cpus of the package.
    pub cpus: CpuSet,
}

/// The contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data and instructions.
    Unified,
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
}

/// A cache. Two caches of the same level and kind share no cpu.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 is nearest to the cpu.
    pub level: u8,
    /// The contents.
    pub kind: CacheKind,
    /// The size, if known.
    pub bytes: Option<u64>,
    /// The line size, if known.
    pub line_bytes: Option<u32>,
    /// The online cpus that share the cache.
    pub cpus: CpuSet,
}

/// The design of a core of a hybrid machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreClass {
    /// The machine's normal or big cores.
    Performance,
    /// Small cores, built to save power or area.
    Efficient,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhysicalCore {
    /// The index in [`Machine::cores`].
    pub id: CoreId,
    /// The core's online hardware threads (SMT siblings), at least one.
    pub cpus: CpuSet,
    /// Big or small; all cores of a machine that is not hybrid are [`CoreClass::Performance`].
    pub class: CoreClass,
    /// Computing capacity in the kernel's unit: [`CAPACITY_MAX`] is the machine's fastest core.
    pub capacity: u32,
}

/// Maximum number of memory nodes: the largest number with which a mainline kernel can be built
/// (`NODES_SHIFT`).
pub(crate) const NODES_MAX: usize = 1024;

/// The capacity of a machine's fastest core (`SCHED_CAPACITY_SCALE` in the kernel).
pub const CAPACITY_MAX: u32 = 1024;

/// The distance of a node to itself if the firmware gives none (`LOCAL_DISTANCE` in the kernel).
pub(crate) const DISTANCE_LOCAL: u32 = 10;
/// The distance of one node to another if the firmware gives none (`REMOTE_DISTANCE` in the
/// kernel).
pub(crate) const DISTANCE_REMOTE: u32 = 20;

/// A processing unit: one hardware thread, one cpu of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pu {
    /// The system's number.
    pub cpu: CpuId,
    /// The physical core of the cpu.
    pub core: CoreId,
    /// The node that lists the cpu; `None` if no node does. For memory see
    /// [`Machine::memory_node`].
    pub node: Option<NodeId>,
}

/// The distance between two cpus, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuDistance {
    /// The same cpu.
    SameCpu,
    /// Hardware threads of one physical core.
    Smt,
    /// Cores that share a data cache of level 1 or 2.
    L2,
    /// Cores of one node that share a cache of level 3 or above.
    L3,
    /// Cores of one node that share no cache.
    Node,
    /// Cores of two nodes, with the firmware's distance between them (ACPI SLIT: 10 is local, 20
    /// twice as far). A core outside of all nodes counts as a core of another node.
    Remote(u32),
}

/// A machine. Every online cpu is a [`Pu`], in exactly one core, and in at most one node, one
/// package and one cache of each level and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub(crate) cpus: CpuSet,
    pub(crate) offline: CpuSet,
    pub(crate) nodes: Vec<Node>,
    pub(crate) packages: Vec<Package>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) cores: Vec<PhysicalCore>,
    pub(crate) pus: Vec<Pu>,
    pub(crate) node_distances: Vec<Vec<u32>>,
}

impl Machine {
    /// The online cpus.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Cpus that are present but offline. No other field contains offline cpus.
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The memory nodes by ascending number, at least one.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The packages by ascending first cpu; empty where the source does not name any.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The caches from the highest level down, each level by ascending first cpu.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The physical cores by ascending first cpu, at least one.
    pub fn cores(&self) -> &[PhysicalCore] {
        &self.cores
    }

    /// The cpus by ascending number, at least one.
    pub fn pus(&self) -> &[Pu] {
        &self.pus
    }

    /// The data of a cpu; `None` if the cpu is offline or does not exist.
    pub fn pu(&self, cpu: CpuId) -> Option<&Pu> {
        self.pus.binary_search_by_key(&cpu, |pu| pu.cpu).ok().map(|index| &self.pus[index])
    }

    /// The distance matrix, a row and a column per node in the order of [`Machine::nodes`], in the
    /// firmware's unit (ACPI SLIT: 10 is local). The matrix need not be symmetric.
    pub fn node_distances(&self) -> &[Vec<u32>] {
        &self.node_distances
    }

    /// The distance from `from` to `to`; `None` if either is not an online cpu of this machine.
    pub fn distance(&self, from: CpuId, to: CpuId) -> Option<CpuDistance> {
        let (a, b) = (self.pu(from)?, self.pu(to)?);
        Some(if a.cpu == b.cpu {
            CpuDistance::SameCpu
        } else if a.core == b.core {
            CpuDistance::Smt
        } else {
            match (a.node, b.node, self.shared_cache_level(a.cpu, b.cpu)) {
                (Some(from), Some(to), _) if from != to => CpuDistance::Remote(self.node_distance(from, to)?),
                (.., Some(1 | 2)) => CpuDistance::L2,
                (.., Some(_)) => CpuDistance::L3,
                (from, to, None) if from == to => CpuDistance::Node,
                _ => CpuDistance::Remote(DISTANCE_REMOTE),
            }
        })
    }

    /// The node with memory that is nearest to an online cpu: the cpu's own node if that node has
    /// memory, otherwise the nearest by the distance matrix. A cpu outside of all nodes has the
    /// node of the cpus that share its smallest cache or its package, or the machine's only node
    /// with memory. `None` if nothing says which node is near.
    ///
    /// Where the source gives no memory sizes at all, every node counts as a node with memory.
    pub fn memory_node(&self, cpu: CpuId) -> Option<NodeId> {
        let pu = self.pu(cpu)?;
        match pu.node {
            Some(node) => self.nearest_memory(node),
            None => self.memory_beside(cpu).or_else(|| match self.nodes_with_memory().as_slice() {
                [only] => Some(only.id),
                _ => None,
            }),
        }
    }

    fn nearest_memory(&self, from: NodeId) -> Option<NodeId> {
        let with_memory = self.nodes_with_memory();
        let far = |to: &&&Node| (to.id != from, self.node_distance(from, to.id), to.id);
        with_memory.iter().min_by_key(far).map(|node| node.id)
    }

    /// The memory of the cpus that share the smallest cache or package with `cpu`.
    fn memory_beside(&self, cpu: CpuId) -> Option<NodeId> {
        let caches = self.caches.iter().map(|cache| &cache.cpus);
        let shared = caches.chain(self.packages.iter().map(|package| &package.cpus));
        let mut shared: Vec<&CpuSet> = shared.filter(|cpus| cpus.contains(cpu)).collect();
        shared.sort_by_key(|cpus| cpus.len());
        let neighbours = shared.into_iter().flat_map(CpuSet::iter);
        let node = neighbours.filter_map(|neighbour| self.pu(neighbour)?.node).next()?;
        self.nearest_memory(node)
    }

    fn nodes_with_memory(&self) -> Vec<&Node> {
        let some = self.nodes.iter().any(|node| node.memory_bytes > 0);
        self.nodes.iter().filter(|node| node.memory_bytes > 0 || !some).collect()
    }

    fn node_distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let index = |id| self.nodes.iter().position(|node| node.id == id);
        Some(self.node_distances[index(from)?][index(to)?])
    }

    /// The lowest level of a cache for data that both cpus use.
    fn shared_cache_level(&self, a: CpuId, b: CpuId) -> Option<u8> {
        let data = self.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        data.filter(|cache| cache.cpus.contains(a) && cache.cpus.contains(b)).map(|cache| cache.level).min()
    }
}
