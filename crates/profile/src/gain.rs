//! The potential performance gain of each function: the gain of a server whose function costs as
//! much for each unit of work as in the base configuration.
//!
//! With `T` the cost of a unit of work, `p` a function's share of the cost, and `ρ = T_base / T`,
//! the gain is `p − ρ·p_base`. The gains of all functions add up to `1 − ρ`, the whole loss in
//! cost, so the report states the rest that the listed functions leave. Efficiency is the product
//! of two factors: how busy the cpus are, and `ρ`. The gain sees only the second. Sources: Gaud,
//! Lachaize, Lepers, Muller and Quéma on Apache (the gain); docs/profile.md has the derivation.
//! Tested below with the numbers of that document.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::format::{MissingCounter, Origin};
use crate::perf::Trigger;
use crate::profile::{Function, FunctionId};
use crate::report::{CounterRatio, FlameNode, IPC, NOT_COUNTED, PATH, program, ratios};
use crate::statistics::{Estimate, significant};
use crate::{ProfileError, ReadOptions, StackProfile};

/// The share of the significant functions that may be so by chance.
const FALSE_MAX: f64 = 0.05;
/// A gain below this is not listed: no cure of it could be told from noise.
const GAIN_MIN: f64 = 0.005;

/// One run of a configuration: the cost by function and the work.
#[derive(Clone, Debug)]
pub struct CostedRun {
    /// Own cost of each function, in nanoseconds or cycles.
    pub cost: BTreeMap<Function, f64>,
    /// The same by function and owner: the nearest caller in the program itself.
    pub owned: BTreeMap<(Function, Function), f64>,
    /// Samples in all.
    pub samples: u64,
    /// Work done: requests, bytes.
    pub work: f64,
    /// Seconds.
    pub seconds: f64,
    /// Cpus of the configuration.
    pub cpus: f64,
    /// Seconds of cpu time, if the cost is time.
    pub busy_s: Option<f64>,
    /// The module of the program.
    pub program: String,
    /// Ratios of counters, and those that the recording does not permit.
    pub ratios: (Vec<CounterRatio>, Vec<MissingCounter>),
    /// The cost by stack, without stacks that no picture shows.
    pub(crate) stacks: FlameNode<Arc<Function>>,
}

impl CostedRun {
    /// A run from its recording.
    pub fn of(profile: &StackProfile, work: f64, cpus: u32) -> Self {
        let costs = profile.costs().into_iter().filter(|cost| cost.own > 0);
        let weight = profile.weight() as f64;
        let program = program(profile);
        let mut owned = BTreeMap::new();
        let mut stacks = FlameNode::default();
        for sample in &profile.samples {
            let stack = profile.stack(sample);
            stacks.add(stack.iter().rev().copied(), sample.weight as f64);
            let callers = stack.iter().skip(1).map(|id| profile.function(*id));
            let owner = callers.into_iter().find(|function| function.module == program);
            if let (Some(function), Some(owner)) = (stack.first(), owner) {
                let key = (profile.function(*function).clone(), owner.clone());
                *owned.entry(key).or_insert(0.0) += sample.weight as f64;
            }
        }
        let functions: Vec<Arc<Function>> = profile.functions.iter().cloned().map(Arc::new).collect();
        Self {
            program,
            stacks: stacks.named(&|id: &FunctionId| Arc::clone(&functions[id.0 as usize])),
            ratios: ratios(profile, Some(work)),
            owned,
            cost: costs.map(|cost| (profile.function(cost.function).clone(), cost.own as f64)).collect(),
            samples: profile.samples.len() as u64,
            work,
            seconds: profile.duration_ns as f64 / 1e9,
            cpus: f64::from(cpus),
            busy_s: (profile.origin.trigger == Trigger::CpuClock).then_some(weight / 1e9),
        }
    }

    fn total(&self) -> f64 {
        self.cost.values().sum()
    }

    fn cost_of_work(&self) -> f64 {
        self.total() / self.work
    }

    fn share(&self, function: &Function) -> f64 {
        self.cost.get(function).copied().unwrap_or(0.0) / self.total()
    }
}

