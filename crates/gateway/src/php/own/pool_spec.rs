//! Our own pools that a configuration asks for, and how each is started.
//!
//! The server and the keeper both derive this from the configuration, and only pools in both
//! results may start. So the result must not depend on rights that the server gives up, or on its
//! actions. Tested through the binary (`crates/e2e/tests/e2e/php/reload.rs`).

use super::{FoundPhp, PhpError, PoolPlan, default_identity, find, find_cgi, found};
use crate::{parts::RunDirs, php::pool::PoolBounds};
use std::{sync::Arc, time::Duration};
use vermeil_config::ServeOptions;
use vermeil_settings::{
    php::{PhpOptions, PoolOptions},
    php_ini::PoolValues,
};
use vermeil_spawn::{Identity, Profile};

/// The owner and the options of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PoolOwner {
    Server(PhpOptions),
    Hosts(Arc<PoolOptions>),
}

/// Identity of a pool: a pool with the same key in another configuration goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) whose: PoolOwner,
    found: FoundPhp,
    content_bytes: u64,
}

/// A wanted pool.
#[derive(Debug)]
pub struct PoolSpec {
    pub(super) key: PoolKey,
    identity: Option<Identity>,
}

/// All pools that `options` ask for, except an external pool.
pub(super) fn pool_specs(options: &ServeOptions, run_dirs: &RunDirs) -> Result<Vec<PoolSpec>, PhpError> {
    let mut all = Vec::new();
    let content_bytes = options.gateway.content_bytes;
    if let Some(php) = options.php.as_ref().filter(|php| php.is_ours()) {
        let found = found(php.program(), find)?;
        let identity = match &php.user {
            Some(user) => Some(Identity::of_user(user)?),
            None => default_identity(run_dirs)?,
        };
        all.push(PoolSpec::new(PoolOwner::Server(php.clone()), found, content_bytes, identity));
    }
    all.extend(wanted_by_hosts(options, run_dirs)?);
    Ok(all)
}

/// The pools of hosts.
pub(crate) fn wanted_by_hosts(options: &ServeOptions, run_dirs: &RunDirs) -> Result<Vec<PoolSpec>, PhpError> {
    let mut pools = options.hosts.pools().peekable();
    if pools.peek().is_none() {
        return Ok(Vec::new());
    }
    let found = found(options.php_pools.program.as_ref(), find_cgi)?;
    let content_bytes = options.gateway.content_bytes;
    pools
        .map(|pool| {
            let identity = match &pool.user {
                Some(user) => Some(user.identity().clone()),
                None => default_identity(run_dirs)?,
            };
            let whose = PoolOwner::Hosts(pool.clone());
            Ok(PoolSpec::new(whose, found.clone(), content_bytes, identity))
        })
        .collect()
}

/// The profiles of all pools of `options`. For the keeper.
pub fn profiles(options: &ServeOptions, run_dirs: &RunDirs) -> Result<Vec<Profile>, PhpError> {
    Ok(pool_specs(options, run_dirs)?.iter().map(|wanted| wanted.profile(run_dirs)).collect())
}

impl PoolSpec {
    fn new(whose: PoolOwner, found: FoundPhp, content_bytes: u64, identity: Option<Identity>) -> Self {
        Self { key: PoolKey { whose, found, content_bytes }, identity }
    }

    /// The user and the program of the pool.
    pub fn profile(&self, run_dirs: &RunDirs) -> Profile {
        let new_privileges = match &self.key.whose {
            PoolOwner::Server(php) => php.new_privileges,
            PoolOwner::Hosts(pool) => pool.new_privileges,
        };
        super::profile(&self.key.found, run_dirs, self.identity.clone(), new_privileges)
    }

    /// How to start the pool as pool `number`.
    pub(super) fn plan(&self, number: usize, run_dirs: &RunDirs) -> PoolPlan {
        let (children, requests_per_child, values) = match &self.key.whose {
            PoolOwner::Server(php) => (php.children, php.requests_per_child, PoolValues::default()),
            PoolOwner::Hosts(pool) => (pool.children, pool.requests_per_child, pool.values.clone()),
        };
        PoolPlan {
            found: self.key.found.clone(),
            socket: run_dirs.socket(number),
            configuration: run_dirs.configuration(number),
            children,
            requests_per_child,
            content_bytes: self.key.content_bytes,
            values,
        }
    }
}

impl PoolKey {
    pub(super) fn bounds(&self) -> PoolBounds {
        let (children, queue_max) = match &self.whose {
            PoolOwner::Server(php) => (php.children, php.queue_max),
            PoolOwner::Hosts(pool) => (pool.children, pool.queue_max),
        };
        PoolBounds { connections_max: children, queue_max, idle_max: children }
    }

    /// Idle time after which the pool is stopped; `None` if the pool always runs.
    pub(super) fn idle_stop(&self) -> Option<Duration> {
        match &self.whose {
            PoolOwner::Server(_) => None,
            PoolOwner::Hosts(pool) => Some(pool.idle_stop),
        }
    }

    /// The name in messages, after `the pool`.
    pub(super) fn name(&self) -> String {
        match &self.whose {
            PoolOwner::Server(_) => "of the server".to_owned(),
            PoolOwner::Hosts(pool) => match &pool.user {
                Some(user) => format!("of user {user}"),
                None => "of a host".to_owned(),
            },
        }
    }
}
