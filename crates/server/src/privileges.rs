//! Gives up the superuser's rights once they are no longer needed: after the server has bound its
//! ports, opened the log and made the control socket.
//!
//! Owns the moment and the preparations. All steps happen while the process has no other threads,
//! because the kernel keeps users per thread. The spawner runs programs as other users and keeps
//! the right to change the user, so in that case it starts before the server gives up its rights.
//! Tested through the binary (`crates/cli/tests/e2e/user.rs`).

use crate::{log::LogTarget, options::ServeOptions, voice::say};
use rustix::{
    fs::{Gid, Uid},
    process::{getegid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::{fmt, io, str::FromStr};
use vermeil_io::output::{Output, Owner};
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
        "programs do not run as the superuser: whoever finds a fault in one would have the machine; name a user of their own"
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

    fn owner(&self) -> Owner {
        Owner { uid: self.identity.uid, gid: self.identity.gid }
    }

    /// Whether this process is this user already.
    fn is_ours(&self) -> bool {
        (geteuid().as_raw(), getegid().as_raw()) == (self.identity.uid, self.identity.gid)
    }

    /// Becomes this user, for good. A process that is this user already does nothing. Call this
    /// function before other threads exist.
    ///
    /// # Errors
    /// This process lacks the right.
    pub(crate) fn take_on(&self) -> Result<(), PrivilegeError> {
        let failed = |why: String| PrivilegeError { user: self.text.clone(), why };
        if self.is_ours() {
            return Ok(());
        }
        if !geteuid().is_root() {
            return Err(failed("only the superuser may; start as root, or leave --user out".to_owned()));
        }
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

    /// Makes the log's file for this user if the file is missing. From then on the server opens the
    /// file as this user, so an existing file keeps its owner.
    ///
    /// # Errors
    /// The file cannot be made, or another user could have planted it.
    fn own_log(&self, log: &LogTarget) -> io::Result<()> {
        let LogTarget::File(path) = log else { return Ok(()) };
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

/// The moment at which a server becomes its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the spawner starts.
    BeforePrograms,
    /// After the spawner has started, because programs run as other users.
    AfterPrograms,
}

/// The moment at which this server becomes its user.
pub(crate) fn when(options: &ServeOptions) -> When {
    let Some(user) = &options.user else { return When::BeforePrograms };
    let is_other = |identity: &Identity| identity.uid != user.identity.uid;
    let cgi_is_other = options.cgi.identity.as_ref().is_some_and(is_other);
    let php = options.php.as_ref().and_then(|php| php.user.as_deref());
    let php_is_other = php.is_some_and(|php| Identity::of_user(php).as_ref().is_ok_and(is_other));
    let pool_is_other =
        options.hosts.pools().any(|pool| pool.user.as_ref().is_none_or(|user| is_other(&user.identity)));
    let mut programs = options.hosts.programs().filter_map(|programs| programs.user.as_ref());
    let host_is_other = programs.any(|user| is_other(&user.identity));
    if cgi_is_other || php_is_other || pool_is_other || host_is_other {
        When::AfterPrograms
    } else {
        When::BeforePrograms
    }
}

/// Why the programs of `options` may not run as configured: CGI programs as the server's own user.
pub(crate) fn exposure(options: &ServeOptions) -> Option<String> {
    let user = options.user.as_ref()?;
    let is_server = |identity: &Identity| identity.uid == user.identity.uid;
    let is_named = options.cgi.identity.as_ref().is_some_and(is_server)
        || options
            .hosts
            .programs()
            .filter_map(|programs| programs.user.as_ref())
            .any(|user| is_server(&user.identity));
    if is_named {
        return Some(format!("cannot run CGI programs as {user}: that is {}", Unfit::SERVER));
    }
    // Without a configured user, programs run as the server's user. That is no loss if all programs
    // do.
    let is_nameless =
        crate::cgi::profiles(&options.cgi, &options.hosts).any(|profile| profile.identity.is_none());
    let mut pools = options.hosts.pools().filter_map(|pool| pool.user.as_ref());
    let has_others = pools.any(|user| !is_server(&user.identity));
    (is_nameless && has_others).then(|| {
        format!(
            "cannot run CGI programs as {user} beside the PHP pools of other users: that is {}, by user in [cgi]",
            Unfit::SERVER
        )
    })
}

/// The user that this process will become, if that is another user. Files that the server uses
/// later must belong to this user.
pub(crate) fn owner(options: &ServeOptions) -> Option<Owner> {
    options.user.as_ref().filter(|user| !user.is_ours()).map(User::owner)
}

/// Prepares the change to another user.
///
/// # Errors
/// The log cannot be opened.
pub(crate) fn prepare(options: &ServeOptions) -> io::Result<()> {
    options.user.as_ref().map_or(Ok(()), |user| user.own_log(&options.log))
}

/// Becomes the configured user, if `now` is the right moment.
///
/// # Errors
/// This process lacks the right.
pub(crate) fn give_up(options: &ServeOptions, now: When) -> Result<(), PrivilegeError> {
    match &options.user {
        Some(user) if when(options) == now => user.take_on(),
        _ => Ok(()),
    }
}

/// Logs the user of the server, or a warning if that is the superuser.
pub(crate) fn say_who(options: &ServeOptions) {
    match &options.user {
        Some(user) => say(format_args!("user: {user}")),
        None if geteuid().is_root() => {
            say(format_args!(
                "warning: serving as the superuser; --user NAME gives that up once the ports are bound"
            ));
        }
        None => {}
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
