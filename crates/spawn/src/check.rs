//! The rules that refuse programs, independent of the requester: rules of Apache's suexec, as pure
//! functions of the results of `stat`. `docs/cgi.md` lists which rules apply and which do not.
//!
//! A program runs with the rights of a user. Therefore every user that can change the program, or a
//! folder on the way to the program, has those rights too. No other user may have that access, so
//! the server checks every name from the root of the programs down.
//!
//! Leaves out reading the file system (`path_check.rs`). Also leaves out the folders above the
//! root, because the administrator of the server answers for these folders. Tested in
//! `check/tests.rs`.

use crate::user::user_name;
use std::path::{Component, Path};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// The kind of a directory entry, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket.
    Other,
}

/// The result of `stat` for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatResult {
    /// The kind of the entry.
    pub kind: FileKind,
    /// The permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
}

/// Why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProgramRefusal {
    /// The name leads out of the root, or is no name.
    #[error("its name leads out of the folder of programs; name it without .. and without a leading slash")]
    Outside,
    /// A symbolic link on the way to the program, or the program itself.
    #[error("a symbolic link can be turned to another program; put the program itself there")]
    Link,
    /// A folder was expected.
    #[error("this is not a folder; name a program below a folder")]
    NotFolder,
    /// A file was expected.
    #[error("this is not a regular file; name a program")]
    NotFile,
    /// Other users may change the file or folder.
    #[error("its group or everybody may write to it (mode {mode:o}); take that away with chmod go-w")]
    Writable {
        /// The permission bits.
        mode: u32,
    },
    /// The program would run as another user.
    #[error("it is set-user-ID or set-group-ID (mode {mode:o}); take that away with chmod ug-s")]
    SetId {
        /// The permission bits.
        mode: u32,
    },
    /// The file or folder belongs to another user.
    #[error(
        "it belongs to user {}, neither to the superuser nor to user {}; give it to one of them with chown", user_name(u32::to_owned(.owner)), user_name(u32::to_owned(.runs_as))
    )]
    Owner {
        /// The owner.
        owner: u32,
        /// The user that programs run as.
        runs_as: u32,
    },
}

/// The names from the root to a program, each to be checked in turn.
///
/// # Errors
///
/// [`ProgramRefusal::Outside`] for an absolute path, `..`, `.` or an empty path.
pub fn names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, ProgramRefusal> {
    let names: Option<Vec<_>> = path
        .components()
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
        })
        .collect();
    names.filter(|names| !names.is_empty()).ok_or(ProgramRefusal::Outside)
}

/// Judges a folder on the way to a program that runs as user `runs_as`.
///
/// # Errors
///
/// The reason why no program below the folder is started.
pub fn folder(found: StatResult, runs_as: u32) -> Result<(), ProgramRefusal> {
    match found.kind {
        FileKind::Folder => unshared(found, runs_as),
        FileKind::Link => Err(ProgramRefusal::Link),
        FileKind::File | FileKind::Other => Err(ProgramRefusal::NotFolder),
    }
}

/// Judges a program that runs as user `runs_as`.
///
/// # Errors
///
/// The reason why the program is not started.
pub fn program(found: StatResult, runs_as: u32) -> Result<(), ProgramRefusal> {
    match found.kind {
        FileKind::File if found.mode & 0o6000 != 0 => Err(ProgramRefusal::SetId { mode: found.mode }),
        FileKind::File => unshared(found, runs_as),
        FileKind::Link => Err(ProgramRefusal::Link),
        FileKind::Folder | FileKind::Other => Err(ProgramRefusal::NotFile),
    }
}

/// Only the superuser and user `runs_as` may change the entry.
fn unshared(found: StatResult, runs_as: u32) -> Result<(), ProgramRefusal> {
    if found.uid != 0 && found.uid != runs_as {
        return Err(ProgramRefusal::Owner { owner: found.uid, runs_as });
    }
    // Note: access control lists show in the group's bits.
    if found.mode & 0o022 != 0 {
        return Err(ProgramRefusal::Writable { mode: found.mode });
    }
    Ok(())
}
