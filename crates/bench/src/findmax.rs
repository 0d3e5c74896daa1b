//! The search for the largest number of well-served users of a support site: Vermeil with PHP, and
//! nginx with php-fpm.
//!
//! Both serve the same files and run the same PHP on one cpu, with the same number of children; the
//! injector and PHP's back end have the other cpu. `vermeil load support --find-max` does the
//! search, with think times and downloads ten times as fast, so that a trial takes seconds. The
//! report is in `report`.

mod report;
pub mod servers;

use std::time::Duration;

use vermeil_load::report::Record;

use crate::load::injectors::said_by;
use crate::load::{only, vermeil_load};
use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::is_here;
use crate::peers::process::PeerProcess;
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};
use servers::FindmaxServer;

/// Children of either pool. Children wait for the back end, so there are rather more children than
/// cpus, because the cpu must be the limit.
const CHILDREN: usize = 16;
/// The speed-up of the users' think times and downloads.
const COMPRESS: &str = "10";

/// The counted part of a trial by default: several times the limit for a good page, because
/// otherwise a growing queue would not show in the trial.
pub const DURATION: Duration = Duration::from_secs(15);

/// Users of the first trial of a full run: fewer than each server has held on a cpu, which saves
/// trials.
const USERS_FROM: &str = "256";

/// The minimum, because shorter trials are not trusted.
const WINDOW_MIN: Duration = Duration::from_secs(1);

fn window(options: &BenchOptions) -> Duration {
    options.duration.max(WINDOW_MIN)
}

/// Runs the bench.
///
/// # Errors
/// A server does not start, the injector fails, or the run is interrupted. In every case all
/// started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let (site, cpus) = (BenchSite::new(&[])?, BenchCpus::allowed()?);
    let (backend, address) = start_backend(options, &site, cpus)?;
    let mut files = std::process::Command::new(&options.vermeil);
    // Four directories, which fit into any machine's page cache; the minimum is one.
    let scale = if options.size == BenchSize::Full { "16" } else { "1" };
    files.args(["load", "files", "support", "--scale", scale, "--backend", &address]).arg(site.root());
    said_by(&mut files, &[0])?;
    let mut found = Vec::new();
    for server in servers_here(options.size)? {
        stop.check()?;
        let running = server.start(options, &site, cpus)?;
        let record = search(options, cpus, &running.url)?;
        running.stop()?;
        found.push((server, record));
    }
    backend.stop()?;
    Ok(report::report(options, &found))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let here = servers_here(options.size)?;
    report.check(&here.iter().map(|server| (server.name(), "users")).collect::<Vec<_>>())?;
    Ok(report)
}

/// The installed servers; in a full run all must be installed.
fn servers_here(size: BenchSize) -> BenchResult<Vec<FindmaxServer>> {
    let mut here = Vec::new();
    for server in FindmaxServer::ALL {
        let mut needs = server.needs().iter();
        if needs.try_fold(true, |all, &needed| Ok::<_, BenchError>(all && is_here(size, needed)?))? {
            here.push(server);
        }
    }
    Ok(here)
}

/// PHP's back end, on the injector's cpu.
fn start_backend(
    options: &BenchOptions,
    site: &BenchSite,
    cpus: BenchCpus,
) -> BenchResult<(PeerProcess, String)> {
    let (address, state) = (BenchNetwork::Loopback.free_address()?, site.state_folder("backend")?);
    let mut command = BenchNetwork::Loopback.client_command(&options.vermeil, cpus.client);
    command.args(["load", "backend", "--listen", &address.to_string(), "--cores", &only(cpus.client)]);
    let backend = PeerProcess::start("vermeil load backend", command, &state)?;
    backend.wait_until_listening(&BenchNetwork::Loopback, address)?;
    Ok((backend, address.to_string()))
}

fn search(options: &BenchOptions, cpus: BenchCpus, url: &str) -> BenchResult<Record> {
    let mut command = vermeil_load(&options.vermeil, cpus.client);
    command.args(["support", url, "--find-max", "--compress", COMPRESS]);
    command.args(["-d", &format!("{}ms", window(options).as_millis())]);
    match options.size {
        BenchSize::Full => command.args(["--users-from", USERS_FROM, "--precision", "10", "--confirm", "1"]),
        BenchSize::Smoke => command.args(["--users-from", "1", "--users-max", "2", "--confirm", "0"]),
    };
    let (ramp_up, warm_up) = (window(options) / 6, window(options) / 3);
    command.args(["--ramp-up", &format!("{}ms", ramp_up.as_millis())]);
    command.args(["--warm-up", &format!("{}ms", warm_up.as_millis())]);
    // 5: a trial could not be trusted; the table shows this.
    let said = said_by(&mut command, &[0, 5])?;
    serde_json::from_str(&said)
        .map_err(|error| BenchError::form("vermeil load", format!("{error} in: {said}")))
}
