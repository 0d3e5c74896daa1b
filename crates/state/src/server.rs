//! The state that all cores of one server share: the open sites, the bounds, the counters, and
//! whether the server is draining.
//!
//! Every request reads this state, and writes are rare. Counters are per core, each on its own
//! cache lines.

use crate::{load_board::LoadBoard, tls::ServerTls};
use bytes::Bytes;
use crossbeam_utils::CachePadded;
use std::{
    net::IpAddr,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use vermeil_accept::balance::Balancing;
use vermeil_config::{ServeOptions, Timeouts};
use vermeil_http::ConnectionLimits;
use vermeil_io::{CoreWork, WorkPage};
use vermeil_log::{NoticeKind, Notices};
use vermeil_ops::control_client::StatusForm;
use vermeil_routing::{
    access::{KeyedCounts, Passwords, RateTable},
    clients::{ClientBound, Visit},
    hosts::OpenSites,
};
use vermeil_settings::{BusyPoll, LoadReport};
use vermeil_work::compress::Compressor;

/// The state that all cores of a server share. A reload makes another.
pub struct Server {
    /// The open folders.
    pub sites: Arc<OpenSites>,
    /// The bounds of requests.
    pub limits: ConnectionLimits,
    /// The times of clients.
    pub timeouts: Timeouts,
    /// Bound of the connections of one core.
    pub connections_max: usize,
    /// How long connections may wait to be accepted.
    pub wait_max: Duration,
    /// The state about clients.
    pub clients: ClientRules,
    /// Whether cores poll their network card while their load is high.
    pub busy_poll: BusyPoll,
    /// The notices to the operator.
    pub notices: Arc<Notices>,
    /// How cores share the connections.
    pub balancing: Arc<Balancing>,
    load_report: LoadReport,
    /// Set once a listener speaks TLS.
    pub tls: Option<Arc<ServerTls>>,
    life: Arc<ServerLife>,
}

/// What the server knows about clients, beside the rules of hosts.
#[derive(Clone)]
pub struct ClientRules {
    /// The bounds of one client address.
    pub bound: ClientBound,
    /// The rates of requests.
    pub rates: Arc<RateTable>,
    /// The passwords that were checked a while ago.
    pub passwords: Arc<Passwords>,
    /// The requests in progress that a rule bounds.
    pub in_progress: Arc<KeyedCounts>,
}

impl ClientRules {
    fn new(bound: ClientBound) -> Self {
        let rates = Arc::new(RateTable::new(bound.rated_max));
        Self { bound, rates, passwords: Arc::default(), in_progress: Arc::default() }
    }

    /// The same with another configuration. A table of another size begins empty.
    fn with(&self, bound: ClientBound) -> Self {
        let rates = match bound.rated_max == self.bound.rated_max {
            true => self.rates.clone(),
            false => Arc::new(RateTable::new(bound.rated_max)),
        };
        Self { bound, rates, ..self.clone() }
    }
}

/// The source of the status that the server answers as a page.
pub trait StatusPage: Send + Sync {
    /// The status for a page. `None` while several requests wait for the status.
    fn status_for_page(&self, form: StatusForm) -> Option<Bytes>;
}

/// The state that outlives a configuration.
struct ServerLife {
    /// The server is about to drain. Balancers are told, and nothing else has changed.
    leaving: AtomicBool,
    /// The source of the status that is served as a page. Set once the server runs.
    running: OnceLock<Weak<dyn StatusPage>>,
    draining: AtomicBool,
    load: LoadBoard,
    /// The connections of each client.
    clients: Arc<KeyedCounts>,
    compressor: Arc<Compressor>,
    /// Another server has the addresses, so balancers need not learn that this server ends.
    handed_over: AtomicBool,
    counters: Box<[CachePadded<ServerCounters>]>,
    /// Requests and bytes of each core, which profilers read too.
    work: Arc<WorkPage>,
}

/// One core's counters, written by that core.
#[derive(Default)]
pub(crate) struct ServerCounters {
    cut: AtomicU64,
    unfinished: AtomicU64,
    /// Whether the core had no connection at its last look, while the server drains.
    drained: AtomicBool,
}

/// Totals over the life of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were answered, or whose answer was cut off.
    pub requests: u64,
    /// Answers cut off because their file changed during sending.
    pub cut: u64,
    /// Connections that the server closed early when it stopped.
    pub unfinished: u64,
}

impl Server {
    /// The state at the start.
    pub fn new(
        sites: Arc<OpenSites>,
        options: &ServeOptions,
        connections_max: usize,
        notices: Arc<Notices>,
        balancing: Arc<Balancing>,
        work: Arc<WorkPage>,
        tls: Option<Arc<ServerTls>>,
    ) -> Self {
        Self {
            tls,
            sites,
            limits: options.limits.clone(),
            timeouts: options.timeouts,
            connections_max,
            wait_max: options.wait_max,
            clients: ClientRules::new(options.clients),
            busy_poll: options.busy_poll,
            notices,
            balancing,
            load_report: options.balancers.load_report,
            life: Arc::new(ServerLife {
                leaving: AtomicBool::new(false),
                running: OnceLock::new(),
                draining: AtomicBool::new(false),
                load: LoadBoard::default(),
                clients: Arc::default(),
                compressor: Compressor::new(options.compression),
                handed_over: AtomicBool::new(false),
                counters: options.cpus.iter().map(|_| CachePadded::default()).collect(),
                work,
            }),
        }
    }

