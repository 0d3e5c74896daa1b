//! `cargo xtask bench NAME`: builds what the bench starts, runs it, prints it, and keeps the results.
//!
//! A full run appends to results/ and renews its section of docs/benchmarks.md. A run of some servers, programs or
//! policies, or of the smoke size, only prints: half a comparison does not belong in the documentation.

mod runtime;

use std::time::Duration;

use clap::ValueEnum;
use vermeil_bench::runtime::plan::{Program, Variant};
use vermeil_bench::serve::plan::Server;
use vermeil_bench::serve::report::Report;
use vermeil_bench::serve::{self, Options, Outputs, Size};
use vermeil_bench::stop::Stop;

use crate::error::Result;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};

/// How long a run of the smoke size is: enough for every server to answer thousands of requests.
const SMOKE_DURATION: Duration = Duration::from_millis(300);

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which bench.
    name: Name,
    /// The size the tests run: one short round of what is installed, kept nowhere.
    #[arg(long)]
    smoke: bool,
    /// Interleaved rounds.
    #[arg(long, value_name = "N", default_value_t = serve::ROUNDS, value_parser = at_least_one)]
    rounds: usize,
    /// Of bench serve: seconds under load of each run; tenths count.
    #[arg(long, value_name = "S", default_value_t = serve::DURATION.as_secs_f64(), value_parser = seconds)]
    duration: f64,
    /// Of bench serve: only these servers, by name, separated by commas; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = server)]
    servers: Vec<Server>,
    /// Of bench runtime: only these programs; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = runtime::program)]
    programs: Vec<Program>,
    /// Of bench runtime: only these policies and peers; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = runtime::variant)]
    variants: Vec<Variant>,
}

/// The benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// What one request costs, beside nginx, Apache and a floor.
    Serve,
    /// Every program under every policy of the runtime, beside tokio, smol and rayon.
    Runtime,
}

impl Name {
    /// Every bench.
    pub(crate) const ALL: [Self; 2] = [Self::Serve, Self::Runtime];

    /// What the step that runs the smoke size is called.
    pub(crate) fn smoke_step(self) -> &'static str {
        match self {
            Self::Serve => "bench serve, smoke",
            Self::Runtime => "bench runtime, smoke",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.smoke {
        return smoke(args.name, &args.servers);
    }
    match args.name {
        Name::Serve => serve(args),
        Name::Runtime => runtime::run(args.rounds, &args.programs, &args.variants),
    }
}

fn serve(args: &Args) -> Result<()> {
    let workspace = Workspace::load()?;
    let options = Options {
        size: Size::Full,
        rounds: args.rounds,
        duration: Duration::from_secs_f64(args.duration),
        ..options(&workspace, Profile::Release, &args.servers)?
    };
    let report = serve::run(&options, &Stop::on_signals()?)?;
    print(&report);
    if args.servers.is_empty() {
        let outputs = Outputs::of(&workspace.root);
        report.write(&outputs)?;
        println!("\nkept in {} and {}", outputs.rows.display(), outputs.page.display());
    } else {
        println!("\nnot kept: only some servers ran");
    }
    Ok(())
}

/// Runs the smoke size of one bench.
pub(crate) fn smoke(name: Name, servers: &[Server]) -> Result<()> {
    match name {
        Name::Serve => {}
        Name::Runtime => return runtime::smoke(),
    }
    let workspace = Workspace::load()?;
    let options = Options {
        size: Size::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        ..options(&workspace, Profile::Dev, servers)?
    };
    print(&serve::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn print(report: &Report) {
    println!("\n{}", report.to_text());
}

/// How the binaries are built: numbers need the release profile, a smoke test is content with what the tests built.
#[derive(Clone, Copy)]
enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    /// Where cargo puts what it builds, below the target folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds the binaries the bench starts, and the options that name them.
fn options(workspace: &Workspace, profile: Profile, servers: &[Server]) -> Result<Options> {
    let mut build = cargo();
    build.args(["build", "--package", "vermeil-bench", "--package", "vermeil-cli", "--bins"]);
    build.args(profile.flags()).current_dir(&workspace.root);
    run_command(&mut build)?;
    let binaries = workspace.target.join(profile.folder());
    Ok(Options {
        size: Size::Full,
        rounds: serve::ROUNDS,
        duration: serve::DURATION,
        servers: if servers.is_empty() { Server::ALL.to_vec() } else { servers.to_vec() },
        vermeil: binaries.join("vermeil"),
        floor: binaries.join("vermeil-floor"),
        repository: workspace.root.clone(),
    })
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a number from 1".into()),
        Ok(rounds) => Ok(rounds),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds from 0.1 to 600".into()),
    }
}

fn server(text: &str) -> std::result::Result<Server, String> {
    let names = || Server::ALL.map(Server::name).join(", ");
    Server::from_name(text).ok_or_else(|| format!("the servers are {}", names()))
}
