//! What can go wrong here: one type, whose messages name the operation, the thing and the cure.
//!
//! Leaves out what a card cannot do: that is part of a plan (`Plan::refusals`), not an error.

use std::io;
use std::path::PathBuf;

/// Why steering could not be read, changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder handed in has no network cards.
    #[error("cannot read network cards from {}: {source}; is sysfs mounted there?", path.display())]
    Sysfs {
        /// The folder that was to be listed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A card that was named does not exist.
    #[error("there is no network card {name:?}; there are {}", present.join(", "))]
    NoSuchNic {
        /// As it was asked for.
        name: String,
        /// Those there are.
        present: Vec<String>,
    },
    /// A plan that must not be carried out as things are.
    #[error("nothing was changed: {}", .0.join("; "))]
    Blocked(Vec<String>),
}
