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
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustix::time::ClockId;

use crate::event::{EventKind, Sample};
use crate::format::{FileRecord, Origin, Writer};
use crate::ledger::{CounterLedger, HardwareSet, TICK_NS};
use crate::machine::{nanoseconds, now_ns};
use crate::module_files::ProcessesRun;
use crate::priority::RaisedPriority;
use crate::processes::Processes;
use crate::recorded_process::RecordedProcess;
use crate::sampler::StackSampler;
use crate::session::{Counts, Session};
use crate::symbols::{self, KernelNames};
use crate::{ProfileError, machine};

/// How often counters are read that samples do not hold.
const TICK: Duration = Duration::from_nanos(TICK_NS);
/// How many ticks pass until the rings are emptied, if the rings are not full by half earlier. Each
/// wake-up takes a cpu from the subject for a moment.
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
    let sampler = opened.map_err(|error| explained(error, root.zip(owner), geteuid().as_raw()))?;
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
    let writer = Writer::create(&options.output, &origin)?;
    if root.is_some() {
        sampler.enable()?;
    }
    let session = Session::new(Processes::tree(run.pid), ProcessesRun::Now);
    let ledger = CounterLedger::open(&sampler.cpus, options.hardware, sampler.sampling.counts);
    let unnamed = symbols::missing_names(&KernelNames::Here).filter(|_| origin.kernel);
    let mut recording = RunningRecording { sampler, session, ledger, writer };
    unnamed.iter().for_each(|missing| recording.ledger.lacks(&missing.name, &missing.why));
    let mut failed = recording.begin(origin.start_ns).err();
    if failed.is_none() {
        failed = recording.follow(&mut run, root.is_none(), started, options.duration, stop)?.err();
    }
    // Before names are looked up, which takes its time.
    let ended_ns = now_ns();
    let duration = started.elapsed();
    let own_cpu = Duration::from_nanos(own_cpu_ns() - own_cpu);
    let status = run.finish();
    let descendants = recording.session.processes.outliving(run.pid);
    if failed.is_none() {
        failed = recording.finish(options.hardware, ended_ns).err();
    }
    let RunningRecording { sampler, session, ledger, writer } = recording;
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

/// The parts of a recording in progress.
struct RunningRecording {
    sampler: StackSampler,
    session: Session,
    ledger: CounterLedger,
    writer: Writer,
}

impl RunningRecording {
    /// Writes what is known at the start.
    fn begin(&mut self, start_ns: u64) -> io::Result<()> {
        self.session.name_threads(&mut |record| self.writer.write(record))?;
        self.writer.flush()?;
        self.ledger.find_work(self.session.processes.pids());
        match self.sampler.records_waits() {
            Ok(false) => {}
            Ok(true) => self.session.follow_waits(start_ns),
            Err(why) => self.ledger.lacks(WAITS, why),
        }
        self.writer.write(&self.ledger.columns())
    }

