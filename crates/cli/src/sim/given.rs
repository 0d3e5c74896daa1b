//! The inputs of a simulation: a machine, a workload, a plan, by name or as a file.
//!
//! Reads files and reports faulty files. The meaning of the inputs belongs to the simulator and the
//! topology crate.

use crate::{Exit, writable};
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};
use std::{fs, io};
use vermeil_calibrate::MeasureEffort;
use vermeil_sched::{
    PlanName, Policy,
    plan::{Plan, PlanFile},
};
use vermeil_sim::report::RecordedRun;
use vermeil_sim::{CompiledProgram, MachineSpec, SimMachine};
use vermeil_topology::{Machine as Tree, synthetic, xml};

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub(super) enum SimUsage {
    #[error("{option} {}: cannot {action} it: {source}", path.display())]
    File { option: &'static str, action: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {error}", path.display())]
    Inside { path: PathBuf, error: Box<dyn std::error::Error> },
    #[error(
        "workload {workload:?}: run_ms is missing, and the source of {entry:?} never ends: write run_ms, or give --time"
    )]
    Endless { workload: String, entry: String },
    #[error("{option}: {why}")]
    Unwritable { option: &'static str, why: String },
    #[error("{option} {what}: leave it out")]
    Useless { option: &'static str, what: String },
    #[error("{option} {what}")]
    Form { option: &'static str, what: String },
    #[error("{0}")]
    Sim(#[from] vermeil_sim::SimError),
    #[error("{0}")]
    Topology(#[from] vermeil_topology::TopologyError),
    #[error("measuring this machine: {0}")]
    Calibrate(#[from] vermeil_calibrate::CalibrateError),
    #[error("{0}")]
    Parity(#[from] vermeil_parity::ParityError),
}

impl SimUsage {
    /// The exit code: an error of the command line, or a missing resource.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::File { action: "read", .. } | Self::Unwritable { .. } | Self::Calibrate(_) => {
                Exit::CannotStart
            }
            Self::Topology(vermeil_topology::TopologyError::Sysfs { .. }) => Exit::CannotStart,
            Self::Parity(vermeil_parity::ParityError::Runtime(_)) => Exit::CannotStart,
            Self::File { .. } => Exit::Failed,
            Self::Parity(_)
            | Self::Inside { .. }
            | Self::Useless { .. }
            | Self::Form { .. }
            | Self::Endless { .. }
            | Self::Sim(_)
            | Self::Topology(_) => Exit::Usage,
        }
    }

    fn inside(path: &Path) -> impl FnOnce(Box<dyn std::error::Error>) -> Self {
        let path = path.to_owned();
        move |error| Self::Inside { path, error }
    }
}

/// The machine whose costs apply to a machine without measured costs.
const COSTS: &str = "epyc-2x64";

/// The machine.
#[derive(Debug, Args)]
pub(super) struct MachineArgs {
    /// The machine: a name that `vermeil sim machines` lists, FILE.toml, an hwloc export FILE.xml,
    /// a text in hwloc's synthetic notation, or `here` for a measurement of this machine
    #[arg(long, short, value_name = "NAME|FILE|TEXT", default_value = "xeon-2x4-l2pairs", value_hint = ValueHint::AnyPath)]
    machine: String,

    /// The machine with the latencies, bandwidths and costs for an export or a text: a name, or
    /// FILE.toml
    ///
    /// Not with other machines, because these have their own costs. Default: epyc-2x64.
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::AnyPath)]
    costs: Option<String>,
}

impl MachineArgs {
    /// The machine.
    pub(super) fn read(&self) -> Result<SimMachine, SimUsage> {
        let (word, path) = (self.machine.as_str(), Path::new(&self.machine));
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_bare = extension == Some("xml") || (extension != Some("toml") && word.contains(':'));
        if self.costs.is_some() && !is_bare {
            let what = format!("is for a machine from an export or a text, and {word} has its own costs");
            return Err(SimUsage::Useless { option: "--costs", what });
        }
        match extension {
            _ if word == "here" => here(None, MeasureEffort::Full),
            Some("toml") => here(Some(path), MeasureEffort::Full),
            Some("xml") => {
                let text = read("--machine", path)?;
                let tree = xml::parse(&text).map_err(|error| SimUsage::inside(path)(error.into()))?;
                let name = path.file_stem().map_or(word.into(), |stem| stem.to_string_lossy());
                self.with_costs(&name, &tree)
            }
            _ if is_bare => self.with_costs("described", &synthetic::parse(word)?),
            _ => Ok(vermeil_sim::profile(word)?),
        }
    }

    fn with_costs(&self, name: &str, tree: &Tree) -> Result<SimMachine, SimUsage> {
        let costs = self.costs.as_deref().unwrap_or(COSTS);
        let path = Path::new(costs);
        let spec = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => MachineSpec::from_toml(&read("--costs", path)?)
                .map_err(|error| SimUsage::inside(path)(error.into()))?,
            _ => MachineSpec::from_toml(vermeil_sim::profile_text(costs)?)?,
        };
        Ok(SimMachine::described(name, tree, &spec)?)
    }
}

