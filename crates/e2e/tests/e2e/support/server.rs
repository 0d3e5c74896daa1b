//! The binary as a process: started on a free port, listened to, stopped, and killed when a test
//! fails.

use super::{PATIENCE, TestClient, TestSite, until, until_or};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

/// An I/O driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    Epoll,
    Uring,
}

impl Io {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Uring => "uring",
        }
    }

    /// The driver that `serve` chooses on this machine.
    pub(crate) fn usual() -> Self {
        if Self::uring_refusal().is_none() { Self::Uring } else { Self::Epoll }
    }

    /// Runs `test`, or reports that this machine refuses io_uring.
    pub(crate) fn if_there(self, test: impl FnOnce(Self)) {
        match Self::uring_refusal() {
            None => test(self),
            Some(why) => eprintln!("SKIPPED: this machine refuses {}: {why}", self.name()),
        }
    }

    /// The reason why this machine refuses io_uring, if there is a refusal.
    fn uring_refusal() -> Option<&'static str> {
        static REFUSED: OnceLock<Option<String>> = OnceLock::new();
        let refused = REFUSED.get_or_init(|| {
            let site = TestSite::new();
            let process = TestProcess::spawn(command(Self::Uring, &site, &[]));
            let mut refused = None;
            until("it serves or ends", || {
                let ended = process.has_ended();
                refused = ended.then(|| process.stderr());
                (ended || process.stderr().contains("\nvermeil: cores:")).then_some(())
            });
            refused
        });
        refused.as_deref()
    }
}

/// The binary with arguments.
pub(crate) fn vermeil(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vermeil-tested"));
    command.args(args);
    command
}

fn command(io: Io, site: &TestSite, args: &[&str]) -> Command {
    let mut command = vermeil(&["serve", "--listen", "127.0.0.1:0", "--io", io.name()]);
    if !args.contains(&"--log") {
        command.args(["--log", "off"]);
    }
    command.args(args).arg(site.root());
    command
}

/// A process whose words are collected.
pub(crate) struct TestProcess {
    child: Mutex<Child>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl TestProcess {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::spawn_with_input(command)
    }

    /// Like [`spawn`](Self::spawn), with the standard input of `command`.
    pub(crate) fn spawn_with_input(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        Self { child: Mutex::new(child), stdout, stderr }
    }

    fn child<R>(&self, f: impl FnOnce(&mut Child) -> R) -> R {
        f(&mut self.child.lock().expect("no panic under this lock"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child(|child| child.id())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process has a number above zero");
        kill_process(pid, signal).expect("our own child");
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.child(|child| child.try_wait().expect("our own child").is_some())
    }

    /// Waits for the end of the process; returns its exit code.
    #[track_caller]
    pub(crate) fn wait(&self) -> Option<i32> {
        let poll = || self.child(|child| child.try_wait().expect("our own child"));
        until_or(poll, || format!("the process ends, which said: {}{}", self.stderr(), self.threads())).code()
    }

    /// The process's threads: names, states, and the wait channel in the kernel where the test may
    /// read the channel.
    fn threads(&self) -> String {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let of = |thread: fs::DirEntry| {
            let file = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let status = file("status");
            let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
            format!("{}: {state}\n{}", file("comm").trim_end(), file("stack"))
        };
        threads.map(of).collect()
    }

    /// The output on standard error.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no panic under this lock")).into_owned()
    }

    /// The output on standard output.
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().expect("no panic under this lock")).into_owned()
    }
}

fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let into = collected.clone();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            into.lock().expect("no panic under this lock").append(&mut line);
        }
    });
    collected
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.child(|child| {
            let _ = child.kill();
            let _: Result<ExitStatus, _> = child.wait();
        });
    }
}

/// A server that serves.
pub(crate) struct TestServer {
    process: TestProcess,
    addr: SocketAddr,
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server at {}, which said: {}", self.addr, self.process.stderr())
    }
}

impl std::ops::Deref for TestServer {
    type Target = TestProcess;

    fn deref(&self) -> &TestProcess {
        &self.process
    }
}

impl TestServer {
    /// Serves `site`, with no access log unless `args` ask for one.
    #[track_caller]
    pub(crate) fn start(io: Io, site: &TestSite, args: &[&str]) -> Self {
        Self::run(command(io, site, args))
    }

    /// As [`start`](Self::start), under another program, given with its arguments.
    #[track_caller]
    pub(crate) fn start_under(wrapper: &[&str], io: Io, site: &TestSite, args: &[&str]) -> Self {
        let inner = command(io, site, args);
        let mut outer = Command::new(wrapper[0]);
        outer.args(&wrapper[1..]).arg(inner.get_program()).args(inner.get_args());
        Self::run(outer)
    }

    /// Serves the configuration beside `site`: `text`, after the driver and a free address.
    #[track_caller]
    pub(crate) fn configured(io: Io, site: &TestSite, text: &str) -> Self {
        Self::of_file(&site.configure(io, text))
    }

    /// Serves a configuration file.
    #[track_caller]
    pub(crate) fn of_file(file: &Path) -> Self {
        Self::of_file_with(file, &[])
    }

    /// As [`of_file`](Self::of_file), with more arguments.
    #[track_caller]
    pub(crate) fn of_file_with(file: &Path, args: &[&str]) -> Self {
        let mut command = vermeil(&["serve", "--config", file.to_str().expect("UTF-8")]);
        command.args(args);
        Self::run(command)
    }

    /// As [`of_file_with`](Self::of_file_with), under another program, given with its arguments.
    #[track_caller]
    pub(crate) fn of_file_under(wrapper: &[&str], file: &Path, args: &[&str]) -> Self {
        let mut outer = Command::new(wrapper[0]);
        outer.args(&wrapper[1..]).arg(env!("CARGO_BIN_EXE_vermeil-tested"));
        outer.args(["serve", "--config", file.to_str().expect("UTF-8")]).args(args);
        Self::run(outer)
    }

    #[track_caller]
    fn run(command: Command) -> Self {
        let process = TestProcess::spawn(command);
        let addr = until("the server says where it serves", || {
            let said = process.stderr();
            assert!(!process.has_ended(), "the server ended: {said}");
            let ready = said.contains("\nvermeil: cores:");
            let (_, rest) = said.split_once(" at http://").filter(|_| ready)?;
            let addr = rest.split(['/', '\n']).next()?;
            Some(addr.parse().unwrap_or_else(|error| panic!("{addr:?}: {error}")))
        });
        Self { process, addr }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn client(&self) -> TestClient {
        TestClient::connect(self.addr)
    }

    /// A client with a small receive buffer.
    pub(crate) fn narrow_client(&self) -> TestClient {
        TestClient::connect_narrow(self.addr)
    }

    /// A request on a connection of its own.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> super::Response {
        self.client().get(target)
    }

    /// Waits until standard error has `words`.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !self.stderr().contains(words) {
            assert!(std::time::Instant::now() < deadline, "{words:?} is not in: {}", self.stderr());
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }

    /// Asks the server to stop; returns its exit code.
    #[track_caller]
    pub(crate) fn stop(&self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Asks the server to stop and checks that the server has no complaint.
    #[track_caller]
    pub(crate) fn stops_clean(&self) {
        let code = self.stop();
        assert_eq!(code, Some(0), "{self:?}");
        // The server's last message: after that line, all other lines can be read.
        self.says("vermeil: stopped: ");
        assert!(!self.stderr().contains("panicked"), "{self:?}");
    }
}
