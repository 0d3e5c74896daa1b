//! File sets: the files, their content, and how to write them.
//!
//! One description serves for the requests of a run and for the files on the server. The content of
//! a file depends only on path and offset, so the injector verifies every received byte without a
//! copy of the file.

mod classes;
mod content;
mod manifest;
pub(crate) mod pages;
mod php;
mod write;

pub use classes::{FileClass, FileSet, PickedFile, SetKind};
pub use content::{ContentCheck, fill};
pub use manifest::{MANIFEST, Manifest, SetPages};
pub(crate) use php::NO_BACK_END;
pub use write::{WrittenSet, write};
