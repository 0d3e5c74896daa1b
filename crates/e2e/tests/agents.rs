//! `vermeil load agent` in practice: agents with network stacks of their own, a coordinator, and a
//! server that sees the address of each client.
//!
//! Each agent has a network namespace, joined to the server's namespace by a pair of virtual cards.
//! The names of the namespaces have this process's id, and the test removes the namespaces. Without
//! the right to make namespaces the tests report a skip and pass. `vermeil-load` tests the counts
//! on one stack.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Agents of a test, and the addresses of all, from the block reserved for tests of network devices
/// (RFC 2544).
const AGENTS: usize = 3;
const SERVER: &str = "198.18.7.1";
/// Longest wait for an event that happens by itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address of an agent.
fn agent(place: usize) -> String {
    format!("198.18.8.{}", 4 * place + 2)
}

/// The server's address on the pair of cards that leads to an agent.
fn near(place: usize) -> String {
    format!("198.18.8.{}", 4 * place + 1)
}

/// Namespaces, each joined to the first; removed when dropped.
struct TestNetwork {
    names: Vec<String>,
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl TestNetwork {
    /// The server's namespace, and one for each agent.
    fn new() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("vml{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let network = Self { names: (0..=AGENTS).map(|place| format!("{mark}-{place}")).collect() };
        let server = &network.names[0];
        let alone = || {
            ip(&format!("netns add {server}"))
                && ip(&format!("-n {server} link set lo up"))
                && ip(&format!("-n {server} addr add {SERVER}/32 dev lo"))
        };
        let join = |place: usize| {
            let (name, near, far) = (&network.names[place], near(place), agent(place));
            ip(&format!("netns add {name}"))
                && ip(&format!("-n {name} link set lo up"))
                && ip(&format!("-n {server} link add a{place} type veth peer name eth netns {name}"))
                && ip(&format!("-n {server} addr add {near}/30 dev a{place}"))
                && ip(&format!("-n {server} link set a{place} up"))
                && ip(&format!("-n {name} addr add {far}/30 dev eth"))
                && ip(&format!("-n {name} link set eth up"))
                && ip(&format!("-n {name} route add default via {near}"))
        };
        if alone() && (1..=AGENTS).all(join) {
            return Some(network);
        }
        eprintln!("SKIPPED: no right to make network namespaces here");
        None
    }

    /// `vermeil`, to be run in a namespace: 0 is the server's.
    fn vermeil(&self, place: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[place], env!("CARGO_BIN_EXE_vermeil-tested")]);
        command.args(words).stdin(Stdio::null());
        command
    }

    /// A command that runs until dropped. The function returns once the command has printed
    /// `ready`.
    fn start(&self, place: usize, words: &[&str], ready: &str) -> AgentProcess {
        let mut child = self.vermeil(place, words).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (mut said, mut line) = (String::new(), String::new());
        while !line.contains(ready) {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended: {said}");
            said += &line;
        }
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        AgentProcess(child)
    }

    fn agents(&self) -> Vec<AgentProcess> {
        let start = |place: usize| {
            let listen = format!("{}:8088", agent(place));
            self.start(place, &["load", "agent", "--listen", &listen, "--cores", "1"], "load agent at")
        };
        (1..=AGENTS).map(start).collect()
    }

    /// A server of `root` that writes `log`.
    fn server(&self, root: &Path, log: &Path) -> AgentProcess {
        let (root, log) = (root.to_str().expect("text"), log.to_str().expect("text"));
        let listen = format!("{SERVER}:80");
        self.start(0, &["serve", "--listen", &listen, "--log", log, root], "http://")
    }

    /// Loads the server with all agents.
    fn load(&self, words: &[&str]) -> Child {
        let url = format!("http://{SERVER}/page");
        let agents: Vec<_> = (1..=AGENTS).map(|place| format!("{}:8088", agent(place))).collect();
        let agents = agents.join(",");
        let words = [&["load", &url, "--agents", &agents, "--json", "-"], words].concat();
        let mut command = self.vermeil(0, &words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// A process, killed when dropped. `ip netns exec` executes its program, so the process is the
/// program itself.
struct AgentProcess(Child);

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn record(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Requests by address.
fn asked(log: &Path) -> HashMap<String, u64> {
    let mut asked = HashMap::new();
    for line in fs::read_to_string(log).unwrap_or_default().lines() {
        let from = line.split(' ').next().unwrap_or_default().to_owned();
        *asked.entry(from).or_insert(0) += 1;
    }
    asked
}

/// Waits until `is_enough` holds for the log.
fn wait_for(log: &Path, is_enough: impl Fn(&HashMap<String, u64>) -> bool) -> HashMap<String, u64> {
    let began = Instant::now();
    loop {
        let asked = asked(log);
        if is_enough(&asked) {
            return asked;
        }
        assert!(began.elapsed() < PATIENCE, "{asked:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_agent_makes_its_part() {
    let Some(network) = TestNetwork::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), "content").unwrap();
    let log = folder.path().join("log");
    let _server = network.server(folder.path(), &log);
    let _agents = network.agents();
    let output = network.load(&["-n", "300", "-c", "6"]).wait_with_output().expect("it ends");
    let record = record(&output);
    assert_eq!((record["good"].as_u64(), record["users"].as_u64()), (Some(300), Some(6)), "{record}");
    let asked = wait_for(&log, |asked| asked.values().sum::<u64>() == 300);
    for place in 1..=AGENTS {
        assert_eq!(asked.get(&agent(place)), Some(&100), "{asked:?}");
    }
}

#[test]
fn an_agent_that_dies_makes_the_run_invalid_and_its_counts_are_kept() {
    let Some(network) = TestNetwork::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), "content").unwrap();
    let log = folder.path().join("log");
    let _server = network.server(folder.path(), &log);
    let mut agents = network.agents();
    // Users think, so that a part takes 5 s at least: time enough to see the run begin.
    let load = network.load(&["-n", "3000", "-c", "6", "--think", "10ms"]);
    wait_for(&log, |asked| asked.contains_key(&agent(AGENTS)));
    drop(agents.pop());
    let output = load.wait_with_output().expect("it ends");
    let record = record(&output);
    let good = record["good"].as_u64().expect("a number");
    assert!((2000..3000).contains(&good), "{good}");
    assert_eq!((record["valid"].as_bool(), output.status.code()), (Some(false), Some(5)));
    let said = record["doubts"].to_string();
    assert!(
        said.contains("an agent was lost") && said.contains(&format!("{}:8088", agent(AGENTS))),
        "{said}"
    );
}

#[test]
fn agents_that_are_not_there_are_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_vermeil-tested"))
        .args(["load", "http://127.0.0.1:1/", "--agents", "127.0.0.1:1", "--agents-wait", "1ms"])
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr.contains("agent 127.0.0.1:1") && stderr.contains("vermeil load agent"), "{stderr}");
}
