//! Collects the status of a server: from the cores by message, from the kernel through `/proc`, and
//! from the counters of the other parts.
//!
//! The server asks every core by message and waits for one second. The status marks a core that
//! does not answer. A new part of the server adds a record in `crates/ops/src/status/records.rs`
//! and fills the record in [`collect`]. Tested through the binary
//! (`crates/e2e/tests/e2e/status.rs`).

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};
use vermeil::{Handle, HandlerSnapshot, ObservedTimes};
use vermeil_accept::{admission_control::DoorStatus, busy_poll::PollingStatus};
use vermeil_address::ListenAddr;
use vermeil_config::ServeOptions;
use vermeil_exchange::DurationCounts;
use vermeil_gateway::{
    cgi::Cgi,
    php::{Php, PoolState, RunningRequest},
    programs::ProgramsShared,
};
use vermeil_log::{LogCounts, NoticeKind, Notices, operator_log};
use vermeil_ops::status::{
    imbalance,
    process::{self, ThreadTime},
    records::{
        AnswersStatus, CacheStatus, CgiStatus, CompressionStatus, CoreStatus, DurationCount, HandlerStatus,
        HostAnswers, HostsStatus, InstanceStatus, LogStatus, NoticeStatus, PhpPoolStatus, PhpStatus,
        RunningStatus, ServerStatus, StatusCount, TlsStatus,
    },
};
use vermeil_routing::hosts::{HostPhp, Hosts};
use vermeil_settings::php::PoolOptions;
use vermeil_state::{
    core_context::{self, CoreContext},
    counts::{AnswerCounts, AnswerRates, AnswerTotals, CountsSnapshot, HostCounts, OTHERS, ShownHosts},
    server::Server,
    tls::TlsSnapshot,
};
use vermeil_work::compress::CompressionSnapshot;

/// How long the cores' busy time is sampled. An event of 2 ms at the edge of the sample changes a
/// share by 1 %, and the status waits no longer than a fifth of a second.
const SAMPLE: Duration = Duration::from_millis(200);

/// How long a core may take to answer. A core that is stalled for so long is a usual reason to ask
/// for the status, so the status reports the core as stalled.
const CORE_PATIENCE: Duration = Duration::from_secs(1);

/// Names that are shown of the hosts of a pool: enough to recognize the site.
const POOL_NAMES_MAX: usize = 8;

/// Requests in PHP children that a status shows, the longest first. The first lines name the slow
/// scripts of a pool, and no pool makes a status long.
const RUNNING_SHOWN_MAX: usize = 32;

/// The beginning of the names of tasks.
const TASK: &str = "task";

/// The sources of a status.
pub(crate) struct Sources<'s> {
    pub(crate) handle: &'s Handle,
    pub(crate) options: &'s ServeOptions,
    pub(crate) server: &'s Server,
    pub(crate) log: LogCounts,
    pub(crate) notices: &'s Notices,
    pub(crate) programs: Option<&'s ProgramsShared>,
    pub(crate) life: StatusLife,
    pub(crate) answered: &'s CoreAnswers,
}

/// The last answer of each core, and the counts of hosts that were shown. The counts of a core that
/// does not answer in time stay as they were, so that no count ever falls.
#[derive(Default)]
pub(crate) struct CoreAnswers {
    last: Mutex<HashMap<u32, CoreAnswer>>,
    shown: Mutex<ShownHosts>,
}

/// The supervising thread's knowledge of the server.
pub(crate) struct StatusLife {
    pub(crate) since: Instant,
    pub(crate) reloads: u64,
    /// The bound addresses.
    pub(crate) listening: Vec<ListenAddr>,
}

/// The answer of a core.
#[derive(Clone, Default)]
struct CoreAnswer {
    connections: u64,
    resting: u64,
    door: DoorStatus,
    polling: PollingStatus,
    paths: u64,
    looked_up: u64,
    cache_hits: u64,
    totals: AnswerTotals,
    counts: CountsSnapshot,
}

