//! An XDP program spreads packets in front of the network stack: all packets arrive, on the chosen
//! cpus. The program ends with its process, also when the process is killed.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::namespace::{Namespace, SERVER};
use super::traffic::{TrafficProcess, cpus, number};
use super::{VERMEIL, text};

impl Namespace {
    fn classify(&self, args: &[&str]) -> Result<TrafficProcess, String> {
        let mut command = self.command(VERMEIL);
        command.args(["steer", "xdp", "--nic", "steer0", "--state"]).arg(self.state()).args(args);
        TrafficProcess::start(&mut command, "hands each flow")
    }

    fn has_program(&self) -> bool {
        self.shell("ip -o link show steer0").contains("xdp")
    }
}

fn all_good(output: &std::process::Output) {
    let record: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("a record");
    assert_eq!((record["good"].as_u64(), record["failed"].as_u64()), (Some(400), Some(0)), "{record}");
}

#[test]
fn flows_are_handled_on_the_chosen_cpu_until_the_process_is_gone() {
    let Some(namespace) = Namespace::with_peer() else { return };
    let [first, last] = cpus();
    let (_server, url) = namespace.serve(&last, &[]);
    let port = url.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let mut own_wakes = Vec::new();
    for cpu in [&last, &first] {
        let classifier = match namespace.classify(&["--cores", cpu]) {
            Ok(classifier) => classifier,
            Err(said) => return eprintln!("SKIPPED: no XDP here: {said}"),
        };
        assert!(classifier.ready.contains("steer0 (veth): XDP, generic"), "{}", classifier.ready);
        assert!(namespace.has_program());
        let mut load = namespace.load(&url, &["-d", "30s"]).stderr(Stdio::null()).spawn().expect("it runs");
        let verified = namespace.steered(&["verify", "--port", &port, "--time", "500ms", "--json"]);
        kill_process(Pid::from_child(&load), Signal::KILL).expect("it runs");
        load.wait().expect("ours");
        let verified: serde_json::Value = serde_json::from_str(&verified).expect("JSON");
        match verified["here_share"].as_f64() {
            Some(share) if cpu == &last => assert!(share > 0.9, "{verified}"),
            Some(share) => assert!(share < 0.1, "{verified}"),
            None => eprintln!("reads are not measurable here: {verified}"),
        }
        match verified["own_wakes_share"].as_f64() {
            Some(share) => own_wakes.push(share),
            None => eprintln!("wake-ups are not measurable here: {verified}"),
        }
        all_good(&namespace.load(&url, &["-n", "400"]).output().expect("it runs"));
        let printed = classifier.end(Signal::TERM);
        let packets =
            printed.strip_prefix(&format!("cpu {}: ", number(cpu))).and_then(|rest| rest.split(' ').next());
        assert!(packets.is_some_and(|count| count.parse::<u64>().expect("a count") >= 400), "{printed}");
        assert!(!namespace.has_program(), "it ended");
    }
    // The thread that handles the packets of a sleeping core wakes the core; other threads of the
    // server wake the core too, from any cpu.
    assert!(own_wakes.is_sorted_by(|own, others| own > others), "{own_wakes:?}");
    let classifier = namespace.classify(&[]).expect("as before");
    let second = namespace.classify(&[]).err().expect("there is one already");
    assert!(
        second.contains("cannot classify the packets of steer0") && second.contains("another"),
        "{second}"
    );
    classifier.end(Signal::KILL);
    namespace.wait_until("the kernel takes the program away", || !namespace.has_program());
    all_good(&namespace.load(&url, &["-n", "400"]).output().expect("it runs"));
}

/// Regression: no counter had the packets without room in their cpu's queue.
#[test]
fn packets_without_cpu_are_counted() {
    /// More than may wait.
    const PACKETS: u64 = 5_000;
    let Some(namespace) = Namespace::with_peer() else { return };
    let [_, last] = cpus();
    let classifier = match namespace.classify(&["--cores", &last]) {
        Ok(classifier) => classifier,
        Err(said) => return eprintln!("SKIPPED: no XDP here: {said}"),
    };
    // A sender runs before the kernel thread that takes up the packets, on the thread's cpu. Each
    // packet has a socket of its own, because a sender with one socket waits until some of its
    // packets were taken up.
    let send = format!("for i in {{1..{PACKETS}}}; do echo packet > /dev/udp/{SERVER}/9 || true; done");
    let mut flood = namespace.peer_command("chrt");
    flood.args(["-f", "1", "taskset", "-c", number(&last), "bash", "-c", &send]).stderr(Stdio::null());
    if !flood.status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: nothing may go before all others here (chrt)");
    }
    let printed = classifier.end(Signal::TERM);
    let count = |before: &str| {
        let at = printed.find(before).unwrap_or_else(|| panic!("{before}: {printed}")) + before.len();
        printed[at..].split(' ').next().expect("a part").parse::<u64>()
    };
    let steered = count(&format!("cpu {}: ", number(&last))).expect("a count");
    match count("dropped on the way to their cpu: ") {
        Ok(dropped) => assert!((1..=steered).contains(&dropped), "{printed}"),
        Err(_) => assert!(printed.contains("not measurable here: "), "{printed}"),
    }
}

