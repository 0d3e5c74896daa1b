//! Several instances, and the supervisor process that watches over them.
//!
//! The supervisor owns the listening sockets, the configuration and the control socket, and serves
//! nothing. Each instance is a process of the same binary with its own cores, memory nodes, caches,
//! programs and log thread. Instances share only the socket group, so the crash of one instance
//! does not disturb the others. A single instance has no supervisor, because restarts would be the
//! only job and the service manager restarts as well.
//!
//! Reading order: [`supervise`] (from start to end), `supervisor` (starting, restarting,
//! reloading), `instance_handle` (a process), `aggregate` (the weight for balancers),
//! `shutdown_deadline`. Orders and answers, and the other side, are in `instance/`. Tested through
//! the binary (`crates/e2e/tests/e2e/instances.rs`).

mod aggregate;
mod instance_handle;
mod shutdown_deadline;
mod supervisor;

pub use instance_handle::INSTANCE_COMMAND;

use aggregate::InstanceWeights;
use shutdown_deadline::{GRACE, ShutdownDeadline};
use signal_hook::{
    consts::{SIGHUP, SIGUSR1},
    iterator::Signals,
};
use std::{
    ffi::{OsString, c_int},
    process::ExitStatus,
    sync::Arc,
    thread,
    time::Duration,
};
use supervisor::{InForce, InstanceEnds, Supervisor};
use thiserror::Error;
use vermeil_accept::balance::Balancing;
use vermeil_config::{ConfigText, ServeOptions, Timeouts};
use vermeil_log::operator_log::log_line;
use vermeil_ops::{
    balancers::AgentThread,
    control::{BoundControl, ControlSocket},
    handover::Inherited,
    notify,
    opening::{OpenError, ServerEnded, bind_agent, cloned, describe_addresses, listen_at_start, watch_over},
    privileges::{self, When},
    signals::{self, Impatience, StopCourse},
};
use vermeil_tls::Tickets;

/// Time between the removal of the files of unix sockets and the moment when the instances accept
/// no more connections. The service manager may signal an instance a little before the supervisor,
/// and a connection to a socket that no instance accepts from would be lost.
const LEAVE_MARGIN: Duration = Duration::from_millis(100);

/// Several instances could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SuperviseError {
    /// The sockets, the control socket or the signals.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One of several instances.
    #[error("instance {number} does not serve: {why}")]
    Instance {
        /// Number of the instance.
        number: u32,
        /// The reason, in words.
        why: String,
    },
}

/// Arguments and configuration from which instances are started.
#[derive(Clone, Debug)]
pub struct InstanceProgram {
    /// The arguments of this process.
    pub arguments: Vec<OsString>,
    /// The text of the configuration, if there is a file.
    pub text: Option<ConfigText>,
}

/// Starts the instances of `options` and watches over them until SIGTERM or SIGINT, then drains
/// all. Signals are those of a server with one instance.
///
/// # Errors
/// [`SuperviseError`], before the first request is served.
pub fn supervise(options: ServeOptions, program: InstanceProgram) -> Result<ServerEnded, SuperviseError> {
    let InstanceProgram { arguments, text } = program;
    let balancing = Balancing::choose(options.balance, &options.cpus);
    balancing.divide(&options.instances);
    let mut inherited = Inherited::of(&options).map_err(OpenError::from)?;
    let (listening, names) = listen_at_start(&options, &balancing, &mut inherited)?;
    let changeovers = inherited.prepare(&balancing, &listening).map_err(OpenError::Descriptors)?;
    let agent = bind_agent(&options, &mut inherited)?;
    let control = BoundControl::at(&options.control, &mut inherited).map_err(OpenError::from)?;
    privileges::prepare(&options).map_err(OpenError::OwnLog)?;
    // As late as possible, but before this process drops its rights over the folders. A failed
    // start removes the names. Without the rights it logs the paths and the cure instead.
    let published = names.publish().map_err(OpenError::from)?;
    // If programs run as other users, the superuser starts the instance, and the instance drops its
    // privileges itself.
    privileges::give_up(&options, When::BeforePrograms).map_err(OpenError::from)?;
    privileges::say_who(&options);
    let mut signals = signals::watch(Impatience::Anybodys).map_err(OpenError::Signals)?;
    let control = control.start(None);
    let together = options.instances.iter().map(|instance| instance.cpus.len()).max();
    let line = format!("balance: {}", balancing.describe(together.unwrap_or_default()));
    let (instances, cores) = (options.instances.len(), options.cpus.len());
    let (what, secure) = (options.hosts.describe(), options.tls.listen.clone());
    let in_force = InForce { options, text, fixed_text: None, listening, agent: cloned(&agent)? };
    let tickets = Tickets::shared(inherited.take_tickets());
    let supervisor = Arc::new(Supervisor::new(arguments, balancing, in_force, tickets));
    let keepers = match supervisor.start() {
        Ok(keepers) => keepers,
        Err((number, why)) => {
            control.into_iter().for_each(ControlSocket::close);
            return failed_start(&mut signals, number, why.to_string());
        }
    };
    let control = if inherited.is_called_off(&mut signals) {
        drop((inherited, published));
        supervisor.hand_all_over();
        control.ok()
    } else {
        published.keep();
        supervisor.take_over(inherited, changeovers);
        describe_addresses(&what, &supervisor.listening(), &secure);
        let pid = std::process::id();
        log_line(format_args!("cores: {cores} in {instances} instances; process {pid} watches over them"));
        log_line(format_args!("{line}"));
        let control = watch_over(control);
        if let Some(control) = &control {
            control.watch(supervisor.clone());
        }
        notify::serves();
        control
    };
    let mut agent = (!agent.is_empty())
        .then(|| AgentThread::start(agent, InstanceWeights::new(supervisor.clone())))
        .flatten();
    let stop = obey_signals(&mut signals, &supervisor);
    if let Some(agent) = agent.take_if(|_| supervisor.is_handed_over()) {
        agent.stop();
    }
    let ends = stop_all(&mut signals, stop, &supervisor, keepers);
    if let Some(agent) = agent {
        agent.stop();
    }
    if let Some(control) = control {
        control.close();
    }
    log_line(format_args!("stopped: {instances} instances"));
    Ok(ended(&ends))
}

