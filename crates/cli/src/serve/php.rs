//! The options of `vermeil serve` about PHP, and their conversion.

use super::limits::{G, K};
use crate::usage::UsageError;
use crate::values::{Size, Span, size_between};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use vermeil_server::Unfit;
use vermeil_server::cgi::Identity;
use vermeil_server::gateway::{self, GatewayOptions, GatewayTimeouts, SendRoot, Sends};
use vermeil_server::php::{self, PhpOptions, PhpSource};

/// PHP.
#[derive(Clone, Debug, Args)]
pub(super) struct PhpArgs {
    /// Have files named *.php answered by PHP
    ///
    /// `auto`, or nothing: a pool of our own, of the php-fpm or php-cgi that is found, ended with the server. A path:
    /// the same, of that php-fpm or php-cgi. unix:PATH or ADDRESS:PORT: a FastCGI pool that runs already. A folder
    /// without index.html is answered by its index.php. Default: no PHP; such files get 403, because the text of a
    /// program is never sent.
    #[arg(long, value_name = "auto|PATH|unix:PATH|ADDR", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto")]
    php: Option<Where>,

    /// Children of the pool, and connections open to it at once
    ///
    /// From 1 to 10000. Default: 4 for each core. Requests beyond that wait for one to be free.
    #[arg(long, value_name = "N", requires = "php")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    php_children: Option<usize>,

    /// Requests that may wait for PHP
    ///
    /// From 0 to 1000000. Beyond it: 503.
    #[arg(long, value_name = "N", default_value_t = php::QUEUE_MAX, requires = "php")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    php_queue: usize,

    /// How long a request may wait for PHP to be free, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Then: 503.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(GatewayTimeouts::default().queue))]
    #[arg(requires = "php")]
    php_queue_timeout: Span,

    /// How long PHP may be silent, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h, without a byte of an answer, or of a request taken. Then: 504, or the answer is cut.
    #[arg(long, value_name = "TIME", default_value_t = Span::from(GatewayTimeouts::default().answer))]
    #[arg(requires = "php")]
    php_timeout: Span,

    /// Requests after which a child of our own pool is replaced
    ///
    /// From 0 (never) to 4294967295.
    #[arg(long, value_name = "N", default_value_t = php::REQUESTS_PER_CHILD, requires = "php")]
    php_requests: u32,

    /// The longest request body for PHP, in bytes
    ///
    /// From 0 to 1T. Beyond it: 413. What is longer than 64K waits in a file without a name until it is complete.
    #[arg(long, value_name = "SIZE", default_value_t = Size::bytes(gateway::CONTENT_BYTES), requires = "php")]
    #[arg(value_parser = size_between(0, K * G))]
    php_body_bytes: Size,

    /// The user that our own pool runs as, when the server is started by the superuser
    ///
    /// Default: www-data, or nobody where there is no such user.
    #[arg(long, value_name = "USER", requires = "php")]
    php_user: Option<String>,

    /// A folder out of which PHP may have files sent; may be given several times
    ///
    /// With X-Sendfile and a file's absolute path; with PREFIX= before it also with X-Accel-Redirect and a path that
    /// begins so, such as /files=/srv/files. Default: none.
    #[arg(long, value_name = "[PREFIX=]DIR", requires = "php")]
    php_send: Vec<SendRoot>,
}

/// Where PHP is, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Where(PhpSource);

impl FromStr for Where {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self(PhpSource::Own));
        }
        if text.starts_with('/') {
            return Ok(Self(PhpSource::Program(text.into())));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self(PhpSource::Unix(path)))
            } else {
                Err("write the socket's path from the root, such as unix:/run/php/php-fpm.sock")
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(addr) => Ok(Self(PhpSource::Tcp(addr))),
            Err(_) => Err(
                "write auto, the path of a php-fpm or php-cgi, unix:PATH, or an address and a port such as 127.0.0.1:9000",
            ),
        }
    }
}

impl PhpArgs {
    /// Whether PHP was asked for.
    pub(super) fn is_on(&self) -> bool {
        self.php.is_some()
    }

    /// PHP for a server of `cores` cores.
    pub(super) fn php(&self, cores: usize) -> Option<PhpOptions> {
        let Where(source) = self.php.clone()?;
        let defaults = PhpOptions::new(source, cores);
        let children = self.php_children.unwrap_or(defaults.children);
        Some(PhpOptions {
            children,
            kept_max: php::kept_of(children),
            queue_max: self.php_queue,
            requests_per_child: self.php_requests,
            user: self.php_user.clone(),
            ..defaults
        })
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

    /// The options for relaying requests.
    pub(super) fn gateway(&self, cgi_sends: Vec<SendRoot>) -> GatewayOptions {
        let timeouts = GatewayTimeouts {
            queue: self.php_queue_timeout.into(),
            answer: self.php_timeout.into(),
            ..GatewayTimeouts::default()
        };
        GatewayOptions {
            content_bytes: self.php_body_bytes.bytes,
            timeouts,
            sends: Sends { php: self.php_send.clone(), cgi: cgi_sends },
            ..GatewayOptions::default()
        }
    }
}
