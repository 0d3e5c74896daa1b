//! Data that cores share: color queues and their tokens, ready queues, parking words.
//!
//! Contains every lock-free protocol of the runtime and the `unsafe` code of these protocols. Knows
//! neither handlers, nor policies, nor I/O. An [`Event`] runs once. A [`ColorQueue`] is a serial
//! executor (a strand) that runs events singly, in the order of posting. A [`ReadyQueue`] holds the
//! [`Token`]s of the colors that have events. [`Cores`] migrates tokens between cores. A
//! [`Meeting`] acquires several colors at once. [`Parking`] lets a core sleep without losing a
//! wake-up. A [`Ring`] keeps the last records of a core.
//!
//! Read in this order: `event` (and `memory`), `color` and `token` (the count-token protocol),
//! `repeating`, `own`, `outcome`, `colored`, `resident`, `ready`, `handover`, `meeting`, `kept`,
//! `parking`, `lookout`, `tally`, `ring`. A page of the same name beside a lock-free file gives the
//! argument (`parking.md`). The model checks in `model/` run the production files under loom
//! (`RUSTFLAGS="--cfg loom" cargo test -p vermeil-queue --release`). The scenarios in `throng.rs`
//! are larger and run under shuttle.
#![allow(
    unexpected_cfgs,
    reason = "`--cfg shuttle` is given to this crate's tests alone, by `cargo xtask test`"
)]

mod canary;
mod color;
mod colored;
mod event;
mod handover;
mod here;
mod kept;
mod lookout;
mod meeting;
mod memory;
mod outcome;
mod own;
mod parking;
mod ready;
mod repeating;
mod resident;
mod ring;
mod sync;
mod tally;
mod token;

#[cfg(all(test, any(loom, shuttle)))]
mod bell;
#[cfg(all(test, any(loom, shuttle)))]
mod line;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
#[cfg(all(test, shuttle))]
mod throng;

pub use color::{ColorId, ColorQueue, Pushed};
pub use colored::{Colored, current_color, hold};
pub use event::{Event, Label, Run};
pub use handover::{Cores, Haul, Taking};
pub use here::Here;
pub use kept::Kept;
pub use lookout::Lookout;
pub use meeting::{Meeting, Meetings, Together};
pub use outcome::{Join, Promise};
pub use own::Called;
pub use parking::{Parking, Sleep};
pub use ready::ReadyQueue;
pub use repeating::{Mark, Posted, Repeat, Repeating, Spawned};
pub use resident::Resident;
pub use ring::Ring;
pub use tally::{Runs, Tally};
pub use token::{Activation, ColorRef, Head, Held, Ran, Token};
