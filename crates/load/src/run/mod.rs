//! A run: cores, users, phases, collection.
//!
//! `prepared` is a run before its start. `context` is the shared state of all users. `engine`
//! starts the users and keeps the time. `pulse` measures the cores. `waits` tracks the users that
//! wait for a page. `outcome` is the result.

mod context;
mod engine;
mod outcome;
mod parting;
mod prepared;
mod pulse;
mod readings;
mod waits;

pub(crate) use context::{RunContext, until};
pub use engine::RunObserver;
pub(crate) use engine::Supply;
pub use outcome::{Interval, Outcome, RunPhase, RunProgress};
pub(crate) use prepared::PreparedRun;
pub use waits::OpenWaits;
pub(crate) use waits::Waits;