    /// Records until the subject ends, `duration` is over or `stop` is set.
    fn follow(
        &mut self,
        run: &mut RecordedProcess,
        is_started: bool,
        started: Instant,
        duration: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<io::Result<()>, ProfileError> {
        let drain_ticks = drain_ticks(&self.sampler);
        let mut ticks = 0;
        let mut searches = Every::new(WORK_TICKS);
        let (mut readings, mut drains) = (Every::new(PROC_TICKS), Every::new(drain_ticks));
        drains.is_due(ticks);
        loop {
            // The processes of a command show their work some time after their start.
            let is_young = is_started && ticks <= 10 * WORK_TICKS && searches.is_due(ticks);
            if let Err(error) = self.read_counters(readings.is_due(ticks), is_young) {
                return Ok(Err(error));
            }
            let step = if self.ledger.reads_each_tick() { 1 } else { drain_ticks - ticks % drain_ticks };
            ticks += step;
            let is_over = run.wait(started + TICK * ticks as u32, started, duration, stop)?;
            // A recorder that was stopped does not make up for the ticks.
            ticks = ticks.max((started.elapsed().as_nanos() as u64) / TICK_NS);
            if is_over {
                self.sampler.disable();
                return Ok(self.drain(u64::MAX));
            }
            if drains.is_due(ticks) {
                if let Err(error) = self.drain(now_ns().saturating_sub(SETTLED.as_nanos() as u64)) {
                    return Ok(Err(error));
                }
                if self.session.wants_deeper_stacks() {
                    self.sampler.deepen();
                }
            }
        }
    }

    /// Reads the counters that samples do not hold.
    fn read_counters(&mut self, reads_proc: bool, is_young: bool) -> io::Result<()> {
        if is_young && self.ledger.find_work(self.session.processes.pids()) {
            self.writer.write(&self.ledger.columns())?;
        }
        let now = now_ns();
        if reads_proc {
            self.count_idle_cpus(now);
        }
        self.ledger.read(now, reads_proc);
        Ok(())
    }

    /// Reads the counts of cpus that have no samples now.
    fn count_idle_cpus(&mut self, now: u64) {
        let unsampled: Vec<(usize, u32)> = self.ledger.unsampled(now).collect();
        for (place, cpu) in unsampled {
            if let Some(counts) = self.sampler.counts(place) {
                self.ledger.sampled(cpu, now, counts);
            }
        }
    }

    /// Writes the events up to a time, oldest first; later ones may still lack predecessors.
    fn drain(&mut self, until: u64) -> io::Result<()> {
        let Self { sampler, session, ledger, writer } = self;
        sampler.drain(until, |event| {
            while let Some(tick) = ledger.due(event.time) {
                writer.write(&tick)?;
            }
            if let EventKind::Sample(Sample { counts: Some(counts), .. }) = &event.what {
                ledger.sampled(event.cpu, event.time, *counts);
            }
            session.take(event, &mut |record| writer.write(record))
        })?;
        while let Some(tick) = ledger.due(until) {
            writer.write(&tick)?;
        }
        if until < u64::MAX {
            session.write_waits(until, &mut |record| writer.write(record))?;
            session.forget_ended(now_ns(), until);
        }
        writer.flush()
    }

    /// Writes the last counters, names the places that were seen and ends the file.
    fn finish(&mut self, hardware: HardwareSet, ended_ns: u64) -> io::Result<()> {
        self.count_idle_cpus(u64::MAX);
        self.ledger.read(ended_ns, true);
        let Self { session, ledger, writer, .. } = self;
        while let Some(tick) = ledger.due(u64::MAX) {
            writer.write(&tick)?;
        }
        ledger.take_back(hardware).map_or(Ok(()), |record| writer.write(&record))?;
        session.end_waits(ended_ns, &mut |record| writer.write(record))?;
        let symbols = symbols::resolve(session.readable_modules(), session.places(), &KernelNames::Here);
        for some in symbols.chunks(10_000) {
            writer.write(&FileRecord::Symbols(some.to_vec()))?;
        }
        writer.write(&FileRecord::End { time: ended_ns, others: session.counts().others })?;
        writer.flush()
    }
}

/// An action that is due again after some ticks, also if the recorder did not run at that tick.
struct Every {
    ticks: u64,
    next: u64,
}

impl Every {
    /// An action that is due at once.
    fn new(ticks: u64) -> Self {
        Self { ticks, next: 0 }
    }

    /// Whether the action is due. If so, counts from this tick on.
    fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.ticks;
        }
        is_due
    }
}

/// How many ticks pass until the rings are emptied: before a ring of long samples is half full.
fn drain_ticks(sampler: &StackSampler) -> u64 {
    let (ring_bytes, sample_bytes) = sampler.ring_and_sample_bytes();
    let samples = (ring_bytes / 2 / sample_bytes) as u64;
    let ns = samples * 1_000_000_000 / u64::from(sampler.sampling.hz.max(1));
    (ns / TICK_NS).clamp(1, DRAIN_TICKS)
}

fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
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
