//! The commands of docs/runtime.md run: each example with the page's own arguments, and small sizes beside them.
//!
//! The page's code runs too, as documentation of `vermeil-programs`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What makes each program small; a server is not started for ever, but asked for its help.
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
