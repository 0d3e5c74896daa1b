//! The user of a server or of programs: names, ids, and becoming the user.
//!
//! Leaves out the moment of the change (`privileges.rs`). Tested through the binary
//! (`crates/cli/tests/e2e/user.rs`), the rule for programs below.

use rustix::{
    fs::{Gid, Uid},
    process::{getegid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::{fmt, io, panic::resume_unwind, path::Path, str::FromStr, thread};
use vermeil_io::output::{FileOwner, Output};
use vermeil_spawn::{Identity, UserError};

/// The user of the server after it has opened the resources that need the superuser. As text:
/// `NAME` or `NAME:GROUP`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User {
    text: String,
    identity: Identity,
}

impl FromStr for User {
    type Err = UserError;

    fn from_str(text: &str) -> Result<Self, UserError> {
        let identity = match text.split_once(':') {
            None => Identity::of_user(text)?,
            Some((user, group)) => Identity::of_user(user)?.in_group(group)?,
        };
        Ok(Self { text: text.to_owned(), identity })
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why programs may not run as a user, however they are configured: a rule of suexec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The programs' user would be the superuser.
    #[error(
        "programs do not run as the superuser, because a fault in one would give the whole machine away; name another user"
    )]
    User,
    /// The programs' group would be the superuser's.
    #[error(
        "programs do not run in the superuser's group, whose files may be written to by it; name a user of another group, or for one \
         host another group behind it, as \"USER:GROUP\""
    )]
    Group,
}

impl Unfit {
    /// Why programs do not run as the server's user.
    pub(crate) const SERVER: &str = "the server's own user: its programs could reach the PHP of every host, read the access log and stop the \
        server; name a user of their own";

    /// `None` if programs may run as `identity`. A program that runs in the server's own group
    /// gains no rights from it.
    pub fn of(identity: &Identity) -> Option<Self> {
        let is_ours = (geteuid().as_raw(), getegid().as_raw()) == (identity.uid, identity.gid);
        match identity {
            Identity { uid: 0, .. } => Some(Self::User),
            Identity { gid: 0, .. } if !is_ours => Some(Self::Group),
            _ => None,
        }
    }
}

/// The process could not become the user.
#[derive(Debug, thiserror::Error)]
#[error("cannot become user {user}: {why}")]
pub struct PrivilegeError {
    user: String,
    why: String,
}

impl User {
    /// The numeric ids of the user.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn owner(&self) -> FileOwner {
        FileOwner { uid: self.identity.uid, gid: self.identity.gid }
    }

    /// Whether this process is this user already.
    pub(crate) fn is_ours(&self) -> bool {
        (geteuid().as_raw(), getegid().as_raw()) == (self.identity.uid, self.identity.gid)
    }

    /// Becomes this user, for good. A process that is this user already does nothing. Call this
    /// function before other threads exist.
    ///
    /// # Errors
    /// This process lacks the right.
    pub(crate) fn take_on(&self) -> Result<(), PrivilegeError> {
        if self.is_ours() {
            return Ok(());
        }
        self.refuse_without_rights()?;
        let failed = |why: String| self.failed(why);
        let (uid, gid) = (Uid::from_raw(self.identity.uid), Gid::from_raw(self.identity.gid));
        let groups: Vec<Gid> = self.identity.groups.iter().copied().map(Gid::from_raw).collect();
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

    /// Refuses the change to this user if this process lacks the right.
    ///
    /// # Errors
    /// The process is neither this user nor the superuser.
    pub(crate) fn refuse_without_rights(&self) -> Result<(), PrivilegeError> {
        if self.is_ours() || geteuid().is_root() {
            return Ok(());
        }
        Err(self.failed("only the superuser may; start as root, or leave --user out".to_owned()))
    }

    fn failed(&self, why: String) -> PrivilegeError {
        PrivilegeError { user: self.text.clone(), why }
    }

    /// Calls `look` with the rights of this user, on a thread of its own, because the kernel keeps
    /// users per thread. This thread keeps its rights.
    ///
    /// # Errors
    /// This process lacks the right.
    pub(crate) fn look_as<R: Send>(&self, look: impl FnOnce() -> R + Send) -> Result<R, PrivilegeError> {
        let looked = || self.take_on().map(|()| look());
        thread::scope(|scope| scope.spawn(looked).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Makes the log's file for this user if the file is missing. From then on the server opens the
    /// file as this user, so an existing file keeps its owner.
    ///
    /// # Errors
    /// The file cannot be made, or another user could have planted it.
    pub(crate) fn own_log(&self, log: Option<&Path>) -> io::Result<()> {
        let Some(path) = log else { return Ok(()) };
        if self.is_ours() || !geteuid().is_root() {
            return Ok(());
        }
        match Output::append().owned_by(Some(self.owner())).open(path) {
            // The path is a FIFO without a reader, and the server opens it later.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => Ok(()),
            opened => opened.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_neither_as_the_superuser_nor_in_its_group() {
        let of = |uid, gid| Unfit::of(&Identity { uid, gid, groups: vec![0] });
        assert_eq!(
            [of(0, 0), of(0, 1), of(1, 0)],
            [Some(Unfit::User), Some(Unfit::User), Some(Unfit::Group)]
        );
        assert_eq!(of(1, 1), None);
    }
}
