//! The folders that are served: from a request's path to something ready to send, through a cache that is right.
//!
//! Reading order: [`Site`] (a folder), [`Store`] (what all of them share), [`CoreCache`] (one core's map, the hot path),
//! `load` (how a path is resolved), [`Entry`] (what it resolves to), `index` (how entries are kept right), `listing`.
//! Knows neither sockets nor the runtime: whatever may wait for a disk is a job that its caller runs where waiting is
//! allowed.
//!
//! # What is right, and when
//!
//! Every name on the way to a file is watched *before* it is looked up, and what the kernel told meanwhile is taken in
//! before the result is kept. So a change is either seen by the look-up or told after it, and an entry that a told change
//! concerns is never used again. The kernel queues an event before the system call that made the change returns: a core
//! that calls [`Store::handle_events`] before it answers what the same poll brought answers no request with what was
//! changed before the request was sent.
//!
//! Where the kernel's word is not enough (a symbolic link or a mount point on the way, a second hard link, a file system
//! that others change, no watch left) the path is looked up again at each use. Three changes are not told at all: writes
//! through a memory mapping before it is unmapped, mounting over a watched folder, and writes through a hard link made
//! after the file was cached. So an entry in use is also looked up again once [`StoreOptions::recheck_ms`] have passed, and
//! its contents in memory are compared with their files: a store through a mapping moves a file's time only when its page
//! is clean. A larger file gets a strong tag only where the kernel was made to clean its pages before.
//!
//! A file that changed within the last two seconds may change again without its time or size telling (`entry.rs`,
//! `SETTLE_MS`), so it is read again at its next check, and its tag is weak unless its content is in memory.
//!
//! No program is opened for reading (`programs.rs`).
//!
//! Tests: `tests/`; readers against writers in `tests/torture.rs`.

mod content;
mod core_cache;
mod entry;
mod index;
mod listing;
mod load;
mod memory;
mod open;
mod options;
mod programs;
mod root;
mod site;
mod store;
mod variant;

#[cfg(test)]
mod tests;

pub use content::{Content, OpenFile, WarmJob};
pub use core_cache::{CoreCache, Handle, Lookup};
pub use entry::{Entry, FileEntry, Outcome};
pub use listing::{ListingJob, ListingPage};
pub use load::{Job, Loaded, WouldBlock};
pub use options::{
    FollowSymlinks, LISTING_NAMES_MAX, LargeFiles, Listing, SiteError, SiteOptions, StoreOptions, TypeOf,
    UnfitType, UnknownFollowSymlinks,
};
pub use programs::{Given, Part, Programs};
pub(crate) use programs::{ends_with, has_program_name, has_segment, rest};
pub use site::Site;
pub use store::{Store, Usage};
pub(crate) use variant::SERVER;
pub use variant::Variant;
