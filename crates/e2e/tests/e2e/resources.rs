//! The cost of connections for the server: memory while idle, descriptors, system calls.
//!
//! Measured from outside, on one core and in the tested build. Kernel memory (socket buffers) is
//! not counted, because the server cannot save that memory.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_usual, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

on_usual!(
    an_idle_connection_costs_2_kb_at_most,
    ten_thousand_idle_connections_are_held,
    a_request_costs_few_system_calls,
    files_are_kept_on_the_pages_that_were_asked_for,
);

/// The maximum memory of a connection that waits for its next request, in bytes.
const IDLE_BYTES_MAX: u64 = 2048;

/// Connections before the measurement, because the first connections pay for shared memory, such as
/// a ring's buffers.
const WARM: usize = 500;

/// Memory that the process has written, in bytes. Pages shared with the binary's file cost nothing
/// per connection.
fn private_bytes(server: &TestServer) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", server.pid());
    let text = fs::read_to_string(path).expect("our own child");
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).expect("a field");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// The least memory seen while a core ran its periodic work twice, because the allocator then
/// returns free memory.
fn settled_bytes(server: &TestServer) -> u64 {
    let (start, mut least) = (Instant::now(), private_bytes(server));
    until("its memory settles", || {
        least = least.min(private_bytes(server));
        (start.elapsed() > Duration::from_millis(2200)).then_some(least)
    })
}

fn descriptors(server: &TestServer) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("our own child").count()
}

/// Connections that wait after one answer each.
fn idle_connections(server: &TestServer, count: usize) -> Vec<TestClient> {
    let mut clients = Vec::with_capacity(count);
    // A few at a time, as in practice, because the temporary memory of a request does not count as
    // memory of an idle connection.
    while clients.len() < count {
        let mut more: Vec<_> = (0..50.min(count - clients.len())).map(|_| server.client()).collect();
        more.iter_mut().for_each(|client| client.ask("GET", "/small.txt", &[]));
        for client in &mut more {
            assert_eq!(client.read(ExpectedContent::Follows).body.len(), 1000);
        }
        clients.append(&mut more);
    }
    clients
}

fn hold(io: Io, count: usize) {
    // Together these tests would need more descriptors than a process has.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let site = TestSite::new();
    site.write("small.txt", &noise(1, 1000));
    let max = (count + WARM).to_string();
    // The memory of connections, independent of the allocator's granularity: without pages of 2 MB.
    let small_pages = ["env", "MIMALLOC_ALLOW_THP=0"];
    let args = ["--cores", "1", "--connections-max", &max];
    let server = TestServer::start_under(&small_pages, io, &site, &args);
    let warm = idle_connections(&server, WARM);
    let (bytes, open) = (settled_bytes(&server), descriptors(&server));
    let clients = idle_connections(&server, count);
    assert_eq!(descriptors(&server), open + count);
    let each = settled_bytes(&server).saturating_sub(bytes) / count as u64;
    eprintln!("{each} bytes for each of {count} idle connections");
    assert!(each <= IDLE_BYTES_MAX, "an idle connection costs {each} bytes");
    for client in [&clients[0], &clients[count - 1]] {
        assert!(!client.is_readable(), "closed although nobody asked for it");
    }
    drop((clients, warm));
    until("they are closed", || (descriptors(&server) == open - WARM).then_some(()));
    assert_eq!(server.get("/small.txt").status, 200);
    server.stops_clean();
}

fn an_idle_connection_costs_2_kb_at_most(io: Io) {
    hold(io, 2000);
}

fn ten_thousand_idle_connections_are_held(io: Io) {
    // Server and client have a limit each; other tests run in the client's process at the same
    // time.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < 13_000 => {
            eprintln!("SKIPPED: 10,000 connections need a limit of open files above {limit}");
        }
        _ => hold(io, 10_000),
    }
}

/// Calls counted by strace: the table has `% time, seconds, usecs/call, calls, errors, name`.
fn calls(table: &str, names: &[&str]) -> u64 {
    let counted = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let count = words.get(3)?.parse::<u64>().ok()?;
        names.contains(words.last()?).then_some(count)
    });
    counted.sum()
}

