//! The bounds of a runtime, by name, with their defaults.

use std::time::Duration;

/// What a runtime holds at most, and what happens then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Handler events posted to colors of one core and not yet run. Beyond it `post` gives the event back, and `post_when_room` waits. Default
    /// 1,048,576: some 100 MB of small events. Wake-ups of tasks are not counted: a task stands in one queue at most.
    pub events_per_core: usize,
    /// Handlers of a runtime, registered kinds of tasks included, at most 65,535; one more panics. Default 256; each costs a cache line's part per core, and those
    /// that run 6 KiB.
    pub handlers: usize,
    /// Threads of the blocking pool, at least 1. They end by themselves after the runtime has stopped. Default 8, a guess: enough to keep a disk busy.
    pub blocking_threads: usize,
    /// Jobs waiting for the blocking pool. Beyond it `blocking` fails. Default 4,096.
    pub blocking_queue: usize,
    /// How long a core may run one event, or one poll, when its runtime stops. Beyond it the core's
    /// thread is left behind ([`Stopped::cores_left`](crate::Stopped::cores_left)). The event may
    /// have begun before the stop: that time counts. Default 0.5 s.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events_per_core: 1 << 20,
            handlers: 256,
            blocking_threads: 8,
            blocking_queue: 4096,
            stop_grace: Duration::from_millis(500),
        }
    }
}
