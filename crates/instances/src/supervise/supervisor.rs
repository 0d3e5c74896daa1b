//! Starts and restarts all instances, reloads all or none, and drains all.
//!
//! One small thread for each instance waits for the end. Starting an instance reads the
//! configuration in force under a lock that a reload takes for writing. So no instance starts with
//! a configuration that is about to be replaced. Tested through the binary
//! (`crates/e2e/tests/e2e/instances.rs`).

use super::instance_handle::{InstanceHandle, StartFailure};
use crate::instance::{
    ipc::{Assignment, InstanceAnswer, InstanceCommand, text_to_descriptor},
    place::take_place,
};
use rustix::process::Signal;
use std::{
    collections::HashSet,
    ffi::OsString,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
    process::{Child, ExitStatus},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil::{BackOff, BackOffBounds};
use vermeil_accept::{
    balance::{Balancing, Changeover},
    listen::unix,
    listening::{Listening, SocketKeeper},
};
use vermeil_address::ListenAddr;
use vermeil_config::{
    CgiSettings, ConfigText, ServeOptions, Surroundings, Timeouts, keep_what_is_fixed, keys_that_differ,
};
use vermeil_log::operator_log::log_line;
use vermeil_ops::{
    control::Overseer,
    handover::{Handing, Inherited},
    reload::{ReloadError, listen_on_added, refuse_mode_of_passed, say_kept},
    signals,
    status::{InstanceStatus, ServerStatus, imbalance},
};
use vermeil_tls::Tickets;

/// Time limit for an instance to prepare a configuration, and again to switch to it. A hundred
/// thousand hosts take a fifth of a second (`bench tail`). The limit only ends a wait for an
/// instance that hangs.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Time limit for a status: a fifth of a second, and a second for a stalled core.
const STATUS_PATIENCE: Duration = Duration::from_secs(3);

/// An instance that lived this long was sound, so the next restart is immediate again. The age is
/// the longest pause, so an instance that keeps ending runs at least half of the time.
const SOUND_LIFE: Duration = RESTART_PAUSES.longest;

/// Pauses before restarts. After a repair the operator waits ten seconds at most, and a start in
/// ten seconds is a negligible load, because a start takes about a tenth of a second.
const RESTART_PAUSES: BackOffBounds =
    BackOffBounds::at_once_then(Duration::from_millis(100), Duration::from_secs(10));

/// Stack of the thread that waits for an instance: four times the use of a debug build.
const STACK_BYTES: usize = 256 << 10;

/// Work reported for a core that is absent, so that the kernel sends its connections elsewhere.
const NEVER_NS: u64 = 1 << 50;

/// The supervisor.
pub(super) struct Supervisor {
    arguments: Vec<OsString>,
    balancing: Balancing,
    members: Vec<InstanceHandle>,
    in_force: RwLock<InForce>,
    /// The session tickets of all instances.
    tickets: Tickets,
    shown: Mutex<Shown>,
    stop: Mutex<StopPhase>,
    /// Signalled when stopping begins.
    stops: Condvar,
    reloads: AtomicU64,
    /// Whether another process is taking over, or has taken over.
    handing_over: AtomicBool,
    /// Whether another process serves instead.
    handed_over: AtomicBool,
    since: Instant,
}

/// How far the stop has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopPhase {
    Serving,
    /// The instances have been told to stop, and may still wait for balancers.
    Leaving,
    /// The instances are about to accept no more connections, so the files of unix sockets go.
    Left,
}

/// Parts of the configuration in force that are read while a reload holds the lock.
struct Shown {
    file: Option<PathBuf>,
    listening: Vec<ListenAddr>,
    timeouts: Timeouts,
}

impl Shown {
    fn of(in_force: &InForce) -> Self {
        Self {
            file: in_force.options.file.clone(),
            listening: in_force.listening.iter().map(|listening| listening.addr).collect(),
            timeouts: in_force.options.timeouts,
        }
    }
}

/// The configuration in force.
pub(super) struct InForce {
    pub(super) options: ServeOptions,
    /// Text of the file, if there is one.
    pub(super) text: Option<ConfigText>,
    /// The text with the settings that only a restart of the server changes, if `text` has others.
    pub(super) fixed_text: Option<ConfigText>,
    /// Empty once the server drains.
    pub(super) listening: Vec<Listening>,
    /// Sockets for agent checks; empty once another process has taken over.
    pub(super) agent: Vec<Listening>,
}

