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
use crate::machine::Cpus;
use crate::measure::CpuTime;
use crate::network::{Network, Spread};
use crate::options::Options;
use crate::peers::process::Process;
use crate::peers::vermeil::{self, Io};
use crate::peers::{Pool, Setting, apache, echo, floor, fpm, is_here, nginx};
use crate::points::{Key, Points};
use crate::probe::{self, Target};
use crate::report::Report;
use crate::site::Site;
use crate::size::Size;
use crate::stop::Stop;
use crate::wrk::{Load, Wrk};
use crate::{Error, Result};

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
const CASES: [Case; 5] = [
    Case { name: "hello", behind: Behind::Php(HELLO), says: "hello", connections: CONNECTIONS },
    Case { name: "hello-4", behind: Behind::Php(HELLO), says: "hello", connections: CHILDREN },
    Case {
        name: "phpinfo",
        behind: Behind::Php("<?php phpinfo();"),
        says: "PHP Version",
        connections: CONNECTIONS,
    },
    Case { name: "dokuwiki", behind: Behind::Wiki, says: dokuwiki::START.1, connections: CHILDREN },
    Case { name: "echo", behind: Behind::Echo, says: "/echo.php", connections: CONNECTIONS },
];
/// The characters of a wrong answer that an error quotes.
const QUOTE_CHARS: usize = 300;
const HELLO: &str = "<?php echo 'hello';";
/// The least duration of a run of the smoke size, because the first request of a wiki page takes
/// PHP a tenth of a second, and several tenths on a busy machine.
const SMOKE_MIN: Duration = Duration::from_millis(500);

/// A program under a load.
struct Case {
    /// The name in rows, and of the file.
    name: &'static str,
    behind: Behind,
    /// A text of the answer.
    says: &'static str,
    connections: usize,
}

/// The program that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// PHP, on the server's cpu, with this script.
    Php(&'static str),
    /// PHP, on the server's cpu, with the start page of a wiki.
    Wiki,
    /// The application that is not PHP, on all cpus; the server is then on all cpus too. The
    /// request names a file, as for PHP.
    Echo,
}

impl Case {
    /// The path that is asked for.
    fn path(&self) -> String {
        match self.behind {
            Behind::Php(_) | Behind::Echo => format!("/{}.php", self.name),
            Behind::Wiki => dokuwiki::START.0.into(),
        }
    }

    /// Returns whether the case is useful with `server`: without PHP only the distance to the floor
    /// and to the second-best server is of interest.
    fn is_for(&self, server: Server) -> bool {
        self.behind != Behind::Echo || server != Server::Apache
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Vermeil with this driver.
    Vermeil(Io),
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

impl Server {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::Vermeil(Io::Uring),
        Self::Vermeil(Io::Epoll),
        Self::NginxDebian,
        Self::NginxTuned,
        Self::Apache,
        Self::Floor,
    ];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil(Io::Uring) => "vermeil-uring",
            Self::Vermeil(Io::Epoll) => "vermeil-epoll",
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
        options: &Options,
        setting: Setting<'_>,
        pool: Pool<'_>,
        case: &Case,
    ) -> Result<Command> {
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
pub fn run(options: &Options, stop: &Stop) -> Result<Report> {
    let mut points = Points::default();
    let servers = servers_here(options.size)?;
    if !servers.is_empty() {
        let (site, cpus) = (Site::new(&[])?, Cpus::allowed()?);
        for case in CASES {
            let code = match case.behind {
                Behind::Php(code) => code,
                Behind::Echo => "",
                Behind::Wiki => continue,
            };
            let path = site.root().join(case.path().trim_start_matches('/'));
            fs::write(&path, code).map_err(Error::path("write", &path))?;
        }
        let (php, echo) = (site.state_folder("php-fpm")?, site.state_folder("echo")?);
        let bench = Bench {
            options,
            stop,
            cpus,
            php: fpm::start(&Network::Loopback, cpus.server, &php, CHILDREN)?,
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
pub fn smoke(options: &Options, stop: &Stop) -> Result<Report> {
    let duration = options.duration.max(SMOKE_MIN);
    let report = run(&Options { duration, ..options.clone() }, stop)?;
    let here = servers_here(options.size)?;
    report.check(&here.iter().map(|server| (server.name(), "server_us")).collect::<Vec<_>>())?;
    Ok(report)
}

/// The installed servers, none without PHP; in a full run all must be installed.
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

/// The wiki. Without the wiki a full run is impossible, and a run of the smoke size leaves the wiki
/// out with a message.
fn wiki_here(size: Size) -> Result<Option<Wiki>> {
    match (Wiki::prepare(), size) {
        (Err(why), Size::Smoke) => {
            eprintln!("SKIPPED: dokuwiki: {why}");
            Ok(None)
        }
        (wiki, _) => wiki.map(Some),
    }
}

/// The state shared by all runs.
struct Bench<'a> {
    options: &'a Options,
    stop: &'a Stop,
    cpus: Cpus,
    site: Site,
    php: Process,
    php_socket: PathBuf,
    echo: Process,
    echo_socket: PathBuf,
    wrk: Wrk,
    wiki: Option<Wiki>,
}

impl Bench<'_> {
    /// Returns whether the answering program of this case is available.
    fn has(&self, case: &Case) -> bool {
        case.behind != Behind::Wiki || self.wiki.is_some()
    }

    /// The folder that is served.
    fn root(&self, case: &Case) -> PathBuf {
        match &self.wiki {
            Some(wiki) if case.behind == Behind::Wiki => wiki.site(),
            _ => self.site.root(),
        }
    }

    /// One start of one server, and a run of one script.
    fn sample(&self, server: Server, case: &Case, points: &mut Points) -> Result<()> {
        self.stop.check()?;
        let Case { name, connections, .. } = *case;
        let (network, address) = (&Network::Loopback, Network::Loopback.free_address()?);
        let (root, state) = (self.root(case), self.site.state_folder(server.name())?);
        let setting = Setting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let (answers, socket, children, spread) = match case.behind {
            Behind::Php(_) | Behind::Wiki => (&self.php, &self.php_socket, CHILDREN, Spread::OneCpu),
            Behind::Echo => (&self.echo, &self.echo_socket, ECHO_CHILDREN, Spread::AllCpus),
        };
        if let Some(wiki) = self.wiki.as_ref().filter(|_| case.behind == Behind::Wiki) {
            wiki.forget_visitors()?;
        }
        let command = server.command(self.options, setting, Pool { socket, children, spread }, case)?;
        let process = Process::start(server.name(), command, &state)?;
        process.wait_until_listening(network, address)?;
        if server != Server::Floor {
            check(&process, address, case)?;
        }
        let (target, load) = (Target::to(&case.path()), |duration| Load { connections, duration });
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
            let key = Key { program: name.to_owned(), variant: server.name().to_owned(), metric, unit };
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
fn check(process: &Process, address: SocketAddr, case: &Case) -> Result<()> {
    let said = probe::page(address, &case.path()).map_err(Error::thing("ask", address))?;
    let status = said.split_ascii_whitespace().nth(1);
    if status == Some("200") && said.contains(case.says) {
        return Ok(());
    }
    let begins: String = said.chars().take(QUOTE_CHARS).collect();
    Err(process.failure(&format!("{} is not answered with `{}`, but {begins:?}", case.path(), case.says)))
}
