//! A workload: a program of handlers and objects, and the load.
//!
//! Owns the file format (`workload/spec.rs`), the compiled form (`workload/compile.rs`), recorded
//! runs (`workload/trace.rs`) and the shipped workloads (`workload/shipped.rs`). Leaves out the run
//! (`world.rs`). Tested in `workload/tests.rs`.

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
