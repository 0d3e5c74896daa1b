//! Agents and their coordinator in one process: parts add up exactly, a lost agent is reported, and
//! a peer that is not an agent is refused.
//!
//! Agents as processes, in separate network namespaces: `crates/e2e/tests/agents.rs`.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vermeil::IoChoice;
use vermeil_load::agents::{AgentOptions, Coordinators, Fleet, serve};
use vermeil_load::pace::{Arrivals, Think};
use vermeil_load::report::{Record, RecordSubject};
use vermeil_load::{
    LoadError, LoadInjector, LoadJob, Loop, Phases, Protocol, RunProgress, SimplePlan, Unwatched,
};

/// Longest time of a run that ends without a stop, and longest wait for an agent.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers every request, and records the clients' addresses.
fn server() -> (SocketAddr, Arc<Mutex<HashSet<SocketAddr>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let clients = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("accepted");
            clients.lock().expect("nobody panics").insert(stream.peer_addr().expect("connected"));
            thread::spawn(move || answer(&stream));
        }
    });
    (addr, seen)
}

fn answer(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            let mut stream = stream;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
        }
    }
}

/// An agent that ends with its coordinator.
fn agent() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let name = listener.local_addr().expect("bound").to_string();
    let options = AgentOptions { cpus: Vec::new(), io: IoChoice::Auto, coordinators: Coordinators::One };
    (name, thread::spawn(move || serve(&listener, &options, |_| {}).expect("it listens")))
}

/// A fake agent that sends a line of `lines` after each received line, and then closes.
fn pretender(lines: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let name = listener.local_addr().expect("bound").to_string();
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the coordinator");
        let mut orders = BufReader::new(&stream).lines();
        for line in lines {
            let _order = orders.next();
            let _told = writeln!(&stream, "{line}");
        }
    });
    name
}

fn plan(server: SocketAddr) -> SimplePlan {
    let mut plan = SimplePlan::new(format!("http://{server}/").parse().expect("a URL"));
    plan.connections = 5;
    plan.requests_max = Some(601);
    plan.common.phases = Phases::window(PATIENCE);
    plan
}

fn run(plan: SimplePlan, names: &[String]) -> Result<Record, LoadError> {
    let mut fleet = Fleet::connect(names, PATIENCE)?;
    LoadJob::Simple(Box::new(plan)).run(
        &RecordSubject::default(),
        LoadInjector::Agents(&mut fleet),
        &mut Unwatched,
    )
}

#[test]
fn parts_add_up() {
    let (server, seen) = server();
    let agents = [agent(), agent(), agent()];
    let names = agents.each_ref().map(|(name, _)| name.clone());
    let mut fleet = Fleet::connect(&names, PATIENCE).expect("they are there");
    let job = LoadJob::Simple(Box::new(plan(server)));
    let mut counted = 0;
    let mut watch = |progress: RunProgress<'_>| {
        counted += progress.counted.good;
        ControlFlow::Continue(())
    };
    let record =
        job.run(&RecordSubject::default(), LoadInjector::Agents(&mut fleet), &mut watch).expect("it runs");
    assert_eq!((record.good, record.failed, record.users), (601, 0, 5));
    assert_eq!((record.response.count, record.statuses[2], counted), (601, 601, 601));
    let sum: u64 = record.response.buckets.iter().map(|(_, count)| count).sum();
    assert_eq!((sum, record.content_bytes), (601, 1202));
    assert_eq!(seen.lock().unwrap().len(), 5, "a connection for each user");
    assert!(!record.doubts.iter().any(|doubt| doubt.contains("agent")), "{:?}", record.doubts);
    // The same agents also run the next job. One user belongs to one agent.
    let mut next = plan(server);
    (next.connections, next.requests_max) = (1, Some(10));
    let job = LoadJob::Simple(Box::new(next));
    let record = job
        .run(&RecordSubject::default(), LoadInjector::Agents(&mut fleet), &mut Unwatched)
        .expect("it runs");
    assert_eq!((record.good, record.users), (10, 1));
    drop(fleet);
    agents.into_iter().for_each(|(_, agent)| agent.join().expect("it ends with its coordinator"));
}

