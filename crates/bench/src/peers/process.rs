//! One server process with all processes that it starts: put into a separate group, awaited,
//! stopped.
//!
//! In every case, dropping a [`PeerProcess`] ends the whole group and waits for the leader. The
//! output of the server goes to a log file that errors name and quote.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::network::{BenchNamespace, BenchNetwork};
use crate::{BenchError, BenchResult};

/// A server that does not listen by then has failed. nginx takes more than ten seconds for 100,000
/// included files.
const START_MAX: Duration = Duration::from_secs(60);
/// A server that has not ended by then is killed.
const END_MAX: Duration = Duration::from_secs(5);
/// Between two looks at a process.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The lines of a log that an error quotes.
const QUOTE_LINES: usize = 8;

/// A running server.
#[derive(Debug)]
pub struct PeerProcess {
    name: String,
    child: Child,
    log: PathBuf,
    reaped: bool,
}

impl PeerProcess {
    /// Starts `command`, with its output going to a log in the folder `state`.
    pub fn start(name: &str, mut command: Command, state: &Path) -> BenchResult<Self> {
        let log = state.join("output.log");
        let file = File::create(&log).map_err(BenchError::path("create", &log))?;
        let twin = file.try_clone().map_err(BenchError::path("open again", &log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(twin).process_group(0);
        let child = command.spawn().map_err(BenchError::thing("start", name))?;
        Ok(Self { name: name.into(), child, log, reaped: false })
    }

    /// The process group of the server and all its processes.
    pub fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until `address` accepts connections.
    ///
    /// # Errors
    /// The server ends or does not listen in time; quotes the end of the log.
    pub fn wait_until_listening(&self, network: &BenchNetwork, address: SocketAddr) -> BenchResult<()> {
        self.wait_until_reached(address, || {
            Ok(network.from_client(|| TcpStream::connect_timeout(&address, START_MAX))?.is_ok())
        })
    }

    /// As [`wait_until_listening`](Self::wait_until_listening), for a load in a namespace.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn wait_until_listening_for(
        &self,
        client: &BenchNamespace,
        address: SocketAddr,
    ) -> BenchResult<()> {
        self.wait_until_reached(address, || {
            Ok(client.enter(|| TcpStream::connect_timeout(&address, START_MAX))?.is_ok())
        })
    }

    fn wait_until_reached(
        &self,
        address: SocketAddr,
        reached: impl Fn() -> BenchResult<bool>,
    ) -> BenchResult<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            if self.has_ended().map_err(BenchError::thing("look at", &self.name))? {
                return Err(self.failure("did not start"));
            }
            if Instant::now() >= deadline {
                return Err(self.failure(&format!("does not listen on {address} after {START_MAX:?}")));
            }
            if reached()? {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// An error about this server that reports whether the server still runs and quotes the end of
    /// the log.
    pub fn failure(&self, problem: &str) -> BenchError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let quote = lines[lines.len().saturating_sub(QUOTE_LINES)..].join("\n  ");
        let said = if quote.is_empty() { "it said nothing".into() } else { format!("it said:\n  {quote}") };
        let ended = if matches!(self.has_ended(), Ok(true)) { ", has ended" } else { "" };
        BenchError::peer(&self.name, format!("{problem}{ended}; {said}"))
    }

    /// Asks the server to end, and kills the group if the server does not end.
    ///
    /// # Errors
    /// The server had ended before.
    pub fn stop(mut self) -> BenchResult<()> {
        if self.has_ended().map_err(BenchError::thing("look at", &self.name))? {
            return Err(self.failure("did not last"));
        }
        self.end().map_err(BenchError::thing("stop", &self.name))
    }

    /// Returns whether the leader has ended. The leader stays unreaped, because then its process id
    /// cannot be reused.
    fn has_ended(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.group()), look)?.is_some())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.reaped {
            return Ok(());
        }
        if !self.has_ended()? {
            kill_process(self.group(), Signal::TERM)?;
        }
        let deadline = Instant::now() + END_MAX;
        while !self.has_ended()? && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        // Kills the rest of the group: all processes, or a worker that outlived the master.
        kill_process_group(self.group(), Signal::KILL)?;
        self.child.wait()?;
        self.reaped = true;
        Ok(())
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("warning: {} may still be running: {error}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, state: &Path) -> PeerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        PeerProcess::start("test", command, state).expect("sh starts")
    }

    #[test]
    fn a_server_that_ends_at_once_is_quoted() {
        let state = tempfile::tempdir().expect("a folder");
        let process = shell("echo no such option; exit 3", state.path());
        let address = BenchNetwork::Loopback.free_address().expect("a port");
        let error =
            process.wait_until_listening(&BenchNetwork::Loopback, address).expect_err("it ended").to_string();
        assert!(error.contains("no such option"), "{error}");
    }

    #[test]
    fn stopping_ends_the_whole_group() {
        let state = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        let file = state.path().join("pid");
        command.args(["-c", "sleep 1000 & echo $! > $0.tmp; mv $0.tmp $0; wait"]).arg(&file);
        let process = PeerProcess::start("test", command, state.path()).expect("sh starts");
        let deadline = Instant::now() + START_MAX;
        while !file.exists() {
            assert!(Instant::now() < deadline, "the shell wrote no file");
            thread::yield_now();
        }
        let worker = fs::read_to_string(&file).expect("a number");
        process.stop().expect("it was running");
        let stat = format!("/proc/{}/stat", worker.trim());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "the worker still runs");
            thread::yield_now();
        }
    }

    #[test]
    fn ending_early_is_an_error_of_the_server() {
        let state = tempfile::tempdir().expect("a folder");
        let process = shell("exit 0", state.path());
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(process.group()), ended).expect("it ends");
        assert!(process.stop().expect_err("it ended").to_string().contains("did not last, has ended"));
    }
}