    /// The same server with another configuration.
    pub fn with(&self, options: &ServeOptions, connections_max: usize, tls: Option<Arc<ServerTls>>) -> Self {
        self.life.compressor.set_options(options.compression);
        Self {
            tls,
            sites: self.sites.clone(),
            limits: options.limits.clone(),
            timeouts: options.timeouts,
            connections_max,
            wait_max: options.wait_max,
            clients: self.clients.with(options.clients),
            busy_poll: options.busy_poll,
            notices: self.notices.clone(),
            balancing: self.balancing.clone(),
            load_report: options.balancers.load_report,
            life: self.life.clone(),
        }
    }

    /// The compression of answers.
    #[inline]
    pub fn compressor(&self) -> &Arc<Compressor> {
        &self.life.compressor
    }

    /// The measured load.
    pub fn load(&self) -> &LoadBoard {
        &self.life.load
    }

    /// The field line that reports the load to balancers, if wanted.
    pub fn load_line(&self) -> Vec<u8> {
        self.life.load.line(self.load_report)
    }

    /// Tells balancers from now on to send no more clients.
    pub fn leave(&self) {
        self.life.leaving.store(true, Ordering::Release);
    }

    /// Whether the server is about to drain, or drains.
    pub fn is_leaving(&self) -> bool {
        self.life.leaving.load(Ordering::Acquire)
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.life.counters.len()
    }

    /// Makes the status available for pages.
    pub fn watched_by(&self, running: Weak<dyn StatusPage>) {
        // Set once; a second call would change nothing.
        let _ = self.life.running.set(running);
    }

    /// The source of the status. `None` if the server has just started or is ending.
    pub fn running(&self) -> Option<Arc<dyn StatusPage>> {
        self.life.running.get()?.upgrade()
    }

    /// Another server has taken over.
    pub fn hand_over(&self) {
        self.life.handed_over.store(true, Ordering::Release);
    }

    /// Whether another server has taken over.
    pub fn is_handed_over(&self) -> bool {
        self.life.handed_over.load(Ordering::Acquire)
    }

    /// From now on every answer is its connection's last.
    pub fn drain(&self) {
        self.life.draining.store(true, Ordering::Release);
    }

    /// Whether every answer is its connection's last.
    pub fn is_draining(&self) -> bool {
        self.life.draining.load(Ordering::Acquire)
    }

    /// Notes whether the calling core has drained. Returns whether every core has: until then a
    /// connection may still move to the calling core.
    pub fn note_drained(&self, drained: bool) -> bool {
        let core = vermeil::core_index().expect("a core drains itself");
        self.life.counters[core.0 as usize].drained.store(drained, Ordering::Release);
        self.life.counters.iter().all(|counters| counters.drained.load(Ordering::Acquire))
    }

    /// Counts a request of the calling core.
    pub fn count_request(&self) {
        self.work().count_request();
    }

    /// Counts the bytes of a body that the calling core has sent.
    #[inline]
    pub fn count_body(&self, bytes: u64) {
        self.work().count_body(bytes);
    }

    /// The work of the calling core.
    #[inline]
    fn work(&self) -> &CoreWork {
        let core = vermeil::core_index().expect("work is counted on a core");
        &self.life.work.cores()[core.0 as usize]
    }

    /// Counts an answer of the calling core that was cut off.
    pub fn count_cut(&self) {
        self.count(|counters| &counters.cut);
    }

    /// Counts a connection of the calling core that the stop closed early.
    pub(crate) fn count_unfinished(&self) {
        self.count(|counters| &counters.unfinished);
    }

    /// Adds 1 on the calling core, the only writer of its counters.
    fn count(&self, of: impl FnOnce(&ServerCounters) -> &AtomicU64) {
        let core = vermeil::core_index().expect("requests are counted on a core");
        let counter = of(&self.life.counters[core.0 as usize]);
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests counted on one core, by its index.
    pub fn requests_of(&self, core: usize) -> u64 {
        self.life.work.cores()[core].requests()
    }

    /// The totals of all cores.
    pub fn totals(&self) -> Totals {
        let sum = |of: fn(&ServerCounters) -> &AtomicU64| {
            self.life.counters.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        Totals {
            requests: self.life.work.cores().iter().map(CoreWork::requests).sum(),
            cut: sum(|counters| &counters.cut),
            unfinished: sum(|counters| &counters.unfinished),
        }
    }

    /// Logs that a core has reached its bound of connections.
    pub(crate) fn say_full(&self) {
        self.notices.say(
            NoticeKind::ConnectionsFull,
            format_args!(
                "a core holds {} connections, its bound; new ones wait (raise --connections-max)",
                self.connections_max
            ),
        );
    }

    /// Counts a connection from `addr`. If the client holds `connections_max` connections already,
    /// returns `None` and logs a notice.
    pub fn visit(&self, addr: IpAddr, connections_max: usize) -> Option<Visit> {
        let visit = Visit::new(&self.life.clients, addr, self.clients.bound, connections_max);
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
