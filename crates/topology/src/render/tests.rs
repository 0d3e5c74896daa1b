use super::*;
use crate::synthetic;

fn drawn(text: &str, cpus: &str, cpu_limit: Option<f64>) -> String {
    let machine = synthetic::parse(text).expect("a machine");
    let cpus = cpus.parse().expect("a cpu list");
    tree(&machine, &Allowed { cpus, cpu_limit, reasons: vec!["because".to_owned()] })
}

#[test]
fn drawing_marks_forbidden_cpus() {
    let golden = "\
machine: 2 nodes, 4 cores, 8 cpus, 16 GiB
├─ node 0 8 GiB + package 0 + L3 30.5 MiB
│  ├─ core 0
│  │  ├─ cpu 0
│  │  └─ cpu 1 (not allowed)
│  └─ core 1
│     ├─ cpu 2 (not allowed)
│     └─ cpu 3 (not allowed)
└─ node 1 8 GiB + package 1 + L3 30.5 MiB
   ├─ core 2
   │  ├─ cpu 4
   │  └─ cpu 5
   └─ core 3
      ├─ cpu 6
      └─ cpu 7

node distances
       0   1
   0  10  20
   1  20  10

allowed: cpus 0,4-7, cpu limit 1.5: 2 cores for a server
  because
";
    let text = "node:2(memory=8GiB) pack:1 l3:1(size=32MB) core:2 pu:2";
    assert_eq!(drawn(text, "0,4-7", Some(1.5)), golden);
}

#[test]
fn more_than_sixteen_alike_are_one_line() {
    let golden = "\
machine: 1 node, 36 cores, 72 cpus, 1 GiB
└─ node 0 1 GiB
   ├─ L3 16 MiB
   │  └─ 18 × (L2 4 MiB + core), 2 cpus each: cpus 0-35
   └─ L3 16 MiB
      ├─ L2 4 MiB + core 18
      │  ├─ cpu 36 (not allowed)
      │  └─ cpu 37
      └─ 17 × (L2 4 MiB + core), 2 cpus each: cpus 38-71

allowed: cpus 0-35,37-71, no cpu limit: 71 cores for a server
  because
";
    assert_eq!(drawn("l3:2 l2:18 core:1 pu:2", "0-35,37-71", None), golden);
    let sixteen = drawn("core:16 pu:1", "0-15", None);
    assert!(sixteen.contains("└─ core 15 + cpu 15\n") && !sixteen.contains('×'), "{sixteen}");
}

#[test]
fn json_has_machine_and_allowed_cpus() {
    let machine = synthetic::parse("node:1(memory=1GiB) l2:1 core:2 pu:1").expect("a machine");
    let json: serde_json::Value =
        serde_json::from_str(&to_json(&machine, &Allowed::everything(&machine))).expect("JSON");
    let expected = serde_json::json!({
        "machine": {
            "cpus": "0-1",
            "offline": "",
            "nodes": [{ "id": 0, "cpus": "0-1", "memory_bytes": 1_u64 << 30 }],
            "packages": [],
            "caches": [{ "level": 2, "kind": "unified", "bytes": 4 << 20, "line_bytes": 64, "cpus": "0-1" }],
            "cores": [
                { "id": 0, "cpus": "0", "class": "performance", "capacity": 1024 },
                { "id": 1, "cpus": "1", "class": "performance", "capacity": 1024 },
            ],
            "pus": [{ "cpu": 0, "core": 0, "node": 0 }, { "cpu": 1, "core": 1, "node": 0 }],
            "node_distances": [[10]],
        },
        "allowed": { "cpus": "0-1", "cpu_limit": null, "reasons": [] },
        "cores": 2,
    });
    assert_eq!(json, expected);
}

#[test]
fn sizes_are_binary_with_a_decimal_where_not_whole() {
    let cases = [(512, "512 B"), (32 << 10, "32 KiB"), (1536 << 10, "1.5 MiB"), (u64::MAX, "16777216 TiB")];
    for (bytes, text) in cases {
        assert_eq!(size(bytes), text);
    }
}
