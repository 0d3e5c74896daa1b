//! The bench of PHP over FastCGI: what a request costs the server that passes it on, and what it costs PHP.
//!
//! Vermeil, nginx and Apache use the same pool of php-fpm, on one cpu with them; the load has the other. Two programs: one that
//! says hello, so that all but nothing is left of PHP, and `phpinfo()`, some 80 KB. Rounds are interleaved and their
//! order rotates. What becomes of the numbers stands in `report`.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::machine::Cpus;
use crate::measure::CpuTime;
use crate::network::Network;
use crate::options::Options;
use crate::peers::process::Process;
use crate::peers::vermeil::{self, Io};
use crate::peers::{Setting, apache, fpm, is_here, nginx};
use crate::points::{Key, Points};
use crate::probe::Target;
use crate::report::Report;
use crate::site::Site;
use crate::size::Size;
use crate::stop::Stop;
use crate::wrk::{Load, Wrk};
use crate::{Error, Result};

/// Rounds of a full run, unless told otherwise: the least that has a middle and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each run.
pub const DURATION: Duration = Duration::from_secs(2);
/// Connections of every run, each with one request in flight: more than children, so that none of them waits.
const CONNECTIONS: usize = 16;
/// Children of the pool: as many as Vermeil has for one core, unless told otherwise.
const CHILDREN: usize = 4;
/// Names of programs, and what they are.
const PROGRAMS: [(&str, &str); 2] = [("hello", "<?php echo 'hello';"), ("phpinfo", "<?php phpinfo();")];

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Vermeil with this driver.
    Vermeil(Io),
    /// nginx, which keeps as many connections as there are children.
    Nginx,
    /// Apache with its event MPM, which uses connections again.
    Apache,
}

impl Server {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 4] =
        [Self::Vermeil(Io::Uring), Self::Vermeil(Io::Epoll), Self::Nginx, Self::Apache];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil(Io::Uring) => "vermeil-uring",
            Self::Vermeil(Io::Epoll) => "vermeil-epoll",
            Self::Nginx => "nginx",
            Self::Apache => "apache",
        }
    }

    /// The program it needs, and the Debian package that holds it.
    fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Vermeil(_) => None,
            Self::Nginx => Some(("nginx", "nginx")),
            Self::Apache => Some(("apache2", "apache2-bin")),
        }
    }

    fn command(self, options: &Options, setting: Setting<'_>, socket: &Path) -> Result<Command> {
        match self {
            Self::Vermeil(io) => vermeil::php_command(setting, &options.vermeil, io, socket, CHILDREN),
            Self::Nginx => nginx::php_command(setting, socket, CHILDREN),
            Self::Apache => apache::php_command(setting, socket, CHILDREN),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// When a server does not start or answers wrongly, or the run is interrupted. Everything started has been stopped, in
/// every case.
pub fn run(options: &Options, stop: &Stop) -> Result<Report> {
    let mut points = Points::default();
    let servers = servers_here(options.size)?;
    if !servers.is_empty() {
        let (site, cpus) = (Site::new(&[])?, Cpus::allowed()?);
        for (name, code) in PROGRAMS {
            let path = site.root().join(format!("{name}.php"));
            fs::write(&path, code).map_err(Error::path("write", &path))?;
        }
        let state = site.state_folder("php-fpm")?;
        let pool = fpm::start(&Network::Loopback, cpus.server, &state, CHILDREN)?;
        let wrk = Wrk::new(&state, cpus.client)?;
        let bench = Bench { options, stop, cpus, site, pool, socket: fpm::socket(&state), wrk };
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                bench.sample(server, &mut points)?;
            }
        }
        bench.pool.stop()?;
    }
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of everything it leaves, in a temporary folder; asserts nothing about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &Options, stop: &Stop) -> Result<Report> {
    let report = run(options, stop)?;
    let here = servers_here(options.size)?;
    report.check(&here.iter().map(|server| (server.name(), "server_us")).collect::<Vec<_>>())?;
    Ok(report)
}

/// The servers that are installed, none without PHP; in a full run all must be.
fn servers_here(size: Size) -> Result<Vec<Server>> {
    let mut here = Vec::new();
    if is_here(size, fpm::FPM)? {
        for server in Server::ALL {
            if server.needs().map_or(Ok(true), |needed| is_here(size, needed))? {
                here.push(server);
            }
        }
    }
    Ok(here)
}

/// What all runs need.
struct Bench<'a> {
    options: &'a Options,
    stop: &'a Stop,
    cpus: Cpus,
    site: Site,
    pool: Process,
    socket: PathBuf,
    wrk: Wrk,
}

impl Bench<'_> {
    /// One start of one server, and a run of each program.
    fn sample(&self, server: Server, points: &mut Points) -> Result<()> {
        self.stop.check()?;
        let (network, address) = (&Network::Loopback, Network::Loopback.free_address()?);
        let (root, state) = (self.site.root(), self.site.state_folder(server.name())?);
        let setting = Setting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let process =
            Process::start(server.name(), server.command(self.options, setting, &self.socket)?, &state)?;
        process.wait_until_listening(network, address)?;
        for (name, _) in PROGRAMS {
            let target = Target::to(&format!("/{name}.php"));
            let load = |duration| Load { connections: CONNECTIONS, duration };
            // Fills caches, PHP's among them.
            self.wrk.run(network, address, &target, load(self.options.duration / 4), self.stop)?;
            let before = [CpuTime::of_group(process.group())?, CpuTime::of_group(self.pool.group())?];
            let outcome = self.wrk.run(network, address, &target, load(self.options.duration), self.stop)?;
            let after = [CpuTime::of_group(process.group())?, CpuTime::of_group(self.pool.group())?];
            if let Some(problem) = outcome.problem(200) {
                return Err(process.failure(&format!("under load of {name}: {problem}")));
            }
            let us = |at: usize| (after[at] - before[at]).run.as_secs_f64() * 1e6 / outcome.requests as f64;
            let mut push = |metric, unit, value| {
                let key = Key { program: name.to_owned(), variant: server.name().to_owned(), metric, unit };
                points.push(key, value);
            };
            push("server_us", "us", us(0));
            push("php_us", "us", us(1));
            push("per_s", "1/s", outcome.per_second());
            push("p50_us", "us", outcome.p50_us as f64);
            push("p99_us", "us", outcome.p99_us as f64);
            eprintln!(
                "{name:<8} {:<14} {:>7.1} µs {:>7.0} req/s",
                server.name(),
                us(0),
                outcome.per_second()
            );
        }
        process.stop()
    }
}
