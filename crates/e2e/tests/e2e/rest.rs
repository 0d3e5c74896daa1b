//! Connections that wait for their next request. After a while the connections rest where other
//! cores can take them. A neighbour then answers a request although the core that accepted the
//! connection is stuck. All rules for idle connections hold for resting connections too.
//!
//! The server reports whether connections rest, because the server sees the core's shelf. On a
//! machine with one cpu, or without the right to trace, the tests report a skip and pass.

use crate::support::{
    ExpectedContent, Io, StoppedThread, TestClient, TestServer, TestSite, noise, on_both, two_cpus, until,
    vermeil,
};
use crate::tls::{self, TestCertificate, TlsClient, secure_addr, trusting};
use rustls::version::TLS13;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

on_both! {
    a_stuck_core_holds_up_no_connection_that_rests,
    a_stuck_core_holds_up_no_tls_connection_that_rests,
    no_request_is_lost_while_cores_get_stuck_now_and_then,
    requests_are_counted_on_from_one_core_to_another,
    connection_of_a_proxy_itself_is_announced_once,
    a_request_in_pieces_goes_on_elsewhere,
    client_leaving_stuck_core_is_forgotten,
    keep_alive_timeout_closes_resting_connection,
    timely_request_of_resting_connection_is_answered,
    a_full_neighbour_makes_room,
    resting_connection_gives_way_to_new_ones,
    stop_closes_resting_connection,
    connection_reading_an_answer_does_not_rest,
    connection_without_neighbours_does_not_rest,
}

/// A server on two cores that can be asked.
struct AskedServer {
    server: TestServer,
    control: String,
}

impl AskedServer {
    fn start(io: Io, site: &TestSite, cpus: [usize; 2], args: &[&str]) -> Self {
        Self::on(io, site, &format!("{},{}", cpus[0], cpus[1]), args)
    }

    fn on(io: Io, site: &TestSite, cores: &str, args: &[&str]) -> Self {
        site.write("a.txt", b"a");
        let control = site.outside("control").to_str().expect("UTF-8").to_owned();
        let ours = ["--cores", cores, "--balance", "local", "--control", &control];
        let server = TestServer::start(io, site, &[&ours, args].concat());
        Self { server, control }
    }

    /// The value of `field` in the status, for each core.
    fn of_cores(&self, field: &str) -> Vec<u64> {
        let output = vermeil(&["status", "--json", "--control", &self.control]).output().expect("it runs");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let cores = status["instances"][0]["cores"].as_array().expect("cores").clone();
        cores.iter().map(|core| core[field].as_u64().expect("a number")).collect()
    }

    fn sum(&self, field: &str) -> u64 {
        self.of_cores(field).iter().sum()
    }

    /// The core with most connections, and their number, because a busy machine may have delayed
    /// the other core.
    fn fullest(&self) -> (usize, u64) {
        let most = self.of_cores("connections").into_iter().enumerate().max_by_key(|(_, count)| *count);
        most.expect("two cores")
    }

    #[track_caller]
    fn rests(&self, count: usize) {
        until("all of them rest", || (self.sum("resting") == count as u64).then_some(()));
    }

    /// Clients that have asked once, half of the clients from each cpu, and that rest.
    fn clients(&self, cpus: [usize; 2], count: usize) -> Vec<TestClient> {
        let addr = self.server.addr();
        let of = |cpu| {
            let asking = std::thread::spawn(move || {
                vermeil_io::pin_current_thread(cpu).expect("a cpu of ours");
                let mut clients: Vec<_> = (0..count / 2).map(|_| TestClient::connect(addr)).collect();
                clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
                clients
            });
            asking.join().expect("every request is answered")
        };
        let clients: Vec<TestClient> = cpus.into_iter().flat_map(of).collect();
        self.rests(clients.len());
        clients
    }
}

/// All clients ask, then all clients read their answers.
#[track_caller]
fn ask_all(clients: &mut [TestClient]) {
    clients.iter_mut().for_each(|client| client.ask("GET", "/a.txt", &[]));
    clients.iter_mut().for_each(|client| assert_eq!(client.read(ExpectedContent::Follows).status, 200));
}

fn a_stuck_core_holds_up_no_connection_that_rests(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &[]);
    let mut clients = asked.clients(cpus, 12);
    let (core, its) = asked.fullest();
    let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
    // Without a neighbour, the stuck core's clients would wait until the core continues, which
    // happens below.
    ask_all(&mut clients);
    assert!(asked.of_cores("moved")[1 - core] >= its, "{:?}", asked.server);
    drop(stopped);
    ask_all(&mut clients);
    until("who has lost them has noticed", || (asked.sum("connections") == 12).then_some(()));
    assert_eq!((asked.sum("accepted"), asked.sum("requests")), (12, 36));
    asked.rests(12);
    ask_all(&mut clients);
    asked.server.stops_clean();
    let said = asked.server.stderr();
    assert!(said.contains("vermeil: accepted: 12 connections") && said.contains(": 48 requests"), "{said}");
    assert!(!said.contains(" 0 moved between requests"), "{said}");
}

