//! `vermeil sim` through its binary: every output form, every way to give a machine and a workload,
//! one seed in two processes, a user's own plan, and errors with their position.
//!
//! `vermeil-sim` tests the simulation; this file tests the way from the command line and back.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn vermeil(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vermeil-tested")).args(words).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The output of a successful command.
fn said(words: &[&str]) -> String {
    let output = vermeil(words);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{words:?}");
    text(&output.stdout).to_owned()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&said(words)).expect("JSON")
}

#[test]
fn run_reports_as_text_json_picture_and_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, trace) = (folder.path().join("run.svg"), folder.path().join("run.json"));
    let files = ["--timeline", svg.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
    let run = ["sim", "run", "web", "--time", "5ms"];
    let text = said(&[&run[..], &files].concat());
    assert!(text.contains("of one FIFO queue") && text.contains("trace hash"), "{text}");
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let trace: Value = serde_json::from_str(&fs::read_to_string(trace).unwrap()).expect("JSON");
    let spans = trace["traceEvents"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["ph"] == "X" && span["dur"].as_f64() > Some(0.0)));
    let json = json(&[&run[..], &["--json"]].concat());
    assert_eq!(
        (json["policy"].as_str(), json["machine"].as_str()),
        (Some("adaptive"), Some("xeon-2x4-l2pairs"))
    );
}

#[test]
fn seed_determines_run_in_any_process() {
    for policy in ["libasync", "adaptive"] {
        let run = |seed: &str| {
            let words = ["sim", "run", "mixed", "-m", "opteron8380-4x4", "--time", "5ms", "--json"];
            json(&[&words[..], &["--policy", policy, "--seed", seed]].concat())
        };
        assert_eq!(run("7"), run("7"), "{policy}");
        assert_ne!(run("7")["hash"], run("8")["hash"], "{policy}");
    }
    let swarm = ["sim", "swarm", "--first", "1000", "--seeds", "5"];
    assert_eq!(said(&swarm), said(&swarm));
}

#[test]
fn policies_stand_side_by_side_against_the_ideal() {
    let words = ["sim", "run", "keyed", "--time", "10ms", "--compare", "none,mely,adaptive"];
    let table = said(&words);
    for word in ["policy", "of FIFO", "none", "mely", "adaptive"] {
        assert!(table.contains(word), "{table}");
    }
    let runs = json(&[&words[..], &["--json"]].concat());
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run["percent_of_fifo"].as_f64() > Some(0.0)), "{runs:?}");
}

/// Regression: the runtime of Mely's paper existed only inside `sim reproduce`.
#[test]
fn options_of_the_documents_give_their_result() {
    let words = ["sim", "run", "web", "--json", "--spin", "1000000", "--compare", "none,libasync,mely"];
    let rates = |more: &[&str]| {
        let runs = json(&[&words[..], more].concat());
        [0, 1, 2].map(|run| runs[run]["per_second"].as_f64().unwrap())
    };
    let [none, libasync, mely] = rates(&["--waits-for-locks", "--colors-return", "--batch", "10"]);
    assert!(libasync < 0.8 * none && mely > 1.4 * libasync, "{none} {libasync} {mely}");
    let [none, libasync, _] = rates(&[]);
    assert!(libasync > none, "{none} {libasync}");
}

#[test]
fn machines_are_shipped_written_exported_and_described() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("mine.toml");
    let list = said(&["sim", "machines"]);
    assert!(list.contains("opteron8380-4x4") && list.contains("Dell R905"), "{list}");
    fs::write(&written, said(&["sim", "machines", "hybrid"]).replace("\"hybrid\"", "\"mine\"")).unwrap();
    let exported = folder.path().join("there.xml");
    fs::write(&exported, EXPORT).unwrap();
    for (machine, name, cores) in [
        (written.to_str().unwrap(), "mine", 16),
        (exported.to_str().unwrap(), "there", 2),
        ("node:4 l3:1(size=8MiB) core:2 pu:1", "described", 8),
    ] {
        let run = json(&["sim", "run", "keyed", "--time", "2ms", "--json", "--machine", machine]);
        let found = (run["machine"].as_str().unwrap(), run["cores"].as_array().unwrap().len());
        assert_eq!(found, (name, cores), "{machine}");
    }
}

