//! The bench of HTTPS: the cost of records and handshakes, beside nginx, Apache and h2o.
//!
//! Three parts. *Cost*: on one core, cpu time per request over kept connections, and cpu time per
//! connection with a full or a resumed handshake. *Idle*: memory of connections that wait for a
//! next request. *Beside*: times of requests on two cores while other clients make handshakes, or
//! begin as many as the server answers.
//! Servers are started afresh for each run, rounds are interleaved, and their order rotates.
//! `servers` has the configurations, `injector` the load, `report` the tables.

mod beside;
mod cost;
mod flood;
mod idle;
mod injector;
pub(crate) mod keys;
mod report;
mod servers;

use std::time::Duration;

use vermeil_ablation::Mechanism;

use crate::machine::BenchCpus;
use crate::options::BenchOptions;
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};
use keys::TlsKeys;
use servers::TlsServer;

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each measured run of the first part: thousands of handshakes.
pub const DURATION: Duration = Duration::from_secs(2);

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, the load sees an error, or the run is interrupted.
/// In every case all started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let bench = TlsBench::new(options, TlsServer::here(options.size)?, stop)?;
    let [mut costs, mut idle_points, mut beside_points] = <[Points; 3]>::default();
    cost::run(&bench, &mut costs)?;
    idle::run(&bench, &mut idle_points)?;
    beside::run(&bench, &mut beside_points)?;
    report::report(&bench, &costs, &idle_points, &beside_points)
}

/// The 99th percentile of the times of requests to Vermeil, in microseconds, beside handshakes with
/// an RSA key. Once for each element of `order`, which is a mechanism that the server leaves out.
///
/// # Errors
/// As for [`run()`].
pub(crate) fn p99_us_beside_handshakes(
    options: &BenchOptions,
    order: [Option<Mechanism>; 2],
    stop: &StopFlag,
) -> BenchResult<[f64; 2]> {
    let mut bench = TlsBench::new(options, vec![TlsServer::Vermeil], stop)?;
    let mut p99_us = [0.0; 2];
    for (p99_us, without) in p99_us.iter_mut().zip(order) {
        stop.check()?;
        bench.without = without;
        *p99_us = beside::p99_us(&bench)?;
    }
    Ok(p99_us)
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible. `None` without the program
/// openssl, which makes the certificates.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<Option<BenchReport>> {
    if !crate::peers::is_here(BenchSize::Smoke, ("openssl", "openssl"))? {
        return Ok(None);
    }
    let report = run(options, stop)?;
    let metrics = ["cpu_us", "idle_bytes", "p99_us"];
    report.check(&metrics.map(|metric| (TlsServer::Vermeil.name(), metric)))?;
    Ok(Some(report))
}

/// The state shared by all parts.
struct TlsBench<'a> {
    options: &'a BenchOptions,
    servers: Vec<TlsServer>,
    cpus: BenchCpus,
    keys: TlsKeys,
    site: BenchSite,
    stop: &'a StopFlag,
    /// The mechanism that Vermeil leaves out.
    without: Option<Mechanism>,
}

impl<'a> TlsBench<'a> {
    fn new(options: &'a BenchOptions, servers: Vec<TlsServer>, stop: &'a StopFlag) -> BenchResult<Self> {
        let site = BenchSite::new(&cost::FILES)?;
        let keys = TlsKeys::make(&site.state_folder("keys")?)?;
        Ok(Self { options, servers, cpus: BenchCpus::allowed()?, keys, site, stop, without: None })
    }

    fn is_full(&self) -> bool {
        self.options.size == BenchSize::Full
    }

    fn connections(&self) -> usize {
        if self.is_full() { cost::CONNECTIONS } else { cost::CONNECTIONS_SMOKE }
    }

    /// Runs `sample` on each of `runs` in each round, in a rotating order.
    fn rounds<R: Copy>(&self, runs: &[R], mut sample: impl FnMut(R) -> BenchResult<()>) -> BenchResult<()> {
        for round in 0..self.options.rounds {
            let mut order = runs.to_vec();
            order.rotate_left(round % runs.len());
            for run in order {
                self.stop.check()?;
                sample(run)?;
            }
        }
        Ok(())
    }
}

/// A metric of this bench with its unit.
type TlsMetric = (&'static str, &'static str);

/// Keeps a number of one round.
fn push(points: &mut Points, program: &str, server: TlsServer, (metric, unit): TlsMetric, value: f64) {
    let key = PointKey { program: program.into(), variant: server.name().into(), metric, unit };
    points.push(key, value);
}

/// An error about the load of `server`.
fn wrong_load(server: TlsServer, problem: String) -> BenchError {
    BenchError::peer(server.name(), format!("under load: {problem}"))
}
