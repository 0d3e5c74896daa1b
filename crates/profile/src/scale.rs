//! Runs a program on several numbers of cpus or memory nodes, in blocks of random order, and
//! compares the runs.
//!
//! A block is one run on each number of cpus, so a slow drift of the machine meets all alike. The
//! program is either a batch that prints its work and ends, or a server under a load program, whose
//! result says how much work was done each second. Each run passes gates before it counts as good
//! evidence; a run that fails one is marked and kept. A signal or an error ends the plan: the block
//! in progress is dropped with its recordings. After a signal the blocks before are compared.
//! Leaves out arithmetic (`gain`, `usl`) and processes (`running_program`). Tested below, in
//! `tests/planted.rs` and in `tests/stopped.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde::Serialize;
use vermeil_io::output::{NameInFolder, make_folders};
use vermeil_topology::{Machine, Node};

use crate::format::{Work, append_work};
use crate::gain::{CostComparison, CostedRun, compare};
use crate::ledger::HardwareSet;
use crate::recorder::{RecordOptions, Stacks, Subject, record};
use crate::report::rates;
use crate::running_program::{LOOK, RunningProgram};
use crate::steady::{SteadyState, bytes_sent};
use crate::usl::Law;
use crate::{ProfileError, ReadOptions, StackProfile, machine};

/// The least share of its cpus that the program must use. Below, something else sets the pace.
const BUSY_MIN: f64 = 0.9;
/// The least share of the planned time that a recording under load must last.
const LASTED_MIN: f64 = 0.9;
/// The greatest share of the time that the hypervisor may take.
const STOLEN_MAX: f64 = 0.02;
/// The time of a rate of the work.
const SECOND: Duration = Duration::from_secs(1);

/// The parts of the machine whose number differs between the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaledPart {
    /// Cpus.
    Cpus,
    /// Memory nodes with all their cpus, so that the base has a whole node's caches and memory.
    Nodes,
}

impl ScaledPart {
    /// The name in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Nodes => "nodes",
        }
    }

    /// A number of these parts in words.
    pub(crate) fn counted(self, count: u32) -> String {
        let name = self.name();
        if count == 1 { format!("1 {}", name.trim_end_matches('s')) } else { format!("{count} {name}") }
    }

    /// The cpus of the first `count` parts of a machine.
    fn cpus(self, count: u32, machine: Option<&Machine>, online: &[u32]) -> Result<Vec<u32>, ProfileError> {
        let wanted = count as usize;
        if self == Self::Cpus {
            let cpus = online.get(..wanted);
            return Ok(cpus.ok_or(ProfileError::Cpus { wanted: count, found: online.len() })?.to_vec());
        }
        let on_line = |node: &Node| -> Vec<u32> {
            node.cpus.iter().map(|cpu| cpu.0).filter(|cpu| online.contains(cpu)).collect()
        };
        let nodes = machine.map_or(&[][..], Machine::nodes).iter().map(on_line);
        let nodes: Vec<Vec<u32>> = nodes.filter(|cpus| !cpus.is_empty()).collect();
        let chosen = nodes.get(..wanted).ok_or(ProfileError::Nodes { wanted: count, found: nodes.len() })?;
        Ok(chosen.concat())
    }
}

/// The plan of runs.
#[derive(Clone, Debug)]
pub struct ScalePlan {
    /// The parts of the machine that are counted.
    pub part: ScaledPart,
    /// Numbers of these parts, the base first.
    pub counts: Vec<u32>,
    /// Runs on each number.
    pub repetitions: u32,
    /// The program. `{cpus}` stands for the list of its cpus, `{count}` for their number.
    pub command: Vec<OsString>,
    /// The load, for a server.
    pub load: Option<Load>,
    /// Where the amount of work stands in the output: a key of JSON, one key divided by another, or
    /// a word before a number.
    pub work: String,
    /// Samples per second and cpu.
    pub hz: u32,
    /// Where recordings are kept.
    pub folder: PathBuf,
    /// The seed of the order of runs.
    pub seed: u64,
}

