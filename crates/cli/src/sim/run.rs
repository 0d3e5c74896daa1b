//! `vermeil sim run`: a workload on a machine, under a single policy or several policies side by
//! side.

use super::documents::DocumentArgs;
use super::given::{self, DrawnForm, MachineArgs, SimUsage};
use crate::values::{Size, Span, size_between};
use crate::{Exit, print};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_sched::Policy;
use vermeil_sim::{
    CompiledProgram, SimMachine, SimOptions,
    report::{self, RunComparison, Timeline},
    simulate_watched,
};

/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Simulate a workload on a machine.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct RunArgs {
    /// The workload: a name that `vermeil sim workloads` lists, FILE.toml, or a recording of the
    /// runtime, FILE.ndjson
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::AnyPath)]
    workload: String,

    #[command(flatten)]
    machine: MachineArgs,

    /// The policy that moves colors: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or
    /// adaptive
    ///
    /// PLAN is round-robin, cache-aware, intermediate-1, intermediate-2 or a file with a `handler =
    /// core` per line.
    #[arg(long, short, value_name = "NAME", default_value = "adaptive")]
    policy: Policy,

    /// Run under several policies, separated by commas, and show the results side by side; `all` is
    /// every policy, with each named plan
    ///
    /// Default: the report of a single policy.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_policies, conflicts_with_all = ["policy", "timeline", "trace"])]
    compare: Vec<Policies>,

    /// The seed of all random numbers: equal seeds give equal runs
    ///
    /// From 0 to 2^64 - 1.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The measured virtual time, after the workload's warm-up, in seconds or with a unit: ms, s,
    /// m, h
    ///
    /// From 1ms to 24h. Default: the workload's value; a workload with an end runs to its end.
    #[arg(long, short, value_name = "TIME")]
    time: Option<Span>,

    /// How long an idle core searches before the core sleeps, in nanoseconds
    ///
    /// From 0 to 10^9.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<u64>::new().range(0..=1_000_000_000))]
    spin: u64,

    /// Of a recording: the memory that each event of a color is assumed to touch, in bytes
    ///
    /// From 0 to 64M. A recording does not contain this number. Not with another workload. Default:
    /// 0.
    #[arg(long, value_name = "SIZE", value_parser = size_between(0, 64 << 20))]
    working_set: Option<Size>,

    /// Draw the events of each core over time
    ///
    /// Default: not drawn.
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    timeline: Option<PathBuf>,

    /// Write the events of each core over time, for ui.perfetto.dev
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,

    /// The start of the picture and the trace, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: the start of the measured time, after the workload's warm-up.
    #[arg(long, value_name = "TIME")]
    show_from: Option<Span>,

    /// The length of the picture and the trace, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. At most 400,000 spans are kept.
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    show_time: Span,

    /// Write JSON instead of text; an array for several policies
    ///
    /// Default: text.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    documents: DocumentArgs,
}

/// The policies of an argument of --compare.
#[derive(Clone, Debug)]
struct Policies(Vec<Policy>);

/// What `--compare all` stands for.
const ALL: &str = "none libasync mely ncopy per-node placed:round-robin placed:cache-aware placed:intermediate-1 \
    placed:intermediate-2 trial adaptive";

fn parse_policies(word: &str) -> Result<Policies, vermeil_sched::UnknownPolicy> {
    let policies = match word {
        "all" => ALL.split_whitespace().map(str::parse).collect::<Result<_, _>>()?,
        name => vec![name.parse()?],
    };
    Ok(Policies(policies))
}

impl RunArgs {
    /// Simulates.
    pub(super) fn run(self) -> Exit {
        match self.text() {
            Ok(text) => print::result(&text),
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    fn text(&self) -> Result<String, SimUsage> {
        let program = given::workload(&self.workload, self.working_set.map(|size| size.bytes))?;
        let machine = self.machine.read()?;
        if let (None, Some(entry)) = (self.time, program.endless_source()) {
            let (workload, entry) = (program.name().to_owned(), entry.to_owned());
            return Err(SimUsage::Endless { workload, entry });
        }
        let run_ns = self.time.map(|time| program.warm_up_ns() + time.ms() * NS_PER_MS);
        let options = |option, policy: &Policy| -> Result<SimOptions, SimUsage> {
            Ok(SimOptions {
                seed: self.seed,
                run_ns,
                spin_ns: self.spin,
                plan: given::plan(option, policy, &program, &machine)?,
                ..self.documents.options(policy.clone())
            })
        };
        if self.compare.is_empty() {
            return self.one(&machine, &program, &options("--policy", &self.policy)?);
        }
        let compared = self.compare.iter().flat_map(|some| &some.0);
        let policies: Vec<SimOptions> =
            compared.map(|policy| options("--compare", policy)).collect::<Result<_, _>>()?;
        let comparison = RunComparison::run(&machine, &program, &policies);
        Ok(match self.json {
            true => pretty(&comparison.to_json(&machine, &program)),
            false => comparison.to_text(&machine, &program),
        })
    }

    fn one(
        &self,
        machine: &SimMachine,
        program: &CompiledProgram,
        options: &SimOptions,
    ) -> Result<String, SimUsage> {
        given::check_writable("--timeline", self.timeline.as_deref(), DrawnForm::Svg)?;
        given::check_writable("--trace", self.trace.as_deref(), DrawnForm::Json)?;
        let from_ns = self.show_from.map_or(program.warm_up_ns(), |from| from.ms() * NS_PER_MS);
        let timeline = Timeline::new(machine.cores(), from_ns, from_ns + self.show_time.ms() * NS_PER_MS);
        let (results, timeline) = simulate_watched(machine, program, options, timeline);
        let handlers: Vec<&str> = program.handlers().collect();
        if let Some(path) = &self.timeline {
            let title = format!("{} on {}, {}", program.name(), machine.name(), results.policy);
            given::write("--timeline", path, &timeline.to_svg(&title, &handlers))?;
        }
        if let Some(path) = &self.trace {
            given::write("--trace", path, &timeline.to_chrome(&handlers))?;
        }
        let ideal = report::ideal(machine, program, options);
        Ok(match self.json {
            true => pretty(&report::to_json(machine, program, &results, Some(&ideal))),
            false => report::describe(machine, program, &results, Some(&ideal)),
        })
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
