//! The bench of starting programs: what one start costs a large process, and what CGI costs whole servers.
//!
//! Two parts. *Starts*: one process holds memory on a kind of pages, and descriptors, and starts a program that does
//! nothing, by each way there is (`starts`, and the binary `vermeil-starts`). *Servers*: Vermeil, Apache, lighttpd and
//! nginx with fcgiwrap run the same program in C, each as small as it starts and holding gigabytes (`servers`). Rounds
//! are interleaved. What becomes of the numbers stands in `report`.

pub mod points;
pub mod programs;
pub mod report;
pub mod servers;
pub mod starts;

use std::path::PathBuf;
use std::time::Duration;

use crate::stop::Stop;
use crate::{Error, Result};
use points::Points;
use programs::Programs;
use report::{Outputs, Report};

/// Rounds of a full run, unless told otherwise: the least that has a middle and a spread. Filling gigabytes anew for each
/// takes longer than measuring.
pub const ROUNDS: usize = 3;
/// Time under load in each run of a server.
pub const DURATION: Duration = Duration::from_secs(3);
/// Connections of every run of a server, each with one request in flight: as many as the programs of one core keep busy,
/// and few enough that no server runs out of processes.
pub const CONNECTIONS: usize = 4;

/// How much of the bench is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Everything, for numbers; what is not installed is an error.
    Full,
    /// Just enough to see that it works; what this machine cannot run is left out, loudly.
    Smoke,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of the bench.
    pub size: Size,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Time under load of each run of a server.
    pub duration: Duration,
    /// The binary `vermeil`.
    pub vermeil: PathBuf,
    /// The binary `vermeil-starts`.
    pub starts: PathBuf,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

/// Runs the bench.
///
/// # Errors
/// When a program cannot be compiled, a server does not start or answers wrongly, or the run is interrupted. Everything
/// started has been stopped, and pages that were reserved have been given back, in every case.
pub fn run(options: &Options, stop: &Stop) -> Result<Report> {
    let programs = Programs::compile()?;
    let mut points = Points::default();
    starts::run(options, &programs, stop, &mut points)?;
    servers::run(options, &programs, stop, &mut points)?;
    Ok(Report::new(options, points))
}

/// Runs the smoke size and checks the shape of everything it leaves, in a temporary folder; asserts nothing about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &Options, stop: &Stop) -> Result<Report> {
    let folder = tempfile::tempdir().map_err(Error::thing("make", "a temporary folder"))?;
    let outputs = Outputs::of(folder.path());
    let report = run(options, stop)?;
    report.write(&outputs)?;
    let rows = crate::rows::read(&outputs.rows)?;
    let is_sane = |row: &crate::rows::Row| row.low >= 0.0 && row.low <= row.median && row.median <= row.high;
    if let Some(row) = rows.iter().find(|row| !is_sane(row)) {
        return Err(Error::form("results/cgi.ndjson", format!("an impossible number: {row:?}")));
    }
    for variant in ["fork", "posix_spawn", "vfork", "spawner", servers::Server::Vermeil.name()] {
        if !rows.iter().any(|row| row.variant == variant) {
            return Err(Error::form("results/cgi.ndjson", format!("no row of {variant}")));
        }
    }
    Ok(report)
}