/// The session of TLS continues on the other core.
fn a_stuck_core_holds_up_no_tls_connection_that_rests(io: Io) {
    let Some([first, second]) = two_cpus() else { return };
    let site = TestSite::new();
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let file = site.configure(
        io,
        &format!(
            "control = \"control\"\ncores = \"{first},{second}\"\nbalance = \"local\"\n\
             [[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n\
             [[host]]\nroot = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\n"
        ),
    );
    let control = site.outside("control").to_str().expect("UTF-8").to_owned();
    let asked = AskedServer { server: TestServer::of_file(&file), control };
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    let mut clients: Vec<TlsClient> =
        (0..12).map(|_| tls::client(secure_addr(&asked.server), &config, "a.example")).collect();
    let ask = |client: &mut TlsClient| {
        client.write_all(b"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("an answer");
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    };
    clients.iter_mut().for_each(ask);
    asked.rests(12);
    let (core, its) = asked.fullest();
    let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
    clients.iter_mut().for_each(ask);
    assert!(asked.of_cores("moved")[1 - core] >= its, "{:?}", asked.server);
    drop(stopped);
    clients.iter_mut().for_each(ask);
    drop(clients);
    until("all have been forgotten", || (asked.sum("connections") == 0).then_some(()));
    asked.server.stops_clean();
}

fn no_request_is_lost_while_cores_get_stuck_now_and_then(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &[]);
    let mut clients = asked.clients(cpus, 200);
    for round in 0..4 {
        let core = round % 2;
        // Half of the requests are in transit when the core gets stuck. The core continues while
        // the others are answered.
        let (before, after) = clients.split_at_mut(100);
        before.iter_mut().for_each(|client| client.ask("GET", "/a.txt", &[]));
        let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
        after.iter_mut().for_each(|client| client.ask("GET", "/a.txt", &[]));
        until("some have been answered", || after.iter().any(TestClient::is_readable).then_some(()));
        drop(stopped);
        clients.iter_mut().for_each(|client| assert_eq!(client.read(ExpectedContent::Follows).status, 200));
        asked.rests(200);
    }
    assert_eq!((asked.sum("connections"), asked.sum("requests")), (200, 1000));
    drop(clients);
    until("all have been forgotten", || (asked.sum("connections") == 0).then_some(()));
    asked.server.stops_clean();
}

fn requests_are_counted_on_from_one_core_to_another(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &["--requests-per-connection", "3"]);
    let mut clients = asked.clients(cpus, 8);
    let Some(stopped) = StoppedThread::core(&asked.server, asked.fullest().0) else { return };
    ask_all(&mut clients);
    for client in &mut clients {
        let last = client.get("/a.txt");
        assert_eq!((last.status, last.closes()), (200, true));
        client.ends_silently();
    }
    drop(stopped);
    until("all have been forgotten", || (asked.sum("connections") == 0).then_some(()));
    asked.server.stops_clean();
}

/// Regression: the neighbour waited for a second header of the PROXY protocol.
fn connection_of_a_proxy_itself_is_announced_once(io: Io) {
    let Some([first, second]) = two_cpus() else { return };
    let site = TestSite::new();
    site.write("a.txt", b"a");
    let file = site.configure(
        io,
        &format!(
            "control = \"control\"\ncores = \"{first},{second}\"\nbalance = \"local\"\n\
             [proxies]\nfrom = [\"127.0.0.1\"]\n[[host]]\nroot = \"site\"\n"
        ),
    );
    let written = fs::read_to_string(&file).expect("it was written");
    let listener = "127.0.0.1:0\"\n";
    fs::write(&file, written.replace(listener, &format!("{listener}proxy_protocol = true\n"))).expect("ours");
    let control = site.outside("control").to_str().expect("UTF-8").to_owned();
    let asked = AskedServer { server: TestServer::of_file(&file), control };
    let connect = |_| {
        let mut client = asked.server.client();
        client.send("PROXY UNKNOWN\r\n");
        assert_eq!(client.get("/a.txt").status, 200);
        client
    };
    let mut clients: Vec<TestClient> = (0..8).map(connect).collect();
    asked.rests(8);
    let Some(stopped) = StoppedThread::core(&asked.server, asked.fullest().0) else { return };
    ask_all(&mut clients);
    ask_all(&mut clients);
    drop(stopped);
    asked.server.stops_clean();
}

fn a_request_in_pieces_goes_on_elsewhere(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &[]);
    let mut clients = asked.clients(cpus, 8);
    let (core, _) = asked.fullest();
    let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
    for piece in ["GET /a.txt HTT", "P/1.1\r\nHost: h\r\n\r\nGET /a.txt ", "HTTP/1.1\r\nHost: h\r\n\r\n"] {
        clients.iter_mut().for_each(|client| client.send(piece));
        until("they are taken", || (asked.of_cores("resting")[1 - core] == 0).then_some(()));
    }
    for client in &mut clients {
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    }
    drop(stopped);
    asked.server.stops_clean();
}

