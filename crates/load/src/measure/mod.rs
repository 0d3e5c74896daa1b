//! What a run counts: times, answers and faults per core, collected in intervals.

mod ledger;
mod reasons;
mod tally;
mod times;

pub use ledger::Ledger;
pub use reasons::Reasons;
pub use tally::{Part, Tally, part};
pub use times::Times;
