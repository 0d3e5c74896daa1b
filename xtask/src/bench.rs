//! `cargo xtask bench NAME`: builds what the bench starts, runs it, prints it, and keeps the results.
//!
//! A full run appends to results/ and renews its section of docs/benchmarks.md. A run of some servers, programs or
//! policies, or of the smoke size, only prints: half a comparison does not belong in the documentation.

mod load;
mod overload;
mod runtime;
mod sim;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use vermeil_bench::cgi;
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
    /// Interleaved rounds. Default: what the bench says of itself.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    rounds: Option<usize>,
    /// Of bench serve, cgi, load and find-max: seconds under load of each run; tenths count. Default: what the bench says of itself.
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
    /// What is left of the good answers when more arrives than can be served, beside nginx.
    Overload,
    /// How many events a core simulates in a second.
    Sim,
    /// What a request costs the load injector, beside wrk, ab and h2load; the users it holds.
    Load,
    /// The most users of a support site that Vermeil with PHP and nginx with php-fpm serve well.
    FindMax,
}

impl Name {
    /// Every bench.
    pub(crate) const ALL: [Self; 7] =
        [Self::Serve, Self::Runtime, Self::Cgi, Self::Overload, Self::Sim, Self::Load, Self::FindMax];

    /// What the step that runs the smoke size is called.
    pub(crate) fn smoke_step(self) -> &'static str {
        match self {
            Self::Serve => "bench serve, smoke",
            Self::Runtime => "bench runtime, smoke",
            Self::Cgi => "bench cgi, smoke",
            Self::Overload => "bench overload, smoke",
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
    match args.name {
        Name::Serve => run_serve(args, &workspace),
        Name::Runtime => {
            let rounds = args.rounds.unwrap_or(vermeil_bench::runtime::ROUNDS);
            runtime::run(rounds, &args.programs, &args.variants)
        }
        Name::Cgi => run_cgi(args, &workspace),
        Name::Overload => overload::run(args.rounds.unwrap_or(vermeil_bench::overload::ROUNDS), &workspace),
        Name::Sim => sim::run(args.rounds.unwrap_or(vermeil_bench::sim::ROUNDS), &workspace),
        Name::Load => {
            let duration = args.duration.map_or(vermeil_bench::load::DURATION, Duration::from_secs_f64);
            load::run(args.rounds.unwrap_or(vermeil_bench::load::ROUNDS), duration, &workspace)
        }
        Name::FindMax => {
            let window = args.duration.map_or(vermeil_bench::findmax::WINDOW, Duration::from_secs_f64);
            load::find_max(window, &workspace)
        }
    }
}

fn run_cgi(args: &Args, workspace: &Workspace) -> Result<()> {
    let options = cgi::Options {
        size: cgi::Size::Full,
        rounds: args.rounds.unwrap_or(cgi::ROUNDS),
        duration: args.duration.map_or(cgi::DURATION, Duration::from_secs_f64),
        ..cgi_options(workspace, Profile::Release)?
    };
    let report = cgi::run(&options, &Stop::on_signals()?)?;
    println!("\n{}", report.to_text());
    let outputs = cgi::report::Outputs::of(&workspace.root);
    report.write(&outputs)?;
    println!("\nkept in {} and {}", outputs.rows.display(), outputs.page.display());
    Ok(())
}

fn run_serve(args: &Args, workspace: &Workspace) -> Result<()> {
    let options = Options {
        size: Size::Full,
        rounds: args.rounds.unwrap_or(serve::ROUNDS),
        duration: args.duration.map_or(serve::DURATION, Duration::from_secs_f64),
        ..options(workspace, Profile::Release, &args.servers)?
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
    let workspace = Workspace::load()?;
    if name == Name::Runtime {
        return runtime::smoke();
    }
    if name == Name::Sim {
        return sim::smoke(&workspace);
    }
    if name == Name::Overload {
        return overload::smoke(&workspace);
    }
    if name == Name::Load {
        return load::smoke(&workspace);
    }
    if name == Name::FindMax {
        return load::find_max_smoke(&workspace);
    }
    if name == Name::Cgi {
        let options = cgi_options(&workspace, Profile::Dev)?;
        println!("\n{}", cgi::smoke(&options, &Stop::on_signals()?)?.to_text());
        return Ok(());
    }
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

/// The options of the smoke size of `cgi`, with binaries of `profile`.
fn cgi_options(workspace: &Workspace, profile: Profile) -> Result<cgi::Options> {
    let binaries = build(workspace, profile)?;
    Ok(cgi::Options {
        size: cgi::Size::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        vermeil: binaries.join("vermeil"),
        starts: binaries.join("vermeil-starts"),
        repository: workspace.root.clone(),
    })
}

/// Builds the binaries that benches start; gives their folder.
fn build(workspace: &Workspace, profile: Profile) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--package", "vermeil-bench", "--package", "vermeil-cli", "--bins"]);
    build.args(profile.flags()).current_dir(&workspace.root);
    run_command(&mut build)?;
    Ok(workspace.target.join(profile.folder()))
}

/// The options of `serve`, with binaries of `profile`.
fn options(workspace: &Workspace, profile: Profile, servers: &[Server]) -> Result<Options> {
    let binaries = build(workspace, profile)?;
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
