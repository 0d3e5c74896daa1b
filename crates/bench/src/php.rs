//! The bench of PHP over FastCGI: the cost of a request for the server that passes the request on,
//! and for PHP.
//!
//! Vermeil, nginx and Apache use the same pool of php-fpm and share one cpu with the pool; the load
//! has the other cpu. Three scripts: one prints hello, so that PHP has almost no work; `phpinfo()`
//! returns some 80 KB; and in a wiki PHP has real work. nginx runs in two versions: as Debian ships
//! nginx, with a connection for each request, and tuned, with as many persistent connections as
//! children. The tuned version can serve no more users than children, so one load has that many
//! users. An application that only answers with the request, on all cpus, shows the cost without
//! PHP. Rounds are interleaved and their order rotates. The report is in `report`. The floor is a
//! loop that receives and sends on either side, and does nothing else.

mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::dokuwiki::{self, Wiki};
use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::{BenchNetwork, Spread};
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::peers::vermeil::{self, VermeilIo};
use crate::peers::{FastcgiPool, PeerSetting, apache, echo, floor, fpm, is_here, nginx};
use crate::points::{PointKey, Points};
use crate::probe::{self, ProbeTarget};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad};
use crate::{BenchError, BenchResult};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each run.
pub const DURATION: Duration = Duration::from_secs(2);
/// Connections of a run, each with one request in flight: more than children, so that no child is
/// idle.
const CONNECTIONS: usize = 16;
/// Children of the pool: Vermeil's default for one core.
const CHILDREN: usize = 4;
/// Children of the application that is not PHP: twice the number of connections, so that each of
/// nginx's two workers can keep as many connections as the load may need.
const ECHO_CHILDREN: usize = 2 * CONNECTIONS;
/// The requests, and the number of connections.
const CASES: [PhpCase; 5] = [
    PhpCase { name: "hello", behind: AnsweringProgram::Php(HELLO), says: "hello", connections: CONNECTIONS },
    PhpCase { name: "hello-4", behind: AnsweringProgram::Php(HELLO), says: "hello", connections: CHILDREN },
    PhpCase {
        name: "phpinfo",
        behind: AnsweringProgram::Php("<?php phpinfo();"),
        says: "PHP Version",
        connections: CONNECTIONS,
    },
    PhpCase {
        name: "dokuwiki",
        behind: AnsweringProgram::Wiki,
        says: dokuwiki::START.1,
        connections: CHILDREN,
    },
    PhpCase { name: "echo", behind: AnsweringProgram::Echo, says: "/echo.php", connections: CONNECTIONS },
];
/// The characters of a wrong answer that an error quotes.
const QUOTE_CHARS: usize = 300;
const HELLO: &str = "<?php echo 'hello';";
/// The least duration of a run of the smoke size, because the first request of a wiki page takes
/// PHP a tenth of a second, and several tenths on a busy machine.
const SMOKE_MIN: Duration = Duration::from_millis(500);

/// A program under a load.
struct PhpCase {
    /// The name in rows, and of the file.
    name: &'static str,
    behind: AnsweringProgram,
    /// A text of the answer.
    says: &'static str,
    connections: usize,
}

/// The program that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnsweringProgram {
    /// PHP, on the server's cpu, with this script.
    Php(&'static str),
    /// PHP, on the server's cpu, with the start page of a wiki.
    Wiki,
    /// The application that is not PHP, on all cpus; the server is then on all cpus too. The
    /// request names a file, as for PHP.
    Echo,
}

impl PhpCase {
    /// The path that is asked for.
    fn path(&self) -> String {
        match self.behind {
            AnsweringProgram::Php(_) | AnsweringProgram::Echo => format!("/{}.php", self.name),
            AnsweringProgram::Wiki => dokuwiki::START.0.into(),
        }
    }

