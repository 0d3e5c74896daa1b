use super::*;
use crate::fixture::FixtureRoot;
use crate::{Allowed, CpuDistance, render};

fn drawn(root: &FixtureRoot) -> (Machine, String) {
    let machine = read(root.path()).expect("a machine");
    let text = render::tree(&machine, &Allowed::everything(&machine));
    let end = text.find("\nallowed:").expect("the drawing ends with what is allowed");
    let drawing = text[..end].to_owned();
    (machine, drawing)
}

fn distance(machine: &Machine, from: u32, to: u32) -> CpuDistance {
    machine.distance(CpuId(from), CpuId(to)).expect("online cpus")
}

#[test]
fn a_virtual_machine_of_two_cpus_under_one_l3() {
    let mut root = FixtureRoot::new().with("sys/devices/system/cpu/online", "0-1").node(0, "0-1", 4096, "10");
    for cpu in 0..2 {
        let own = cpu.to_string();
        root = root
            .cpu(cpu, 0, &own)
            .cache(cpu, 0, "1 Data 32K", &own)
            .cache(cpu, 1, "1 Instruction 32K", &own)
            .cache(cpu, 2, "2 Unified 1024K", &own)
            .cache(cpu, 3, "3 Unified 32768K", "0-1");
    }
    let (machine, drawing) = drawn(&root);
    let golden = "\
machine: 1 node, 2 cores, 2 cpus, 4 GiB
└─ node 0 4 GiB + package 0 + L3 32 MiB
   ├─ L2 1 MiB + L1d 32 KiB + L1i 32 KiB + core 0 + cpu 0
   └─ L2 1 MiB + L1d 32 KiB + L1i 32 KiB + core 1 + cpu 1
";
    assert_eq!(drawing, golden);
    assert_eq!(distance(&machine, 0, 1), CpuDistance::L3);
    assert!(machine.caches().iter().all(|cache| cache.line_bytes == Some(64)));
}

#[test]
fn a_virtual_machine_that_says_next_to_nothing() {
    let root = FixtureRoot::new()
        .with("sys/devices/system/cpu/cpu0/uevent", "")
        .with("sys/devices/system/cpu/cpu1/online", "1")
        .with("sys/devices/system/cpu/cpu2/online", "0")
        .with("sys/devices/system/cpu/cpufreq/boost", "0")
        .with("proc/meminfo", "MemTotal:  2048 kB");
    let (machine, drawing) = drawn(&root);
    let golden = "\
machine: 1 node, 2 cores, 2 cpus, 2 MiB
└─ node 0 2 MiB + package 0
   ├─ core 0 + cpu 0
   └─ core 1 + cpu 1

offline: cpus 2
";
    assert_eq!(drawing, golden);
    assert_eq!(distance(&machine, 0, 1), CpuDistance::Node);
}

#[test]
fn an_opteron_of_four_nodes_with_asymmetric_distances() {
    let rows = ["10 16 16 22", "16 10 22 16", "16 22 10 16", "22 16 18 10"];
    let mut root = FixtureRoot::new().with("sys/devices/system/cpu/online", "0-15");
    for (node, row) in (0..4).zip(rows) {
        let cpus = format!("{}-{}", node * 4, node * 4 + 3);
        root = root.node(node, &cpus, 16384, row);
        for cpu in node * 4..node * 4 + 4 {
            let own = cpu.to_string();
            root = root.cpu(cpu, node, &own).cache(cpu, 2, "2 Unified 512K", &own).cache(
                cpu,
                3,
                "3 Unified 5M",
                &cpus,
            );
        }
    }
    let (machine, drawing) = drawn(&root);
    assert!(drawing.starts_with(
        "machine: 4 nodes, 16 cores, 16 cpus, 64 GiB\n├─ node 0 16 GiB + package 0 + L3 5 MiB\n"
    ));
    let matrix = "
node distances
       0   1   2   3
   0  10  16  16  22
   1  16  10  22  16
   2  16  22  10  16
   3  22  16  18  10
";
    assert!(drawing.ends_with(matrix), "{drawing}");
    assert_eq!(distance(&machine, 0, 3), CpuDistance::L3);
    assert_eq!(
        (distance(&machine, 8, 12), distance(&machine, 12, 8)),
        (CpuDistance::Remote(16), CpuDistance::Remote(18))
    );
}

#[test]
fn hardware_threads_some_of_them_offline() {
    let mut root = FixtureRoot::new()
        .with("sys/devices/system/cpu/online", "0-2,4-5")
        .with("sys/devices/system/cpu/cpu3/online", "0")
        .with("sys/devices/system/cpu/cpu6/online", "0")
        .node(0, "0-2,4-5", 1024, "10");
    for (cpu, siblings) in [(0, "0,4"), (1, "1,5"), (2, "2"), (4, "0,4"), (5, "1,5")] {
        root = root.cpu(cpu, 0, siblings);
    }
    let (machine, drawing) = drawn(&root);
    let golden = "\
machine: 1 node, 3 cores, 5 cpus, 1 GiB
└─ node 0 1 GiB + package 0
   ├─ core 0
   │  ├─ cpu 0
   │  └─ cpu 4
   ├─ core 1
   │  ├─ cpu 1
   │  └─ cpu 5
   └─ core 2 + cpu 2

offline: cpus 3,6
";
    assert_eq!(drawing, golden);
    assert_eq!(distance(&machine, 0, 4), CpuDistance::Smt);
    assert_eq!(machine.distance(CpuId(0), CpuId(3)), None);
}

#[test]
fn hybrid_machines_know_their_small_cores() {
    let x86 = FixtureRoot::new()
        .with("sys/devices/system/cpu/online", "0-3")
        .with("sys/devices/cpu_core/cpus", "0-1")
        .with("sys/devices/cpu_atom/cpus", "2-3")
        .cpu(0, 0, "0-1")
        .cpu(1, 0, "0-1")
        .cpu(2, 0, "2")
        .cpu(3, 0, "3");
    let (machine, _) = drawn(&x86);
    let classes: Vec<_> = machine.cores().iter().map(|core| core.class).collect();
    assert_eq!(classes, [CoreClass::Performance, CoreClass::Efficient, CoreClass::Efficient]);

    let mut arm = FixtureRoot::new().with("sys/devices/system/cpu/online", "0-1");
    for (cpu, capacity) in [(0, "446"), (1, "1024")] {
        arm = arm
            .cpu(cpu, 0, &cpu.to_string())
            .with(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), capacity);
    }
    let (_, drawing) = drawn(&arm);
    let golden = "\
machine: 1 node, 2 cores, 2 cpus
└─ node 0 + package 0
   ├─ core 0 (efficient, capacity 446) + cpu 0
   └─ core 1 + cpu 1
";
    assert_eq!(drawing, golden);
}

#[test]
fn a_folder_that_is_no_system_is_refused_with_the_cure() {
    let error = read(FixtureRoot::new().path()).expect_err("an empty folder").to_string();
    assert!(
        error.contains("sys/devices/system/cpu") && error.contains("check that sysfs is mounted"),
        "{error}"
    );
    let garbage = FixtureRoot::new().with("sys/devices/system/cpu/online", "what?");
    assert!(matches!(read(garbage.path()), Err(TopologyError::NoCpu)));
}

/// Smoke: the machine that runs the tests has cpus and draws.
#[test]
fn the_machine_at_hand_is_read() {
    let machine = read(Path::new("/")).expect("Linux with sysfs");
    assert!(!machine.pus().is_empty() && !machine.nodes().is_empty());
}
