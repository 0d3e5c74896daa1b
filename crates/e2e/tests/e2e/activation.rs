//! Listening sockets that a service manager passes (sd_listen_fds(3)).

use crate::support::{Io, TestClient, TestProcess, TestSite, on_both, on_usual, until_or, vermeil};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{CreateFlags, EventData, EventFlags, add, create, wait},
    net::sockopt::set_socket_reuseport,
    process::Signal,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

on_both! {
    connections_wait_in_passed_socket,
    server_starts_although_waiting_clients_exceed_descriptors,
    instances_share_passed_socket,
    passed_unix_socket_keeps_its_file,
    reload_keeps_passed_socket,
    more_cores_take_over_passed_socket,
    passed_socket_with_shared_port_keeps_its_queue,
    connection_is_accepted_though_another_process_took_the_wake_up,
}

on_usual! {
    reload_refuses_mode_of_passed_socket,
    wrong_passed_sockets_are_refused,
}

const RIGHT: &str = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";

/// A configuration with a listener at `address` alone.
fn configuration(io: Io, site: &TestSite, top: &str, address: &str) -> PathBuf {
    site.write("index.html", b"page");
    let file = site.outside("vermeil.toml");
    let text = format!(
        "io = \"{}\"\nlog = \"off\"\n{top}[[listener]]\naddress = \"{address}\"\n[[host]]\nroot = \"site\"\n",
        io.name()
    );
    fs::write(&file, text).expect("written");
    file
}

/// Starts a server that has `socket` as its descriptor 3, with these variables.
fn start(file: &Path, socket: OwnedFd, variables: &str) -> TestProcess {
    let mut command = Command::new("sh");
    let line = format!("exec 3<&0 0</dev/null; export {variables}; exec \"$@\"");
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_vermeil-tested"), "serve", "--config"]);
    command.arg(file).stdin(Stdio::from(socket));
    TestProcess::spawn_with_input(command)
}

#[track_caller]
fn serves(process: &TestProcess) {
    let ready = || process.stderr().contains("\nvermeil: cores:").then_some(());
    until_or(ready, || format!("the server serves: {}", process.stderr()));
}

#[track_caller]
fn stops_clean(process: &TestProcess) {
    process.signal(Signal::TERM);
    assert_eq!(process.wait(), Some(0), "{}", process.stderr());
}

/// The socket of the service manager, and its address.
fn passed() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = socket.local_addr().expect("bound");
    (socket, addr)
}

fn duplicate(socket: &TcpListener) -> OwnedFd {
    socket.try_clone().expect("descriptors").into()
}

fn connections_wait_in_passed_socket(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    let file = configuration(io, &site, "cores = 2\n", &addr.to_string());
    for round in 0..2 {
        let mut early = TestClient::connect(addr);
        early.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let server = start(&file, duplicate(&socket), RIGHT);
        assert_eq!(early.read(crate::support::ExpectedContent::Follows).body, b"page", "round {round}");
        serves(&server);
        for _ in 0..8 {
            assert_eq!(TestClient::connect(addr).get("/").status, 200);
        }
        stops_clean(&server);
    }
}

/// Regression: the first core accepted while the next core had no descriptors yet, and io_uring
/// accepts all waiting connections at once. So the start failed, and failed again under a service
/// manager.
fn server_starts_although_waiting_clients_exceed_descriptors(io: Io) {
    const CLIENTS: usize = 500;
    let site = TestSite::new();
    let (socket, addr) = passed();
    vermeil_io::limit_queue(socket.as_fd(), 2 * CLIENTS as u32).expect("it listens");
    let file = configuration(io, &site, "cores = 2\n", &addr.to_string());
    // In half of the rounds the second core was quick enough.
    for _ in 0..6 {
        let early: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut client = TestClient::connect(addr);
                client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                client
            })
            .collect();
        let server = start(&file, duplicate(&socket), &format!("{RIGHT}; ulimit -n 100"));
        until_or(
            || (server.has_ended() || server.stderr().contains("\nvermeil: cores:")).then_some(()),
            || format!("the server starts: {}", server.stderr()),
        );
        assert!(!server.has_ended(), "{}", server.stderr());
        drop(early);
        until_or(
            || (TestClient::connect(addr).get("/").status == 200).then_some(()),
            || format!("the server serves: {}", server.stderr()),
        );
        stops_clean(&server);
    }
}

