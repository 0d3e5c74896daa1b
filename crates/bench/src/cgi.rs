//! The bench of starting programs: the cost of a start from a large process, and the cost of CGI
//! for whole servers.
//!
//! *Starts*: one process holds memory on a kind of pages, and descriptors, and starts a program
//! that does nothing, by each way (`starts`, and the binary `vermeil-starts`). *Servers*: Vermeil,
//! Apache, lighttpd and nginx with fcgiwrap run the same program in C, each freshly started and
//! each holding gigabytes (`servers`); the floor is a loop that only starts the program (`floor`).
//! *Abort*: the time until a program is dead whose client has gone (`abort`). Rounds are
//! interleaved. The report is in `report`.

mod abort;
mod configured;
mod floor;
pub mod programs;
mod report;
pub mod servers;
pub mod starts;
pub mod symbols;

use std::time::Duration;

use crate::BenchResult;
use crate::options::BenchOptions;
use crate::points::Points;
use crate::report::BenchReport;
use crate::stop::StopFlag;
use programs::CompiledPrograms;

/// Rounds of a full run by default: the smallest number with a median and a spread. Filling
/// gigabytes anew for each round takes longer than measuring.
pub const ROUNDS: usize = 3;
/// Time under load in each run of a server: with the starts, fills and ends of sixty runs, the
/// bench takes less than ten minutes.
pub const DURATION: Duration = Duration::from_secs(2);
/// Connections of every run of a server, each with one request in flight: enough to keep one core
/// busy with programs, and few enough that no server runs out of processes.
pub const CONNECTIONS: usize = 4;

/// The least duration of a run of the smoke size, because four `php-cgi` at once on one cpu take a
/// tenth of a second to start, and several tenths on a busy machine.
const SMOKE_MIN: Duration = Duration::from_millis(500);

/// Runs the bench.
///
/// # Errors
/// A program cannot be compiled, a server does not start or answers wrongly, or the run is
/// interrupted. In every case all started processes are stopped, and reserved pages are given back.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let programs = CompiledPrograms::compile()?;
    let mut points = Points::default();
    starts::run(options, &programs, stop, &mut points)?;
    abort::run(options, &programs, stop, &mut points)?;
    let profiles = servers::run(options, &programs, stop, &mut points)?;
    Ok(report::report(options, &points, &profiles))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let duration = options.duration.max(SMOKE_MIN);
    let report = run(&BenchOptions { duration, ..options.clone() }, stop)?;
    let ways = ["fork", "posix_spawn", "vfork", "spawner", "spawner_several"].map(|way| (way, "blocked_us"));
    report.check(
        &[
            &ways[..],
            &[(servers::CgiServer::Vermeil.name(), "per_cpu_s"), (floor::NAME, "per_cpu_s")],
            &[("vermeil-uring", "gone_us"), ("vermeil-epoll", "gone_us"), (floor::NAME, "gone_us")],
        ]
        .concat(),
    )?;
    Ok(report)
}
