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

pub use compile::CompiledProgram;
pub(crate) use compile::{
    Coloring, NextHandler, ObjectHome, ObjectKind, REQUEST_OBJECTS_MAX, SimHandler, Touch,
};
pub use shipped::{workload, workload_text, workloads};
pub use spec::{
    Accept, ClassSpec, HandlerSpec, NextSpec, ObjectLife, ObjectSpec, OrderSpec, PollSpec, ShiftSpec,
    SourceKind, SourceQueue, SourceSpec, TouchSpec, WorkloadSpec,
};
pub use trace::Trace;