    /// Returns whether the case is useful with `server`: without PHP only the distance to the floor
    /// and to the second-best server is of interest.
    fn is_for(&self, server: PhpServer) -> bool {
        self.behind != AnsweringProgram::Echo || server != PhpServer::Apache
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpServer {
    /// Vermeil with this driver.
    Vermeil(VermeilIo),
    /// nginx as Debian ships nginx, but without a log, because the other servers do not write a log
    /// either.
    NginxDebian,
    /// nginx, tuned: nginx keeps as many connections as there are children.
    NginxTuned,
    /// Apache with its event MPM, which reuses connections.
    Apache,
    /// Nothing but the system calls.
    Floor,
}

impl PhpServer {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::Vermeil(VermeilIo::Uring),
        Self::Vermeil(VermeilIo::Epoll),
        Self::NginxDebian,
        Self::NginxTuned,
        Self::Apache,
        Self::Floor,
    ];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil(VermeilIo::Uring) => "vermeil-uring",
            Self::Vermeil(VermeilIo::Epoll) => "vermeil-epoll",
            Self::NginxDebian => "nginx-debian",
            Self::NginxTuned => "nginx-tuned",
            Self::Apache => "apache",
            Self::Floor => "floor",
        }
    }

    /// The required program and its Debian package.
    fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Vermeil(_) | Self::Floor => None,
            Self::NginxDebian | Self::NginxTuned => Some(("nginx", "nginx")),
            Self::Apache => Some(("apache2", "apache2-bin")),
        }
    }

    fn command(
        self,
        options: &BenchOptions,
        setting: PeerSetting<'_>,
        pool: FastcgiPool<'_>,
        case: &PhpCase,
    ) -> BenchResult<Command> {
        match self {
            Self::Vermeil(io) => vermeil::php_command(setting, &options.vermeil, io, pool),
            Self::NginxDebian => nginx::debian_php_command(setting, pool),
            Self::NginxTuned => nginx::php_command(setting, pool, pool.children.min(case.connections)),
            Self::Apache => apache::php_command(setting, pool),
            Self::Floor => {
                let script = setting.root.join(case.path().trim_start_matches('/'));
                Ok(floor::php_command(setting, &options.binary("vermeil-floor"), pool, &script))
            }
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    let servers = servers_here(options.size)?;
    if !servers.is_empty() {
        let (site, cpus) = (BenchSite::new(&[])?, BenchCpus::allowed()?);
        for case in CASES {
            let code = match case.behind {
                AnsweringProgram::Php(code) => code,
                AnsweringProgram::Echo => "",
                AnsweringProgram::Wiki => continue,
            };
            let path = site.root().join(case.path().trim_start_matches('/'));
            fs::write(&path, code).map_err(BenchError::path("write", &path))?;
        }
        let (php, echo) = (site.state_folder("php-fpm")?, site.state_folder("echo")?);
        let bench = PhpBench {
            options,
            stop,
            cpus,
            php: fpm::start(&BenchNetwork::Loopback, cpus.server, &php, CHILDREN)?,
            php_socket: fpm::socket(&php),
            echo: echo::start(&options.binary("vermeil-echo"), &echo, ECHO_CHILDREN)?,
            echo_socket: fpm::socket(&echo),
            wrk: Wrk::new(&php, cpus.client)?,
            wiki: wiki_here(options.size)?,
            site,
        };
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                for case in CASES.iter().filter(|case| case.is_for(server) && bench.has(case)) {
                    bench.sample(server, case, &mut points)?;
                }
            }
        }
        bench.php.stop()?;
        bench.echo.stop()?;
    }
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let duration = options.duration.max(SMOKE_MIN);
    let report = run(&BenchOptions { duration, ..options.clone() }, stop)?;
    let here = servers_here(options.size)?;
    report.check(&here.iter().map(|server| (server.name(), "server_us")).collect::<Vec<_>>())?;
    Ok(report)
}

/// The installed servers, none without PHP; in a full run all must be installed.
fn servers_here(size: BenchSize) -> BenchResult<Vec<PhpServer>> {
    let mut here = Vec::new();
    if is_here(size, fpm::FPM)? {
        for server in PhpServer::ALL {
            if server.needs().map_or(Ok(true), |needed| is_here(size, needed))? {
                here.push(server);
            }
        }
    }
    Ok(here)
}

