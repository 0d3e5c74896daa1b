//! Events of 2 microseconds beside jobs of 20 milliseconds: how long do the short events wait?
//!
//! Every chain is a color that works and posts itself again until all steps are done. Chains of
//! short steps are many, chains of long jobs few. A long job holds a core for ten thousand short
//! steps, and the colors queued behind the job wait there, unless a thief takes them away. Besides
//! throughput the program measures the delay of the short steps, from their posting until they run.

use crate::{
    OutcomeTally, ProgramOutcome,
    kernel::{MixingPace, mix},
};
use hdrhistogram::Histogram;
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use vermeil::{Color, Colored, Handle, Handler, Spec};

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct MixedJobsSize {
    /// Chains of short steps.
    #[arg(long, default_value_t = 64)]
    pub short_chains: u32,
    /// Steps of each short chain.
    #[arg(long, default_value_t = 10_000)]
    pub short_steps: u32,
    /// Microseconds of a short step.
    #[arg(long, default_value_t = 2)]
    pub short_us: u64,
    /// Chains of long jobs.
    #[arg(long, default_value_t = 2)]
    pub long_chains: u32,
    /// Jobs of each long chain.
    #[arg(long, default_value_t = 20)]
    pub long_steps: u32,
    /// Microseconds of a long job.
    #[arg(long, default_value_t = 20_000)]
    pub long_us: u64,
}

/// The steps of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobChain {
    /// Number of steps.
    pub steps: u32,
    /// Rounds of [`mix`] in each step.
    pub rounds: u64,
    /// Whether the chain's delays are measured.
    pub is_short: bool,
}

impl MixedJobsSize {
    /// The chains; long chains are spread evenly between the short chains.
    pub fn chains(&self, pace: MixingPace) -> Vec<JobChain> {
        let short_rounds = pace.rounds(Duration::from_micros(self.short_us));
        let long_rounds = pace.rounds(Duration::from_micros(self.long_us));
        let short = JobChain { steps: self.short_steps, rounds: short_rounds, is_short: true };
        let long = JobChain { steps: self.long_steps, rounds: long_rounds, is_short: false };
        let mut chains = vec![short; self.short_chains as usize];
        for number in 0..self.long_chains as usize {
            chains.insert(number * chains.len() / self.long_chains as usize, long);
        }
        chains
    }

    /// Steps of all chains.
    pub fn events(&self) -> u64 {
        let of = |chains: u32, steps: u32| u64::from(chains) * u64::from(steps);
        of(self.short_chains, self.short_steps) + of(self.long_chains, self.long_steps)
    }
}

/// A chain in progress: the same on every runtime.
#[derive(Debug)]
pub struct ChainProgress {
    chain: JobChain,
    done: u32,
    state: u64,
    delays: Histogram<u64>,
}

impl ChainProgress {
    /// Chain `number`, before its first step.
    pub fn new(number: usize, chain: JobChain) -> Self {
        let delays = Histogram::new(2).expect("a histogram of two digits");
        Self { chain, done: 0, state: number as u64, delays }
    }

    /// Runs a step that was posted at `since`; returns whether there are more.
    pub fn step(&mut self, since: Instant) -> bool {
        if self.chain.is_short {
            let delay_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.delays.record(delay_ns).expect("the histogram grows");
        }
        self.state = mix(self.chain.rounds, self.state);
        self.done += 1;
        self.done < self.chain.steps
    }

    /// The result of the steps.
    pub fn result(&self) -> u64 {
        self.state
    }

    /// The delays of the steps in nanoseconds; empty for a long chain.
    pub fn delays(&self) -> &Histogram<u64> {
        &self.delays
    }
}

/// A step of a chain.
#[derive(Debug)]
struct ChainStep {
    chain: usize,
    posted: Instant,
}

/// What the handlers share.
struct SharedJobs {
    colors: Arc<[Color]>,
    progress: Arc<[Colored<ChainProgress>]>,
    tally: OutcomeTally,
    /// Set before the first step.
    steps: OnceLock<JobHandlers>,
}

/// Short and long steps are different handlers, because their costs differ so much.
struct JobHandlers {
    short: Handler<ChainStep>,
    long: Handler<ChainStep>,
}

impl SharedJobs {
    fn step(&self, ChainStep { chain, posted }: ChainStep) {
        let (more, result, is_short) = self.progress[chain]
            .with(|progress| (progress.step(posted), progress.result(), progress.chain.is_short));
        if more { self.go_on(chain, is_short) } else { self.tally.add(result) }
    }

    fn go_on(&self, chain: usize, is_short: bool) {
        let steps = self.steps.get().expect("set before the first step");
        let step = if is_short { steps.short } else { steps.long };
        let posted = Instant::now();
        step.post(&self.colors[chain], ChainStep { chain, posted }).expect("one step for each chain");
    }
}

/// Runs the program; also returns the delays of the short steps in nanoseconds.
///
/// # Panics
/// When chains have no steps.
pub fn run(handle: &Handle, size: MixedJobsSize, pace: MixingPace) -> (ProgramOutcome, Histogram<u64>) {
    assert!(size.short_steps > 0 && size.long_steps > 0, "a chain has a step");
    let chains = size.chains(pace);
    let colors: Arc<[Color]> = chains.iter().map(|_| handle.color()).collect();
    let progress = colors.iter().zip(chains.iter().copied().enumerate());
    let progress: Arc<[_]> = progress
        .map(|(color, (number, chain))| Colored::new(color.id(), ChainProgress::new(number, chain)))
        .collect();
    let tally = OutcomeTally::new(colors.len() as u64);
    let jobs = Arc::new(SharedJobs { colors, progress, tally, steps: OnceLock::new() });
    let step = |name, us| {
        let inside = jobs.clone();
        let spec = Spec::new(name).cost(Duration::from_micros(us));
        handle.handler(spec, move |step| inside.step(step))
    };
    let steps = JobHandlers { short: step("short", size.short_us), long: step("long", size.long_us) };
    assert!(jobs.steps.set(steps).is_ok(), "set once");
    for (chain, &JobChain { is_short, .. }) in chains.iter().enumerate() {
        jobs.go_on(chain, is_short);
    }
    let outcome = jobs.tally.wait(size.events());
    (outcome, delays(handle, &jobs.colors, &jobs.progress))
}

/// The delays of all chains, each read on the chain's color.
fn delays(handle: &Handle, colors: &[Color], progress: &Arc<[Colored<ChainProgress>]>) -> Histogram<u64> {
    let mut all = Histogram::new(2).expect("a histogram of two digits");
    for (chain, color) in colors.iter().enumerate() {
        let progress = progress.clone();
        let delays =
            handle.spawn_on(color, async move { progress[chain].with(|chain| chain.delays().clone()) });
        all.add(delays.wait().expect("nothing panics there")).expect("histograms grow");
    }
    all
}

/// The checksum of a run, computed by the calling thread alone.
pub fn checksum(size: MixedJobsSize, pace: MixingPace) -> u64 {
    let chains = size.chains(pace).into_iter().enumerate();
    let one = |(number, chain): (usize, JobChain)| mix(chain.rounds * u64::from(chain.steps), number as u64);
    chains.map(one).fold(0, u64::wrapping_add)
}
