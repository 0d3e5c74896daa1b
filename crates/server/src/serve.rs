//! One server from its start to its end.
//!
//! Owns the order of things: everything that can be refused is refused before the first connection is accepted; at
//! SIGTERM accepting ends first, then what is idle, then what is busy; the log is closed last. Tested through the binary.

use crate::{
    accept::accept,
    files::{CoreCache, SiteError, Store},
    hosts::{CoreHosts, Folder, Hosts, OpenSites},
    listen::{ListenError, Listening, listen_on},
    local,
    log::{Log, LogError, Notices},
    options::ServeOptions,
    sandbox,
    server::Server,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};
use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use thiserror::Error;
use vermeil::{
    CoreIndex, DriverOptions, Handle, Runtime, Source, StartError, Task, TcpListener, now_ms, sleep,
};
use vermeil_io::CacheOnly;

/// How long a connection without a request is kept at the end, for a request that is on its way. Guess: a round trip
/// across an ocean, twice.
const IDLE_GRACE: Duration = Duration::from_millis(500);

/// How often idle connections are looked for while the server drains.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// Descriptors for everything but connections and kept files: rings, sockets, logs, look-ups under way. Guess, generous.
const DESCRIPTORS_OF_OUR_OWN: u64 = 64;

/// How often a core lets go of what its cache holds for nothing.
const CACHE_TICK: Duration = Duration::from_secs(1);

/// A server could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The folder of the default host.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The cores.
    #[error(transparent)]
    Runtime(#[from] StartError),
    /// The signals.
    #[error("cannot watch for signals: {0}")]
    Signals(io::Error),
    /// A core that had started could not take its sockets.
    #[error("cannot prepare core {core}: {source}; raise the limit of open files?")]
    Core {
        /// Index of the core.
        core: u32,
        /// What the system said.
        source: io::Error,
    },
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every request that was begun was answered.
    Clean,
    /// Time was up, or the second signal came: so many connections were cut.
    Cut(u64),
}

/// Serves until SIGTERM or SIGINT, then drains; the second signal ends it at once. SIGHUP and SIGUSR1 open the log anew.
///
/// # Errors
/// [`ServeError`], before anything was served.
pub fn serve(options: ServeOptions) -> Result<Ended, ServeError> {
    let connections_max = connections_that_fit(&options);
    let sites = Arc::new(OpenSites::new(Store::new(options.store.clone()), options.sites_open_max));
    let changes = match Folder::of(&options.hosts, options.hosts.default_host()) {
        Some(folder) => sites.open(&folder, CacheOnly::No)?.site().describe_changes(),
        None => "no files".to_owned(),
    };
    let listening = listen_on(&options.listen, &options.cpus)?;
    let addrs: Vec<_> = listening.iter().map(|listening| listening.addr).collect();
    let notices = Arc::new(Notices::stderr());
    let log = Log::start(&options.log, options.cpus.len(), notices.clone())?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map_err(ServeError::Signals)?;
    let sandbox = sandbox::enter(&options.log);
    let io = DriverOptions { choice: options.io, ..DriverOptions::default() };
    let cpus = options.cpus.iter().map(|cpu| cpu.0 as usize);
    let runtime = Runtime::builder().cpus(cpus).io(io).build()?;
    let server = Arc::new(Server::new(sites, &options, connections_max, notices.clone()));

    open_cores(&runtime.handle(), &server, &options.hosts, &log, listening)?;
    say_start(&options, &addrs, &runtime.handle(), &changes, &sandbox);
    let ended = run(runtime, &server, &log, signals, options.timeouts.drain);

    let counts = log.close();
    notices.say_rest();
    let totals = server.totals();
    if let Ended::Cut(connections) = ended {
        say(format_args!("cut {connections} connections that were not finished"));
    }
    say(format_args!(
        "stopped: {} requests, {} answers cut because their file changed, {} log records dropped",
        totals.requests, totals.cut, counts.dropped
    ));
    Ok(ended)
}

