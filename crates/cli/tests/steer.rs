//! `vermeil steer` on software cards in a network namespace of its own: what is applied is there, what is undone is what
//! was, to the byte, also when nobody confirms and when the process that should see to that is killed.
//!
//! Needs root and `ip`; says so and passes without. This machine's own cards are never touched.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const VERMEIL: &str = env!("CARGO_BIN_EXE_vermeil");

/// A process in a network namespace with a pair of cards of two queues each; the namespace goes with it.
struct Namespace {
    holder: Child,
    state: tempfile::TempDir,
}

impl Namespace {
    fn new() -> Option<Self> {
        let script = "mount -t sysfs sysfs /sys && \
            ip link add steer0 numtxqueues 2 numrxqueues 2 type veth peer name steer1 numtxqueues 2 numrxqueues 2 && \
            ip link set steer0 up && ip link set steer1 up && echo ready && exec sleep 600";
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut ready = String::new();
        let stdout = holder.stdout.take()?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut ready).ok()?;
        let namespace = Self { holder, state: tempfile::tempdir().ok()? };
        if ready != "ready\n" {
            eprintln!("SKIPPED: no network namespace with software cards can be made here (root, iproute2)");
            return None;
        }
        Some(namespace)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(["--net", "--mount", program]);
        command
    }

    fn steer(&self, args: &[&str]) -> Output {
        let mut command = self.command(VERMEIL);
        command.args(["steer", "--state"]).arg(self.state.path()).args(args);
        command.output().expect("nsenter runs")
    }

    /// The text of a command that must end well.
    fn says(&self, args: &[&str]) -> String {
        let output = self.steer(args);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{error}");
        out + &error
    }

    /// The steering of `steer0`, a line for each file.
    fn settings(&self) -> String {
        let script = "cd /sys/class/net/steer0/queues && grep . */rps_cpus */xps_cpus */rps_flow_cnt";
        let output = self.command("sh").args(["-c", script]).output().expect("nsenter runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn wait_until(&self, what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "{what}: {}", self.settings());
            std::thread::yield_now();
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn apply_and_undo_are_exact() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    let plan = namespace.says(&["--nic", "steer0", "--cores", "1"]);
    assert!(
        plan.contains("steer0 (veth): made by software") && plan.contains("steer0 rx-0 rps_cpus: none -> 0"),
        "{plan}"
    );
    assert_eq!(namespace.settings(), before, "a plan changes nothing");

    let applied = namespace.says(&["apply", "--nic", "steer0", "--cores", "1"]);
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

    let verified = namespace.says(&["verify", "--time", "10ms"]);
    assert!(verified.starts_with("reads on the cpu of their packets: "), "{verified}");

    assert!(namespace.says(&["undo"]).starts_with("restored: "));
    assert_eq!(namespace.settings(), before);
    let nothing = namespace.steer(&["undo"]);
    assert!(text(&nothing.stderr).contains("no plan is in force"), "{}", text(&nothing.stderr));
}

#[test]
fn what_nobody_confirms_is_taken_back() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    let said = namespace.says(&["apply", "--nic", "steer0", "--cores", "1", "--confirm", "100ms"]);
    assert!(said.contains("taken back in 100ms unless you say `vermeil steer confirm`"), "{said}");
    namespace.wait_until("the guard brings back what was", || namespace.settings() == before);

    namespace.says(&["apply", "--nic", "steer0", "--cores", "1", "--confirm", "1h"]);
    assert_eq!(namespace.says(&["confirm"]), "kept until undone\n");
    assert_ne!(namespace.settings(), before);
    namespace.says(&["undo"]);
    assert_eq!(namespace.settings(), before);
}

#[test]
fn whoever_was_killed_the_next_command_finishes() {
    let Some(namespace) = Namespace::new() else { return };
    let before = namespace.settings();
    namespace.says(&["apply", "--nic", "steer0", "--cores", "1"]);
    // As a command leaves it that was killed between two changes.
    let state = only_file(namespace.state.path());
    let text = fs::read_to_string(&state).unwrap();
    fs::write(&state, text.replace("\"phase\": \"applied\"", "\"phase\": \"applying\"")).unwrap();
    let said = namespace.says(&["plan", "--nic", "steer0", "--cores", "1"]);
    assert!(said.contains("an earlier command was interrupted; what was is back"), "{said}");
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
    assert!(refused(&["undo", "--port", "80"]).contains("--port goes with `vermeil steer verify` only"));
    assert!(
        refused(&["--nic", "no-such-card"]).contains("there is no network card \"no-such-card\"; there are")
    );
}

fn only_file(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|is| is == "json")).expect("a state file")
}
