use super::*;
use crate::machine::profile;

const MIB: u64 = 1 << 20;

fn memory(machine: &str) -> Memory {
    Memory::new(profile(machine).unwrap().into())
}

fn walk(memory: &mut Memory, core: u32, object: ObjectId, access: Access) -> u64 {
    let walk = ObjectWalk { bytes: u64::MAX, access, pattern: Pattern::Sequential, work_ps: 0 };
    memory.touch(CoreIndex(core), object, walk, 0)
}

#[test]
fn second_walk_is_warm_until_larger_object_passes() {
    let mut memory = memory("xeon5100-2x2");
    let (small, large) = (memory.allocate(MIB, 0, 0), memory.allocate(5 * MIB, 0, 0));
    let cold = walk(&mut memory, 0, small, Access::Read);
    let warm = walk(&mut memory, 0, small, Access::Read);
    assert!(warm * 5 < cold, "{warm} {cold}");
    assert_eq!(walk(&mut memory, 1, small, Access::Read), warm, "the other core shares the cache");
    walk(&mut memory, 1, large, Access::Read);
    assert!(walk(&mut memory, 0, small, Access::Read) > 5 * warm);
}

#[test]
fn write_invalidates_other_caches() {
    let mut memory = memory("xeon5100-2x2");
    let object = memory.allocate(64 * 1024, 0, 0);
    walk(&mut memory, 0, object, Access::Read);
    walk(&mut memory, 2, object, Access::Read);
    let warm = walk(&mut memory, 2, object, Access::Read);
    walk(&mut memory, 0, object, Access::Write);
    let before = memory.traffic()[2].cache_to_cache_lines;
    assert!(walk(&mut memory, 2, object, Access::Read) > 3 * warm);
    assert_eq!(memory.traffic()[2].cache_to_cache_lines - before, 1024);
    assert_eq!(walk(&mut memory, 0, object, Access::Read), warm, "the writer keeps it");
}

#[test]
fn a_neighbours_change_below_the_same_l3_comes_from_its_own_cache() {
    let mut memory = memory("epyc-2x64");
    let object = memory.allocate(4096, 0, 0);
    walk(&mut memory, 0, object, Access::Write);
    let shared = walk(&mut memory, 1, object, Access::Read);
    assert_eq!(memory.traffic()[1].cache_to_cache_lines, 64);
    assert_eq!(memory.traffic()[1].remote_lines, 0);
    let far = walk(&mut memory, 64, object, Access::Read);
    assert!(far > 3 * shared, "{far} {shared}");
    assert_eq!(memory.traffic()[64].remote_lines, 64);
}

#[test]
fn far_memory_is_slower_and_loads_the_links_on_its_way() {
    let mut memory = memory("opteron8380-4x4");
    let took = [0, 1, 3].map(|home| memory.stream(CoreIndex(0), home, MIB / 16, Pattern::Sequential, 0));
    assert!(took[0] < took[1] && took[1] < took[2], "{took:?}");
    let used = memory.usage_milli(1_000_000_000).links;
    let by_link: Vec<((u16, u16), u64)> = memory.machine.link_ends().zip(used).collect();
    let of = |from, to| by_link.iter().find(|(ends, _)| *ends == (from, to)).unwrap().1;
    assert!(of(1, 0) > 2 * of(2, 0), "from 1, and from 3 through 1; to 2 go probes only: {by_link:?}");
    assert_eq!(memory.traffic()[0].remote_lines, 2 * 1024);
}

#[test]
fn saturated_memory_slows_every_core() {
    let mut memory = memory("xeon5100-2x2");
    let alone = memory.stream(CoreIndex(0), 0, MIB, Pattern::Sequential, 1 << 40);
    for core in 1..4 {
        memory.stream(CoreIndex(core), 0, 8 * MIB, Pattern::Sequential, 0);
    }
    assert!(memory.stream(CoreIndex(0), 0, MIB, Pattern::Sequential, 0) > 5 * alone);
}

#[test]
fn memory_is_used_again_and_warm() {
    let mut memory = memory("xeon5100-2x2");
    let first = memory.allocate(1_000, 0, 7);
    walk(&mut memory, 0, first, Access::Write);
    memory.release(first);
    let second = memory.allocate(900, 0, 7);
    assert_eq!(first, second);
    walk(&mut memory, 0, second, Access::Write);
    assert_eq!(memory.traffic()[0].missed_lines, 16);
    assert_ne!(memory.allocate(900, 0, 8), first, "another pool");
}
