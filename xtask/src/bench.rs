//! `cargo xtask bench NAME`: builds the programs of the bench, runs the bench, prints and keeps the
//! results.
//!
//! A full run replaces the summary in results/ and renews a section of docs/benchmarks.md. A run of
//! some servers, programs or policies, or of the smoke size, only prints, because half a comparison
//! does not belong in the documentation.

mod pgo;
mod plain;
mod runtime;
mod serve;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use vermeil_bench::runtime::plan::{BenchProgram, RuntimeVariant};
use vermeil_bench::serve::plan::ServedBy;

use plain::Plain;

use crate::error::{Error, Result};
use crate::steps::run_command;
use crate::workspace::{RELEASE, Workspace, cargo};

/// Duration of a run of the smoke size: enough for every server to answer hundreds of requests.
const SMOKE_DURATION: Duration = Duration::from_millis(100);

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Which bench.
    name: BenchName,
    /// The size of the tests: one short round of the installed peers, without stored results.
    #[arg(long)]
    smoke: bool,
    /// Interleaved rounds. Default: the bench's own default.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    rounds: Option<usize>,
    /// Of bench serve, accept, app, cgi, php, tail, hosts, compression, rates, metrics, tls, load
    /// and find-max: seconds under load of each run. Tenths count. Default: the bench's own
    /// default.
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<f64>,
    /// With the build of `cargo xtask pgo` in place of the release. Not of bench runtime,
    /// mechanisms and pgo.
    #[arg(long, conflicts_with = "smoke")]
    pgo: bool,
    /// Of bench serve: only these servers, by name, separated by commas; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = server)]
    servers: Vec<ServedBy>,
    /// Of bench runtime: only these programs; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = runtime::program)]
    programs: Vec<BenchProgram>,
    /// Of bench runtime: only these policies and peers; prints, but keeps nothing.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = runtime::variant)]
    variants: Vec<RuntimeVariant>,
}

/// The benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchName {
    /// The cost of a request, beside nginx, Apache and a floor.
    Serve,
    /// Every program under every policy of the runtime, beside tokio, smol and rayon.
    Runtime,
    /// The cost of a connection for each request, and of requests beside idle connections, beside
    /// nginx and lighttpd.
    Accept,
    /// One axum program on Vermeil and on tokio, on two cores: skewed connections, and short
    /// requests beside long ones.
    App,
    /// The cost of starting a program from a large process, and of CGI in whole servers.
    Cgi,
    /// The cost of passing a request to PHP, beside nginx and Apache on the same pool.
    Php,
    /// The cost of requests that no cache answers: random hosts and files, beside nginx and
    /// lighttpd.
    Tail,
    /// The cost of loading thousands of hosts from one file or from a file each, beside nginx.
    Hosts,
    /// The cost of a compressed answer, beside nginx, and the delay of a small request beside large
    /// compressions.
    Compression,
    /// The cost of a rate of requests with many clients, beside nginx.
    Rates,
    /// The cost of a request while a monitor reads the metrics.
    Metrics,
    /// The cost of HTTPS: records, handshakes, idle connections, requests beside handshakes; beside
    /// nginx, Apache and h2o.
    Tls,
    /// The gain of each feedback loop and special path, with and without.
    Mechanisms,
    /// The gain of profile-guided optimization.
    Pgo,
    /// The good answers that remain when more requests arrive than can be served, beside nginx.
    Overload,
    /// The cpus that handle packets, and a server's capacity under a flood of packets.
    Knet,
    /// HAProxy's distribution over two servers of unequal speed, by turns and by the weights that
    /// their agents request.
    Balancers,
    /// The number of events that a core simulates in a second.
    Sim,
    /// The cost of a request in the load injector, beside wrk, ab, hey and h2load; the number of
    /// users.
    Load,
    /// The most users of a support site that Vermeil with PHP and nginx with php-fpm serve well.
    FindMax,
}

impl BenchName {
    /// Every bench.
    pub(crate) const ALL: [Self; 20] = [
        Self::Serve,
        Self::Runtime,
        Self::App,
        Self::Cgi,
        Self::Php,
        Self::Accept,
        Self::Tail,
        Self::Hosts,
        Self::Compression,
        Self::Rates,
        Self::Metrics,
        Self::Tls,
        Self::Mechanisms,
        Self::Pgo,
        Self::Overload,
        Self::Knet,
        Self::Balancers,
        Self::Sim,
        Self::Load,
        Self::FindMax,
    ];

