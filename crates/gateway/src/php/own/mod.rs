//! Our own PHP pool: found, configured, started by the spawner, and restarted after each end.
//!
//! php-fpm is preferred. The server owns the listening socket, which outlives the pool, and
//! requests wait in the queue during a restart, so a restart refuses no request. Both programs run
//! the configured number of children, always, and replace each child after a number of requests.
//! Tested in `own/tests.rs`, and through the binary with both programs.

mod demand;
mod find;
mod launch;
mod plan;
mod pool_registry;
mod pool_spec;
mod supervise;

#[cfg(test)]
mod tests;

pub(crate) use find::{FoundPhp, PhpKind, find, find_cgi};
pub(crate) use plan::PoolPlan;
pub(crate) use pool_registry::{Pools, Revised};
pub use pool_spec::profiles;
pub(crate) use pool_spec::{PoolSpec, wanted_by_hosts};
pub(crate) use supervise::PoolSupervisor;

use crate::parts::RunDirs;
use std::{io, net::SocketAddr, os::fd::OwnedFd, path::PathBuf};
use thiserror::Error;
use vermeil_config::ServeOptions;
use vermeil_settings::php_ini::PoolValues;
use vermeil_spawn::{DefineError, Identity, NewPrivileges, Preparation, Profile, ProfileId, UserError};

use super::PhpOptions;

/// Usual users of web servers' programs, in order of preference.
const USERS: [&str; 2] = ["www-data", "nobody"];

/// Number of the server's first pool; the pools of hosts and of reloads follow.
pub(crate) const FIRST: usize = 0;

/// A pool of our own could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PhpError {
    /// No PHP is installed.
    #[error(
        "cannot start PHP: neither php-fpm nor php-cgi is in PATH or /usr/sbin; install one (Debian: php-fpm), or name a \
         pool that runs with --php=unix:PATH, or as source in [php]"
    )]
    NotFound,
    /// The configured program is not PHP.
    #[error("cannot start PHP: {} is no php-fpm or php-cgi that can be executed; name another, with --php=PATH or as source in [php], or none to have one found", program.display())]
    NoProgram {
        /// The configured program.
        program: PathBuf,
    },
    /// No user is available for the pool.
    #[error("cannot start PHP: {0}")]
    User(#[from] UserError),
    /// The spawner refused the pool.
    #[error("cannot start PHP: {0}")]
    Define(#[from] DefineError),
    /// After a reload, the sandbox does not let the server connect to this address.
    #[error(
        "PHP at {addr} is beyond the sandbox, which was closed when the server started; restart it, or name a UNIX socket"
    )]
    Beyond {
        /// The address of PHP.
        addr: SocketAddr,
    },
    /// The files of the pool cannot be prepared.
    #[error("cannot prepare PHP: {path}: {source}")]
    Files {
        /// The file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The pool ended, or did not listen in time.
    #[error("cannot start PHP: {program} {why}; its last words: {words}")]
    Failed {
        /// The program.
        program: PathBuf,
        /// The failure.
        why: &'static str,
        /// The last output of the program.
        words: String,
    },
}

/// Everything that is decided about the pool before the start.
#[derive(Debug)]
pub struct PreparedPool {
    pub plan: PoolPlan,
    pub profile: ProfileId,
    /// The listening socket, which the program inherits.
    pub listener: OwnedFd,
}

/// Finds PHP, writes the files, and registers the pool with the spawner.
pub(crate) fn prepare(
    options: &PhpOptions,
    content_bytes: u64,
    run_dirs: &RunDirs,
    preparation: &mut Preparation,
) -> Result<PreparedPool, PhpError> {
    let found = found(options.program(), find)?;
    let identity = match &options.user {
        Some(user) => Some(Identity::of_user(user)?),
        None => default_identity(run_dirs)?,
    };
    let PhpOptions { children, requests_per_child, .. } = *options;
    let files = |source| PhpError::Files { path: run_dirs.path().to_owned(), source };
    let (socket, configuration) = (run_dirs.socket(FIRST), run_dirs.configuration(FIRST));
    let values = PoolValues::default();
    let plan = PoolPlan { found, socket, configuration, children, requests_per_child, content_bytes, values };
    plan.write().map_err(files)?;
    let listener = plan.listener().map_err(files)?;
    let profile = preparation.define(&profile(&plan.found, run_dirs, identity, options.new_privileges))?;
    Ok(PreparedPool { plan, profile, listener })
}

/// Checks that the programs of `options` are installed.
///
/// # Errors
/// A program is missing.
pub fn look_for(options: &ServeOptions) -> Result<(), PhpError> {
    if let Some(php) = options.php.as_ref().filter(|php| php.is_ours()) {
        found(php.program(), find)?;
    }
    if options.hosts.pools().next().is_some() {
        found(options.php_pools.program.as_ref(), find_cgi)?;
    }
    Ok(())
}

/// The configured program, or else the result of `look`.
fn found(program: Option<&PathBuf>, look: impl FnOnce() -> Option<FoundPhp>) -> Result<FoundPhp, PhpError> {
    match program {
        Some(program) => {
            FoundPhp::of(program).ok_or_else(|| PhpError::NoProgram { program: program.clone() })
        }
        None => look().ok_or(PhpError::NotFound),
    }
}

fn profile(
    found: &FoundPhp,
    run_dirs: &RunDirs,
    identity: Option<Identity>,
    new_privileges: NewPrivileges,
) -> Profile {
    Profile {
        listed: vec![found.program.clone()],
        identity,
        new_privileges,
        input_at_3: found.kind == PhpKind::Fpm,
        ends_children: true,
        ..Profile::new(run_dirs.path())
    }
}

/// The user of a pool without a configured user. `None`, the server's own user, unless the server
/// is started by the superuser.
fn default_identity(run_dirs: &RunDirs) -> Result<Option<Identity>, UserError> {
    if !run_dirs.have_all_users() {
        return Ok(None);
    }
    let first = Identity::of_user(USERS[0]);
    match first {
        Err(UserError::Unknown(_)) => Identity::of_user(USERS[1]).map(Some),
        found => found.map(Some),
    }
}
