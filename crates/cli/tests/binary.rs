//! The binary itself: exit codes, and the output streams.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn vermeil(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vermeil")).args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn help_and_version_go_to_standard_output_and_succeed() {
    for (args, words) in [
        (&["help"][..], "Usage: vermeil <COMMAND>"),
        (&["help", "serve"], "--keep-alive-timeout <TIME>"),
        (&["serve", "--help"], "--keep-alive-timeout <TIME>"),
        (&["--version"], concat!("vermeil ", env!("CARGO_PKG_VERSION"))),
        (&["man", "serve"], ".TH vermeil"),
        (&["completions", "bash"], "complete -F"),
        (&["topo", "-s", "core:2 pu:1"], "machine: 1 node, 2 cores, 2 cpus"),
    ] {
        let output = vermeil(args);
        assert!(text(&output.stdout).contains(words), "{args:?}: {}", text(&output.stdout));
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn bad_usage_writes_standard_error_and_ends_with_2() {
    for (args, words) in [
        (&[][..], "Usage: vermeil <COMMAND>"),
        (&["tpoo"], "a similar subcommand exists: 'topo'"),
        (&["serve", "--body-timeout", "soon"], "'soon' for '--body-timeout <TIME>': write seconds"),
        (&["topo", "--synthetic", "x"], "vermeil: machine description \"x\", column 1"),
        (&["man", "sreve"], "vermeil: no man page vermeil-sreve.1; see `vermeil help`"),
    ] {
        let output = vermeil(args);
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{args:?}");
    }
}

#[test]
fn missing_file_ends_with_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let us = format!("(pid {})", std::process::id());
    for (args, words) in [
        (&["topo", "--from", "/nonexistent.xml"][..], "vermeil: --from /nonexistent.xml: cannot read it: "),
        (&["serve", "/nonexistent"], "vermeil: serving the folder /nonexistent: there is no such folder"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--log", "/nonexistent/log"],
            "/nonexistent: there is no such folder; make it, or name another place",
        ),
        (&["serve", "--listen", &addr], &us),
    ] {
        let output = vermeil(args);
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), ""), "{args:?}");
    }
}

#[test]
fn a_machine_comes_through_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vermeil"))
        .args(["topo", "--from", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().unwrap().write_all(b"<topology").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stderr).starts_with("vermeil: hwloc XML, line 1: "), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_vermeil")).arg("topo").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
