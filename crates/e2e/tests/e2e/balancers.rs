//! Information for load balancers: agent checks (with a real HAProxy in front of two servers), the
//! readiness route, the load report of answers, and the status route.

use crate::support::{
    ExpectedContent, Io, TestClient, TestProcess, TestServer, TestSite, on_usual, until, vermeil,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

on_usual!(
    readiness_ends_before_server,
    one_agent_answers_for_all_instances,
    agent_port_is_exclusive,
    answers_carry_load_report,
    status_route_serves_text_and_json,
    manifest_server_becomes_ready,
);

/// A route that tells whether the server is ready.
const READY_ROUTE: &str = "[[host.route]]\nprefix = \"/ready\"\naction = \"ready\"\n";

/// A server with keys at the top of its configuration, and with routes of its host. The server
/// drains until a second signal.
fn configured(io: Io, site: &TestSite, top: &str, routes: &str) -> TestServer {
    let text = format!("{top}\n[timeouts]\nleave = \"1h\"\n[[host]]\nroot = \"site\"\n{routes}");
    TestServer::configured(io, site, &text)
}

/// The address at which a server answers agent checks.
fn agent_of(server: &TestServer) -> SocketAddr {
    let addr = || {
        let said = server.stderr();
        let (_, rest) = said.split_once("agent checks: ")?;
        Some(rest.split_once('\n')?.0.parse().unwrap())
    };
    until("the server logs the agent's address", addr)
}

/// Begins the drain of a server. Waits until the server has noticed, because two signals at once
/// count as one, and the second signal ends the server.
fn begin_drain(server: &TestServer) {
    server.signal(Signal::TERM);
    server.says("no longer ready");
}

/// The answer to an agent check.
fn agent_check(agent: SocketAddr) -> String {
    let mut line = String::new();
    TcpStream::connect(agent).unwrap().read_to_string(&mut line).unwrap();
    line
}

/// The weight in the answer to an agent check, in per cent.
#[track_caller]
fn weight(agent: SocketAddr) -> u32 {
    let line = agent_check(agent);
    let weight = line.strip_prefix("ready up ").and_then(|rest| rest.strip_suffix("%\n"));
    weight.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap()
}

fn readiness_ends_before_server(io: Io) {
    let site = TestSite::new();
    let server = configured(io, &site, "agent = \"127.0.0.1:0\"", READY_ROUTE);
    let agent = agent_of(&server);
    assert!((1..=100).contains(&weight(agent)));
    let ready = server.get("/ready");
    assert_eq!((ready.status, ready.text(), ready.field("cache-control")), (200, "ready\n", "no-store"));
    begin_drain(&server);
    until("the route answers 503", || (server.get("/ready").status == 503).then_some(()));
    assert_eq!(agent_check(agent), "drain\n");
    assert_eq!(server.get("/").status, 200, "a draining server serves");
    // The second signal ends the server.
    server.stops_clean();
    assert!(TcpStream::connect(agent).is_err());
}

/// Regression: the agent shared its port. So the kernel gave the agent half of the connections of
/// another listener at that port, or of its own server.
fn agent_port_is_exclusive(io: Io) {
    let site = TestSite::new();
    let taken = TestServer::start(io, &site, &[]);
    let port = format!("127.0.0.1:{}", taken.addr().port());
    for instances in ["1", "2"] {
        let arguments = ["--listen", "127.0.0.1:0", "--control", "off", "--balance", "hash"];
        let mut other = vermeil(&["serve", site.root().to_str().unwrap()]);
        other.args(arguments).args(["--instances", instances, "--agent", &port]);
        let output = other.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(&format!("cannot answer agent checks at {port}: Address already in use")),
            "{said}"
        );
    }
    assert_eq!(taken.get("/").status, 200);
}