#[test]
fn arrivals_are_divided() {
    let (server, _) = server();
    let agents = [agent(), agent()];
    let names = agents.each_ref().map(|(name, _)| name.clone());
    let mut plan = plan(server);
    plan.requests_max = None;
    let record: String = (0..101).map(|at| format!("{}\n", f64::from(at) / 500.0)).collect();
    plan.pace = Loop::Open { arrivals: Arrivals::recorded(&record).expect("times") };
    let record = run(plan, &names).expect("it runs");
    assert_eq!((record.begun, record.good), (101, 101));
    agents.into_iter().for_each(|(_, agent)| agent.join().expect("it ends with its coordinator"));
}

/// A server that begins HTTP/2 and answers no request, and counts the checks before a run: their
/// settings are empty.
fn checked_server() -> (SocketAddr, Arc<AtomicUsize>) {
    // The preface and the head of the settings.
    const BEGIN_BYTES: usize = 24 + 9;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    let checks = Arc::new(AtomicUsize::new(0));
    let count = checks.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let count = count.clone();
            thread::spawn(move || {
                let mut begin = [0; BEGIN_BYTES];
                if stream.read_exact(&mut begin).is_ok() {
                    count.fetch_add(usize::from(begin[24..27] == [0; 3]), Ordering::Relaxed);
                    let _gone = stream.write_all(b"\0\0\0\x04\0\0\0\0\0");
                    let _rest = std::io::copy(&mut stream, &mut std::io::sink());
                }
            });
        }
    });
    (addr, checks)
}

/// Regression: an agent looked up the name and checked the server again after the order to start,
/// so its users began late.
#[test]
fn agent_checks_server_before_it_is_ready() {
    let (server, checks) = checked_server();
    let (name, agent) = agent();
    let mut plan = plan(server);
    (plan.connections, plan.requests_max, plan.protocol) = (1, None, Protocol::Http2);
    plan.common.phases = Phases::window(Duration::from_millis(100));
    let record = run(plan, &[name]).expect("it runs");
    assert_eq!((record.good, record.users), (0, 1));
    assert_eq!(checks.load(Ordering::Relaxed), 1);
    agent.join().expect("it ends with its coordinator");
}

#[test]
fn lost_agent_is_named_and_other_results_are_kept() {
    let (server, _) = server();
    let (name, agent) = agent();
    // Hello, a job, five pings. The fake agent takes the start order and closes the connection.
    let lost = pretender(&[
        r#"{"hello":{"version":4,"cores":1}}"#,
        r#""ready""#,
        r#"{"pong":0}"#,
        r#"{"pong":1}"#,
        r#"{"pong":2}"#,
        r#"{"pong":3}"#,
        r#"{"pong":4}"#,
    ]);
    let mut plan = plan(server);
    plan.pace = Loop::Closed { think: Think::Constant(Duration::from_millis(1)) };
    let record = run(plan, &[name, lost.clone()]).expect("it runs all the same");
    assert_eq!((record.good, record.valid), (300, false), "its own half");
    let said = record.doubts.iter().find(|doubt| doubt.contains(&lost)).expect("it is named");
    assert!(said.contains("an agent was lost"), "{said}");
    agent.join().expect("it ends with its coordinator");
}

#[test]
fn foreign_peer_is_refused() {
    let (server, _) = server();
    let refused = |name: String| run(plan(server), &[name]).expect_err("it is none").to_string();
    let old = refused(pretender(&[r#"{"refused":"this agent speaks version 0"}"#]));
    assert!(old.contains("version 0"), "{old}");
    let other = refused(pretender(&["HTTP/1.1 400 Bad Request"]));
    assert!(other.contains("the program at this address is no agent"), "{other}");
    let unsure =
        refused(pretender(&[r#"{"hello":{"version":2,"cores":1}}"#, r#"{"refused":"no descriptors"}"#]));
    assert!(unsure.contains("no descriptors"), "{unsure}");
    let nobody = Fleet::connect(&["127.0.0.1:1".to_owned()], Duration::ZERO).expect_err("nobody is there");
    assert!(nobody.to_string().contains("vermeil load agent"), "{nobody}");
}
