//! `vermeil sim parity`: the simulator beside the real runtime, on this machine.

use super::given::{self, SimUsage};
use crate::{Exit, print};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use vermeil_calibrate::MeasureEffort;
use vermeil_config::Surroundings;
use vermeil_parity::{CompareOptions, Finding, POLICIES, RunSize, Script, compare};

/// Run the same programs under the same policies on the real runtime and in the simulator, and
/// report whether both rank the policies alike.
///
/// Two policies whose real runs overlap are a tie; all other pairs are counted. The command takes
/// some two minutes, and the machine should be idle. Ends with 1 if the simulator ranks a pair that
/// is no tie in the opposite order.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct ParityArgs {
    /// The description of this machine from `vermeil sim calibrate`
    ///
    /// Default: the machine is measured first.
    #[arg(long, short, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    machine: Option<PathBuf>,

    /// Real runs of each program under each policy
    ///
    /// From 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    rounds: usize,

    /// A short trial run; the numbers mean nothing, and the exit code is 0
    ///
    /// Default: half a second for each real run.
    #[arg(long)]
    quick: bool,

    /// Write JSON instead of text
    ///
    /// Default: text.
    #[arg(long)]
    json: bool,
}

impl ParityArgs {
    /// Compares.
    pub(super) fn run(self) -> Exit {
        let findings = match self.compare() {
            Ok(findings) => findings,
            Err(error) => return print::failure(&error, error.exit()),
        };
        let text = if self.json {
            let findings: Vec<_> = findings.iter().map(Finding::to_json).collect();
            format!("{:#}\n", serde_json::Value::from(findings))
        } else {
            findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
        };
        let reversed: usize = findings.iter().map(|finding| finding.reversed().len()).sum();
        match (print::result(&text), reversed) {
            (Exit::Clean, 1..) if !self.quick => {
                let why = format_args!("{reversed} pairs of policies are ranked the other way around");
                print::failure(&why, Exit::Failed)
            }
            (exit, _) => exit,
        }
    }

    fn compare(&self) -> Result<Vec<Finding>, SimUsage> {
        let (effort, size) = if self.quick {
            (MeasureEffort::Smoke, RunSize::Smoke)
        } else {
            (MeasureEffort::Full, RunSize::Full)
        };
        let machine = given::here(self.machine.as_deref(), effort)?;
        let cpus = Surroundings::here()?.allowed.cpus.iter().map(|cpu| cpu.0 as usize).collect();
        let options = CompareOptions { cpus, size, rounds: self.rounds };
        let runs = Script::ALL.len() * POLICIES.len() * self.rounds;
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs {elapsed}")
            .expect("a template that is tested");
        let bar =
            ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr()).with_style(style);
        let findings = compare(&machine, &options, || bar.inc(1));
        bar.finish_and_clear();
        Ok(findings?)
    }
}