/// A function in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The function's name.
    pub function: String,
    /// The file name of its module.
    pub module: String,
    /// Cost for a unit of work in the base.
    pub cost_base: f64,
    /// Cost for a unit of work now.
    pub cost: f64,
    /// The potential gain.
    pub gain: Estimate,
    /// Whether the gain is told from noise, all functions considered, and is worth a cure.
    pub listed: bool,
    /// The function of the program that most of the excess belongs to, and its share of the excess.
    pub owner: Option<(String, f64)>,
}

/// A ratio of counters in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioChange {
    /// The mean over the runs of the base. Values of nodes are from the first pair.
    pub base: CounterRatio,
    /// The same now.
    pub now: CounterRatio,
    /// Pairs of runs whose recordings have the ratio.
    pub pairs: usize,
}

/// A configuration against its base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostComparison {
    /// Pairs of runs.
    pub repetitions: usize,
    /// Whether the intervals know only the error of sampling, because there is one repetition.
    pub sampling_error_only: bool,
    /// Work per second and cpu now, against the base.
    pub efficiency: f64,
    /// How busy the cpus are now, against the base; `None` if samples are cycles.
    pub idle_factor: Option<f64>,
    /// ρ: the cost of a unit of work in the base, against now.
    pub cost_factor: f64,
    /// The loss in cost: `1 − ρ`, which all gains add up to.
    pub loss: Estimate,
    /// All functions, greatest gain first.
    pub gains: Vec<Gain>,
    /// The part of the loss in functions that are not listed.
    pub rest: f64,
    /// Ratios of counters that at least one pair of runs has.
    pub ratios: Vec<RatioChange>,
    /// The other ratios.
    pub unmeasured: Vec<MissingCounter>,
    /// The programs of the base and of the other side, if they differ.
    pub programs: Option<(String, String)>,
    /// The cost of a unit of work by stack, in percent of the whole cost now, on both sides.
    #[serde(skip)]
    pub(crate) stacks: FlameNode<Arc<Function>>,
}

impl CostComparison {
    /// The cost factor in cycles as the product of two: instructions of a unit of work in the base
    /// against now, and instructions per cycle now against the base.
    pub fn cycle_factors(&self) -> Option<(f64, f64)> {
        let change = |name: &str| self.ratios.iter().find(|change| change.now.name == name);
        let (path, ipc) = (change(PATH)?, change(IPC)?);
        Some((path.base.value / path.now.value, ipc.now.value / ipc.base.value))
    }
}

/// The unit of the samples of a recording.
#[derive(Debug, PartialEq, Eq)]
struct SampleUnit {
    trigger: Trigger,
    /// The event, if samples are events and the command line of perf names the event.
    event: Option<String>,
}

impl SampleUnit {
    fn of(origin: &Origin) -> Self {
        let event = if origin.trigger == Trigger::Events { first_event(&origin.command) } else { None };
        Self { trigger: origin.trigger, event }
    }

    /// Whether samples of both stand for the same. An event without a name may be any event.
    fn is_comparable(&self, other: &Self) -> bool {
        let may_be_same = self.event.is_none() || other.event.is_none() || self.event == other.event;
        self.trigger == other.trigger && may_be_same
    }

    fn name(&self) -> String {
        let unit = self.trigger.unit();
        self.event.as_ref().map_or_else(|| unit.to_owned(), |event| format!("{unit} of {event}"))
    }
}

/// The first event that a command line of perf names. An import has the samples of this event.
fn first_event(command: &[String]) -> Option<String> {
    // Behind `--` stand the words of the profiled program.
    let mut words = command.iter().map(String::as_str).take_while(|word| *word != "--");
    let list = words.by_ref().find_map(|word| match word {
        "-e" | "--event" => Some(None),
        word => word.strip_prefix("--event=").or_else(|| word.strip_prefix("-e")).map(Some),
    })?;
    let list = list.or_else(|| words.next())?.trim_start_matches('{');
    // A comma between slashes belongs to the event, as in cpu/event=0x3c,umask=0x1/.
    let mut slashes = 0;
    let end = list.find(|letter| {
        slashes += usize::from(letter == '/');
        matches!(letter, ',' | '}') && slashes % 2 == 0
    });
    Some(list[..end.unwrap_or(list.len())].to_owned())
}

