//! A colored-event runtime for multicore machines.
//!
//! A **color** is a serial queue that owns its events: two events of a color never run at once, and
//! they run in the order of their posting. Events of different colors run in parallel on pinned
//! **cores**. Each core has its own I/O driver (io_uring or epoll). An event is either data for a
//! typed **handler** or a poll of a **task**, a future spawned on a color. State that belongs to a
//! color is a [`Colored`], which needs no lock and no atomic.
//!
//! ```
//! use vermeil::{Colored, Runtime};
//! use std::sync::Arc;
//!
//! let runtime = Runtime::builder().build()?;
//! let handle = runtime.handle();
//! let account = handle.color();
//! let balance = Arc::new(Colored::new(account.id(), 0i64));
//!
//! let deposit = handle.handler("deposit", {
//!     let balance = balance.clone();
//!     move |amount: i64| balance.with(|balance| *balance += amount)
//! });
//! for _ in 0..10 {
//!     deposit.post(&account, 5)?;
//! }
//! // A task of the same color sees what was posted before it.
//! let sum = handle.spawn_on(&account, async move { balance.with(|balance| *balance) });
//! assert_eq!(sum.wait()?, 50);
//! runtime.shutdown(std::time::Duration::from_secs(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - Events of a color never overlap, and run in the order of their posting, per producer and
//!   causally.
//! - There is no order across colors.
//! - A wake-up during a poll queues the task again at the tail of its color.
//! - Cancelling a task drops its future on its color. A panic ends its task or event and nothing
//!   else.
//! - A posted event has run, was cancelled, or is queued. [`Runtime::shutdown`] drains the runtime,
//!   then reports cancelled tasks and dropped events.
//!
//! # Bounds
//!
//! Each bound is a field of [`Limits`], [`DriverOptions`] or [`TurnLimits`], which also describes
//! the behaviour at the bound. Two further bounds are [`CLASSES_MAX`] classes and [`NEAR_MAX`]
//! neighbours of a core. A program can also bound a color ([`Color::bounded`]) and a handler
//! ([`Spec::at_most`]).

mod acquisition;
mod affinity;
mod anchor;
mod background;
mod batch_wait;
mod blocking;
mod blocking_pool;
mod bounded;
mod budget;
mod builder;
mod capacity;
mod code;
mod color;
mod color_meta;
mod concurrency_limit;
mod control;
mod control_state;
mod core;
mod core_load;
mod counters;
mod error;
mod handle;
mod handler;
mod handler_colors;
mod handlers;
mod home_core;
mod hop;
#[cfg(feature = "hyper")]
pub mod hyper;
mod idle_tracker;
mod in_flight;
#[cfg(any(feature = "futures-io", feature = "hyper", feature = "tokio-io"))]
mod io_stream;
mod keyed;
mod kind_table;
mod kinds;
mod lifo_slot;
mod limits;
mod local_ref;
mod migration;
mod move_counters;
mod move_to_poster;
mod net;
mod observed;
mod pace;
mod perf_counters;
mod permit_waits;
mod redistribute;
mod registry;
mod requests;
mod runtime;
mod runtime_end;
mod runtime_id;
mod runtime_ref;
mod settings;
mod shared;
mod shorter_queue;
mod snapshot;
mod source;
mod span;
mod spec;
mod stamps;
mod staying;
mod steal;
mod task;
mod task_body;
mod thief;
mod time;
mod timers;
mod times;
mod until_end;
mod utilization;
mod wake_core;
mod wakes_here;
mod watched;
mod when;

#[cfg(test)]
mod tests;

pub use background::background;
pub use blocking::blocking;
pub use budget::consume_budget;
pub use builder::{Builder, Pinning};
pub use color::Color;
pub use core::{core_index, now_ms};
pub use error::{BlockingFull, Ended, Full, FullOf, OffCore, Panic, RegisterError, StartError, TaskError};
pub use handle::Handle;
pub use handler::{Handler, HandlerSnapshot};
pub use hop::hop;
#[cfg(any(feature = "futures-io", feature = "hyper", feature = "tokio-io"))]
pub use io_stream::IoStream;
pub use keyed::Keyed;
pub use kinds::TaskKind;
pub use limits::Limits;
pub use net::{TcpListener, TcpStream, busy_poll};
pub use snapshot::{CoreSnapshot, Placements, Snapshot};
pub use source::Source;
pub use spec::{Exclusion, Place, Spec};
pub use staying::{movable, wake_here};
pub use task::{Task, spawn, yield_now, yield_turn};
pub use time::{Sleep, Timeout, sleep};
pub use times::{Histogram, ObservedTimes};
pub use watched::{UdpSocket, UnixDatagram, Watched};

pub use vermeil_io::{
    ConnectOptions, CoreLoadPage, DriverOptions, IoChoice, ListenOptions, LoadPage, More, NEAR_MAX, WorkPage,
    listen, monotonic_ns,
};
pub use vermeil_queue::{ColorId, Colored, Semaphore, SemaphorePermit, WaitQueue, WaitTicket, current_color};
pub use vermeil_sched::{
    BackOff, BackOffBounds, CLASSES_MAX, Class, Classes, CoreIndex, Distance, HandlerIndex, Layout, Observe,
    PlanName, Policy, TurnLimits, UnknownObserve, UnknownPolicy, control::TrialOptions, recording,
};

pub use runtime::{CoreLeft, Runtime, Stopped};
