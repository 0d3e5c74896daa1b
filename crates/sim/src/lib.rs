//! The production scheduler on virtual cores, caches, nodes and links, under a virtual clock.
//!
//! A seed and a description always give the same run, on every computer. Nothing here starts a
//! thread, opens a file or reads a clock.

mod machine;
mod memory;
mod workload;

mod check;
mod options;
mod swarm;
mod watch;
mod world;

pub mod report;
pub mod reproduce;

mod histogram;
mod results;

mod error;
mod fixed;
mod random;

pub use check::{Checker, Violation};
pub use error::Error;
pub use histogram::Histogram;
pub use machine::{
    CacheSpec, CostSpec, LineSpec, LinkSpec, Machine, MachineSpec, MemorySpec, NicSpec, Pattern, RouteSpec,
    SlowSpec, WakeSpec, profile, profile_text, profiles,
};
pub use memory::Traffic;
pub use options::{Fault, Options};
pub use results::{CoreCounts, HandlerCounts, Results};
pub use swarm::{Case, Outcome};
pub use watch::{Note, Watch};
pub use workload::{
    Accept, Choice, ClassSpec, HandlerSpec, Life, NextSpec, ObjectSpec, OrderSpec, PollSpec, Program,
    ShiftSpec, SourceKind, SourceSpec, TouchSpec, Trace, WorkloadSpec, workload, workload_text, workloads,
};
pub use world::{simulate, simulate_watched};
