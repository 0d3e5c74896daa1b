//! The bench of hosts: the cost of loading thousands of hosts, and the cost of finding a host.
//!
//! Vermeil and nginx are started with more and more hosts, each with a name and a folder. The hosts
//! are in a single file, or each host is in a separate file, as hosters do, or each host has a
//! certificate. The bench measures the time until the first answer, the memory at that time, and
//! the cpu time of a request to the first and to the last host of the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::servers::{ConfigFiles, HostConfig, TailServer, host_command};
use super::{CONNECTIONS, report};
use crate::machine::BenchCpus;
use crate::measure::{CpuTime, memory_of_group};
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::{self, ProbeTarget};
use crate::report::BenchReport;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::tls::keys::{KeyKind, TlsKeys};
use crate::wrk::{Wrk, WrkLoad};
use crate::{BenchError, BenchResult};

/// The numbers of hosts in a full run: one site, a small hoster's machine, and a large hoster's
/// machine.
const COUNTS: [usize; 3] = [1, 10_000, 100_000];
/// Rounds of a full run by default.
pub const ROUNDS: usize = 5;
/// Time under load of each measured request: both are for a single page in memory.
pub const DURATION: Duration = Duration::from_secs(1);
/// Folders of sites, each with one page. Hosts share the folders in turn, because a folder for each
/// host would not change the cost of loading a host.
const FOLDERS: usize = 100;
/// Bytes of the page.
const PAGE_BYTES: usize = 1024;

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    let counts = if options.size == BenchSize::Full { &COUNTS[..] } else { &[1, 200] };
    let servers = TailServer::here(options.size)?.into_iter().filter(|server| server.loads_hosts());
    let mut servers: Vec<_> =
        servers.flat_map(|server| ConfigFiles::ALL.map(|files| (server, files))).collect();
    servers.retain(|(server, files)| files.fit(*server));
    for &count in counts {
        let sites = HostSites::new(count)?;
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                stop.check()?;
                sample(options, server, &sites, stop, &mut points)?;
            }
        }
    }
    Ok(report::hosts(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let metrics = ["load_ms", "memory_mb", "first_us", "last_us"];
    report.check(&metrics.map(|metric| (TailServer::Vermeil.name(), metric)))?;
    Ok(report)
}

/// Hosts with their folders.
#[derive(Debug)]
struct HostSites {
    folder: TempDir,
    count: usize,
}

impl HostSites {
    fn new(count: usize) -> BenchResult<Self> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let sites = Self { folder, count };
        for number in 0..count.min(FOLDERS) {
            let root = sites.root(number);
            fs::create_dir(&root).map_err(BenchError::path("make", &root))?;
            let page = root.join("index.html");
            fs::write(&page, vec![b'x'; PAGE_BYTES]).map_err(BenchError::path("write", &page))?;
        }
        sites.write_certificates()?;
        // nginx gives up root and must be able to look inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(sites.state(), open).map_err(BenchError::path("open", sites.state()))?;
        Ok(sites)
    }

    /// Writes the certificate of each host. All have the same content, but the server cannot know.
    fn write_certificates(&self) -> BenchResult<()> {
        let folder = HostConfig::certificates(self.state());
        fs::create_dir(&folder).map_err(BenchError::path("make", &folder))?;
        let pair = TlsKeys::make(self.state())?;
        let pair = pair.of(KeyKind::Ecdsa);
        for number in 0..self.count {
            let copies = HostConfig::pair(self.state(), &self.name(number));
            for (from, to) in [&pair.certificate, &pair.key].into_iter().zip(copies) {
                // Copies the permissions as well.
                fs::copy(from, &to).map_err(BenchError::path("write", &to))?;
            }
        }
        Ok(())
    }

    fn name(&self, number: usize) -> String {
        format!("site-{number}.example")
    }

    fn state(&self) -> &Path {
        self.folder.path()
    }

    fn root(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("root-{}", number % FOLDERS))
    }
}

/// One start of one server, and the requests to the server.
fn sample(
    options: &BenchOptions,
    (server, files): (TailServer, ConfigFiles),
    sites: &HostSites,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let cpus = BenchCpus::allowed()?;
    let (network, address) = (BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
    let hosts: Vec<_> = (0..sites.count).map(|number| (sites.name(number), sites.root(number))).collect();
    let config = HostConfig { hosts: &hosts, files, state: sites.state(), address, cpu: cpus.server };
    let command = host_command(server, options, config)?;
    let start = Instant::now();
    let process = PeerProcess::start(server.name(), command, sites.state())?;
    process.wait_until_listening(&network, address)?;
    let target = |host: usize| ProbeTarget { host: Some(sites.name(host)), ..ProbeTarget::to("/index.html") };
    let last = sites.count - 1;
    let fetch = |host| {
        let answer = probe::fetch(address, &target(host));
        answer.map_err(|error| process.failure(&format!("asked for host {host}: {error}")))
    };
    fetch(last)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let program = format!("{} hosts", sites.count);
    let variant = match files {
        ConfigFiles::One => server.name().to_owned(),
        ConfigFiles::EachHost => format!("{}, a file each", server.name()),
        ConfigFiles::Certificates => format!("{}, a certificate each", server.name()),
    };
    let mut push = |metric, unit, value| {
        let key = PointKey { program: program.clone(), variant: variant.clone(), metric, unit };
        points.push(key, value);
    };
    push("load_ms", "ms", load_ms);
    push("memory_mb", "MB", memory_of_group(process.group())? as f64 / 1e6);
    let wrk = Wrk::new(sites.state(), cpus.client)?;
    let load = WrkLoad { connections: CONNECTIONS, duration: options.duration };
    for (metric, host) in [("first_us", 0), ("last_us", last)] {
        fetch(host)?;
        let before = CpuTime::of_group(process.group())?;
        let outcome = wrk.run(&network, address, &target(host), load, stop)?;
        let spent = CpuTime::of_group(process.group())? - before;
        if let Some(problem) = outcome.problem(200) {
            return Err(process.failure(&format!("under load of host {host}: {problem}")));
        }
        push(metric, "us", spent.run.as_secs_f64() * 1e6 / outcome.requests as f64);
    }
    eprintln!("{program}  {variant}  {load_ms:.0} ms");
    process.stop()
}
