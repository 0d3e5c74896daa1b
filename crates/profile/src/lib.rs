//! The profiler: where a process spends its time, and why a server does not scale.
//!
//! The crate samples the stacks of a process tree and of the kernel on its behalf, reads counters
//! of each cpu with time stamps in the same recording, and keeps both in one file. From such files
//! it makes reports, and from repeated runs of two configurations the potential gain of each
//! function. The crate knows nothing of the server: its subject is any process.
//!
//! Reading order: `perf` opens events of the kernel, `event` gives their records a type,
//! `processes` follows the tree and its memory maps, `session` turns events into the records of
//! `format`, `symbols` names addresses with the help of `debug_file`, `work` reads the counts of
//! finished work, `recorder` drives all of these. `profile` is a recording in
//! memory, and `report` prints it. [`ProfileError`] names the thing, the place and the cure. Tested
//! in each module and end to end in `tests/record.rs`.

mod debug_file;
mod error;
mod event;
mod format;
pub mod gain;
mod import;
#[cfg(test)]
mod interrupt_costs;
mod known_places;
mod ledger;
mod machine;
mod module_files;
mod perf;
mod priority;
mod processes;
mod profile;
mod recorded_process;
mod recorder;
pub mod report;
mod running_program;
mod sampler;
pub mod scale;
mod session;
pub mod statistics;
mod steady;
mod symbols;
mod unwind;
pub mod usl;
mod vdso;
pub mod verdict;
pub mod verdict_page;
mod waiting;
mod waits;
mod window;
mod work;

pub use error::ProfileError;
pub use format::{MissingCounter, Origin, Series, Work};
pub use import::{Imported, default_output, import};
pub use ledger::HardwareSet;
pub use perf::Trigger;
pub use profile::{CoreUnits, Function, FunctionCost, FunctionId, ReadOptions, Sampled, StackProfile, Tick};
pub use recorder::{
    RecordOptions, Recorded, RecordingLosses, RecordingSummary, Stacks, Subject, ended, record,
};
pub use waiting::{BlockedTime, RecordedWaits, ThreadWaits, UnknownStack};
pub use window::Window;
