//! `cargo xtask bench NAME`: builds what the bench starts, runs it, prints it, and keeps the results.
//!
//! A full run appends to results/ and renews its section of docs/benchmarks.md. A run of some servers, programs or
//! policies, or of the smoke size, only prints: half a comparison does not belong in the documentation.

mod plain;
mod runtime;
mod serve;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use vermeil_bench::runtime::plan::{Program, Variant};
use vermeil_bench::serve::plan::Server;

use plain::Plain;

use crate::error::Result;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};

/// How long a run of the smoke size is: enough for every server to answer hundreds of requests.
const SMOKE_DURATION: Duration = Duration::from_millis(100);

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which bench.
    name: Name,
    /// The size the tests run: one short round of what is installed, kept nowhere.
    #[arg(long)]
    smoke: bool,
    /// Interleaved rounds. Default: what the bench says of itself.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    rounds: Option<usize>,
    /// Of bench serve, cgi, php, hosts, load and find-max: seconds under load of each run; tenths count. Default: what the bench says of itself.
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<f64>,
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
    /// What starting a program costs a large process, and CGI whole servers.
    Cgi,
    /// What passing a request to PHP costs, beside nginx and Apache on the same pool.
    Php,
    /// What thousands of virtual hosts take to load and to find, beside nginx.
    Hosts,
    /// What is left of the good answers when more arrives than can be served, beside nginx.
    Overload,
    /// Where packets are handled, and what a flood of them leaves of a server.
    Knet,
    /// What HAProxy makes of two servers of unequal speed, by turns and by what their agents ask for.
    Balancers,
    /// How many events a core simulates in a second.
    Sim,
    /// What a request costs the load injector, beside wrk, ab, hey and h2load; the users it holds.
    Load,
    /// The most users of a support site that Vermeil with PHP and nginx with php-fpm serve well.
    FindMax,
}

impl Name {
    /// Every bench.
    pub(crate) const ALL: [Self; 11] = [
        Self::Serve,
        Self::Runtime,
        Self::Cgi,
        Self::Php,
        Self::Hosts,
        Self::Overload,
        Self::Knet,
        Self::Balancers,
        Self::Sim,
        Self::Load,
        Self::FindMax,
    ];

    /// What the step that runs the smoke size is called.
    pub(crate) fn smoke_step(self) -> &'static str {
        match self {
            Self::Serve => "bench serve, smoke",
            Self::Runtime => "bench runtime, smoke",
            Self::Cgi => "bench cgi, smoke",
            Self::Php => "bench php, smoke",
            Self::Hosts => "bench hosts, smoke",
            Self::Overload => "bench overload, smoke",
            Self::Knet => "bench knet, smoke",
            Self::Balancers => "bench balancers, smoke",
            Self::Sim => "bench sim, smoke",
            Self::Load => "bench load, smoke",
            Self::FindMax => "bench find-max, smoke",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.smoke {
        return smoke(args.name, &args.servers);
    }
    let workspace = Workspace::load()?;
    let duration = args.duration.map(Duration::from_secs_f64);
    match (args.name, Plain::of(args.name)) {
        (_, Some(plain)) => plain.full(args.rounds, duration, &workspace),
        (Name::Runtime, None) => {
            let rounds = args.rounds.unwrap_or(vermeil_bench::runtime::ROUNDS);
            runtime::run(rounds, &args.programs, &args.variants, &workspace)
        }
        (_, None) => {
            let rounds = args.rounds.unwrap_or(vermeil_bench::serve::ROUNDS);
            let duration = duration.unwrap_or(vermeil_bench::serve::DURATION);
            serve::run(rounds, duration, &args.servers, &workspace)
        }
    }
}

/// Runs the smoke size of one bench.
pub(crate) fn smoke(name: Name, servers: &[Server]) -> Result<()> {
    let workspace = Workspace::load()?;
    match (name, Plain::of(name)) {
        (_, Some(plain)) => plain.smoke(&workspace),
        (Name::Runtime, None) => runtime::smoke(&workspace),
        (_, None) => serve::smoke(servers, &workspace),
    }
}

/// Says where results are kept.
fn kept(rows: &Path, page: &Path) {
    println!("\nkept in {} and {}", rows.display(), page.display());
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

/// Builds all that benches start, by one command, so that nothing is built twice; gives the folder of the binaries.
fn build(workspace: &Workspace, profile: Profile) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--package", "vermeil-bench", "--package", "vermeil-cli", "--bins"]);
    build.args(profile.flags()).current_dir(&workspace.root);
    run_command(&mut build)?;
    Ok(workspace.target.join(profile.folder()))
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
