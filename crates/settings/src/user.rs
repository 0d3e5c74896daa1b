//! The user of a server or of programs: names and ids.
//!
//! Leaves out becoming the user. Tested through the binary (`crates/e2e/tests/e2e/user.rs`), the
//! rule for programs below.

use rustix::process::{getegid, geteuid};
use std::{fmt, str::FromStr};
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
    pub const SERVER: &str = "the server's own user: its programs could reach the PHP of every host, read the access log and stop the \
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

impl User {
    /// The numeric ids of the user.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether this process is this user already.
    pub fn is_ours(&self) -> bool {
        (geteuid().as_raw(), getegid().as_raw()) == (self.identity.uid, self.identity.gid)
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
