//! Layouts of machines from the literature, and properties of every layout.

use proptest::prelude::*;
use vermeil_topology::synthetic;

use super::*;

fn layout(machine: &str) -> Layout {
    let machine = synthetic::parse(machine).expect("a machine");
    let cpus: Vec<_> = machine.pus().iter().map(|pu| pu.cpu).collect();
    Layout::from_machine(&machine, &cpus).expect("a layout")
}

#[test]
fn distances_are_the_machines() {
    let layout = layout("node:2 l3:2 l2:2 core:2 pu:2");
    let cases = [
        (0, Distance::Same),
        (1, Distance::Smt),
        (2, Distance::L2),
        (4, Distance::L3),
        (8, Distance::Node),
        (16, Distance::Hops(1)),
    ];
    for (to, distance) in cases {
        assert_eq!(layout.distance(CoreIndex(0), CoreIndex(to)), distance, "to {to}");
        assert_eq!(Distance::of_class(distance.class()), distance);
    }
    assert_eq!((layout.cores(), layout.nodes()), (32, 2));
    assert_eq!(layout.node(CoreIndex(15)), 0);
    assert_eq!(layout.node(CoreIndex(16)), 1);
    let groups: Vec<_> =
        layout.groups(CoreIndex(0)).map(|(distance, group)| (distance, group.len())).collect();
    let expected = [
        (Distance::Smt, 1),
        (Distance::L2, 2),
        (Distance::L3, 4),
        (Distance::Node, 8),
        (Distance::Hops(1), 16),
    ];
    assert_eq!(groups, expected);
}

#[test]
fn thieves_at_one_distance_start_at_different_victims() {
    let layout = layout("node:2 l3:1 core:4 pu:1");
    let first: Vec<_> = (0..4).map(|core| layout.neighbours(CoreIndex(core))[3]).collect();
    assert_eq!(first, [CoreIndex(4), CoreIndex(5), CoreIndex(6), CoreIndex(7)]);
    assert_eq!(layout.neighbours(CoreIndex(1))[..3], [CoreIndex(2), CoreIndex(3), CoreIndex(0)]);
}

#[test]
fn groups_follow_the_caches() {
    let layout = layout("l2:2 core:2 pu:1");
    assert_eq!(
        layout.groups_within(Distance::L2),
        [[CoreIndex(0), CoreIndex(1)], [CoreIndex(2), CoreIndex(3)]]
    );
    assert_eq!(layout.groups_within(Distance::Node).len(), 1);
    assert_eq!(layout.groups_within(Distance::Same).len(), 4);
}

#[test]
fn contradictions_are_refused() {
    use Distance::{L2, L3, Same};
    assert_eq!(Layout::from_matrix(&[]), Err(SchedError::NoCores));
    assert_eq!(
        Layout::from_matrix(&[vec![Same, L2], vec![L2]]),
        Err(SchedError::NotSquare { row: 1, found: 1, expected: 2 })
    );
    let contradictory = Err(SchedError::Contradiction { a: 0, b: 1 });
    assert_eq!(Layout::from_matrix(&[vec![Same, L2], vec![L3, Same]]), contradictory);
    assert_eq!(Layout::from_matrix(&[vec![Same, Same], vec![Same, Same]]), contradictory);
    let machine = synthetic::parse("core:2 pu:1").expect("a machine");
    assert_eq!(Layout::from_machine(&machine, &[CpuId(7)]), Err(SchedError::UnknownCpu(CpuId(7))));
}

#[test]
fn fast_core_is_best_for_long_work() {
    let same = layout("node:1 l3:1 core:4 pu:1");
    let layout = same.clone().with_capacities(vec![512, 512, 1024, 512]);
    let best = |run_ns, layout: &Layout| {
        layout.best_neighbour(CoreIndex(0), |_| true, run_ns, |_| 1_000).expect("a neighbour")
    };
    assert_eq!(best(1_000_000, &layout), CoreIndex(2));
    assert_eq!(best(1_000_000, &same), same.neighbours(CoreIndex(0))[0]);
    assert_eq!(layout.slower_ns(1_000, CoreIndex(2), CoreIndex(0)), 1_000);
    assert_eq!(layout.slower_ns(1_000, CoreIndex(0), CoreIndex(2)), -500);
    assert!(layout.is_slow(CoreIndex(1)) && !layout.is_slow(CoreIndex(2)) && !same.is_slow(CoreIndex(1)));
}

proptest! {
    #[test]
    fn neighbours_are_all_others_nearest_first(nodes in 1u32..4, caches in 1u32..3, cores in 1u32..4, core in 0u32..64) {
        let layout = layout(&format!("node:{nodes} l3:{caches} core:{cores} pu:1"));
        let core = CoreIndex(core % layout.cores() as u32);
        let neighbours = layout.neighbours(core);
        prop_assert!(neighbours.is_sorted_by_key(|&other| layout.distance(core, other)));
        let mut all: Vec<_> = neighbours.to_vec();
        all.push(core);
        all.sort_unstable();
        prop_assert_eq!(all, layout.indices().collect::<Vec<_>>());
        let grouped: usize = layout.groups(core).map(|(_, group)| group.len()).sum();
        prop_assert_eq!(grouped, neighbours.len());
        let on_node = |&other: &CoreIndex| layout.node(other) == layout.node(core);
        let here: Vec<_> = neighbours.iter().copied().filter(on_node).collect();
        prop_assert_eq!(layout.node_neighbours(core), here);
    }
}
