//! Sets of addresses: each request counts for the set of its connection, also if the connection
//! cannot be made or has ended.

use std::net::{SocketAddr, TcpListener};

use vermeil_load::measure::CountedPart;
use vermeil_load::session::{Builtin, SessionLoop, SessionPlan, run_sessions};
use vermeil_load::wire::{LoadRequest, Reuse};
use vermeil_load::{CommonOptions, Fault, Outcome, Phases, Quality, Set, SimplePlan};

use super::server::{Act, PlantedServer, answer};
use super::{PATIENCE, go_on, on_both_drivers, plan};

fn set(name: &str, addr: SocketAddr) -> Set {
    Set { name: name.to_owned(), addrs: vec![addr] }
}

/// An address at which nothing listens.
fn dead() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("bound")
}

fn page_server() -> PlantedServer {
    PlantedServer::start(|_| Act::SendAndClose(answer(200, "x")))
}

/// Good and failed requests of each set.
fn counts(sets: &[CountedPart]) -> Vec<(u64, u64)> {
    sets.iter().map(|set| (set.good, set.failed)).collect()
}

/// A run of one user with a connection for each request, which takes both sets in turn.
fn plan_of_both(up: &PlantedServer, requests: u64) -> SimplePlan {
    let mut plan = SimplePlan { reuse: Reuse::Close, ..plan(up, 1, requests) };
    plan.common.sets = vec![set("up", up.addr()), set("down", dead())];
    plan
}

/// Regression: requests without a connection counted for the first set.
#[test]
fn refused_connection_counts_for_its_set() {
    let up = page_server();
    on_both_drivers(
        || plan_of_both(&up, 20),
        |outcome| {
            assert_eq!(outcome.total.faults_of(Fault::Refused), 10);
            assert_eq!(counts(&outcome.total.sets), [(10, 0), (0, 10)]);
        },
    );
}

fn session_run(sets: Vec<Set>, pages: u64) -> Outcome {
    let common = CommonOptions { phases: Phases::window(PATIENCE), sets, ..CommonOptions::default() };
    let plan = SessionPlan {
        common,
        url: "http://127.0.0.1:1/".parse().expect("a URL"),
        model: Builtin::Single.model(None, "/").expect("a model"),
        users: 1,
        pace: SessionLoop::Closed,
        quality: Quality::default(),
        request: LoadRequest::default(),
        pages_max: Some(pages),
    };
    run_sessions(&plan, &mut go_on).expect("the run begins")
}

/// Regression: a page counted for the first set, because its connection had ended.
#[test]
fn page_counts_for_set_of_its_ended_connection() {
    let (one, other) = (page_server(), page_server());
    let outcome = session_run(vec![set("one", one.addr()), set("other", other.addr())], 20);
    assert_eq!(counts(&outcome.total.sets), [(10, 0), (10, 0)]);
    let up = page_server();
    let outcome = session_run(vec![set("up", up.addr()), set("down", dead())], 6);
    assert_eq!(outcome.total.faults_of(Fault::Refused), 3);
    assert_eq!(counts(&outcome.total.sets), [(3, 0), (0, 3)]);
}
