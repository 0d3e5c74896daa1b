//! The runtimes of the source documents, as options of `vermeil sim run`.
//!
//! `vermeil sim reproduce` sets the same options for each experiment. The simulator gives each
//! option its meaning. Tested through the binary (`tests/sim.rs`).

use clap::Args;
use clap::builder::RangedU64ValueParser;
use vermeil_sched::Policy;
use vermeil_sim::SimOptions;

/// How the runtimes of the source documents differ from this project's runtime.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runtimes of the source documents")]
pub(super) struct DocumentArgs {
    /// A thief waits for a taken lock
    ///
    /// Default: the thief goes on to the next victim.
    #[arg(long)]
    waits_for_locks: bool,

    /// A thief leaves a color that holds half of the victim's waiting events or more
    ///
    /// Default: the thief may take the color.
    #[arg(long)]
    leaves_half: bool,

    /// An empty color returns to the core for which it was made, as in runtimes that hash colors to
    /// cores
    ///
    /// Default: an empty color stays on the core of its last run.
    #[arg(long)]
    colors_return: bool,

    /// One instance of the program per memory node: colors stay on the node that made them, under
    /// any policy
    ///
    /// Default: one instance for the whole machine.
    #[arg(long)]
    instance_per_node: bool,

    /// Whether the handlers' annotated costs are known: true or false
    ///
    /// Default: true under mely, which needs annotations, and false under other policies.
    #[arg(long, value_name = "BOOL")]
    annotated: Option<bool>,

    /// Maximum number of events of a color in a row
    ///
    /// From 1 to 1,000,000. Default: 1 under placed and trial, and the scheduler's number under
    /// other policies. libasync always runs 1, because its queues hold events and not colors.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    batch: Option<usize>,
}

impl DocumentArgs {
    /// A run of this policy on that runtime.
    pub(super) fn options(&self, policy: Policy) -> SimOptions {
        SimOptions {
            waits_for_locks: self.waits_for_locks,
            leaves_half: self.leaves_half,
            colors_return: self.colors_return,
            instance_per_node: self.instance_per_node,
            annotated: self.annotated,
            batch_events: self.batch,
            ..SimOptions::new(policy)
        }
    }
}
