//! Data that cores share: color queues and their tokens, ready queues, parking words.
//!
//! Contains every lock-free protocol of the runtime and the `unsafe` code of these protocols. Knows
//! neither handlers, nor policies, nor I/O. An [`Event`] runs once. A [`ColorQueue`] is a serial
//! executor (a strand) that runs events singly, in the order of posting. A [`ReadyQueue`] holds the
//! [`Token`]s of the colors that have events. [`Cores`] migrates tokens between cores. A
//! [`MultiAcquire`] acquires several colors at once. An [`Attachment`] moves a socket between the
//! drivers of two cores. [`Parking`] lets a core sleep without losing a wake-up. A [`TraceRing`]
//! keeps the last records of a core. A [`FairSemaphore`] bounds anything that waits in order.
//!
//! Read in this order: `event` (and `memory`), `color` and `token` (the count-token protocol),
//! `discard`, `task_cell`, `task_color`, `result_cell`, `colored`, `future_slot`, `ready`,
//! `migration`, `multi_acquire`, `lifo_slot`, `parking`, `idle`, `in_flight`, `attachment`,
//! `wait_queue`, `fair_semaphore`, `semaphore`, `trace_ring`. A page of the same name beside a
//! lock-free file gives the argument (`parking.md`). The model checks in `model/` run the
//! production files under loom
//! (`RUSTFLAGS="--cfg loom" cargo test -p vermeil-queue --release`). The scenarios in
//! `shuttle_tests.rs` are larger and run under shuttle.
#![allow(
    unexpected_cfgs,
    reason = "`--cfg shuttle` is given to this crate's tests alone, by `cargo xtask test`"
)]

mod attachment;
mod canary;
mod color;
mod color_head;
mod color_id;
mod color_queue;
mod colored;
mod discard;
mod event;
mod fair_semaphore;
mod future_slot;
mod idle;
mod in_flight;
mod lifo_slot;
mod memory;
mod migration;
mod multi_acquire;
mod parking;
mod queued_events;
mod ready;
mod result_cell;
mod scoped_tls;
mod semaphore;
mod sync;
mod task_cell;
mod task_color;
mod token;
mod trace_ring;
mod wait_queue;

#[cfg(all(test, any(loom, shuttle)))]
mod fake_eventfd;
#[cfg(all(test, any(loom, shuttle)))]
mod fake_queue;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use attachment::{
    Attachment, CloseOutcome, ComeOutcome, DetachOutcome, Direction, DriverCore, OwnWaiters,
};
pub use color::PushOutcome;
pub use color_head::ColorHead;
pub use color_id::ColorId;
pub use color_queue::ColorQueue;
pub use colored::{Colored, current_color, hold};
pub use event::{Event, Label, Run};
pub use fair_semaphore::{FairSemaphore, PermitOutcome};
pub use future_slot::FutureSlot;
pub use idle::IdleCoordinator;
pub use in_flight::{InFlight, RunFlag};
pub use lifo_slot::LifoSlot;
pub use migration::{Cores, StealBatch, StealBatchFill};
pub use multi_acquire::{AcquireOrder, AcquiredColors, MultiAcquire};
pub use parking::{AnnouncedSleep, Parking};
pub use ready::ReadyQueue;
pub use result_cell::{Join, Promise};
pub use scoped_tls::ScopedTls;
pub use semaphore::{AcquirePermit, Semaphore, SemaphorePermit};
pub use task_cell::{AtomicQueuedMark, QueuedMark, Spawned, TaskBody, TaskCell};
pub use task_color::ScheduleOutcome;
pub use token::{BatchCounts, BatchRun, ColorRef, HeldColor, Token};
pub use trace_ring::TraceRing;
pub use wait_queue::{WaitQueue, WaitTicket};
