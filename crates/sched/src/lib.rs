//! What a core does next and where a color goes, without threads or clocks.
//!
//! Pure decisions: an observation goes in, a decision comes out, on invented data in tests and on pinned threads in the
//! runtime. Owns the turn (`turn`) and the placement policies (`place`). Knows no queue, no time, no I/O.

mod place;
mod turn;

pub use place::{CoreIndex, Placement, Policy};
pub use turn::{Seen, Step, Turn, TurnLimits};
