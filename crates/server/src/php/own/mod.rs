//! A pool of our own: PHP found, configured, started by the spawner, and started again when it ends.
//!
//! php-fpm is preferred; with php-cgi the listening socket is ours and outlives it, so a restart refuses nobody. Both
//! run as many children as configured, always, and replace them after so many requests. Tested in `own/tests.rs`, and
//! through the binary with both.

mod demand;
mod find;
mod launch;
mod plan;
mod supervise;

#[cfg(test)]
mod tests;

pub(crate) use demand::{Pools, PreparedPools, prepare_pools};
pub(crate) use find::{Found, Kind, find, find_cgi};
use plan::Guard;
pub(crate) use plan::Plan;
pub(crate) use supervise::Supervisor;

use crate::gateway::Workspace;
use std::{io, os::fd::OwnedFd, path::PathBuf};
use thiserror::Error;
use vermeil_spawn::{DefineError, Identity, Preparation, Profile, ProfileId, UserError};

use super::{PhpOptions, PhpSource};

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
    /// What was named is not it.
    #[error("cannot start PHP: {} is no php-fpm or php-cgi that can be executed; name one, or leave it to --php", program.display())]
    NoProgram {
        /// What was named.
        program: PathBuf,
    },
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
    /// The listening socket, if the program gets it from us.
    pub(crate) listener: Option<OwnedFd>,
}

/// Finds PHP, writes what it needs below `workspace`, and tells the spawner about it.
pub(crate) fn prepare(
    options: &PhpOptions,
    content_bytes: u64,
    workspace: &Workspace,
    preparation: &mut Preparation,
) -> Result<Prepared, PhpError> {
    let program = match &options.source {
        PhpSource::Program(program) => Some(program),
        _ => None,
    };
    let found = found(program, find)?;
    let identity = match &options.user {
        Some(user) => Some(Identity::of_user(user)?),
        None => default_identity()?,
    };
    let PhpOptions { children, requests_per_child, .. } = *options;
    let (folder, guard) = folder_of(workspace, "php", identity.as_ref())?;
    let socket = folder.join("php.sock");
    let plan = Plan { found, folder, socket, guard, children, requests_per_child, content_bytes };
    let files = |source| PhpError::Files { path: plan.folder().to_owned(), source };
    plan.write(identity.as_ref().map(|identity| (identity.uid, identity.gid))).map_err(files)?;
    let listener = plan.listener().map_err(files)?;
    if listener.is_some() {
        workspace.give_to_server(&plan.socket).map_err(files)?;
    }
    let profile = preparation.define(&profile(&plan, identity))?;
    Ok(Prepared { plan, profile, listener })
}

/// The program that was named, or else what `look` finds.
fn found(program: Option<&PathBuf>, look: impl FnOnce() -> Option<Found>) -> Result<Found, PhpError> {
    match program {
        Some(program) => Found::of(program).ok_or_else(|| PhpError::NoProgram { program: program.clone() }),
        None => look().ok_or(PhpError::NotFound),
    }
}

/// A folder for a pool of `identity`, through which the server can pass, whoever it is.
fn folder_of(
    workspace: &Workspace,
    name: &str,
    identity: Option<&Identity>,
) -> Result<(PathBuf, Guard), PhpError> {
    let files = |source| PhpError::Files { path: workspace.path().join(name), source };
    let owner = identity.map(|identity| (identity.uid, identity.gid));
    let passing = match (owner, workspace.server()) {
        (Some((uid, _)), Some((server_uid, server_gid))) if uid != server_uid => Some(server_gid),
        _ => None,
    };
    let folder = match (owner, passing) {
        (Some((uid, _)), Some(gid)) => workspace.folder_passed_by(name, uid, gid),
        (owner, _) => workspace.folder(name, owner),
    };
    Ok((folder.map_err(files)?, if passing.is_some() { Guard::Folder } else { Guard::Socket }))
}

fn profile(plan: &Plan, identity: Option<Identity>) -> Profile {
    Profile { listed: vec![plan.program().to_owned()], identity, ..Profile::new(plan.folder()) }
}

/// Who a pool runs as unless it is said; ourselves, unless we are the superuser.
fn default_identity() -> Result<Option<Identity>, UserError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let first = Identity::of_user(USERS[0]);
    match first {
        Err(UserError::Unknown(_)) => Identity::of_user(USERS[1]).map(Some),
        found => found.map(Some),
    }
}