/// The other process is as the io_uring of a killed instance, which waits at the listener for some
/// more time and accepts nothing.
fn connection_is_accepted_though_another_process_took_the_wake_up(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    let poll = create(CreateFlags::CLOEXEC).expect("descriptors");
    let (data, flags) = (EventData::new_u64(0), EventFlags::IN | EventFlags::EXCLUSIVE);
    // The kernel wakes the first of the waiters, so this is before the server.
    add(&poll, &socket, data, flags).expect("a socket");
    let woken = std::thread::spawn(move || {
        let mut events = Vec::with_capacity(1);
        wait(&poll, spare_capacity(&mut events), None).expect("an event")
    });
    let file = configuration(io, &site, "cores = 1\n", &addr.to_string());
    let server = start(&file, duplicate(&socket), RIGHT);
    serves(&server);
    assert_eq!(TestClient::connect(addr).get("/").status, 200);
    assert_eq!(woken.join().expect("no panic"), 1);
    stops_clean(&server);
}

fn instances_share_passed_socket(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    let file = configuration(io, &site, "cores = 2\ninstances = 2\n", &addr.to_string());
    let server = start(&file, duplicate(&socket), RIGHT);
    serves(&server);
    for _ in 0..8 {
        assert_eq!(TestClient::connect(addr).get("/").status, 200);
    }
    stops_clean(&server);
}

fn passed_unix_socket_keeps_its_file(io: Io) {
    let site = TestSite::new();
    let path = site.outside("socket");
    let socket = UnixListener::bind(&path).expect("bound");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    let file = configuration(io, &site, "cores = 2\n", "unix:socket");
    for round in 0..2 {
        let server = start(&file, socket.try_clone().expect("descriptors").into(), RIGHT);
        serves(&server);
        let mut client = UnixStream::connect(&path).expect("connected");
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("page"), "round {round}: {answer}");
        stops_clean(&server);
        let mode = fs::metadata(&path).expect("the file stays").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "round {round}");
    }
}

fn reload_keeps_passed_socket(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    let file = configuration(io, &site, "cores = 2\n", &addr.to_string());
    let server = start(&file, duplicate(&socket), RIGHT);
    serves(&server);
    let text = fs::read_to_string(&file).expect("there");
    let more =
        "[[host]]\nnames = [\"b.example\"]\nroot = \"site\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n";
    fs::write(&file, text.clone() + more).expect("written");
    for (reload, text) in [(1, text.clone() + more), (2, text)] {
        fs::write(&file, text).expect("written");
        server.signal(Signal::HUP);
        let reloads = || (server.stderr().matches("reloaded: ").count() == reload).then_some(());
        until_or(reloads, || format!("the server reloads: {}", server.stderr()));
        assert_eq!(TestClient::connect(addr).get("/").status, 200);
    }
    stops_clean(&server);
}

fn reload_refuses_mode_of_passed_socket(io: Io) {
    for top in ["cores = 2\n", "cores = 2\ninstances = 2\n"] {
        let site = TestSite::new();
        let path = site.outside("socket");
        let socket = UnixListener::bind(&path).expect("bound");
        let before = fs::metadata(&path).expect("there");
        let file = configuration(io, &site, top, "unix:socket");
        let server = start(&file, socket.into(), RIGHT);
        serves(&server);
        let text = fs::read_to_string(&file).expect("there");
        let other = text.replace("[[host]]", "mode = \"0600\"\n[[host]]");
        fs::write(&file, other).expect("written");
        server.signal(Signal::HUP);
        let refused = "decides about its mode: write the former mode 0666 again, and change SocketMode=";
        let said = || server.stderr().contains(refused).then_some(());
        until_or(said, || format!("{refused}: {}", server.stderr()));
        let after = fs::metadata(&path).expect("there");
        assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()), "the manager's file stays");
        fs::write(&file, text).expect("written");
        server.signal(Signal::HUP);
        let reloaded = || server.stderr().contains("reloaded: ").then_some(());
        until_or(reloaded, || format!("the server reloads: {}", server.stderr()));
        assert!(UnixStream::connect(&path).is_ok());
        stops_clean(&server);
    }
}

