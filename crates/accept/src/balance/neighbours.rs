//! Which core watches which: the cores of one cache, or of one node without a shared cache, form a
//! ring.
//!
//! In a ring every listener has the same number of watchers, at most [`WATCHED_MAX`]. A core that
//! is alone in its node is watched by the nearest other core. Pure.

use std::collections::BTreeMap;
use vermeil_topology::{CpuId, Machine};

/// Listeners that a core watches, per address. Each costs a descriptor and an entry in the
/// listener's queue of waiters. If each watcher is busy half of the time, all of eight are busy in
/// one of 256 cases.
const WATCHED_MAX: usize = 8;

/// For each core, by index, the watched cores: the next cores of the group, in a ring.
pub(super) fn watched(machine: &Machine, cpus: &[CpuId]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (core, &cpu) in cpus.iter().enumerate() {
        groups.entry(group_of(machine, cpu)).or_default().push(core);
    }
    let mut watched = vec![Vec::new(); cpus.len()];
    for group in groups.values() {
        for (at, &core) in group.iter().enumerate() {
            watched[core] = after(group, at);
        }
    }
    let alone: Vec<usize> = groups.values().filter(|group| group.len() == 1).map(|group| group[0]).collect();
    for core in alone {
        if let Some(nearest) = nearest(machine, cpus, core) {
            watched[nearest].push(core);
        }
    }
    watched
}

/// The same without a machine: all cores are a single group.
pub(super) fn ring(cores: usize) -> Vec<Vec<usize>> {
    let group: Vec<usize> = (0..cores).collect();
    (0..cores).map(|at| after(&group, at)).collect()
}

/// The other cores of a group, from `at` on.
fn after(group: &[usize], at: usize) -> Vec<usize> {
    (1..group.len()).map(|step| group[(at + step) % group.len()]).take(WATCHED_MAX).collect()
}

/// The node, and the first cpu of the outermost cache that several cpus share.
fn group_of(machine: &Machine, cpu: CpuId) -> (Option<u32>, Option<CpuId>) {
    let outer = machine.caches().iter().find(|cache| cache.cpus.contains(cpu) && cache.cpus.len() > 1);
    (machine.pu(cpu).and_then(|pu| pu.node).map(|node| node.0), outer.and_then(|cache| cache.cpus.first()))
}

fn nearest(machine: &Machine, cpus: &[CpuId], core: usize) -> Option<usize> {
    let others = (0..cpus.len()).filter(|&other| other != core);
    others.min_by_key(|&other| {
        (machine.distance(cpus[core], cpus[other]).is_none(), machine.distance(cpus[core], cpus[other]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_topology::synthetic;

    fn watched_on(machine: &str, cpus: &[u32]) -> Vec<Vec<usize>> {
        let machine = synthetic::parse(machine).unwrap();
        watched(&machine, &cpus.iter().map(|&cpu| CpuId(cpu)).collect::<Vec<_>>())
    }

    #[test]
    fn cores_watch_those_of_their_cache() {
        let watched = watched_on("node:2 l3:1 core:3 pu:1", &[0, 1, 2, 3, 4, 5]);
        assert_eq!(watched, [[1, 2], [2, 0], [0, 1], [4, 5], [5, 3], [3, 4]]);
    }

    #[test]
    fn every_listener_has_as_many_watchers_as_another() {
        let watched = watched_on("node:1 core:20 pu:1", &(0..20).collect::<Vec<_>>());
        for core in 0..20 {
            assert_eq!(watched[core].len(), WATCHED_MAX);
            assert_eq!(watched.iter().flatten().filter(|&&of| of == core).count(), WATCHED_MAX);
            assert!(!watched[core].contains(&core), "nobody watches itself");
        }
    }

    #[test]
    fn core_alone_in_cache_is_watched_by_nearest() {
        let watched = watched_on("node:2 core:2 pu:1", &[0, 1, 2]);
        assert_eq!(watched, [vec![1, 2], vec![0], vec![]]);
        assert_eq!(watched_on("core:1 pu:1", &[0]), [[0usize; 0]]);
    }

    #[test]
    fn without_a_machine_all_are_neighbours() {
        assert_eq!(ring(3), [[1, 2], [2, 0], [0, 1]]);
    }
}