    /// The name of the step that runs the smoke size.
    pub(crate) fn smoke_step(self) -> &'static str {
        match self {
            Self::Serve => "bench serve, smoke",
            Self::Runtime => "bench runtime, smoke",
            Self::App => "bench app, smoke",
            Self::Cgi => "bench cgi, smoke",
            Self::Php => "bench php, smoke",
            Self::Accept => "bench accept, smoke",
            Self::Tail => "bench tail, smoke",
            Self::Hosts => "bench hosts, smoke",
            Self::Compression => "bench compression, smoke",
            Self::Rates => "bench rates, smoke",
            Self::Metrics => "bench metrics, smoke",
            Self::Tls => "bench tls, smoke",
            Self::Mechanisms => "bench mechanisms, smoke",
            Self::Pgo => "bench pgo, smoke",
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
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    if args.smoke {
        return smoke(args.name, &args.servers);
    }
    let workspace = Workspace::load()?;
    let duration = args.duration.map(Duration::from_secs_f64);
    let binaries = binaries(args, &workspace)?;
    match (args.name, Plain::of(args.name)) {
        (_, Some(plain)) => plain.full(args.rounds, duration, &binaries, &workspace),
        (BenchName::Runtime, None) => {
            let rounds = args.rounds.unwrap_or(vermeil_bench::runtime::ROUNDS);
            runtime::run(rounds, &args.programs, &args.variants, &binaries, &workspace)
        }
        (BenchName::Pgo, None) => pgo::run(args.rounds, duration, &binaries, &workspace),
        (_, None) => {
            let rounds = args.rounds.unwrap_or(vermeil_bench::serve::ROUNDS);
            let duration = duration.unwrap_or(vermeil_bench::serve::DURATION);
            serve::run(rounds, duration, &args.servers, &binaries, &workspace)
        }
    }
}

/// The programs of a full run.
struct BenchBinaries {
    folder: PathBuf,
    /// The name of the build, for reports.
    build: &'static str,
}

/// Builds the programs of a full run.
fn binaries(args: &BenchArgs, workspace: &Workspace) -> Result<BenchBinaries> {
    let (folder, build) = match (args.name, args.pgo) {
        (BenchName::Runtime | BenchName::Mechanisms | BenchName::Pgo, true) => {
            return Err(Error::form("--pgo", "this bench has builds of its own"));
        }
        (_, true) => (crate::pgo::build_last(workspace)?, "release, by cargo xtask pgo (--pgo)"),
        (BenchName::Mechanisms, false) => (build(workspace, BuildProfile::Switches)?, "switches"),
        (_, false) => (build(workspace, BuildProfile::Release)?, "release"),
    };
    Ok(BenchBinaries { folder, build })
}

/// Runs the smoke size of one bench.
pub(crate) fn smoke(name: BenchName, servers: &[ServedBy]) -> Result<()> {
    let workspace = Workspace::load()?;
    match (name, Plain::of(name)) {
        (_, Some(plain)) => plain.smoke(&workspace),
        (BenchName::Runtime, None) => runtime::smoke(&workspace),
        (BenchName::Pgo, None) => pgo::smoke(&workspace),
        (_, None) => serve::smoke(servers, &workspace),
    }
}

/// Prints the location of the results.
fn kept(rows: &Path, page: &Path) {
    println!("\nkept in {} and {}", rows.display(), page.display());
}

/// The profile of the binaries: numbers need the release profile, a smoke test uses the tests'
/// build.
#[derive(Clone, Copy)]
enum BuildProfile {
    Dev,
    Release,
    /// The release profile, with a switch for each mechanism.
    Switches,
}

impl BuildProfile {
    /// The arguments that choose the packages. With the tests of the whole workspace, cargo uses
    /// the features of `cargo test --workspace`; otherwise it would compile nearly all again.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &["--workspace", "--tests"],
            Self::Release => &RELEASE,
            Self::Switches => &[
                "--profile",
                "switches",
                "--package",
                "vermeil-bench",
                "--package",
                "vermeil-cli",
                "--features",
                "vermeil-cli/switches",
            ],
        }
    }

    /// cargo's output folder, below the target folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
            Self::Switches => "switches",
        }
    }
}

/// Builds all programs of the benches, by one command, so that nothing is built twice; returns the
/// folder of the binaries.
fn build(workspace: &Workspace, profile: BuildProfile) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--bins"]).args(profile.flags()).current_dir(&workspace.root);
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

fn server(text: &str) -> std::result::Result<ServedBy, String> {
    let names = || ServedBy::ALL.map(ServedBy::name).join(", ");
    ServedBy::from_name(text).ok_or_else(|| format!("the servers are {}", names()))
}
