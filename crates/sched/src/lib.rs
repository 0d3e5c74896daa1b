//! The scheduler's decisions without threads or clocks: what a core runs next, and where a color
//! goes.
//!
//! Pure decisions: an observation goes in, a decision comes out, on invented data in tests and on
//! pinned threads in the runtime. Contains the turn (`turn`), the ready queue (`ready`), the
//! division of time between classes (`share`), stealing (`steal`), moves to a caller's core
//! (`calls`), batch extensions (`stay`), the LIFO slot (`succession`), the policies by name
//! (`policy`), the cores from the view of policies (`layout`), the costs (`cost`) and posts
//! (`flow`) of handlers, their placement (`plan`) and its control (`control`), and the form of
//! recordings (`recording`). Knows no time, no I/O, no lock.

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
