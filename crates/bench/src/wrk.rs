//! The load: wrk, a closed loop over keep-alive connections from one thread, pinned to the client's
//! cpu.
//!
//! wrk counts whole seconds only. For this reason the bench asks for more time than needed and
//! stops wrk with SIGINT, and wrk then reports its results so far. A small script makes wrk report
//! its beginning, because the start takes a while on a busy machine, and print the numbers as JSON.
//! The latencies are from sending a request to the end of the response. Note that a closed loop
//! says nothing about the waiting times of an open loop.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::network::BenchNetwork;
use crate::probe::ProbeTarget;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The start of the script's line.
const MARK: &str = "vermeil-bench ";
/// The script's output when wrk is about to connect.
const BEGINS: &str = "vermeil-bench begins";
const SCRIPT: &str = r#"
setup = function(thread)
  io.stderr:write("vermeil-bench begins\n")
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('vermeil-bench {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,' ..
    '"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n', summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99), e.connect, e.read, e.write, e.timeout, e.status))
end
"#;

/// How often the bench looks whether wrk has ended by itself.
const LOOK: Duration = Duration::from_millis(20);
/// The least duration of a second run, after a first one without any response.
const AGAIN_DURATION: Duration = Duration::from_secs(2);

/// How much load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrkLoad {
    /// Connections kept open, one request in flight on each.
    pub connections: usize,
    /// How long at most; tenths of a second count. A script may stop wrk before.
    pub duration: Duration,
}

/// wrk's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct WrkOutcome {
    /// Responses received whole.
    pub requests: u64,
    /// From the first connection to the end, in microseconds.
    pub duration_us: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Median latency in microseconds.
    pub p50_us: u64,
    /// 99th percentile of latency in microseconds.
    pub p99_us: u64,
    connect: u64,
    read: u64,
    write: u64,
    timeout: u64,
    /// Responses with a status of 400 and above.
    status: u64,
}

impl WrkOutcome {
    /// Responses per second.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / (self.duration_us as f64 / 1e6)
    }

    /// Failed requests: statuses of 400 and above, broken connections, and answers that took longer
    /// than wrk's time-out (2 s), counted at each check.
    pub fn failures(&self) -> u64 {
        self.status + self.socket_errors()
    }

    /// Whether wrk saw neither a response nor an error.
    fn is_empty(&self) -> bool {
        self.requests == 0 && self.socket_errors() == 0
    }

    fn socket_errors(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout
    }

    /// The reason why this outcome is useless, given the expected status of every response.
    pub fn problem(&self, expected_status: u16) -> Option<String> {
        let expected_errors = if expected_status >= 400 { self.requests } else { 0 };
        if self.requests == 0 {
            Some("no response at all".into())
        } else if self.socket_errors() > 0 {
            let Self { connect, read, write, timeout, .. } = self;
            Some(format!(
                "errors on connections: connect {connect}, read {read}, write {write}, timeout {timeout}"
            ))
        } else if self.status != expected_errors {
            Some(format!("{} of {} responses with status 400 and above", self.status, self.requests))
        } else {
            None
        }
    }
}

/// wrk with its script, ready to run.
#[derive(Clone, Debug)]
pub struct Wrk {
    script: PathBuf,
    cpu: usize,
}

impl Wrk {
    /// Puts the script into `folder`; wrk will run on `cpu`.
    pub fn new(folder: &Path, cpu: usize) -> BenchResult<Self> {
        Self::with_requests(folder, cpu, "")
    }

    /// As [`new`](Self::new), with the Lua functions `requests` that make the requests.
    pub fn with_requests(folder: &Path, cpu: usize, requests: &str) -> BenchResult<Self> {
        let script = folder.join("wrk.lua");
        let text = format!("{SCRIPT}{requests}");
        fs::write(&script, text).map_err(BenchError::path("write", &script))?;
        Ok(Self { script, cpu })
    }

    /// Loads the server at `address` and waits for the result. On a busy machine a run of
    /// milliseconds can end before wrk was on a cpu. So a run without any response is done again,
    /// for at least two seconds.
    ///
    /// # Errors
    /// wrk cannot be run or reports nothing, or the run was interrupted. In every case wrk has
    /// ended.
    pub fn run(
        &self,
        network: &BenchNetwork,
        address: SocketAddr,
        target: &ProbeTarget,
        load: WrkLoad,
        stop: &StopFlag,
    ) -> BenchResult<WrkOutcome> {
        let outcome = self.run_once(network, address, target, load, stop)?;
        if !outcome.is_empty() {
            return Ok(outcome);
        }
        let longer = WrkLoad { duration: load.duration.max(AGAIN_DURATION), ..load };
        self.run_once(network, address, target, longer, stop)
    }