impl InForce {
    /// Takes the text of a reload that ignores changes of the keys `fixed`.
    fn take_text(&mut self, text: ConfigText, fixed: &[&str]) {
        let before = self.text.replace(text);
        self.fixed_text = self.fixed_text.take().or(before).filter(|_| !fixed.is_empty());
    }
}

/// How each instance ended after the order to stop; `None` without a process.
pub(super) type InstanceEnds = Vec<Option<ExitStatus>>;

impl Supervisor {
    pub(super) fn new(
        arguments: Vec<OsString>,
        balancing: Balancing,
        in_force: InForce,
        tickets: Tickets,
    ) -> Self {
        let mut first_core = 0;
        let members = (0..).zip(&in_force.options.instances).map(|(number, instance)| {
            let member = InstanceHandle::new(number, instance.clone(), first_core);
            first_core += instance.cpus.len();
            member
        });
        Self {
            arguments,
            balancing,
            tickets,
            members: members.collect(),
            shown: Mutex::new(Shown::of(&in_force)),
            in_force: RwLock::new(in_force),
            stop: Mutex::new(StopPhase::Serving),
            stops: Condvar::new(),
            reloads: AtomicU64::new(0),
            handing_over: AtomicBool::new(false),
            handed_over: AtomicBool::new(false),
            since: Instant::now(),
        }
    }

    /// All instances.
    pub(super) fn members(&self) -> &[InstanceHandle] {
        &self.members
    }