/// This machine, from a file that `vermeil sim calibrate` wrote, or measured now.
pub(super) fn here(path: Option<&Path>, effort: MeasureEffort) -> Result<SimMachine, SimUsage> {
    match path {
        None => Ok(SimMachine::from_toml(&super::calibrate::here(effort)?)?),
        Some(path) => SimMachine::from_toml(&read("--machine", path)?)
            .map_err(|error| SimUsage::inside(path)(error.into())),
    }
}

/// The workload that `word` names: a shipped workload, FILE.toml, or a recording FILE.ndjson. In a
/// recording each color is assumed to touch `working_set` bytes, by default 0.
pub(super) fn workload(word: &str, working_set: Option<u64>) -> Result<CompiledProgram, SimUsage> {
    let path = Path::new(word);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_recording = matches!(extension, Some("ndjson" | "jsonl"));
    if working_set.is_some() && !is_recording {
        let what = format!("is for recordings, and {word} describes its own memory");
        return Err(SimUsage::Useless { option: "--working-set", what });
    }
    let program = match extension {
        Some("toml") => CompiledProgram::from_toml(&read("workload", path)?),
        _ if is_recording => {
            let name = path.file_stem().map_or(word.into(), |stem| stem.to_string_lossy());
            CompiledProgram::from_trace(&name, &read("workload", path)?, working_set.unwrap_or(0))
        }
        _ => return Ok(vermeil_sim::workload(word)?),
    };
    program.map_err(|error| SimUsage::inside(path)(error.into()))
}

/// A recording, as it ran.
pub(super) fn recorded(path: &Path) -> Result<RecordedRun, SimUsage> {
    let failed =
        |source| SimUsage::File { option: "recording", action: "read", path: path.to_owned(), source };
    // The cut of a recording that is not whole may divide a letter.
    let bytes = fs::read(path).map_err(failed)?;
    let run = RecordedRun::parse(&String::from_utf8_lossy(&bytes));
    run.map_err(|error| SimUsage::inside(path)(error.into()))
}

/// The plan of `placed:FILE`, which `option` names.
pub(super) fn plan(
    option: &'static str,
    policy: &Policy,
    program: &CompiledProgram,
    machine: &SimMachine,
) -> Result<Option<Plan>, SimUsage> {
    let Policy::Placed(PlanName::File(path)) = policy else { return Ok(None) };
    let text = read(option, path)?;
    let plan = PlanFile::parse(&text, machine.cores());
    let plan = plan.and_then(|file| file.resolve(&program.placed_handlers(policy)));
    plan.map(Some).map_err(|error| SimUsage::inside(path)(error.into()))
}

/// The only form of a picture or a trace, by the end of the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrawnForm {
    Svg,
    Json,
}

impl DrawnForm {
    fn end(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Json => "json",
        }
    }
}

/// Checks before a run that its results can be written, because a failure afterwards loses the run.
/// A name with the end of another form would mislead each program that opens the file.
pub(super) fn check_writable(
    option: &'static str,
    path: Option<&Path>,
    form: DrawnForm,
) -> Result<(), SimUsage> {
    let Some(path) = path else { return Ok(()) };
    let end = form.end();
    if let Some(other) = path.extension().filter(|other| !other.eq_ignore_ascii_case(end)) {
        let (name, other) = (path.display(), other.to_string_lossy());
        let instead = path.with_extension(end);
        let what =
            format!("{name}: the file is written as {end}, not as {other}: name it {}", instead.display());
        return Err(SimUsage::Form { option, what });
    }
    writable::check_writable(path).map_err(|why| SimUsage::Unwritable { option, why })
}

/// Writes a requested result.
pub(super) fn write(option: &'static str, path: &Path, text: &str) -> Result<(), SimUsage> {
    let failed = |source| SimUsage::File { option, action: "write", path: path.to_owned(), source };
    vermeil_io::output::write(path, text).map_err(failed)
}

fn read(option: &'static str, path: &Path) -> Result<String, SimUsage> {
    let failed = |source| SimUsage::File { option, action: "read", path: path.to_owned(), source };
    fs::read_to_string(path).map_err(failed)
}