/// The states of all cores at the end of a sample.
struct SampledCores {
    cores: Vec<CoreStatus>,
    counts: CountsSnapshot,
    /// The rates of all cores during the sample.
    rates: AnswerRates,
}

/// The present status. Takes a fifth of a second.
pub(crate) fn collect(sources: &Sources<'_>) -> ServerStatus {
    let Sources { options, server, life, .. } = sources;
    let instances = vec![instance(sources)];
    ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_s: life.since.elapsed().as_secs_f64(),
        state: if server.is_leaving() || server.is_draining() { "draining" } else { "serving" }.to_owned(),
        configuration: options.file.as_ref().map(|file| file.display().to_string()),
        reloads: life.reloads,
        listening: life.listening.iter().map(ToString::to_string).collect(),
        imbalance: imbalance(&instances),
        instances,
        silent: Vec::new(),
    }
}

fn instance(sources: &Sources<'_>) -> InstanceStatus {
    let Sources { handle, options, server, log, notices, programs, .. } = sources;
    let SampledCores { cores, counts, rates } = cores(handle, server, sources.answered);
    let counts = sources.answered.show(counts, options.hosts_shown_max);
    let answering = programs.map(ProgramsShared::program_config);
    let (totals, runtime) = (server.totals(), handle.snapshot());
    let notice = |kind: NoticeKind| NoticeStatus { kind: kind.name().to_owned(), count: notices.count(kind) };
    let nodes = options.instances.iter().flat_map(|instance| &instance.nodes).map(|node| node.0);
    InstanceStatus {
        instance: operator_log::instance(),
        pid: std::process::id(),
        uptime_s: sources.life.since.elapsed().as_secs_f64(),
        nodes: nodes.collect(),
        restarts: 0,
        io: runtime.cores.first().map(|core| core.io.clone()).unwrap_or_default(),
        connections: cores.iter().map(|core| core.connections).sum(),
        cores,
        requests: totals.requests,
        answers_cut: totals.cut,
        answers: answers(&counts.answers, rates),
        cache: cache(server),
        hosts: HostsStatus {
            hosts: options.hosts.iter().len() as u64,
            names: options.hosts.names() as u64,
            open: server.sites.count() as u64,
            open_max: options.sites_open_max as u64,
            busiest: counts.hosts.iter().map(|(name, counts)| host(name, counts)).collect(),
            others: host(OTHERS, &counts.others),
        },
        memory: process::memory(),
        log: LogStatus { target: options.log.target.to_string(), written: log.written, dropped: log.dropped },
        notices: NoticeKind::ALL.into_iter().map(notice).filter(|notice| notice.count > 0).collect(),
        cgi: programs.and_then(|programs| Some(cgi(programs.cgi()?))),
        tls: server.tls.as_ref().map(|tls| tls_status(&tls.snapshot())),
        compression: compression(&server.compressor().snapshot()),
        handlers: handlers(&runtime.handlers, server.tls.as_ref().and_then(|tls| tls.idle())),
        php: answering.as_ref().and_then(|answering| Some(php_status(answering.php.as_ref()?))),
        php_pools: answering.as_ref().map_or(0, |answering| answering.pools.len() as u64),
        php_pools_used: answering
            .map(|answering| php_pools(&answering.pools, &options.hosts))
            .unwrap_or_default(),
    }
}

fn php_pools(pools: &HashMap<Arc<PoolOptions>, Arc<Php>>, hosts: &Hosts) -> Vec<PhpPoolStatus> {
    let mut names = if pools.is_empty() { HashMap::new() } else { names_of_pools(hosts) };
    let used = pools.iter().filter_map(|(options, php)| {
        let (gate, starts) = php.gate()?;
        let pool = php_status(php);
        let is_used = starts > 0 || pool.queue > 0;
        let user = options.user.as_ref().map(ToString::to_string);
        let (state, idle_stop_s) = (gate.name().to_owned(), options.idle_stop.as_secs_f64());
        is_used.then(|| {
            let number = php.number() as u64;
            let hosts = names.remove(options).unwrap_or_default().into_iter().collect();
            let status = PhpPoolStatus { number, user, hosts, state, starts, idle_stop_s, pool };
            (gate == PoolState::Stopped, status)
        })
    });
    let mut used: Vec<_> = used.collect();
    used.sort_by(|(a_stopped, a), (b_stopped, b)| (a_stopped, &a.user).cmp(&(b_stopped, &b.user)));
    used.into_iter().map(|(_, pool)| pool).collect()
}