/// strace slows the server down, so more requests than usual wait for each turn. For io_uring the
/// bound is about that load. For epoll only the share of `epoll_pwait` is smaller.
fn a_request_costs_few_system_calls(io: Io) {
    const CONNECTIONS: usize = 64;
    const ROUNDS: usize = 120;
    let site = TestSite::new();
    site.write("small.txt", &noise(1, 1000));
    let table = site.outside("calls");
    let strace = ["strace", "-f", "-c", "-o", table.to_str().expect("UTF-8")];
    if std::process::Command::new("strace").args(["-c", "true"]).output().is_ok_and(|o| o.status.success()) {
        let server = TestServer::start_under(&strace, io, &site, &["--cores", "1"]);
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| server.client()).collect();
        for _ in 0..ROUNDS {
            clients.iter_mut().for_each(|client| client.ask("GET", "/small.txt", &[]));
            for client in &mut clients {
                assert_eq!(client.read(ExpectedContent::Follows).body.len(), 1000);
            }
        }
        drop(clients);
        stop_traced(&server);
        check_calls(io, &fs::read_to_string(&table).expect("strace's table"), CONNECTIONS * ROUNDS);
    } else {
        eprintln!("SKIPPED: strace is missing or may not trace");
    }
}

fn files_are_kept_on_the_pages_that_were_asked_for(io: Io) {
    let site = TestSite::new();
    for number in 0..100 {
        site.write(&format!("{number}"), &noise(number, 60_000));
    }
    let status = "[[host.route]]\nprefix = \"/status\"\naction = \"status\"\n";
    for pages in ["small", "transparent", "huge", "auto"] {
        let text = format!(
            "[memory]\npages = \"{pages}\"\n[cache]\nbytes = \"16M\"\n[[host]]\nroot = \"site\"\n{status}"
        );
        let server = TestServer::configured(io, &site, &text);
        let mut client = server.client();
        for number in (0..100).chain(0..100) {
            assert_eq!(client.get(&format!("/{number}")).body, noise(number, 60_000), "{pages}");
        }
        assert!(client.get("/status").text().contains(" of page tables; huge pages: "));
        let said = server.stderr();
        let line = said.lines().find_map(|line| line.strip_prefix("vermeil: memory: ")).unwrap_or_default();
        match pages {
            "small" => assert_eq!(line, ""),
            "huge" => {
                assert!(line.contains("reserved pages of ") || line.contains("vm.nr_hugepages"), "{line}")
            }
            _ => assert!(line.contains(" for files"), "{line}"),
        }
        server.stops_clean();
    }
}

/// strace ends when its traced process has ended, and blocks signals for itself.
fn stop_traced(server: &TestServer) {
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let pid = fs::read_to_string(children).expect("our own child");
    let pid: i32 = pid.trim().parse().expect("one child");
    let pid = rustix::process::Pid::from_raw(pid).expect("above zero");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our child's child");
    assert_eq!(server.wait(), Some(0), "{server:?}");
}

fn check_calls(io: Io, table: &str, requests: usize) {
    let requests = requests as f64;
    let per_request = |names: &[&str]| calls(table, names) as f64 / requests;
    // One more recv per connection sees the end of the connection; accepting and closing have calls
    // of their own.
    let moving = per_request(&["recvfrom", "recvmsg", "read", "sendto", "sendmsg", "write", "writev"]);
    let waiting = per_request(&["epoll_wait", "epoll_pwait", "epoll_pwait2"]);
    let entering = per_request(&["io_uring_enter"]);
    eprintln!(
        "per request: {moving:.3} that move bytes, {waiting:.3} epoll waits, {entering:.3} io_uring_enter"
    );
    match io {
        Io::Epoll => {
            assert!(moving <= 2.1, "{moving} calls that move bytes per request:\n{table}");
            assert!(moving + waiting <= 3.0, "{waiting} waits per request:\n{table}");
        }
        Io::Uring => {
            assert!(moving + entering < 1.0, "{} calls per request:\n{table}", moving + entering);
        }
    }
}
