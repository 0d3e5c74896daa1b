//! Another configuration while the server runs: taken as a whole or refused as a whole, and no
//! connection is closed.

use crate::support::{
    ExpectedContent, Io, TestClient, TestServer, TestSite, noise, on_both, on_usual, until,
};
use rustix::process::Signal;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

on_both! {
    a_connection_gets_the_new_hosts_with_its_next_request,
    addresses_come_and_go,
    repeated_reload_loses_no_request,
    limits_and_the_log_change,
}

on_usual! {
    a_bad_configuration_is_refused_and_the_old_stays,
    reload_names_keys_that_need_restart,
    a_server_without_a_file_opens_its_log_anew,
    log_that_is_turned_on_has_open_connections,
    refused_https_leaves_no_handler,
}

/// Writes the configuration and reloads the server; waits until the server has printed `words` once
/// more.
fn reload(server: &TestServer, site: &TestSite, io: Io, text: &str, words: &str) {
    let before = server.stderr().matches(words).count();
    site.configure(io, text);
    server.signal(Signal::HUP);
    until("it has reloaded", || (server.stderr().matches(words).count() > before).then_some(()));
}

fn folder(site: &TestSite, name: &str) {
    fs::create_dir(site.outside(name)).unwrap();
    fs::write(site.outside(name).join("index.html"), name).unwrap();
}

fn a_connection_gets_the_new_hosts_with_its_next_request(io: Io) {
    let site = TestSite::new();
    folder(&site, "new");
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let client = &mut server.client();
    assert_eq!(client.get("/").text(), "<!doctype html>home\n");
    reload(
        &server,
        &site,
        io,
        "[[host]]\nnames = [\"test\"]\nroot = \"new\"\n[[host]]\nnames = [\"x\"]\n",
        "reloaded: 2 hosts",
    );
    assert_eq!(client.get("/").text(), "new");
    assert_eq!(server.get("/").text(), "new");
    server.stops_clean();
}

fn a_bad_configuration_is_refused_and_the_old_stays(io: Io) {
    let site = TestSite::new();
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let client = &mut server.client();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use =
        format!("[[host]]\nroot = \"site\"\n[[listener]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    for (text, words) in [
        (
            "[[host]]\nrot = \"site\"\n",
            "vermeil.toml:6:1: host.rot: there is no such key; did you mean `root`?",
        ),
        ("[[host]]\nroot = \"gone\"\n", "gone: there is no such folder"),
        (&in_use, "the address is in use by"),
    ] {
        reload(&server, &site, io, text, "the configuration stays as it is");
        server.says(words);
        assert_eq!(client.get("/").text(), "<!doctype html>home\n");
    }
    reload(&server, &site, io, "[[host]]\nroot = \"site\"\n", "vermeil: reloaded: ");
    assert_eq!(client.get("/").status, 200);
    server.stops_clean();
}

/// A port that is free at this moment.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn addresses_come_and_go(io: Io) {
    let site = TestSite::new();
    let host = "[[host]]\nroot = \"site\"\n";
    let server = TestServer::configured(io, &site, host);
    let other = free_port();
    assert!(TestClient::try_connect(other).is_none());
    let both = format!("{host}[[listener]]\naddress = \"{other}\"\n");
    reload(&server, &site, io, &both, "vermeil: reloaded: ");
    server.says(&format!("listening on {other} too"));
    let mut kept = TestClient::connect(other);
    assert_eq!(kept.get("/").status, 200);
    assert_eq!(server.get("/").status, 200);
    reload(&server, &site, io, host, &format!("no longer listening on {other}"));
    until("nobody listens", || TestClient::try_connect(other).is_none().then_some(()));
    assert_eq!(kept.get("/").status, 200, "a connection outlives its listener");
    assert_eq!(server.get("/").status, 200);
    // All interfaces in addition to a single interface, on a port that this server has.
    let all = format!("{host}[[listener]]\naddress = \"0.0.0.0:{}\"\n", other.port());
    reload(&server, &site, io, &both, "vermeil: reloaded: ");
    reload(&server, &site, io, &all, &format!("no longer listening on {other}"));
    assert_eq!(TestClient::connect(other).get("/").status, 200);
    server.stops_clean();
}

