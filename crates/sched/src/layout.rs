//! The runtime's cores from the view of a policy: distances, neighbours, and nodes.
//!
//! Contains [`Distance`] and [`Layout`], made once at start from a machine and the cpus in use.
//! Leaves out the machine (`vermeil_topology`) and the symmetries (`layout/symmetry.rs`).
//! Invariants: distances are symmetric, and `Same` exactly from a core to itself; each core's
//! neighbours are all other cores, nearest first. Tested in `layout/tests.rs`.

use std::fmt;

use vermeil_topology::{self as topology, CAPACITY_MAX, CpuId, Machine};

use crate::{CoreIndex, SchedError};

mod symmetry;
#[cfg(test)]
mod tests;

pub use symmetry::{PERMUTATIONS_MAX, Symmetry};

/// Maximum number of cores. Distances take two bytes for each pair of cores: 2 MiB at this bound.
pub const CORES_MAX: usize = 1024;

/// The distance between two cores, nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Distance {
    /// The same core.
    Same,
    /// Hardware threads of one physical core.
    Smt,
    /// Cores that share a cache of level 1 or 2.
    L2,
    /// Cores of one node that share a cache of level 3 or above.
    L3,
    /// Cores of one node that share no cache.
    Node,
    /// Cores of two nodes: the rank of the nodes' distance among the machine's, 1 for the nearest.
    Hops(u8),
}

impl Distance {
    /// The number of classes of [`Distance::class`].
    pub const CLASSES: usize = 8;

    /// An index for tables by distance: nearer is smaller, and everything from three hops on is one
    /// class.
    pub fn class(self) -> usize {
        // Two steps, because every steal and search calls this function, and a single match
        // compiles to a jump table.
        let hops = if let Self::Hops(hops) = self { hops.clamp(1, 3) } else { 0 };
        let near = match self {
            Self::Same => 0,
            Self::Smt => 1,
            Self::L2 => 2,
            Self::L3 => 3,
            Self::Node | Self::Hops(_) => 4,
        };
        near + usize::from(hops)
    }

    /// The nearest distance of a class: the inverse of [`Distance::class`] up to three hops.
    ///
    /// # Panics
    /// When `class` is not below [`Distance::CLASSES`].
    pub fn of_class(class: usize) -> Self {
        const ALL: [Distance; Distance::CLASSES] = [
            Distance::Same,
            Distance::Smt,
            Distance::L2,
            Distance::L3,
            Distance::Node,
            Distance::Hops(1),
            Distance::Hops(2),
            Distance::Hops(3),
        ];
        ALL[class]
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("same core"),
            Self::Smt => f.write_str("SMT"),
            Self::L2 => f.write_str("L2"),
            Self::L3 => f.write_str("L3"),
            Self::Node => f.write_str("node"),
            Self::Hops(1) => f.write_str("1 hop"),
            Self::Hops(hops) => write!(f, "{hops} hops"),
        }
    }
}

/// The cores of a runtime and the distances between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    cores: usize,
    /// In row order.
    distances: Vec<Distance>,
    /// By core, all other cores, nearest first.
    neighbours: Vec<Vec<CoreIndex>>,
    /// By core, numbered from 0 in the order of the nodes' first cores.
    nodes: Vec<u32>,
    /// By core; [`CAPACITY_MAX`] is the machine's fastest core.
    capacities: Vec<u32>,
    /// Whether the capacities differ.
    differ: bool,
}

impl Layout {
    /// The layout of a runtime whose core `i` is pinned to `cpus[i]`.
    ///
    /// # Errors
    /// When there is no cpu, there are too many, or a cpu is not online.
    pub fn from_machine(machine: &Machine, cpus: &[CpuId]) -> Result<Self, SchedError> {
        if cpus.len() > CORES_MAX {
            return Err(SchedError::TooManyCores { cores: cpus.len(), max: CORES_MAX });
        }
        let ranks = hop_ranks(machine);
        let row = |&from: &CpuId| cpus.iter().map(|&to| measure(machine, &ranks, from, to)).collect();
        let matrix = cpus.iter().map(row).collect::<Result<Vec<Vec<_>>, _>>()?;
        let capacity = |&cpu: &CpuId| {
            let core = machine.pu(cpu).expect("distances were found").core;
            machine.cores()[core.0 as usize].capacity.max(1)
        };
        Ok(Self::from_matrix(&matrix)?.with_capacities(cpus.iter().map(capacity).collect()))
    }