/// The wiki. Without the wiki a full run is impossible, and a run of the smoke size leaves the wiki
/// out with a message.
fn wiki_here(size: BenchSize) -> BenchResult<Option<Wiki>> {
    match (Wiki::prepare(), size) {
        (Err(why), BenchSize::Smoke) => {
            eprintln!("SKIPPED: dokuwiki: {why}");
            Ok(None)
        }
        (wiki, _) => wiki.map(Some),
    }
}

/// The state shared by all runs.
struct PhpBench<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    site: BenchSite,
    php: PeerProcess,
    php_socket: PathBuf,
    echo: PeerProcess,
    echo_socket: PathBuf,
    wrk: Wrk,
    wiki: Option<Wiki>,
}

impl PhpBench<'_> {
    /// Returns whether the answering program of this case is available.
    fn has(&self, case: &PhpCase) -> bool {
        case.behind != AnsweringProgram::Wiki || self.wiki.is_some()
    }

    /// The folder that is served.
    fn root(&self, case: &PhpCase) -> PathBuf {
        match &self.wiki {
            Some(wiki) if case.behind == AnsweringProgram::Wiki => wiki.site(),
            _ => self.site.root(),
        }
    }

    /// A start of a server, and a run of a script.
    fn sample(&self, server: PhpServer, case: &PhpCase, points: &mut Points) -> BenchResult<()> {
        self.stop.check()?;
        let PhpCase { name, connections, .. } = *case;
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let (root, state) = (self.root(case), self.site.state_folder(server.name())?);
        let setting = PeerSetting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let (answers, socket, children, spread) = match case.behind {
            AnsweringProgram::Php(_) | AnsweringProgram::Wiki => {
                (&self.php, &self.php_socket, CHILDREN, Spread::OneCpu)
            }
            AnsweringProgram::Echo => (&self.echo, &self.echo_socket, ECHO_CHILDREN, Spread::AllCpus),
        };
        if let Some(wiki) = self.wiki.as_ref().filter(|_| case.behind == AnsweringProgram::Wiki) {
            wiki.forget_visitors()?;
        }
        let command =
            server.command(self.options, setting, FastcgiPool { socket, children, spread }, case)?;
        let process = PeerProcess::start(server.name(), command, &state)?;
        process.wait_until_listening(network, address)?;
        if server != PhpServer::Floor {
            check(&process, address, case)?;
        }
        let (target, load) = (ProbeTarget::to(&case.path()), |duration| WrkLoad { connections, duration });
        // Fills caches, including PHP's.
        self.wrk.run(network, address, &target, load(self.options.duration / 4), self.stop)?;
        let before = [CpuTime::of_group(process.group())?, CpuTime::of_group(answers.group())?];
        let outcome = self.wrk.run(network, address, &target, load(self.options.duration), self.stop)?;
        let after = [CpuTime::of_group(process.group())?, CpuTime::of_group(answers.group())?];
        if let Some(problem) = outcome.problem(200) {
            return Err(process.failure(&format!("under load of {name}: {problem}")));
        }
        let us = |at: usize| (after[at] - before[at]).run.as_secs_f64() * 1e6 / outcome.requests as f64;
        let mut push = |metric, unit, value| {
            let key = PointKey { program: name.to_owned(), variant: server.name().to_owned(), metric, unit };
            points.push(key, value);
        };
        push("server_us", "us", us(0));
        push("php_us", "us", us(1));
        push("per_s", "1/s", outcome.per_second());
        push("p50_us", "us", outcome.p50_us as f64);
        push("p99_us", "us", outcome.p99_us as f64);
        eprintln!("{name:<8} {:<14} {:>7.1} µs {:>7.0} req/s", server.name(), us(0), outcome.per_second());
        process.stop()
    }
}

/// Gets one answer from a server before the measurement, and checks that the answer is the expected
/// page.
fn check(process: &PeerProcess, address: SocketAddr, case: &PhpCase) -> BenchResult<()> {
    let said = probe::page(address, &case.path()).map_err(BenchError::thing("ask", address))?;
    let status = said.split_ascii_whitespace().nth(1);
    if status == Some("200") && said.contains(case.says) {
        return Ok(());
    }
    let begins: String = said.chars().take(QUOTE_CHARS).collect();
    Err(process.failure(&format!("{} is not answered with `{}`, but {begins:?}", case.path(), case.says)))
}