/// The first names of the hosts of each pool of hosts.
fn names_of_pools(hosts: &Hosts) -> HashMap<&Arc<PoolOptions>, BTreeSet<String>> {
    let mut names: HashMap<_, BTreeSet<String>> = HashMap::new();
    for (host, name) in hosts.all_names() {
        if let HostPhp::Own(pool) = &hosts.host(host).rules.php {
            let of_pool = names.entry(pool).or_default();
            of_pool.insert(name);
            if of_pool.len() > POOL_NAMES_MAX {
                of_pool.pop_last();
            }
        }
    }
    names
}

fn cgi(cgi: &Cgi) -> CgiStatus {
    let (running, running_max, waiting) = cgi.now();
    let (requests, failed) = cgi.counts();
    let times = cgi.times();
    CgiStatus {
        running: running as u64,
        running_max: running_max as u64,
        waiting: waiting as u64,
        requests,
        failed,
        waits: classes(&times.wait),
        wait_s_sum: seconds(times.wait.sum_ns),
        runs: classes(&times.run),
        run_s_sum: seconds(times.run.sum_ns),
    }
}

fn compression(compression: &CompressionSnapshot) -> Option<CompressionStatus> {
    let has_begun = compression.steps + compression.refused > 0;
    has_begun.then_some(CompressionStatus {
        files: compression.files,
        file_hits: compression.hits,
        answers: compression.answers,
        refused: compression.refused,
        input_bytes: compression.input_bytes,
        output_bytes: compression.output_bytes,
        steps: compression.steps,
        work_s: compression.work_s,
        cache_bytes: compression.cache_bytes,
        cache_bytes_max: compression.cache_bytes_max,
        cache_files: compression.cache_files,
        content_bytes: compression.content_bytes,
    })
}

/// The handlers with a name of their own that have run, also those of the cores in idle time. The
/// tasks of the server are left out, because their names say nothing to an operator.
fn handlers(handlers: &[HandlerSnapshot], idle: Option<&Handle>) -> Vec<HandlerStatus> {
    let is_shown = |handler: &HandlerStatus| handler.runs > 0 && !handler.handler.starts_with(TASK);
    let in_idle_time = idle.map(|idle| idle.snapshot().handlers).unwrap_or_default();
    let in_idle_time = in_idle_time.iter().map(|handler| {
        let status = handler_status(handler);
        HandlerStatus { handler: format!("{} (in idle time)", status.handler), ..status }
    });
    handlers.iter().map(handler_status).chain(in_idle_time).filter(is_shown).collect()
}

fn handler_status(handler: &HandlerSnapshot) -> HandlerStatus {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let ObservedTimes { queue_delay, warm_run, cold_run } = &handler.times;
    HandlerStatus {
        handler: handler.name.clone(),
        runs: handler.runs,
        steals: handler.steals,
        wait_s_p50: seconds(queue_delay.quantile_ns(0.5)),
        wait_s_p99: seconds(queue_delay.quantile_ns(0.99)),
        warm_runs: warm_run.count(),
        warm_s_mean: seconds(warm_run.mean_ns()),
        warm_s_p99: seconds(warm_run.quantile_ns(0.99)),
        cold_runs: cold_run.count(),
        cold_s_mean: seconds(cold_run.mean_ns()),
        cold_s_p99: seconds(cold_run.quantile_ns(0.99)),
    }
}

fn tls_status(tls: &TlsSnapshot) -> TlsStatus {
    TlsStatus {
        handshakes_full: tls.full,
        handshakes_resumed: tls.resumed,
        handshakes_failed: tls.failed,
        handshakes_refused: tls.refused,
        handshakes_waiting: tls.waiting,
        plain_requests: tls.plain,
        hosts: tls.hosts,
        loads: tls.loads,
    }
}

