//! A run of a program on a variant, in a separate process, because then no run inherits
//! another run's heap, threads or caches, and a hanging run can be killed.
//!
//! The parent passes everything on the command line; the child prints its [`ChildSample`] as one
//! line of JSON. The cost of a run is read while the runtime's threads live. The cost therefore
//! includes these threads but not the clients of a server, because the clients have ended by then.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use vermeil::{Handle, Observe, Runtime};
use vermeil_programs::ProgramOutcome;
use vermeil_programs::kernel::MixingPace;
use vermeil_programs::record::{EVENTS_PER_CORE, RecordingFile};

use crate::measure::CpuTime;
use crate::runtime::own;
use crate::runtime::peers;
use crate::runtime::plan::{BenchProgram, RuntimeVariant};
use crate::size::BenchSize;

/// The options of one run.
#[derive(Clone, Copy, Debug)]
pub struct ChildRun {
    /// The program.
    pub program: BenchProgram,
    /// The runtime.
    pub variant: RuntimeVariant,
    /// The size.
    pub size: BenchSize,
    /// The speed of this machine, measured once for all runs, so that all runs have the same work.
    pub pace: MixingPace,
    /// The duration of the run and the observed quantity.
    pub watch: RunWatch,
    /// Vermeil's level of observation.
    pub observe: Observe,
    /// The cpus of the run.
    pub cpus: ChildCpus,
}

/// The cpus of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ChildCpus {
    /// All that this process may use.
    #[default]
    All,
    /// One cpu, because the cost of an event there does not depend on other cpus.
    One,
}

/// The observation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RunWatch {
    /// The end of the run.
    End,
    /// The development of the throughput, over ten times the work.
    Settling,
}

/// The measurement of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildSample {
    /// Events of the program.
    pub events: u64,
    /// The time of these events.
    pub elapsed_ns: u64,
    /// Of the result.
    pub checksum: u64,
    /// Processor time of the process meanwhile.
    pub cpu_ns: u64,
    /// Context switches of the process meanwhile.
    pub switches: u64,
    /// Delay of short events, if the program has short events.
    pub delay_p99_ns: Option<u64>,
    /// The time from the start until the throughput was stable, if observed.
    pub settle_ms: Option<f64>,
    /// Colors stolen.
    pub steals: u64,
    /// The time of these steals.
    pub steal_ns: u64,
    /// The expected time of the stolen colors' events.
    pub stolen_ns: u64,
    /// Time that was lost to trials of plans, if bounded.
    #[serde(default)]
    pub regret_ns: Option<u64>,
    /// Panics; a run with a panic is invalid.
    pub panics: u64,
}

/// The result of a program on any variant.
pub(super) struct ChildResult {
    pub(super) outcome: ProgramOutcome,
    pub(super) delays: Option<Histogram<u64>>,
}

impl From<ProgramOutcome> for ChildResult {
    fn from(outcome: ProgramOutcome) -> Self {
        Self { outcome, delays: None }
    }
}

impl ChildRun {
    /// Runs the program in this process, and writes a recording to the file `trace`; peers write no
    /// recording.
    ///
    /// # Errors
    /// When a runtime does not start, a socket fails, or the recording cannot be written.
    pub fn here(self, trace: Option<&Path>) -> io::Result<ChildSample> {
        if let (ChildCpus::One, Some(cpu)) = (self.cpus, vermeil_io::current_affinity().last()) {
            vermeil_io::allow_current_thread(&[*cpu])?;
        }
        match self.variant {
            RuntimeVariant::Policy(policy) => {
                let policy = policy.parse().map_err(io::Error::other)?;
                let record = trace.map(RecordingFile::create).transpose()?;
                let events = if record.is_some() { EVENTS_PER_CORE } else { 0 };
                let builder = Runtime::builder().policy(policy).observe(self.observe).record(events);
                let runtime = builder.build().map_err(io::Error::other)?;
                let sample = self.on_vermeil(&runtime.handle())?;
                if let Some(record) = record {
                    record.write(runtime)?;
                }
                Ok(sample)
            }
            RuntimeVariant::Tokio | RuntimeVariant::Smol | RuntimeVariant::Rayon => {
                let peer = peers::StartedPeer::start(self.variant);
                for _ in 0..self.warm_ups() {
                    peer.run(self);
                }
                ChildCosts::now()?.sample(|| Ok(peer.run(self)))
            }
        }
    }

    /// The number of warm-up runs of the program. A hundred thousand tasks that are spawned at once
    /// into the heap of a new process cost more in the kernel, which clears every page, than on any
    /// runtime, and servers live longer than that. Each thread has a separate heap, and chance
    /// decides which thread spawns.
    fn warm_ups(self) -> u32 {
        let warms_up = self.program.is_common() && self.watch == RunWatch::End;
        if warms_up { WARM_UPS } else { 0 }
    }