fn client_leaving_stuck_core_is_forgotten(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &[]);
    let clients = asked.clients(cpus, 8);
    let (core, its) = asked.fullest();
    let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
    drop(clients);
    until("the neighbour has seen it", || (asked.of_cores("moved")[1 - core] >= its).then_some(()));
    drop(stopped);
    until("all have been forgotten", || (asked.sum("connections") == 0).then_some(()));
    asked.server.stops_clean();
}

fn keep_alive_timeout_closes_resting_connection(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &["--keep-alive-timeout", "4s"]);
    let mut clients = asked.clients(cpus, 4);
    ask_all(&mut clients);
    asked.rests(4);
    clients.iter_mut().for_each(TestClient::ends_silently);
    until("all have been forgotten", || (asked.sum("connections") == 0).then_some(()));
    asked.server.stops_clean();
}

/// A late core finds the request and the expired timeout together.
fn timely_request_of_resting_connection_is_answered(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let timeout = Duration::from_secs(4);
    let asked = AskedServer::start(io, &site, cpus, &["--keep-alive-timeout", "4s"]);
    let mut clients = asked.clients(cpus, 8);
    let answered = Instant::now();
    let stopped = [0, 1].map(|core| StoppedThread::core(&asked.server, core));
    if stopped.iter().any(Option::is_none) || answered.elapsed() > timeout / 4 {
        eprintln!("SKIPPED: both cores could not be stopped in time");
        return;
    }
    clients.iter_mut().for_each(|client| client.ask("GET", "/a.txt", &[]));
    // All answers came before `answered`, so their timeouts are over then.
    until("the timeout is over", || (answered.elapsed() > timeout).then_some(()));
    drop(stopped);
    clients.iter_mut().for_each(|client| assert_eq!(client.read(ExpectedContent::Follows).status, 200));
    asked.server.stops_clean();
}

/// Each core holds its maximum of connections, all idle: a neighbour continues with connections
/// that have a request, beyond its bound or in place of connections of its own.
fn a_full_neighbour_makes_room(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &["--connections-max", "8"]);
    let mut clients = asked.clients(cpus, 8);
    let (core, its) = asked.fullest();
    let Some(stopped) = StoppedThread::core(&asked.server, core) else { return };
    let addr = asked.server.addr();
    let mut more = Vec::new();
    while asked.of_cores("connections")[1 - core] < 8 {
        // A look takes a fifth of a second.
        more.extend((0..4).map(|_| {
            let mut client = TestClient::connect(addr);
            assert_eq!(client.get("/a.txt").status, 200);
            client
        }));
    }
    clients.iter_mut().for_each(|client| client.ask("GET", "/a.txt", &[]));
    until("they have moved", || (asked.of_cores("moved")[1 - core] >= its).then_some(()));
    drop(stopped);
    asked.server.stops_clean();
}

fn resting_connection_gives_way_to_new_ones(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &["--connections-max", "2"]);
    let mut kept = asked.clients(cpus, 2);
    for _ in 0..6 {
        let mut client = asked.server.client();
        assert_eq!(client.get("/a.txt").status, 200);
        kept.push(client);
        until("all of them rest", || (asked.sum("resting") == asked.sum("connections")).then_some(()));
    }
    let left = asked.sum("connections") as usize;
    // A core that took connections over from a stalled core may have more than its bound.
    let moved = asked.sum("moved") as usize;
    assert!((1..=4 + moved).contains(&left), "{left} are left, {moved} have moved");
    assert_eq!(kept.iter().filter(|client| !client.is_readable()).count(), left);
    asked.server.stops_clean();
}

fn stop_closes_resting_connection(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let asked = AskedServer::start(io, &site, cpus, &[]);
    let mut clients = asked.clients(cpus, 8);
    asked.server.stops_clean();
    clients.iter_mut().for_each(TestClient::ends_silently);
}

fn connection_reading_an_answer_does_not_rest(io: Io) {
    let Some(cpus) = two_cpus() else { return };
    let site = TestSite::new();
    let content = noise(5, 8 << 20);
    site.write("large.txt", &content);
    let asked = AskedServer::start(io, &site, cpus, &["--cache-file-bytes", "16M"]);
    let mut slow = asked.server.narrow_client();
    slow.ask("GET", "/large.txt", &[]);
    slow.wait_readable();
    // When these clients rest, that client has waited for longer.
    let clients = asked.clients(cpus, 2);
    assert_eq!(asked.sum("connections"), 3);
    assert!(slow.read(ExpectedContent::Follows).body == content);
    assert_eq!(slow.get("/a.txt").status, 200);
    drop(clients);
    asked.server.stops_clean();
}

fn connection_without_neighbours_does_not_rest(io: Io) {
    let site = TestSite::new();
    let alone = AskedServer::on(io, &site, "1", &["--keep-alive-timeout", "1500ms"]);
    let mut client = alone.server.client();
    assert_eq!(client.get("/a.txt").status, 200);
    until("its time is over", || {
        assert_eq!(alone.sum("resting"), 0);
        client.is_readable().then_some(())
    });
    client.ends_silently();
    alone.server.stops_clean();
}