    fn run_once(
        &self,
        network: &BenchNetwork,
        address: SocketAddr,
        target: &ProbeTarget,
        load: WrkLoad,
        stop: &StopFlag,
    ) -> BenchResult<WrkOutcome> {
        let seconds_max = load.duration.as_secs() + 60;
        let mut command = network.client_command("wrk", self.cpu);
        command.args(["--threads", "1", "--latency"]);
        command.args([
            "--connections",
            &load.connections.to_string(),
            "--duration",
            &format!("{seconds_max}s"),
        ]);
        command.arg("--script").arg(&self.script);
        if let Some(tag) = &target.if_none_match {
            command.arg("--header").arg(format!("If-None-Match: {tag}"));
        }
        if let Some(host) = &target.host {
            command.arg("--header").arg(format!("Host: {host}"));
        }
        command.arg(format!("http://{address}{}", target.path));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::thing("run", "wrk"))?;
        let before = wait_until_begun(&mut child);
        let passed = pass(&mut child, load.duration, stop);
        let output = interrupt(child)?;
        passed?;
        let said = String::from_utf8_lossy(&output.stdout);
        parse(&said).ok_or_else(|| BenchError::Command {
            command: format!("{command:?}"),
            output: format!("{}: {said}{before}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        })
    }
}

/// Waits until wrk reports its beginning, or ends without the report. The output until then is the
/// reason for a failure.
fn wait_until_begun(child: &mut Child) -> String {
    let mut said = String::new();
    if let Some(errors) = &mut child.stderr {
        let mut errors = BufReader::new(errors);
        // At the end of the output, or after a read error, waiting longer would not help.
        while !said.contains(BEGINS) && errors.read_line(&mut said).is_ok_and(|bytes| bytes > 0) {}
    }
    said
}

/// Waits for `duration`, or until wrk has ended by itself.
fn pass(child: &mut Child, duration: Duration, stop: &StopFlag) -> BenchResult<()> {
    let end = Instant::now() + duration;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let has_ended = child.try_wait().map_err(BenchError::thing("wait for", "wrk"))?.is_some();
        if has_ended || left.is_zero() {
            return Ok(());
        }
        stop.pass(left.min(LOOK))?;
    }
}

fn interrupt(mut child: Child) -> BenchResult<std::process::Output> {
    // While the child is not waited for, the id is this child's.
    if child.try_wait().map_err(BenchError::thing("wait for", "wrk"))?.is_none() {
        let _ended_already = kill_process(Pid::from_child(&child), Signal::INT);
    }
    child.wait_with_output().map_err(BenchError::thing("wait for", "wrk"))
}

fn parse(said: &str) -> Option<WrkOutcome> {
    let line = said.lines().find_map(|line| line.strip_prefix(MARK))?;
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = concat!(
        "Running 61s test @ http://127.0.0.1:1/\n",
        r#"vermeil-bench {"requests":200,"duration_us":2000000,"bytes":9,"p50_us":3,"p99_us":4,"#,
        r#""connect":0,"read":0,"write":0,"timeout":0,"status":0}"#,
        "\n"
    );

    #[test]
    fn numbers_are_found_among_the_words() {
        let outcome = parse(SAID).expect("the script's line");
        assert_eq!((outcome.requests, outcome.p50_us, outcome.p99_us), (200, 3, 4));
        assert_eq!(outcome.per_second(), 100.0);
        assert_eq!(outcome.problem(200), None);
        assert_eq!(parse("unable to connect"), None);
    }

    #[test]
    fn every_response_of_a_missing_path_must_be_an_error() {
        let mut outcome = parse(SAID).expect("the script's line");
        assert!(outcome.problem(404).is_some());
        outcome.status = 200;
        assert_eq!(outcome.problem(404), None);
        assert!(outcome.problem(200).is_some());
    }

    #[test]
    fn a_lost_connection_or_no_response_spoils_the_run() {
        let mut outcome = parse(SAID).expect("the script's line");
        outcome.read = 1;
        assert!(outcome.problem(200).is_some());
        outcome.read = 0;
        outcome.requests = 0;
        assert!(outcome.problem(200).is_some());
    }

    #[test]
    fn every_failed_answer_is_counted() {
        let mut outcome = parse(SAID).expect("the script's line");
        assert_eq!(outcome.failures(), 0);
        (outcome.status, outcome.timeout) = (3, 2);
        assert_eq!(outcome.failures(), 5);
    }
}
