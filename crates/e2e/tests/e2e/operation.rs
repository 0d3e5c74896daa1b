//! Starting and stopping: exit codes, cpus, and the fate of requests when the server stops.

use crate::support::{
    ConnectionEnd, ExpectedContent, Io, TestClient, TestProcess, TestServer, TestSite, noise, on_usual,
    until, vermeil,
};
use rustix::process::Signal;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

on_usual!(
    a_taken_port_names_its_holder,
    a_server_is_followed_by_the_next_on_its_port,
    failed_start_prints_reason,
    start_prints_folder_and_address,
    all_cores_means_allowed_cpus,
    an_idle_server_stops_at_once,
    stop_under_load_loses_no_request,
    stop_finishes_running_download,
    an_answer_that_is_still_on_its_way_is_no_idle_connection,
    second_signal_ends_server_at_once,
    drain_deadline_ends_server,
);

fn a_taken_port_names_its_holder(io: Io) {
    let site = TestSite::new();
    let first = TestServer::start(io, &site, &[]);
    let addr = first.addr().to_string();
    let root = site.root();
    let second = vermeil(&["serve", "--listen", &addr, root.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{said}");
    let holder = format!("vermeil-tested (pid {})", first.pid());
    assert!(said.contains(&format!("cannot listen on {addr}: ")) && said.contains(&holder), "{said}");
    first.stops_clean();
}

/// With connections of the first still in the kernel's memory.
fn a_server_is_followed_by_the_next_on_its_port(io: Io) {
    let site = TestSite::new();
    let first = TestServer::start(io, &site, &[]);
    let mut client = first.client();
    client.get("/");
    let addr = first.addr().to_string();
    first.stops_clean();
    let second = TestServer::start(io, &site, &["--listen", &addr]);
    assert_eq!(TestClient::connect(addr.parse().unwrap()).get("/").status, 200);
    second.stops_clean();
}

fn failed_start_prints_reason(io: Io) {
    let driver = if io == Io::Epoll { "epoll" } else { "uring" };
    for (args, code, words) in [
        (["--listen", "127.0.0.1:0", "/nonexistent"], 3, "serving the folder /nonexistent: "),
        (["--listen", "192.0.2.1:0", "."], 3, "this machine has no such address"),
        (["--trace", "/nonexistent/trace.ndjson", "."], 3, "--trace /nonexistent/trace.ndjson: "),
        (["--listen=:18470", "--listen=127.0.0.1:18470", "."], 3, "0.0.0.0:18470 has 127.0.0.1:18470 too"),
        (["--listen", "nonsense:port", "."], 2, "--listen"),
        (["--cores", "4095-4095", "."], 2, "4095"),
        (["--header-timeout", "never", "."], 2, "--header-timeout"),
        (["--request-line-bytes", "64K", "."], 2, "--header-bytes"),
        (["--no-such-option", ".", "."], 2, "--no-such-option"),
    ] {
        let output = vermeil(&["serve", "--io", driver]).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

fn start_prints_folder_and_address(io: Io) {
    let site = TestSite::new();
    let mut args = vec!["--listen", "127.0.0.2:0"];
    let has_ipv6 =
        fs::metadata("/proc/net/if_inet6").is_ok_and(|_| std::net::TcpListener::bind("[::1]:0").is_ok());
    if has_ipv6 {
        args.extend(["--listen", "[::1]:0"]);
    }
    let server = TestServer::start(io, &site, &args);
    let said = server.stderr();
    let root = site.root().canonicalize().unwrap();
    let start = format!("vermeil: serving {} at http://", root.display());
    let addrs: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    assert_eq!(addrs.len(), 2 + usize::from(has_ipv6), "{said}");
    for addr in addrs {
        let addr = addr.trim_end_matches('/').parse().unwrap_or_else(|error| panic!("{addr}: {error}"));
        assert_eq!(TestClient::connect(addr).get("/").status, 200);
    }
    let driver = if io == Io::Epoll { "epoll" } else { "io_uring" };
    assert!(said.contains(&format!("\nvermeil: io: {driver}")), "{said}");
    assert!(said.contains("; changes to files: "), "{said}");
    server.stops_clean();
}

/// The cpus that thread `name` of a process may use.
fn cpus_of(process: &TestProcess, name: &str) -> Option<String> {
    fs::read_dir(format!("/proc/{}/task", process.pid())).ok()?.find_map(|task| {
        let folder = task.ok()?.path();
        let is_it = fs::read_to_string(folder.join("comm")).ok()?.trim() == name;
        let status = fs::read_to_string(folder.join("status")).ok().filter(|_| is_it)?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    })
}

fn all_cores_means_allowed_cpus(io: Io) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let last = allowed.trim().rsplit(['-', ',']).next().unwrap().to_owned();
    let site = TestSite::new();
    let server = TestServer::start_under(&["taskset", "-c", &last], io, &site, &["--cores", "all"]);
    server.says(&format!("vermeil: cores: 1 (cpus {last})"));
    assert_eq!(cpus_of(&server, "vermeil-0"), Some(last.clone()), "{server:?}");
    assert_eq!(cpus_of(&server, "vermeil-1"), None);
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}

fn an_idle_server_stops_at_once(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    let mut idle = server.client();
    idle.get("/");
    // The kernel keeps this connection until its first bytes come, so nothing waits for the client.
    let mut silent = server.client();
    server.stops_clean();
    idle.ends_silently();
    let answer = silent.try_send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.is_err() || silent.try_read(ExpectedContent::Follows).is_err(), "nothing answers");
    assert!(server.stderr().contains("draining, at most 30 s; a second signal ends it now"));
}

/// Shared state of the clients of the test below.
struct ClientLoad {
    answered: AtomicUsize,
    stopping: AtomicBool,
}

/// Asks on one connection after another, checking each answer, until the server no longer listens.
///
/// A request may go unanswered only if the server has not read a byte of the request: when the
/// server had closed the connection as idle before. That needs a pause between requests longer than
/// the grace. There is no pause here, so every request must be answered.
fn ask_until_it_stops(server: &TestServer, load: &ClientLoad, seed: usize) {
    let files =
        [("/small.txt", noise(1, 1000)), ("/mid.bin", noise(2, 60_000)), ("/large.bin", noise(3, 500_000))];
    let mut turn = seed;
    loop {
        let Some(mut client) = TestClient::try_connect(server.addr()) else { return };
        loop {
            let (target, content) = &files[turn % files.len()];
            turn += 1;
            if client.try_send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).is_err() {
                assert!(load.stopping.load(Ordering::Acquire), "closed before it was told to stop");
                return;
            }
            match client.try_read(ExpectedContent::Follows) {
                Ok(response) => {
                    assert!(response.status == 200 && response.body == *content, "{target}");
                    load.answered.fetch_add(1, Ordering::Relaxed);
                    if response.closes() {
                        assert!(load.stopping.load(Ordering::Acquire), "closed before it was told to stop");
                        client.ends_silently();
                        break;
                    }
                }
                Err(end) => {
                    // The kernel completed this connection after the listener was closed, so there
                    // is no byte of an answer.
                    assert!(client.received().is_empty(), "an answer was cut: {end:?}");
                    assert!(load.stopping.load(Ordering::Acquire), "{end:?} before it was told to stop");
                    assert!(client.answers() == 0, "{end:?} instead of an answer on a connection in use");
                    return;
                }
            }
        }
    }
}

fn stop_under_load_loses_no_request(io: Io) {
    let site = TestSite::new();
    for (name, seed, len) in [("small.txt", 1, 1000), ("mid.bin", 2, 60_000), ("large.bin", 3, 500_000)] {
        site.write(name, &noise(seed, len));
    }
    for _ in 0..3 {
        let server = TestServer::start(io, &site, &[]);
        let load = ClientLoad { answered: AtomicUsize::new(0), stopping: AtomicBool::new(false) };
        thread::scope(|scope| {
            for seed in 0..8 {
                let (server, load) = (&server, &load);
                scope.spawn(move || ask_until_it_stops(server, load, seed));
            }
            until("it is busy", || (load.answered.load(Ordering::Relaxed) > 200).then_some(()));
            load.stopping.store(true, Ordering::Release);
            server.stops_clean();
        });
    }
}

/// A client that has got the start of a file and does not read on.
fn downloading(server: &TestServer) -> TestClient {
    let mut client = server.narrow_client();
    client.ask("GET", "/large.bin", &[]);
    client.receive_at_least(1000);
    client
}

fn large_site(len: usize) -> (TestSite, Vec<u8>) {
    let site = TestSite::new();
    let content = noise(5, len);
    site.write("large.bin", &content);
    (site, content)
}

fn stop_finishes_running_download(io: Io) {
    let (site, content) = large_site(30 << 20);
    let server = TestServer::start(io, &site, &[]);
    let mut client = downloading(&server);
    server.signal(Signal::TERM);
    server.says("vermeil: draining");
    until("nobody listens", || TestClient::try_connect(server.addr()).is_none().then_some(()));
    assert!(client.read(ExpectedContent::Follows).body == content);
    assert_eq!(server.wait(), Some(0), "{server:?}");
    client.ends_silently();
}

/// Only a part of the answer is in the kernel, and the connection has no other work.
fn an_answer_that_is_still_on_its_way_is_no_idle_connection(io: Io) {
    let (site, content) = large_site(8 << 20);
    let server = TestServer::start(io, &site, &["--cache-file-bytes", "16M"]);
    let mut client = downloading(&server);
    let mut idle = server.client();
    idle.get("/");
    server.signal(Signal::TERM);
    // When the server has ended that connection, the server has ended every idle connection.
    idle.ends_silently();
    assert!(client.read(ExpectedContent::Follows).body == content);
    assert_eq!(server.wait(), Some(0), "{server:?}");
}

fn second_signal_ends_server_at_once(io: Io) {
    let (site, content) = large_site(30 << 20);
    let server = TestServer::start(io, &site, &["--drain-timeout", "1h", "--write-timeout", "1h"]);
    let mut client = downloading(&server);
    server.signal(Signal::TERM);
    server.says("vermeil: draining");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(4), "{server:?}");
    let end = client.try_read(ExpectedContent::Follows).expect_err("it was cut");
    assert!(
        matches!(end, ConnectionEnd::Closed | ConnectionEnd::Reset)
            && client.received().len() < content.len()
    );
}

fn drain_deadline_ends_server(io: Io) {
    let (site, _) = large_site(30 << 20);
    let server = TestServer::start(io, &site, &["--drain-timeout", "300ms"]);
    let client = downloading(&server);
    assert_eq!(server.stop(), Some(4), "{server:?}");
    drop(client);
}