    fn on_vermeil(self, handle: &Handle) -> io::Result<ChildSample> {
        for _ in 0..self.warm_ups() {
            own::run(handle, self)?;
        }
        let before = handle.snapshot().cores;
        let ended = AtomicBool::new(false);
        let costs = ChildCosts::now()?;
        let (sample, settle_ms) = std::thread::scope(|scope| {
            let watcher =
                (self.watch == RunWatch::Settling).then(|| scope.spawn(|| settling(handle, &ended)));
            let sample = costs.sample(|| own::run(handle, self));
            ended.store(true, Ordering::Release);
            (sample, watcher.and_then(|watcher| watcher.join().expect("watching does not panic")))
        });
        let cores = handle.snapshot().cores;
        let sum = |of: fn(&vermeil::CoreSnapshot) -> u64| {
            cores.iter().map(of).sum::<u64>() - before.iter().map(of).sum::<u64>()
        };
        Ok(ChildSample {
            settle_ms,
            steals: sum(|core| core.steals),
            steal_ns: sum(|core| core.steal_ns),
            stolen_ns: sum(|core| core.stolen_ns),
            panics: sum(|core| core.panics),
            regret_ns: handle.placements().regret.map(|lost| lost.as_nanos() as u64),
            ..sample?
        })
    }
}

/// Warm-up runs of a program that warms up. Each run spawns many tasks, so after four runs each of
/// a few threads has spawned.
const WARM_UPS: u32 = 4;

/// The process's counters before a run.
struct ChildCosts {
    cpu: CpuTime,
    switches: u64,
}

impl ChildCosts {
    fn now() -> io::Result<Self> {
        Ok(Self { cpu: CpuTime::of_self().map_err(io::Error::other)?, switches: switches()? })
    }

    fn sample(self, run: impl FnOnce() -> io::Result<ChildResult>) -> io::Result<ChildSample> {
        let ChildResult { outcome, delays } = run()?;
        let after = Self::now()?;
        Ok(ChildSample {
            events: outcome.events,
            elapsed_ns: outcome.elapsed.as_nanos() as u64,
            checksum: outcome.checksum,
            cpu_ns: (after.cpu - self.cpu).run.as_nanos() as u64,
            switches: after.switches.saturating_sub(self.switches),
            delay_p99_ns: delays.map(|delays| delays.value_at_quantile(0.99)),
            ..ChildSample::default()
        })
    }
}

/// Context switches of every thread of this process (proc(5)).
fn switches() -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let status = match fs::read_to_string(task?.path().join("status")) {
            // The thread has ended since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            status => status?,
        };
        let counts = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        sum += counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(sum)
}

/// The interval between readings of the progress: short compared with the 200 ms that settling may
/// take.
const TICK: Duration = Duration::from_millis(10);
/// The throughput is stable when this many consecutive looks show at least this share of the final
/// throughput.
const SETTLED: (usize, f64) = (5, 0.9);

/// Milliseconds until the throughput of `handle`'s runtime reached the throughput at `ended`.
fn settling(handle: &Handle, ended: &AtomicBool) -> Option<f64> {
    let start = Instant::now();
    let events = || handle.snapshot().cores.iter().map(|core| core.events).sum::<u64>();
    let mut seen = vec![(0.0, events())];
    while !ended.load(Ordering::Acquire) {
        std::thread::sleep(TICK);
        seen.push((start.elapsed().as_secs_f64() * 1e3, events()));
    }
    settled_ms(&seen)
}

/// The time of the first of `(ms, events so far)` from which the rate was the final rate: the
/// median of the last half.
fn settled_ms(seen: &[(f64, u64)]) -> Option<f64> {
    let rate = |pair: &[(f64, u64)]| (pair[1].1 - pair[0].1) as f64 / (pair[1].0 - pair[0].0);
    let rates: Vec<f64> = seen.windows(2).map(rate).collect();
    let mut last = rates[rates.len() / 2..].to_vec();
    last.sort_by(f64::total_cmp);
    let usual = *last.get(last.len() / 2)?;
    let (looks, share) = SETTLED;
    let first =
        rates.windows(looks).position(|some| some.iter().sum::<f64>() / looks as f64 >= share * usual)?;
    Some(seen[first].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_settles_where_its_rate_stays() {
        let rates = [1u64, 1, 1, 1, 9, 10, 10, 10, 10, 11, 10, 10, 10, 10, 10, 10];
        let mut seen = vec![(0.0, 0)];
        for rate in rates {
            let (ms, events) = seen[seen.len() - 1];
            seen.push((ms + 1.0, events + rate));
        }
        assert_eq!(settled_ms(&seen), Some(4.0));
        assert_eq!(settled_ms(&seen[..1]), None);
    }

    #[test]
    fn this_process_has_been_switched() {
        // At least now.
        std::thread::park_timeout(Duration::from_millis(1));
        assert!(switches().expect("proc is there") > 0);
    }
}
