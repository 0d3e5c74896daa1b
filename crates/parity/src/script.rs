//! The programs that run both ways: in their form of `vermeil_programs`, and event by event for the
//! simulator.
//!
//! Contains the second form. The time of an event is the time of the event's work on this machine,
//! measured just before. The costs of posting, queueing, stealing and waking come from the
//! description. Leaves out the memory accesses of the programs, because there are few.

use std::time::{Duration, Instant};

use vermeil::Handle;
use vermeil_programs::kernel::{MixingPace, square_roots, zipf::Zipf};
use vermeil_programs::{ProgramOutcome, keyed_stream, mixed_jobs, sqrt_pipeline};
use vermeil_sched::recording::{RecordedEvent, Recording, RecordingHeader, VERSION};
use vermeil_sim::{CompiledProgram, SimError, SimMachine};

use crate::finding::Better;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSize {
    /// About half a second of each program, for numbers.
    Full,
    /// A moment of each program, as a smoke test.
    Smoke,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Sixteen handlers in a row, each taking 10,000 square roots.
    Roots,
    /// Short steps beside long jobs.
    Mixed,
    /// Records under keys of which a few are very common.
    Keyed,
}

/// Times of the programs' work on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    /// The speed of mixing.
    pub(crate) pace: MixingPace,
    /// Time of a handler of the row of square roots.
    pub(crate) roots_ns: u64,
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptReading {
    /// Events per second.
    pub(crate) rate: f64,
    /// The 99th percentile of the wait, if measured.
    pub(crate) wait_us: Option<f64>,
}

/// Square roots of one handler.
const ROOTS: u32 = 10_000;
/// Time of a producer per record beside posting, for reading a key. Guess.
const DRAW_NS: u64 = 5;

impl Pieces {
    /// Measures for some ten milliseconds; the fastest of several tries.
    pub(crate) fn measure() -> Self {
        let one = |number: u32| {
            let start = Instant::now();
            std::hint::black_box(square_roots(ROOTS, std::hint::black_box(f64::from(number))));
            start.elapsed()
        };
        let fastest = (0..32).map(one).min().unwrap_or_default();
        Self { pace: MixingPace::measure(), roots_ns: nanoseconds(fastest) }
    }
}

impl Script {
    /// All programs.
    pub const ALL: [Self; 3] = [Self::Roots, Self::Mixed, Self::Keyed];

    /// The name in the examples.
    pub fn name(self) -> &'static str {
        match self {
            Self::Roots => "sqrt_pipeline",
            Self::Mixed => "mixed_jobs",
            Self::Keyed => "keyed_stream",
        }
    }

    /// The measures of the program.
    pub(crate) fn measures(self) -> &'static [(&'static str, Better)] {
        match self {
            Self::Mixed => &[
                ("events a second", Better::More),
                ("us that 99 of 100 short steps wait at most", Better::Less),
            ],
            Self::Roots | Self::Keyed => &[("events a second", Better::More)],
        }
    }

    /// Runs the program on the runtime.
    pub(crate) fn real(self, handle: &Handle, size: RunSize, pieces: Pieces) -> ScriptReading {
        let rate = |outcome: ProgramOutcome| ScriptReading { rate: outcome.throughput(), wait_us: None };
        match self {
            Self::Roots => rate(sqrt_pipeline::run(handle, roots(size))),
            Self::Keyed => rate(keyed_stream::run(handle, keyed(size), pieces.pace)),
            Self::Mixed => {
                let (outcome, delays) = mixed_jobs::run(handle, mixed(size), pieces.pace);
                let wait_us = Some(delays.value_at_quantile(0.99) as f64 / 1e3);
                ScriptReading { rate: outcome.throughput(), wait_us }
            }
        }
    }

    /// Events that the rate counts.
    pub(crate) fn counted(self, size: RunSize) -> u64 {
        match self {
            Self::Roots => u64::from(roots(size).events) * roots(size).stages as u64,
            Self::Mixed => mixed(size).events(),
            Self::Keyed => u64::from(keyed(size).producers) * u64::from(keyed(size).records),
        }
    }

    /// The program for the simulator.
    pub(crate) fn simulated(
        self,
        machine: &SimMachine,
        size: RunSize,
        pieces: Pieces,
    ) -> Result<CompiledProgram, SimError> {
        match self {
            Self::Roots => CompiledProgram::from_toml(&roots_text(machine, size, pieces)),
            Self::Mixed => CompiledProgram::from_recording(self.name(), &chains(mixed(size), pieces.pace), 0),
            Self::Keyed => CompiledProgram::from_recording(self.name(), &stream(keyed(size)), 0),
        }
    }
}