    /// Whether the instances have been told to stop.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stop_phase() != StopPhase::Serving
    }

    fn stop_phase(&self) -> MutexGuard<'_, StopPhase> {
        self.stop.lock().expect("nothing panics under this lock")
    }

    /// Starts all instances and returns when all serve. The threads end with their instances, after
    /// [`drain`].
    ///
    /// # Errors
    /// The first instance that failed to start, and the reason. The other instances are drained and
    /// have ended.
    ///
    /// [`drain`]: Self::drain
    pub(super) fn start(self: &Arc<Self>) -> Result<Keepers, (u32, StartFailure)> {
        let (say_started, started) = mpsc::channel();
        let mut threads = Vec::new();
        let mut failure = None;
        for index in 0..self.members.len() {
            let (supervisor, say_started) = (self.clone(), say_started.clone());
            let keeper = thread::Builder::new().name("vermeil-keep".to_owned()).stack_size(STACK_BYTES);
            match keeper.spawn(move || supervisor.keep(&supervisor.members[index], &say_started)) {
                Ok(thread) => threads.push(thread),
                Err(error) => failure = Some((index as u32, StartFailure::Cannot(error))),
            }
        }
        drop(say_started);
        // Every thread sends a single result.
        for result in started.iter().take(threads.len()) {
            if let (None, Err(failed)) = (&failure, result) {
                failure = Some(failed);
            }
        }
        let keepers = Keepers(threads);
        match failure {
            None => Ok(keepers),
            Some(failure) => {
                self.drain();
                keepers.join();
                Err(failure)
            }
        }
    }

    /// Starts an instance, restarts it after each end, and returns the last exit status once all
    /// stop.
    fn keep(
        &self,
        member: &InstanceHandle,
        say_started: &mpsc::Sender<Result<(), (u32, StartFailure)>>,
    ) -> Option<ExitStatus> {
        // Inherited by the instance, which logs a failure itself.
        take_place(&member.instance);
        let mut pauses = BackOff::new(&RESTART_PAUSES);
        let mut is_first = true;
        loop {
            let since = Instant::now();
            let started = self.start_member(member);
            if self.is_stopping() {
                // The start held the lock that `drain` needs for this.
                self.stop_listening();
            }
            let (how, last) = match started {
                Ok(mut child) => {
                    if is_first {
                        // Fails only if the receiver has already given up.
                        let _ = say_started.send(Ok(()));
                    } else {
                        let took = since.elapsed().as_millis();
                        log_line(format_args!("instance {} serves again, after {took} ms", member.number));
                    }
                    let end = member.wait(&mut child).ok();
                    (end.map_or_else(|| "it ended".to_owned(), |end| format!("it ended ({end})")), end)
                }
                Err(failure) if is_first => {
                    let _ = say_started.send(Err((member.number, failure)));
                    return None;
                }
                Err(failure) => (failure.to_string(), None),
            };
            is_first = false;
            self.send_elsewhere(member);
            if self.is_stopping() {
                return last;
            }
            if since.elapsed() >= SOUND_LIFE {
                pauses.reset();
            }
            let pause = pauses.advance();
            let when = match pause {
                Duration::ZERO => "starting another".to_owned(),
                pause => format!("starting another in {} ms", pause.as_millis()),
            };
            log_line(format_args!("instance {}: {how}; {when}", member.number));
            if self.stops_within(pause) {
                return last;
            }
        }
    }

    /// Waits for `pause`. Returns true if stopping begins meanwhile.
    fn stops_within(&self, pause: Duration) -> bool {
        let is_serving = |phase: &mut StopPhase| *phase == StopPhase::Serving;
        let waited = self.stops.wait_timeout_while(self.stop_phase(), pause, is_serving);
        *waited.unwrap_or_else(PoisonError::into_inner).0 != StopPhase::Serving
    }

    fn start_member(&self, member: &InstanceHandle) -> Result<Child, StartFailure> {
        let in_force = self.in_force.read().expect("nothing panics under this lock");
        let described = |text: &Option<ConfigText>| text.as_ref().map(text_to_descriptor).transpose();
        let text = described(&in_force.text).map_err(StartFailure::Cannot)?;
        let fixed_text = described(&in_force.fixed_text).map_err(StartFailure::Cannot)?;
        let board = self.balancing.board_memory();
        let order = InstanceCommand::Start(Assignment {
            number: member.number,
            instance: member.instance.clone(),
            first_core: member.first_core,
            cores: in_force.options.cpus.len(),
            neighbours: self.balancing.neighbours,
            listening: addresses_of(&in_force.listening),
            passed: passed_of(&in_force.listening),
            sockets: counts_of(member, &in_force),
            has_text: text.is_some(),
            has_fixed_text: fixed_text.is_some(),
            has_board: board.is_some(),
            tickets: self.tickets.secret(),
        });
        let texts = text.iter().chain(&fixed_text);
        let descriptors: Vec<BorrowedFd<'_>> = (texts.map(|text| text.as_fd()))
            .chain(board)
            .chain(sockets_of(member, &in_force.listening, in_force.options.cpus.len()))
            .collect();
        let child = member.start(&self.arguments, &order, &descriptors)?;
        // The signal to stop may have come before the process existed.
        if self.is_stopping() {
            member.signal(Signal::TERM);
        }
        Ok(child)
    }

    /// While an instance is absent, its cores claim the most work, so that the kernel avoids these
    /// cores.
    fn send_elsewhere(&self, member: &InstanceHandle) {
        let Some(board) = self.balancing.board() else { return };
        for core in member.first_core..member.first_core + member.instance.cpus.len() {
            board.core(core).begin_work(vermeil::monotonic_ns(), NEVER_NS);
        }
    }

    /// Tells all instances to stop.
    pub(super) fn drain(&self) {
        {
            let mut phase = self.stop_phase();
            if *phase == StopPhase::Serving {
                *phase = StopPhase::Leaving;
            }
        }
        self.stops.notify_all();
        for member in &self.members {
            member.signal(Signal::TERM);
        }
        self.stop_listening();
    }

    /// Removes the files of all unix sockets, unless another process serves instead or is taking
    /// over. To be called just before the instances accept no more connections.
    pub(super) fn remove_files(&self) {
        // Before the look at `handing_over`: a takeover that begins later is refused.
        *self.stop_phase() = StopPhase::Left;
        if self.is_handed_over() || self.handing_over.load(Ordering::Relaxed) {
            return;
        }
        let gone: Vec<_> = self.shown().listening.extract_if(.., |addr| addr.unix().is_some()).collect();
        gone.iter().filter_map(ListenAddr::unix).for_each(unix::remove);
    }

    /// Closes the supervisor's copies of the sockets; the instances close theirs. So new clients
    /// are refused instead of left waiting. If a reload or the start of an instance holds the lock,
    /// that thread closes the sockets when it ends.
    fn stop_listening(&self) {
        if let Ok(mut in_force) = self.in_force.try_write() {
            in_force.listening.clear();
            // The files of unix sockets stay until the instances have left.
            self.shown().listening.retain(|addr| addr.unix().is_some());
        }
    }

    /// Makes all stopping instances end at once.
    pub(super) fn end_now(&self) {
        for member in &self.members {
            member.signal(signals::END_NOW);
        }
    }

    /// Kills the instances that have not ended, because they hang.
    pub(super) fn end_by_force(&self) {
        for member in &self.members {
            if let Some(pid) = member.signal(Signal::KILL) {
                let (number, pid) = (member.number, pid.as_raw_pid());
                log_line(format_args!("instance {number} (process {pid}) does not end; killed"));
            }
        }
    }

    /// The timeouts of the configuration in force.
    pub(super) fn timeouts(&self) -> Timeouts {
        self.shown().timeouts
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().expect("nothing panics under this lock")
    }

    /// Number of cores of all instances.
    fn cores(&self) -> usize {
        self.members.iter().map(|member| member.instance.cpus.len()).sum()
    }

    /// Makes the old server let go after a takeover, if there was one.
    pub(super) fn take_over(&self, inherited: Inherited, changeovers: Vec<Changeover>) {
        let cpus = self.in_force.read().expect("nothing panics under this lock").options.cpus.clone();
        let left = inherited.addrs();
        inherited.finish(changeovers, &self.balancing, &cpus);
        left.iter().filter_map(ListenAddr::unix).for_each(unix::remove);
    }

    /// Another process serves instead, so balancers need no message when this process stops.
    pub(super) fn hand_all_over(&self) {
        self.handed_over.store(true, Ordering::Release);
        self.ask_all(&InstanceCommand::HandedOver, |_| Vec::new(), STATUS_PATIENCE);
    }

    /// Whether another process serves instead.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Acquire)
    }

    /// Makes all instances reopen their logs.
    pub(super) fn reopen_logs(&self) {
        self.members.iter().for_each(InstanceHandle::reopen_log);
    }

    /// The addresses, as configured and as bound.
    pub(super) fn listening(&self) -> Vec<(ListenAddr, ListenAddr)> {
        addresses_of(&self.in_force.read().expect("nothing panics under this lock").listening)
    }

    /// Sends an order to all serving instances in parallel, and returns their answers.
    fn ask_all<'d>(
        &self,
        order: &InstanceCommand,
        descriptors: impl Fn(&InstanceHandle) -> Vec<BorrowedFd<'d>> + Sync,
        patience: Duration,
    ) -> Vec<(&InstanceHandle, io::Result<InstanceAnswer>)> {
        let serving: Vec<&InstanceHandle> = self.members.iter().filter(|member| member.serves()).collect();
        thread::scope(|scope| {
            let asked: Vec<_> = serving
                .iter()
                .map(|&member| {
                    let descriptors = &descriptors;
                    let ask = move || member.ask(order, &descriptors(member), patience);
                    let thread = thread::Builder::new().stack_size(STACK_BYTES);
                    (member, thread.spawn_scoped(scope, ask))
                })
                .collect();
            let panicked = || io::Error::other("a thread panicked");
            asked
                .into_iter()
                .map(|(member, thread)| {
                    let answer = thread.and_then(|thread| thread.join().map_err(|_panic| panicked()));
                    (member, answer.and_then(|answer| answer))
                })
                .collect()
        })
    }

    fn reload_file(&self) -> Result<Vec<String>, ReloadError> {
        let result = self.reload_over(&mut self.in_force.write().expect("nothing panics under this lock"));
        if *self.stop_phase() == StopPhase::Left {
            self.remove_files();
        }
        if self.is_stopping() {
            self.stop_listening();
        }
        result
    }

    fn reload_over(&self, in_force: &mut InForce) -> Result<Vec<String>, ReloadError> {
        let file = in_force.options.file.clone().ok_or(ReloadError::NoFile)?;
        if self.is_stopping() {
            return Err(ReloadError::Stopping);
        }
        if self.handing_over.load(Ordering::Relaxed) {
            return Err(ReloadError::HandingOver);
        }
        let text = vermeil_config::text_of(&file)?;
        let mut new =
            vermeil_config::take(&file, &text, &Surroundings::here()?.of_running(&in_force.options))?;
        self.find_hanging()?;
        let (old, bound) = (&in_force.options, addresses_of(&in_force.listening));
        refuse_mode_of_passed(&bound, &new)?;
        // The instances name the other keys.
        let ours = keys_that_differ(&old.instances, &new.instances);
        let fixed = keep_what_is_fixed(old, &mut new, CgiSettings::of(old));
        let (added, names) = listen_on_added(&bound, &new, &self.balancing)?;
        self.prepare_all(&text, &new, &added)?;
        if self.is_stopping() {
            // The instances close their sockets, and must not get others.
            self.forget_all();
            return Err(ReloadError::Stopping);
        }
        // Last, because a unix socket with another mode takes the place of the former one.
        let published = names.publish().inspect_err(|_| self.forget_all())?;
        published.keep();
        // Close these before the instances close theirs, because the instances accept the waiting
        // connections.
        let gone = in_force.listening.iter().filter(|listening| !new.listen.contains(&listening.asked));
        gone.filter_map(|listening| listening.addr.unix()).for_each(unix::remove);
        in_force.listening.retain(|listening| new.listen.contains(&listening.asked));
        let mut said = self.take_all(&new);
        if !ours.is_empty() {
            said.push(format!("only a restart changes {}", ours.join(", ")));
        }
        in_force.listening.extend(added);
        in_force.options = new;
        in_force.take_text(text, &fixed);
        *self.shown() = Shown::of(in_force);
        self.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(said)
    }

    /// Refuses a reload before it begins if an instance hangs.
    fn find_hanging(&self) -> Result<(), ReloadError> {
        // Harmless, because nothing is prepared yet, and instances answer at once.
        let answers = self.ask_all(&InstanceCommand::Forget, |_| Vec::new(), STATUS_PATIENCE);
        let hangs = |(member, answer): &(&InstanceHandle, io::Result<InstanceAnswer>)| {
            answer.is_err() && member.serves()
        };
        match answers.iter().find(|answer| hangs(answer)) {
            None => Ok(()),
            Some((member, _)) => Err(ReloadError::Instance(format!(
                "instance {} does not answer; end its process, and another is started",
                member.number
            ))),
        }
    }

    /// Makes all instances prepare a configuration, or none.
    fn prepare_all(
        &self,
        text: &ConfigText,
        new: &ServeOptions,
        added: &[Listening],
    ) -> Result<(), ReloadError> {
        let order = InstanceCommand::Prepare { listen: new.listen.clone(), added: addresses_of(added) };
        let text = text_to_descriptor(text).map_err(|error| ReloadError::Instance(error.to_string()))?;
        let descriptors = |member: &InstanceHandle| -> Vec<BorrowedFd<'_>> {
            std::iter::once(text.as_fd()).chain(sockets_of(member, added, self.cores())).collect()
        };
        let answers = self.ask_all(&order, descriptors, RELOAD_PATIENCE);
        let refused = answers.iter().find_map(|(member, answer)| match answer {
            Ok(InstanceAnswer::Prepared) => None,
            Ok(InstanceAnswer::Refused(why)) => Some(format!("instance {}: {why}", member.number)),
            // The instance ended, and restarts with the configuration that is in force then.
            _ if !member.serves() => None,
            Ok(_) => Some(format!("instance {} sends an answer to another order", member.number)),
            Err(error) => Some(format!("instance {} does not answer: {error}", member.number)),
        });
        match refused {
            None => Ok(()),
            Some(why) => {
                self.forget_all();
                Err(ReloadError::Instance(why))
            }
        }
    }

    /// Makes all instances drop the prepared configuration.
    fn forget_all(&self) {
        self.ask_all(&InstanceCommand::Forget, |_| Vec::new(), STATUS_PATIENCE);
    }

    /// Makes all instances switch to the prepared configuration. Returns the lines to log, without
    /// repeats.
    fn take_all(&self, new: &ServeOptions) -> Vec<String> {
        let mut said: Vec<String> = vec![format!("reloaded: {}", new.hosts.describe())];
        let mut seen: HashSet<String> = said.iter().cloned().collect();
        for (member, answer) in self.ask_all(&InstanceCommand::Take, |_| Vec::new(), RELOAD_PATIENCE) {
            match answer {
                Ok(InstanceAnswer::Taken(lines)) => {
                    said.extend(lines.into_iter().filter(|line| seen.insert(line.clone())));
                }
                Ok(InstanceAnswer::Refused(why)) => said.push(format!("instance {}: {why}", member.number)),
                // An ended instance restarts with the new configuration. A hanging instance is
                // reported.
                _ if !member.serves() => {}
                _ => said.push(format!("instance {} did not answer", member.number)),
            }
        }
        said
    }

    /// Clones of the sockets for the process that takes over.
    fn prepare_handing(&self) -> Result<Handing, String> {
        let in_force = self.in_force.read().expect("nothing panics under this lock");
        if self.is_stopping() {
            return Err(ReloadError::Stopping.to_string());
        }
        let cloned = |all: &[Listening]| -> Result<Vec<Listening>, String> {
            let all: io::Result<_> = all.iter().map(Listening::try_clone).collect();
            all.map_err(|error| error.to_string())
        };
        let handing = Handing {
            listening: cloned(&in_force.listening)?,
            agent: cloned(&in_force.agent)?,
            tickets: self.tickets.secret(),
        };
        self.handing_over.store(true, Ordering::Relaxed);
        if *self.stop_phase() == StopPhase::Left {
            // The files of the unix sockets are gone.
            self.handing_over.store(false, Ordering::Relaxed);
            return Err(ReloadError::Stopping.to_string());
        }
        Ok(handing)
    }

    fn statuses(&self) -> (Vec<InstanceStatus>, Vec<u32>) {
        let answers = self.ask_all(&InstanceCommand::Status, |_| Vec::new(), STATUS_PATIENCE);
        let statuses: Vec<InstanceStatus> = answers
            .into_iter()
            .filter_map(|(member, answer)| match answer {
                Ok(InstanceAnswer::Status(status)) => {
                    Some(InstanceStatus { instance: member.number, restarts: member.restarts(), ..*status })
                }
                _ => None,
            })
            .collect();
        let is_silent = |number: &u32| statuses.iter().all(|status| status.instance != *number);
        let silent = self.members.iter().map(|member| member.number).filter(is_silent).collect();
        (statuses, silent)
    }
}

