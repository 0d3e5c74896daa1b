//! Flow steering: reads network cards, makes a plan that assigns flows to cores, and applies,
//! verifies and undoes the plan.
//!
//! Four independent places decide the way of a packet through a machine: the card's choice of a
//! receive queue, the cpu of that queue's interrupt, the queue that a cpu transmits on, and the
//! socket that gets the connection. A change of only one place conflicts with the other three, so
//! this crate makes one decision per queue.
//!
//! - [`CardNetwork`] is the present state, read by [`read()`] from a folder that looks like `/`
//!   (sysfs and procfs) and from a [`CardKernel`] for data outside of files (ethtool and netlink).
//! - [`plan()`] is pure: machine, network and the cpus of the server's cores in, a [`SteerPlan`] of
//!   [`PlannedChange`]s out, each with a reason.
//! - [`Steering`] saves the former state, then applies a plan wholly or not at all, and restores
//!   exactly the former state.
//! - [`verify()`] reports, under traffic, how many reads happened on the cpu that had handled the
//!   packets.
//!
//! - [`AcceptSteering`] makes the kernel choose the core of a new connection, [`Classifier`] the
//!   cpu of a packet in front of the stack; [`compare()`] measures whether the classifier pays.
//!
//! Must never know HTTP. Only `ethtool` (ioctl) and `bpf` (bpf(2)) contain unsafe code.

mod error;
mod interrupts;
mod mask;
mod nic;
mod owner;

mod ethtool;
mod kernel;
mod netlink;
mod read;

mod setting;

mod find;

mod plan;

mod apply;
mod state;

mod accept;
mod bpf;
mod btf;
mod classify;
mod compare;
mod drops;
mod meter;
mod verify;
mod wakes;

pub mod render;

pub use accept::{AcceptSteering, CORE_BYTES, Group, Mode, detach_program, homes, near};
pub use apply::{Applied, Planner, Recovered, Restored, Steering};
pub use classify::{ChecksumWatch, Classified, Classifier, PlaceChoice, ProgramPosition};
pub use compare::{Compared, Comparison, ROUNDS, SpreadWay, WindowRow, advise, compare};
pub use drops::PacketDrops;
pub use error::SteerError;
pub use interrupts::InterruptLine;
pub use kernel::{CardKernel, LiveKernel, RecordedCard};
pub use meter::{Meter, Reads};
pub use nic::{CardKind, CardNetwork, CardPolling, Channels, Irq, Napi, Nic, RxQueue, TxQueue};
pub use owner::InterruptOwner;
pub use plan::{NicPlan, PlanRequest, PlannedChange, QueuePlan, Queues, SteerClass, SteerPlan, plan};
pub use read::read;
pub use setting::{Setting, Settings, System};
pub use state::{CommandPhase, STATE_FOLDER, Saved, StateStore, SteerState, now};
pub use verify::{CardTraffic, Drift, Verified, verify};
pub use wakes::CpuWakes;

#[cfg(test)]
mod fixture;