fn cache(server: &Server) -> CacheStatus {
    let store = server.sites.store();
    let (usage, bounds) = (store.usage(), store.options());
    CacheStatus {
        content_bytes: usage.content_bytes,
        content_bytes_max: bounds.content_bytes_max,
        descriptors: usage.descriptors,
        descriptors_max: bounds.descriptors_max,
        paths: usage.entries as u64,
        paths_max: bounds.entries_max as u64,
        watches: usage.watches as u64,
        watches_max: bounds.watches_max as u64,
        overflows: usage.overflows,
    }
}

fn cores(handle: &Handle, server: &Server, answered: &CoreAnswers) -> SampledCores {
    let first = ask(handle, SAMPLE, |local| local.records.counts.totals());
    let (before, since) = (process::core_times(), Instant::now());
    thread::sleep(SAMPLE);
    let (after, lasted) = (process::core_times(), since.elapsed());
    let answers = ask(handle, CORE_PATIENCE, CoreAnswer::of);
    let has_answered: Vec<u32> = answers.keys().copied().collect();
    let of_core = |(core, former): (&u32, &AnswerTotals)| Some(answers.get(core)?.totals.rates_since(former));
    let rates = first.iter().filter_map(of_core).sum();
    let last = answered.take(answers);
    let counts = CountsSnapshot::sum(last.values().map(|answer| &answer.counts));
    let snapshot = handle.snapshot();
    let unknown = CoreAnswer::default();
    let core = |(index, known): (u32, &vermeil::CoreSnapshot)| {
        let time = |times: &HashMap<u32, ThreadTime>| times.get(&index).copied().unwrap_or_default();
        let (before, after) = (time(&before), time(&after));
        let share = |from: Duration, to: Duration| {
            (to.saturating_sub(from).as_secs_f64() / lasted.as_secs_f64()).clamp(0.0, 1.0)
        };
        let CoreAnswer { connections, resting, door, polling, paths, looked_up, cache_hits, .. } =
            last.get(&index).unwrap_or(&unknown);
        let (accepts, sent_away) = server.balancing.of_core(index as usize);
        CoreStatus {
            core: index,
            cpu: known.cpu as u64,
            busy: share(before.ran, after.ran),
            waited: share(before.waited, after.waited),
            cpu_s: after.ran.as_secs_f64(),
            answered: has_answered.contains(&index),
            connections: *connections,
            resting: *resting,
            refused: door.refused,
            queue_max: door.queue_max.into(),
            busy_polls: polling.polls,
            busy_poll_begun: polling.begun,
            paths: *paths,
            looked_up: *looked_up,
            cache_hits: *cache_hits,
            requests: server.requests_of(index as usize),
            ready_colors: known.ready_colors as u64,
            activations: known.activations,
            steals: known.steals,
            accepted: accepts.accepted,
            taken_over: accepts.taken_over,
            moved: accepts.moved,
            sent_away,
            sampled: accepts.sampled,
            sampled_here: accepts.sampled_here,
        }
    };
    SampledCores { cores: (0..).zip(&snapshot.cores).map(core).collect(), counts, rates }
}

impl CoreAnswers {
    /// Adds the answers of cores, and returns the last answer of every core.
    fn take(&self, answers: HashMap<u32, CoreAnswer>) -> HashMap<u32, CoreAnswer> {
        let mut last = self.last.lock().expect("nothing panics under this lock");
        for (core, answer) in answers {
            // A status that was asked for earlier may come here later.
            let kept = last.entry(core).or_default();
            if answer.totals.requests >= kept.totals.requests {
                *kept = answer;
            }
        }
        last.clone()
    }

    /// The counts to show: of the `max` busiest hosts, and of the others.
    fn show(&self, counts: CountsSnapshot, max: usize) -> CountsSnapshot {
        self.shown.lock().expect("nothing panics under this lock").show(counts, max)
    }
}

