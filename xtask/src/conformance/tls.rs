//! `cargo xtask conformance tls`: HTTPS of the real program, judged by scanners and clients that
//! other projects wrote.
//!
//! Starts `vermeil serve` with certificates of a test authority, and prints a line for each check.
//! The end-to-end tests cover much of the same ground with one client; `docs/https.md` says where
//! each case is. Not part of the short run, because the scanners take minutes.

mod authority;
mod changes;
mod clients;
mod handshakes;
mod hostile;
mod scanners;
mod server;

use std::process::Command;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::{TestTally, run_command};
use crate::workspace::{Workspace, cargo};
use changes::ChangesSize;
use server::ConformanceSite;

/// The arguments of `conformance tls`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConformanceTlsArgs {
    /// Also a million requests during 20 reloads, 5 take-overs and 5 changes of certificates, with
    /// a release build.
    #[arg(long)]
    full: bool,
    /// Only this part.
    #[arg(long, value_name = "PART")]
    only: Option<ConformancePart>,
}

/// The parts of the judgement of HTTPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ConformancePart {
    /// testssl.sh and sslyze.
    Scanners,
    /// Every version, key exchange and signature of openssl.
    Handshakes,
    /// curl, Go, Python and Chromium.
    Clients,
    /// Clients that attack.
    Hostile,
    /// Requests during reloads, take-overs and changes of certificates.
    Changes,
}

impl ConformancePart {
    const ALL: [Self; 5] = [Self::Handshakes, Self::Clients, Self::Hostile, Self::Changes, Self::Scanners];

    fn run(self, site: &ConformanceSite, size: ChangesSize, verdicts: &mut Verdicts) -> Result<()> {
        match self {
            Self::Scanners => scanners::run(site, verdicts),
            Self::Handshakes => handshakes::run(site, verdicts),
            Self::Clients => clients::run(site, verdicts),
            Self::Hostile => hostile::run(site, verdicts),
            Self::Changes => changes::run(site, size, verdicts),
        }
    }
}

/// The results of the checks. Each is printed at once.
#[derive(Debug, Default)]
struct Verdicts {
    passed: usize,
    failures: Vec<String>,
}

impl Verdicts {
    /// Takes the result of a check: a remark, or the problem.
    fn add(&mut self, name: &str, result: std::result::Result<String, String>) {
        match result {
            Ok(remark) => {
                println!("ok      {name}: {remark}");
                self.passed += 1;
            }
            Err(problem) => {
                println!("FAILED  {name}: {problem}");
                self.failures.push(format!("{name}: {problem}"));
            }
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &ConformanceTlsArgs) -> Result<()> {
    let mut tally = TestTally::default();
    let size = if args.full { ChangesSize::FULL } else { ChangesSize::SMALL };
    let result = judge(args.only, size, &mut tally);
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    result
}

/// Everything about HTTPS, in the size of the tests.
pub(crate) fn all(tally: &mut TestTally) -> Result<()> {
    judge(None, ChangesSize::SMALL, tally)
}

fn judge(only: Option<ConformancePart>, size: ChangesSize, tally: &mut TestTally) -> Result<()> {
    packages::install_tls_clients()?;
    for program in ["openssl", "curl"] {
        find_program(program).ok_or_else(|| Error::form(program, "is not installed"))?;
    }
    let workspace = Workspace::load()?;
    let mut build = cargo();
    build.args(["build", "--package", "vermeil-cli"]).current_dir(&workspace.root);
    if size.is_release {
        build.arg("--release");
    }
    run_command(&mut build)?;
    let folder = if size.is_release { "release" } else { "debug" };
    let site = ConformanceSite::new(workspace.target.join(folder).join("vermeil"), &workspace.target)?;
    let mut verdicts = Verdicts::default();
    for part in ConformancePart::ALL {
        if only.is_none_or(|only| only == part) {
            part.run(&site, size, &mut verdicts)?;
        }
    }
    tally.passed += verdicts.passed;
    tally.failed += verdicts.failures.len();
    Error::unless_empty(verdicts.failures)
}

/// The output of a command on both streams, and whether the command succeeded.
struct CommandOutput {
    text: String,
    succeeded: bool,
}

impl CommandOutput {
    fn of(command: &mut Command) -> Result<Self> {
        let output = command.output().map_err(Error::path("run", command.get_program().as_ref()))?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Self { text: text.concat(), succeeded: output.status.success() })
    }

    /// The last lines, for a message.
    fn tail(&self) -> String {
        let lines: Vec<&str> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}
