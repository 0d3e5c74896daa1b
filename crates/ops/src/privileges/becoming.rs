//! Becoming another user.
//!
//! Leaves out the moment of the change (`privileges/mod.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/user.rs`).

use rustix::{
    fs::{FileType, Gid, Stat, Uid},
    process::geteuid,
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::{io, panic::resume_unwind, path::Path, thread};
use vermeil_io::output::{FileOwner, NameInFolder, Output};
use vermeil_settings::User;

/// The process could not become the user.
#[derive(Debug, thiserror::Error)]
#[error("cannot become user {user}: {why}")]
pub struct PrivilegeError {
    user: String,
    why: String,
}

/// The owner of files that belong to `user`.
pub(super) fn owner(user: &User) -> FileOwner {
    FileOwner { uid: user.identity().uid, gid: user.identity().gid }
}

/// Becomes `user`, for good. A process that is the user already does nothing. Call this
/// function before other threads exist.
///
/// # Errors
/// This process lacks the right.
pub(super) fn take_on(user: &User) -> Result<(), PrivilegeError> {
    if user.is_ours() {
        return Ok(());
    }
    refuse_without_rights(user)?;
    let failed = |why: String| failed(user, why);
    let (uid, gid) = (Uid::from_raw(user.identity().uid), Gid::from_raw(user.identity().gid));
    let groups: Vec<Gid> = user.identity().groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .map_err(|error| failed(io::Error::from(error).to_string()))?;
    // Without this check, a kernel that lets the process return to root would make all of this
    // vain.
    let root = Uid::ROOT;
    if !uid.is_root() && set_thread_res_uid(root, root, root).is_ok() {
        return Err(failed("the rights could be had back".to_owned()));
    }
    Ok(())
}

/// Refuses the change to `user` if this process lacks the right.
///
/// # Errors
/// The process is neither that user nor the superuser.
pub fn refuse_without_rights(user: &User) -> Result<(), PrivilegeError> {
    if user.is_ours() || geteuid().is_root() {
        return Ok(());
    }
    Err(failed(user, "only the superuser may; start as root, or leave --user out".to_owned()))
}

fn failed(user: &User, why: String) -> PrivilegeError {
    PrivilegeError { user: user.to_string(), why }
}

/// Calls `look` with the rights of `user`, on a thread of its own, because the kernel keeps
/// users per thread. This thread keeps its rights.
///
/// # Errors
/// This process lacks the right.
pub fn look_as<R: Send>(user: &User, look: impl FnOnce() -> R + Send) -> Result<R, PrivilegeError> {
    let looked = || take_on(user).map(|()| look());
    thread::scope(|scope| scope.spawn(looked).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes the log's file for `user` if the file is missing. A file that exists is left as it is,
/// owner included. The server later opens the log as `user`, so that user must be allowed to write
/// to it.
///
/// # Errors
/// The file cannot be made, or another user could have planted it.
pub(super) fn own_log(user: &User, log: Option<&Path>) -> io::Result<()> {
    let Some(path) = log else { return Ok(()) };
    if user.is_ours() || !geteuid().is_root() {
        return Ok(());
    }
    // Opening a FIFO and closing it again would be the end of the log for the FIFO's reader.
    if NameInFolder::find(path)?.stat().is_ok_and(|stat| is_fifo(&stat)) {
        return Ok(());
    }
    Output::append().owned_by(Some(owner(user))).open(path).map(drop)
}

fn is_fifo(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Fifo
}
