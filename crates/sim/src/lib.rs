//! The production scheduler on virtual cores, caches, nodes and links, under a virtual clock.
//!
//! One seed and one description give one run, the same everywhere. Nothing here starts a thread, opens a file or reads a
//! clock.

mod error;
mod fixed;
mod machine;
mod memory;
mod random;

pub use error::Error;
pub use machine::{
    CacheSpec, CostSpec, LineSpec, LinkSpec, Machine, MachineSpec, MemorySpec, NicSpec, Pattern, RouteSpec,
    SlowSpec, WakeSpec, profile, profile_text, profiles,
};
pub use memory::Traffic;
