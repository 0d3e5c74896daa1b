//! A run: cores, users, phases, collection.
//!
//! `field` is the shared state of all users. `engine` starts the users and keeps the time. `pulse`
//! measures the cores. `waits` tracks the users that wait for a page. `outcome` is the result.

mod engine;
mod field;
mod outcome;
mod parting;
mod pulse;
mod readings;
mod waits;

pub use engine::RunObserver;
pub(crate) use engine::{Engine, Supply, check};
pub(crate) use field::{RunContext, until};
pub use outcome::{Interval, Outcome, RunPhase, RunProgress};
pub(crate) use waits::Waits;
