//! What `vermeil serve` can be told: every knob with its unit, its default and what it bounds.

use crate::{
    balance::Balance,
    balancers::BalancerOptions,
    busy_poll::BusyPoll,
    cgi::CgiOptions,
    clients::ClientBound,
    config::Placement,
    control::ControlTarget,
    files::StoreOptions,
    gateway::GatewayOptions,
    handover::TakeOver,
    hosts::Hosts,
    log::LogTarget,
    php::{PhpOptions, PoolsOptions},
    privileges::User,
};
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use vermeil::IoChoice;
use vermeil_http::Limits;
use vermeil_topology::{CpuId, CpuSet, Instance};

/// Connections one core holds unless told otherwise. Beyond it new ones wait in the kernel's queue. Default 8,192, which
/// leaves a third of the usual 20,000 descriptors to files on a machine with one core.
pub const CONNECTIONS_MAX: usize = 8192;

/// How long connections may wait to be accepted unless told otherwise. Default 250 ms: what does not get through is tried
/// again by the client's kernel a second later, so more would be of no use; and people hardly notice less.
pub const WAIT_MAX: Duration = Duration::from_millis(250);

/// Folders of hosts that are open at once unless told otherwise. Each takes a descriptor, a watch and some KB, and opening
/// one again some 20 µs. Default 1,024, which is a twentieth of the usual 20,000 descriptors.
pub const SITES_OPEN_MAX: usize = 1024;

/// Everything that one server needs to know.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The file that the rest is from, to be read again by a reload; nothing if it is from a command line.
    pub file: Option<PathBuf>,
    /// Where the control socket is.
    pub control: ControlTarget,
    /// Whose addresses it takes over when it starts.
    pub take_over: TakeOver,
    /// Who the server is once it has what only the superuser may have; whoever started it, if nobody is named.
    pub user: Option<User>,
    /// What is served under which name.
    pub hosts: Arc<Hosts>,
    /// Addresses to listen on, at least one.
    pub listen: Vec<SocketAddr>,
    /// Which cores and instances were asked for.
    pub placement: Placement,
    /// Cpus to run on, one core each, at least one.
    pub cpus: Vec<CpuId>,
    /// The instances, at least one; together they have the cpus, in this order.
    pub instances: Vec<Instance>,
    /// How new connections find their cores.
    pub balance: Balance,
    /// Whether cores poll their network card while they have much to do.
    pub busy_poll: BusyPoll,
    /// Where the last events of the cores are recorded when the server ends, if anywhere; of no meaning with several instances.
    pub trace: Option<PathBuf>,
    /// Which I/O driver the cores use.
    pub io: IoChoice,
    /// Where the access log goes.
    pub log: LogTarget,
    /// How much is kept in memory of the files served.
    pub store: StoreOptions,
    /// Folders of hosts that are open at once. At the bound those that were not used for the longest time are closed, and
    /// opened again by the next request.
    pub sites_open_max: usize,
    /// Bounds of what a client may send.
    pub limits: Limits,
    /// How long a client may take.
    pub timeouts: Timeouts,
    /// Connections per core. At the bound the core accepts no more until one ends; new ones wait in the kernel's queue.
    pub connections_max: usize,
    /// Connections of one client address.
    pub clients: ClientBound,
    /// How long connections may wait to be accepted. When even the quickest of a moment waits longer, each core lets fewer wait
    /// and refuses with 503 those that have waited twice as long already, where that is worth it. See [`WAIT_MAX`].
    pub wait_max: Duration,
    /// What balancers in front of the server are told.
    pub balancers: BalancerOptions,
    /// What programs may take and how long; of no meaning without one.
    pub gateway: GatewayOptions,
    /// PHP, if paths that name its programs are answered by it.
    pub php: Option<PhpOptions>,
    /// The pools that hosts have for themselves.
    pub php_pools: PoolsOptions,
    /// CGI, for the paths that routes give to it.
    pub cgi: CgiOptions,
}

/// The cpus of all these instances, one for each core.
pub fn cpus_of(instances: &[Instance]) -> Vec<CpuId> {
    instances.iter().flat_map(|instance| &instance.cpus).copied().collect()
}

/// The keys of a configuration by which these instances differ: `cores`, `instances`, both or none.
pub(crate) fn keys_that_differ(old: &[Instance], new: &[Instance]) -> Vec<&'static str> {
    if old == new {
        return Vec::new();
    }
    let cpus = |instances| cpus_of(instances).into_iter().collect::<CpuSet>();
    let (other_cpus, other_count) = (cpus(old) != cpus(new), old.len() != new.len());
    let keys = [("cores", other_cpus), ("instances", other_count || !other_cpus)];
    keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}

/// How long a client may take. A connection that is late is closed; a late request is answered 408 if nothing of an
/// answer has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a connection's start, or the first byte of a further request, to the end of the request's head. Default 10 s.
    pub header: Duration,
    /// From the end of the head to the end of the body. Default 30 s: bodies are read only to be discarded. Those for
    /// programs have longer while they come at [`CONTENT_RATE_MIN`](crate::gateway::CONTENT_RATE_MIN).
    pub body: Duration,
    /// Between an answer and the next request's first byte. Default 60 s.
    pub keep_alive: Duration,
    /// Without the client taking a byte of the answer. Default 30 s.
    pub write: Duration,
    /// From the request to stop to the moment when the server drains: time for balancers to notice that it is no longer
    /// ready. Default: none.
    pub leave: Duration,
    /// From then to the moment when what is not finished is cut. Default 30 s.
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
