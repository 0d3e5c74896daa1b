//! The reports to balancers in front of this server: the load, and whether the server is about to
//! end.
//!
//! A thread measures twice a second and answers HAProxy's agent checks. If configured, cores write
//! the same numbers into answers as a load report. Reading order:
//! `crates/settings/src/balancers.rs` (the options), `LoadBoard` (the last measurement, shared),
//! `weight` (the weight for a balancer), `measuring` (the load of a server), `agent` (the thread),
//! `orca` (the report in answers). With several instances each instance measures its load, and the
//! supervisor adds up and answers (`supervise/aggregate.rs`). Whether the server is ready is in
//! `server.rs`. Tested beside the files, and with a real HAProxy
//! (`crates/cli/tests/e2e/balancers.rs`).

mod agent;
mod measuring;
mod weight;

pub(crate) use agent::{AgentThread, BalancerAnswer, Observed, bind};
pub(crate) use measuring::{MeasuredServer, Measuring};
pub(crate) use weight::LEAST;
