//! The commands of docs/runtime.md run: each example with the page's own arguments, and with small
//! sizes. The options that all examples share are tested too.
//!
//! The page's code also runs, as documentation of `vermeil-programs`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};
use vermeil::recording::Recording;

/// The arguments that make each program small. A server is only asked for its help, because a
/// server does not end.
const SMALL: [(&str, &[&str]); 8] = [
    ("axum", &["--help"]),
    ("sqrt_pipeline", &["--roots", "10", "--events", "10"]),
    ("image_pipeline", &["--images", "10", "--image-bytes", "100"]),
    ("image_server", &["--clients", "2", "--images", "2", "--side", "20"]),
    ("web_handlers", &["--connections", "4", "--requests", "5"]),
    ("encrypting_server", &["--rounds", "2", "--block-bytes", "500"]),
    ("keyed_stream", &["--keys", "20", "--records", "100"]),
    ("mixed_jobs", &["--short-steps", "10", "--long-us", "100"]),
];

/// The commands of the page: example and arguments.
fn commands(page: &str) -> Vec<(&str, Vec<&str>)> {
    let commands = page.lines().filter(|line| line.starts_with("cargo run -p vermeil "));
    commands
        .map(|line| {
            let (_, rest) = line.split_once("--example ").expect("an example");
            let mut words = rest.split_whitespace();
            let name = words.next().expect("its name");
            (name, words.skip_while(|word| *word == "--").collect())
        })
        .collect()
}

fn examples() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    test.parent().and_then(Path::parent).expect("below the target folder").join("examples")
}

fn run(name: &str, args: &[&str], small: &[&str]) -> Option<Output> {
    let program = examples().join(name);
    if !program.exists() {
        eprintln!("skipped: {} is not built", program.display());
        return None;
    }
    Some(Command::new(program).args(args).args(small).output().expect("the example starts"))
}

#[test]
fn the_commands_of_the_page_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runtime.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let commands = commands(&page);
    assert_eq!(commands.len(), SMALL.len(), "a command for each example");
    for (name, args) in commands {
        let (_, small) = SMALL.iter().find(|(known, _)| *known == name).expect("an example of the page");
        let Some(output) = run(name, &args, small) else { continue };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(name == "axum" || said.contains("checksum "), "{name}: {said}");
    }
}

/// Regression: the help of an example began with the description of a group of its options.
#[test]
fn help_begins_with_the_program() {
    for (name, _) in SMALL {
        let Some(output) = run(name, &["--help"], &[]) else { continue };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let first = said.lines().next().unwrap_or_default();
        let is_of_group = ["The size", "The load", "Usage"].iter().any(|begin| first.starts_with(begin));
        assert!(!is_of_group && !first.is_empty(), "{name}: {said}");
    }
}

/// Regression: the work was scaled by a clock, so each run had another checksum.
#[test]
fn no_policy_changes_the_checksum() {
    for (name, small) in SMALL.into_iter().filter(|(name, _)| *name != "axum") {
        let checksum = |policy: &str| {
            let output = run(name, &["--policy", policy], small)?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            said.lines().find(|line| line.starts_with("checksum ")).map(str::to_owned)
        };
        let first = checksum("none");
        for policy in ["none", "libasync", "ncopy", "adaptive"] {
            assert_eq!(checksum(policy), first, "{name} under {policy}");
        }
    }
}

#[test]
fn example_writes_a_recording_and_handler_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.ndjson");
    let record = ["--record", file.to_str().expect("a name"), "--observe", "all"];
    let small = ["--stages", "2", "--roots", "10", "--events", "10"];
    let Some(output) = run("sqrt_pipeline", &record, &small) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&file).expect("it is there");
    let recording = Recording::parse(&text).expect("it is as a simulator reads it");
    assert!(recording.events.len() >= 20, "{said}");
    assert!(
        said.contains(&format!("{} events, after 0 that were not kept", recording.events.len())),
        "{said}"
    );
    let last = recording.events.last().expect("a stage");
    assert!(said.lines().any(|line| line.ends_with(&format!("  {}", last.handler))), "{said}");
}

/// Regression: errors were printed in debug form: `Error: Plan { path: ..`.
#[test]
fn example_explains_a_failed_start() {
    let cases = [
        (
            ["--policy", "placed:/nowhere/plan.toml"],
            "Error: cannot use the plan /nowhere/plan.toml: No such file",
        ),
        (
            ["--record", "/nowhere/run.ndjson"],
            "Error: cannot write the recording /nowhere/run.ndjson: No such file",
        ),
        (["--observe", "some"], "observation `some` is not known; it is one of off, sampled, all"),
    ];
    for (args, words) in cases {
        let Some(output) = run("sqrt_pipeline", &args, &[]) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    let Some(output) = run("image_server", &["--listen", "127.0.0.1:0"], &["--record", "x"]) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot be used with"), "a server never ends: {said}");
}
