//! The rounds: a process for each run, with a deadline, and the check that all variants computed
//! the same.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vermeil::Observe;
use vermeil_programs::kernel::MixingPace;

use crate::measure::{CpuTime, MachineTime};
use crate::runtime::RuntimeBenchOptions;
use crate::runtime::child::{ChildCpus, ChildRun, ChildSample, RunWatch};
use crate::runtime::duel;
use crate::runtime::plan::{BenchProgram, RuntimeVariant};
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// A run that has not ended by then hangs: a hundred times the time of the longest run on an idle
/// machine.
const PATIENCE: Duration = Duration::from_secs(100);
/// The interval between checks for a run's end: short compared with a run, long compared with the
/// processor time of a check.
const LOOK: Duration = Duration::from_millis(5);

/// Bytes that are written and freed before each run: twice the largest observed memory of the
/// programs.
const WARMED: usize = 128 << 20;

/// The programs whose settling is observed, with the policies that have to settle.
const SETTLING: ([BenchProgram; 3], [&str; 4]) = (
    [BenchProgram::SqrtPipeline, BenchProgram::ImagePipeline, BenchProgram::KeyedStream],
    ["adaptive", "mely", "trial", "placed:cache-aware"],
);

/// The policies under which the cost of observation is measured: the default, and the policy
/// without measurements.
const OBSERVED: [&str; 2] = ["adaptive", "none"];

/// Repetitions of the observation measurement in a round, each with a pair in either order, because
/// single pairs differ by several times the expected difference.
const OBSERVED_TWICE: usize = 2;

/// The rounds of every program on every variant.
#[derive(Clone, Debug)]
pub struct RuntimeCells {
    /// Complete runs.
    pub ended: BTreeMap<(BenchProgram, RuntimeVariant), Vec<ChildSample>>,
    /// Runs in which settling was watched.
    pub settling: BTreeMap<(BenchProgram, RuntimeVariant), Vec<ChildSample>>,
    /// Pairs of runs on one cpu, without and with observation.
    pub observed: BTreeMap<(BenchProgram, RuntimeVariant), Vec<[ChildSample; 2]>>,
    /// Pairs of runs, of the default and of this variant.
    pub duels: BTreeMap<(BenchProgram, RuntimeVariant), Vec<[ChildSample; 2]>>,
    /// The pace of the work.
    pub pace: MixingPace,
    /// The share of the machine, from 0 to 1, that other programs took meanwhile.
    pub others_share: f64,
}

/// Runs everything, round after round.
///
/// # Errors
/// See [`crate::runtime::run()`].
pub fn rounds(options: &RuntimeBenchOptions, stop: &StopFlag) -> BenchResult<RuntimeCells> {
    let pace = match options.size {
        BenchSize::Full => MixingPace::measure(),
        // Work of next to no length.
        BenchSize::Smoke => MixingPace { rounds_per_us: 1.0 },
    };
    let mut cells = RuntimeCells {
        ended: BTreeMap::new(),
        settling: BTreeMap::new(),
        observed: BTreeMap::new(),
        duels: BTreeMap::new(),
        pace,
        others_share: 0.0,
    };
    let (machine, own) = (MachineTime::now()?, CpuTime::of_self()?);
    for round in 0..options.rounds {
        for &program in &options.programs {
            let mut order: Vec<RuntimeVariant> =
                options.variants.iter().copied().filter(|&variant| program.runs_on(variant)).collect();
            let turn = round % order.len().max(1);
            order.rotate_left(turn);
            for variant in order {
                let one = |watch, observe, cpus| {
                    let run = ChildRun { program, variant, size: options.size, pace, watch, observe, cpus };
                    sample(options, run, stop)
                };
                let ended = one(RunWatch::End, Observe::default(), ChildCpus::All)?;
                tell(options, round, program, variant, &ended);
                cells.ended.entry((program, variant)).or_default().push(ended);
                if SETTLING.0.contains(&program) && SETTLING.1.contains(&variant.name()) {
                    let settling = one(RunWatch::Settling, Observe::default(), ChildCpus::All)?;
                    cells.settling.entry((program, variant)).or_default().push(settling);
                }
                if program.is_compared() && OBSERVED.contains(&variant.name()) {
                    // In this order a drift of the machine affects both alike.
                    let of = |observe| one(RunWatch::End, observe, ChildCpus::One);
                    for _ in 0..OBSERVED_TWICE {
                        let first = [of(Observe::Off)?, of(Observe::Sampled)?];
                        let [on, off] = [of(Observe::Sampled)?, of(Observe::Off)?];
                        cells.observed.entry((program, variant)).or_default().extend([first, [off, on]]);
                    }
                }
            }
        }
    }
    duel::meet(&mut cells, options.rounds, |program, variant| {
        let (size, watch, observe) = (options.size, RunWatch::End, Observe::default());
        sample(options, ChildRun { program, variant, size, pace, watch, observe, cpus: ChildCpus::All }, stop)
    })?;
    let own = CpuTime::of_self()? - own;
    cells.others_share = MachineTime::now()?.others_since(&machine, own.run);
    same_results(&cells.ended)?;
    Ok(cells)
}

