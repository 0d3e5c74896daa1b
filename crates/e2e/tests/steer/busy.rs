//! A server that polls its card for packets while the server is busy, over a software card with
//! polling. Load begins the polling and calm ends it. With connections of several queues the server
//! leaves the card alone.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::namespace::Namespace;
use super::traffic::{TrafficProcess, cpus};
use super::{VERMEIL, text};

/// Each driver has its own way to ask the kernel for polling.
const DRIVERS: [&str; 2] = ["epoll", "uring"];

impl Namespace {
    /// `steer0` with so many pollable queues; `false` where such a card is not available.
    fn polled(&self, queues: u32) -> bool {
        // A card's polling instances need GRO, and a sender's whole segments would bypass GRO.
        let both = [("steer0", "gro on"), ("steer1", "tso off")];
        both.into_iter().all(|(card, feature)| {
            let line = format!("ethtool -L {card} rx {queues} tx {queues}; ethtool -K {card} {feature}");
            let mut command = if card == "steer0" { self.command("sh") } else { self.peer_command("sh") };
            let set = command.args(["-c", &line]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            set.is_ok_and(|status| status.success())
        })
    }

    /// Whether the server's single core polls, and how often polling began.
    fn polls(&self) -> (bool, u64) {
        let control = self.state().join("control");
        let mut command = self.command(VERMEIL);
        let output = command.args(["status", "--json", "--control"]).arg(control).output().expect("it runs");
        let status: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
        let core = &status["instances"][0]["cores"][0];
        (core["busy_polls"] == true, core["busy_poll_begun"].as_u64().expect("a count"))
    }

    /// A server on one core that may poll; `None` where this kernel lacks the features.
    fn serve_polling(&self, driver: &str) -> Option<(TrafficProcess, String)> {
        let control = self.state().join("control").into_os_string().into_string().expect("text");
        let [_, last] = cpus();
        let args = ["--io", driver, "--busy-poll", "load", "--control", &control];
        let (mut server, url) = self.serve(&last, &args);
        let said = server.line_with("busy polling: ").expect("it says so");
        if said.contains("not to be had") {
            eprintln!("SKIPPED with {driver}: {said}");
            return None;
        }
        Some((server, url))
    }
}

#[test]
fn load_starts_polling_and_calm_stops_polling() {
    let Some(namespace) = Namespace::with_peer() else { return };
    if !namespace.polled(1) {
        return eprintln!("SKIPPED: no software card can be polled here (ethtool)");
    }
    for driver in DRIVERS {
        let Some((_server, url)) = namespace.serve_polling(driver) else { continue };
        assert_eq!(namespace.polls(), (false, 0), "{driver}: nobody asks for anything");
        for begun in 1..=2 {
            let mut load =
                namespace.load(&url, &["-d", "60s"]).stderr(Stdio::null()).spawn().expect("it runs");
            namespace.wait_until("much to do begins it", || namespace.polls() == (true, begun));
            kill_process(Pid::from_child(&load), Signal::KILL).expect("it runs");
            load.wait().expect("ours");
            namespace.wait_until("calm ends it", || namespace.polls() == (false, begun));
        }
    }
}

#[test]
fn connections_of_several_queues_are_left_alone() {
    let Some(namespace) = Namespace::with_peer() else { return };
    if !namespace.polled(2) {
        return eprintln!("SKIPPED: no software card can be polled here (ethtool)");
    }
    let Some((mut server, url)) = namespace.serve_polling("epoll") else { return };
    let load = ["--no-keepalive", "-n", "5000"];
    namespace.load(&url, &load).output().expect("it runs");
    assert!(!namespace.polls().0);
    kill_process(Pid::from_child(&server.child), Signal::TERM).expect("it runs");
    let said = server.line_with("busy polling: not on core").expect("it had much to do");
    assert!(said.contains("several queues"), "{said}");
}
