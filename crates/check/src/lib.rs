//! Conditions that would prevent a start, checked without a start: for `vermeil check` and `vermeil
//! serve`.
//!
//! Reads the file system and the user of this process, and binds sockets that never listen; starts
//! nothing. A service manager may create folders that the server needs, so the result of `vermeil
//! check` describes the machine as it is. Reading order: [`conditions()`] (before each start),
//! `start` (steps that only a check tries, because a server takes them), [`ServePlan`] (words and
//! warnings), `doubts` (warnings about routes and PHP), [`explain()`] (the answer to one URL),
//! [`DescriptorShares`] (the shares of the limit of descriptors). Must never start anything.

mod certificates;
mod conditions;
mod descriptors;
mod doubts;
mod explain;
mod folders;
mod plan;
mod start;

#[cfg(test)]
mod tests;

pub use certificates::troubles_of_first;
pub use conditions::conditions;
pub use descriptors::{
    DescriptorShares, connections_that_fit, make_room_for_descriptors, raise_descriptor_limit,
};
pub use explain::{UnfitUrl, explain};
pub use plan::ServePlan;
