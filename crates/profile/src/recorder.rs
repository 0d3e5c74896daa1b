//! Records a process tree into a file: opens the events, empties the rings, writes in order of
//! time.
//!
//! With the right to observe whole cpus (root, or CAP_PERFMON) one event per cpu samples
//! everything, and the recorder keeps the samples of the tree: threads and context switches then
//! cost nothing. Without that right each thread gets an event of its own, which new threads
//! inherit. Leaves out the meaning of records (`event`, `session`). Tested end to end in
//! `tests/record.rs`.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::format::{FileRecord, Origin, Writer};
use crate::ledger::{CounterLedger, HardwareSet};
use crate::priority::RaisedPriority;
use crate::processes::Processes;
use crate::sampler::{StackSampler, system};
use crate::session::{Counts, Session};
use crate::symbols::{self, KernelNames};
use crate::{ProfileError, machine};

/// How often counters are read.
const TICK: Duration = Duration::from_millis(10);
/// How many ticks pass until the rings are emptied. A ring holds more than ten times as much at
/// 997 Hz.
const DRAIN_TICKS: u64 = 5;
/// How many ticks pass until the counters in `/proc` are read.
const PROC_TICKS: u64 = 10;
/// How many ticks pass between two searches for the work that a started command counts. Ten
/// searches, because each reads the names of all descriptors.
const WORK_TICKS: u64 = 100;
/// A record is written a little after its time stamp. Later than this is never seen.
const SETTLED: Duration = Duration::from_millis(10);
/// The name of waits among the counters that cannot be read.
const WAITS: &str = "waiting";
/// How long a command may take to end after `duration` before it is killed.
const ENDS: Duration = Duration::from_secs(10);

/// The process tree to record.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A process that runs, and its descendants.
    Process(i32),
    /// A command to start.
    Command(Vec<OsString>),
}

/// The options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The processes to record.
    pub subject: Subject,
    /// Samples per second and cpu.
    pub hz: u32,
    /// The longest time to record.
    pub duration: Option<Duration>,
    /// The file.
    pub output: PathBuf,
    /// The hardware events that are counted beside the samples.
    pub hardware: HardwareSet,
    /// How stacks of processes are walked.
    pub stacks: Stacks,
    /// Whether the waits of threads are recorded too.
    pub waits: bool,
}

/// How the stacks of processes are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// By the kernel, along frame pointers. Code without them loses its callers.
    Frames,
    /// By the recorder, with the unwind tables of files, from a copy of the stack. Costs more.
    #[default]
    Tables,
}

/// Sums over a recording.
#[derive(Clone, Debug)]
pub struct RecordingSummary {
    /// The file.
    pub output: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The machine and the command line.
    pub origin: Origin,
    /// How long it took.
    pub duration: Duration,
    /// Cpu time of the recorder meanwhile, without the search for names at the end.
    pub own_cpu: Duration,
    /// Samples of the tree.
    pub samples: u64,
    /// Samples of other processes, which were left out.
    pub others: u64,
    /// What is missing.
    pub losses: RecordingLosses,
    /// Whether the kernel's symbols were hidden from this user.
    pub kernel_symbols_hidden: bool,
    /// Whether each thread had an event of its own, for want of rights.
    pub by_thread: bool,
    /// Whether the subject counted its work, such as requests.
    pub counts_work: bool,
    /// Why waits were not recorded although they were wanted.
    pub waits_missing: Option<String>,
}

/// What the kernel could not keep of a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordingLosses {
    /// Samples.
    pub samples: u64,
    /// Times that the kernel has paused sampling.
    pub pauses: u64,
    /// Switches of threads, and waits with them.
    pub switches: u64,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Recorded {
    /// Sums over the file.
    pub summary: RecordingSummary,
    /// Why the file holds less than it should, if it does.
    pub shortened: Option<io::Error>,
    /// How a started command ended.
    pub status: Option<ExitStatus>,
    /// Processes of the tree that outlive the first process, whose end ended the recording.
    pub descendants: Vec<i32>,
}

