//! Proxies that the server believes: `[proxies]` and the PROXY protocol.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_both, on_usual, until};
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt as _};

on_both! {
    announced_client_is_the_client,
    wrong_announcement_closes_the_connection,
    announced_client_of_unix_socket_has_no_address,
    client_bound_counts_announced_clients,
    drain_reads_announcements,
}

on_usual! {
    forwarded_client_is_the_client_of_the_request,
    unknown_proxy_is_not_believed,
    forwarded_field_names_client_and_scheme,
    quote_of_client_gives_no_rights_of_the_proxy,
    reload_changes_the_believed_proxies,
}

/// A site with a program that prints the variables of the connection.
fn site() -> TestSite {
    let site = TestSite::new();
    site.write(
        "cgi-bin/ends",
        b"#!/bin/sh\n\
          out=\"$REMOTE_ADDR:$REMOTE_PORT $SERVER_ADDR:$SERVER_PORT $REQUEST_SCHEME ${HTTPS:-off}\"\n\
          printf 'Content-Type: text/plain\\nContent-Length: %d\\n\\n%s' ${#out} \"$out\"\n",
    );
    for folder in [site.outside(""), site.root(), site.path("cgi-bin"), site.path("cgi-bin/ends")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    site
}

/// A configuration with the table `[proxies]` and a listener with the key `proxy_protocol`.
fn text(proxies: &str, listener: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    format!(
        "control = \"control\"\n{listener}{proxies}{user}[[host]]\nroot = \"site\"\n\
         [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
         [[host.route]]\nprefix = \"/office\"\naction = \"ready\"\nfrom = [\"192.0.2.0/24\"]\n\
         [[host.route]]\nprefix = \"/own\"\naction = \"ready\"\nfrom = [\"127.0.0.1\"]\n"
    )
}

/// Writes the configuration, with an access log.
fn configure(io: Io, site: &TestSite, proxies: &str, listener: &str) -> std::path::PathBuf {
    let file = site.configure(io, &text(proxies, ""));
    let written = fs::read_to_string(&file).expect("it was written");
    let written = written
        .replace("log = \"off\"", "log = \"log\"\nlog_format = \"combined\"")
        .replace("127.0.0.1:0\"\n", &format!("127.0.0.1:0\"\n{listener}"));
    fs::write(&file, written).expect("ours");
    file
}

const PROXY: &str = "proxy_protocol = true\n";

fn ends(client: &mut TestClient, fields: &[&str]) -> String {
    let response = client.get_with("/cgi-bin/ends", fields);
    assert_eq!(response.status, 200, "{}", response.text());
    response.text().to_owned()
}

/// The first words of the lines of the log, once there are as many as `expected`.
#[track_caller]
fn logged(site: &TestSite, expected: &[&str]) {
    let mut clients: Vec<String> = until("the log has the requests", || {
        let log = fs::read_to_string(site.outside("log")).unwrap_or_default();
        let clients: Vec<String> =
            log.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
        (clients.len() >= expected.len()).then_some(clients)
    });
    clients.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(clients, expected);
}

fn announced_client_is_the_client(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\", \"10.0.0.0/8\"]\n", PROXY);
    let server = TestServer::of_file(&file);

    let mut client = server.client();
    client.send("PROXY TCP4 192.0.2.7 203.0.113.1 4711 8443\r\n");
    assert_eq!(ends(&mut client, &[]), "192.0.2.7:4711 203.0.113.1:8443 http off");
    assert_eq!(client.get("/office").status, 200);
    // The client is no proxy, so its fields are not believed.
    let ours = ["X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"];
    assert_eq!(ends(&mut client, &ours), "192.0.2.7:4711 203.0.113.1:8443 http off");

    // The header comes byte by byte, with TLS at the proxy.
    let mut client = server.client();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14".to_vec();
    header.extend([198, 51, 100, 9, 203, 0, 113, 1, 0x12, 0x34, 0x01, 0xbb, 0x20, 0, 5, 1, 0, 0, 0, 0]);
    for byte in header {
        client.send([byte]);
    }
    assert_eq!(ends(&mut client, &[]), "198.51.100.9:4660 203.0.113.1:443 https on");
    assert_eq!(client.get("/office").status, 404);

    // A proxy behind the proxy is believed too.
    let mut client = server.client();
    client.send("PROXY TCP4 10.0.0.1 203.0.113.1 1 80\r\n");
    assert_eq!(ends(&mut client, &["X-Forwarded-For: 192.0.2.9"]), "192.0.2.9: 203.0.113.1:80 http off");

    // A health check of the proxy itself.
    let mut client = server.client();
    client.send(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0");
    assert_eq!(client.get("/").status, 200);
    logged(
        &site,
        &["192.0.2.7", "192.0.2.7", "192.0.2.7", "198.51.100.9", "198.51.100.9", "192.0.2.9", "127.0.0.1"],
    );
    server.stops_clean();
}

fn wrong_announcement_closes_the_connection(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\"]\n", PROXY);
    let server = TestServer::of_file(&file);
    for wrong in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PROXY TCP4 192.0.2.7 203.0.113.1 1\r\n"] {
        let mut client = server.client();
        client.send(wrong);
        client.ends_silently();
    }
    server.says("does not begin with a header of the PROXY protocol (closed)");
    let mut client = server.client();
    client.send("PROXY TCP4 192.0.2.7");
    client.finish();
    client.ends_silently();
    server.stops_clean();

    let file = configure(io, &site, "[proxies]\nfrom = [\"192.0.2.0/24\"]\n", PROXY);
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    client.send("PROXY TCP4 192.0.2.7 203.0.113.1 1 2\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    // The bytes that the server has not read may reset the connection.
    client.read_to_end();
    assert!(client.received().is_empty());
    server.says("the connection of 127.0.0.1 to 127.0.0.1:0 is in no network of from in [proxies] (closed)");
    server.stops_clean();
}

