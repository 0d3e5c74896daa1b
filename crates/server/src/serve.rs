//! The life of a server from start to end.
//!
//! Owns the order of the steps. Every refusal comes before the first connection is accepted. At
//! SIGTERM the server first stops accepting, then ends idle connections, then busy connections. The
//! server closes the log last. Tested through the binary.

use crate::{
    cores::{self, CoreError},
    idle_cores::IdleCores,
    measuring::{MeasuredServer, Measuring},
    reload::{RunningServer, StartedParts},
    trace::{EVENTS_PER_CORE, TraceTarget},
};
use signal_hook::{
    consts::{SIGHUP, SIGUSR1},
    iterator::Signals,
};
use std::{
    ffi::c_int,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use thiserror::Error;
use vermeil::{DriverOptions, LoadPage, Pinning, Runtime, StartError, WorkPage};
use vermeil_accept::{
    balance::{Balancing, Changeover},
    busy_poll,
    listen::Unpublished,
    listening::Listening,
};
use vermeil_address::{ListenAddr, UnixAddr};
use vermeil_check::{DescriptorShares, connections_that_fit, make_room_for_descriptors};
use vermeil_config::{ServeOptions, Timeouts};
use vermeil_files::{FileStore, SiteError};
use vermeil_gateway::programs::{ProgramSetup, RunningPrograms, SetupError};
use vermeil_instances::{Assigned, InstanceProgram, SuperviseError};
use vermeil_io::CacheOnly;
use vermeil_log::{Log, LogError, Notices, operator_log::log_line};
use vermeil_ops::{
    balancers::AgentThread,
    broker::{Broker, Knowledge},
    control::{BoundControl, ControlSocket},
    handover::Inherited,
    key_reader::KeyReader,
    notify,
    opening::{OpenError, ServerEnded, bind_agent, cloned, describe_addresses, listen_at_start, watch_over},
    privileges::{self, When},
    sandbox::{self, Outside, Sandbox},
    signals::{self, Impatience, StopCourse},
};
use vermeil_routing::hosts::{Folder, OpenSites};
use vermeil_state::{
    server::Server,
    tls::{ServerTls, TlsCores},
};
use vermeil_tls::Tickets;
use vermeil_topology::CpuId;

/// How often a server that waits for balancers looks for the second signal.
const LEAVE_LOOK: Duration = Duration::from_millis(20);

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
    /// A condition of this machine.
    #[error("{0}")]
    Condition(String),
    /// The sockets, the control socket or the signals.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Several instances.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// The file of the recording.
    #[error("--trace {}: cannot write it: {source}; choose another place", path.display())]
    Trace {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The cores.
    #[error(transparent)]
    Runtime(#[from] StartError),
    /// The process that opens logs and addresses later.
    #[error(transparent)]
    Broker(vermeil_spawn::ProcessStartError),
    /// The supervisor of this instance.
    #[error("cannot speak to the supervisor: {0}")]
    Supervisor(io::Error),
    /// A core that had started could not take its sockets.
    #[error("cannot prepare core {core}: {source}; raise the limit of open files?")]
    Core {
        /// Index of the core.
        core: u32,
        /// The error of the system.
        source: io::Error,
    },
}

/// Serves until SIGTERM or SIGINT, then drains. The second signal ends the server at once. SIGHUP
/// reads the configuration from its file again, if there is one. SIGHUP and SIGUSR1 open the log
/// anew.
///
/// # Errors
/// [`ServeError`], before anything was served.
pub fn serve(options: ServeOptions) -> Result<ServerEnded, ServeError> {
    serve_as(options, None)
}

/// Like [`serve`], for one of several instances. Sockets and reloads come from the supervisor.
///
/// # Errors
/// As there.
pub fn serve_assigned(options: ServeOptions, assigned: Assigned) -> Result<ServerEnded, ServeError> {
    let options = ServeOptions { listen: assigned.listen(), ..options };
    serve_as(options, Some(assigned))
}

/// Starts the instances of `options` and watches over them, with the signals of [`serve`].
///
/// # Errors
/// [`ServeError`], before the first request is served.
pub fn supervise(options: ServeOptions, program: InstanceProgram) -> Result<ServerEnded, ServeError> {
    check_conditions(&options)?;
    Ok(vermeil_instances::supervise(options, program)?)
}

/// Refuses the conditions that `vermeil check` refuses too. Logs the problems of included files
/// whose hosts are left out.
///
/// # Errors
/// [`ServeError::Condition`].
fn check_conditions(options: &ServeOptions) -> Result<(), ServeError> {
    for problem in &options.left_out {
        log_line(format_args!("warning: {problem} (left out)"));
    }
    let found = vermeil_check::conditions(options);
    if found.is_empty() { Ok(()) } else { Err(ServeError::Condition(found.join("\n"))) }
}

fn serve_as(options: ServeOptions, mut assigned: Option<Assigned>) -> Result<ServerEnded, ServeError> {
    check_conditions(&options)?;
    let impatience = match assigned {
        Some(_) => Impatience::Supervisors,
        None => Impatience::Anybodys,
    };
    let mut sockets = ServerSockets::open(&options, &mut assigned)?;
    let confined = ConfinedServer::enter(&options, assigned, &mut sockets)?;
    let mut serving = ServingServer::begin(options, impatience, sockets, confined)?;
    let stop = wait_for_stop(&mut serving.signals, &serving.running, serving.hang_up);
    Ok(serving.end(StopCourse::because_of(stop, impatience)))
}

/// The sockets of a server that does not serve yet.
struct ServerSockets {
    changeovers: Vec<Changeover>,
    /// Duplicates of `agent`, kept for a takeover.
    agent_kept: Vec<Listening>,
    /// Sockets for agent checks.
    agent: Vec<Listening>,
    listening: Vec<Listening>,
    /// The unix sockets that have no paths yet.
    names: Unpublished,
    balancing: Balancing,
    inherited: Inherited,
}

impl ServerSockets {
    fn open(options: &ServeOptions, assigned: &mut Option<Assigned>) -> Result<Self, ServeError> {
        let mut inherited = match assigned {
            // The supervisor takes over, and answers, for all instances.
            Some(_) => Inherited::default(),
            None => Inherited::of(options).map_err(OpenError::from)?,
        };
        let (balancing, listening, names) = match assigned {
            Some(assigned) => {
                let (balancing, listening) = assigned.sockets(&options.cpus);
                (balancing, listening, Unpublished::default())
            }
            None => {
                let balancing = Balancing::choose(options.balance, &options.cpus);
                let (listening, names) = listen_at_start(options, &balancing, &mut inherited)?;
                (balancing, listening, names)
            }
        };
        let agent = match assigned {
            Some(_) => Vec::new(),
            None => bind_agent(options, &mut inherited)?,
        };
        let changeovers = inherited.prepare(&balancing, &listening).map_err(OpenError::Descriptors)?;
        let agent_kept = cloned(&agent)?;
        Ok(Self { changeovers, agent_kept, agent, listening, names, balancing, inherited })
    }
}

/// A server in the sandbox, with the processes that it started before.
struct ConfinedServer {
    sandbox: Sandbox,
    broker: Broker,
    /// The process that opens private keys, if the server may not.
    keys: Option<KeyReader>,
    /// The session tickets of TLS, which the server shares with its predecessor and neighbours.
    tickets: Arc<Tickets>,
    /// The files of unix sockets that a takeover leaves.
    left: Vec<UnixAddr>,
    programs: Option<ProgramSetup>,
    trace: Option<TraceTarget>,
    watch: ServeWatch<BoundControl>,
}

impl ConfinedServer {
    fn enter(
        options: &ServeOptions,
        assigned: Option<Assigned>,
        sockets: &mut ServerSockets,
    ) -> Result<Self, ServeError> {
        let ServerSockets { inherited, balancing, listening, names, .. } = sockets;
        let secret = assigned.as_ref().map(Assigned::tickets).or_else(|| inherited.take_tickets());
        let watch = match assigned {
            Some(assigned) => ServeWatch::Supervisor(Box::new(assigned)),
            None => {
                ServeWatch::Control(BoundControl::at(&options.control, inherited).map_err(OpenError::from)?)
            }
        };
        let trace = options.trace.as_deref().map(open_trace).transpose()?;
        let keys = KeyReader::start(options).map_err(ServeError::Broker)?;
        privileges::prepare(options).map_err(OpenError::OwnLog)?;
        let room = ProgramSetup::make_room(options)?;
        // As late as possible, but before the server drops the rights over the folders. A start
        // that fails after that cannot always undo this step, and then logs the path and the cure.
        let published = Mutex::new(std::mem::take(names).publish().map_err(OpenError::from)?);
        privileges::give_up(options, When::BeforePrograms).map_err(OpenError::from)?;
        // This step forks, which only a process without other threads may do. The threads of
        // self-tests have ended.
        let mut programs = ProgramSetup::prepare(options, room)?;
        privileges::give_up(options, When::AfterPrograms).map_err(OpenError::from)?;
        let rights = programs.as_ref().map(ProgramSetup::rights).unwrap_or_default();
        // An instance leaves its sockets to the supervisor.
        let left: Vec<_> = inherited.addrs().iter().filter_map(ListenAddr::unix).collect();
        let listening: Vec<_> = listening.iter().map(|listening| listening.addr).collect();
        let ours = listening.iter().filter_map(ListenAddr::unix);
        let sockets = match watch {
            ServeWatch::Control(_) => ours.chain(left.iter().copied()).collect(),
            ServeWatch::Supervisor(_) => Vec::new(),
        };
        let (control, folder) = (watch.bound(), rights.workspace);
        let knowledge = Knowledge { options, balancing, control, folder, listening, sockets, published };
        let broker = Broker::start(&knowledge).map_err(ServeError::Broker)?;
        // Before any other thread exists, because threads inherit the sandbox.
        let keeper = programs.as_ref().and_then(ProgramSetup::keeper);
        let sandbox = sandbox::enter(&rights, Outside { broker: broker.pid(), keeper });
        if let Some(programs) = &mut programs {
            programs.remove_by(broker.folder_remover());
        }
        let tickets = Arc::new(Tickets::shared(secret));
        Ok(Self { sandbox, broker, keys, tickets, left, programs, trace, watch })
    }
}

/// The opened folders of a server, and the facts about them for the start.
struct OpenedFiles {
    sites: Arc<OpenSites>,
    changes: String,
    memory: Option<String>,
}

impl OpenedFiles {
    fn open(options: &ServeOptions) -> Result<Self, ServeError> {
        let sites = Arc::new(OpenSites::new(FileStore::new(options.store.clone()), options.sites_open_max));
        let memory = sites.store().describe_memory().map(str::to_owned);
        let changes = match Folder::of(&options.hosts, options.hosts.default_host()) {
            Some(folder) => sites.open(&folder, CacheOnly::No)?.site().describe_changes(),
            None => "no files".to_owned(),
        };
        Ok(Self { sites, changes, memory })
    }
}

/// A server that serves.
struct ServingServer {
    control: Option<ControlSocket>,
    hang_up: HangUp,
    running: Arc<RunningServer>,
    agent: Option<AgentThread>,
    programs: Option<RunningPrograms>,
    runtime: Runtime,
    signals: Signals,
    notices: Arc<Notices>,
    trace: Option<TraceTarget>,
}

impl ServingServer {
    fn begin(
        options: ServeOptions,
        impatience: Impatience,
        sockets: ServerSockets,
        confined: ConfinedServer,
    ) -> Result<Self, ServeError> {
        let ConfinedServer { sandbox, broker, keys, tickets, left, programs, trace, watch } = confined;
        let ServerSockets { changeovers, agent_kept, agent, listening, balancing, inherited, .. } = sockets;
        let connections_max = connections_that_fit(&options);
        make_room_for_descriptors();
        let OpenedFiles { sites, changes, memory } = OpenedFiles::open(&options)?;
        let balancing = Arc::new(balancing);
        let bound: Vec<_> = listening.iter().map(|listening| (listening.asked, listening.addr)).collect();
        let notices = Arc::new(Notices::stderr());
        let log = Log::start_by(broker.log_access(), &options.log, options.cpus.len(), notices.clone())?;
        let mut signals = signals::watch(impatience).map_err(OpenError::Signals)?;
        let watch = watch.start(&broker);
        let (runtime, work) = launch(&options, balancing.board())?;
        let sandbox = sandbox.seal();
        let mut programs =
            programs.map(|programs| programs.start(&options, sites.store(), &notices)).transpose()?;
        let idle = IdleCores::default();
        let cores = TlsCores { serving: &runtime.handle(), idle: idle.wanted(&options) };
        let tls = ServerTls::of_start(&options, tickets.clone(), keys, cores);
        let server =
            Arc::new(Server::new(sites, &options, connections_max, notices.clone(), balancing, work, tls));
        let on_cores =
            programs.as_mut().map(|programs| (&programs.shared, std::mem::take(&mut programs.channels)));
        // Before the cores serve, because asking the kernel ends the polling of a core.
        let busy_poll = busy_poll::describe(&runtime.handle(), options.busy_poll);
        cores::open(&runtime.handle(), &server, &options.hosts, on_cores, &notices, &log, listening)
            .map_err(|CoreError { core, source }| ServeError::Core { core, source })?;
        let is_called_off = inherited.is_called_off(&mut signals);
        if is_called_off {
            drop(inherited);
            server.hand_over();
        } else {
            broker.keep_names();
            inherited.finish(changeovers, &server.balancing, &options.cpus);
            left.into_iter().for_each(|addr| broker.remove_socket(addr));
        }
        if matches!(watch, ServeWatch::Control(_)) {
            privileges::say_who(&options);
        }
        let about = StartLines::of(&options, busy_poll, (changes, memory), sandbox);
        let of_programs = programs.as_ref().map(|programs| programs.shared.clone());
        let subject = MeasuredServer { server: server.clone(), programs: of_programs.clone() };
        let start_agent = || AgentThread::start(agent, Measuring::new(subject));
        let agent = options.balancers.is_wanted().then(start_agent).flatten();
        let running = Arc::new(RunningServer::new(StartedParts {
            handle: runtime.handle(),
            idle,
            options,
            server,
            log,
            notices: notices.clone(),
            programs: of_programs,
            bound: bound.clone(),
            agent: agent_kept,
            broker,
            tickets,
        }));
        running.server().watched_by(Arc::<RunningServer>::downgrade(&running));
        let (control, hang_up) = match is_called_off {
            false => watch.begin(&running, &bound, &about)?,
            true => watch.call_off(),
        };
        Ok(Self { control, hang_up, running, agent, programs, runtime, signals, notices, trace })
    }

    /// Finishes the requests that were begun, stops everything and logs the totals.
    fn end(self, stopping: StopCourse) -> ServerEnded {
        let Self { control, running, agent, programs, runtime, signals, notices, trace, .. } = self;
        let handle = runtime.handle();
        let ended = drain(runtime, &running, signals, stopping, agent);
        let idle = running.end_idle();
        if let Some(control) = control {
            control.close();
        }
        if let Some(programs) = programs {
            if let Some(counts) = programs.describe() {
                log_line(format_args!("{counts}"));
            }
            programs.stop();
        }
        if let Some(trace) = trace {
            log_line(format_args!("{}", trace.write(&handle, idle.as_ref())));
        }
        let counts = running.close_log();
        notices.say_rest();
        let totals = running.server().totals();
        if let ServerEnded::Cut(connections) = ended {
            log_line(format_args!("cut connections that were not finished: {connections}"));
        }
        log_line(format_args!("{}", running.server().balancing.summary()));
        log_line(format_args!(
            "stopped: {} requests, {} answers cut because their file changed, {} log records dropped",
            totals.requests, totals.cut, counts.dropped
        ));
        ended
    }
}

/// The source of status requests and reloads.
enum ServeWatch<C> {
    /// The owner, over the control socket, and any sender of SIGHUP.
    Control(C),
    /// The supervisor.
    Supervisor(Box<Assigned>),
}

impl ServeWatch<BoundControl> {
    /// The control socket, if this process has a control socket.
    fn bound(&self) -> Option<&BoundControl> {
        match self {
            Self::Control(bound) => Some(bound),
            Self::Supervisor(_) => None,
        }
    }

    /// Starts the thread of the control socket, or says why there is none.
    fn start(self, broker: &Broker) -> ServeWatch<Result<ControlSocket, String>> {
        match self {
            Self::Control(bound) => ServeWatch::Control(bound.start(Some(broker.control_remover()))),
            Self::Supervisor(assigned) => ServeWatch::Supervisor(assigned),
        }
    }
}

/// The effect of SIGHUP, besides the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HangUp {
    Reload,
    LogOnly,
}

impl ServeWatch<Result<ControlSocket, String>> {
    /// Starts to answer status requests and reloads, and reports that the server serves.
    fn begin(
        self,
        running: &Arc<RunningServer>,
        bound: &[(ListenAddr, ListenAddr)],
        about: &StartLines,
    ) -> Result<(Option<ControlSocket>, HangUp), ServeError> {
        match self {
            Self::Control(control) => {
                about.say_start(bound, running);
                let control = watch_over(control);
                if let Some(control) = &control {
                    control.watch(running.clone());
                }
                notify::serves();
                Ok((control, HangUp::Reload))
            }
            Self::Supervisor(assigned) => {
                let io = running.io();
                let memory =
                    about.memory.as_ref().map(|memory| format!("; memory: {memory}")).unwrap_or_default();
                let polling = about.busy_poll.as_ref();
                let polling = polling.map(|line| format!("; busy polling: {line}")).unwrap_or_default();
                let (who, sandbox) = (assigned.describe(), &about.sandbox);
                log_line(format_args!("{who}; io: {io}; sandbox: {sandbox}{memory}{polling}"));
                assigned.obey(running.clone()).map_err(ServeError::Supervisor)?;
                Ok((None, HangUp::LogOnly))
            }
        }
    }

    /// The alternative to `begin`, because another server has taken over and answers instead.
    fn call_off(self) -> (Option<ControlSocket>, HangUp) {
        match self {
            Self::Control(control) => (control.ok(), HangUp::LogOnly),
            Self::Supervisor(_) => (None, HangUp::LogOnly),
        }
    }
}

/// The facts for the lines at the start.
struct StartLines {
    changes: String,
    /// The memory pages that were obtained, if any were configured.
    memory: Option<String>,
    sandbox: String,
    /// The state of busy polling, if configured.
    busy_poll: Option<String>,
    /// The hosts.
    what: String,
    /// The listeners whose clients speak TLS.
    secure: Vec<ListenAddr>,
    cpus: Vec<CpuId>,
}

impl StartLines {
    fn of(
        options: &ServeOptions,
        busy_poll: Option<String>,
        (changes, memory): (String, Option<String>),
        sandbox: String,
    ) -> Self {
        let (what, secure) = (options.hosts.describe(), options.tls.listen.clone());
        Self { changes, memory, sandbox, busy_poll, what, secure, cpus: options.cpus.clone() }
    }

    fn say_start(&self, bound: &[(ListenAddr, ListenAddr)], running: &RunningServer) {
        let Self { changes, memory, sandbox, busy_poll, what, cpus, .. } = self;
        describe_addresses(what, bound, &self.secure);
        log_line(format_args!("io: {}", running.io()));
        let set: vermeil_topology::CpuSet = cpus.iter().copied().collect();
        log_line(format_args!("cores: {} (cpus {set}); changes to files: {changes}", cpus.len()));
        if let Some(memory) = memory {
            log_line(format_args!("memory: {memory}"));
        }
        log_line(format_args!("sandbox: {sandbox}"));
        log_line(format_args!("balance: {}", running.server().balancing.describe(cpus.len())));
        if let Some(busy_poll) = busy_poll {
            log_line(format_args!("busy polling: {busy_poll}"));
        }
    }
}

/// Starts the cores. Returns the counts of their work too.
fn launch(
    options: &ServeOptions,
    board: Option<Arc<LoadPage>>,
) -> Result<(Runtime, Arc<WorkPage>), ServeError> {
    let cpus: Vec<usize> = options.cpus.iter().map(|cpu| cpu.0 as usize).collect();
    let work = Arc::new(WorkPage::create(&cpus));
    let defaults = DriverOptions::default();
    let accept_backlog_max =
        DescriptorShares::here(options).map_or(defaults.accept_backlog_max, |(_, shares)| shares.ahead);
    let io = DriverOptions { choice: options.io, accept_backlog_max, ..defaults };
    let mut builder = Runtime::builder()
        .cpus(cpus)
        .work(work.clone())
        .pinning(Pinning::WherePossible)
        .io(io)
        .policy(options.policy.into());
    if let Some(board) = board {
        builder = builder.board(board);
    }
    if options.trace.is_some() {
        builder = builder.record(EVENTS_PER_CORE);
    }
    Ok((builder.build()?, work))
}

fn open_trace(path: &Path) -> Result<TraceTarget, ServeError> {
    TraceTarget::create(path).map_err(|source| ServeError::Trace { path: path.to_owned(), source })
}

/// Finishes the requests that were begun, and ends.
fn drain(
    runtime: Runtime,
    running: &RunningServer,
    mut signals: Signals,
    stopping: StopCourse,
    mut agent: Option<AgentThread>,
) -> ServerEnded {
    let Timeouts { leave, drain: patience, .. } = running.server().timeouts;
    // Balancers see the server that took over, which is ready.
    let is_handed_over = || running.server().is_handed_over();
    if let Some(agent) = agent.take_if(|_| is_handed_over()) {
        agent.stop();
    }
    if !is_handed_over() {
        running.server().leave();
    }
    let impatient = AtomicBool::new(false);
    let end = signals.handle();
    let end_now = || impatient.store(true, Ordering::Release);
    let hint = stopping.hint();
    thread::scope(|scope| {
        scope.spawn(|| stopping.obey(&mut signals, || running.reopen_log(), end_now));
        wait_for_balancers(leave, || impatient.load(Ordering::Acquire) || is_handed_over());
        log_line(format_args!("draining, at most {} s{hint}", patience.as_secs_f64()));
        running.server().drain();
        if !is_handed_over() {
            // Before the cores look at their queues for the last time, so that no connection comes
            // later.
            running.remove_all_files();
        }
        cores::drain(&runtime.handle());
        let stopped = runtime.shutdown_unless(patience, || impatient.load(Ordering::Acquire));
        // The remaining cores do not keep the process from ending.
        stopped.cores_left.iter().for_each(|left| log_line(format_args!("{left}")));
        end.close();
    });
    if let Some(agent) = agent {
        agent.stop();
    }
    match running.server().totals().unfinished {
        0 => ServerEnded::Clean,
        cut => ServerEnded::Cut(cut),
    }
}

/// Gives balancers time to notice that this server is no longer ready, unless `is_unwanted` says
/// otherwise.
fn wait_for_balancers(leave: Duration, is_unwanted: impl Fn() -> bool) {
    if leave.is_zero() || is_unwanted() {
        return;
    }
    log_line(format_args!("no longer ready; draining in {} s", leave.as_secs_f64()));
    let begun = Instant::now();
    while begun.elapsed() < leave && !is_unwanted() {
        thread::park_timeout(LEAVE_LOOK.min(leave));
    }
}

/// Serves until a signal asks to stop, and returns that signal.
fn wait_for_stop(signals: &mut Signals, running: &RunningServer, hang_up: HangUp) -> c_int {
    for signal in signals.forever() {
        match signal {
            SIGHUP if hang_up == HangUp::Reload => reload(running),
            SIGHUP | SIGUSR1 => running.reopen_log(),
            signals::TAKEN_OVER if !running.server().is_handed_over() => {}
            signal => return signal,
        }
    }
    unreachable!("nobody closes them before it drains")
}

/// SIGHUP: reads the configuration again if there is a file, and opens the log anew in any case.
fn reload(running: &RunningServer) {
    if running.reload_and_say().is_err() {
        running.reopen_log();
    }
}