fn roots(size: RunSize) -> sqrt_pipeline::SqrtPipelineSize {
    let events = if size == RunSize::Full { 1_000 } else { 20 };
    sqrt_pipeline::SqrtPipelineSize { stages: 16, roots: ROOTS, events }
}

fn mixed(size: RunSize) -> mixed_jobs::MixedJobsSize {
    let (short_steps, long_steps) = if size == RunSize::Full { (5_000, 16) } else { (50, 1) };
    mixed_jobs::MixedJobsSize {
        short_chains: 64,
        short_steps,
        short_us: 2,
        long_chains: 2,
        long_steps,
        long_us: 20_000,
    }
}

fn keyed(size: RunSize) -> keyed_stream::KeyedStreamSize {
    let (keys, records) = if size == RunSize::Full { (10_000, 100_000) } else { (100, 1_000) };
    keyed_stream::KeyedStreamSize { keys, skew: 1.0, producers: 4, records, record_ns: 500 }
}

/// The row of handlers, each with a separate color, so that the simulator places the handlers as
/// the runtime does.
fn roots_text(machine: &SimMachine, size: RunSize, pieces: Pieces) -> String {
    let cycles = machine.cycles(pieces.roots_ns);
    let sqrt_pipeline::SqrtPipelineSize { stages, events, .. } = roots(size);
    format!(
        "name = \"sqrt_pipeline\"\nabout = \"handlers in a row\"\n[[handler]]\nname = \"roots\"\nrepeat = {stages}\ncycles = {cycles}\ncolor = \"handler\"\n\
         [[source]]\nload = {{ start = {{ count = {events} }} }}\nentry = \"roots\"\n"
    )
}

/// Each chain is a color; each step posts the next step.
fn chains(size: mixed_jobs::MixedJobsSize, pace: MixingPace) -> Recording {
    let mut events = Vec::new();
    for (color, chain) in (0..).zip(size.chains(pace)) {
        let (handler, us) = if chain.is_short { ("short", size.short_us) } else { ("long", size.long_us) };
        let mut by = None;
        for _ in 0..chain.steps {
            by = Some(event(&mut events, handler, color, us * 1_000, by));
        }
    }
    recording(events)
}

/// Producers post batches of records and then themselves; at the end every producer reports its end
/// to every key.
fn stream(size: keyed_stream::KeyedStreamSize) -> Recording {
    let zipf = Zipf::new(size.keys, size.skew);
    let mut events = Vec::new();
    for producer in 0..size.producers {
        let keys: Vec<u32> = size.keys_of(&zipf, producer).into_iter().chain(0..size.keys).collect();
        let color = u64::from(size.keys + producer);
        let mut by = None;
        for (batch, keys) in keys.chunks(keyed_stream::BATCH).enumerate() {
            let produce_ns = DRAW_NS * keys.len() as u64;
            let produce = event(&mut events, "produce", color, produce_ns, by);
            by = Some(produce);
            for (at, &key) in keys.iter().enumerate() {
                let is_record = batch * keyed_stream::BATCH + at < size.records as usize;
                let run_ns = if is_record { size.record_ns } else { DRAW_NS };
                event(&mut events, "update", key.into(), run_ns, Some(produce));
            }
        }
    }
    recording(events)
}

/// Adds an event; returns the position.
fn event(events: &mut Vec<RecordedEvent>, handler: &str, color: u64, run_ns: u64, by: Option<u32>) -> u32 {
    let handler = handler.to_owned();
    events.push(RecordedEvent {
        handler,
        color,
        core: 0,
        posted_ns: 0,
        start_ns: 0,
        run_ns,
        by,
        moved_from: None,
    });
    events.len() as u32 - 1
}

fn recording(events: Vec<RecordedEvent>) -> Recording {
    let header = RecordingHeader { recording: VERSION, policy: "none".to_owned(), cpus: vec![0], lost: 0 };
    Recording { header, events }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}
