//! The scheduler's decisions without threads or clocks: what a core runs next, and where a color
//! goes.
//!
//! Pure decisions: an observation goes in, a decision comes out, on invented data in tests and on
//! pinned threads in the runtime. Contains the turn (`turn`), the ready queue (`ready`), the
//! division of time between classes (`share`), stealing (`steal`, `steal_amount`), moves to busy
//! cores with less work (`shorter_queue`), the pace of colors that must stay (`fixed_pace`), batch
//! extensions (`warm_batch`), the LIFO slot (`lifo_slot`), the policies by name (`policy`), the
//! cores from the view of policies (`layout`), the costs (`cost`) and posts (`flow`) of handlers,
//! the learning of costs (`learner`), the placement of handlers (`plan`) and its control
//! (`control`), and the form of recordings (`recording`). Knows no time, no I/O, no lock.

mod back_off;
mod budget;
pub mod control;
mod core_load;
pub mod cost;
mod error;
mod fixed_pace;
pub mod flow;
mod histogram;
mod layout;
mod learner;
mod lifo_slot;
mod observe;
mod place;
pub mod plan;
mod policy;
mod ready;
mod recent_length;
pub mod recording;
mod share;
mod shorter_queue;
mod steal;
mod steal_amount;
mod turn;
mod warm_batch;

pub use back_off::{BackOff, BackOffBounds};
pub use budget::{Budget, Exploration, Sampler};
pub use core_load::{CoreLoad, HeldBack};
pub use cost::{CostHint, HandlerCost, Interruptions, RunSample, StealCost, WarmCost};
pub use error::SchedError;
pub use fixed_pace::FixedPace;
pub use histogram::Classes;
pub use layout::{CORES_MAX, Distance, Layout, PERMUTATIONS_MAX, Symmetry};
pub use learner::{Learner, PublishedCosts, PublishedMoves, PublishedWord};
pub use lifo_slot::{LIFO_SLOT_NS, LifoSlotRule, WakeDestination};
pub use observe::{Observe, Stamps, UnknownObserve};
pub use place::{CoreIndex, CoreSet, HandlerIndex, Leader, Placement};
pub use policy::{PlanName, Policy, UnknownPolicy};
pub use ready::{BatchWait, QueuedClass, Ready, ReadyOrder, ReadySlot, StealClass, StealKey, Stolen};
pub use recent_length::{LONG_EVENT_NS, RecentLength};
pub use share::{AHEAD_NS, CLASSES_MAX, Class, ClassIndex, ClassShares};
pub use shorter_queue::AskOrder;
pub use steal::{SPIN_NS, STEAL_BATCH_MAX, StealCandidate, Stealing, TURN_NS, WATCH_NS};
pub use steal_amount::StealAmount;
pub use turn::{Turn, TurnLimits, TurnStep, TurnView};
pub use warm_batch::{RunAfter, WARM_BATCH_MAX_NS, WarmBatch};
