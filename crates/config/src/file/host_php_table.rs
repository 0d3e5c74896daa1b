//! The keys of `[host.php]`.
//!
//! Leaves out the resulting pool (`host_php.rs`).

use super::{
    read::{At, DottedTable, FreeTable},
    tables::table,
    values::Span,
};
use vermeil_settings::php;

table! {
    /// A PHP pool for a single host, under a user of its own. The first request for the pool starts
    /// it. The server stops the pool after `idle_stop` without a request. Hosts with equal tables
    /// share a pool. Everything else is as in `[php]`. If `source` there is a pool that runs
    /// already, this pool runs the php-cgi that is found.
    pub(super) struct HostPhpTable {
        /// The user, or `"USER:GROUP"`, of the pool. Needs a server that the superuser starts.
        /// Without the key: the user of the server's pool.
        user: Option<At<String>> = None,
        /// Children of the pool, and the most open connections to the pool.
        children: u64 = php::HOST_CHILDREN as u64; from 1, to 10_000,
        /// Variables of the environment that every script of the pool gets, as `{ NAME = "VALUE"
        /// }`. The server sets the variables that describe the request. Example: `{ APP_ENV =
        /// "production" }`.
        environment: FreeTable<String> = FreeTable::NONE,
        /// Values of php.ini for the pool. Scripts may change them, as far as PHP permits. PHP
        /// ignores a name that it does not know. The values of `environment`, `ini` and
        /// `ini_locked` have at most 32 KiB together. Example: `{ memory_limit = "256M",
        /// date.timezone = "UTC" }`.
        ini: DottedTable = DottedTable::NONE,
        /// Values of php.ini that scripts cannot change, neither by `ini_set` nor by `.user.ini`.
        /// With php-cgi they hold for scripts below the folder of the host. Hosts with this key
        /// share a pool only if they have the same folder. Example: `{ open_basedir =
        /// "/srv/www/example:/tmp" }`.
        ini_locked: DottedTable = DottedTable::NONE,
        /// The time without a request after which the server stops the pool. The next request
        /// starts the pool again.
        idle_stop: Span = php::IDLE_STOP.into(),
        /// Whether the processes of the pool cannot gain privileges by executing other programs, as
        /// in `[php]`. `mail()` needs `false` with most mail programs.
        no_new_privileges: bool = true,
        /// Requests that may wait for a child, or for the start of the pool. Beyond the bound: 503.
        queue_max: u64 = php::QUEUE_MAX as u64; from 0, to 1_000_000,
        /// Folders from which the pool may let the server send files, as in `[php]`. The folders of
        /// `[php]` are not included.
        send: Vec<At<String>> = Vec::new(),
        /// Requests after which a child is replaced; 0: never.
        requests_per_child: u64 = u64::from(php::REQUESTS_PER_CHILD); from 0, to u64::from(u32::MAX),
    }
}