/// Compares recordings, or folders of recordings in pairs of equal names.
///
/// `work` and `cpus`, of the base and of the other side, replace the numbers in the recordings.
///
/// # Errors
/// A recording cannot be read, has no samples or no partner, or nothing says how much work was
/// done. Samples stand for different units.
pub fn compare_recordings(
    base: &Path,
    now: &Path,
    work: Option<(f64, f64)>,
    cpus: Option<(f64, f64)>,
) -> Result<CostComparison, ProfileError> {
    let mut first: Option<(PathBuf, SampleUnit)> = None;
    let mut run = |path: &Path, work: Option<f64>, cpus: Option<f64>| -> Result<CostedRun, ProfileError> {
        let profile = StackProfile::read(path, ReadOptions::default())?;
        // A recording of waits alone can be reported, but has no cost.
        if profile.samples.is_empty() {
            return Err(ProfileError::Empty(path.to_owned()));
        }
        let of = || SampleUnit::of(&profile.origin);
        let (known, unit) = first.get_or_insert_with(|| (path.to_owned(), of()));
        if !unit.is_comparable(&of()) {
            let (path, other) = (known.clone(), path.to_owned());
            return Err(ProfileError::Units { path, unit: unit.name(), other, other_unit: of().name() });
        }
        let said = profile.work.as_ref();
        let work =
            work.or(said.map(|said| said.units)).ok_or_else(|| ProfileError::WorkUnknown(path.to_owned()))?;
        let cpus = cpus.or(said.map(|said| f64::from(said.cpus))).unwrap_or(1.0);
        Ok(CostedRun { cpus, ..CostedRun::of(&profile, work, 1) })
    };
    let (base_work, now_work) = work.unzip();
    let (base_cpus, now_cpus) = cpus.unzip();
    let (mut bases, mut nows) = (Vec::new(), Vec::new());
    for (base, now) in pairs(base, now)? {
        bases.push(run(&base, base_work, base_cpus)?);
        nows.push(run(&now, now_work, now_cpus)?);
    }
    Ok(compare(&bases, &nows))
}

/// The recordings of both sides in pairs. Recordings of two folders have partners of the same name.
/// Without two folders each side is one recording.
fn pairs(base: &Path, now: &Path) -> Result<Vec<(PathBuf, PathBuf)>, ProfileError> {
    let (bases, nows) = (recordings(base)?, recordings(now)?);
    let are_folders = base.is_dir() && now.is_dir();
    let has_partner = |path: &PathBuf, others: &[PathBuf]| {
        if are_folders {
            others.iter().any(|other| other.file_name() == path.file_name())
        } else {
            others.len() == 1
        }
    };
    let unpaired = |paths: &[PathBuf], others: &[PathBuf], other: &Path| {
        let path = paths.iter().find(|path| !has_partner(path, others))?.clone();
        Some(ProfileError::Unpaired { path, other: other.to_owned() })
    };
    match unpaired(&bases, &nows, now).or_else(|| unpaired(&nows, &bases, base)) {
        Some(error) => Err(error),
        None => Ok(bases.into_iter().zip(nows).collect()),
    }
}

/// A recording itself, or those of a folder, in the order of their names.
fn recordings(path: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failure = |source| ProfileError::File { path: path.to_owned(), action: "read", source };
    let entries = fs::read_dir(path).map_err(failure)?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "prof")).collect();
    found.sort();
    if found.is_empty() { Err(ProfileError::NoRecordings(path.to_owned())) } else { Ok(found) }
}

