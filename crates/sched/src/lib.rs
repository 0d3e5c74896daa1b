//! What a core does next and where a color goes, without threads or clocks.
//!
//! Pure decisions: an observation goes in, a decision comes out, on invented data in tests and on pinned threads in the
//! runtime. Owns the turn (`turn`), what waits for a core (`ready`), how its time is divided (`share`), when it is stolen (`steal`), when it comes to who calls it (`calls`), when it goes on although others wait (`stay`), what follows it (`succession`), the policies by name
//! (`policy`), the cores as policies see them (`layout`), what handlers cost (`cost`) and post (`flow`), where they stand
//! (`plan`) and what moves them (`control`), and the form of what was recorded of a run (`recording`). Knows no time, no I/O,
//! no lock.

mod budget;
mod calls;
pub mod control;
pub mod cost;
mod error;
pub mod flow;
mod hint;
mod histogram;
mod layout;
mod observe;
mod place;
pub mod plan;
mod policy;
mod ready;
pub mod recording;
mod share;
mod stay;
mod steal;
mod succession;
mod turn;

pub use budget::{Budget, Exploration, Sampler};
pub use calls::{CALLS_TO_COME, Calls};
pub use cost::{HandlerCost, Interruptions, Prior, Sample, StealCost};
pub use error::Error;
pub use hint::Hint;
pub use histogram::Classes;
pub use layout::{CORES_MAX, Distance, Layout, PERMUTATIONS_MAX, Symmetry};
pub use observe::{Observe, Stamps, UnknownObserve};
pub use place::{CoreIndex, CoreSet, HandlerIndex, Leader, Placement};
pub use policy::{PlanName, Policy, UnknownPolicy};
pub use ready::{Gather, Kin, Like, Order, Ready, Slot, Stolen, WorthClass};
pub use share::{AHEAD_NS, CLASSES_MAX, Class, ClassIndex, Shares};
pub use stay::{After, STAY_MAX_NS, StayCost};
pub use steal::{Candidate, HAUL_MAX, LINGER_NS, Stealing, WATCH_NS};
pub use succession::{SUCCESSION_NS, Succession, Woken};
pub use turn::{Seen, Step, TURN_NS, Turn, TurnLimits};
