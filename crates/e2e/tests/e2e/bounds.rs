//! Every bound on data, connections and delays of a client: the behaviour at the bound, and that
//! the server continues afterwards.

use crate::support::{
    ConnectionEnd, ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_both, until,
};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

on_both!(
    a_late_head_is_answered_408,
    silent_connection_is_closed,
    a_late_body_closes_the_connection,
    an_idle_connection_is_closed,
    empty_line_begins_no_head,
    each_pipelined_request_has_its_own_time,
    client_that_stops_reading_is_cut,
    an_answer_that_is_read_slowly_is_not_cut_as_idle,
    beyond_the_bound_connections_wait,
    at_the_bound_idle_connections_give_way,
    a_long_line_and_a_large_head_are_refused,
);

#[track_caller]
fn goes_on(server: &TestServer) {
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}

fn a_late_head_is_answered_408(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--header-timeout", "300ms"]);
    for start in ["G", "GET / HT", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: h\r\nX: y"] {
        let mut client = server.client();
        client.send(start);
        let response = client.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.closes()), (408, true), "{start:?}");
        client.ends_silently();
        let mut second = server.client();
        assert_eq!(second.get("/").status, 200);
        second.send(start);
        assert_eq!(second.read(ExpectedContent::Follows).status, 408, "{start:?} as the second request");
    }
    // Single bytes that arrive slowly do not extend the timeout.
    let mut client = server.client();
    let asked = Instant::now();
    client.send("GET / HTTP/1.1\r\n");
    while !client.is_readable() {
        if client.try_send("A: b\r\n").is_err() {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        assert!(asked.elapsed() < crate::support::PATIENCE, "trickling holds a connection for ever");
    }
    goes_on(&server);
}

fn silent_connection_is_closed(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--header-timeout", "300ms"]);
    server.client().ends_silently();
    goes_on(&server);
}

fn a_late_body_closes_the_connection(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--body-timeout", "300ms"]);
    for framing in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let mut client = server.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n1"));
        assert_eq!(client.read(ExpectedContent::Follows).status, 405);
        client.ends_silently();
    }
    goes_on(&server);
}

fn an_idle_connection_is_closed(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--keep-alive-timeout", "300ms"]);
    let mut client = server.client();
    assert!(!client.get("/").closes());
    client.ends_silently();
    goes_on(&server);
}

