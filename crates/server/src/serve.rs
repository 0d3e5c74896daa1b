//! One server from its start to its end.
//!
//! Owns the order of things: everything that can be refused is refused before the first connection is accepted; at
//! SIGTERM accepting ends first, then what is idle, then what is busy; the log is closed last. Tested through the binary.

use crate::balance::Balancing;
use crate::{
    control::{Control, PlaceError},
    cores::{self, CoreError},
    files::{SiteError, Store},
    gateway::{Setup, SetupError},
    hosts::{Folder, OpenSites},
    listen::{ListenError, listen_on},
    log::{Log, LogError, Notices},
    options::ServeOptions,
    reload::{Running, Started},
    sandbox::{self, Rights},
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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use thiserror::Error;
use vermeil::{Board, DriverOptions, Handle, Runtime, StartError};
use vermeil_io::CacheOnly;

/// Descriptors for everything but connections and kept files: rings, sockets, logs, look-ups under way. Guess, generous.
const DESCRIPTORS_OF_OUR_OWN: u64 = 64;

/// A server could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The folder of the default host.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The programs that answer requests.
    #[error(transparent)]
    Programs(#[from] SetupError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] PlaceError),
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

/// Serves until SIGTERM or SIGINT, then drains; the second signal ends it at once. SIGHUP takes the configuration from
/// its file again, if there is one; it and SIGUSR1 open the log anew.
///
/// # Errors
/// [`ServeError`], before anything was served.
pub fn serve(options: ServeOptions) -> Result<Ended, ServeError> {
    // First of all: it forks, which only a process without other threads may.
    let programs = Setup::prepare(&options)?;
    let connections_max = connections_that_fit(&options);
    let sites = Arc::new(OpenSites::new(Store::new(options.store.clone()), options.sites_open_max));
    let changes = match Folder::of(&options.hosts, options.hosts.default_host()) {
        Some(folder) => sites.open(&folder, CacheOnly::No)?.site().describe_changes(),
        None => "no files".to_owned(),
    };
    let balancing = Arc::new(Balancing::choose(options.balance, &options.cpus));
    let listening = listen_on(&options.listen, &options.cpus, &balancing, &[])?;
    let bound: Vec<_> = listening.iter().map(|listening| (listening.asked, listening.addr)).collect();
    let notices = Arc::new(Notices::stderr());
    let log = Log::start(&options.log, options.cpus.len(), notices.clone())?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map_err(ServeError::Signals)?;
    let control = Control::open(&options.control)?;
    let rights = programs.as_ref().map(Setup::rights).unwrap_or_default();
    let (runtime, sandbox) = launch(&options, &rights, balancing.board())?;
    let mut programs =
        programs.map(|programs| programs.start(&options, sites.store(), &notices)).transpose()?;
    let server = Arc::new(Server::new(sites, &options, connections_max, notices.clone(), balancing));

    let on_cores =
        programs.as_mut().map(|programs| (&programs.shared, std::mem::take(&mut programs.channels)));
    cores::open(&runtime.handle(), &server, &options.hosts, on_cores, &notices, &log, listening)
        .map_err(|CoreError { core, source }| ServeError::Core { core, source })?;
    say_start(&options, &bound, &runtime.handle(), &changes, &sandbox);
    say(format_args!("balance: {}", server.balancing.line));
    let control = watch_over(control);
    let patience = options.timeouts.drain;
    let running = Arc::new(Running::new(Started {
        handle: runtime.handle(),
        options,
        server,
        log,
        notices: notices.clone(),
        programs: programs.as_ref().map(|programs| programs.shared.clone()),
        bound,
    }));
    if let Some(control) = &control {
        control.watch(running.clone());
    }
    let ended = run(runtime, &running, signals, patience);
    if let Some(control) = control {
        control.close();
    }

    if let Some(programs) = programs {
        if let Some(counts) = programs.describe() {
            say(format_args!("{counts}"));
        }
        programs.stop();
    }
    let counts = running.close_log();
    notices.say_rest();
    let totals = running.server().totals();
    if let Ended::Cut(connections) = ended {
        say(format_args!("cut {connections} connections that were not finished"));
    }
    say(format_args!("{}", running.server().balancing.summary()));
    say(format_args!(
        "stopped: {} requests, {} answers cut because their file changed, {} log records dropped",
        totals.requests, totals.cut, counts.dropped
    ));
    Ok(ended)
}

/// Starts the cores in the sandbox. This thread stays outside of it if it has to open addresses and logs for another
/// configuration: what a thread gives up, those that it starts have given up too, and no others.
fn launch(
    options: &ServeOptions,
    rights: &Rights<'_>,
    board: Option<Arc<Board>>,
) -> Result<(Runtime, String), ServeError> {
    let io = DriverOptions { choice: options.io, ..DriverOptions::default() };
    let cpus = options.cpus.iter().map(|cpu| cpu.0 as usize);
    let mut builder = Runtime::builder().cpus(cpus).io(io);
    if let Some(board) = board {
        builder = builder.board(board);
    }
    let start = || {
        let sandbox = sandbox::enter(&options.log, rights);
        builder.build().map(|runtime| (runtime, sandbox))
    };
    let started = match options.file {
        None => start(),
        Some(_) => thread::scope(|scope| scope.spawn(start).join()).expect("starting does not panic"),
    };
    Ok(started?)
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
pub(crate) fn connections_that_fit(options: &ServeOptions) -> usize {
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

/// Says where the control socket is, or why it is not.
fn watch_over(control: Result<Control, String>) -> Option<Control> {
    match control {
        Ok(control) => {
            say(format_args!("control: {}", control.path().display()));
            Some(control)
        }
        Err(why) => {
            say(format_args!("control: {why}"));
            None
        }
    }
}

fn say_start(
    options: &ServeOptions,
    bound: &[(SocketAddr, SocketAddr)],
    handle: &Handle,
    changes: &str,
    sandbox: &str,
) {
    let snapshot = handle.snapshot();
    let io = snapshot.cores.first().map_or("", |core| core.io.as_str());
    let cpus: vermeil_topology::CpuSet = options.cpus.iter().copied().collect();
    let what = options.hosts.describe();
    for (_, addr) in bound {
        say(format_args!("serving {what} at {}", url(*addr)));
    }
    say(format_args!("io: {io}"));
    say(format_args!("cores: {} (cpus {cpus}); changes to files: {}", snapshot.cores.len(), changes));
    say(format_args!("sandbox: {sandbox}"));
}

/// One line for whoever started the server; a closed standard error is no reason to stop.
pub(crate) fn say(line: fmt::Arguments<'_>) {
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
fn run(runtime: Runtime, running: &Running, mut signals: Signals, patience: Duration) -> Ended {
    wait_for_stop(&mut signals, running);
    say(format_args!("draining, at most {} s; a second signal ends it now", patience.as_secs_f64()));
    running.server().drain();
    cores::drain(&runtime.handle());
    let impatient = AtomicBool::new(false);
    let end = signals.handle();
    thread::scope(|scope| {
        scope.spawn(|| watch_for_second(&mut signals, running, &impatient));
        runtime.shutdown_unless(patience, || impatient.load(Ordering::Acquire));
        end.close();
    });
    match running.server().totals().unfinished {
        0 => Ended::Clean,
        cut => Ended::Cut(cut),
    }
}

fn wait_for_stop(signals: &mut Signals, running: &Running) {
    for signal in signals.forever() {
        match signal {
            SIGHUP => hang_up(running),
            SIGUSR1 => running.reopen_log(),
            _ => return,
        }
    }
}

fn watch_for_second(signals: &mut Signals, running: &Running, impatient: &AtomicBool) {
    for signal in signals.forever() {
        match signal {
            SIGHUP | SIGUSR1 => running.reopen_log(),
            _ => impatient.store(true, Ordering::Release),
        }
    }
}

/// SIGHUP: another configuration if there is a file, and the log anew in any case.
fn hang_up(running: &Running) {
    if running.reload_and_say().is_err() {
        running.reopen_log();
    }
}
