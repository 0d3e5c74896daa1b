//! `vermeil steer` on software cards in a network namespace of its own. Applied settings are
//! present, and an undo restores the previous settings to the byte. The undo also happens when no
//! user confirms, and when the process that waits for the confirmation is killed.
//!
//! `namespace` is that namespace, `traffic` the traffic through it. `xdp` has settings that last as
//! long as a process, and `busy` a server that polls its card. Needs root and `ip`; without these
//! the tests report a skip and pass. The tests never touch this machine's own cards.

mod busy;
mod namespace;
mod traffic;
mod xdp;

use std::fs;
use std::path::Path;
use std::process::Command;

use namespace::Namespace;

const VERMEIL: &str = env!("CARGO_BIN_EXE_vermeil-tested");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn apply_and_undo_are_exact() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    let plan = namespace.steered(&["--nic", "steer0", "--cores", "1"]);
    assert!(
        plan.contains("steer0 (veth): made by software") && plan.contains("steer0 rx-0 rps_cpus: none -> 0"),
        "{plan}"
    );
    assert!(plan.contains("\n  polling: napi_defer_hard_irqs 0, gro_flush_timeout 0 ns"), "{plan}");
    assert_eq!(namespace.settings(), before, "a plan changes nothing");

    let applied = namespace.steered(&["apply", "--nic", "steer0", "--cores", "1"]);
    assert!(applied.contains("steer0 tx-0 xps_cpus: none -> 0"), "{applied}");
    assert!(
        namespace.settings().contains("rx-0/rps_cpus:1") || namespace.settings().contains("rx-0/rps_cpus:0")
    );
    assert_ne!(namespace.settings(), before);
    let again = namespace.steer(&["apply", "--nic", "steer0"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("take it back first: vermeil steer undo"),
        "{}",
        text(&again.stderr)
    );

    let verified = namespace.steered(&["verify", "--time", "10ms"]);
    assert!(verified.starts_with("reads on the cpu of their packets: "), "{verified}");
    assert!(verified.contains("\nwake-ups of readers by the cpu of the reader: "), "{verified}");

    assert!(namespace.steered(&["undo"]).starts_with("restored: "));
    assert_eq!(namespace.settings(), before);
    let nothing = namespace.steer(&["undo"]);
    assert!(text(&nothing.stderr).contains("no plan is in force"), "{}", text(&nothing.stderr));
}

#[test]
fn unconfirmed_change_is_undone() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    let said = namespace.steered(&["apply", "--nic", "steer0", "--cores", "1", "--confirm", "100ms"]);
    assert!(said.contains("taken back in 100ms unless you say `vermeil steer confirm`"), "{said}");
    namespace.wait_until("the guard brings back what was", || namespace.settings() == before);

    namespace.steered(&["apply", "--nic", "steer0", "--cores", "1", "--confirm", "1h"]);
    assert_eq!(namespace.steered(&["confirm"]), "kept until undone\n");
    assert_ne!(namespace.settings(), before);
    namespace.steered(&["undo"]);
    assert_eq!(namespace.settings(), before);
}

#[test]
fn next_command_finishes_killed_one() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    namespace.steered(&["apply", "--nic", "steer0", "--cores", "1"]);
    // The state after a command was killed between two changes.
    let state = only_file(namespace.state());
    let text = fs::read_to_string(&state).unwrap();
    fs::write(&state, text.replace("\"phase\": \"applied\"", "\"phase\": \"applying\"")).unwrap();
    let said = namespace.steered(&["plan", "--nic", "steer0", "--cores", "1"]);
    assert!(said.contains("an earlier command was interrupted; the former settings are restored"), "{said}");
    assert_eq!(namespace.settings(), before);
}

#[test]
fn options_of_other_actions_are_refused() {
    let refused = |args: &[&str]| {
        let output = Command::new(VERMEIL).arg("steer").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(refused(&["--confirm", "1s"]).contains("--confirm goes with `vermeil steer apply` only"));
    let of_plans = " goes with `vermeil steer plan, apply, compare and xdp` only";
    assert!(refused(&["undo", "--nic", "steer0"]).contains(&format!("--nic{of_plans}")));
    assert!(refused(&["verify", "--cores", "1"]).contains(&format!("--cores{of_plans}")));
    assert!(refused(&["confirm", "--queues", "keep"]).contains("--queues goes with"));
    assert!(refused(&["undo", "--port", "80"]).contains("--port goes with `vermeil steer verify` only"));
    assert!(refused(&["--time", "3s"]).contains("--time goes with `vermeil steer verify and compare` only"));
    assert!(refused(&["--xdp", "native"]).contains("--xdp goes with `vermeil steer xdp and compare` only"));
    assert!(refused(&["verify", "--port", "0"]).contains("0 is not in 1..=65535"));
    assert!(
        refused(&["--nic", "no-such-card"]).contains("there is no network card \"no-such-card\"; there are")
    );
}

fn only_file(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|is| is == "json")).expect("a state file")
}
