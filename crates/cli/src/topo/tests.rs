//! Drawings and messages of `vermeil topo`, for described machines.

use super::*;
use crate::{Cli, Command};
use clap::Parser;

fn topo(args: &[&str]) -> Result<String, (String, Exit)> {
    let words = ["vermeil", "topo"].iter().chain(args);
    match Cli::try_parse_from(words).expect("the words parse").command {
        Command::Topo(args) => args.text().map_err(|error| (error.to_string(), error.exit())),
        other => panic!("not topo: {other:?}"),
    }
}

#[test]
fn this_machine_is_drawn() {
    let text = topo(&[]).unwrap();
    assert!(text.starts_with("machine: ") && text.contains("allowed: cpus "), "{text}");
}

#[test]
fn a_described_machine_is_drawn_with_the_cpus_chosen() {
    let text = topo(&["-s", "node:2 core:2 pu:2", "--cores", "2"]).unwrap();
    assert!(text.starts_with("machine: 2 nodes, 4 cores, 8 cpus"), "{text}");
    assert!(text.ends_with("\nchosen: cpus 0, 2\n"), "{text}");
}

#[test]
fn the_instances_of_a_server_are_planned() {
    let machine = ["-s", "node:2 core:2 pu:1"];
    let text = topo(&machine).unwrap();
    assert!(text.contains("instance 0: cpus 0-1, memory of node 0"), "{text}");
    assert!(text.contains("instance 1: cpus 2-3, memory of node 1"), "{text}");
    let plan = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&topo(&[&machine[..], &["--plan"], more].concat()).unwrap()).unwrap()
    };
    assert_eq!(plan(&[])[1]["cpus"], serde_json::json!([2, 3]));
    assert_eq!(plan(&["--instances", "one"])[0]["nodes"], serde_json::json!([0, 1]));
    assert_eq!(plan(&["--cores", "3"]).as_array().unwrap().len(), 2);
    let here: serde_json::Value = serde_json::from_str(&topo(&["--plan"]).unwrap()).unwrap();
    assert_eq!(here[0]["instance"], 0);
}

/// Regression: the sum of the nodes' memory overflowed.
#[test]
fn memory_beyond_all_numbers_is_planned() {
    let machine = format!("node:2(memory={}) core:1 pu:1", u64::MAX);
    let text = topo(&["-s", &machine, "--instances", "one", "--plan"]).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan[0]["memory_bytes"], u64::MAX);
}

#[test]
fn json_has_the_cpus_chosen_if_asked() {
    let report = |args: &[&str]| -> serde_json::Value {
        let text = topo(args).unwrap();
        assert!(text.ends_with("}\n"), "{text}");
        serde_json::from_str(&text).unwrap()
    };
    let plain = report(&["-s", "core:2 pu:1", "--json"]);
    assert_eq!(plain["cores"], 2);
    assert_eq!(plain.get("chosen"), None);
    let chosen = report(&["-s", "core:2 pu:2", "--json", "--cores", "1-2"]);
    assert_eq!(chosen["chosen"], serde_json::json!([1, 2]));
}

#[test]
fn an_hwloc_export_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    let xml = r#"<topology version="2.0"><object type="Machine" cpuset="0x3" nodeset="0x1">
        <object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1"/>
        <object type="Core" os_index="0" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
        <object type="Core" os_index="1" cpuset="0x2"><object type="PU" os_index="1" cpuset="0x2"/></object>
        </object></topology>"#;
    std::fs::write(&path, xml).unwrap();
    let text = topo(&["--from", path.to_str().unwrap()]).unwrap();
    assert!(text.starts_with("machine: 1 node, 2 cores, 2 cpus"), "{text}");
}

/// Node 0 lists cpus 0-1 and has no memory, node 2 is memory only, and cpu 2 is in no node.
#[test]
fn cpus_without_memory_are_drawn_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    let core = |cpu: u32| {
        let mask = 1 << cpu;
        format!(
            r#"<object type="Core" os_index="{cpu}" cpuset="0x{mask:x}"><object type="PU" os_index="{cpu}" cpuset="0x{mask:x}"/></object>"#
        )
    };
    let node = |id: u32, cpus: &str, bytes: u64| {
        format!(r#"<object type="NUMANode" os_index="{id}" cpuset="{cpus}" local_memory="{bytes}"/>"#)
    };
    let distances = r#"<distances2 type="NUMANode" nbobjs="3" kind="5" indexing="os"><indexes length="3">0 1 2
        </indexes><u64values length="9">10 30 12 30 10 20 12 20 10</u64values></distances2>"#;
    let (cores, nodes) = (
        [0, 1, 2, 3].map(core).concat(),
        [node(0, "0x3", 0), node(1, "0x8", 1 << 30), node(2, "0x0", 1 << 31)],
    );
    let xml = format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0xf">{}{cores}</object>{distances}</topology>"#,
        nodes.concat()
    );
    std::fs::write(&path, xml).unwrap();
    let from = ["--from", path.to_str().unwrap()];
    let text = topo(&from).unwrap();
    for line in [
        "without memory of their own: cpus 2 outside of all nodes; nearest memory unknown, so it is not bound",
        "without memory of their own: cpus 0-1 of node 0; nearest memory: node 2",
        "instance 0: cpus 0-1, memory of node 2 (2.0 GiB)",
        "instance 1: cpus 3, memory of node 1 (1.0 GiB)",
        "instance 2: cpus 2, memory from anywhere (no node is known to be near)",
    ] {
        assert!(text.lines().any(|drawn| drawn == line), "{line}\n{text}");
    }
    let nodes = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&topo(&[&from[..], args].concat()).unwrap()).unwrap()
    };
    assert_eq!(nodes(&["--plan"])[2]["nodes"], serde_json::json!([]));
    assert_eq!(nodes(&["--json"])["machine"]["nodes"][0]["cpus"], "0-1");
}

#[test]
fn refusal_names_option_value_and_cure() {
    for (args, message, exit) in [
        (
            &["--from", "/nonexistent/machine.xml"][..],
            "--from /nonexistent/machine.xml: cannot read it: No such file or directory (os error 2); export a machine \
             with `lstopo --of xml FILE.xml`",
            Exit::CannotStart,
        ),
        (
            &["-s", "core:2 pu:1", "--cores", "3"],
            "--cores 3: 3 cpus asked for, 2 allowed; cpus that may be used: 0-1",
            Exit::Usage,
        ),
    ] {
        assert_eq!(topo(args), Err((message.to_owned(), exit)));
    }
    let (message, exit) = topo(&["-s", "kore:2"]).unwrap_err();
    assert!(message.starts_with("machine description \"kore:2\", column 1: "), "{message}");
    assert_eq!(exit, Exit::Usage);
}

#[test]
fn one_machine_at_a_time() {
    let both = ["vermeil", "topo", "--from", "x.xml", "-s", "pu:1"];
    assert_eq!(Cli::try_parse_from(both).unwrap_err().kind(), clap::error::ErrorKind::ArgumentConflict);
}
