//! A run: cores, users, phases, collecting.
//!
//! `field` is what all users share, `engine` starts them and keeps the time, `pulse` watches the cores, `waits`
//! knows who waits for a page, `outcome` is what comes of it.

mod engine;
mod field;
mod outcome;
mod parting;
mod pulse;
mod readings;
mod waits;

pub use engine::Watch;
pub(crate) use engine::{Engine, Supply, check};
pub(crate) use field::{Field, until};
pub use outcome::{Interval, Outcome, Phase, Progress};
pub(crate) use waits::Waits;
