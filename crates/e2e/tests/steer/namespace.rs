//! A network namespace with a pair of software cards (veth), and commands in the namespace.
//!
//! The server runs at the card `steer0`. The load runs at the card `steer1`, which can be in a
//! namespace of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{VERMEIL, text};

/// The address of `steer0`.
pub(crate) const SERVER: &str = "10.78.0.1";
/// The address of `steer1`.
const CLIENT: &str = "10.78.0.2";

/// How long a test waits for a condition. The limit is far above the usual time, because test
/// machines are busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// Mounts the sysfs of the namespace, and makes the cards with two queues each.
const MAKE_CARDS: &str = "mount -t sysfs sysfs /sys && \
    ip link add steer0 numtxqueues 2 numrxqueues 2 type veth peer name steer1 numtxqueues 2 numrxqueues 2 && \
    ip link set steer0 up && ip link set steer1 up";

/// A network namespace with a pair of cards.
pub(crate) struct Namespace {
    holder: NamespaceHolder,
    /// Holds the namespace of `steer1`, if `steer1` is in another namespace.
    peer: Option<NamespaceHolder>,
    state: tempfile::TempDir,
}

/// A process in new namespaces, which end with the process. A drop kills the process.
struct NamespaceHolder {
    process: Child,
    /// The kinds of the namespaces: options of unshare(1) and nsenter(1).
    kinds: &'static [&'static str],
}

impl NamespaceHolder {
    /// Starts the process, and waits until the shell line `setup` has succeeded there. Returns
    /// `None` and reports a skip if this machine refuses.
    fn start(kinds: &'static [&'static str], setup: &str) -> Option<Self> {
        let script = format!("{setup} && echo ready && exec sleep 600");
        let mut command = Command::new("unshare");
        command.args(kinds).args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let holder = command.spawn().ok().map(|process| Self { process, kinds });
        let ready = holder.and_then(Self::once_ready);
        if ready.is_none() {
            eprintln!("SKIPPED: no network namespace with software cards can be made here (root, iproute2)");
        }
        ready
    }

    /// This holder, once its process has reported that the setup is done.
    fn once_ready(mut self) -> Option<Self> {
        let mut line = String::new();
        BufReader::new(self.process.stdout.take()?).read_line(&mut line).ok()?;
        (line == "ready\n").then_some(self)
    }

    /// A command in the namespaces.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.process.id())).args(self.kinds).arg(program);
        command
    }

    /// Runs a shell line, which must succeed, and returns the output.
    fn shell(&self, line: &str) -> String {
        let output = self.command("sh").args(["-c", line]).output().expect("nsenter runs");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Namespace {
    /// A namespace with both cards, without addresses. Returns `None` and reports a skip if this
    /// machine refuses.
    pub(crate) fn new() -> Option<Self> {
        let holder = NamespaceHolder::start(&["--net", "--mount"], MAKE_CARDS)?;
        Some(Self { holder, peer: None, state: tempfile::tempdir().expect("a temporary folder") })
    }

    /// As [`new`](Self::new), with addresses, and with `steer1` in another namespace, so that
    /// `steer0` receives all traffic from there.
    pub(crate) fn with_peer() -> Option<Self> {
        let namespace = Self::new()?;
        let peer = NamespaceHolder::start(&["--net"], "true")?;
        let pid = peer.process.id();
        namespace.shell(&format!("ip link set steer1 netns {pid} && ip addr add {SERVER}/24 dev steer0"));
        peer.shell(&format!("ip addr add {CLIENT}/24 dev steer1 && ip link set steer1 up"));
        Some(Self { peer: Some(peer), ..namespace })
    }

    /// The folder in which `vermeil steer` keeps the previous settings.
    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    /// A command in the namespace of `steer0`.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.holder.command(program)
    }

    /// A command in the namespace of `steer1`.
    pub(crate) fn peer_command(&self, program: &str) -> Command {
        self.peer.as_ref().expect("made by `with_peer`").command(program)
    }

    /// Runs a shell line in the namespace of `steer0`. The line must succeed. Returns the output.
    pub(crate) fn shell(&self, line: &str) -> String {
        self.holder.shell(line)
    }

    /// Runs `vermeil steer`.
    pub(crate) fn steer(&self, args: &[&str]) -> Output {
        let mut command = self.command(VERMEIL);
        command.args(["steer", "--state"]).arg(self.state.path()).args(args);
        command.output().expect("nsenter runs")
    }

    /// Runs `vermeil steer`, which must succeed, and returns the output with the errors.
    pub(crate) fn steered(&self, args: &[&str]) -> String {
        let output = self.steer(args);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{error}");
        out + &error
    }

    /// The packet steering of `steer0`, a line for each file.
    pub(crate) fn settings(&self) -> String {
        let script = "cd /sys/class/net/steer0/queues && grep . */rps_cpus */xps_cpus */rps_flow_cnt";
        self.shell(script)
    }

    pub(crate) fn wait_until(&self, condition: &str, is_met: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_met() {
            assert!(Instant::now() < deadline, "waited in vain until {condition}: {}", self.settings());
            std::thread::yield_now();
        }
    }
}