fn one_agent_answers_for_all_instances(io: Io) {
    let site = TestSite::new();
    let control = site.outside("control");
    let top = format!("agent = \"127.0.0.1:0\"\ninstances = 2\nbalance = \"hash\"\ncontrol = {control:?}");
    let server = configured(io, &site, &top, READY_ROUTE);
    let agent = agent_of(&server);
    assert_eq!(server.stderr().matches("agent checks: ").count(), 1, "{}", server.stderr());
    assert!(weight(agent) > 0);
    let output = vermeil(&["status", "--json", "--control", control.to_str().unwrap()]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = Pid::from_raw(status["instances"][0]["pid"].as_i64().unwrap() as i32).unwrap();
    // A silent instance counts as heavily overloaded, with a weight of 5. The server's weight is
    // the mean of the instances: (5 + 100) / 2.
    kill_process(pid, Signal::STOP).unwrap();
    until("the silent instance lowers the weight", || (weight(agent) <= 53).then_some(()));
    kill_process(pid, Signal::CONT).unwrap();
    until("the instance raises the weight again", || (weight(agent) > 53).then_some(()));
    server.signal(Signal::TERM);
    until("both instances and the supervisor have noticed the signal", || {
        (server.stderr().matches("no longer ready").count() == 3).then_some(())
    });
    assert_eq!(agent_check(agent), "drain\n");
    assert_eq!(server.get("/").status, 200, "a draining server serves");
    assert_eq!(server.get("/ready").status, 503);
    // The second signal ends the server.
    server.stops_clean();
    assert!(TcpStream::connect(agent).is_err());
}

fn answers_carry_load_report(io: Io) {
    let site = TestSite::new();
    let server = configured(io, &site, "load_report = \"text\"", "");
    let mut client = server.client();
    let report = until("an answer carries a report", || {
        let response = client.get("/none");
        response.get("endpoint-load-metrics").map(str::to_owned)
    });
    let metrics = report.strip_prefix("TEXT ").expect("the text form of ORCA");
    let names: Vec<&str> = metrics.split(',').map(|metric| metric.split('=').next().unwrap()).collect();
    assert_eq!(names, ["cpu_utilization", "application_utilization", "rps_fractional"]);
    assert!(metrics.split(',').all(|metric| metric.split_once('=').unwrap().1.parse::<f64>().is_ok()));
    assert!(client.get("/").get("endpoint-load-metrics").is_some(), "an answer from a file");
    drop(client);
    begin_drain(&server);
    server.stops_clean();
}

/// Serves the configuration in `deploy/kubernetes/web.yaml`. `deploy/check` checks the manifest
/// itself.
fn manifest_server_becomes_ready(io: Io) {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/web.yaml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let (_, rest) = manifest.split_once("  vermeil.toml: |\n").expect("a configuration");
    let text: String = rest
        .lines()
        .map_while(|line| line.strip_prefix("    "))
        .fold(format!("io = \"{}\"\n", io.name()), |text, line| text + line + "\n");
    let site = TestSite::new();
    let text = text
        .replace("\":8080\"", "\"127.0.0.1:0\"")
        .replace("/srv/www", "site")
        .replace("leave = 10", "leave = 0.1");
    fs::write(site.outside("vermeil.toml"), text).unwrap();
    let server = TestServer::of_file(&site.outside("vermeil.toml"));
    assert_eq!(server.get("/.well-known/ready").status, 200);
    assert_eq!(server.get("/").text(), "<!doctype html>home\n");
    server.says("control: off\n");
    server.stops_clean();
    server.says("no longer ready; draining in 0.1 s\n");
    until("the access log has the request", || {
        server.stdout().contains("\"GET / HTTP/1.1\" 200").then_some(())
    });
}

fn status_route_serves_text_and_json(io: Io) {
    let site = TestSite::new();
    let route = "[[host.route]]\nprefix = \"/status\"\naction = \"status\"\n";
    let server = configured(io, &site, "", route);
    let mut client = server.client();
    let text = client.get("/status");
    assert_eq!(
        (text.status, text.get("content-type")),
        (200, Some("text/plain; charset=utf-8")),
        "{:?}",
        text.text()
    );
    assert!(text.text().contains(&format!("pid {}: serving", server.pid())), "{}", text.text());
    let json = client.get("/status?json");
    let value: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(value["pid"], server.pid());
    client.ask("POST", "/status", &["Content-Length: 0"]);
    assert_eq!(client.read(ExpectedContent::Follows).status, 405);
    drop(client);
    begin_drain(&server);
    server.stops_clean();
}

/// HAProxy in front of two servers.
struct Haproxy {
    process: TestProcess,
    stats: PathBuf,
    addr: SocketAddr,
}

impl Haproxy {
    fn start(program: &Path, folder: &TestSite, servers: &[&TestServer]) -> Self {
        // Another process seldom takes a port that was just closed, because the kernel chooses free
        // ports at random.
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stats = folder.outside("haproxy.sock");
        let mut text = format!(
            "global\n stats socket {} level admin\n\
             defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n retries 3\n\
             frontend f\n bind {addr}\n default_backend b\n\
             backend b\n balance roundrobin\n",
            stats.display()
        );
        for (number, server) in servers.iter().enumerate() {
            let (addr, agent) = (server.addr(), agent_of(server));
            text += &format!(
                " server s{number} {addr} weight 100 agent-check agent-addr {} agent-port {} agent-inter 50ms\n",
                agent.ip(),
                agent.port()
            );
        }
        let file = folder.outside("haproxy.cfg");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(file);
        let process = TestProcess::spawn(command);
        until("HAProxy listens", || {
            assert!(!process.has_ended(), "{}", process.stderr());
            TcpStream::connect(addr).and(UnixStream::connect(&stats)).ok()
        });
        Self { process, stats, addr }
    }

    /// The value of a column in HAProxy's statistics of a server.
    fn column(&self, server: &str, name: &str) -> String {
        let mut socket = UnixStream::connect(&self.stats).unwrap();
        socket.write_all(b"show stat\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let mut lines = text.lines();
        let head = lines.next().unwrap().trim_start_matches("# ");
        let index = head.split(',').position(|column| column == name).unwrap();
        let row = lines.find(|row| row.split(',').nth(1) == Some(server)).unwrap();
        row.split(',').nth(index).unwrap().to_owned()
    }

    /// The name of the server that answers the next request.
    fn answering_server(&self) -> String {
        let response = TestClient::connect(self.addr).get("/name");
        assert_eq!(response.status, 200, "{}", self.process.stderr());
        response.text().to_owned()
    }
}

#[test]
fn haproxy_weighs_and_drains_servers() {
    let Some(program) =
        ["/usr/sbin/haproxy", "/usr/bin/haproxy"].map(PathBuf::from).into_iter().find(|path| path.exists())
    else {
        return eprintln!("SKIPPED: no haproxy");
    };
    let sites = [TestSite::new(), TestSite::new()];
    let servers = [0, 1].map(|number: usize| {
        sites[number].write("name", number.to_string().as_bytes());
        let args = ["--agent", "127.0.0.1:0", "--leave-timeout", "1h"];
        TestServer::start(Io::Epoll, &sites[number], &args)
    });
    let haproxy = Haproxy::start(&program, &sites[0], &[&servers[0], &servers[1]]);
    until("HAProxy has an answer of both agents", || {
        ["s0", "s1"].iter().all(|server| haproxy.column(server, "agent_status") == "L7OK").then_some(())
    });
    let weight: u32 = haproxy.column("s0", "weight").parse().unwrap();
    assert!((1..=100).contains(&weight), "{weight}");
    let answering: Vec<String> = (0..10).map(|_| haproxy.answering_server()).collect();
    assert!(["0", "1"].iter().all(|name| answering.iter().any(|by| by == name)), "{answering:?}");
    begin_drain(&servers[0]);
    until("HAProxy drains the server", || haproxy.column("s0", "status").starts_with("DRAIN").then_some(()));
    assert!((0..10).all(|_| haproxy.answering_server() == "1"));
    // The second signal closes the connections that HAProxy keeps open.
    assert!(servers[0].stop().is_some());
    assert!((0..10).all(|_| haproxy.answering_server() == "1"));
}