/// Regression: the server answered the empty line with 408, and its drain waited for the rest.
fn empty_line_begins_no_head(io: Io) {
    let site = TestSite::new();
    let args = ["--header-timeout", "300ms", "--keep-alive-timeout", "600ms"];
    let server = TestServer::start(io, &site, &args);
    let mut client = server.client();
    client.send("\r\n");
    client.ends_silently();
    let mut client = server.client();
    client.send("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    client.ends_silently();
    goes_on(&server);
    let args = ["--header-timeout", "1h", "--keep-alive-timeout", "1h", "--drain-timeout", "1h"];
    let server = TestServer::start(io, &site, &args);
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    client.send("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    server.stops_clean();
    client.ends_silently();
}

/// Regression: the time of a head or a content ran from an earlier request of the pipeline.
fn each_pipelined_request_has_its_own_time(io: Io) {
    let timeout = Duration::from_secs(1);
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--header-timeout", "1s", "--body-timeout", "1s"]);
    let get = "TP/1.1\r\nHost: h\r\n\r\nGET / HT";
    let post = "cdPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab";
    for (first, next, status) in [(format!("GET / HT{get}"), get, 200), (post[2..].to_owned(), post, 405)] {
        until("the client is faster than the timeout", || {
            let mut client = server.client();
            let mut begun = Instant::now();
            client.send(&first);
            assert_eq!(client.read(ExpectedContent::Follows).status, status);
            for _ in 0..2 {
                std::thread::park_timeout(timeout * 6 / 10);
                let sent_at = Instant::now();
                let sent = client.try_send(next);
                let answer = client.try_read(ExpectedContent::Follows);
                if begun.elapsed() >= timeout {
                    return None;
                }
                let is_answered = answer.as_ref().is_ok_and(|answer| answer.status == status);
                assert!(sent.is_ok() && is_answered, "{next:?}: {answer:?}");
                begun = sent_at;
            }
            Some(())
        });
    }
    goes_on(&server);
}

/// Asks for more than all buffers hold and does not read the answer.
fn stuck(server: &TestServer, target: &str, times: usize) -> TestClient {
    let mut client = server.narrow_client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(times));
    client.wait_readable();
    client
}

fn client_that_stops_reading_is_cut(io: Io) {
    let site = TestSite::new();
    site.write("large.bin", &noise(1, 30 << 20));
    site.write("mid.bin", &noise(2, 60_000));
    let server = TestServer::start(io, &site, &["--write-timeout", "300ms", "--keep-alive-timeout", "1h"]);
    let idle = sockets(&server);
    for (target, times) in [("/large.bin", 1), ("/mid.bin", 400)] {
        let stuck = stuck(&server, target, times);
        until("the server lets go of it", || (sockets(&server) == idle).then_some(()));
        drop(stuck);
    }
    goes_on(&server);
}

/// Sockets that the server holds.
fn sockets(server: &TestServer) -> usize {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("our own child");
    let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// The last answer of a connection may still be in transit when the time between requests is over.
fn an_answer_that_is_read_slowly_is_not_cut_as_idle(io: Io) {
    let site = TestSite::new();
    let content = noise(2, 8 << 20);
    site.write("large.txt", &content);
    let args = ["--keep-alive-timeout", "200ms", "--cache-file-bytes", "16M"];
    let server = TestServer::start(io, &site, &args);
    let mut client = stuck(&server, "/large.txt", 1);
    let mut idle = server.client();
    idle.get("/");
    // When that client has been idle too long, every other client has been idle too long as well.
    idle.ends_silently();
    assert!(client.read(ExpectedContent::Follows).body == content);
    client.ends_silently();
    goes_on(&server);
}

fn beyond_the_bound_connections_wait(io: Io) {
    let site = TestSite::new();
    site.write(
        "cgi-bin/wait",
        b"#!/bin/sh\nread x < ../wait$QUERY_STRING; echo Content-Type: x/y; echo; echo $x\n",
    );
    fs::set_permissions(site.path("cgi-bin/wait"), PermissionsExt::from_mode(0o755)).unwrap();
    for number in ["1", "2"] {
        let made = Command::new("mkfifo").arg("-m666").arg(site.path(&format!("wait{number}"))).status();
        assert!(made.unwrap().success());
    }
    let mut args = vec!["--cores", "1", "--connections-max", "2", "--cgi", "/cgi-bin/"];
    if rustix::process::geteuid().is_root() {
        args.extend(["--cgi-user", "nobody"]);
    }
    let server = TestServer::start(io, &site, &args);
    let (mut first, mut second) = (server.client(), server.client());
    // While the server works for a client, the server does not evict its connection.
    first.ask("GET", "/cgi-bin/wait?1", &[]);
    second.ask("GET", "/cgi-bin/wait?2", &[]);
    let mut third = server.client();
    third.ask("GET", "/", &[]);
    server.says("a core holds 2 connections, its bound; new ones wait (raise --connections-max)");
    assert!(!third.is_readable());
    fs::write(site.path("wait1"), "one\n").unwrap();
    assert_eq!(first.read(ExpectedContent::Follows).text(), "one\n");
    // Now that client is idle.
    assert_eq!(third.read(ExpectedContent::Follows).status, 200);
    fs::write(site.path("wait2"), "two\n").unwrap();
    assert_eq!(second.read(ExpectedContent::Follows).text(), "two\n");
    drop((first, second, third));
    goes_on(&server);
}

/// Regression: idle connections of clients filled the server for a minute.
fn at_the_bound_idle_connections_give_way(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--cores", "1", "--connections-max", "2"]);
    let mut kept: Vec<TestClient> = Vec::new();
    for _ in 0..6 {
        let mut client = server.client();
        assert_eq!(client.get("/").status, 200);
        kept.push(client);
    }
    until("four have given way", || {
        (kept.iter().filter(|client| client.is_readable()).count() >= 4).then_some(())
    });
    // The server evicts no connection unless another connection comes.
    let mut left: Vec<TestClient> = kept.into_iter().filter(|client| !client.is_readable()).collect();
    assert_eq!(left.len(), 2);
    for client in &mut left {
        assert_eq!(client.get("/").status, 200);
    }
    drop(left);
    goes_on(&server);
}

fn a_long_line_and_a_large_head_are_refused(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    let line = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(len - 14));
    let fields = |count: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
    let bytes = |len: usize| format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "y".repeat(len - 32));
    for (request, status) in [
        (fields(100), 200),
        (bytes(32 * 1024), 200),
        (line(8 * 1024 + 1), 414),
        (fields(101), 431),
        (bytes(32 * 1024 + 1), 431),
        ("x".repeat(100_000), 400),
    ] {
        let mut client = server.client();
        // The refusal may come before the server has taken the whole request.
        let _ = client.try_send(&request);
        let response = client.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.closes()), (status, status != 200), "{} bytes", request.len());
        if status != 200 {
            assert!(
                matches!(client.read_to_end(), ConnectionEnd::Closed | ConnectionEnd::Reset)
                    && client.received().is_empty()
            );
        }
    }
    goes_on(&server);
}

