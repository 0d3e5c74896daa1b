//! A pool of our own: PHP found, configured, started by the spawner, and started again when it ends.
//!
//! php-fpm is preferred; with php-cgi the listening socket is ours and outlives it, so a restart refuses nobody. Both run as
//! many children as configured, always, and replace them after so many requests. Tested in `own/tests.rs`, and through the
//! binary with both.

mod find;
mod plan;
mod supervise;

#[cfg(test)]
mod tests;

pub(crate) use find::{Found, Kind, find};
pub(crate) use plan::Plan;
pub(crate) use supervise::Supervisor;

use crate::gateway::Workspace;
use std::{io, path::PathBuf};
use thiserror::Error;
use vermeil_spawn::{DefineError, Identity, Preparation, Profile, ProfileId, UserError};

use super::PhpOptions;

/// Users that web servers' programs run as, in the order of preference.
const USERS: [&str; 2] = ["www-data", "nobody"];

/// A pool of our own could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PhpError {
    /// Nothing is installed.
    #[error(
        "cannot start PHP: neither php-fpm nor php-cgi is in PATH or /usr/sbin; install one (Debian: php-fpm), or name a \
         pool that runs with --php=unix:PATH"
    )]
    NotFound,
    /// No user for it.
    #[error("cannot start PHP: {0}")]
    User(#[from] UserError),
    /// The spawner refused it.
    #[error("cannot start PHP: {0}")]
    Define(#[from] DefineError),
    /// Its files.
    #[error("cannot prepare PHP: {path}: {source}")]
    Files {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended, or did not listen in time.
    #[error("cannot start PHP: {program} {why}; its last words: {words}")]
    Failed {
        /// The program.
        program: PathBuf,
        /// What it did.
        why: &'static str,
        /// What it said.
        words: String,
    },
}

/// Everything decided about the pool before anything is started.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) profile: ProfileId,
}

/// Finds PHP, writes what it needs below `workspace`, and tells the spawner about it.
pub(crate) fn prepare(
    options: &PhpOptions,
    content_bytes: u64,
    workspace: &Workspace,
    preparation: &mut Preparation,
) -> Result<Prepared, PhpError> {
    let found = find().ok_or(PhpError::NotFound)?;
    let identity = identity(options)?;
    let owner = identity.as_ref().map(|identity| (identity.uid, identity.gid));
    let files = |source| PhpError::Files { path: workspace.path().join("php"), source };
    let folder = workspace.folder("php", owner).map_err(files)?;
    let plan = Plan::new(found, options, content_bytes, folder);
    plan.write(owner).map_err(files)?;
    let profile = preparation.define(&Profile {
        listed: vec![plan.program().to_owned()],
        identity,
        ..Profile::new(plan.folder())
    })?;
    Ok(Prepared { plan, profile })
}

/// Who the pool runs as; ourselves, unless we are the superuser.
fn identity(options: &PhpOptions) -> Result<Option<Identity>, UserError> {
    if let Some(user) = &options.user {
        return Identity::of_user(user).map(Some);
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let first = Identity::of_user(USERS[0]);
    match first {
        Err(UserError::Unknown(_)) => Identity::of_user(USERS[1]).map(Some),
        found => found.map(Some),
    }
}