/// The smallest export of two cores under one cache.
const EXPORT: &str = r#"<?xml version="1.0"?>
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1">
    <object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1" local_memory="1073741824"/>
    <object type="L3Cache" cpuset="0x3" nodeset="0x1" cache_size="8388608" depth="3" cache_linesize="64" cache_type="0">
      <object type="Core" os_index="0" cpuset="0x1" nodeset="0x1">
        <object type="PU" os_index="0" cpuset="0x1" nodeset="0x1"/>
      </object>
      <object type="Core" os_index="1" cpuset="0x2" nodeset="0x1">
        <object type="PU" os_index="1" cpuset="0x2" nodeset="0x1"/>
      </object>
    </object>
  </object>
</topology>
"#;

#[test]
fn workloads_are_shipped_written_and_recorded_and_plans_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    assert!(said(&["sim", "workloads"]).contains("sqrt-pipeline"));
    let written = file(
        "roots.toml",
        &said(&["sim", "workloads", "sqrt-pipeline"]).replace("count = 4000", "count = 40"),
    );
    let plan = file("plan.toml", "roots-1 = 1\nroots-2 = 2\n");
    let placed = format!("placed:{plan}");
    let run = json(&["sim", "run", &written, "-m", "xeon5100-2x2", "--policy", &placed, "--json"]);
    assert_eq!(run["policy"], Value::from(placed.as_str()));
    // Regression: `--compare` read no plan, and ran `placed:FILE` without any.
    let compared = json(&["sim", "run", &written, "-m", "xeon5100-2x2", "--compare", &placed, "--json"]);
    assert_eq!(compared[0]["hash"], run["hash"]);
    let missing = vermeil(&["sim", "run", &written, "--compare", "none,placed:/nonexistent"]);
    assert!(text(&missing.stderr).contains("--compare /nonexistent: cannot read it"), "{missing:?}");
    let line = |at: u32| {
        format!(
            "{{\"handler\":\"work\",\"color\":{at},\"core\":0,\"posted_ns\":{at},\"start_ns\":{at},\"run_ns\":900}}\n"
        )
    };
    let header = "{\"recording\":1,\"policy\":\"none\",\"cpus\":[0],\"lost\":0}\n";
    let recorded = file("day.ndjson", &(0..50).map(line).fold(header.to_owned(), |text, line| text + &line));
    let run = json(&["sim", "run", &recorded, "--working-set", "4K", "--json"]);
    assert_eq!((run["workload"].as_str(), run["events"].as_u64()), (Some("day"), Some(50)));
    assert!(
        run["answered"].is_null() && run["latency_ns"]["p50"].is_null(),
        "a recording has no requests: {run}"
    );
}

#[test]
fn published_figures_stand_beside_ours() {
    let text = said(&["sim", "reproduce", "mely-sfs", "--quick"]);
    for word in ["document", "difference", "fitted", "predicted", "adaptive", "ICDCS 2010"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let all = json(&["sim", "reproduce", "mely-sfs", "--quick", "--json"]);
    assert!(all[0]["figures"].as_array().unwrap().iter().all(|figure| figure["holds"] == true), "{all}");
}

#[test]
fn this_machine_is_measured_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here.toml");
    let here = here.to_str().unwrap();
    said(&["sim", "calibrate", "--quick", "--out", here]);
    let text = fs::read_to_string(here).unwrap();
    assert!(text.starts_with("# Measured in a moment (--quick)"), "{text}");
    for word in ["name = \"here\"", "syscall_ns", "[memory]", "median_ns"] {
        assert!(text.contains(word), "{text}");
    }
    // A machine whose tree is not regular is described by its export, with the file as --costs.
    let machine = match text.contains("topology =") {
        true => &["--machine", here][..],
        false => &["--machine", "core:2 pu:1", "--costs", here],
    };
    let run = json(&[&["sim", "run", "keyed", "--time", "2ms", "--json"], machine].concat());
    assert!(run["events"].as_u64() > Some(100), "{run}");
}