/// With epoll only: io_uring keeps the limit that was there when accepting began.
#[test]
fn short_of_descriptors_the_server_goes_on() {
    let site = TestSite::new();
    let server = TestServer::start(Io::Epoll, &site, &["--cores", "1"]);
    let mut first = server.client();
    assert_eq!(first.get("/").status, 200);
    // The server fits its bound of connections to the limit at its start, so the test lowers the
    // limit afterwards.
    let set_limit = |current| {
        let limit = Rlimit { current: Some(current), maximum: getrlimit(Resource::Nofile).maximum };
        let pid = Pid::from_raw(server.pid().cast_signed());
        prlimit(pid, Resource::Nofile, limit).expect("our own child")
    };
    let before = set_limit(32);
    let mut others: Vec<_> = (0..40).map(|_| server.client()).collect();
    others.iter_mut().for_each(|client| client.ask("GET", "/", &[]));
    server.says("cannot accept a connection");
    // If the server must open the file again, the open fails, and the client gets 503.
    assert!(matches!(first.get("/").status, 200 | 503));
    set_limit(before.current.expect("a limit"));
    for client in &mut others {
        assert!(matches!(client.read(ExpectedContent::Follows).status, 200 | 503));
    }
    drop(others);
    until("all is well again", || (first.get("/").status == 200).then_some(()));
    drop(first);
    goes_on(&server);
}

/// With epoll only, because io_uring accepts ahead of the bound, and each connection has a
/// descriptor before the connection has a place.
#[test]
fn connections_fit_the_limit_of_descriptors() {
    let site = TestSite::new();
    let limited = ["sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"];
    let server = TestServer::start_under(&limited, Io::Epoll, &site, &["--cores", "1"]);
    let said = server.stderr();
    assert!(said.contains(" connections per core, not 8192: the limit of open files is 200"), "{said}");
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.ask("GET", "/", &["Connection: close"]));
    for client in &mut clients {
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    }
    drop(clients);
    assert!(!server.stderr().contains("cannot accept"), "{server:?}");
    goes_on(&server);
}

/// Regression: a core that could not start left the server waiting for that core.
#[test]
fn server_without_enough_descriptors_ends_with_a_message() {
    let site = TestSite::new();
    for io in ["epoll", "auto"] {
        let script = "ulimit -n 16; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_vermeil-tested"),
            "serve",
            "--log",
            "off",
            "--io",
            io,
        ]);
        let output = command.args(["--listen", "127.0.0.1:0"]).arg(site.root()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{io}: {said}");
        assert!(
            said.contains("at most 16 open files") && said.contains("raise the hard limit"),
            "{io}: {said}"
        );
    }
}