fn tell(
    options: &RuntimeBenchOptions,
    round: usize,
    program: BenchProgram,
    variant: RuntimeVariant,
    sample: &ChildSample,
) {
    eprintln!(
        "round {}/{}  {:<17}  {:<22}  {:>9.1} ms  {:>12.0} events/s",
        round + 1,
        options.rounds,
        program.name(),
        variant.name(),
        sample.elapsed_ns as f64 / 1e6,
        sample.events as f64 / (sample.elapsed_ns.max(1) as f64 / 1e9)
    );
}

/// One run.
fn sample(options: &RuntimeBenchOptions, run: ChildRun, stop: &StopFlag) -> BenchResult<ChildSample> {
    let ChildRun { program, variant, size, pace, watch, observe, cpus } = run;
    let mut command = Command::new(&options.runs);
    command.args([program.name(), variant.name()]);
    command.arg("--size").arg(value_name(size)).arg("--watch").arg(value_name(watch));
    command.arg("--observe").arg(observe.to_string()).arg("--cpus").arg(value_name(cpus));
    command.arg("--rounds-per-us").arg(pace.rounds_per_us.to_string());
    let name = format!("{} on {}", program.name(), variant.name());
    if size == BenchSize::Full {
        warm_memory();
    }
    let said = output(&mut command, &name, stop)?;
    let sample: ChildSample = serde_json::from_str(&said).map_err(|error| BenchError::form(&name, error))?;
    if sample.panics > 0 {
        return Err(BenchError::peer(name, format!("{} events panicked", sample.panics)));
    }
    Ok(sample)
}

/// Makes the machine's host back the run's future memory. Hosts take back free memory of their
/// guests, and then a page costs several times as much; chance would decide which run pays that.
fn warm_memory() {
    drop(std::hint::black_box(vec![1u8; WARMED]));
}

fn value_name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The output of a run; kills a run that takes too long, or when the bench is stopped.
fn output(command: &mut Command, name: &str, stop: &StopFlag) -> BenchResult<String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(BenchError::thing("start", name))?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(BenchError::thing("wait for", name))? {
            Some(status) => break status,
            None if Instant::now() < deadline && stop.pass(LOOK).is_ok() => {}
            None => {
                child.kill().and_then(|()| child.wait()).map_err(BenchError::thing("end", name))?;
                stop.check()?;
                return Err(BenchError::peer(name, format!("did not end within {PATIENCE:?}")));
            }
        }
    };
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("it is piped");
    stdout.read_to_string(&mut said).map_err(BenchError::thing("read from", name))?;
    if status.success() { Ok(said) } else { Err(BenchError::peer(name, format!("ended with {status}"))) }
}

/// Checks that every variant of a program computed the same result.
fn same_results(cells: &BTreeMap<(BenchProgram, RuntimeVariant), Vec<ChildSample>>) -> BenchResult<()> {
    let mut first = BTreeMap::new();
    for (&(program, variant), samples) in cells {
        for sample in samples {
            let expected = *first.entry(program).or_insert((variant, sample.checksum, sample.events));
            if (sample.checksum, sample.events) != (expected.1, expected.2) {
                let problem = format!(
                    "computed {:x} in {} events where {} computed {:x} in {}",
                    sample.checksum,
                    sample.events,
                    expected.0.name(),
                    expected.1,
                    expected.2
                );
                return Err(BenchError::peer(format!("{} on {}", program.name(), variant.name()), problem));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_result_is_noticed() {
        let sample = |checksum| vec![ChildSample { checksum, events: 1, ..ChildSample::default() }];
        let cell = |variant, checksum| ((BenchProgram::Spawn, variant), sample(checksum));
        assert!(
            same_results(&[cell(RuntimeVariant::Tokio, 1), cell(RuntimeVariant::Smol, 1)].into()).is_ok()
        );
        let error = same_results(&[cell(RuntimeVariant::Tokio, 1), cell(RuntimeVariant::Smol, 2)].into())
            .unwrap_err();
        assert!(error.to_string().contains("spawn on smol: computed 2"), "{error}");
    }
}
