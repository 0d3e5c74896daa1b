//! From the arguments to the server's options: looks up names, chooses cpus, refuses
//! contradictions.
//!
//! All facts about the machine come as [`Surroundings`], so that tests can describe any machine.

use super::CacheArgs;
use super::{
    BalanceChoice, BusyPollChoice, FollowSymlinksChoice, LimitArgs, PolicyChoice, ServeArgs, ServeIo,
    TimeoutArgs,
};
use crate::usage::UsageError;
use crate::values::{Listen, Size};
use std::path::PathBuf;
use vermeil_address::ListenAddr;
use vermeil_config::{
    HOSTS_SHOWN_MAX, SITES_OPEN_MAX, ServeOptions, Surroundings, Timeouts, cpus_of, store_here,
};
use vermeil_files::{LargeFiles, Listing, SiteOptions, StoreOptions};
use vermeil_http::ConnectionLimits;
use vermeil_log::LogOptions;
use vermeil_routing::{
    clients::ClientBound,
    hosts::{AnswerRules, HostPhp, Hosts, Rules},
};
use vermeil_server::IoChoice;
use vermeil_settings::{
    Balance, BalancerOptions, BusyPoll, LoadReport, MovePolicy, RequestedPlacement, TakeOver,
    compression::CompressionOptions,
    gateway::{GatewayOptions, HostSends, Sends},
    php::PoolsOptions,
    tls::HttpsUse,
};
use vermeil_topology::Instance;

impl ServeArgs {
    /// The file of the recording.
    ///
    /// # Errors
    ///
    /// Several instances.
    pub(super) fn trace_of(&self, instances: &[Instance]) -> Result<Option<PathBuf>, UsageError> {
        match (&self.trace, instances.len()) {
            (Some(_), instances @ 2..) => Err(UsageError::TraceOfSeveral { instances }),
            (trace, _) => Ok(trace.clone()),
        }
    }

    /// The server's options.
    ///
    /// # Errors
    ///
    /// A name without address, cpus that this process may not use, bounds that contradict each
    /// other.
    pub(super) fn resolve(self, around: &Surroundings) -> Result<ServeOptions, UsageError> {
        self.php.refuse_superuser()?;
        let placement = RequestedPlacement { cores: self.cores.clone(), instances: self.instances };
        let instances = around.instances(&placement)?;
        self.refuse_contradictions(Instance::count_of(&instances))?;
        let trace = self.trace_of(&instances)?;
        let cpus = cpus_of(&instances);
        let mut limits = ConnectionLimits::from(self.limits);
        let gateway = GatewayOptions {
            content_memory_bytes_max: self.limits.body_memory_bytes.bytes,
            ..self.programs.gateway(Sends { php: self.php.sends(), cgi: self.cgi.sends() })
        };
        if self.php.is_on() || self.cgi.is_on() {
            // The receiver of the content is known only after the head. Content for other receivers
            // than PHP is discarded.
            limits.body_bytes = limits.body_bytes.max(gateway.content_bytes);
        }
        let mut agent = Vec::new();
        if let Some(listen) = &self.agent {
            around
                .resolve_tcp(listen, &mut agent)
                .map_err(|source| UsageError::Agent { listen: listen.clone(), source })?;
        }
        let mut listen = addresses(&self.listen, around)?;
        let tls = self.tls.options(around, &mut listen)?;
        let balancers = BalancerOptions { agent, load_report: LoadReport::default() };
        let count = Instance::count_of(&instances);
        let (store, compression) = (self.store(count), CompressionOptions::of_each(count));
        Ok(ServeOptions {
            balancers,
            listen,
            tls,
            gateway,
            php: self.php.php(cpus.len(), around)?,
            php_pools: PoolsOptions::default(),
            cgi: self.cgi.options()?,
            cpus,
            instances,
            placement,
            file: None,
            left_out: Vec::new(),
            trace,
            take_over: TakeOver::Never,
            user: self.user.clone(),
            control: self.control.clone().unwrap_or_default(),
            hosts: Hosts::single(&self.root, self.rules(), self.tls.host()?).into(),
            store,
            compression,
            sites_open_max: SITES_OPEN_MAX,
            hosts_shown_max: HOSTS_SHOWN_MAX,
            balance: self.balance.into(),
            policy: self.policy.into(),
            busy_poll: self.busy_poll.into(),
            io: self.io.into(),
            log: LogOptions::new(self.log),
            limits,
            timeouts: self.timeouts.into(),
            connections_max: self.limits.connections_max,
            clients: ClientBound {
                connections_max: self.limits.client_connections_max,
                ipv6_prefix: self.limits.client_ipv6_prefix,
                ..ClientBound::default()
            },
            wait_max: self.limits.wait_max.into(),
        })
    }

    fn rules(&self) -> Rules {
        let files = SiteOptions {
            follow_symlinks: self.follow_symlinks.into(),
            listing: if self.no_listing { Listing::Off } else { Listing::On },
            types: self.types.clone(),
            ..SiteOptions::default()
        };
        Rules {
            files,
            php: if self.php.is_on() { HostPhp::Shared } else { HostPhp::Off },
            cgi: None,
            sends: HostSends::default(),
            routes: self.cgi.routes(),
            tries: Vec::new(),
            guard: None,
            answers: AnswerRules::default(),
            https: HttpsUse::Optional,
        }
    }