/// The load on a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// The load program.
    pub command: Vec<OsString>,
    /// The address at which the server is ready when it accepts connections.
    pub ready: SocketAddr,
    /// How long the load runs at least before the recording begins.
    pub warm_up: Duration,
    /// How much longer the load may run until the work is steady.
    pub settle_max: Duration,
    /// How long the recording takes.
    pub duration: Duration,
}

/// A condition for a run to be good evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// The condition.
    pub name: &'static str,
    /// The finding.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Repetition {
    /// The number of cpus or nodes.
    pub count: u32,
    /// Cpus.
    pub cpus: u32,
    /// The block, from 1.
    pub block: u32,
    /// Work done during the recording.
    pub work: f64,
    /// Work for each second.
    pub rate: f64,
    /// The share of the cpus that the program used; `None` if samples are cycles.
    pub busy: Option<f64>,
    /// The share of its time that each of these cpus was idle, whatever programs it ran otherwise.
    pub idle: Vec<(u32, f64)>,
    /// The conditions.
    pub gates: Vec<Gate>,
    /// The recording.
    pub recording: PathBuf,
    #[serde(skip)]
    run: CostedRun,
}

impl Repetition {
    /// Whether all gates hold.
    pub fn is_good(&self) -> bool {
        self.gates.iter().all(|gate| gate.holds)
    }
}

/// The result of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    /// The command.
    pub command: Vec<String>,
    /// The unit of work.
    pub work: String,
    /// The parts of the machine that were counted.
    pub part: ScaledPart,
    /// Their number in the base.
    pub base: u32,
    /// Processor and kernel.
    pub machine: String,
    /// All runs of complete blocks in their order.
    pub repetitions: Vec<Repetition>,
    /// The block that a signal stopped; `None` if the plan ran to its end.
    pub stopped_in: Option<u32>,
    /// Each number against the base.
    pub comparisons: Vec<(u32, CostComparison)>,
    /// The law of the throughput, or why there is none.
    pub law: Result<LawFound, String>,
}

/// A fitted law with its peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LawFound {
    /// Contention.
    pub alpha: f64,
    /// Coherency.
    pub beta: f64,
    /// Work for each second on one cpu.
    pub gamma: f64,
    /// The number of cpus with the most throughput.
    pub peak_cpus: Option<f64>,
}

/// Runs a plan. `tell` hears of each run. After `stop` is set, the result has the complete blocks.
///
/// # Errors
/// A run cannot be started or recorded, or its output does not say how much work was done. The
/// folder has recordings of an earlier plan, or `stop` was set before a block was complete.
pub fn scale(
    plan: &ScalePlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Repetition),
) -> Result<Scaling, ProfileError> {
    let online = machine::online_cpus();
    let machine = machine::topology();
    let cpus = |count: u32| plan.part.cpus(count, machine.as_ref(), &online);
    // Before the first run, which may take minutes.
    plan.counts.iter().try_for_each(|count| cpus(*count).map(drop))?;
    check_folder(&plan.folder)?;
    let mut repetitions = Vec::new();
    let mut random = plan.seed;
    for block in 1..=plan.repetitions {
        let mut runs: Vec<Repetition> = Vec::new();
        for count in shuffled(&plan.counts, &mut random) {
            match run(plan, count, block, &cpus(count)?, stop) {
                Ok(repetition) => {
                    tell(&repetition);
                    runs.push(repetition);
                }
                Err(error) => {
                    // The other runs of the block have no partner.
                    runs.iter().for_each(|run| remove(&run.recording));
                    return ended_early(plan, repetitions, block, error);
                }
            }
        }
        repetitions.extend(runs);
    }
    Ok(conclude(plan, repetitions, None))
}

/// The result of a plan whose block `block` failed or was stopped.
fn ended_early(
    plan: &ScalePlan,
    complete: Vec<Repetition>,
    block: u32,
    error: ProfileError,
) -> Result<Scaling, ProfileError> {
    match error {
        error if complete.is_empty() => Err(error),
        ProfileError::Stopped => Ok(conclude(plan, complete, Some(block))),
        error => {
            let folder = plan.folder.clone();
            Err(ProfileError::BlockFailed { block, folder, source: Box::new(error) })
        }
    }
}