/// Regression: the server bound further sockets, which the address refuses.
fn more_cores_take_over_passed_socket(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    let file = configuration(io, &site, "control = \"control\"\ncores = 1\n", &addr.to_string());
    let mut server = start(&file, duplicate(&socket), RIGHT);
    serves(&server);
    let text = fs::read_to_string(&file).expect("there");
    for cores in [2, 1] {
        fs::write(&file, text.replace("cores = 1", &format!("cores = {cores}"))).expect("written");
        let mut command = vermeil(&["serve", "--take-over", "--config"]);
        command.arg(&file);
        let next = TestProcess::spawn(command);
        let took = || next.stderr().contains("took over from process ").then_some(());
        until_or(took, || format!("{cores} cores take over: {}", next.stderr()));
        assert!(!next.stderr().contains("does not choose"), "{}", next.stderr());
        assert_eq!(server.wait(), Some(0), "{}", server.stderr());
        for _ in 0..8 {
            assert_eq!(TestClient::connect(addr).get("/").status, 200);
        }
        server = next;
    }
    stops_clean(&server);
}

/// A passed socket belongs to the service manager, also with `ReusePort=yes`: a server that leaves
/// the address closes no queue.
fn passed_socket_with_shared_port_keeps_its_queue(io: Io) {
    let site = TestSite::new();
    let (socket, addr) = passed();
    set_socket_reuseport(&socket, true).expect("an option");
    let file = configuration(io, &site, "cores = 2\n", &addr.to_string());
    let server = start(&file, duplicate(&socket), RIGHT);
    serves(&server);
    for _ in 0..8 {
        assert_eq!(TestClient::connect(addr).get("/").status, 200);
    }
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text.replace(&addr.to_string(), "127.0.0.1:0")).expect("written");
    server.signal(Signal::HUP);
    let left = || server.stderr().contains(&format!("no longer listening on {addr}")).then_some(());
    until_or(left, || format!("the server leaves the address: {}", server.stderr()));
    let waiting: Vec<_> = (0..8)
        .map(|_| TcpStream::connect_timeout(&addr, Duration::from_secs(10)).expect("the queue has room"))
        .collect();
    drop(waiting);
    stops_clean(&server);
}

fn wrong_passed_sockets_are_refused(io: Io) {
    let site = TestSite::new();
    let refused = |address: &str, socket: OwnedFd, variables: &str, message: &str| {
        let process = start(&configuration(io, &site, "", address), socket, variables);
        let code = process.wait();
        let said = || process.stderr().contains(message).then_some(());
        until_or(said, || format!("{message}: {}", process.stderr()));
        assert_eq!(code, Some(3), "{}", process.stderr());
    };
    let (socket, addr) = passed();
    let unnamed = format!("sockets that no listener names: {addr}; add a [[listener]] with this address");
    refused("127.0.0.1:0", duplicate(&socket), RIGHT, &unnamed);
    let asked = addr.to_string();
    let of_parent = "LISTEN_PID=1 LISTEN_FDS=1";
    refused(&asked, duplicate(&socket), of_parent, "the address is in use by");
    let many = "LISTEN_PID=$$ LISTEN_FDS=many";
    refused(&asked, duplicate(&socket), many, "LISTEN_FDS is \"many\", which is no number up to 256");
    let two = "LISTEN_PID=$$ LISTEN_FDS=2";
    refused(&asked, duplicate(&socket), two, "announced 2 sockets in LISTEN_FDS, but not all are open");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let kind = "descriptor 3 (web), which is no listening stream socket";
    refused("127.0.0.1:0", datagrams.into(), RIGHT, kind);
    if let Ok(both) = TcpListener::bind("[::]:0") {
        refused(
            "127.0.0.1:0",
            both.into(),
            RIGHT,
            "(web), which takes IPv4 too; write BindIPv6Only=ipv6-only",
        );
    }
}
