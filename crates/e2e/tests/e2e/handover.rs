//! `--take-over`: another server takes over the same addresses, and no client notices. If the other
//! server cannot start, no client notices either.

use crate::support::{
    ExpectedContent, Io, TestClient, TestProcess, TestServer, TestSite, noise, on_both, on_usual, until,
    vermeil,
};
use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send},
    process::{Signal, geteuid},
};
use serde_json::Value;
use std::{
    fs,
    io::{IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

on_both! {
    handover_between_any_sizes_loses_no_request,
    every_way_to_balance_follows_every_other,
    one_that_cannot_start_changes_nothing,
    while_one_takes_over_no_other_configuration_is_taken,
    successor_stopped_early_leaves_predecessor_serving,
    takeover_from_stopping_server_cuts_no_request,
    draining_server_reports_handover_not_stop,
    one_that_stops_leaves_its_control_socket_to_the_next_one,
    stopping_server_leaves_unix_socket_to_successor,
    a_command_line_takes_over_from_another_user_of_ports_and_agent_checks,
    addresses_that_the_next_one_does_not_want_are_closed,
}

on_usual! {
    upgrade_without_server_starts_normally,
    service_manager_learns_serving_process,
}

const HOST: &str = "[[host]]\nroot = \"site\"\n";

/// Writes the configuration.
fn configure(io: Io, site: &TestSite, top: &str) -> PathBuf {
    site.configure(io, &format!("control = \"control\"\n{top}{HOST}"))
}

#[track_caller]
fn next(file: &Path) -> TestServer {
    let next = TestServer::of_file_with(file, &["--take-over"]);
    next.says("vermeil: took over from process ");
    let said = next.stderr();
    assert!(!said.contains("does not choose") && !said.contains("does not let go"), "{said}");
    next
}

/// Waits for the end of a server after its successor has taken over.
#[track_caller]
fn ends(server: &TestServer, next: u32) {
    server.says(&format!("vermeil: process {next} has taken over\n"));
    server.says("vermeil: stopped: ");
    assert_eq!(server.wait(), Some(0), "{server:?}");
    assert!(!server.stderr().contains("panicked"), "{server:?}");
}

#[track_caller]
fn status(control: &Path) -> Value {
    let output = vermeil(&["status", "--json", "--control", control.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Clients send requests all the time, on kept and on fresh connections, while `change` runs.
/// `change` gets a function that waits until some more requests were answered.
fn under_load(addr: SocketAddr, content: &[u8], change: impl FnOnce(&dyn Fn())) {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = |requests_per_connection: usize| {
        while !stop.load(Ordering::Relaxed) {
            let mut client = TestClient::connect(addr);
            for _ in 0..requests_per_connection {
                let response = client.get("/page");
                assert!(response.status == 200 && response.body == content);
                answered.fetch_add(1, Ordering::Relaxed);
                // Without the pause, the kernel takes seconds on two cpus, because the kernel ends
                // processes when it has time.
                thread::park_timeout(Duration::from_millis(1));
                // The server drains, and its answer said that the connection closes.
                if response.closes() {
                    break;
                }
            }
        }
    };
    let more_is_answered = || {
        let before = answered.load(Ordering::Relaxed);
        until("more is answered", || (answered.load(Ordering::Relaxed) > before + 50).then_some(()));
    };
    thread::scope(|scope| {
        for requests in [1, 1, 50, 50] {
            scope.spawn(move || ask(requests));
        }
        more_is_answered();
        change(&more_is_answered);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Servers with these tops of their configurations follow each other.
fn follow(io: Io, tops: &[&str]) {
    let site = TestSite::new();
    let content = noise(3, 100_000);
    site.write("page", &content);
    let mut server = TestServer::of_file(&configure(io, &site, tops[0]));
    let addr = server.addr();
    let mut past: Vec<(TestServer, u32)> = Vec::new();
    under_load(addr, &content, |more_is_answered| {
        for top in &tops[1..] {
            let next = next(&configure(io, &site, top));
            assert_eq!(next.addr(), addr);
            assert_eq!(status(&site.outside("control"))["pid"], next.pid(), "{next:?}");
            more_is_answered();
            let pid = next.pid();
            past.push((std::mem::replace(&mut server, next), pid));
        }
    });
    for (server, next) in &past {
        ends(server, *next);
    }
    server.stops_clean();
    assert!(!site.outside("control").exists(), "the last one has the name");
}

fn handover_between_any_sizes_loses_no_request(io: Io) {
    let two = "instances = 2\n";
    follow(io, &["", "", "cores = \"0-0\"\n", two, two, "instances = 5\n", "instances = 3\n", ""]);
}

fn every_way_to_balance_follows_every_other(io: Io) {
    let (aware, local) = ("balance = \"load-aware\"\n", "balance = \"local\"\n");
    let two = "instances = 2\nbalance = \"load-aware\"\n";
    follow(io, &[aware, aware, local, two, "balance = \"hash\"\n", "balance = \"round-robin\"\n", local]);
}

fn one_that_cannot_start_changes_nothing(io: Io) {
    let site = TestSite::new();
    let content = noise(3, 100_000);
    site.write("page", &content);
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let server = TestServer::of_file(&configure(io, &site, instances));
        under_load(server.addr(), &content, |more_is_answered| {
            for (text, code, words) in [
                ("[[host]]\nrot = \"site\"\n", 2, "host.rot: there is no such key"),
                ("[[host]]\nroot = \"gone\"\n", 3, "gone: there is no such folder"),
            ] {
                let file = site.configure(io, &format!("control = \"control\"\n{instances}{text}"));
                let refused = vermeil(&["serve", "--config", file.to_str().unwrap(), "--take-over"]);
                let refused = TestProcess::spawn(refused);
                assert_eq!(refused.wait(), Some(code), "{}", refused.stderr());
                until("it says why", || refused.stderr().contains(words).then_some(()));
                more_is_answered();
            }
            server.says("which was to take over, has not come to serve: going on as before\n");
            assert_eq!(status(&site.outside("control"))["pid"], server.pid());
        });
        // The state is as before: another configuration, and another process.
        configure(io, &site, instances);
        server.signal(Signal::HUP);
        server.says("vermeil: reloaded: ");
        let next = next(&configure(io, &site, instances));
        ends(&server, next.pid());
        assert_eq!(next.get("/").status, 200);
        next.stops_clean();
    }
}

fn while_one_takes_over_no_other_configuration_is_taken(io: Io) {
    let site = TestSite::new();
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let server = TestServer::of_file(&configure(io, &site, instances));
        let control = site.outside("control");
        let ask = |what: &str| {
            let mut stream = UnixStream::connect(&control).unwrap();
            stream.write_all(what.as_bytes()).unwrap();
            stream
        };
        // The link that arrives stays in this stream until the receiver takes the link.
        let taking = ask("take over\n");
        let said = |mut stream: UnixStream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let refused = said(ask("reload\n"));
        assert!(refused.starts_with("refused\nanother process is taking over;"), "{refused}");
        let refused = said(ask("take over\n"));
        assert!(refused.starts_with("refused\nprocess ") && refused.contains("already"), "{refused}");
        drop(taking);
        server.says("has not come to serve: going on as before\n");
        let taken = said(ask("reload\n"));
        assert!(taken.starts_with("reloaded\n"), "{taken}");
        assert_eq!(server.get("/").status, 200);
        server.stops_clean();
    }
}

/// Whether a process waits for SIGTERM already, or has ended.
fn minds_being_stopped(process: &TestProcess) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.map_or(u64::MAX, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    caught & 1 << (Signal::TERM.as_raw() - 1) != 0
}

/// Regression: the signal stayed pending, so the successor took over, stopped the old server, and
/// then ended too.
fn successor_stopped_early_leaves_predecessor_serving(io: Io) {
    let site = TestSite::new();
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let file = configure(io, &site, instances);
        let mut server = TestServer::of_file(&file);
        // A server that was faster than the signal has taken over.
        until("one is told in time", || {
            let next =
                TestProcess::spawn(vermeil(&["serve", "--config", file.to_str().unwrap(), "--take-over"]));
            until("it minds signals", || minds_being_stopped(&next).then_some(()));
            next.signal(Signal::TERM);
            assert_eq!(next.wait(), Some(0), "{}", next.stderr());
            until("it has said all", || next.stderr().contains("vermeil: stopped: ").then_some(()));
            let said = format!("told to stop before it served: process {} goes on\n", server.pid());
            if next.stderr().contains(&said) {
                assert!(!next.stderr().contains("took over"), "{}", next.stderr());
                return Some(());
            }
            assert_eq!(server.wait(), Some(0), "{}", next.stderr());
            server = TestServer::of_file(&file);
            None
        });
        server.says("which was to take over, has not come to serve: going on as before\n");
        assert_eq!(status(&site.outside("control"))["pid"], server.pid());
        assert_eq!(server.get("/").status, 200);
        server.signal(Signal::HUP);
        server.says("vermeil: reloaded: ");
        server.stops_clean();
    }
}

/// Takes over up to the point of having the sockets, in a link that no process has read.
fn begin_to_take_over(control: &Path) -> OwnedFd {
    let mut stream = UnixStream::connect(control).unwrap();
    stream.write_all(b"take over\n").unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(&stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags).unwrap();
    let link = ancillary.drain().find_map(|content| match content {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    link.expect("a link")
}

/// A client that has sent the half of a request. The request before it was answered, because a
/// connection that `server` has not accepted yet may be accepted by the successor.
fn client_amid_request(server: &TestServer) -> TestClient {
    let mut client = server.client();
    assert_eq!(client.get("/").status, 200);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n");
    client
}

/// Regression: the take-over counted as the second signal to stop.
fn takeover_from_stopping_server_cuts_no_request(io: Io) {
    let site = TestSite::new();
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let agent = free_port();
        let server = TestServer::of_file(&configure(io, &site, &format!("agent = \"{agent}\"\n{instances}")));
        let told = || {
            let mut line = String::new();
            TcpStream::connect(agent).unwrap().read_to_string(&mut line).unwrap();
            line
        };
        let mut busy = client_amid_request(&server);
        let link = begin_to_take_over(&site.outside("control"));
        server.signal(Signal::TERM);
        server.says("draining, at most 30 s");
        assert_eq!(told(), "drain\n", "nobody has taken over yet");
        send(&link, br#"{"descriptors":0,"body":{"has_control":true}}"#, SendFlags::empty()).unwrap();
        server.says(&format!("vermeil: process {} has taken over\n", std::process::id()));
        assert!(told().starts_with("ready up "), "as the one that has taken over");
        busy.send("\r\n");
        let last = busy.read(ExpectedContent::Follows);
        assert!(last.status == 200 && last.closes(), "{server:?}");
        server.says("vermeil: stopped: ");
        assert_eq!(server.wait(), Some(0), "{server:?}");
    }
}

/// A service manager also signals the draining server. Regression: the signal cut the draining
/// server's requests.
fn draining_server_reports_handover_not_stop(io: Io) {
    let site = TestSite::new();
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let file = configure(io, &site, instances);
        for signals in [1, 2] {
            let server = TestServer::of_file(&file);
            let mut busy = client_amid_request(&server);
            let next = next(&file);
            server.says("draining, at most 30 s");
            server.signal(Signal::TERM);
            server.says("told to stop, and draining already; a second signal ends it now\n");
            if signals == 1 {
                busy.send("\r\n");
                let last = busy.read(ExpectedContent::Follows);
                assert_eq!(last.status, 200, "{server:?}");
                // The supervisor says so a moment before an instance learns of the end. In that
                // moment the answer does not announce the close.
                busy.ends_silently();
                ends(&server, next.pid());
            } else {
                server.signal(Signal::TERM);
                assert_eq!(server.wait(), Some(4), "{server:?}");
                assert!(busy.try_read(ExpectedContent::Follows).is_err(), "{server:?}");
            }
            next.stops_clean();
        }
    }
}

/// Regression: the old server removed the name of the control socket, so the successor was not
/// reachable under that name.
fn one_that_stops_leaves_its_control_socket_to_the_next_one(io: Io) {
    let site = TestSite::new();
    let control = site.outside("control");
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let server = TestServer::of_file(&configure(io, &site, instances));
        let link = begin_to_take_over(&control);
        server.stops_clean();
        assert!(UnixStream::connect(&control).is_ok(), "the link has the socket");
        // A link that no process holds any more blocks no successor.
        drop(link);
        let next = TestServer::of_file(&configure(io, &site, instances));
        assert_eq!(status(&control)["pid"], next.pid());
        next.stops_clean();
        assert!(!control.exists());
    }
}

/// Regression: the old server removed the path of the unix socket that the new server had
/// inherited.
fn stopping_server_leaves_unix_socket_to_successor(io: Io) {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let listener = "[[listener]]\naddress = \"unix:v.sock\"\n";
        let file = configure(io, &site, &format!("{instances}{listener}"));
        let server = TestServer::of_file(&file);
        let link = begin_to_take_over(&site.outside("control"));
        server.stops_clean();
        assert!(UnixStream::connect(&path).is_ok(), "the link has the socket");
        drop(link);

        let server = TestServer::of_file(&file);
        let mut busy = client_amid_request(&server);
        let link = begin_to_take_over(&site.outside("control"));
        server.signal(Signal::TERM);
        server.says("draining, at most 30 s");
        drop(link);
        until("no process takes over", || (!path.exists()).then_some(()));
        busy.send("\r\n");
        assert_eq!(busy.read(ExpectedContent::Follows).status, 200);
        assert_eq!(server.wait(), Some(0), "{server:?}");
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn a_command_line_takes_over_from_another_user_of_ports_and_agent_checks(io: Io) {
    let site = TestSite::new();
    let (control, agent) = (site.outside("control"), free_port().to_string());
    let mut args = vec!["--control", control.to_str().unwrap(), "--agent", &agent];
    let is_root = geteuid().is_root();
    if is_root {
        fs::set_permissions(site.outside("."), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // The user that opened the sockets differs from the user that hands the sockets over.
        args.extend(["--user", "nobody:nogroup"]);
    } else {
        eprintln!("SKIPPED: only the superuser may become other users");
    }
    let told = || {
        let mut line = String::new();
        TcpStream::connect(&agent).unwrap().read_to_string(&mut line).unwrap();
        line
    };
    let server = TestServer::start(io, &site, &args);
    assert!(told().starts_with("ready up "), "{server:?}");
    // A request that takes a while: the old server drains meanwhile.
    let mut busy = client_amid_request(&server);
    args.push("--take-over");
    let next = TestServer::start(io, &site, &args);
    next.says(&format!("vermeil: took over from process {}, which drains\n", server.pid()));
    assert_eq!(next.addr(), server.addr());
    server.says("draining, at most 30 s");
    until("only the next one answers", || told().starts_with("ready up ").then_some(()));
    assert_eq!(next.get("/").status, 200);
    busy.send("\r\n");
    let last = busy.read(ExpectedContent::Follows);
    assert!(last.status == 200 && last.closes(), "{server:?}");
    ends(&server, next.pid());
    assert!(told().starts_with("ready up "), "{next:?}");
    next.stops_clean();
}

fn addresses_that_the_next_one_does_not_want_are_closed(io: Io) {
    let site = TestSite::new();
    let other = free_port();
    let listener = format!("[[listener]]\naddress = \"{other}\"\n");
    let both = site.configure(io, &format!("control = \"control\"\n{HOST}{listener}"));
    let server = TestServer::of_file(&both);
    assert_eq!(TestClient::connect(other).get("/").status, 200);
    let next = next(&configure(io, &site, ""));
    next.says(&format!("vermeil: no longer listening on {other}\n"));
    ends(&server, next.pid());
    assert!(TestClient::try_connect(other).is_none());
    assert_eq!(next.get("/").status, 200);
    // A listener that returns is opened, not taken over.
    site.configure(io, &format!("control = \"control\"\n{HOST}{listener}"));
    let last = self::next(&both);
    ends(&next, last.pid());
    assert_eq!(TestClient::connect(other).get("/").status, 200);
    last.stops_clean();
}

fn upgrade_without_server_starts_normally(io: Io) {
    let site = TestSite::new();
    let server = TestServer::of_file_with(&configure(io, &site, ""), &["--take-over"]);
    server.says("vermeil: nothing to take over: cannot ask the server at ");
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}

fn service_manager_learns_serving_process(io: Io) {
    let site = TestSite::new();
    let place = site.outside("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let start = |top: &str| {
        let file = configure(io, &site, top);
        let mut command = vermeil(&["serve", "--config", file.to_str().unwrap(), "--take-over"]);
        command.env("NOTIFY_SOCKET", &place);
        let process = TestProcess::spawn(command);
        let mut told = [0; 256];
        let bytes = manager.recv(&mut told).unwrap_or_else(|error| panic!("{error}: {}", process.stderr()));
        let expected = format!("READY=1\nMAINPID={}", process.pid());
        assert_eq!(str::from_utf8(&told[..bytes]), Ok(expected.as_str()));
        process
    };
    let first = start("");
    let second = start("instances = 2\n");
    assert_eq!(first.wait(), Some(0), "{}", first.stderr());
    second.signal(Signal::TERM);
    assert_eq!(second.wait(), Some(0), "{}", second.stderr());
}
