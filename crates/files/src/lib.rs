//! Served folders: from a request's path to an answer ready to send, through a coherent cache.
//!
//! Reading order: [`Site`] (a folder), [`FileStore`] (the state that all sites share),
//! [`CoreCache`] (the map of a core, the hot path), `load` (how a path is resolved), [`Entry`] (the
//! result), `index` (how entries stay correct), `listing`. Work that may wait for a disk is a job,
//! and the caller runs the job on a thread that may wait. Must never know sockets, the runtime or
//! configuration files.
//!
//! # Coherence
//!
//! A look-up watches every name on the way to a file *before* it reads the name. The index handles
//! the events that arrived meanwhile before it keeps the result. Therefore the look-up sees a
//! change, or an event reports the change afterwards. No core uses an entry again after an event
//! for its file. The kernel queues an event before the system call that made the change returns. A
//! core calls [`FileStore::handle_events`] before it answers the requests of the same poll. Such a
//! core never answers a request with content that was replaced before the client sent the request.
//!
//! In some places events are not enough, for example behind a symbolic link or a mount point, or
//! for a file with a second hard link. The same holds for a file system that other machines change,
//! and when no watch is left. There, each use resolves the path again.
//!
//! The kernel does not report three changes: writes through a memory mapping before the unmap,
//! mounting over a watched folder, and writes through a hard link made after the file was cached.
//! Therefore an entry in use is also checked again once [`StoreOptions::recheck_ms`] have passed.
//! That check compares contents in memory with their files, because a store through a mapping moves
//! a file's time only when its page is clean. A larger file gets a strong tag only where the kernel
//! was made to clean its pages before.
//!
//! A file that changed within the last two seconds may change again with the same time and size
//! (`entry.rs`, `SETTLE_MS`). Its next check therefore reads the file again, and its tag is weak
//! unless its content is in memory.
//!
//! A path that a core was asked for less than four times within a second is looked up without
//! watch and entry (`load/cold.rs`): each such request opens the file and sees its present state.
//!
//! The server never opens a program for reading (`programs.rs`).
//!
//! Tests: `tests/`; readers against writers in `tests/torture.rs`.

mod content;
mod core_cache;
mod doorkeeper;
mod entry;
mod folder_facts;
mod folder_looks;
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

pub use content::{Content, OpenFile, SealedContent, WarmJob};
pub use core_cache::{CoreCache, EntryHandle, Lookup};
pub use doorkeeper::Doorkeeper;
pub use entry::{Entry, EntryOutcome, FileEntry};
pub use listing::{ListingJob, ListingPage};
pub use load::{LoadedEntry, PathJob, UnopenedFolder, UnopenedJob};
pub use open::WouldBlock;
pub use options::{
    CachingOf, FileTags, FollowSymlinks, LISTING_NAMES_MAX, LargeFiles, Listing, MediaRange, SiteError,
    SiteOptions, StoreOptions, TypeOf, UnfitRange, UnfitType, UnknownFollowSymlinks,
};
pub use programs::{RouteEffect, SitePart, SitePrograms, ends_with, has_program_name, has_segment, rest};
pub use site::{Site, try_folder};
pub use store::{FileStore, StoreUsage};
pub use variant::{SERVER, Variant, forbids_transformation};
