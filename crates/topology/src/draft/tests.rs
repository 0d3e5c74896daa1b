use proptest::prelude::*;

use super::*;

fn sets() -> impl Strategy<Value = Vec<CpuSet>> {
    let set = prop::collection::vec(0..80_u32, 0..12);
    prop::collection::vec(set.prop_map(|cpus| cpus.into_iter().map(CpuId).collect()), 0..8)
}

fn assert_disjoint<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> CpuSet {
    sets.fold(CpuSet::new(), |seen, set| {
        assert!(seen.intersection(set).is_empty(), "{seen} and {set} overlap");
        seen.union(set)
    })
}

proptest! {
    #[test]
    fn any_source_yields_consistent_machine(
        online in prop::collection::btree_set(0..64_u32, 1..40), nodes in sets(), cores in sets(), caches in sets(),
    ) {
        let cpus: CpuSet = online.into_iter().map(CpuId).collect();
        let node = |(cpus, id): (CpuSet, u32)| Node { id: NodeId(id * 3), cpus, memory_bytes: 0 };
        let cache = |cpus| Cache { level: 2, kind: CacheKind::Unified, bytes: None, line_bytes: None, cpus };
        let draft = Draft {
            cpus: cpus.clone(),
            nodes: nodes.into_iter().rev().zip(0..).map(node).collect(),
            cores: cores.into_iter().map(PhysicalCore::of).collect(),
            caches: caches.into_iter().map(cache).collect(),
            ..Draft::default()
        };
        let machine = draft.finish().expect("there are cpus");
        assert_eq!(assert_disjoint(machine.cores().iter().map(|core| &core.cpus)), cpus);
        let in_nodes = assert_disjoint(machine.nodes().iter().map(|node| &node.cpus));
        assert!(in_nodes.is_subset(&cpus));
        for pu in machine.pus() {
            let lists = |node: &&Node| node.cpus.contains(pu.cpu);
            assert_eq!(pu.node, machine.nodes().iter().find(lists).map(|node| node.id));
        }
        assert_disjoint(machine.caches().iter().map(|cache| &cache.cpus));
        assert_eq!(machine.pus().iter().map(|pu| pu.cpu).collect::<Vec<_>>(), cpus.iter().collect::<Vec<_>>());
        for (core, index) in machine.cores().iter().zip(0..) {
            assert_eq!(core.id, CoreId(index));
            assert!(core.cpus.iter().all(|cpu| machine.pu(cpu).is_some_and(|pu| pu.core == core.id)));
        }
    }
}

#[test]
fn a_machine_without_cpus_is_refused() {
    assert!(matches!(Draft::default().finish(), Err(TopologyError::NoCpu)));
}