/// Compares runs of a configuration with runs of its base, in pairs of one block each.
///
/// # Panics
/// There is no pair, a run has no partner, or a run has neither work nor cost.
pub fn compare(base: &[CostedRun], now: &[CostedRun]) -> CostComparison {
    assert_eq!(base.len(), now.len(), "each run has a partner");
    let pairs: Vec<(&CostedRun, &CostedRun)> = base.iter().zip(now).collect();
    assert!(!pairs.is_empty(), "no pair of runs");
    let mean = |of: &dyn Fn(&CostedRun, &CostedRun) -> f64| {
        pairs.iter().map(|(base, now)| of(base, now)).sum::<f64>() / pairs.len() as f64
    };
    let rho = |base: &CostedRun, now: &CostedRun| base.cost_of_work() / now.cost_of_work();
    let losses: Vec<f64> = pairs.iter().map(|(base, now)| 1.0 - rho(base, now)).collect();
    let sampling_error_only = pairs.len() == 1;
    let functions: std::collections::BTreeSet<&Function> =
        pairs.iter().flat_map(|(base, now)| base.cost.keys().chain(now.cost.keys())).collect();
    let mut gains: Vec<Gain> = functions
        .into_iter()
        .map(|function| {
            let values: Vec<f64> = pairs
                .iter()
                .map(|(base, now)| now.share(function) - rho(base, now) * base.share(function))
                .collect();
            let gain = Estimate::of_repetitions(&values).unwrap_or_else(|| {
                let (base, now) = pairs[0];
                Estimate::of_error(values[0], sampling_error(base, now, function, rho(base, now)))
            });
            let cost = |run: &CostedRun| run.cost.get(function).copied().unwrap_or(0.0) / run.work;
            Gain {
                function: function.name.clone(),
                module: function.module.clone(),
                cost_base: mean(&|base, _| cost(base)),
                cost: mean(&|_, now| cost(now)),
                gain,
                listed: false,
                owner: owner(&pairs, function),
            }
        })
        .collect();
    let chances: Vec<f64> = gains.iter().map(|gain| gain.gain.p).collect();
    for (gain, mark) in gains.iter_mut().zip(significant(&chances, FALSE_MAX)) {
        gain.listed = mark && gain.gain.mean.abs() >= GAIN_MIN;
    }
    gains.sort_by(|a, b| b.gain.mean.total_cmp(&a.gain.mean));
    let listed: f64 = gains.iter().filter(|gain| gain.listed).map(|gain| gain.gain.mean).sum();
    let loss = Estimate::of_repetitions(&losses).unwrap_or_else(|| {
        let (base, now) = pairs[0];
        Estimate::of_error(losses[0], sampling_error_of_loss(base, now, rho(base, now)))
    });
    let busy = |run: &CostedRun| run.busy_s.map(|busy| busy / run.seconds / run.cpus);
    let is_time = pairs.iter().all(|(base, now)| busy(base).is_some() && busy(now).is_some());
    let speed = |run: &CostedRun| run.work / run.seconds / run.cpus;
    let efficiency = mean(&|base, now| speed(now) / speed(base));
    let cost_factor = mean(&rho);
    CostComparison {
        repetitions: pairs.len(),
        sampling_error_only,
        efficiency,
        // Each pair's efficiency is the product of its factors. The mean of the pairs' own idle
        // factors would not give the product of the means.
        idle_factor: is_time.then_some(efficiency / cost_factor),
        cost_factor,
        rest: loss.mean - listed,
        loss,
        gains,
        unmeasured: unmeasured(&pairs),
        programs: pairs
            .iter()
            .find(|(base, now)| base.program != now.program)
            .map(|(base, now)| (base.program.clone(), now.program.clone())),
        ratios: changes(&pairs),
        stacks: stacks(&pairs),
    }
}

/// The mean cost of a unit of work by stack, in percent of the whole mean cost now.
fn stacks(pairs: &[(&CostedRun, &CostedRun)]) -> FlameNode<Arc<Function>> {
    let all: f64 = pairs.iter().map(|(_, now)| now.cost_of_work()).sum();
    let mut both = FlameNode::default();
    for (base, now) in pairs {
        both.merge(&base.stacks, 100.0 / all / base.work, true);
        both.merge(&now.stacks, 100.0 / all / now.work, false);
    }
    both
}

/// The ratios that both sides of a pair have.
fn changes(pairs: &[(&CostedRun, &CostedRun)]) -> Vec<RatioChange> {
    let mut changes: Vec<RatioChange> = Vec::new();
    for (base, now) in pairs {
        for base in &base.ratios.0 {
            let Some(now) = now.ratios.0.iter().find(|now| now.name == base.name) else { continue };
            match changes.iter_mut().find(|change| change.now.name == base.name) {
                Some(known) => {
                    known.base.value += base.value;
                    known.now.value += now.value;
                    known.pairs += 1;
                }
                None => changes.push(RatioChange { base: base.clone(), now: now.clone(), pairs: 1 }),
            }
        }
    }
    for change in &mut changes {
        change.base.value /= change.pairs as f64;
        change.now.value /= change.pairs as f64;
    }
    changes
}