/// Records until the subject ends, `duration` is over or `stop` is set.
///
/// # Errors
/// The subject is not there, the kernel refuses, or the file cannot be made. A file that cannot be
/// written further is no error: see [`Recorded::shortened`].
pub fn record(options: &RecordOptions, stop: &AtomicBool) -> Result<Recorded, ProfileError> {
    let started = Instant::now();
    let root = match &options.subject {
        Subject::Process(pid) => Some(existing(*pid)?),
        Subject::Command(_) => None,
    };
    let dumps = options.stacks == Stacks::Tables;
    let opened = StackSampler::open(options.hz, dumps, options.waits, root);
    let owner = root.and_then(machine::owner);
    let mut sampler = opened.map_err(|error| explained(error, root.zip(owner), geteuid().as_raw()))?;
    let mut origin = origin(&sampler, options);
    let mut run = match &options.subject {
        Subject::Process(pid) => RecordedProcess::attach(*pid)?,
        Subject::Command(words) => {
            // Before the start, so that nothing of it is missed. A path that cannot be written must
            // not start a command either.
            drop(Writer::create(&options.output, &origin)?);
            sampler.enable()?;
            RecordedProcess::start(words)?
        }
    };
    origin.pid = run.pid;
    let _priority = RaisedPriority::of_this_thread();
    let own_cpu = own_cpu_ns();
    let mut writer = Writer::create(&options.output, &origin)?;
    if root.is_some() {
        sampler.enable()?;
    }
    let mut session = Session::new(Processes::tree(run.pid));
    let named = session.name_threads(&mut |record| writer.write(record));
    let mut failed = named.and_then(|()| writer.flush()).err();
    let mut ledger = CounterLedger::open(&sampler.cpus, options.hardware);
    ledger.find_work(session.processes.pids());
    let unnamed = symbols::missing_names(&KernelNames::Here).filter(|_| origin.kernel);
    unnamed.iter().for_each(|missing| ledger.lacks(&missing.name, &missing.why));
    match sampler.records_waits() {
        Ok(false) => {}
        Ok(true) => session.follow_waits(origin.start_ns),
        Err(why) => ledger.lacks(WAITS, why),
    }
    failed = failed.or_else(|| writer.write(&ledger.columns()).err());
    let mut ticks = 0;
    let mut is_over = false;
    while failed.is_none() && !is_over {
        // The processes of a command show their work some time after their start.
        let is_young = root.is_none() && ticks % WORK_TICKS == 0 && ticks <= 10 * WORK_TICKS;
        if is_young && ledger.find_work(session.processes.pids()) {
            failed = writer.write(&ledger.columns()).err();
        }
        let tick = ledger.read(now_ns(), ticks % PROC_TICKS == 0);
        failed = failed.or_else(|| writer.write(&tick).err());
        ticks += 1;
        is_over = run.wait(started + TICK * ticks as u32, started, options.duration, stop)?;
        if is_over {
            sampler.disable();
        } else if ticks % DRAIN_TICKS != 0 {
            continue;
        }
        let until = if is_over { u64::MAX } else { now_ns().saturating_sub(SETTLED.as_nanos() as u64) };
        failed = failed.or_else(|| write_until(until, &mut sampler, &mut session, &mut writer).err());
        if session.wants_deeper_stacks() {
            sampler.deepen();
        }
    }
    // Before names are looked up, which takes its time.
    let ended_ns = now_ns();
    let duration = started.elapsed();
    let own_cpu = Duration::from_nanos(own_cpu_ns() - own_cpu);
    let status = run.finish();
    let descendants = session.processes.outliving(run.pid);
    if failed.is_none() {
        let last = ledger.read(ended_ns, true);
        let written = writer
            .write(&last)
            .and_then(|()| ledger.take_back(options.hardware).map_or(Ok(()), |record| writer.write(&record)));
        failed = written.and_then(|()| finish(&mut session, &mut writer, ended_ns)).err();
    }
    let bytes = writer.bytes();
    let Counts { samples, others, lost, throttled } = session.counts();
    let summary = RecordingSummary {
        output: options.output.clone(),
        bytes,
        kernel_symbols_hidden: unnamed.is_some(),
        by_thread: sampler.by_thread,
        counts_work: ledger.counts_work(),
        waits_missing: sampler.records_waits().err().map(str::to_owned),
        origin,
        duration,
        own_cpu,
        samples,
        others,
        losses: RecordingLosses { samples: lost, pauses: throttled, switches: session.switches_lost() },
    };
    Ok(Recorded { summary, shortened: failed, status, descendants })
}

/// A refusal with the owner of the process, if the owner is another user than `user`.
fn explained(error: ProfileError, subject: Option<(i32, u32)>, user: u32) -> ProfileError {
    match (error, subject) {
        (ProfileError::NoRight { .. }, Some((pid, owner))) if user != 0 && owner != user => {
            ProfileError::OtherUser { pid, owner, user }
        }
        (error, _) => error,
    }
}

fn existing(pid: i32) -> Result<i32, ProfileError> {
    if pid > 0 && Path::new(&format!("/proc/{pid}")).exists() {
        Ok(pid)
    } else {
        Err(ProfileError::NoProcess(pid))
    }
}

