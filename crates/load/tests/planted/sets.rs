//! Sets of addresses: each request counts for the set of its connection, also if the connection
//! cannot be made or has ended.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use vermeil_load::measure::CountedPart;
use vermeil_load::session::{Builtin, Model, SessionLoop, SessionPlan, run_sessions};
use vermeil_load::wire::{LoadRequest, Reuse};
use vermeil_load::{CommonOptions, Fault, Outcome, Phases, Quality, Set, SimplePlan, run_simple};

use super::server::{Act, PlantedServer, answer};
use super::{PATIENCE, go_on, on_both_drivers, plan};

/// The first pause after a refused connection, as `docs/load.md` says.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

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

/// Regression: the pause of a user after a refused connection was part of the next response time.
/// The times of all requests and the pauses fit into the run, because the only user does one after
/// the other.
#[test]
fn pause_after_refusal_is_not_response_time() {
    let up = page_server();
    let outcome = run_simple(&plan_of_both(&up, 40), &mut go_on).unwrap();
    let total = &outcome.total;
    assert_eq!((total.good, total.failed()), (20, 20));
    let in_requests = total.response.mean() * 20 + total.failed_response.mean() * 20;
    // The last request is refused, and the run ends before its pause. Histograms have three digits.
    let pauses = FIRST_PAUSE * 19;
    assert!(in_requests.mul_f64(0.99) + pauses <= outcome.window, "{in_requests:?} of {:?}", outcome.window);
}

fn session_run(sets: Vec<Set>, model: Model, pages: u64) -> Outcome {
    let common = CommonOptions { phases: Phases::window(PATIENCE), sets, ..CommonOptions::default() };
    let plan = SessionPlan {
        common,
        url: "http://127.0.0.1:1/".parse().expect("a URL"),
        model,
        users: 1,
        pace: SessionLoop::Closed,
        quality: Quality::default(),
        request: LoadRequest::default(),
        pages_max: Some(pages),
    };
    run_sessions(&plan, &mut go_on).expect("the run begins")
}

fn single() -> Model {
    Builtin::Single.model(None, "/").expect("a model")
}

/// Regression: a page counted for the first set, because its connection had ended.
#[test]
fn page_counts_for_set_of_its_ended_connection() {
    let (one, other) = (page_server(), page_server());
    let outcome = session_run(vec![set("one", one.addr()), set("other", other.addr())], single(), 20);
    assert_eq!(counts(&outcome.total.sets), [(10, 0), (10, 0)]);
    let up = page_server();
    let outcome = session_run(vec![set("up", up.addr()), set("down", dead())], single(), 6);
    assert_eq!(outcome.total.faults_of(Fault::Refused), 3);
    assert_eq!(counts(&outcome.total.sets), [(3, 0), (0, 3)]);
}

/// Regression: a page with a failed embedded object counted for the set of the page itself.
#[test]
fn failed_object_counts_for_its_set() {
    let text = "name = \"one\"\nconnections = 1\n[[page]]\nname = \"home\"\npath = \"/\"\n\
                next = { home = 0.9 }\nembedded = [\"/a.js\"]\n";
    let up = page_server();
    // The server closes each connection, so the object takes the other set.
    let sets = vec![set("up", up.addr()), set("down", dead())];
    let outcome = session_run(sets, Model::from_toml(text).expect("a model"), 3);
    assert_eq!(outcome.total.faults_of(Fault::Refused), 3);
    assert_eq!(counts(&outcome.total.sets), [(0, 0), (0, 3)]);
}