/// The ratios that no pair has, with the reason of a run that tried to count them, if there is one.
fn unmeasured(pairs: &[(&CostedRun, &CostedRun)]) -> Vec<MissingCounter> {
    let measured = changes(pairs);
    let mut missing: Vec<MissingCounter> = Vec::new();
    for ratio in pairs.iter().flat_map(|(base, now)| base.ratios.1.iter().chain(&now.ratios.1)) {
        if measured.iter().any(|change| change.now.name == ratio.name) {
            continue;
        }
        match missing.iter_mut().find(|known| known.name == ratio.name) {
            Some(known) if known.why == NOT_COUNTED => known.why.clone_from(&ratio.why),
            Some(_) => {}
            None => missing.push(ratio.clone()),
        }
    }
    missing
}

/// The owner of most of a function's excess over the base.
fn owner(pairs: &[(&CostedRun, &CostedRun)], function: &Function) -> Option<(String, f64)> {
    let mut excess: BTreeMap<&Function, f64> = BTreeMap::new();
    for (base, now) in pairs {
        for (run, sign) in [(base, -1.0), (now, 1.0)] {
            for ((of, owner), cost) in &run.owned {
                if of == function {
                    *excess.entry(owner).or_default() += sign * cost / run.work;
                }
            }
        }
    }
    let all: f64 = excess.values().filter(|excess| **excess > 0.0).sum();
    let (owner, most) = excess.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most > 0.0).then(|| (owner.name.clone(), most / all))
}

/// The standard error of the loss by the numbers of samples alone. The loss is `1 − ρ`, and a count
/// of samples has its square root as error.
fn sampling_error_of_loss(base: &CostedRun, now: &CostedRun, rho: f64) -> f64 {
    let variance = |run: &CostedRun| 1.0 / run.samples.max(1) as f64;
    rho * (variance(base) + variance(now)).sqrt()
}

