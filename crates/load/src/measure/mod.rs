//! The counts of a run: times, answers and faults per core, collected in intervals.

mod codes;
mod ledger;
mod reasons;
mod tally;
mod times;

pub use codes::StatusCodes;
pub use ledger::Ledger;
pub use reasons::Reasons;
pub use tally::{CountedPart, Tally, part};
pub use times::{Times, supports};