/// Raises this process's limit of descriptors as far as it may: connections and files are bounded by options of their
/// own. To be called before defaults are taken from the limit.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Refused, the old limit stays, which `connections_that_fit` respects.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// Connections each core may hold: what was asked for, or what the limit of descriptors leaves beside the files.
fn connections_that_fit(options: &ServeOptions) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return options.connections_max };
    // The driver accepts some ahead of the connections that are held.
    let ahead = (DriverOptions::default().accept_backlog_max * options.cpus.len()) as u64;
    // A site has one, and is let go by the cores only after another has taken its place.
    let sites = 2 * options.sites_open_max.min(options.hosts.iter().len()) as u64;
    let left = limit.saturating_sub(options.store.descriptors_max + sites + DESCRIPTORS_OF_OUR_OWN + ahead);
    let each = usize::try_from(left).unwrap_or(usize::MAX) / options.cpus.len();
    let fit = options.connections_max.min(each.max(1));
    if fit < options.connections_max {
        say(format_args!(
            "holding {fit} connections per core, not {}: the limit of open files is {limit} (raise it with ulimit -n)",
            options.connections_max
        ));
    }
    fit
}

/// Gives each core its sockets, its part of the cache and its end of the log.
fn open_cores(
    handle: &Handle,
    server: &Arc<Server>,
    hosts: &Arc<Hosts>,
    log: &Log,
    listening: Vec<Listening>,
) -> Result<(), ServeError> {
    let mut sockets: Vec<Vec<OwnedFd>> = handle.cores().map(|_| Vec::new()).collect();
    for address in listening {
        for (of_core, socket) in sockets.iter_mut().zip(address.sockets) {
            of_core.push(socket);
        }
    }
    for (core, sockets) in handle.cores().zip(sockets) {
        let failed = |source| ServeError::Core { core: core.0, source };
        let changes = server.sites.store().notify_fd();
        let changes = changes.map(|fd| fd.try_clone_to_owned()).transpose().map_err(failed)?;
        let hosts = CoreHosts::new(hosts.clone(), server.sites.clone());
        let (server, log, spawner) = (server.clone(), log.core(), handle.clone());
        // Installed before anything that uses it can be accepted.
        let opened = handle.spawn_on(&handle.color_on(core), async move {
            let cache = CoreCache::new(server.sites.store().clone());
            local::install(server, hosts, cache, log);
            open_core(&spawner, core, sockets, changes)
        });
        opened.wait().expect("opening a core does not panic").map_err(failed)?;
    }
    Ok(())
}

fn open_core(
    handle: &Handle,
    core: CoreIndex,
    sockets: Vec<OwnedFd>,
    changes: Option<OwnedFd>,
) -> io::Result<()> {
    let spawn = |future| handle.spawn_on(&handle.color_on(core), future);
    let mut background: Vec<Task<()>> = Vec::new();
    if let Some(changes) = changes {
        background.push(handle.spawn_on(&handle.color_on(core), take_changes(Source::new(changes)?)));
    }
    background.push(spawn(tick_cache()));
    background.push(handle.spawn_on(&handle.color_on(core), flush_log()));
    for socket in sockets {
        let listener = Arc::new(TcpListener::new(socket)?);
        local::with(|local| local.listeners.push(listener.clone()));
        local::with(|local| local.accepting += 1);
        drop(handle.spawn_on(&handle.color_on(core), accept(handle.clone(), core, listener)));
    }
    local::with(|local| local.background = background);
    Ok(())
}

async fn take_changes(changes: Source) {
    while changes.readable().await.is_ok() {
        local::with(|local| local.cache.store().clone()).handle_events();
    }
}

async fn tick_cache() {
    loop {
        sleep(CACHE_TICK).await;
        local::with(|local| {
            local.hosts.tick();
            local.cache.tick();
        });
    }
}

