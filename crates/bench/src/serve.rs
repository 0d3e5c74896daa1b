//! The bench of the web server: the cost of one request, beside nginx, Apache and a floor, on one
//! core.
//!
//! Servers run alone, one after the other, and are started afresh for every run. Runs are
//! interleaved over rounds in a rotating order, because a drift of the machine then affects all
//! servers alike. The plan is in `plan`, the setup of servers in `tune`, one run in `run`, the
//! report in `report`.

pub mod plan;
pub mod report;
pub mod run;
pub mod tune;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::WrkLoad;
use crate::{BenchError, BenchResult};
use plan::{ServeMetric, ServeProgram, ServedBy};
use report::ServeBenchReport;
use run::ServeBench;

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load in each run of a full bench by default: over a thousand requests even at 1 MB,
/// and a full bench within ten minutes. More rounds are more useful than longer rounds.
pub const DURATION: Duration = Duration::from_secs(1);
/// Connections of every run: the number in the project's goal.
pub const CONNECTIONS: usize = 64;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct ServeBenchOptions {
    /// How much of the bench.
    pub size: BenchSize,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Seconds under load of each run.
    pub duration: Duration,
    /// The servers, in the order of the tables.
    pub servers: Vec<ServedBy>,
    /// The binary `vermeil`.
    pub vermeil: PathBuf,
    /// The binary `vermeil-floor`.
    pub floor: PathBuf,
    /// The name of the build of both.
    pub build: &'static str,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

impl ServeBenchOptions {
    /// The load of one run.
    pub fn load(&self) -> WrkLoad {
        WrkLoad { connections: CONNECTIONS, duration: self.duration }
    }
}

/// The places of a full run's results.
#[derive(Clone, Debug)]
pub struct ServeOutputs {
    /// The summary, replaced.
    pub rows: PathBuf,
    /// The page with the generated section.
    pub page: PathBuf,
    /// The folder of the page's pictures, `img` beside the page.
    pub images: PathBuf,
}

impl ServeOutputs {
    /// The places in a repository.
    pub fn of(repository: &Path) -> Self {
        let docs = repository.join("docs");
        Self {
            rows: repository.join("results/serve.tsv"),
            page: docs.join("benchmarks.md"),
            images: docs.join("img"),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, the load sees an error, or the run is interrupted.
/// In every case all started processes are stopped.
pub fn run(options: &ServeBenchOptions, stop: &StopFlag) -> BenchResult<ServeBenchReport> {
    let mut bench = ServeBench::new(options, stop)?;
    bench.tune()?;
    let cells = bench.rounds()?;
    Ok(ServeBenchReport::new(bench, cells))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a row is missing or holds an impossible number.
pub fn smoke(options: &ServeBenchOptions, stop: &StopFlag) -> BenchResult<ServeBenchReport> {
    let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
    let outputs = ServeOutputs::of(folder.path());
    let report = run(options, stop)?;
    report.write(&outputs)?;
    let rows = crate::rows::read(&outputs.rows)?;
    for (program, server) in report.expected() {
        for metric in ServeMetric::ALL {
            let applies = metric != ServeMetric::RatioNginx || report.has(ServedBy::Nginx);
            let applies = applies && (metric != ServeMetric::RatioFloor || report.has_floor());
            if applies && !rows.iter().any(|row| is_sane(row, program, server, metric)) {
                let row = format!("{} {} {}", program.name(), server.name(), metric.name());
                return Err(BenchError::form("results/serve.tsv", format!("no sane row for {row}")));
            }
        }
    }
    let page = std::fs::read_to_string(&outputs.page).map_err(BenchError::path("read", &outputs.page))?;
    let missing = report.expected().find(|(_, server)| !page.contains(server.name()));
    match missing {
        Some((_, server)) => {
            Err(BenchError::form("docs/benchmarks.md", format!("no word of {}", server.name())))
        }
        None => Ok(report),
    }
}

fn is_sane(
    row: &crate::rows::BenchRow,
    program: ServeProgram,
    server: ServedBy,
    metric: ServeMetric,
) -> bool {
    let named = row.program == program.name() && row.variant == server.name() && row.metric == metric.name();
    named && row.low > 0.0 && row.low <= row.median && row.median <= row.high && row.high.is_finite()
}
