//! The reports to balancers in front of this server: the load, and whether the server is about to
//! end.
//!
//! A thread measures twice a second and answers HAProxy's agent checks. If configured, cores write
//! the same numbers into answers as a load report. Reading order:
//! `crates/settings/src/balancers.rs` (the options), `weight` (the weight for a balancer), `agent`
//! (the thread). A server measures its own load; with several instances each instance measures its
//! load, and the supervisor adds up and answers. Leaves out both measurements, and the reports in
//! answers. Tested beside the files, and with a real HAProxy (`crates/e2e/tests/e2e/balancers.rs`).

mod agent;
mod weight;

pub use agent::{AgentThread, BalancerAnswer, Observed, bind};
pub use weight::{LEAST, Weight};