/// Note: veth's driver loses the checksum offload of a sender on this machine. Every segment had a
/// wrong checksum, and no message said so.
#[test]
fn lost_packets_end_classification() {
    let Some(namespace) = Namespace::with_peer() else { return };
    let [_, last] = cpus();
    let (_server, url) = namespace.serve(&last, &[]);
    let native = ["--cores", &last, "--xdp", "native"];
    let mut classifier = match namespace.classify(&native) {
        Ok(classifier) => classifier,
        Err(said) => return eprintln!("SKIPPED: no XDP in veth here: {said}"),
    };
    // Connections that were lost are tried again by the kernel once the program is gone.
    all_good(&namespace.load(&url, &["-n", "400", "--timeout", "30s"]).output().expect("it runs"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while classifier.child.try_wait().expect("ours").is_none() {
        if Instant::now() > deadline {
            return eprintln!("SKIPPED: this kernel's veth loses nothing");
        }
        std::thread::yield_now();
    }
    let mut said = String::new();
    std::io::Read::read_to_string(&mut classifier.stderr, &mut said).expect("text");
    assert_eq!(classifier.child.wait().expect("ours").code(), Some(1));
    assert!(said.contains("wrong checksums") && said.contains("--xdp generic"), "{said}");
    let whole = namespace.peer_command("ethtool").args(["-K", "steer1", "tx", "off"]).output();
    if whole.is_ok_and(|output| output.status.success()) {
        let classifier = namespace.classify(&native).expect("as before");
        assert!(classifier.ready.contains("native"), "{}", classifier.ready);
        all_good(&namespace.load(&url, &["-n", "400"]).output().expect("it runs"));
        assert!(classifier.end(Signal::INT).starts_with(&format!("cpu {}: ", number(&last))));
    }
}

/// Under traffic: the steering process reports the loss and ends, and a server continues where
/// there is one.
#[test]
fn vanished_card_leaves_other_cards_working() {
    let Some(namespace) = Namespace::with_peer() else { return };
    let [_, last] = cpus();
    namespace.shell("ip link set lo up");
    let (_server, url) = namespace.serve(&last, &["--listen", "127.0.0.1:8080"]);
    let mut classifier = match namespace.classify(&["--cores", &last]) {
        Ok(classifier) => classifier,
        Err(said) => return eprintln!("SKIPPED: no XDP here: {said}"),
    };
    let mut load = namespace.load(&url, &["-d", "30s"]).stderr(Stdio::null()).spawn().expect("it runs");
    let received = || namespace.shell("cat /sys/class/net/steer0/statistics/rx_packets");
    namespace.wait_until("the load has begun", || received().trim().parse::<u64>().expect("a count") > 100);
    namespace.shell("ip link delete steer0");
    let said = classifier.line_with("is gone").expect("it says why it ends");
    assert!(said.contains("steer0 is gone, and with it the program"), "{said}");
    assert_eq!(classifier.child.wait().expect("ours").code(), Some(1));
    kill_process(Pid::from_child(&load), Signal::KILL).expect("it runs");
    load.wait().expect("ours");
    let mut here = namespace.command(VERMEIL);
    here.args(["load", "http://127.0.0.1:8080/", "-c", "4", "-n", "400", "--json", "-"]);
    all_good(&here.output().expect("it runs"));
}

#[test]
fn comparison_restores_settings() {
    let Some(namespace) = Namespace::with_peer() else { return };
    let [first, last] = cpus();
    let (_server, url) = namespace.serve(&last, &[]);
    let before = namespace.settings();
    let mut load = namespace.load(&url, &["-d", "30s"]).stderr(Stdio::null()).spawn().expect("it runs");
    let received = || namespace.shell("cat /sys/class/net/steer0/statistics/rx_packets");
    namespace.wait_until("the load has begun", || received().trim().parse::<u64>().expect("a count") > 100);
    let cores = format!("{first},{last}");
    let compare = ["compare", "--nic", "steer0", "--cores", &cores, "--time", "800ms", "--json"];
    let output = namespace.steer(&compare);
    kill_process(Pid::from_child(&load), Signal::KILL).expect("it runs");
    load.wait().expect("ours");
    if !output.status.success() {
        return eprintln!("SKIPPED: no XDP here: {}", text(&output.stderr));
    }
    let compared: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(compared["rows"].as_array().expect("windows").len(), 8, "{compared}");
    let under_xdp = compared["rows"].as_array().expect("windows").iter().filter(|row| row["way"] == "xdp");
    let packets: u64 = under_xdp.map(|row| row["packets"].as_u64().expect("a count")).sum();
    assert!(packets > 0, "{compared}");
    assert_eq!(namespace.settings(), before);
    assert!(!namespace.has_program());
    namespace.steered(&["plan", "--nic", "steer0"]);
}

#[test]
fn one_card_is_named() {
    let output = Command::new(VERMEIL).args(["steer", "xdp"]).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--nic NAME"), "{}", text(&output.stderr));
}