/// Refuses a folder with recordings of an earlier plan, which a later comparison would mix with the
/// new recordings.
fn check_folder(folder: &Path) -> Result<(), ProfileError> {
    let is_of_plan = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        [ScaledPart::Cpus, ScaledPart::Nodes]
            .iter()
            .any(|part| name.starts_with(&format!("{}-", part.name())))
    };
    let files =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // A failed run would remove the file that the user's own link names. The recorder refuses to
    // write through a link of another user.
    let is_foreign_link = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink() && found.uid() != geteuid().as_raw())
    };
    let is_recording =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "prof") && !is_foreign_link(path);
    match files(folder).find(|path| is_of_plan(path) && files(path).any(|path| is_recording(&path))) {
        Some(path) => Err(ProfileError::OldRuns(path)),
        None => Ok(()),
    }
}

/// Removes a recording that has no work or no partner. A recording that stays is refused by the
/// next plan.
fn remove(recording: &Path) {
    let _left = NameInFolder::find(recording).and_then(|place| place.remove());
}

fn conclude(plan: &ScalePlan, repetitions: Vec<Repetition>, stopped_in: Option<u32>) -> Scaling {
    let runs = |count: u32| -> Vec<CostedRun> {
        let mut of: Vec<&Repetition> = repetitions.iter().filter(|run| run.count == count).collect();
        of.sort_by_key(|run| run.block);
        of.into_iter().map(|run| run.run.clone()).collect()
    };
    let base = runs(plan.counts[0]);
    let comparisons = plan.counts[1..].iter().map(|count| (*count, compare(&base, &runs(*count)))).collect();
    let points: Vec<(f64, f64)> = repetitions.iter().map(|run| (f64::from(run.count), run.rate)).collect();
    let law = Law::fit(&points).map_err(|error| error.to_string()).map(|law| LawFound {
        alpha: law.alpha,
        beta: law.beta,
        gamma: law.gamma,
        peak_cpus: law.peak().map(|(cpus, _)| cpus),
    });
    Scaling {
        command: plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        work: plan.work.clone(),
        part: plan.part,
        base: plan.counts[0],
        machine: format!("{}, Linux {}", machine::processor(), machine::release()),
        repetitions,
        stopped_in,
        comparisons,
        law,
    }
}

/// The numbers in random order (Fisher and Yates, with SplitMix64).
fn shuffled(numbers: &[u32], random: &mut u64) -> Vec<u32> {
    let mut order = numbers.to_vec();
    for last in (1..order.len()).rev() {
        *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(last, ((mixed ^ (mixed >> 31)) % (last as u64 + 1)) as usize);
    }
    order
}

/// Makes a run. Without its work a recording would look like a cheap run, so the recording of a
/// failed or stopped run is removed.
fn run(
    plan: &ScalePlan,
    count: u32,
    block: u32,
    cpus: &[u32],
    stop: &AtomicBool,
) -> Result<Repetition, ProfileError> {
    let is_stopped = || stop.load(Ordering::Relaxed);
    if is_stopped() {
        return Err(ProfileError::Stopped);
    }
    let folder = plan.folder.join(format!("{}-{count}", plan.part.name()));
    let path = folder.join(format!("run-{block:02}.prof"));
    make_folders(&folder).map_err(|source| ProfileError::File {
        path: folder.clone(),
        action: "create",
        source,
    })?;
    measured(plan, count, (block, &path), cpus, stop).map_err(|error| {
        remove(&path);
        // A signal to all processes ends the programs too, which then fail in ways of their own.
        if is_stopped() { ProfileError::Stopped } else { error }
    })
}

