//! Whole runs against servers with planted behavior: the report must show the planted behavior.
//!
//! `server` is the server: plain blocking sockets, a thread per connection, and one knob. `http2`
//! has a server of its own.

mod faults;
mod http2;
mod loops;
mod server;
mod sessions;
mod sets;
mod simple;

use std::ops::ControlFlow;
use std::time::Duration;

use vermeil::IoChoice;
use vermeil_load::{Outcome, Phases, SimplePlan, run_simple};

/// Longest time of a run that ends without a stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a plan with each driver that this machine offers.
fn on_both_drivers(plan: impl Fn() -> SimplePlan, check: impl Fn(Outcome)) {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let mut plan = plan();
        plan.common.io = io;
        match run_simple(&plan, &mut go_on) {
            Ok(outcome) => check(outcome),
            Err(error) if io == IoChoice::Uring => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn go_on(_: vermeil_load::RunProgress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A closed run of `requests` over `connections` against `server`.
fn plan(server: &server::PlantedServer, connections: usize, requests: u64) -> SimplePlan {
    let mut plan = SimplePlan::new(server.url("/").parse().expect("a URL"));
    plan.connections = connections;
    plan.requests_max = Some(requests);
    plan.common.phases = Phases::window(PATIENCE);
    plan
}
