//! The options of `vermeil serve`: every setting with unit, default and bound.

use std::{path::PathBuf, sync::Arc, time::Duration};
use vermeil::IoChoice;
use vermeil_address::ListenAddr;
use vermeil_files::StoreOptions;
use vermeil_http::ConnectionLimits;
use vermeil_log::LogOptions;
use vermeil_routing::{clients::ClientBound, hosts::Hosts};
use vermeil_settings::{
    Balance, BalancerOptions, BusyPoll, CacheMemory, ControlTarget, MovePolicy, RequestedPlacement, TakeOver,
    User,
    cgi::CgiOptions,
    compression::CompressionOptions,
    gateway::GatewayOptions,
    php::{PhpOptions, PoolsOptions},
    tls::TlsOptions,
};
use vermeil_topology::{CpuId, CpuSet, Instance};

/// Default number of connections that one core holds. Beyond it new connections wait in the
/// kernel's queue. Default 8,192, which leaves a third of the usual 20,000 descriptors to files on
/// a machine with one core.
pub const CONNECTIONS_MAX: usize = 8192;

/// Default time that connections may wait to be accepted. Default 250 ms, because the client's
/// kernel retries a dropped connection after a second, so a longer wait is of no use. People hardly
/// notice a shorter wait.
pub const WAIT_MAX: Duration = Duration::from_millis(250);

/// Default number of host folders that are open at once. Each takes a descriptor, a watch and some
/// KB. Opening a folder again takes some 20 µs. Default 1,024, which is a twentieth of the usual
/// 20,000 descriptors.
pub const SITES_OPEN_MAX: usize = 1024;

/// Default number of hosts with counts of their own in the status. Each host adds a series to each
/// metric of a monitoring system.
pub const HOSTS_SHOWN_MAX: usize = 20;

/// All options of one server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The configuration file, which a reload reads again. `None` if the options come from a
    /// command line.
    pub file: Option<PathBuf>,
    /// The problems of included files whose hosts are left out, a line each.
    pub left_out: Vec<String>,
    /// The place of the control socket.
    pub control: ControlTarget,
    /// The server whose addresses this server takes over when it starts.
    pub take_over: TakeOver,
    /// The user of the server after it has opened the resources that need the superuser. `None`
    /// keeps the user that started the server.
    pub user: Option<User>,
    /// The hosts and the folders that they serve.
    pub hosts: Arc<Hosts>,
    /// Addresses to listen on, at least one.
    pub listen: Vec<ListenAddr>,
    /// HTTPS.
    pub tls: TlsOptions,
    /// The configured cores and instances.
    pub placement: RequestedPlacement,
    /// Cpus to run on, one core each, at least one.
    pub cpus: Vec<CpuId>,
    /// The instances, at least one. Together they have the cpus, in this order.
    pub instances: Vec<Instance>,
    /// How new connections find their cores.
    pub balance: Balance,
    /// Whether idle cores take connections that wait on other cores.
    pub policy: MovePolicy,
    /// Whether cores poll their network card while their load is high.
    pub busy_poll: BusyPoll,
    /// The file for the last events of the cores, written when the server ends. Has no effect with
    /// several instances.
    pub trace: Option<PathBuf>,
    /// Which I/O driver the cores use.
    pub io: IoChoice,
    /// The access log.
    pub log: LogOptions,
    /// How much of the served files is kept in memory.
    pub store: StoreOptions,
    /// The bounds of compressed answers.
    pub compression: CompressionOptions,
    /// Host folders that are open at once. At the bound the server closes the least recently used
    /// folders, and the next request opens them again.
    pub sites_open_max: usize,
    /// Hosts with counts of their own in the status and in the metrics: the busiest.
    pub hosts_shown_max: usize,
    /// Bounds on a client's requests.
    pub limits: ConnectionLimits,
    /// How long a client may take.
    pub timeouts: Timeouts,
    /// Connections per core. At the bound the core accepts no more until one ends. New connections
    /// wait in the kernel's queue.
    pub connections_max: usize,
    /// Connections of one client address.
    pub clients: ClientBound,
    /// How long connections may wait to be accepted. If even the shortest wait within a moment is
    /// longer, each core shortens its queue. The core then refuses with 503 the connections that
    /// have already waited twice as long, if refusing costs less than serving. See [`WAIT_MAX`].
    pub wait_max: Duration,
    /// The reports to load balancers in front of the server.
    pub balancers: BalancerOptions,
    /// Bounds and timeouts of programs. Has no effect without programs.
    pub gateway: GatewayOptions,
    /// PHP, if PHP answers the paths that name its programs.
    pub php: Option<PhpOptions>,
    /// The pools of single hosts.
    pub php_pools: PoolsOptions,
    /// CGI, for the paths that routes give to CGI.
    pub cgi: CgiOptions,
}

/// The bounds of the file cache of each of so many instances by default, on this machine.
pub fn store_here(instances: usize) -> StoreOptions {
    let (memory, least) = (CacheMemory::here().of_each(instances), StoreOptions::default());
    StoreOptions {
        content_bytes_max: memory.content_bytes,
        entries_max: memory.entries,
        watches_max: memory.watches.min(least.watches_max),
        ..least
    }
}

/// The cpus of all these instances, one for each core.
pub fn cpus_of(instances: &[Instance]) -> Vec<CpuId> {
    instances.iter().flat_map(|instance| &instance.cpus).copied().collect()
}

/// The configuration keys by which these instances differ: `cores`, `instances`, both or none.
pub fn keys_that_differ(old: &[Instance], new: &[Instance]) -> Vec<&'static str> {
    if old == new {
        return Vec::new();
    }
    let cpus = |instances| cpus_of(instances).into_iter().collect::<CpuSet>();
    let (other_cpus, other_count) = (cpus(old) != cpus(new), old.len() != new.len());
    let keys = [("cores", other_cpus), ("instances", other_count || !other_cpus)];
    keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}

/// How long a client may take. The server closes a connection that is late. A late request gets 408
/// if no part of an answer has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a connection's start, or the first byte of a further request, to the end of the
    /// request's head. Default 10 s.
    pub header: Duration,
    /// From the end of the head to the end of the body. Default 30 s, because the server reads
    /// these bodies only to discard them. Bodies for programs have longer while they come at
    /// [`CONTENT_RATE_MIN`](vermeil_settings::gateway::CONTENT_RATE_MIN).
    pub body: Duration,
    /// Between an answer and the next request's first byte. Default 60 s.
    pub keep_alive: Duration,
    /// Without the client taking a byte of the answer. Default 30 s.
    pub write: Duration,
    /// From the request to stop to the start of the drain. In this time balancers notice that the
    /// server is no longer ready. Default: none.
    pub leave: Duration,
    /// From the start of the drain to the moment when the server closes unfinished connections.
    /// Default 30 s.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keep_alive: Duration::from_secs(60),
            write: Duration::from_secs(30),
            leave: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}