fn measured(
    plan: &ScalePlan,
    count: u32,
    (block, path): (u32, &Path),
    cpus: &[u32],
    stop: &AtomicBool,
) -> Result<Repetition, ProfileError> {
    let cpu_count = cpus.len() as u32;
    let words: Vec<OsString> = plan.command.iter().map(|word| filled(word, cpus)).collect();
    let mut options = RecordOptions {
        subject: Subject::Process(0),
        hz: plan.hz,
        duration: None,
        output: path.to_owned(),
        hardware: HardwareSet::of_block(block),
        stacks: Stacks::default(),
        waits: false,
    };
    let mut gates_of_load: Vec<Gate> = Vec::new();
    let output = match &plan.load {
        None => {
            let child = RunningProgram::start(&words, Some(cpus), Stdio::piped())?;
            options.subject = Subject::Process(child.id() as i32);
            record(&options, stop)?;
            child.output(&|| stop.load(Ordering::Relaxed))?
        }
        Some(load) => {
            let (output, gates) = record_server(load, &words, cpus, &mut options, stop)?;
            gates_of_load = gates.into();
            output
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let amount =
        work(&text, &plan.work).filter(|amount| *amount > 0.0).ok_or_else(|| ProfileError::NoWork {
            work: plan.work.clone(),
            output: text.lines().last().unwrap_or_default().chars().take(200).collect(),
        })?;
    let profile = StackProfile::read(path, ReadOptions::default())?;
    let seconds = profile.duration_ns as f64 / 1e9;
    // A load tells work for each second, a batch all its work.
    let units = if plan.load.is_some() { amount * seconds } else { amount };
    append_work(path, &Work { units, unit: plan.work.clone(), cpus: cpu_count })?;
    let run = CostedRun::of(&profile, units, cpu_count);
    let busy = run.busy_s.map(|busy| busy / seconds / f64::from(cpu_count));
    let gates = gates_of_load.into_iter().chain(gates(&profile, cpus, busy, &text)).collect();
    Ok(Repetition {
        count,
        cpus: cpu_count,
        block,
        work: units,
        rate: units / seconds,
        busy,
        idle: idle(&profile, cpus),
        gates,
        recording: path.to_owned(),
        run,
    })
}

/// Runs a server under load and records it once its work is steady. Returns the output of the load,
/// and the gates: whether the work was steady, and whether the load lasted until the end.
fn record_server(
    load: &Load,
    words: &[OsString],
    cpus: &[u32],
    options: &mut RecordOptions,
    stop: &AtomicBool,
) -> Result<(Output, [Gate; 2]), ProfileError> {
    if TcpStream::connect_timeout(&load.ready, Duration::from_secs(1)).is_ok() {
        return Err(ProfileError::PortTaken(load.ready));
    }
    let mut server = RunningProgram::start(words, Some(cpus), Stdio::null())?;
    server.wait_until_ready(load.ready, words, stop)?;
    let mut driver = RunningProgram::start(&load.command, None, Stdio::piped())?;
    let started = Instant::now();
    let steady = settle(load, &mut driver, stop)?;
    options.subject = Subject::Process(server.id() as i32);
    options.duration = Some(load.duration);
    let [ended, has_failed] = [(); 2].map(|()| AtomicBool::new(false));
    let (recorded, output) = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let output =
                driver.output(&|| [stop, &has_failed].iter().any(|over| over.load(Ordering::Relaxed)));
            // The end of the load ends the recording.
            ended.store(true, Ordering::Relaxed);
            output
        });
        let recorded = record(options, &ended);
        has_failed.store(recorded.is_err(), Ordering::Relaxed);
        (recorded, waiting.join().expect("waiting for the load does not panic"))
    });
    server.end();
    let (recorded, output) = (recorded?, output?);
    let lasted = recorded.summary.duration;
    if recorded.summary.samples == 0 && lasted < load.duration {
        let (seconds, status) = (started.elapsed().as_secs(), output.status);
        return Err(ProfileError::LoadEnded { command: load.command[0].clone().into(), status, seconds });
    }
    Ok((output, [steady, whole(lasted, load.duration)]))
}

/// Whether a recording under load lasted as long as planned.
fn whole(lasted: Duration, planned: Duration) -> Gate {
    let holds = lasted >= planned.mul_f64(LASTED_MIN);
    let seconds = [lasted, planned].map(|time| time.as_secs_f64());
    let bound = 100.0 * LASTED_MIN;
    let mut found = format!("{:.1} s of {:.1} s (at least {bound:.0} %)", seconds[0], seconds[1]);
    if !holds {
        found += ": the load or the server ended before; let the load run for longer";
    }
    Gate { name: "recording lasted its time", found, holds }
}

