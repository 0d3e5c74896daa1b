use super::*;
use crate::synthetic;

#[test]
fn shared_resource_classifies_distance() {
    let machine = synthetic::parse("node:2 l3:2 l2:2 core:2 pu:2").expect("a machine");
    let cases = [
        (0, CpuDistance::SameCpu),
        (1, CpuDistance::Smt),
        (2, CpuDistance::L2),
        (4, CpuDistance::L3),
        (8, CpuDistance::Node),
        (16, CpuDistance::Remote(20)),
    ];
    for (to, distance) in cases {
        assert_eq!(machine.distance(CpuId(0), CpuId(to)), Some(distance), "to {to}");
    }
    assert!(cases.is_sorted_by_key(|&(_, distance)| distance), "nearest first");
    assert_eq!(machine.distance(CpuId(0), CpuId(32)), None);
}

#[test]
fn a_shared_instruction_cache_is_not_sharing() {
    let machine = synthetic::parse("l1i:1 core:2 pu:1").expect("a machine");
    assert_eq!(machine.distance(CpuId(0), CpuId(1)), Some(CpuDistance::Node));
}
