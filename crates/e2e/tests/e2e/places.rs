//! Places of connections: which connections the server evicts at the bound, and how many places one
//! client address has.
//!
//! `crates/state/src/connections.rs` tests the order itself.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_both, until};
use std::os::unix::fs::PermissionsExt;

on_both!(
    silent_connections_give_way,
    half_heads_give_way,
    half_bodies_give_way,
    unread_answers_give_way,
    lingering_connections_give_way,
    client_bound_refuses_with_503,
    refused_upload_is_logged_and_answered,
    body_without_memory_is_spooled,
);

/// A server with four places, and a client from `occupy` in each place.
#[track_caller]
fn crowded(io: Io, site: &TestSite, args: &[&str], occupy: impl FnMut(&TestServer) -> TestClient) {
    let args = [args, &["--cores", "1", "--connections-max", "4"]].concat();
    let server = TestServer::start(io, site, &args);
    let mut occupy = occupy;
    let occupied: Vec<TestClient> = (0..4).map(|_| occupy(&server)).collect();
    for _ in 0..8 {
        assert_eq!(server.get("/").status, 200, "a place is there at once: {server:?}");
    }
    drop(occupied);
    server.stops_clean();
}

fn silent_connections_give_way(io: Io) {
    crowded(io, &TestSite::new(), &[], TestServer::client);
}

fn half_heads_give_way(io: Io) {
    crowded(io, &TestSite::new(), &[], |server| {
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n");
        client
    });
}

fn half_bodies_give_way(io: Io) {
    let site = TestSite::new();
    // A body that is thrown away.
    crowded(io, &site, &[], |server| {
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf");
        client
    });
    // A body for a program.
    crowded(io, &site, &echo(&site), |server| {
        let mut client = server.client();
        client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf");
        client
    });
}

/// A program that echoes its input, and the options for the program.
fn echo(site: &TestSite) -> Vec<&'static str> {
    site.write("cgi-bin/echo", b"#!/bin/sh\necho Content-Type: x/y; echo; cat\n");
    std::fs::set_permissions(site.path("cgi-bin/echo"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut args = vec!["--cgi", "/cgi-bin/"];
    if rustix::process::geteuid().is_root() {
        args.extend(["--cgi-user", "nobody"]);
    }
    args
}

fn unread_answers_give_way(io: Io) {
    let site = TestSite::new();
    site.write("large.txt", &noise(1, 16 << 20));
    crowded(io, &site, &[], |server| {
        let mut client = server.narrow_client();
        client.ask("GET", "/large.txt", &[]);
        client.wait_readable();
        client
    });
}

fn lingering_connections_give_way(io: Io) {
    crowded(io, &TestSite::new(), &[], |server| {
        let mut client = server.client();
        client.send("nonsense\r\n\r\n");
        assert_eq!(client.read(ExpectedContent::Follows).status, 400);
        client
    });
}

fn client_bound_refuses_with_503(io: Io) {
    let args = ["--cores", "1", "--client-connections-max", "2"];
    let server = TestServer::start(io, &TestSite::new(), &args);
    let mut first = server.client();
    let mut second = server.client();
    assert_eq!((first.get("/").status, second.get("/").status), (200, 200));
    let mut third = server.client();
    let refused = third.read(ExpectedContent::Follows);
    assert_eq!((refused.status, refused.closes()), (503, true));
    server.says("127.0.0.1 holds 2 connections, the bound for one address; more are refused with 503");
    assert_eq!(first.get("/").status, 200, "the connections it holds go on");
    drop(second);
    until("the place is given back", || {
        let mut client = server.client();
        let _ = client.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        client.try_read(ExpectedContent::Follows).is_ok_and(|answer| answer.status == 200).then_some(())
    });
    server.stops_clean();
}

/// Regression: a request with content, or with a long head, had no line in the log, and its answer
/// was lost to a reset.
fn refused_upload_is_logged_and_answered(io: Io) {
    let args = ["--cores", "1", "--client-connections-max", "1", "--log", "-"];
    let server = TestServer::start(io, &TestSite::new(), &args);
    let mut first = server.client();
    assert_eq!(first.get("/").status, 200);
    let head = "HTTP/1.1\r\nHost: h\r\n";
    for request in [
        format!("POST /upload {head}Content-Length: 5\r\n\r\nhello"),
        format!("GET /long {head}X: {}\r\n\r\n", "y".repeat(20_000)),
    ] {
        let mut client = server.client();
        client.send(request);
        let refused = client.read(ExpectedContent::Follows);
        assert_eq!((refused.status, refused.closes()), (503, true));
        client.ends_silently();
    }
    drop(first);
    server.stops_clean();
    server.says("vermeil: stopped: 3 requests");
    for line in ["\"POST /upload HTTP/1.1\" 503 - ", "\"GET /long HTTP/1.1\" 503 - "] {
        until(line, || server.stdout().contains(line).then_some(()));
    }
}

/// Regression: slow bodies of 64 KiB each ended a server with little memory.
fn body_without_memory_is_spooled(io: Io) {
    let site = TestSite::new();
    let args = [echo(&site), vec!["--body-memory-bytes", "0"]].concat();
    let server = TestServer::start(io, &site, &args);
    let mut client = server.client();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nhalf");
    // The rest comes once the server has a file for the first half.
    let holds_file = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten();
        let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.any(|target| target.to_string_lossy().contains("(deleted)")).then_some(())
    };
    until("the first half is in a file", holds_file);
    client.send("rest");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "halfrest");
    server.stops_clean();
}
