//! Hosts that answer at some listeners only, and routes for some clients only.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_usual};
use std::fs;
use std::net::SocketAddr;

on_usual!(
    bound_host_answers_at_its_listener_only,
    route_hides_from_other_clients,
    hidden_route_sends_no_file
);

const HOSTS: &str = r#"
[[listener]]
address = "127.0.0.2:0"
[[host]]
root = "site"
listen = ["127.0.0.1:0"]
[[host]]
names = ["monitor.internal"]
listen = ["127.0.0.2:0"]
[[host.route]]
action = "status"
"#;

#[track_caller]
fn status(addr: SocketAddr, host: &str, target: &str) -> u16 {
    let mut client = TestClient::connect(addr);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read(ExpectedContent::Follows).status
}

/// Regression: any client could read the status by naming the host of the monitors.
fn bound_host_answers_at_its_listener_only(io: Io) {
    let site = TestSite::new();
    site.write("only-public", b"x");
    let server = TestServer::configured(io, &site, HOSTS);
    let said = server.stderr();
    let port = said.split("http://127.0.0.2:").nth(1).expect("both are said");
    let port: u16 = port.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let (public, private) = (server.addr(), SocketAddr::from(([127, 0, 0, 2], port)));
    for (addr, host, target, expected) in [
        (public, "any.example", "/only-public", 200),
        (public, "monitor.internal", "/only-public", 200),
        (public, "monitor.internal", "/status", 404),
        (private, "monitor.internal", "/status", 200),
        (private, "any.example", "/status", 200),
        (private, "any.example", "/only-public", 200),
    ] {
        assert_eq!(status(addr, host, target), expected, "{host}{target} at {addr}");
    }
    let mut private = TestClient::connect(private);
    private.send("GET /only-public?json HTTP/1.1\r\nHost: any.example\r\n\r\n");
    assert!(private.read(ExpectedContent::Follows).text().contains("uptime_s"), "it is the status");
    server.stops_clean();
}

fn route_hides_from_other_clients(io: Io) {
    let route = |prefix: &str, action: &str, from: &str| {
        format!("[[host.route]]\nprefix = \"{prefix}\"\naction = \"{action}\"\nfrom = {from}\n")
    };
    let text = [
        "[[host]]\nroot = \"site\"\n".to_owned(),
        route("/open", "status", r#"["10.0.0.0/8", "::ffff:127.0.0.0/104"]"#),
        route("/closed", "status", r#"["10.0.0.0/8", "::1", "127.0.0.9"]"#),
        route("/ready", "ready", r#"["192.0.2.0/24"]"#),
        // A later route does not open a path that an earlier route hides.
        "[[host.route]]\nprefix = \"/ready\"\naction = \"ready\"\n".to_owned(),
    ];
    let server = TestServer::configured(io, &TestSite::new(), &text.concat());
    for (target, expected) in [
        ("/open", 200),
        ("/closed", 404),
        ("/closed/x", 404),
        ("/%63losed", 404),
        ("/ready", 404),
        ("/", 200),
    ] {
        assert_eq!(status(server.addr(), "h", target), expected, "{target}");
    }
    server.stops_clean();
}

/// Outside of its route, the program would be a file like any other.
fn hidden_route_sends_no_file(io: Io) {
    let site = TestSite::new();
    site.write("cgi-bin/secret", b"#!/bin/sh\necho Content-Type: x/y; echo; echo secret\n");
    site.write("intern/page.txt", b"secret");
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let route = |prefix: &str, action: &str| {
        format!("[[host.route]]\nprefix = \"{prefix}\"\naction = \"{action}\"\nfrom = [\"192.0.2.1\"]\n")
    };
    let text =
        format!("{user}[[host]]\nroot = \"site\"\n{}{}", route("/cgi-bin", "cgi"), route("/intern", "files"));
    let server = TestServer::configured(io, &site, &text);
    for target in ["/cgi-bin/secret", "/intern/page.txt", "/intern/"] {
        assert_eq!(status(server.addr(), "h", target), 404, "{target}");
    }
    assert!(fs::exists(site.path("cgi-bin/secret")).unwrap());
    server.stops_clean();
}