    /// A layout with these distances, in row order, on cores of equal speed.
    ///
    /// # Errors
    /// When the matrix is empty, not square, not symmetric, or contains `Same` for two cores.
    pub fn from_matrix(matrix: &[Vec<Distance>]) -> Result<Self, SchedError> {
        let cores = matrix.len();
        check(matrix)?;
        let mut layout = Self {
            cores,
            distances: matrix.iter().flatten().copied().collect(),
            neighbours: Vec::new(),
            nodes: vec![0; cores],
            capacities: vec![CAPACITY_MAX; cores],
            differ: false,
        };
        for (node, members) in layout.groups_within(Distance::Node).into_iter().enumerate() {
            members.iter().for_each(|core| layout.nodes[core.0 as usize] = node as u32);
        }
        layout.neighbours = layout.indices().map(|core| layout.by_distance(core)).collect();
        Ok(layout)
    }

    /// The same cores at other speeds, in the unit of [`CAPACITY_MAX`]; each speed is above 0.
    ///
    /// # Panics
    /// When there is not one capacity per core, or a capacity is 0: a fault of the caller.
    #[must_use]
    pub fn with_capacities(mut self, capacities: Vec<u32>) -> Self {
        assert_eq!(capacities.len(), self.cores, "one capacity per core");
        assert!(capacities.iter().all(|&capacity| capacity > 0), "a core has some speed");
        self.differ = capacities.iter().any(|&capacity| capacity != capacities[0]);
        self.capacities = capacities;
        self
    }

