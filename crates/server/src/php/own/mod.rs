//! A pool of our own: PHP found, configured, started by the spawner, and started again when it ends.
//!
//! php-fpm is preferred. The listening socket is ours and outlives the pool, so a restart refuses no request. Both
//! run as many children as configured, always, and replace them after so many requests. Tested in `own/tests.rs`, and
//! through the binary with both.

mod demand;
mod find;
mod launch;
mod plan;
mod roster;
mod supervise;
mod wanted;

#[cfg(test)]
mod tests;

pub(crate) use find::{Found, Kind, find, find_cgi};
pub(crate) use plan::Plan;
pub(crate) use roster::{Pools, Revised};
pub(crate) use supervise::Supervisor;
pub(crate) use wanted::{Wanted, profiles, wanted_by_hosts};

use crate::{gateway::Grounds, options::ServeOptions};
use std::{io, net::SocketAddr, os::fd::OwnedFd, path::PathBuf};
use thiserror::Error;
use vermeil_spawn::{DefineError, Identity, NewPrivileges, Preparation, Profile, ProfileId, UserError};

use super::PhpOptions;

/// Users that web servers' programs run as, in the order of preference.
const USERS: [&str; 2] = ["www-data", "nobody"];

/// The number of the server's first pool; those of hosts follow.
const FIRST: usize = 0;

/// A pool of our own could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PhpError {
    /// Nothing is installed.
    #[error(
        "cannot start PHP: neither php-fpm nor php-cgi is in PATH or /usr/sbin; install one (Debian: php-fpm), or name a \
         pool that runs with --php=unix:PATH, or as source in [php]"
    )]
    NotFound,
    /// What was named is not it.
    #[error("cannot start PHP: {} is no php-fpm or php-cgi that can be executed; name another, with --php=PATH or as source in [php], or none to have one found", program.display())]
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
    /// A reload asks for it where the sandbox does not let the server connect to.
    #[error(
        "PHP at {addr} is beyond the sandbox, which was closed when the server started; restart it, or name a UNIX socket"
    )]
    Beyond {
        /// Where it is.
        addr: SocketAddr,
    },
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
    /// The listening socket, which the program gets from us.
    pub(crate) listener: OwnedFd,
}

/// Finds PHP, writes what it needs, and tells the spawner about it.
pub(crate) fn prepare(
    options: &PhpOptions,
    content_bytes: u64,
    grounds: &Grounds,
    preparation: &mut Preparation,
) -> Result<Prepared, PhpError> {
    let found = found(options.program(), find)?;
    let identity = match &options.user {
        Some(user) => Some(Identity::of_user(user)?),
        None => default_identity(grounds)?,
    };
    let PhpOptions { children, requests_per_child, .. } = *options;
    let files = |source| PhpError::Files { path: grounds.path().to_owned(), source };
    let (socket, configuration) = (grounds.socket(FIRST), grounds.configuration(FIRST));
    let plan = Plan { found, socket, configuration, children, requests_per_child, content_bytes };
    plan.write().map_err(files)?;
    let listener = plan.listener().map_err(files)?;
    let profile = preparation.define(&profile(&plan.found, grounds, identity, options.new_privileges))?;
    Ok(Prepared { plan, profile, listener })
}

/// Looks for the programs that `options` need.
///
/// # Errors
/// One of them is not there.
pub(crate) fn look_for(options: &ServeOptions) -> Result<(), PhpError> {
    if let Some(php) = options.php.as_ref().filter(|php| php.is_ours()) {
        found(php.program(), find)?;
    }
    if options.hosts.pools().next().is_some() {
        found(options.php_pools.program.as_ref(), find_cgi)?;
    }
    Ok(())
}

/// The program that was named, or else what `look` finds.
fn found(program: Option<&PathBuf>, look: impl FnOnce() -> Option<Found>) -> Result<Found, PhpError> {
    match program {
        Some(program) => Found::of(program).ok_or_else(|| PhpError::NoProgram { program: program.clone() }),
        None => look().ok_or(PhpError::NotFound),
    }
}

fn profile(
    found: &Found,
    grounds: &Grounds,
    identity: Option<Identity>,
    new_privileges: NewPrivileges,
) -> Profile {
    Profile {
        listed: vec![found.program.clone()],
        identity,
        new_privileges,
        input_at_3: found.kind == Kind::Fpm,
        ..Profile::new(grounds.path())
    }
}

/// Who a pool runs as unless it is said; who starts it, unless that is the superuser.
fn default_identity(grounds: &Grounds) -> Result<Option<Identity>, UserError> {
    if !grounds.have_all_users() {
        return Ok(None);
    }
    let first = Identity::of_user(USERS[0]);
    match first {
        Err(UserError::Unknown(_)) => Identity::of_user(USERS[1]).map(Some),
        found => found.map(Some),
    }
}