/// Waits until the load has run for its time and the work is steady, or for the longest time.
fn settle(load: &Load, driver: &mut RunningProgram, stop: &AtomicBool) -> Result<Gate, ProfileError> {
    let started = Instant::now();
    let (least, most) = (load.warm_up, load.warm_up + load.settle_max);
    let mut state = SteadyState::default();
    let mut sent = bytes_sent(load.ready);
    while started.elapsed() < most && !stop.load(Ordering::Relaxed) {
        if state.is_reached() && started.elapsed() >= least {
            break;
        }
        let from = Instant::now();
        pause(SECOND.min(most.saturating_sub(started.elapsed())), stop);
        if let Some(status) = driver.status() {
            let seconds = started.elapsed().as_secs();
            return Err(ProfileError::LoadEnded { command: load.command[0].clone().into(), status, seconds });
        }
        let (now, took) = (bytes_sent(load.ready), from.elapsed());
        // The rest of the longest time may be too short for a rate.
        if took >= SECOND {
            state.add(now.saturating_sub(sent) as f64 / took.as_secs_f64());
            sent = now;
        }
    }
    Ok(Gate {
        name: "work was steady before the recording",
        found: state.found(started.elapsed()),
        holds: state.is_reached(),
    })
}

/// The idle share of each of these cpus.
fn idle(profile: &StackProfile, cpus: &[u32]) -> Vec<(u32, f64)> {
    let rates = rates(profile).into_iter().filter(|rate| rate.name == "idle");
    rates
        .filter_map(|rate| Some((rate.cpu?, rate.per_second / 1e9)))
        .filter(|(cpu, _)| cpus.contains(cpu))
        .collect()
}

impl Scaling {
    /// The mean idle share of each cpu over the runs with this number of cpus or nodes.
    pub fn idle(&self, count: u32) -> Vec<(u32, f64)> {
        let runs: Vec<&Repetition> = self.repetitions.iter().filter(|run| run.count == count).collect();
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (cpu, share) in runs.iter().flat_map(|run| &run.idle) {
            *sums.entry(*cpu).or_default() += share / runs.len() as f64;
        }
        sums.into_iter().collect()
    }
}

fn gates(profile: &StackProfile, cpus: &[u32], busy: Option<f64>, output: &str) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Some(busy) = busy {
        gates.push(Gate {
            name: "program uses its cpus",
            found: format!("{:.0} % (at least {:.0} %)", 100.0 * busy, 100.0 * BUSY_MIN),
            holds: busy >= BUSY_MIN,
        });
    }
    gates.push(Gate {
        name: "no sample lost",
        found: format!("{} lost, {} pauses", profile.lost, profile.throttled),
        holds: profile.lost == 0 && profile.throttled == 0,
    });
    let stolen: Vec<f64> = rates(profile)
        .iter()
        .filter(|rate| rate.name == "stolen time" && rate.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
        .map(|rate| rate.per_second / 1e9)
        .collect();
    if !stolen.is_empty() {
        let share = stolen.iter().sum::<f64>() / stolen.len() as f64;
        gates.push(Gate {
            name: "little time stolen",
            found: format!("{:.1} % (at most {:.0} %)", 100.0 * share, 100.0 * STOLEN_MAX),
            holds: share <= STOLEN_MAX,
        });
    }
    gates.extend(json(output).and_then(|json| valid_load(&json)));
    gates
}

/// The gate of a load that says whether its run is valid, and the reasons if not.
fn valid_load(json: &serde_json::Value) -> Option<Gate> {
    let holds = json.get("valid")?.as_bool()?;
    let doubts = json.get("doubts").and_then(|doubts| doubts.as_array()).into_iter().flatten();
    let doubts: Vec<&str> = doubts.filter_map(|doubt| doubt.as_str()).collect();
    let found = match (holds, doubts.is_empty()) {
        (true, _) => "said by the load".to_owned(),
        (false, true) => "denied by the load".to_owned(),
        (false, false) => format!("the load says INVALID: {}", doubts.join("; ")),
    };
    Some(Gate { name: "load did not set the pace", found, holds })
}