fn forwarded_client_is_the_client_of_the_request(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\", \"10.0.0.0/8\"]\n", "");
    let server = TestServer::of_file(&file);
    let own = format!("127.0.0.1:{}", server.addr().port());
    let mut client = server.client();
    let host = format!("test:{}", server.addr().port());
    for (fields, expected) in [
        (vec!["X-Forwarded-For: 192.0.2.1"], format!("192.0.2.1: {own} http off")),
        // The port is the port of Host, because the client did not connect to this listener.
        (
            vec!["X-Forwarded-For: 1.2.3.4, 192.0.2.2:99, 10.0.0.1", "X-Forwarded-Proto: https"],
            "192.0.2.2:99 127.0.0.1:443 https on".to_owned(),
        ),
        (vec!["X-Forwarded-For: nonsense", "X-Forwarded-Proto: gopher"], format!(": {own} http off")),
        (vec!["Forwarded: for=192.0.2.1"], String::new()),
        (vec![], String::new()),
    ] {
        let found = ends(&mut client, &fields);
        match expected.is_empty() {
            true => assert!(
                found.starts_with("127.0.0.1:") && found.ends_with(&format!(" {own} http off")),
                "{found}"
            ),
            false => assert_eq!(found, expected, "{host}"),
        }
    }
    // The client of each request decides, also on one connection.
    assert_eq!(client.get_with("/office", &["X-Forwarded-For: 192.0.2.3"]).status, 200);
    assert_eq!(client.get_with("/office", &["X-Forwarded-For: 198.51.100.1"]).status, 404);
    assert_eq!(client.get("/office").status, 404);
    // A request that never ends is the proxy's.
    client.send("GET / HTTP/1.1\r\nX-Forwarded-For: 192.0.2.4\r\n");
    client.finish();
    client.read_to_end();
    logged(
        &site,
        &[
            "192.0.2.1",
            "192.0.2.2",
            "-",
            "127.0.0.1",
            "127.0.0.1",
            "192.0.2.3",
            "198.51.100.1",
            "127.0.0.1",
            "127.0.0.1",
        ],
    );
    server.stops_clean();
}

fn unknown_proxy_is_not_believed(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"10.0.0.0/8\"]\n", "");
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    let fields = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https"];
    let found = ends(&mut client, &fields);
    assert!(found.starts_with("127.0.0.1:") && found.ends_with(" http off"), "{found}");
    assert_eq!(client.get_with("/office", &fields).status, 404);
    logged(&site, &["127.0.0.1", "127.0.0.1"]);
    server.stops_clean();
}

fn forwarded_field_names_client_and_scheme(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\"]\nfields = \"forwarded\"\n", "");
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    assert_eq!(
        ends(&mut client, &["Forwarded: for=\"[2001:db8::1]:47\";proto=https", "X-Forwarded-For: 192.0.2.1"]),
        "2001:db8::1:47 127.0.0.1:443 https on"
    );
    logged(&site, &["2001:db8::1"]);
    server.stops_clean();
}