/// Clients that ask without a pause, on connections that last and on such that do not.
fn repeated_reload_loses_no_request(io: Io) {
    let site = TestSite::new();
    let content = noise(3, 200_000);
    site.write("page", &content);
    folder(&site, "new");
    fs::write(site.outside("new/page"), &content).unwrap();
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = |requests_per_connection: usize| {
        while !stop.load(Ordering::Relaxed) {
            let mut client = server.client();
            for _ in 0..requests_per_connection {
                let response = client.get("/page");
                assert!(response.status == 200 && response.body == content);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for requests in [1, 1, 50, 50] {
            scope.spawn(move || ask(requests));
        }
        for round in 0..20 {
            let before = answered.load(Ordering::Relaxed);
            let root = if round % 2 == 0 { "new" } else { "site" };
            reload(&server, &site, io, &format!("[[host]]\nroot = \"{root}\"\n"), "vermeil: reloaded: ");
            until("more is answered", || (answered.load(Ordering::Relaxed) > before + 10).then_some(()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    server.stops_clean();
}

fn limits_and_the_log_change(io: Io) {
    let site = TestSite::new();
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let client = &mut server.client();
    assert_eq!(client.get_with("/", &["A: 1", "B: 2", "C: 3"]).status, 200);
    reload(
        &server,
        &site,
        io,
        "[[host]]\nroot = \"site\"\n[limits]\nheader_count = 3\n",
        "vermeil: reloaded: ",
    );
    assert_eq!(client.get_with("/", &["A: 1", "B: 2", "C: 3"]).status, 431);
    let file = site.configure(io, "[[host]]\nroot = \"site\"\n");
    let text = fs::read_to_string(&file).unwrap().replace("log = \"off\"", "log = \"access.log\"");
    fs::write(&file, text).unwrap();
    server.signal(Signal::HUP);
    until("it has reloaded", || (server.stderr().matches("vermeil: reloaded: ").count() == 2).then_some(()));
    server.get("/logged");
    until("a line is there", || {
        fs::read_to_string(site.outside("access.log")).unwrap().contains("GET /logged").then_some(())
    });
    server.stops_clean();
}

/// Regression: a reload turned the log on, and requests on open connections had no line.
fn log_that_is_turned_on_has_open_connections(io: Io) {
    let site = TestSite::new();
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let client = &mut server.client();
    assert_eq!(client.get("/").status, 200);
    let file = site.configure(io, "[[host]]\nroot = \"site\"\n");
    let text = fs::read_to_string(&file).unwrap().replace("log = \"off\"", "log = \"access.log\"");
    fs::write(&file, text).unwrap();
    server.signal(Signal::HUP);
    server.says("vermeil: reloaded: ");
    assert_eq!(client.get("/logged").status, 404);
    let line = until("a line is there", || {
        let text = fs::read_to_string(site.outside("access.log")).ok()?;
        text.lines().next().map(str::to_owned)
    });
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\"GET /logged HTTP/1.1\" 404 "), "{line}");
    server.stops_clean();
}

fn reload_names_keys_that_need_restart(io: Io) {
    let site = TestSite::new();
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let text = "[[host]]\nroot = \"site\"\n[cache]\nentries = 7\n[hosts]\nopen_max = 3\n\
                [programs]\nspool_folder = \"/nowhere\"\nspool_bytes = 7\n";
    reload(&server, &site, io, text, "vermeil: reloaded: ");
    server.says(
        "vermeil: only a restart changes cache, hosts.open_max, programs.spool_folder, programs.spool_bytes\n",
    );
    server.stops_clean();
}

/// Regression: each refused reload with the first TLS listener left a handler, and the runtime has
/// room for a few hundred.
fn refused_https_leaves_no_handler(io: Io) {
    let site = TestSite::new();
    let host = "[[host]]\nroot = \"site\"\n";
    let server = TestServer::configured(io, &site, host);
    let listener = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n";
    let secure = format!("{listener}{host}certificate = \"none.pem\"\n");
    for _ in 0..300 {
        reload(&server, &site, io, &secure, "the configuration stays as it is");
    }
    server.says("cannot serve HTTPS: ");
    reload(&server, &site, io, host, "vermeil: reloaded: ");
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}

fn a_server_without_a_file_opens_its_log_anew(io: Io) {
    let site = TestSite::new();
    let log = site.outside("access.log");
    let server = TestServer::start(io, &site, &["--log", log.to_str().unwrap()]);
    let client: &mut TestClient = &mut server.client();
    client.get("/");
    fs::rename(&log, site.outside("old.log")).unwrap();
    server.signal(Signal::HUP);
    until("there is a new one", || fs::metadata(&log).ok());
    client.ask("GET", "/", &[]);
    assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    assert!(!server.stderr().contains("reloaded"), "{server:?}");
    server.stops_clean();
}
