//! What all cores of one server share: the open sites, the bounds, the counters, and whether it is draining.
//!
//! Read by every request, written seldom: counters are per core, each on lines of its own.

use crate::{
    balance::Balancing,
    balancers::{LoadBoard, LoadReport},
    busy_poll::BusyPoll,
    clients::{ClientBound, Clients, Visit},
    hosts::OpenSites,
    log::{NoticeKind, Notices},
    options::{ServeOptions, Timeouts},
    reload::Running,
};
use crossbeam_utils::CachePadded;
use std::{
    net::IpAddr,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use vermeil_http::Limits;

pub(crate) struct Server {
    pub(crate) sites: Arc<OpenSites>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) connections_max: usize,
    pub(crate) wait_max: Duration,
    pub(crate) client_bound: ClientBound,
    pub(crate) busy_poll: BusyPoll,
    pub(crate) notices: Arc<Notices>,
    pub(crate) balancing: Arc<Balancing>,
    pub(crate) load: Arc<LoadBoard>,
    pub(crate) load_report: LoadReport,
    life: Arc<Life>,
}

/// What outlives a configuration.
struct Life {
    /// About to drain: balancers are told, and nothing else has changed.
    leaving: AtomicBool,
    /// For the status that is served as a page; once there is one.
    running: OnceLock<Weak<Running>>,
    draining: AtomicBool,
    clients: Arc<Clients>,
    /// Another server has its addresses: balancers need not be told that this one goes.
    handed_over: AtomicBool,
    counters: Box<[CachePadded<Counters>]>,
}

/// One core's counters, written by that core.
#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    cut: AtomicU64,
    unfinished: AtomicU64,
}

/// What a server did in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Requests answered, or cut while being answered.
    pub requests: u64,
    /// Answers cut because their file changed while it was sent.
    pub cut: u64,
    /// Connections that were cut when the server stopped.
    pub unfinished: u64,
}

impl Server {
    pub(crate) fn new(
        sites: Arc<OpenSites>,
        options: &ServeOptions,
        connections_max: usize,
        notices: Arc<Notices>,
        balancing: Arc<Balancing>,
    ) -> Self {
        Self {
            sites,
            limits: options.limits.clone(),
            timeouts: options.timeouts,
            connections_max,
            wait_max: options.wait_max,
            client_bound: options.clients,
            busy_poll: options.busy_poll,
            notices,
            balancing,
            load: Arc::default(),
            load_report: options.balancers.load_report,
            life: Arc::new(Life {
                leaving: AtomicBool::new(false),
                running: OnceLock::new(),
                draining: AtomicBool::new(false),
                clients: Arc::default(),
                handed_over: AtomicBool::new(false),
                counters: options.cpus.iter().map(|_| CachePadded::default()).collect(),
            }),
        }
    }

    /// The same server with another configuration.
    pub(crate) fn with(&self, options: &ServeOptions, connections_max: usize) -> Self {
        Self {
            sites: self.sites.clone(),
            limits: options.limits.clone(),
            timeouts: options.timeouts,
            connections_max,
            wait_max: options.wait_max,
            client_bound: options.clients,
            busy_poll: options.busy_poll,
            notices: self.notices.clone(),
            balancing: self.balancing.clone(),
            load: self.load.clone(),
            load_report: options.balancers.load_report,
            life: self.life.clone(),
        }
    }

    /// From now on balancers are told to send nobody any more.
    pub(crate) fn leave(&self) {
        self.life.leaving.store(true, Ordering::Release);
    }

    /// Whether it is about to drain, or does.
    pub(crate) fn is_leaving(&self) -> bool {
        self.life.leaving.load(Ordering::Acquire)
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> usize {
        self.life.counters.len()
    }

    /// From now on its status can be served.
    pub(crate) fn watched_by(&self, running: &Arc<Running>) {
        // Said once; a second time would change nothing.
        let _ = self.life.running.set(Arc::downgrade(running));
    }

    /// Who knows its status, unless it has just started or is ending.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        self.life.running.get()?.upgrade()
    }

    /// Another server has taken over.
    pub(crate) fn hand_over(&self) {
        self.life.handed_over.store(true, Ordering::Release);
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.life.handed_over.load(Ordering::Acquire)
    }

    /// From now on every answer is its connection's last.
    pub(crate) fn drain(&self) {
        self.life.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.life.draining.load(Ordering::Acquire)
    }

    pub(crate) fn count_request(&self) {
        self.count(|counters| &counters.requests);
    }

    pub(crate) fn count_cut(&self) {
        self.count(|counters| &counters.cut);
    }

    pub(crate) fn count_unfinished(&self) {
        self.count(|counters| &counters.unfinished);
    }

    /// Adds one on the calling core, the only writer of its counters.
    fn count(&self, of: impl FnOnce(&Counters) -> &AtomicU64) {
        let core = vermeil::core_index().expect("requests are counted on a core");
        let counter = of(&self.life.counters[core.0 as usize]);
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests counted on one core, by its index.
    pub(crate) fn requests_of(&self, core: usize) -> u64 {
        self.life.counters[core].requests.load(Ordering::Relaxed)
    }

    pub(crate) fn totals(&self) -> Totals {
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            self.life.counters.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        Totals {
            requests: sum(|counters| &counters.requests),
            cut: sum(|counters| &counters.cut),
            unfinished: sum(|counters| &counters.unfinished),
        }
    }

    pub(crate) fn say_full(&self) {
        self.notices.say(
            NoticeKind::ConnectionsFull,
            format_args!(
                "a core holds {} connections, its bound; new ones wait (raise --connections-max)",
                self.connections_max
            ),
        );
    }

    /// Counts a connection from `addr` that may be more than its client may hold: then nothing, and
    /// a notice.
    pub(crate) fn visit(&self, addr: IpAddr, connections_max: usize) -> Option<Visit> {
        let visit = self.life.clients.enter(addr, self.client_bound, connections_max);
        if visit.is_none() {
            let addr = addr.to_canonical();
            self.notices.say(
                NoticeKind::ClientFull,
                format_args!(
                    "{addr} holds {connections_max} connections, the bound for one address; more are refused with 503 \
                     (raise --client-connections-max)"
                ),
            );
        }
        visit
    }
}
