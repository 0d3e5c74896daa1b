//! Completes the data of a source to a [`Machine`] with all invariants.
//!
//! Sources may be incomplete (no caches, no nodes), redundant (sysfs names a shared cache once per
//! cpu) or contradictory (a hand-written XML). This file fills gaps, and the first claim to a cpu
//! wins. Tested through every source, and for arbitrary overlaps in `draft/tests.rs`.

use std::collections::BTreeMap;

use crate::CpuId;
use crate::machine::{CAPACITY_MAX, DISTANCE_LOCAL, DISTANCE_REMOTE, NODES_MAX};
use crate::{
    Cache, CacheKind, CoreClass, CoreId, CpuSet, Machine, Node, NodeId, Package, PhysicalCore, Pu,
    TopologyError,
};

#[cfg(test)]
mod tests;

/// A machine from a source: in any order, with overlaps and gaps.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) cpus: CpuSet,
    pub(crate) offline: CpuSet,
    pub(crate) nodes: Vec<Node>,
    pub(crate) packages: Vec<Package>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) cores: Vec<PhysicalCore>,
    pub(crate) distances: BTreeMap<(NodeId, NodeId), u32>,
}

impl PhysicalCore {
    /// A typical core; the id is assigned when the machine is finished.
    pub(crate) fn of(cpus: CpuSet) -> PhysicalCore {
        PhysicalCore { id: CoreId(0), cpus, class: CoreClass::Performance, capacity: CAPACITY_MAX }
    }
}

impl Draft {
    /// The finished machine.
    pub(crate) fn finish(mut self) -> Result<Machine, TopologyError> {
        if self.cpus.is_empty() {
            return Err(TopologyError::NoCpu);
        }
        // Before the distances, whose number is the square.
        if self.nodes.len() > NODES_MAX {
            return Err(TopologyError::ManyNodes { nodes: self.nodes.len(), max: NODES_MAX });
        }
        self.settle_nodes();
        self.settle_cores();
        self.settle_caches();
        claim(&mut self.packages, &self.cpus, |package| &mut package.cpus);
        self.packages.retain(|package| !package.cpus.is_empty());
        self.packages.sort_by_key(|package| package.cpus.first());
        Ok(Machine {
            pus: self.pus(),
            node_distances: self.matrix(),
            offline: self.offline.difference(&self.cpus),
            cpus: self.cpus,
            nodes: self.nodes,
            packages: self.packages,
            caches: self.caches,
            cores: self.cores,
        })
    }

    /// Nodes without cpus stay (memory only), and cpus that no node lists stay without a node. A
    /// machine without nodes gets one with all cpus. An only node that lists no cpu has all cpus.
    fn settle_nodes(&mut self) {
        self.nodes.sort_by_key(|node| node.id);
        claim(&mut self.nodes, &self.cpus, |node| &mut node.cpus);
        match self.nodes.as_mut_slice() {
            [] => self.nodes.push(Node { id: NodeId(0), cpus: self.cpus.clone(), memory_bytes: 0 }),
            [only] if only.cpus.is_empty() => only.cpus = self.cpus.clone(),
            _ => {}
        }
    }

    /// A cpu that no core claims becomes a core.
    fn settle_cores(&mut self) {
        let left = claim(&mut self.cores, &self.cpus, |core| &mut core.cpus);
        self.cores.retain(|core| !core.cpus.is_empty());
        self.cores.extend(left.iter().map(|cpu| PhysicalCore::of(CpuSet::from_iter([cpu]))));
        self.cores.sort_by_key(|core| core.cpus.first());
        for (core, index) in self.cores.iter_mut().zip(0..) {
            core.id = CoreId(index);
        }
    }

    fn settle_caches(&mut self) {
        let mut left: BTreeMap<(u8, CacheKind), CpuSet> = BTreeMap::new();
        for cache in &mut self.caches {
            let free = left.entry((cache.level, cache.kind)).or_insert_with(|| self.cpus.clone());
            cache.cpus = cache.cpus.intersection(free);
            *free = free.difference(&cache.cpus);
        }
        self.caches.retain(|cache| !cache.cpus.is_empty());
        self.caches.sort_by_key(|cache| (std::cmp::Reverse(cache.level), cache.cpus.first(), cache.kind));
    }

    fn pus(&self) -> Vec<Pu> {
        let core_of = owners(self.cores.iter().map(|core| (core.id, &core.cpus)));
        let node_of = owners(self.nodes.iter().map(|node| (node.id, &node.cpus)));
        self.cpus
            .iter()
            .map(|cpu| Pu { cpu, core: core_of[&cpu], node: node_of.get(&cpu).copied() })
            .collect()
    }

    fn matrix(&self) -> Vec<Vec<u32>> {
        let entry = |from: NodeId, to: NodeId| {
            let assumed = if from == to { DISTANCE_LOCAL } else { DISTANCE_REMOTE };
            self.distances.get(&(from, to)).copied().unwrap_or(assumed)
        };
        let row = |from: &Node| self.nodes.iter().map(|to| entry(from.id, to.id)).collect();
        self.nodes.iter().map(row).collect()
    }
}

/// Makes the items' sets disjoint and within `cpus`, the first claim winning; returns the unclaimed
/// cpus.
fn claim<T>(items: &mut [T], cpus: &CpuSet, set: impl Fn(&mut T) -> &mut CpuSet) -> CpuSet {
    let mut free = cpus.clone();
    for item in items {
        let claimed = set(item);
        *claimed = claimed.intersection(&free);
        free = free.difference(claimed);
    }
    free
}

fn owners<'a, I: Copy>(sets: impl Iterator<Item = (I, &'a CpuSet)>) -> BTreeMap<CpuId, I> {
    sets.flat_map(|(id, cpus)| cpus.iter().map(move |cpu| (cpu, id))).collect()
}
