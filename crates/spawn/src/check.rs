//! Which programs are refused, whoever asks: rules of Apache's suexec, as pure functions of what `stat` says. Which of them, and
//! which not, is in `docs/cgi.md`.
//!
//! A program runs with the rights of a user, so whoever can change it, or the folders on the way to it, has those rights
//! too. Nobody else may: every name from the root of the programs down is looked at. Leaves out looking (`look.rs`), and
//! the folders above the root, which whoever configures the server answers for. Tested in `check/tests.rs`.

use crate::user::user_name;
use std::path::{Component, Path};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// What stands under a name, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket.
    Other,
}

/// What `stat` says of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// The permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
}

/// Why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The name leads out of the root, or is no name.
    #[error("its name leads out of the folder of programs; name it without .. and without a leading slash")]
    Outside,
    /// A symbolic link on the way or at its end.
    #[error("a symbolic link can be turned to another program; put the program itself there")]
    Link,
    /// A folder was expected.
    #[error("this is not a folder; name a program below a folder")]
    NotFolder,
    /// A file was expected.
    #[error("this is not a regular file; name a program")]
    NotFile,
    /// Others may change it.
    #[error("its group or everybody may write to it (mode {mode:o}); take that away with chmod go-w")]
    Writable {
        /// Its permission bits.
        mode: u32,
    },
    /// It would run as somebody else.
    #[error("it is set-user-ID or set-group-ID (mode {mode:o}); take that away with chmod ug-s")]
    SetId {
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else's.
    #[error(
        "it belongs to user {}, neither to the superuser nor to user {}; give it to one of them with chown", user_name(u32::to_owned(.owner)), user_name(u32::to_owned(.runs_as))
    )]
    Owner {
        /// Whose it is.
        owner: u32,
        /// Who programs run as.
        runs_as: u32,
    },
}

/// The names from the root to a program, each to be looked at in turn.
///
/// # Errors
/// [`Refusal::Outside`] for an absolute path, `..`, `.` or nothing.
pub fn names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, Refusal> {
    let names: Option<Vec<_>> = path
        .components()
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
        })
        .collect();
    names.filter(|names| !names.is_empty()).ok_or(Refusal::Outside)
}

/// Judges a folder on the way to a program that runs as user `runs_as`.
///
/// # Errors
/// Why no program below it is started.
pub fn folder(found: Found, runs_as: u32) -> Result<(), Refusal> {
    match found.kind {
        Kind::Folder => unshared(found, runs_as),
        Kind::Link => Err(Refusal::Link),
        Kind::File | Kind::Other => Err(Refusal::NotFolder),
    }
}

/// Judges a program that runs as user `runs_as`.
///
/// # Errors
/// Why it is not started.
pub fn program(found: Found, runs_as: u32) -> Result<(), Refusal> {
    match found.kind {
        Kind::File if found.mode & 0o6000 != 0 => Err(Refusal::SetId { mode: found.mode }),
        Kind::File => unshared(found, runs_as),
        Kind::Link => Err(Refusal::Link),
        Kind::Folder | Kind::Other => Err(Refusal::NotFile),
    }
}

/// Only the superuser and the user that it runs as may change it.
fn unshared(found: Found, runs_as: u32) -> Result<(), Refusal> {
    if found.uid != 0 && found.uid != runs_as {
        return Err(Refusal::Owner { owner: found.uid, runs_as });
    }
    // Access control lists show in the group's bits.
    if found.mode & 0o022 != 0 {
        return Err(Refusal::Writable { mode: found.mode });
    }
    Ok(())
}