async fn flush_log() {
    loop {
        let due_ms = local::log_due_ms().await;
        sleep(Duration::from_millis(due_ms.saturating_sub(now_ms()))).await;
        local::with(|local| local.log.flush_if_due(now_ms()));
    }
}

fn say_start(options: &ServeOptions, addrs: &[SocketAddr], handle: &Handle, changes: &str, sandbox: &str) {
    let snapshot = handle.snapshot();
    let io = snapshot.cores.first().map_or("", |core| core.io.as_str());
    let cpus: vermeil_topology::CpuSet = options.cpus.iter().copied().collect();
    let what = served(&options.hosts);
    for addr in addrs {
        say(format_args!("serving {what} at {}", url(*addr)));
    }
    say(format_args!("io: {io}"));
    say(format_args!("cores: {} (cpus {cpus}); changes to files: {}", snapshot.cores.len(), changes));
    say(format_args!("sandbox: {sandbox}"));
}

/// The folder, or how many hosts there are.
fn served(hosts: &Hosts) -> String {
    let root = hosts.host(hosts.default_host()).root;
    match (hosts.iter().len(), root) {
        (1, Some(root)) => root.canonicalize().unwrap_or_else(|_| root.to_owned()).display().to_string(),
        (1, None) => "one host".to_owned(),
        (count, _) => format!("{count} hosts"),
    }
}

/// One line for whoever started the server; a closed standard error is no reason to stop.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "vermeil: {line}");
}

/// What a person can open in a browser: all interfaces are shown as this machine.
fn url(addr: SocketAddr) -> String {
    let host = match addr {
        _ if addr.ip().is_unspecified() => "localhost".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let all = if addr.ip().is_unspecified() { format!(" (all interfaces, {addr})") } else { String::new() };
    match addr.port() {
        80 => format!("http://{host}/{all}"),
        port => format!("http://{host}:{port}/{all}"),
    }
}

/// Serves until told to stop, then drains.
fn run(runtime: Runtime, server: &Arc<Server>, log: &Log, mut signals: Signals, patience: Duration) -> Ended {
    wait_for_stop(&mut signals, log);
    say(format_args!("draining, at most {} s; a second signal ends it now", patience.as_secs_f64()));
    server.drain();
    let handle = runtime.handle();
    for core in handle.cores() {
        drop(handle.spawn_on(&handle.color_on(core), drain_core()));
    }
    let impatient = AtomicBool::new(false);
    let end = signals.handle();
    thread::scope(|scope| {
        scope.spawn(|| watch_for_second(&mut signals, log, &impatient));
        runtime.shutdown_unless(patience, || impatient.load(Ordering::Acquire));
        end.close();
    });
    match server.totals().unfinished {
        0 => Ended::Clean,
        cut => Ended::Cut(cut),
    }
}

fn wait_for_stop(signals: &mut Signals, log: &Log) {
    for signal in signals.forever() {
        match signal {
            SIGHUP | SIGUSR1 => log.reopen(),
            _ => return,
        }
    }
}

fn watch_for_second(signals: &mut Signals, log: &Log, impatient: &AtomicBool) {
    for signal in signals.forever() {
        match signal {
            SIGHUP | SIGUSR1 => log.reopen(),
            _ => impatient.store(true, Ordering::Release),
        }
    }
}

/// Stops accepting on this core and ends its idle connections; those that are busy end with their answers.
async fn drain_core() {
    for listener in local::with(|local| std::mem::take(&mut local.listeners)) {
        // What the kernel has accepted already is served.
        listener.close();
    }
    sleep(IDLE_GRACE).await;
    while local::with(|local| local.connections.end_idle() + local.accepting) > 0 {
        sleep(DRAIN_LOOK).await;
    }
    for task in local::with(|local| std::mem::take(&mut local.background)) {
        task.cancel();
    }
}