#[test]
fn a_seed_is_replayed_alone() {
    let text = said(&["sim", "swarm", "--seed", "11"]);
    assert!(text.contains("seed 11: machine") && text.contains("no rule broken"), "{text}");
}

#[test]
fn wrong_input_is_reported_with_place() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "name = \"bad\"\nabuot = \"\"\n").unwrap();
    let bad = bad.to_str().unwrap();
    let endless = folder.path().join("endless.toml");
    let web = said(&["sim", "workloads", "web"]);
    fs::write(&endless, web.replace("run_ms = ", "# run_ms = ")).unwrap();
    let endless = endless.to_str().unwrap();
    let nowhere = Path::new("/nonexistent/run.svg").to_str().unwrap();
    for (words, code, reason) in [
        (&["sim", "run", "web", "-m", "vax"][..], 2, "no machine is called \"vax\"; there are: xeon5100-2x2"),
        (&["sim", "run", "wbe"], 2, "no workload is called \"wbe\"; there are: sqrt-pipeline"),
        (&["sim", "run", "web", "-m", bad], 2, "abuot"),
        (&["sim", "run", bad], 2, "bad.toml"),
        (&["sim", "run", endless], 2, "run_ms is missing, and the source of"),
        (&["sim", "run", "/nonexistent.toml"], 3, "workload /nonexistent.toml: cannot read it"),
        // Regression: the report of the whole run was lost after the run.
        (
            &["sim", "run", "web", "--time", "1ms", "--timeline", nowhere],
            3,
            "--timeline: cannot write /nonexi",
        ),
        (
            &["sim", "run", "web", "--time", "1ms", "--trace", "/nonexistent/run.json"],
            3,
            "--trace: cannot write /nonexistent",
        ),
        (&["sim", "show", "day.ndjson", "--timeline", nowhere], 3, "--timeline: cannot write /nonexistent"),
        // Regression: the file run.png had the picture as SVG.
        (
            &["sim", "run", "web", "--time", "1ms", "--timeline", "run.png"],
            2,
            "--timeline run.png: the file is written as svg, not as png: name it run.svg",
        ),
        (&["sim", "show", "day.ndjson", "--trace", "run.svg"], 2, "name it run.json"),
        (&["sim", "run", "web", "--policy", "best"], 2, "there is no policy `best`"),
        (&["sim", "run", "web", "--policy", "placed:/nonexistent.toml"], 3, "--policy /nonexistent.toml"),
        (&["sim", "run", "web", "--costs", "nope"], 2, "--costs is for a machine from an export"),
        (&["sim", "run", "web", "--working-set", "4K"], 2, "--working-set is for recordings"),
        (&["sim", "calibrate", "--out", nowhere], 3, "cannot write /nonexistent/run.svg"),
        (&["sim", "reproduce", "kent"], 2, "there are: mely-sfs"),
    ] {
        let output = vermeil(words);
        assert!(text(&output.stderr).contains(reason), "{words:?}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn the_real_runtime_and_the_simulator_stand_side_by_side() {
    let output = vermeil(&["sim", "parity", "--quick", "--rounds", "1"]);
    let (text, error) = (text(&output.stdout), text(&output.stderr));
    if error.contains("topology") || error.contains("this process may use") {
        // A machine without a regular tree, or of which this process has a part only.
        return;
    }
    assert_eq!((output.status.code(), error), (Some(0), ""));
    for word in ["sqrt_pipeline", "mixed_jobs", "keyed_stream", "adaptive", "simulated", "pairs told apart"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
