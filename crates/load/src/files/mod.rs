//! File sets: which files there are, what is in them, and how they are written.
//!
//! The same description draws the requests of a run and writes the tree they are for, and what is in a file follows from
//! its path and the offset alone, so the injector verifies every byte it receives without ever having seen the file.

mod classes;
mod content;
mod manifest;
pub(crate) mod pages;
mod php;
mod write;

pub use classes::{Class, FileSet, Kind, Pick};
pub use content::{Content, fill};
pub use manifest::{MANIFEST, Manifest, Pages};
pub use write::{Written, write};