fn quote_of_client_gives_no_rights_of_the_proxy(io: Io) {
    let site = site();
    for (key, lists) in [
        ("", ["X-Forwarded-For: \", 203.0.113.9", "X-Forwarded-For: \"x\\, 203.0.113.9"]),
        (
            "fields = \"forwarded\"\n",
            ["Forwarded: for=\"x, for=203.0.113.9", "Forwarded: for=\", for=\"203.0.113.9:1\""],
        ),
    ] {
        let file = configure(io, &site, &format!("[proxies]\nfrom = [\"127.0.0.1\"]\n{key}"), "");
        let server = TestServer::of_file(&file);
        let mut client = server.client();
        assert_eq!(client.get("/own").status, 200, "the proxy asks for itself");
        for list in lists {
            assert_eq!(client.get_with("/own", &[list]).status, 404, "{list}");
        }
        // A client that the proxy does not name is in no network.
        for unnamed in ["X-Forwarded-For: unknown", "Forwarded: for=unknown"] {
            let status = client.get_with("/own", &[unnamed]).status;
            assert_eq!(status == 404, unnamed.starts_with("X-") == key.is_empty(), "{unnamed}");
        }
        logged(&site, &["127.0.0.1", "203.0.113.9", "203.0.113.9", "-", "127.0.0.1"]);
        server.stops_clean();
        fs::remove_file(site.outside("log")).expect("the server wrote it");
    }
}

fn announced_client_of_unix_socket_has_no_address(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\"]\n", PROXY);
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    let tls = [0x20, 0, 5, 1, 0, 0, 0, 0];
    let header = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xe0"[..], &[0; 216], &tls].concat();
    client.send(header);
    let found = ends(&mut client, &[]);
    assert!(found.starts_with("unix:: 127.0.0.1:") && found.ends_with(" https on"), "{found}");
    logged(&site, &["unix:"]);
    server.stops_clean();
}

fn reload_changes_the_believed_proxies(io: Io) {
    let site = site();
    let file = configure(io, &site, "", "");
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    let fields = ["X-Forwarded-For: 192.0.2.1"];
    assert_eq!(client.get_with("/office", &fields).status, 404);
    let written = fs::read_to_string(&file).expect("there");
    fs::write(&file, written.replace("[[host]]\n", "[proxies]\nfrom = [\"127.0.0.1\"]\n[[host]]\n"))
        .expect("ours");
    server.signal(rustix::process::Signal::HUP);
    server.says("reloaded");
    assert_eq!(client.get_with("/office", &fields).status, 200);
    server.stops_clean();
}

fn client_bound_counts_announced_clients(io: Io) {
    let site = site();
    let file = configure(
        io,
        &site,
        "[limits]\nclient_connections_max = 1\n[proxies]\nfrom = [\"127.0.0.1\"]\n",
        PROXY,
    );
    let server = TestServer::of_file(&file);
    let connect = |address: &str| {
        let mut client = server.client();
        client.send(format!("PROXY TCP4 {address} 203.0.113.1 1 2\r\n"));
        client.ask("GET", "/", &[]);
        let status = client.read(ExpectedContent::Follows).status;
        (client, status)
    };
    let (_first, status) = connect("192.0.2.1");
    assert_eq!(status, 200);
    assert_eq!(connect("192.0.2.1").1, 503);
    assert_eq!(connect("192.0.2.2").1, 200);
    server.stops_clean();
}

/// Regression: a draining core took the header of the proxy for a request, because the core had
/// forgotten its listeners.
fn drain_reads_announcements(io: Io) {
    let site = site();
    let file = configure(io, &site, "[proxies]\nfrom = [\"127.0.0.1\"]\n", PROXY);
    let server = TestServer::of_file(&file);
    // The connections wait in the kernel when the drain begins.
    server.signal(Signal::STOP);
    let connect = |_| {
        let mut client = server.client();
        client.send("PROXY TCP4 192.0.2.7 203.0.113.1 4711 8443\r\n");
        client.ask("GET", "/", &["Connection: close"]);
        client
    };
    let clients: Vec<_> = (0..16).map(connect).collect();
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    for mut client in clients {
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    }
    assert_eq!(server.wait(), Some(0), "{server:?}");
}