fn host(name: &str, counts: &HostCounts) -> HostAnswers {
    let HostCounts { requests, errors, body_bytes } = *counts;
    HostAnswers { host: name.to_owned(), requests, errors, body_bytes }
}

/// The answers of an instance.
fn answers(counts: &AnswerCounts, rates: AnswerRates) -> AnswersStatus {
    let AnswerRates { requests_per_s, body_bytes_per_s } = rates;
    let durations = &counts.durations;
    AnswersStatus {
        statuses: counts
            .statuses()
            .map(|(status, count)| StatusCount { status: status.into(), count })
            .collect(),
        aborted: counts.aborted,
        body_bytes: counts.body_bytes,
        requests_per_s,
        body_bytes_per_s,
        durations: classes(durations),
        duration_s_sum: seconds(durations.sum_ns),
        duration_s_p50: seconds(durations.ns_at(0.5)),
        duration_s_p90: seconds(durations.ns_at(0.9)),
        duration_s_p99: seconds(durations.ns_at(0.99)),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn classes(counts: &DurationCounts) -> Vec<DurationCount> {
    counts.classes().map(|(ns, count)| DurationCount { at_most_s: seconds(ns), count }).collect()
}

fn running(request: &RunningRequest) -> RunningStatus {
    RunningStatus {
        method: request.method().escape_ascii().to_string(),
        host: request.host().escape_ascii().to_string(),
        path: request.path().escape_ascii().to_string(),
        running_s: request.since.elapsed().as_secs_f64(),
    }
}

impl CoreAnswer {
    fn of(local: &mut CoreContext) -> Self {
        Self {
            connections: local.connections.count() as u64,
            resting: local.sockets.shelf.as_ref().map_or(0, |shelf| shelf.len() as u64),
            door: local.door.status(),
            polling: local.polling.status(),
            paths: local.cache.len() as u64,
            looked_up: local.cache.misses(),
            cache_hits: local.cache.hits(),
            totals: local.records.counts.totals(),
            counts: local.records.counts.snapshot(),
        }
    }
}

/// Asks every core for values that only the core knows.
fn ask<T: Send + 'static>(
    handle: &Handle,
    patience: Duration,
    read: fn(&mut CoreContext) -> T,
) -> HashMap<u32, T> {
    let (say, hear) = mpsc::channel();
    for core in handle.cores() {
        let say = say.clone();
        drop(handle.spawn_on(&handle.color_on(core), async move {
            let answer = core_context::with(read);
            // The asking thread may have stopped waiting.
            let _ = say.send((core.0, answer));
        }));
    }
    drop(say);
    let deadline = Instant::now() + patience;
    let mut answers = HashMap::new();
    while let Ok((core, answer)) = hear.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        answers.insert(core, answer);
    }
    answers
}

fn php_status(php: &Php) -> PhpStatus {
    let (pool, times) = (php.snapshot(), php.pool.times());
    let mean = |ns_sum: u64| if pool.requests == 0 { 0.0 } else { seconds(ns_sum) / pool.requests as f64 };
    PhpStatus {
        children: pool.connections_max as u64,
        open: pool.open as u64,
        busy: pool.busy as u64,
        queue: pool.queue as u64,
        queue_max: pool.queue_max as u64,
        requests: pool.requests,
        refused: pool.refused,
        given_up: pool.given_up,
        retried: pool.retried,
        failed: pool.failed,
        wait_s_sum: seconds(pool.wait_ns_sum),
        service_s_sum: seconds(pool.service_ns_sum),
        wait_s_mean: mean(pool.wait_ns_sum),
        wait_s_max: seconds(pool.wait_ns_max),
        service_s_mean: mean(pool.service_ns_sum),
        service_s_max: seconds(pool.service_ns_max),
        waits: classes(&times.wait),
        services: classes(&times.run),
        running: php.pool.longest_running(RUNNING_SHOWN_MAX).iter().map(running).collect(),
        restarts: pool.restarts,
    }
}
