//! The options of `vermeil serve` about PHP, and their conversion.

use crate::usage::UsageError;
use crate::values::PhpPlace;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use vermeil_config::Surroundings;
use vermeil_settings::{
    Unfit,
    cgi::Identity,
    gateway::SendRoot,
    php::{self, PhpOptions},
};

/// PHP.
#[derive(Clone, Debug, Args)]
pub(super) struct PhpArgs {
    /// Let PHP answer files named *.php
    ///
    /// `auto`, or no value: the server starts a pool of its own with the installed php-fpm or
    /// php-cgi, and ends the pool with the server. A path: the same with that php-fpm or php-cgi.
    /// unix:PATH, ADDRESS:PORT or NAME:PORT: a FastCGI pool that already runs, at the first address
    /// of the name that accepts a connection. A folder without index.html is
    /// answered by its index.php. Default: no PHP; such files get 403, because the source of a
    /// program is never sent.
    #[arg(long, value_name = "auto|PATH|unix:PATH|ADDR", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto")]
    php: Option<PhpPlace>,

    /// Children of the pool, and connections to the pool at the same time
    ///
    /// From 1 to 10000. Default: 4 for each core. Further requests wait until a child is free.
    #[arg(long, value_name = "N", requires = "php")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    php_children: Option<usize>,

    /// Requests that may wait for PHP
    ///
    /// From 0 to 1000000. Beyond it: 503.
    #[arg(long, value_name = "N", default_value_t = php::QUEUE_MAX, requires = "php")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    php_queue: usize,

    /// Requests after which a child of the server's own pool is replaced
    ///
    /// From 0 (never) to 4294967295.
    #[arg(long, value_name = "N", default_value_t = php::REQUESTS_PER_CHILD, requires = "php")]
    php_requests: u32,

    /// The user of the server's own pool, if the superuser starts the server
    ///
    /// Default: www-data, or nobody if www-data does not exist.
    #[arg(long, value_name = "USER", requires = "php")]
    php_user: Option<String>,

    /// A folder from which PHP may have files sent; may be given several times
    ///
    /// By X-Sendfile with a file's absolute path. With PREFIX= also by X-Accel-Redirect with a path
    /// that begins with the prefix, for example /files=/srv/files. Default: none.
    #[arg(long, value_name = "[PREFIX=]DIR", requires = "php")]
    php_send: Vec<SendRoot>,
}

impl PhpArgs {
    /// Whether PHP was asked for.
    pub(super) fn is_on(&self) -> bool {
        self.php.is_some()
    }

    /// PHP for a server of `cores` cores.
    ///
    /// # Errors
    ///
    /// The name of a pool has no address.
    pub(super) fn php(&self, cores: usize, around: &Surroundings) -> Result<Option<PhpOptions>, UsageError> {
        let Some(place) = self.php.clone() else { return Ok(None) };
        let source = around.resolve_php(place).map_err(|source| UsageError::Php { source })?;
        let defaults = PhpOptions::new(source, cores);
        let children = self.php_children.unwrap_or(defaults.children);
        Ok(Some(PhpOptions {
            children,
            kept_max: php::kept_of(children),
            queue_max: self.php_queue,
            requests_per_child: self.php_requests,
            user: self.php_user.clone(),
            ..defaults
        }))
    }

    /// Refuses to run a pool as the superuser. Whether the user exists is checked when the pool is
    /// started.
    ///
    /// # Errors
    ///
    /// The user is the superuser.
    pub(super) fn refuse_superuser(&self) -> Result<(), UsageError> {
        let identity = self.php_user.as_deref().and_then(|user| Identity::of_user(user).ok());
        match identity.as_ref().and_then(Unfit::of) {
            Some(why) => Err(UsageError::Superuser { option: "--php-user", why }),
            None => Ok(()),
        }
    }

    /// The folders from which PHP may have files sent.
    pub(super) fn sends(&self) -> Vec<SendRoot> {
        self.php_send.clone()
    }
}
