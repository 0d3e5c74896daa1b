//! Access to Linux I/O: one I/O driver per core thread, io_uring or epoll behind one interface.
//!
//! A [`Driver`] lives on the thread of a core and never leaves it. The driver owns descriptors
//! (listeners, streams, other sources), identifies them by generational keys, and uses `std::task`:
//! a `poll_*` call without an answer stores the caller's waker, and [`Driver::turn`] wakes the
//! caller. Both implementations give the same answers to the same calls; the tests in `tests/` run
//! every case on both.
//!
//! # The cheap way to answer requests
//!
//! With io_uring, sends are queued and leave together with the next [`Driver::turn`], which also
//! waits for the next events: one system call per batch of requests. That works only while no task
//! needs to know *now* that a send is done. A turn that finds a task waiting in
//! [`Driver::poll_sent`] submits without waiting, and a second call must wait. So a connection that
//! is kept alive should
//!
//! 1. take the buffer of the previous answer back with `poll_sent` (ready at once by then),
//! 2. `start_send` the next answer,
//! 3. continue with `poll_recv`, and return to 1 with the next request.
//!
//! A connection that is about to close, or a body sent in pieces, waits in `poll_sent`.
//!
//! # Bounds
//!
//! [`DriverOptions`] bounds everything that a driver holds, and documents the behaviour at each
//! bound.
//!
//! # Not in this crate
//!
//! No HTTP, no colors, no executor. Timers belong to the caller: the time to the next timer is the
//! timeout of `turn`.

mod affinity;
mod clock;
mod connect;
mod contained;
mod counters;
mod driver;
mod error;
mod file;
mod idle_class;
mod idle_pool;
mod load_page;
mod memory;
mod open;
mod options;
pub mod output;
mod pages;
mod passed;
mod preemption;
mod sealed_file;
mod shared_words;
mod slots;
mod socket;
mod stack_mark;
mod thread_times;
mod untold_reads;
mod work_page;

pub use affinity::{allow_current_thread, current_affinity, current_cpu, pin_current_thread};
pub use clock::{Clock, thread_cpu_ns};
pub use connect::{ConnectOptions, Connecting, connect_tcp, connect_unix};
pub use contained::{contain, take_contained_panics};
pub use counters::{CountReading, CountedEvent, Counter, NotMeasurable};
pub use driver::{
    Detached, Driver, DriverKey, ListenerKey, More, ObjectKey, SourceKey, StreamKey, Unparker,
    reset_when_closed,
};
pub use error::IoError;
pub use file::{CacheOnly, append_nowait, read_from, read_nowait, read_waiting, start_writeback};
pub use idle_class::run_in_idle_time;
pub use idle_pool::{IdlePool, ParkRequest};
pub use load_page::{CoreLoadPage, LoadPage, NEAR_MAX, monotonic_ns};
pub use memory::{bind_memory, bound_memory};
pub use open::{SealedOpens, open, seal_opens};
pub use options::{DriverOptions, IoChoice, UnknownIoChoice};
pub use pages::{Got, Pages, Region};
pub use passed::{is_listening, shares_port, take_passed, takes_both_families};
pub use preemption::preemptions;
pub use sealed_file::{SealedFile, read_sealed, sealed_memory};
pub use slots::{RegionSlot, Slots};
pub use socket::{
    ListenOptions, Newcomer, PeerState, SocketQueues, accept_queued, acknowledged_bytes, begin_no_more, bind,
    blocks, defer_accept, has_queued, held_bytes, incoming_cpu, incoming_queue, limit_queue, listen,
    newcomer, peer_addr, peer_after_end, prefer_cpu, probe_free, probe_once, queued_count, set_nodelay,
    socket_queues,
};
pub use stack_mark::StackMark;
pub use thread_times::ThreadTimes;
pub use untold_reads::{WithoutNowait, is_without_disk, list_on_core, list_on_thread};
pub use work_page::{CoreWork, WORK_COUNTS, WorkPage};
