//! A network namespace with a pair of software cards, and operations in the namespace; the
//! namespace ends with its holder.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{VERMEIL, text};

/// The addresses of `steer0` and, at the other end, `steer1`.
pub(crate) const SERVER: &str = "10.78.0.1";
const CLIENT: &str = "10.78.0.2";

/// A process in a network namespace with a pair of cards of two queues each; the namespace ends
/// with the process.
pub(crate) struct Namespace {
    holder: Child,
    /// The other end of the cable, once that end is in another namespace.
    peer: Option<Child>,
    state: tempfile::TempDir,
}

impl Namespace {
    pub(crate) fn new() -> Option<Self> {
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
        std::io::BufReader::new(stdout).read_line(&mut ready).ok()?;
        let namespace = Self { holder, peer: None, state: tempfile::tempdir().ok()? };
        if ready != "ready\n" {
            eprintln!("SKIPPED: no network namespace with software cards can be made here (root, iproute2)");
            return None;
        }
        Some(namespace)
    }

    /// The same with addresses, and with `steer1` in a namespace of its own, so that `steer0`
    /// receives all traffic from there.
    pub(crate) fn with_peer() -> Option<Self> {
        let mut namespace = Self::new()?;
        let mut peer = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready && exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        std::io::BufReader::new(peer.stdout.take()?).read_line(&mut String::new()).ok()?;
        let number = peer.id();
        namespace.peer = Some(peer);
        namespace.shell(&format!("ip link set steer1 netns {number} && ip addr add {SERVER}/24 dev steer0"));
        let there = format!("ip addr add {CLIENT}/24 dev steer1 && ip link set steer1 up");
        assert!(namespace.peer_command("sh").args(["-c", &there]).status().expect("nsenter runs").success());
        Some(namespace)
    }

    /// The folder of the previous settings.
    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(["--net", "--mount", program]);
        command
    }

    /// A command at the other end.
    pub(crate) fn peer_command(&self, program: &str) -> Command {
        let peer = self.peer.as_ref().expect("made with one");
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", peer.id())).args(["--net", program]);
        command
    }

    /// The output of a shell line, which must succeed.
    pub(crate) fn shell(&self, line: &str) -> String {
        let output = self.command("sh").args(["-c", line]).output().expect("nsenter runs");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn steer(&self, args: &[&str]) -> Output {
        let mut command = self.command(VERMEIL);
        command.args(["steer", "--state"]).arg(self.state.path()).args(args);
        command.output().expect("nsenter runs")
    }

    /// The text of a command that must end well.
    pub(crate) fn says(&self, args: &[&str]) -> String {
        let output = self.steer(args);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{error}");
        out + &error
    }

    /// The steering of `steer0`, a line for each file.
    pub(crate) fn settings(&self) -> String {
        let script = "cd /sys/class/net/steer0/queues && grep . */rps_cpus */xps_cpus */rps_flow_cnt";
        self.shell(script)
    }

    pub(crate) fn wait_until(&self, what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "{what}: {}", self.settings());
            std::thread::yield_now();
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        for process in self.peer.iter_mut().chain([&mut self.holder]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