/// The end of a start in which instance `number` failed. A service manager that stops the service
/// signals every process, and an instance that does not watch for signals yet ends without serving.
fn failed_start(signals: &mut Signals, number: u32, why: String) -> Result<ServerEnded, SuperviseError> {
    if signals::ask_to_stop(signals) {
        log_line(format_args!("stopped: told to stop while the instances started"));
        return Ok(ServerEnded::Clean);
    }
    Err(SuperviseError::Instance { number, why })
}

/// Drains all instances because of the signal `stop`, and waits for their ends.
fn stop_all(
    signals: &mut Signals,
    stop: c_int,
    supervisor: &Supervisor,
    keepers: supervisor::Keepers,
) -> InstanceEnds {
    let Timeouts { leave, drain, .. } = supervisor.timeouts();
    let leave = if supervisor.is_handed_over() { Duration::ZERO } else { leave };
    say_draining(leave, drain);
    let until_left = leave.saturating_sub(LEAVE_MARGIN);
    if until_left.is_zero() {
        supervisor.remove_files();
    }
    let deadlines = StopDeadlines {
        left: ShutdownDeadline::after(until_left),
        ended: ShutdownDeadline::after(leave + drain + GRACE),
    };
    supervisor.drain();
    let stopping = StopCourse::because_of(stop, Impatience::Anybodys);
    wait_for_ends(signals, stopping, supervisor, keepers, &deadlines)
}

/// The deadlines of a stop.
struct StopDeadlines {
    /// When the instances are about to accept no more connections.
    left: ShutdownDeadline,
    /// When the instances have ended.
    ended: ShutdownDeadline,
}

/// Logs that the server drains.
fn say_draining(leave: Duration, drain: Duration) {
    let when = match leave {
        Duration::ZERO => "draining".to_owned(),
        leave => format!("no longer ready; draining in {} s", leave.as_secs_f64()),
    };
    log_line(format_args!("{when}, at most {} s; a second signal ends it now", drain.as_secs_f64()));
}

/// Acts on signals until a signal asks to stop, and returns that signal.
fn obey_signals(signals: &mut Signals, supervisor: &Arc<Supervisor>) -> c_int {
    for signal in signals.forever() {
        match signal {
            SIGHUP => hang_up(supervisor.clone()),
            SIGUSR1 => supervisor.reopen_logs(),
            signals::TAKEN_OVER if !supervisor.is_handed_over() => {}
            signal => return signal,
        }
    }
    unreachable!("nobody closes them before they all drain")
}

/// Reloads the configuration if there is a file, and reopens the log in any case. Runs on its own
/// thread, because an instance may be slow and other signals must not wait.
fn hang_up(supervisor: Arc<Supervisor>) {
    use vermeil_ops::control::Overseer as _;
    let reopened = supervisor.clone();
    let reload = move || {
        if supervisor.reload().is_err() {
            supervisor.reopen_logs();
        }
    };
    if thread::Builder::new().name("vermeil-reload".to_owned()).spawn(reload).is_err() {
        log_line(format_args!("no reload: no thread can be started; try again"));
        reopened.reopen_logs();
    }
}

/// Waits for the end of all instances and passes further signals on. Removes the files of unix
/// sockets when the instances have left. Kills overdue instances.
fn wait_for_ends(
    signals: &mut Signals,
    stopping: StopCourse,
    supervisor: &Supervisor,
    keepers: supervisor::Keepers,
    StopDeadlines { left, ended }: &StopDeadlines,
) -> InstanceEnds {
    let end = signals.handle();
    let end_now = || {
        supervisor.remove_files();
        supervisor.end_now();
        ended.hurry();
    };
    thread::scope(|scope| {
        scope.spawn(|| stopping.obey(signals, || supervisor.reopen_logs(), end_now));
        scope.spawn(|| {
            // After a cancelled deadline all instances have ended, so the files go as well.
            let _ = left.has_passed();
            supervisor.remove_files();
        });
        scope.spawn(|| {
            if ended.has_passed() {
                supervisor.end_by_force();
            }
        });
        let ends = keepers.join();
        left.cancel();
        ended.cancel();
        end.close();
        ends
    })
}

/// Clean if all instances ended cleanly; otherwise the number that did not.
fn ended(ends: &InstanceEnds) -> ServerEnded {
    let is_clean = |end: &Option<ExitStatus>| end.is_none_or(|end| end.success());
    match ends.iter().filter(|end| !is_clean(end)).count() {
        0 => ServerEnded::Clean,
        cut => ServerEnded::Cut(cut as u64),
    }
}
