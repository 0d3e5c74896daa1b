//! The folder of a pool's user: it makes its socket there, and the server passes through, whoever it is.
//!
//! The keeper makes such folders too, with all rights, for a server that has none any more. So they stand where only who
//! starts programs may write: nobody can put something else in the place of one that is being made.

use super::plan::Guard;
use crate::gateway::Grounds;
use rustix::{
    fs::{Gid, Mode, Uid, chmod, chown, mkdir},
    io::Errno,
};
use std::{
    io,
    path::{Path, PathBuf},
};
use vermeil_spawn::Identity;

/// A folder for what belongs to a user.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    /// User and group; nobody in particular if programs run as who starts them.
    owner: Option<(u32, u32)>,
    /// The server's group, if its user is another.
    passing: Option<u32>,
}

impl Home {
    /// The folder `name` of `grounds`, for programs of `identity`.
    pub(super) fn of(grounds: &Grounds, name: &Path, identity: Option<&Identity>) -> Self {
        let owner = identity.map(|identity| (identity.uid, identity.gid));
        let passing = match (owner, grounds.server()) {
            (Some((uid, _)), Some((server_uid, server_gid))) if uid != server_uid => Some(server_gid),
            _ => None,
        };
        Self { path: grounds.path().join(name), owner, passing }
    }

    /// The one that all pools of `identity` share.
    pub(super) fn of_user(grounds: &Grounds, identity: Option<&Identity>) -> Self {
        let name = match identity {
            Some(identity) => format!("users/{}-{}", identity.uid, identity.gid),
            None => "users/own".to_owned(),
        };
        Self::of(grounds, Path::new(&name), identity)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What keeps others from the sockets in it.
    pub(super) fn guard(&self) -> Guard {
        if self.passing.is_some() { Guard::Folder } else { Guard::Socket }
    }

    /// Makes it, unless it is there.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn make(&self) -> io::Result<()> {
        match mkdir(&self.path, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(()),
            made => made?,
        }
        if let Some((uid, gid)) = self.owner {
            let gid = self.passing.unwrap_or(gid);
            chown(&self.path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        if self.passing.is_some() {
            chmod(&self.path, Mode::from_raw_mode(0o710))?;
        }
        Ok(())
    }
}
