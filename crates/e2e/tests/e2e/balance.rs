//! New connections when one core of two is stuck: the neighbour answers all of these connections,
//! and no connection is lost.
//!
//! The core is really stuck, because a tracer stops its thread. Clients connect from the stopped
//! core's cpu, so that the kernel chooses the listener of that core. On a machine with one cpu, or
//! without the right to trace, the tests report a skip and pass.

use crate::support::{Io, StoppedThread, TestClient, TestServer, TestSite, on_both, two_cpus};

on_both! {
    a_stuck_core_holds_up_no_new_connection,
    stuck_core_delays_no_new_connection,
    a_core_that_is_not_stuck_keeps_its_connections,
    every_mode_serves,
    start_names_busy_polling,
}

/// Makes `count` connections from `cpu`, each with a request, and returns the number of answers.
fn answered_from(cpu: usize, server: &TestServer, count: usize) -> usize {
    let addr = server.addr();
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            vermeil_io::pin_current_thread(cpu).expect("a cpu of ours");
            (0..count).filter(|_| TestClient::connect(addr).get("/a.txt").status == 200).count()
        });
        asking.join().expect("every request is answered")
    })
}

fn start(io: Io, site: &TestSite, cpus: [usize; 2], mode: &str) -> TestServer {
    site.write("a.txt", b"a");
    let cores = format!("{},{}", cpus[0], cpus[1]);
    let server = TestServer::start(io, site, &["--cores", &cores, "--balance", mode]);
    server.says("vermeil: balance: ");
    let said = server.stderr();
    let as_asked = said.contains(&format!("vermeil: balance: {mode}"));
    assert!(
        as_asked || said.contains(&format!("vermeil: balance: local, not {mode} as asked for: ")),
        "{said}"
    );
    server
}

/// From the last line of the output: connections, and connections taken over.
fn counts(server: &TestServer) -> [usize; 2] {
    let said = server.stderr();
    let (_, rest) = said.split_once("vermeil: accepted: ").expect("said at the end");
    let words = rest.split([' ', '(']);
    let mut numbers = words.filter_map(|word| word.parse().ok());
    [numbers.next().expect("connections"), numbers.next().expect("of them taken over")]
}

/// From the line at the end: connections that the kernel's program gave to another core.
fn sent_away(server: &TestServer) -> usize {
    let said = server.stderr();
    let before = said.split_once(" sent to another core").map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

fn a_stuck_core_holds_up_no_new_connection(io: Io) {
    a_core_is_stuck(io, "local");
}

fn stuck_core_delays_no_new_connection(io: Io) {
    a_core_is_stuck(io, "load-aware");
}

fn a_core_is_stuck(io: Io, mode: &str) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let server = start(io, &site, cpus, mode);
    assert_eq!(answered_from(cpus[1], &server, 1), 1);
    let Some(stopped) = StoppedThread::core(&server, 1) else { return };
    // Without a neighbour that takes over, each connection would wait until the core continues,
    // which happens below.
    assert_eq!(answered_from(cpus[1], &server, 20), 20);
    drop(stopped);
    assert_eq!(answered_from(cpus[1], &server, 20), 20);
    server.stops_clean();
    let [connections, taken_over] = counts(&server);
    assert_eq!(connections, 41, "{server:?}");
    // The kernel's program gives a core no new connections when the core has not polled its sockets
    // for a quarter of a second.
    assert!(taken_over + sent_away(&server) >= 20, "{server:?}");
}

fn a_core_that_is_not_stuck_keeps_its_connections(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let server = start(io, &site, cpus, "local");
    let asked = answered_from(cpus[0], &server, 40) + answered_from(cpus[1], &server, 40);
    server.stops_clean();
    let [connections, taken_over] = counts(&server);
    assert_eq!(connections, asked, "{server:?}");
    // A busy machine may delay a core for a while, but not for most of the connections.
    assert!(taken_over * 2 < connections, "{server:?}");
}

fn every_mode_serves(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    for mode in ["hash", "fixed", "round-robin", "load-aware"] {
        let site = TestSite::new();
        let server = start(io, &site, cpus, mode);
        assert_eq!(answered_from(cpus[0], &server, 10) + answered_from(cpus[1], &server, 10), 20, "{mode}");
        server.stops_clean();
        assert_eq!(counts(&server)[0], 20, "{mode}: {server:?}");
    }
}

/// The start line says either how the server polls, or why the server cannot poll; the server
/// serves in both cases.
fn start_names_busy_polling(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", b"a");
    let server = TestServer::start(io, &site, &["--busy-poll", "load"]);
    server.says("vermeil: busy polling: ");
    let said = server.stderr();
    assert!(
        said.contains("busy polling: 50 µs on cores with 1000 requests")
            || said.contains("it takes Linux 6.9"),
        "{said}"
    );
    assert_eq!(TestClient::connect(server.addr()).get("/a.txt").status, 200);
    server.stops_clean();
}