    fn store(&self, instances: usize) -> StoreOptions {
        let here = store_here(instances);
        let content_bytes_max = self.cache.cache_bytes.map_or(here.content_bytes_max, |size| size.bytes);
        StoreOptions {
            content_bytes_max,
            // The default shrinks with a small cache; an explicit value was checked before.
            content_file_bytes_max: self.cache.cache_file_bytes.bytes.min(content_bytes_max),
            entries_max: self.cache.cache_entries.unwrap_or(here.entries_max),
            large_files: if self.cache.sendfile { LargeFiles::Sendfile } else { LargeFiles::Copied },
            listing_names_max: self.limits.listing_names,
            ..here
        }
    }

    fn refuse_contradictions(&self, instances: usize) -> Result<(), UsageError> {
        let (limits, cache) = (&self.limits, &self.cache);
        within(("--request-line-bytes", limits.request_line_bytes), ("--header-bytes", limits.header_bytes))?;
        if cache.cache_file_bytes == CacheArgs::FILE_BYTES {
            return Ok(());
        }
        let bytes = cache.cache_bytes.unwrap_or_else(|| Size::bytes(store_here(instances).content_bytes_max));
        within(("--cache-file-bytes", cache.cache_file_bytes), ("--cache-bytes", bytes))
    }
}

fn within(inner: (&'static str, Size), outer: (&'static str, Size)) -> Result<(), UsageError> {
    let ((inner, inner_size), (outer, outer_size)) = (inner, outer);
    if inner_size > outer_size {
        return Err(UsageError::Contradiction { inner, inner_size, outer, outer_size });
    }
    Ok(())
}

/// All addresses, each address once, in the order of the arguments.
fn addresses(listen: &[Listen], around: &Surroundings) -> Result<Vec<ListenAddr>, UsageError> {
    let mut addresses = Vec::new();
    for listen in listen {
        around
            .resolve(listen, &mut addresses)
            .map_err(|source| UsageError::Address { listen: listen.clone(), source })?;
    }
    Ok(addresses)
}

impl From<BalanceChoice> for Balance {
    fn from(balance: BalanceChoice) -> Self {
        match balance {
            BalanceChoice::Auto => Self::Auto,
            BalanceChoice::Local => Self::Local,
            BalanceChoice::LoadAware => Self::LoadAware,
            BalanceChoice::Hash => Self::Hash,
            BalanceChoice::Fixed => Self::Fixed,
            BalanceChoice::RoundRobin => Self::RoundRobin,
        }
    }
}

impl From<PolicyChoice> for MovePolicy {
    fn from(policy: PolicyChoice) -> Self {
        match policy {
            PolicyChoice::Adaptive => Self::Adaptive,
            PolicyChoice::PerNode => Self::PerNode,
            PolicyChoice::None => Self::None,
            PolicyChoice::Libasync => Self::Libasync,
            PolicyChoice::Mely => Self::Mely,
            PolicyChoice::Scatter => Self::Scatter,
        }
    }
}

impl From<BusyPollChoice> for BusyPoll {
    fn from(when: BusyPollChoice) -> Self {
        match when {
            BusyPollChoice::Off => Self::Off,
            BusyPollChoice::Load => Self::Load,
        }
    }
}

impl From<ServeIo> for IoChoice {
    fn from(io: ServeIo) -> Self {
        match io {
            ServeIo::Auto => Self::Auto,
            ServeIo::Uring => Self::Uring,
            ServeIo::Epoll => Self::Epoll,
        }
    }
}

impl From<FollowSymlinksChoice> for vermeil_files::FollowSymlinks {
    fn from(which: FollowSymlinksChoice) -> Self {
        match which {
            FollowSymlinksChoice::Within => Self::Within,
            FollowSymlinksChoice::All => Self::All,
            FollowSymlinksChoice::None => Self::None,
        }
    }
}

impl From<LimitArgs> for ConnectionLimits {
    fn from(args: LimitArgs) -> Self {
        // The limits of the parsers are far below the maximum of a 32-bit size.
        let small = |size: Size| usize::try_from(size.bytes).expect("at most 16M");
        Self {
            request_line_bytes: small(args.request_line_bytes),
            header_count: args.header_count,
            header_bytes: small(args.header_bytes),
            body_bytes: args.body_bytes.bytes,
            requests_per_connection: args.requests_per_connection,
            ranges_max: args.ranges_max,
            ..Self::default()
        }
    }
}

impl From<TimeoutArgs> for Timeouts {
    fn from(args: TimeoutArgs) -> Self {
        Self {
            header: args.header_timeout.into(),
            body: args.body_timeout.into(),
            keep_alive: args.keep_alive_timeout.into(),
            write: args.write_timeout.into(),
            leave: args.leave_timeout.map(Into::into).unwrap_or_default(),
            drain: args.drain_timeout.into(),
        }
    }
}
