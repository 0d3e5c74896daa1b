//! What runs: a program of handlers and objects, and the load on it.
//!
//! Owns the form people write (`workload/spec.rs`), what it comes to (`workload/compile.rs`), recorded runs
//! (`workload/trace.rs`) and the workloads that ship (`workload/shipped.rs`). Leaves out how it is run (`world.rs`). Tested
//! in `workload/tests.rs`.

mod compile;
mod popularity;
mod ranges;
mod shipped;
mod spec;
#[cfg(test)]
mod tests;
mod trace;

pub use compile::Program;
pub(crate) use compile::{Coloring, Handler, Home, Next, ObjectKind, REQUEST_OBJECTS_MAX, Touch};
pub use shipped::{workload, workload_text, workloads};
pub use spec::{
    Accept, Choice, ClassSpec, HandlerSpec, Life, NextSpec, ObjectSpec, OrderSpec, PollSpec, ShiftSpec,
    SourceKind, SourceSpec, TouchSpec, WorkloadSpec,
};
pub use trace::Trace;