impl Overseer for Supervisor {
    fn status(&self) -> ServerStatus {
        let (instances, silent) = self.statuses();
        let Shown { file, listening, .. } = &*self.shown();
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.since.elapsed().as_secs_f64(),
            state: if self.is_stopping() { "draining" } else { "serving" }.to_owned(),
            configuration: file.as_ref().map(|file| file.display().to_string()),
            reloads: self.reloads.load(Ordering::Relaxed),
            listening: listening.iter().map(ToString::to_string).collect(),
            imbalance: imbalance(&instances),
            instances,
            silent,
        }
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        let result = self.reload_file();
        match &result {
            Ok(said) => said.iter().for_each(|line| log_line(format_args!("{line}"))),
            // The client gets this error as the answer, so the log need not repeat the error.
            Err(ReloadError::NoFile) => {}
            Err(why) => {
                log_line(format_args!(
                    "the configuration stays as it is, because the new one is refused:\n{why}"
                ));
            }
        }
        result.map_err(|why| why.to_string())
    }

    fn hand_over(&self) -> Result<Handing, String> {
        let result = self.prepare_handing();
        if self.is_stopping() {
            // The clones were made under the lock that `drain` needs for this.
            self.stop_listening();
        }
        result
    }

    fn keep(&self, pid: u32) {
        self.handing_over.store(false, Ordering::Relaxed);
        say_kept(pid);
        if *self.stop_phase() == StopPhase::Left {
            // The files stayed for the process that was to take over.
            self.remove_files();
        }
    }

    fn let_go(&self, pid: u32) {
        self.in_force.write().expect("nothing panics under this lock").agent.clear();
        self.balancing.let_go();
        self.hand_all_over();
        signals::stop_for(pid);
    }
}

