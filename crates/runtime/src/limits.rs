//! The bounds of a runtime, by name, with their defaults.

use std::time::Duration;

/// The bounds of a runtime, and the effect of each bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Handler events posted to colors of a core that have not begun. Beyond the bound `post`
    /// returns the event, and `post_when_room` waits. Default 1,048,576: some 100 MB of small
    /// events. Wake-ups of tasks are not counted, because a task stands in at most one queue.
    pub events_per_core: usize,
    /// Handlers of a runtime, registered kinds of tasks included, at most 65,535; a further
    /// registration panics. Default 256. Each handler costs a part of a cache line per core; a
    /// handler that runs costs 6 KiB.
    pub handlers: usize,
    /// Threads of the blocking pool, at least 1. The threads end after the runtime has stopped.
    /// Default 8, a guess: enough to keep a disk busy.
    pub blocking_threads: usize,
    /// Jobs that wait for the blocking pool. Beyond the bound `blocking` fails. Default 4,096.
    pub blocking_queue: usize,
    /// How long a core may run an event, or a poll, when its runtime stops. After that time the
    /// core's thread is left behind ([`Stopped::cores_left`](crate::Stopped::cores_left)). The
    /// event may have begun before the stop: that time counts. Default 0.5 s.
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