/// Writes the events up to a time, oldest first; later ones may still lack predecessors.
fn write_until(
    until: u64,
    sampler: &mut StackSampler,
    session: &mut Session,
    writer: &mut Writer,
) -> io::Result<()> {
    sampler.drain(until, |event| session.take(event, &mut |record| writer.write(record)))?;
    if until < u64::MAX {
        session.write_waits(until, &mut |record| writer.write(record))?;
    }
    writer.flush()
}

/// Names the places that were seen and ends the file.
fn finish(session: &mut Session, writer: &mut Writer, ended_ns: u64) -> io::Result<()> {
    session.end_waits(ended_ns, &mut |record| writer.write(record))?;
    let symbols = symbols::resolve(session.readable_modules(), session.places(), &KernelNames::Here);
    for some in symbols.chunks(10_000) {
        writer.write(&FileRecord::Symbols(some.to_vec()))?;
    }
    writer.write(&FileRecord::End { time: ended_ns, others: session.counts().others })?;
    writer.flush()
}

fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Facts about a recording that begins now.
fn origin(sampler: &StackSampler, options: &RecordOptions) -> Origin {
    let (command, pid) = match &options.subject {
        Subject::Process(pid) => (machine::command_line(*pid), *pid),
        Subject::Command(words) => {
            (words.iter().map(|word| word.to_string_lossy().into_owned()).collect(), 0)
        }
    };
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Origin {
        command,
        pid,
        trigger: sampler.sampling.trigger,
        hz: options.hz,
        kernel: sampler.sampling.kernel,
        cpus: sampler.cpus.clone(),
        release: machine::release(),
        processor: machine::processor(),
        start_ns: now_ns(),
        started_s: since_1970.map_or(0, |since| since.as_secs()),
        boot: machine::boot(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The process that is recorded.
struct RecordedProcess {
    pid: i32,
    handle: OwnedFd,
    child: Option<Child>,
    asked_to_end: Option<Instant>,
}

impl RecordedProcess {
    fn attach(pid: i32) -> Result<Self, ProfileError> {
        let id = Pid::from_raw(pid).ok_or(ProfileError::NoProcess(pid))?;
        let handle = pidfd_open(id, PidfdFlags::empty()).map_err(|_| ProfileError::NoProcess(pid))?;
        Ok(Self { pid, handle, child: None, asked_to_end: None })
    }

    fn start(words: &[OsString]) -> Result<Self, ProfileError> {
        let child = Command::new(&words[0]).args(&words[1..]).spawn();
        let child =
            child.map_err(|source| ProfileError::Start { command: PathBuf::from(&words[0]), source })?;
        let mut run = Self::attach(child.id() as i32)?;
        run.child = Some(child);
        Ok(run)
    }

    /// Waits until a time; says whether the recording is over.
    fn wait(
        &mut self,
        until: Instant,
        started: Instant,
        duration: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<bool, ProfileError> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut handle = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
        match poll(&mut handle, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(system("cannot wait for the process", error.into())),
        }
        let is_due = duration.is_some_and(|duration| started.elapsed() >= duration);
        let is_stopped = stop.load(Ordering::Relaxed);
        match (&self.child, self.asked_to_end) {
            _ if !is_due && !is_stopped => Ok(false),
            (None, _) => Ok(true),
            (Some(_), None) => {
                self.signal(Signal::TERM);
                self.asked_to_end = Some(Instant::now());
                Ok(false)
            }
            (Some(_), Some(asked)) => Ok(asked.elapsed() >= ENDS),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // The process may have ended meanwhile; the number is not used again before the wait
            // for the process.
            let _gone = kill_process(pid, signal);
        }
    }

    /// Ends a command that was started.
    fn finish(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        self.signal(Signal::KILL);
        child.wait().ok()
    }
}

impl Drop for RecordedProcess {
    fn drop(&mut self) {
        // After a failure: a command that nothing records must not stay behind.
        if let Some(child) = &mut self.child {
            let _gone = child.kill();
            let _waited = child.wait();
        }
    }
}

/// How a command ended, in words; `None` if it succeeded.
pub fn ended(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the command ended with exit code {code}")),
        (None, signal) => Some(format!("signal {} ended the command", signal.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the cure for a process of another user was a setting that permits own processes
    /// only.
    #[test]
    fn refusal_names_owner_of_process() {
        let refused = |user| {
            let source = io::ErrorKind::PermissionDenied.into();
            let error = ProfileError::NoRight { paranoid: "2".to_owned(), source };
            explained(error, Some((7, 0)), user).to_string()
        };
        let other = refused(65_534);
        assert!(other.contains("process 7: it belongs to user 0") && !other.contains("paranoid"), "{other}");
        assert!(refused(0).contains("perf_event_paranoid is 2"));
    }
}
