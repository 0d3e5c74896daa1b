//! The pools of our own that a configuration asks for, and how each would be started.
//!
//! Found out alike by the server and by the keeper, which reads the configuration itself: what may be started is what both
//! have found. So nothing here depends on rights that the server gives up, or on what it does. Tested through the binary
//! (`crates/cli/tests/e2e/php/reload.rs`).

use super::{Found, PhpError, Plan, default_identity, find, find_cgi, found};
use crate::{
    gateway::Grounds,
    options::ServeOptions,
    php::{PhpOptions, PoolOptions, pool::PoolBounds},
};
use std::{sync::Arc, time::Duration};
use vermeil_spawn::{Identity, Profile};

/// Whose pool it is, and what was said of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Server(PhpOptions),
    Hosts(Arc<PoolOptions>),
}

/// What tells pools apart: one that is asked for alike by another configuration goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) whose: Whose,
    found: Found,
    content_bytes: u64,
}

/// A pool that is asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(super) key: Key,
    identity: Option<Identity>,
}

/// All that `options` ask for, but for a pool of others.
pub(crate) fn wanted(options: &ServeOptions, grounds: &Grounds) -> Result<Vec<Wanted>, PhpError> {
    let mut all = Vec::new();
    let content_bytes = options.gateway.content_bytes;
    if let Some(php) = options.php.as_ref().filter(|php| php.is_ours()) {
        let found = found(php.program(), find)?;
        let identity = match &php.user {
            Some(user) => Some(Identity::of_user(user)?),
            None => default_identity(grounds)?,
        };
        all.push(Wanted::new(Whose::Server(php.clone()), found, content_bytes, identity));
    }
    all.extend(wanted_by_hosts(options, grounds)?);
    Ok(all)
}

/// Those that hosts have for themselves.
pub(crate) fn wanted_by_hosts(options: &ServeOptions, grounds: &Grounds) -> Result<Vec<Wanted>, PhpError> {
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
                None => default_identity(grounds)?,
            };
            let whose = Whose::Hosts(pool.clone());
            Ok(Wanted::new(whose, found.clone(), content_bytes, identity))
        })
        .collect()
}

/// The profiles of all pools that `options` ask for. For the keeper.
pub(crate) fn profiles(options: &ServeOptions, grounds: &Grounds) -> Result<Vec<Profile>, PhpError> {
    Ok(wanted(options, grounds)?.iter().map(|wanted| wanted.profile(grounds)).collect())
}

impl Wanted {
    fn new(whose: Whose, found: Found, content_bytes: u64, identity: Option<Identity>) -> Self {
        Self { key: Key { whose, found, content_bytes }, identity }
    }

    /// Who it runs as, and what.
    pub(crate) fn profile(&self, grounds: &Grounds) -> Profile {
        let new_privileges = match &self.key.whose {
            Whose::Server(php) => php.new_privileges,
            Whose::Hosts(pool) => pool.new_privileges,
        };
        super::profile(&self.key.found, grounds, self.identity.clone(), new_privileges)
    }

    /// How it is started as the pool `number`.
    pub(super) fn plan(&self, number: usize, grounds: &Grounds) -> Plan {
        let (children, requests_per_child) = match &self.key.whose {
            Whose::Server(php) => (php.children, php.requests_per_child),
            Whose::Hosts(pool) => (pool.children, pool.requests_per_child),
        };
        Plan {
            found: self.key.found.clone(),
            socket: grounds.socket(number),
            configuration: grounds.configuration(number),
            children,
            requests_per_child,
            content_bytes: self.key.content_bytes,
        }
    }
}

impl Key {
    pub(super) fn bounds(&self) -> PoolBounds {
        let (children, queue_max) = match &self.whose {
            Whose::Server(php) => (php.children, php.queue_max),
            Whose::Hosts(pool) => (pool.children, pool.queue_max),
        };
        PoolBounds { connections_max: children, queue_max, idle_max: children }
    }

    /// How long it is kept without a request; nothing if it always runs.
    pub(super) fn idle_stop(&self) -> Option<Duration> {
        match &self.whose {
            Whose::Server(_) => None,
            Whose::Hosts(pool) => Some(pool.idle_stop),
        }
    }

    /// For people: `the pool` and this.
    pub(super) fn name(&self) -> String {
        match &self.whose {
            Whose::Server(_) => "of the server".to_owned(),
            Whose::Hosts(pool) => match &pool.user {
                Some(user) => format!("of user {user}"),
                None => "of a host".to_owned(),
            },
        }
    }
}
