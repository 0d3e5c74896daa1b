//! `vermeil sim`: the production scheduler on simulated machines. One file for each subcommand;
//! `given.rs` reads machines and workloads.
//!
//! Leaves out the simulation. Tested through the binary (`tests/sim.rs`).

mod calibrate;
mod documents;
mod given;
mod list;
mod parity;
mod reproduce;
mod run;
mod show;
mod swarm;

use crate::Exit;
use clap::{Args, Subcommand};

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil sim run web",
    "vermeil sim run keyed --machine opteron8380-4x4 --compare all",
    "vermeil sim run sfs --timeline sfs.svg --trace sfs.json",
    "vermeil sim run web --compare none,libasync,mely --spin 1000000 --waits-for-locks --colors-return --batch 10",
    "vermeil sim run server.toml --machine 'node:4 l3:2(size=32MiB) core:8 pu:1' --policy mely",
    "vermeil sim calibrate --out here.toml",
    "vermeil sim run server.ndjson --working-set 4K --machine numa-4x32 --compare all",
    "vermeil sim show server.ndjson --timeline server.svg --show-time 5ms",
    "vermeil sim parity",
    "vermeil sim machines",
    "vermeil sim workloads support",
    "vermeil sim reproduce mely-web",
    "vermeil sim swarm --seeds 1000",
];

/// Run the scheduler on machines that you do not have: virtual cores, caches, memory nodes and
/// links, under a virtual clock.
///
/// The simulator runs the code that schedules real cores: policies, stealing, placement, learned
/// costs. The costs come from a description of the machine. Equal seeds give equal runs on every
/// computer, to the last event.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES), arg_required_else_help = true)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    what: SimSubject,
}

#[derive(Debug, Subcommand)]
enum SimSubject {
    Run(Box<run::RunArgs>),
    Show(show::ShowArgs),
    Machines(list::MachinesArgs),
    Workloads(list::WorkloadsArgs),
    Reproduce(reproduce::ReproduceArgs),
    Swarm(swarm::SwarmArgs),
    Calibrate(calibrate::CalibrateArgs),
    Parity(parity::ParityArgs),
}

impl SimArgs {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Exit {
        match self.what {
            SimSubject::Run(args) => args.run(),
            SimSubject::Show(args) => args.run(),
            SimSubject::Machines(args) => args.run(),
            SimSubject::Workloads(args) => args.run(),
            SimSubject::Reproduce(args) => args.run(),
            SimSubject::Swarm(args) => args.run(),
            SimSubject::Calibrate(args) => args.run(),
            SimSubject::Parity(args) => args.run(),
        }
    }
}