/// The standard error of a gain by the numbers of samples alone.
fn sampling_error(base: &CostedRun, now: &CostedRun, function: &Function, rho: f64) -> f64 {
    // A function with few samples or none has an error too: one sample more or less.
    let variance = |run: &CostedRun| {
        let samples = run.samples.max(1) as f64;
        let share = (run.share(function) * samples + 1.0) / (samples + 2.0);
        share * (1.0 - share) / samples
    };
    (variance(now) + rho * rho * variance(base)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FileRecord, Frame, Module, Work, Writer, append_work};

    fn run(cost: &[(&str, f64)], work: f64) -> CostedRun {
        let function =
            |name: &str| Function { name: name.to_owned(), module: "prog".to_owned(), is_named: true };
        CostedRun {
            cost: cost.iter().map(|(name, cost)| (function(name), *cost)).collect(),
            owned: BTreeMap::new(),
            samples: 10_000,
            work,
            seconds: 1.0,
            cpus: 1.0,
            busy_s: Some(1.0),
            program: "prog".to_owned(),
            ratios: Default::default(),
            stacks: Default::default(),
        }
    }

    fn gain_of(comparison: &CostComparison, name: &str) -> f64 {
        comparison.gains.iter().find(|gain| gain.function == name).unwrap().gain.mean
    }

    /// The document's own form: cost for a unit of work in the base and now, and the share now.
    fn potential_gain(base: f64, now: f64, share: f64) -> f64 {
        (now - base) / now * share
    }

    fn is_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, wanted {wanted}");
    }

    /// The two worked examples of the Apache document.
    #[test]
    fn published_examples_agree() {
        is_near(potential_gain(2.0, 10.0, 0.20), 0.16);
        is_near(potential_gain(1.0, 10.0, 0.20), 0.18);
    }

    /// The same examples from runs: a function grows from 2 (1) to 10 cycles of 50 for a unit of
    /// work.
    #[test]
    fn gain_from_shares_equals_gain_from_cycles() {
        for (base_cycles, gain) in [(2.0, 0.16), (1.0, 0.18)] {
            let base = run(&[("f", base_cycles), ("rest", 40.0)], 1.0);
            let now = run(&[("f", 10.0), ("rest", 40.0)], 1.0);
            let comparison = compare(&[base], &[now]);
            is_near(gain_of(&comparison, "f"), gain);
            is_near(gain_of(&comparison, "rest"), 0.0);
        }
    }

    #[test]
    fn gains_add_up_to_whole_loss() {
        let base = run(&[("a", 10.0), ("gone", 5.0), ("b", 30.0)], 2.0);
        let now = run(&[("a", 60.0), ("b", 20.0), ("new", 40.0)], 3.0);
        let comparison = compare(&[base], &[now]);
        let sum: f64 = comparison.gains.iter().map(|gain| gain.gain.mean).sum();
        is_near(sum, comparison.loss.mean);
        is_near(comparison.loss.mean, 1.0 - comparison.cost_factor);
        is_near(comparison.cost_factor, 45.0 / 2.0 / (120.0 / 3.0));
        assert!(gain_of(&comparison, "gone") < 0.0);
    }

    /// Table 7 of the Apache document: after its first two cures the five worst functions add up to
    /// 7.81 %, of a loss of 10.1 % (8,900 against 8,000 clients for each processor).
    #[test]
    fn published_table_adds_up_with_rest() {
        let gains = [2.49, 1.87, 1.41, 1.21, 0.83];
        is_near(gains.iter().sum(), 7.81);
        let loss = 1.0 - 8_000.0 / 8_900.0;
        let total = 100.0;
        let mut now = vec![];
        let mut base = vec![];
        for (index, gain) in gains.iter().enumerate() {
            let name: &str = ["f0", "f1", "f2", "f3", "f4"][index];
            now.push((name, 5.0));
            base.push((name, 5.0 - gain));
        }
        now.push(("others", total - 25.0));
        let base_total = total * (1.0 - loss);
        base.push(("others", base_total - base.iter().map(|(_, cost)| cost).sum::<f64>()));
        let comparison = compare(&[run(&base, 1.0)], &[run(&now, 1.0)]);
        let listed: f64 = (0..5).map(|index| gain_of(&comparison, &format!("f{index}"))).sum();
        is_near(listed, 0.0781);
        is_near(comparison.loss.mean, loss);
        assert!((listed / loss - 0.77).abs() < 0.005, "{}", listed / loss);
    }

    #[test]
    fn efficiency_is_product_of_idle_and_cost() {
        let mut base = run(&[("a", 1.0)], 100.0);
        let mut now = run(&[("a", 1.5)], 120.0);
        (base.busy_s, now.busy_s) = (Some(1.0), Some(1.5));
        now.cpus = 2.0;
        let comparison = compare(&[base], &[now]);
        is_near(comparison.efficiency, comparison.idle_factor.unwrap() * comparison.cost_factor);
        is_near(comparison.efficiency, 0.6);
    }

    /// Regression: with several pairs the factors were means of their own, and the bars of the page
    /// did not add up.
    #[test]
    fn factors_of_several_pairs_have_efficiency_as_product() {
        let base = [run(&[("a", 1.0)], 100.0), run(&[("a", 1.0)], 100.0)];
        let mut now = [run(&[("a", 1.5)], 120.0), run(&[("a", 1.9)], 60.0)];
        now.iter_mut().for_each(|now| now.cpus = 2.0);
        // The cost is the cpu time.
        (now[0].busy_s, now[1].busy_s) = (Some(1.5), Some(1.9));
        let comparison = compare(&base, &now);
        is_near(comparison.efficiency, 0.45);
        is_near(comparison.efficiency, comparison.idle_factor.unwrap() * comparison.cost_factor);
    }

    /// Regression: a comparison of two programs looked like a comparison of versions.
    #[test]
    fn different_programs_are_told() {
        let base = run(&[("a", 1.0)], 1.0);
        let now = CostedRun { program: "other".to_owned(), ..base.clone() };
        let pair = |now: &CostedRun| compare(std::slice::from_ref(&base), std::slice::from_ref(now));
        assert_eq!(pair(&base).programs, None);
        let comparison = pair(&now);
        assert_eq!(comparison.programs, Some(("prog".to_owned(), "other".to_owned())));
        let text = crate::verdict::comparison_text(&comparison);
        assert!(text.starts_with("DIFFERENT PROGRAMS: prog in the base, other now;"), "{text}");
    }

    /// Regression: the interval of a single pair had no width.
    #[test]
    fn loss_of_one_pair_has_error_of_sampling() {
        let base = run(&[("a", 40.0)], 1.0);
        let now = run(&[("a", 50.0)], 1.0);
        let loss = compare(&[base], &[now]).loss;
        is_near(loss.mean, 0.2);
        // 10,000 samples on each side: 1.96 · 0.8 · √(2 / 10,000).
        assert!((loss.high - loss.mean - 0.02218).abs() < 1e-4, "{loss:?}");
        assert!((loss.mean - loss.low - 0.02218).abs() < 1e-4 && loss.p < 1e-9, "{loss:?}");
    }

    /// Writes a recording with samples of this event and a unit of work.
    fn recording(path: &Path, trigger: Trigger, samples: u64) {
        write(path, Origin { trigger, ..crate::format::tests::origin() }, samples);
    }

    fn write(path: &Path, origin: Origin, samples: u64) {
        let mut writer = Writer::create(path, &origin).unwrap();
        let sample =
            |time| FileRecord::Sample { time, cpu: 0, pid: 7, tid: 7, stack: 0, weight: 1, color: 0 };
        let module = Module { path: "/bin/prog".to_owned(), build_id: Vec::new() };
        let stack = FileRecord::Stack(vec![Frame { module: 0, offset: 16 }]);
        let records = [FileRecord::Module(module), stack, FileRecord::WaitsEnd { lost: 0 }].into_iter();
        let end = [FileRecord::End { time: 1_000_000, others: 0 }];
        for record in records.chain((0..samples).map(sample)).chain(end) {
            writer.write(&record).unwrap();
        }
        writer.flush().unwrap();
        append_work(path, &Work { units: 10.0, unit: "work".to_owned(), cpus: 1 }).unwrap();
    }

    fn compared(base: &Path, now: &Path) -> Result<CostComparison, String> {
        compare_recordings(base, now, None, None).map_err(|error| error.to_string())
    }

    /// Regression: nanoseconds were compared with cycles, and a recording without samples gave
    /// numbers that are none.
    #[test]
    fn incomparable_recordings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [time, cycles, waits] = ["time", "cycles", "waits"].map(|name| folder.path().join(name));
        recording(&time, Trigger::CpuClock, 5);
        recording(&cycles, Trigger::Cycles, 5);
        recording(&waits, Trigger::CpuClock, 0);
        assert!(compared(&time, &time).is_ok());
        let why = compared(&time, &cycles).unwrap_err();
        assert!(why.contains("cycles: a sample stands for cycles, and for nanoseconds in"), "{why}");
        for why in [compared(&time, &waits), compared(&waits, &time)].map(Result::unwrap_err) {
            assert!(why.contains("waits: no samples"), "{why}");
        }
    }

    /// Regression: cache misses were compared with branch misses.
    #[test]
    fn different_events_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let import = |name: &str, words: &str| {
            let path = folder.path().join(name);
            let command = words.split(' ').map(str::to_owned).collect();
            let origin = crate::format::tests::origin();
            write(&path, Origin { trigger: Trigger::Events, command, ..origin }, 5);
            path
        };
        let cache = import("cache", "perf record -e cache-misses -- ./a -e x");
        let branch = import("branch", "perf record -F 99 --event=branch-misses ./a");
        let unnamed = import("unnamed", "perf record -- ./a -e x");
        assert!(compared(&cache, &cache).is_ok() && compared(&cache, &unnamed).is_ok());
        let why = compared(&cache, &branch).unwrap_err();
        assert!(why.contains("branch: a sample stands for events of branch-misses, and for"), "{why}");
        assert!(why.contains("events of cache-misses in"), "{why}");
    }

    #[test]
    fn first_event_is_read_from_command_line() {
        let first = |words: &str| first_event(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (words, event) in [
            ("perf record -e a,b ./x -e c", Some("a")),
            ("perf record -ea:u ./x", Some("a:u")),
            ("perf record --event {a,b} ./x", Some("a")),
            ("perf record --event=cpu/event=1,umask=2/,b ./x", Some("cpu/event=1,umask=2/")),
            ("perf record -g -- ./x -e c", None),
            ("perf record -e", None),
        ] {
            assert_eq!(first(words).as_deref(), event, "{words}");
        }
    }

    /// Regression: recordings were paired by their order, and the others were dropped.
    #[test]
    fn folders_are_compared_in_pairs_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let [base, now] = ["base", "now"].map(|name| folder.path().join(name));
        for side in [&base, &now] {
            fs::create_dir(side).unwrap();
            for name in ["1.prof", "3.prof"] {
                recording(&side.join(name), Trigger::CpuClock, 5);
            }
        }
        assert_eq!(compared(&base, &now).unwrap().repetitions, 2);
        recording(&now.join("2.prof"), Trigger::CpuClock, 5);
        for (one, other) in [(&base, &now), (&now, &base)] {
            let why = compared(one, other).unwrap_err();
            assert!(why.contains("2.prof: no recording in") && why.contains("remove the file"), "{why}");
        }
        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        // Regression: the folder was a process without samples.
        let why = compared(&base, &empty).unwrap_err();
        assert!(why.ends_with("empty: no recordings (*.prof) in this folder"), "{why}");
        let why = compared(&base.join("1.prof"), &now).unwrap_err();
        assert!(why.contains("1.prof: no recording in"), "{why}");
    }

    /// The sets of counters rotate, so the first run need not know why a counter is missing.
    #[test]
    fn missing_ratio_has_reason_of_run_that_tried() {
        let missing = |why: &str| MissingCounter { name: IPC.to_owned(), why: why.to_owned() };
        let of = |why: &str| {
            let mut run = run(&[("a", 1.0)], 1.0);
            run.ratios.1 = vec![missing(why)];
            run
        };
        let runs = [of(NOT_COUNTED), of("no such event on this machine")];
        assert_eq!(compare(&runs, &runs).unmeasured, [missing("no such event on this machine")]);
    }

    #[test]
    fn repetitions_without_change_list_nothing() {
        // Noise of a few percent that differs by run and function, without a change.
        let runs = |seed: u64| {
            (0..8).map(move |run_index: u64| {
                let noise = |function: u64| {
                    let mut x = seed * 7_919 + run_index * 104_729 + function * 1_299_709 + 1;
                    for _ in 0..8 {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                    }
                    1.0 + (x % 1_000) as f64 / 10_000.0
                };
                let names: Vec<String> = (0..40).map(|function| format!("f{function}")).collect();
                let cost: Vec<(&str, f64)> = names
                    .iter()
                    .enumerate()
                    .map(|(function, name)| (name.as_str(), 10.0 * noise(function as u64)))
                    .collect();
                run(&cost, 100.0)
            })
        };
        let quiet = (0..10)
            .filter(|seed| {
                let (base, now): (Vec<_>, Vec<_>) =
                    (runs(2 * seed + 1).collect(), runs(2 * seed + 2).collect());
                compare(&base, &now).gains.iter().all(|gain| !gain.listed)
            })
            .count();
        assert!(quiet >= 9, "{quiet} of 10 comparisons without a change listed nothing");
    }

    #[test]
    fn repeated_change_is_listed_first() {
        let noise = [1.0, 1.02, 0.97, 1.01, 0.99];
        let base: Vec<_> =
            noise.iter().map(|n| run(&[("slow", 10.0 * n), ("a", 50.0 / n), ("b", 40.0)], 1.0)).collect();
        let now: Vec<_> =
            noise.iter().map(|n| run(&[("slow", 20.0 / n), ("a", 50.0 * n), ("b", 40.0)], 1.0)).collect();
        let comparison = compare(&base, &now);
        assert_eq!(comparison.gains[0].function, "slow");
        assert!(
            comparison.gains[0].listed && comparison.gains[0].gain.low > 0.0,
            "{:?}",
            comparison.gains[0]
        );
    }
}
