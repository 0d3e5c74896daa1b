//! Whole runs against servers with planted behaviour: what is reported must be what was planted.
//!
//! `server` is the world: plain blocking sockets, a thread per connection, and one knob.

mod faults;
mod loops;
mod server;
mod sessions;
mod simple;

use std::ops::ControlFlow;
use std::time::Duration;

use vermeil::IoChoice;
use vermeil_load::{Outcome, Phases, SimplePlan, run_simple};

/// Longest a run that ends by itself may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run that ends after `requests`, on one core, with each driver that this machine offers.
fn on_both_drivers(plan: impl Fn() -> SimplePlan, check: impl Fn(Outcome)) {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let mut plan = plan();
        plan.ground.io = io;
        match run_simple(&plan, &mut go_on) {
            Ok(outcome) => check(outcome),
            Err(error) if io == IoChoice::Uring => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn go_on(_: vermeil_load::Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A closed run of `requests` over `connections` against `server`.
fn plan(server: &server::Server, connections: usize, requests: u64) -> SimplePlan {
    let mut plan = SimplePlan::new(server.url("/").parse().expect("a URL"));
    plan.connections = connections;
    plan.requests_max = Some(requests);
    plan.ground.phases = Phases::window(PATIENCE);
    plan
}
