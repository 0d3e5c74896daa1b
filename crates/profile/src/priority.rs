//! A higher priority for the thread that empties the rings.
//!
//! A ring of 4 MiB is full after a quarter of a second. With 20,000 threads that want to run the
//! recorder waits longer for a cpu, and samples are lost. Tested through `tests/bad_cases.rs`.

use rustix::process::{getpriority_process, setpriority_process};

/// The nice value while recording. Needs root or CAP_SYS_NICE; without, the priority stays.
const NICE: i32 = -15;

/// The priority of this thread, raised until dropped.
pub(crate) struct RaisedPriority(Option<i32>);

impl RaisedPriority {
    /// Raises the priority of this thread. Processes and threads that begin later inherit the
    /// value, so a command must have begun before.
    pub(crate) fn of_this_thread() -> Self {
        let before = getpriority_process(None).ok();
        let raised = setpriority_process(None, NICE).is_ok();
        Self(before.filter(|_| raised))
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // Lowering needs no right.
            let _lowered = setpriority_process(None, before);
        }
    }
}