    /// The number of cores, at least one.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// All cores in the order of their indices.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = CoreIndex> + use<> {
        (0..self.cores as u32).map(CoreIndex)
    }

    /// The distance between two cores.
    ///
    /// # Panics
    /// When there is no such core: a fault of the caller. All methods that take a core panic in
    /// this case.
    pub fn distance(&self, a: CoreIndex, b: CoreIndex) -> Distance {
        let (a, b) = (a.0 as usize, b.0 as usize);
        assert!(b < self.cores, "core {b} of a layout with {}", self.cores);
        self.distances[a * self.cores + b]
    }

    /// All other cores, nearest first. Cores at the same distance are rotated by the core's own
    /// index, so that thieves do not all choose the same victim.
    pub fn neighbours(&self, core: CoreIndex) -> &[CoreIndex] {
        &self.neighbours[core.0 as usize]
    }

    /// The neighbours on the core's own node, nearest first.
    pub fn node_neighbours(&self, core: CoreIndex) -> &[CoreIndex] {
        let all = self.neighbours(core);
        &all[..all.partition_point(|&other| self.node(other) == self.node(core))]
    }

    /// The neighbours by distance, nearest first; no group is empty.
    pub fn groups(&self, core: CoreIndex) -> impl Iterator<Item = (Distance, &[CoreIndex])> {
        self.neighbours(core)
            .chunk_by(move |&a, &b| self.distance(core, a) == self.distance(core, b))
            .map(move |group| (self.distance(core, group[0]), group))
    }

    /// The node of a core: numbered from 0 in the order of the nodes' first cores, not the system's
    /// number.
    pub fn node(&self, core: CoreIndex) -> u32 {
        self.nodes[core.0 as usize]
    }

    /// The number of nodes, at least one.
    pub fn nodes(&self) -> usize {
        self.nodes.iter().max().map_or(0, |&last| last as usize + 1)
    }

    /// The speed of a core; [`CAPACITY_MAX`] is the machine's fastest.
    pub fn capacity(&self, core: CoreIndex) -> u32 {
        self.capacities[core.0 as usize]
    }

    /// Time by which `run_ns` on core `from` become longer on core `to`; negative on a faster core.
    pub fn slower_ns(&self, run_ns: u64, from: CoreIndex, to: CoreIndex) -> i64 {
        if !self.differ {
            return 0;
        }
        let (from, to) = (i128::from(self.capacity(from)), i128::from(self.capacity(to)));
        let slower_ns = i128::from(run_ns) * (from - to) / to;
        i64::try_from(slower_ns).unwrap_or(if slower_ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// Whether the machine has a faster core than `core`.
    pub fn is_slow(&self, core: CoreIndex) -> bool {
        self.differ && self.capacity(core) < CAPACITY_MAX
    }

    /// The neighbour of `core` that fits and ends a run of `run_ns` earliest, after a move that
    /// costs `move_ns` for its distance. On cores of equal speed the nearest neighbour that fits.
    pub fn best_neighbour(
        &self,
        core: CoreIndex,
        fits: impl Fn(CoreIndex) -> bool,
        run_ns: u64,
        move_ns: impl Fn(Distance) -> u64,
    ) -> Option<CoreIndex> {
        let mut fitting = self.neighbours(core).iter().copied().filter(|&other| fits(other));
        if !self.differ {
            return fitting.next();
        }
        let ends_ns = |&other: &CoreIndex| {
            i128::from(move_ns(self.distance(core, other))) + i128::from(self.slower_ns(run_ns, core, other))
        };
        fitting.min_by_key(ends_ns)
    }

    /// Groups of cores whose members are linked by distances of at most `distance`: by ascending
    /// first core.
    pub fn groups_within(&self, distance: Distance) -> Vec<Vec<CoreIndex>> {
        let mut group_of = vec![usize::MAX; self.cores];
        let mut groups: Vec<Vec<CoreIndex>> = Vec::new();
        for first in self.indices() {
            if group_of[first.0 as usize] != usize::MAX {
                continue;
            }
            let members = self.linked(first, distance);
            members.iter().for_each(|core| group_of[core.0 as usize] = groups.len());
            groups.push(members);
        }
        groups
    }

    /// `first` and all cores reachable by links of at most `distance`, by ascending index.
    fn linked(&self, first: CoreIndex, distance: Distance) -> Vec<CoreIndex> {
        let mut seen = vec![false; self.cores];
        seen[first.0 as usize] = true;
        let mut open = vec![first];
        while let Some(core) = open.pop() {
            for other in self.indices().filter(|&other| self.distance(core, other) <= distance) {
                if !std::mem::replace(&mut seen[other.0 as usize], true) {
                    open.push(other);
                }
            }
        }
        self.indices().filter(|core| seen[core.0 as usize]).collect()
    }

    fn by_distance(&self, core: CoreIndex) -> Vec<CoreIndex> {
        let mut others: Vec<_> = self.indices().filter(|&other| other != core).collect();
        others.sort_by_key(|&other| self.distance(core, other));
        for group in others.chunk_by_mut(|&a, &b| self.distance(core, a) == self.distance(core, b)) {
            group.rotate_left(core.0 as usize % group.len());
        }
        others
    }
}

fn check(matrix: &[Vec<Distance>]) -> Result<(), SchedError> {
    let expected = matrix.len();
    if expected == 0 {
        return Err(SchedError::NoCores);
    }
    if expected > CORES_MAX {
        return Err(SchedError::TooManyCores { cores: expected, max: CORES_MAX });
    }
    if let Some((row, found)) = matrix.iter().map(Vec::len).enumerate().find(|&(_, len)| len != expected) {
        return Err(SchedError::NotSquare { row, found, expected });
    }
    for (a, row) in matrix.iter().enumerate() {
        for (b, &distance) in row.iter().enumerate() {
            if distance != matrix[b][a] || (distance == Distance::Same) != (a == b) {
                return Err(SchedError::Contradiction { a, b });
            }
        }
    }
    Ok(())
}

/// The firmware's distances between different nodes, ascending: the position of a distance is the
/// number of hops less one.
fn hop_ranks(machine: &Machine) -> Vec<u32> {
    let rows = machine.node_distances().iter().enumerate();
    let mut remote: Vec<u32> = rows
        .flat_map(|(a, row)| row.iter().enumerate().filter(move |&(b, _)| a != b).map(|(_, &slit)| slit))
        .collect();
    remote.sort_unstable();
    remote.dedup();
    remote
}

/// The distance of two cpus, the longer of both directions, because a firmware's table need not be
/// symmetric.
fn measure(machine: &Machine, ranks: &[u32], from: CpuId, to: CpuId) -> Result<Distance, SchedError> {
    let known = |cpu| if machine.pu(cpu).is_some() { Ok(()) } else { Err(SchedError::UnknownCpu(cpu)) };
    known(from)?;
    known(to)?;
    let there = machine.distance(from, to).expect("both cpus are known");
    let back = machine.distance(to, from).expect("both cpus are known");
    Ok(match there.max(back) {
        topology::CpuDistance::SameCpu => Distance::Same,
        topology::CpuDistance::Smt => Distance::Smt,
        topology::CpuDistance::L2 => Distance::L2,
        topology::CpuDistance::L3 => Distance::L3,
        topology::CpuDistance::Node => Distance::Node,
        topology::CpuDistance::Remote(slit) => {
            let rank = ranks.partition_point(|&nearer| nearer < slit);
            Distance::Hops(u8::try_from(rank + 1).unwrap_or(u8::MAX))
        }
    })
}
