//! `vermeil sim reproduce`: published results, run again.

use super::given::SimUsage;
use crate::{Exit, print};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vermeil_sim::reproduce::{FigureCounts, Reproduction, RunEffort, reproduction, reproductions};

/// Run published experiments again: the published figures, the simulated figures, the difference,
/// and whether a figure is fitted or predicted.
///
/// Ends with 1 if a figure lies outside its band.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct ReproduceArgs {
    /// The experiments: mely-sfs, mely-web, placement-roots, placement-images, numa-clients,
    /// numa-nodes, numa-modes, knet
    ///
    /// Default: all, which takes minutes.
    #[arg(value_name = "EXPERIMENT")]
    names: Vec<String>,

    /// A shorter form of each experiment, as in the tests
    ///
    /// Default: every figure, at full length.
    #[arg(long)]
    quick: bool,

    /// Write JSON instead of text
    ///
    /// Default: text.
    #[arg(long)]
    json: bool,
}

impl ReproduceArgs {
    /// Runs the experiments.
    pub(super) fn run(self) -> Exit {
        match self.all() {
            Ok((text, outside)) => match (print::result(&text), outside) {
                (Exit::Clean, 1..) => {
                    let why = format_args!("{outside} figures lie outside their bands");
                    print::failure(&why, Exit::Failed)
                }
                (exit, _) => exit,
            },
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    /// The text, and how many figures lie outside their bands.
    fn all(&self) -> Result<(String, usize), SimUsage> {
        let chosen: Vec<Reproduction> = match self.names.is_empty() {
            true => reproductions().into(),
            false => self.names.iter().map(|name| reproduction(name)).collect::<Result<_, _>>()?,
        };
        let effort = if self.quick { RunEffort::Quick } else { RunEffort::Full };
        let bar = bar(chosen.len());
        let (mut texts, mut values, mut counts) = (Vec::new(), Vec::new(), FigureCounts::default());
        for one in &chosen {
            bar.set_message(one.name);
            let findings = one.run(effort)?;
            counts.add(&findings);
            values.push(one.to_json(&findings));
            texts.push(one.report(&findings));
            bar.inc(1);
        }
        bar.finish_and_clear();
        texts.push(format!("{counts}\n"));
        let text =
            if self.json { format!("{:#}\n", serde_json::Value::from(values)) } else { texts.join("\n") };
        Ok((text, counts.outside))
    }
}

/// A progress line on standard error, if standard error is a terminal.
fn bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")
        .expect("a template that is tested");
    ProgressBar::with_draw_target(Some(length as u64), ProgressDrawTarget::stderr()).with_style(style)
}
