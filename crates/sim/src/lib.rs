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

pub use check::{InvariantChecker, Violation};
pub use error::SimError;
pub use histogram::SimHistogram;
pub use machine::{
    CacheSpec, CostSpec, LineSpec, LinkSpec, MachineSpec, MemorySpec, NicSpec, Pattern, RouteSpec,
    SimMachine, SlowSpec, WakeSpec, profile, profile_text, profiles,
};
pub use memory::CoreTraffic;
pub use options::{InjectedFault, PlantedBug, SimOptions};
pub use results::{CoreCounts, HandlerCounts, LoadCounts, Results};
pub use swarm::{CaseOutcome, SwarmCase};
pub use watch::{Note, Watch};
pub use workload::{
    Accept, ClassSpec, CompiledProgram, HandlerSpec, NextSpec, ObjectLife, ObjectSpec, OrderSpec, PollSpec,
    ShiftSpec, SourceKind, SourceQueue, SourceSpec, TouchSpec, Trace, WorkloadSpec, workload, workload_text,
    workloads,
};
pub use world::{simulate, simulate_watched};
