//! A server and a load in the namespaces, and processes that report when they are ready.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::VERMEIL;
use super::namespace::{Namespace, SERVER};

/// A process that reports when it is ready; killed when dropped.
pub(crate) struct TrafficProcess {
    pub(crate) child: Child,
    pub(crate) stderr: BufReader<ChildStderr>,
    pub(crate) ready: String,
}

impl TrafficProcess {
    /// Starts `command` and waits for a line with `ready`; the error is the output if the process
    /// ends before.
    pub(crate) fn start(command: &mut Command, ready: &str) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nsenter runs");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut running = Self { child, stderr, ready: String::new() };
        running.ready = running.line_with(ready)?;
        Ok(running)
    }

    /// Waits for a line with `words`; the error is the output if the process ends before.
    pub(crate) fn line_with(&mut self, words: &str) -> Result<String, String> {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.stderr.read_line(&mut line).expect("text") == 0 {
                self.child.wait().expect("ours");
                return Err(said);
            }
            if line.contains(words) {
                return Ok(line);
            }
            said += &line;
        }
    }

    /// Sends a signal and returns the output.
    pub(crate) fn end(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().expect("piped"), &mut printed)
            .expect("text");
        self.child.wait().expect("ours");
        printed
    }
}

impl Drop for TrafficProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Namespace {
    /// A server on `cpu`, and its URL.
    pub(crate) fn serve(&self, cpu: &str, args: &[&str]) -> (TrafficProcess, String) {
        let mut command = self.command(VERMEIL);
        let listen = format!("{SERVER}:0");
        command
            .args(["serve", "--cores", cpu, "--log", "off", "--listen", &listen])
            .args(args)
            .arg(self.state());
        let server = TrafficProcess::start(&mut command, "http://").expect("it serves");
        let at = server.ready.find("http://").expect("it is there");
        let url = server.ready[at..].split_whitespace().next().expect("a URL").to_owned();
        (server, url)
    }

    pub(crate) fn load(&self, url: &str, args: &[&str]) -> Command {
        let mut command = self.peer_command(VERMEIL);
        command.args(["load", url, "-c", "4", "--json", "-"]).args(args).stdout(Stdio::piped());
        command
    }
}

/// The first and the last cpu that a test may use, as lists: a number alone is how many.
pub(crate) fn cpus() -> [String; 2] {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let cpu = |part: Option<&str>| part.expect("a cpu").trim().to_owned();
    let ends = [cpu(list.split([',', '-']).next()), cpu(list.split([',', '-']).next_back())];
    ends.map(|cpu| format!("{cpu}-{cpu}"))
}

/// The cpu of such a list.
pub(crate) fn number(list: &str) -> &str {
    list.split('-').next().expect("a part")
}