/// The threads that wait for the instances.
pub(super) struct Keepers(Vec<JoinHandle<Option<ExitStatus>>>);

impl Keepers {
    /// Waits for all threads and returns how their instances ended.
    pub(super) fn join(self) -> InstanceEnds {
        self.0.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn addresses_of(listening: &[Listening]) -> Vec<(ListenAddr, ListenAddr)> {
    listening.iter().map(|listening| (listening.asked, listening.addr)).collect()
}

/// The addresses, as configured, whose sockets the service manager passed.
fn passed_of(listening: &[Listening]) -> Vec<ListenAddr> {
    let passed = listening.iter().filter(|listening| listening.keeper == SocketKeeper::Manager);
    passed.map(|listening| listening.asked).collect()
}

/// The sockets of an instance, address by address. `all` is the number of all cores.
fn sockets_of<'l>(
    member: &InstanceHandle,
    listening: &'l [Listening],
    all: usize,
) -> impl Iterator<Item = BorrowedFd<'l>> + use<'l> {
    let cores = member.first_core..member.first_core + member.instance.cpus.len();
    listening.iter().flat_map(move |listening| {
        let cores = cores.clone();
        let sockets = listening.sockets.iter().enumerate();
        sockets.filter(move |(at, _)| cores.contains(&(at % all))).map(|(_, socket)| socket.as_fd())
    })
}

/// Number of the instance's sockets for each address.
fn counts_of(member: &InstanceHandle, in_force: &InForce) -> Vec<usize> {
    let all = in_force.options.cpus.len();
    let of = |listening: &Listening| sockets_of(member, std::slice::from_ref(listening), all).count();
    in_force.listening.iter().map(of).collect()
}