/// The amount of work in an output.
fn work(output: &str, name: &str) -> Option<f64> {
    if let Some(json) = json(output) {
        let number = |key: &str| {
            let value = json.get(key)?.as_f64()?;
            Some(if key.ends_with("_ns") { value / 1e9 } else { value })
        };
        return match name.split_once('/') {
            Some((part, whole)) => Some(number(part)? / number(whole)?),
            None => number(name),
        };
    }
    let words: Vec<&str> = output.split_whitespace().collect();
    words.windows(2).rev().find_map(|pair| if pair[0] == name { pair[1].parse().ok() } else { None })
}

fn json(output: &str) -> Option<serde_json::Value> {
    serde_json::from_str(output.trim()).ok()
}

fn filled(word: &OsString, cpus: &[u32]) -> OsString {
    let Some(text) = word.to_str() else { return word.clone() };
    let list = match cpus {
        // A range, because `serve --cores 3` would be three cpus.
        [one] => format!("{one}-{one}"),
        many => many.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    };
    text.replace("{cpus}", &list).replace("{count}", &cpus.len().to_string()).into()
}

fn pause(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Series;
    use crate::profile::Tick;
    use crate::running_program::PATIENCE;

    #[test]
    fn work_is_read_from_json_and_text() {
        let json = r#"{"good": 500, "window_ns": 2000000000, "bytes": 4000, "valid": true}"#;
        assert_eq!(work(json, "good"), Some(500.0));
        assert_eq!(work(json, "bytes/window_ns"), Some(2000.0));
        assert_eq!(work(json, "requests"), None);
        assert_eq!(work("warm work 3\nwork 17\n", "work"), Some(17.0));
        assert_eq!(work("nothing", "work"), None);
    }

    /// Regression: the gate said "denied by the load", and the reason was shown nowhere.
    #[test]
    fn gate_has_reason_of_invalid_load() {
        let gate = |json: &str| valid_load(&serde_json::from_str(json).unwrap());
        let invalid = gate(r#"{"valid": false, "doubts": ["a core was busy", "too short"]}"#).unwrap();
        assert!(!invalid.holds);
        assert_eq!(invalid.found, "the load says INVALID: a core was busy; too short");
        assert!(gate(r#"{"valid": true, "doubts": []}"#).unwrap().holds);
        assert!(gate(r#"{"good": 5}"#).is_none());
    }

    #[test]
    fn nodes_come_with_all_their_cpus() {
        let machine = vermeil_topology::synthetic::parse("node:4 core:2 pu:1").expect("a machine");
        // Cpu 5 is off line.
        let online = [0, 1, 2, 3, 4, 6, 7];
        let cpus = |part: ScaledPart, count| part.cpus(count, Some(&machine), &online);
        assert_eq!(cpus(ScaledPart::Nodes, 1).unwrap(), [0, 1]);
        assert_eq!(cpus(ScaledPart::Nodes, 3).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(cpus(ScaledPart::Cpus, 3).unwrap(), [0, 1, 2]);
        let error = cpus(ScaledPart::Nodes, 5).unwrap_err().to_string();
        assert!(error.contains("5 memory nodes wanted and the machine has 4"), "{error}");
        assert!(cpus(ScaledPart::Cpus, 8).unwrap_err().to_string().contains("8 cpus wanted"));
    }

    #[test]
    fn single_part_has_singular_name() {
        let said = [1, 2].map(|count| ScaledPart::Cpus.counted(count));
        assert_eq!(
            (said, ScaledPart::Nodes.counted(1)),
            (["1 cpu".into(), "2 cpus".into()], "1 node".into())
        );
    }

    #[test]
    fn each_block_has_each_number_once() {
        let mut random = 1;
        let orders: Vec<Vec<u32>> = (0..20).map(|_| shuffled(&[1, 2, 4], &mut random)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [1, 2, 4]);
        }
        assert!(orders.iter().any(|order| order[0] != orders[0][0]), "no order differs: {orders:?}");
    }

    #[test]
    fn idle_time_is_told_by_cpu() {
        let mut profile = crate::profile::tests::profile(&[("main", 1)]);
        profile.series = (0..3).map(|cpu| Series::of_cpu("idle", "ns", cpu, 0)).collect();
        let tick = |s: u64, values: [u64; 3]| Tick { time: s * 1_000_000_000, values: values.into() };
        profile.ticks = vec![tick(0, [0; 3]), tick(2, [100_000_000, 1_000_000_000, 2_000_000_000])];
        assert_eq!(idle(&profile, &[0, 1]), [(0, 0.05), (1, 0.5)]);
    }

    /// Regression: the cpus that the program does not use diluted the stolen share.
    #[test]
    fn stolen_time_is_that_of_used_cpus() {
        let mut profile = crate::profile::tests::profile(&[("main", 1)]);
        profile.series = (0..4).map(|cpu| Series::of_cpu("stolen time", "ns", cpu, 0)).collect();
        let tick = |s: u64, values: [u64; 4]| Tick { time: s * 1_000_000_000, values: values.into() };
        profile.ticks = vec![tick(0, [0; 4]), tick(1, [50_000_000, 0, 0, 0])];
        let gate = |cpus: &[u32]| {
            let gates = gates(&profile, cpus, None, "");
            gates.into_iter().find(|gate| gate.name == "little time stolen").expect("a gate")
        };
        assert!(!gate(&[0]).holds && gate(&[0]).found.starts_with("5.0 %"), "{:?}", gate(&[0]));
        assert!(gate(&[1, 2]).holds);
    }

    /// Regression: a recording that the end of the load cut short passed all gates.
    #[test]
    fn short_recording_fails_gate() {
        let gate = whole(SECOND / 2, SECOND);
        assert!(!gate.holds && gate.found.contains("0.5 s of 1.0 s (at least 90 %)"), "{gate:?}");
        assert!(gate.found.contains("let the load run for longer"), "{gate:?}");
        assert!(whole(SECOND.mul_f64(0.95), SECOND).holds);
    }

    #[test]
    fn places_in_command_are_filled() {
        let filled_for = |word: &str, cpus: &[u32]| filled(&word.into(), cpus);
        assert_eq!(filled_for("--cores={cpus}", &[0, 3]), OsString::from("--cores=0,3"));
        assert_eq!(filled_for("--cores={cpus}", &[3]), OsString::from("--cores=3-3"));
        assert_eq!(filled_for("{count}", &[0, 3]), OsString::from("2"));
    }

    /// Regression: a failed run as root removed the file that the user's own link names.
    #[test]
    fn own_link_counts_as_recording() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("cpus-1");
        fs::create_dir(&runs).unwrap();
        assert!(check_folder(folder.path()).is_ok());
        let link = runs.join("run-01.prof");
        std::os::unix::fs::symlink(folder.path().join("kept"), &link).unwrap();
        let error = check_folder(folder.path()).unwrap_err();
        assert!(matches!(&error, ProfileError::OldRuns(path) if *path == runs), "{error}");
        // Only the superuser can give a link away.
        if geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            assert!(check_folder(folder.path()).is_ok());
        }
    }

    fn load(command: &[&str]) -> Load {
        Load {
            command: command.iter().map(OsString::from).collect(),
            ready: SocketAddr::from(([127, 0, 0, 1], 9)),
            warm_up: Duration::ZERO,
            settle_max: Duration::ZERO,
            duration: SECOND,
        }
    }

    fn settled(load: &Load) -> Result<Gate, ProfileError> {
        let mut driver = RunningProgram::start(&load.command, None, Stdio::null()).expect("started");
        settle(load, &mut driver, &AtomicBool::new(false))
    }

    #[test]
    fn load_that_ends_too_early_is_named() {
        let load = Load { settle_max: PATIENCE, ..load(&["true"]) };
        let error = settled(&load).unwrap_err().to_string();
        assert!(error.contains("true: the load ended (exit status: 0) after 1 s"), "{error}");
    }

    #[test]
    fn work_that_never_is_steady_fails_gate() {
        let gate = settled(&load(&["sleep", "30"])).expect("a gate");
        assert!(!gate.holds && gate.found.contains("not 3 seconds with bytes sent"), "{gate:?}");
    }
}
