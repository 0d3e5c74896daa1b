//! Profile-guided optimization: the load that the profile is recorded under, and the bench of the
//! gain.
//!
//! `cargo xtask pgo` builds `vermeil` with counters, lets [`train`] load a server of this build in
//! each way of `PgoWork`, and builds again with the counts, so that the compiler knows which code
//! is usual. The bench starts the release and the profile-guided build side by side, and loads both
//! in turns.

use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::load::steady::record_of;
use crate::load::vermeil_load;
use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::peers::process::PeerProcess;
use crate::peers::vermeil::VermeilIo;
use crate::peers::{fpm, is_here};
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::table::CellTable;
use crate::tls::keys::{KeyKind, ServerPair, TlsKeys};
use crate::{BenchError, BenchResult};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each build and work, in a round.
pub const DURATION: Duration = Duration::from_secs(2);
/// Time under load of each work while the profile is recorded. The order of hundreds of thousands
/// of requests no longer changes what is usual.
const TRAINING: Duration = Duration::from_secs(4);
/// Turns of each build in a round, often enough that a drift of the machine's speed meets both
/// builds alike.
const TURNS: u32 = 4;
/// Connections with a request in flight each.
const CONNECTIONS: usize = 32;
/// Children of the pool of PHP: Vermeil's default for one core.
const CHILDREN: usize = 4;
/// The file in memory, and its size in bytes.
const FILE: (&str, usize) = ("1k.html", 1024);
/// The files that are asked for in turn. Nearly all are looked up on disk, because the cache has
/// [`ENTRIES`] entries.
const FILES: usize = 2000;
/// The size of these files in bytes.
const FILE_BYTES: usize = 4096;
/// The entries of the cache.
const ENTRIES: usize = 200;
const HELLO: (&str, &str) = ("hello.php", "<?php echo 'hello';");
/// The metric of the server's cpu time per request.
const CPU: &str = "cpu_us";

const HOW_TO_READ: &str = "\
**How to read it.** *release* is the build of `cargo build --release`, *pgo* the build of `cargo xtask pgo`. Both are on \
one cpu, and the load, always that of the release, is on the other. Both are loaded in short turns. *Cpu* is the cpu time \
of the server per request, and *× release* is the median of the ratios of the rounds. The profile was recorded under \
loads of the same kinds.

**What it does not show.** The time that compiling takes: the server is compiled twice.";

/// The builds that are compared.
#[derive(Clone, Debug)]
pub struct PgoBenchOptions {
    /// How much of the bench.
    pub size: BenchSize,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Time under load of each build and work, in a round.
    pub duration: Duration,
    /// The binaries `vermeil`: of the release, and the profile-guided one.
    pub builds: [PathBuf; 2],
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

/// The names of the builds in rows.
const BUILDS: [&str; 2] = ["release", "pgo"];

/// A way to load a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PgoWork {
    /// A file in memory.
    Kept,
    /// A conditional request for this file.
    Unchanged,
    /// A file that does not exist.
    Missing,
    /// A file in memory, with a connection for each request.
    Connections,
    /// Files that are not in memory.
    Files,
    /// A file in memory, over TLS.
    Tls,
    /// The same, with a full handshake for each request.
    Handshakes,
    /// The output of PHP.
    Php,
    /// The same, for a request with content.
    PhpContent,
}

impl PgoWork {
    const ALL: [Self; 9] = [
        Self::Kept,
        Self::Unchanged,
        Self::Missing,
        Self::Connections,
        Self::Files,
        Self::Tls,
        Self::Handshakes,
        Self::Php,
        Self::PhpContent,
    ];

    /// The name in rows.
    fn name(self) -> &'static str {
        match self {
            Self::Kept => "1 KB",
            Self::Unchanged => "304",
            Self::Missing => "404",
            Self::Connections => "1 KB, a connection each",
            Self::Files => "4 KB, not in memory",
            Self::Tls => "1 KB, https",
            Self::Handshakes => "1 KB, https, a handshake each",
            Self::Php => "PHP hello",
            Self::PhpContent => "PHP hello, POST",
        }
    }

    /// The class of the answers' status.
    fn status_class(self) -> usize {
        match self {
            Self::Unchanged => 3,
            Self::Missing => 4,
            _ => 2,
        }
    }

    /// The arguments of `vermeil load`, except for the number of connections and the time.
    fn arguments(self, addresses: &ServerAddresses) -> Vec<String> {
        let options: &[&str] = match self {
            Self::Kept | Self::Missing | Self::Files | Self::Php => &[],
            Self::Unchanged => &["--header", "If-None-Match: *"],
            Self::Connections => &["--no-keepalive"],
            Self::Tls => &["--insecure"],
            Self::Handshakes => &["--insecure", "--no-keepalive"],
            Self::PhpContent => &["--body", "name=value"],
        };
        let (plain, tls) = (format!("http://{}", addresses.plain), format!("https://{}", addresses.tls));
        let urls = match self {
            Self::Kept | Self::Unchanged | Self::Connections => vec![format!("{plain}/{}", FILE.0)],
            Self::Missing => vec![format!("{plain}/missing.html")],
            Self::Files => (0..FILES).map(|number| format!("{plain}/{}", file_name(number))).collect(),
            Self::Tls | Self::Handshakes => vec![format!("{tls}/{}", FILE.0)],
            Self::Php | Self::PhpContent => vec![format!("{plain}/{}", HELLO.0)],
        };
        options.iter().map(|option| (*option).to_owned()).chain(urls).collect()
    }
}

fn file_name(number: usize) -> String {
    format!("{number}.html")
}

/// The addresses of a server.
struct ServerAddresses {
    plain: SocketAddr,
    tls: SocketAddr,
}

/// A server under load.
struct PgoServer {
    process: PeerProcess,
    addresses: ServerAddresses,
}

/// The parts that all servers share.
struct PgoBed {
    size: BenchSize,
    cpus: BenchCpus,
    site: BenchSite,
    key: Option<ServerPair>,
    /// The pool of PHP, and its socket.
    pool: Option<(PeerProcess, PathBuf)>,
    /// The pattern of the files that a build with counters writes.
    counts: Option<PathBuf>,
}

impl PgoBed {
    /// Makes the files, the certificate and the pool.
    fn new(size: BenchSize) -> BenchResult<Self> {
        let (site, cpus) = (BenchSite::new(&[FILE])?, BenchCpus::allowed()?);
        let root = site.root();
        for number in 0..FILES {
            let path = root.join(file_name(number));
            fs::write(&path, vec![b'x'; FILE_BYTES]).map_err(BenchError::path("write", &path))?;
        }
        let hello = root.join(HELLO.0);
        fs::write(&hello, HELLO.1).map_err(BenchError::path("write", &hello))?;
        let key = match is_here(size, ("openssl", "openssl"))? {
            true => Some(TlsKeys::make(&site.state_folder("keys")?)?.of(KeyKind::Ecdsa).clone()),
            false => None,
        };
        let pool = match is_here(size, fpm::FPM)? {
            true => {
                let folder = site.state_folder("php-fpm")?;
                let pool = fpm::start(&BenchNetwork::Loopback, cpus.server, &folder, CHILDREN)?;
                Some((pool, fpm::socket(&folder)))
            }
            false => None,
        };
        Ok(Self { size, cpus, site, key, pool, counts: None })
    }

    /// The works that need nothing that is missing.
    fn works(&self) -> Vec<PgoWork> {
        let is_possible = |work: &PgoWork| match work {
            PgoWork::Tls | PgoWork::Handshakes => self.key.is_some(),
            PgoWork::Php | PgoWork::PhpContent => self.pool.is_some(),
            _ => true,
        };
        PgoWork::ALL.into_iter().filter(is_possible).collect()
    }

    /// Adds the variable that names the files of the counts (LLVM's documentation of instrumented
    /// profiles).
    fn count(&self, command: &mut Command) {
        if let Some(counts) = &self.counts {
            command.env("LLVM_PROFILE_FILE", counts);
        }
    }

    /// Starts the binary `vermeil`, with its state and log in the folder `state`.
    fn start(&self, vermeil: &Path, io: VermeilIo, state: &Path, log: &str) -> BenchResult<PgoServer> {
        let network = BenchNetwork::Loopback;
        let addresses = ServerAddresses { plain: network.free_address()?, tls: network.free_address()? };
        let config = state.join("vermeil.toml");
        let text = self.config(io, &addresses, log);
        fs::write(&config, text).map_err(BenchError::path("write", &config))?;
        let mut command = network.server_command(vermeil, self.cpus.server);
        command.args(["serve", "--config"]).arg(config);
        self.count(&mut command);
        let process = PeerProcess::start("vermeil", command, state)?;
        process.wait_until_listening(&network, addresses.plain)?;
        Ok(PgoServer { process, addresses })
    }

    fn config(&self, io: VermeilIo, addresses: &ServerAddresses, log: &str) -> String {
        let (cpu, io, root) = (self.cpus.server, io.name(), self.site.root());
        let ServerAddresses { plain, tls } = addresses;
        let mut text = format!("cores = \"{cpu}-{cpu}\"\nio = \"{io}\"\nlog = {log:?}\n");
        let mut host = format!("[[host]]\ndefault = true\nroot = {root:?}\n");
        text += &format!("[cache]\nentries = {ENTRIES}\n[[listener]]\naddress = \"{plain}\"\n");
        if let Some(ServerPair { certificate, key }) = &self.key {
            text += &format!("[[listener]]\naddress = \"{tls}\"\ntls = true\n");
            host += &format!("certificate = {certificate:?}\nkey = {key:?}\n");
        }
        if let Some((_, socket)) = &self.pool {
            let _infallible = write!(
                text,
                "[php]\nsource = \"unix:{}\"\nchildren = {CHILDREN}\nkept_max = {CHILDREN}\n",
                socket.display()
            );
            host += "php = true\n";
        }
        text + &host
    }

    /// Loads `server` with `work` by the injector of the binary `vermeil`. Returns the number of
    /// answers.
    fn load(
        &self,
        vermeil: &Path,
        server: &PgoServer,
        work: PgoWork,
        duration: Duration,
    ) -> BenchResult<u64> {
        let mut command = vermeil_load(vermeil, self.cpus.client);
        command.args(["-c", &CONNECTIONS.to_string()]);
        command.args(match self.size {
            BenchSize::Full => ["-d".to_owned(), format!("{}ms", duration.as_millis())],
            BenchSize::Smoke => ["-n".to_owned(), CONNECTIONS.to_string()],
        });
        command.args(work.arguments(&server.addresses));
        self.count(&mut command);
        let record = record_of(&mut command)?;
        let answers = record.statuses[work.status_class()];
        if answers == 0 || record.statuses.iter().sum::<u64>() > answers {
            let problem = format!("under {}: statuses {:?}", work.name(), record.codes);
            return Err(server.process.failure(&problem));
        }
        Ok(answers)
    }
}

/// Loads a server of the binary `vermeil`, a build with counters, in each way: with each driver,
/// and with an access log. Each process writes its counts into the folder `counts` when it ends.
///
/// # Errors
/// A program is missing, the server does not start, answers wrongly or writes no counts, or the run
/// is interrupted.
pub fn train(vermeil: &Path, counts: &Path, stop: &StopFlag) -> BenchResult<()> {
    let pattern = counts.join("%p.profraw");
    let bed = PgoBed { counts: Some(pattern), ..PgoBed::new(BenchSize::Full)? };
    without_sandbox(|| {
        for io in [VermeilIo::Uring, VermeilIo::Epoll] {
            let state = bed.site.state_folder(io.name())?;
            let log = state.join("access.log").display().to_string();
            let server = bed.start(vermeil, io, &state, &log)?;
            for work in bed.works() {
                stop.check()?;
                let answers = bed.load(vermeil, &server, work, TRAINING)?;
                println!("{:<7} {:<30} {answers:>8} answers", io.name(), work.name());
            }
            let before = bytes_in(counts)?;
            server.process.stop()?;
            // The file is there, empty, since the start of the server.
            if bytes_in(counts)? == before {
                return Err(BenchError::form(counts.display(), "the server wrote no counts at its end"));
            }
        }
        Ok(())
    })
}

/// Runs `work` on a thread whose kernel seems to lack Landlock and seccomp. A server that is
/// started there has no sandbox, which would forbid it to write a file at its end.
fn without_sandbox(work: impl FnOnce() -> BenchResult<()> + Send) -> BenchResult<()> {
    let refused = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp];
    let rules = refused.into_iter().map(|call| (call, Vec::new())).collect();
    let lacks = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let step = |error| BenchError::form("a seccomp filter", error);
    let machine = ARCH.try_into().map_err(step)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, lacks, machine).map_err(step)?;
    let program: BpfProgram = filter.try_into().map_err(step)?;
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&program).map_err(|error| BenchError::form("a seccomp filter", error))?;
            work()
        });
        thread.join().expect("the training does not panic")
    })
}

/// The sum of the sizes of the files in `folder`.
fn bytes_in(folder: &Path) -> BenchResult<u64> {
    let entries = fs::read_dir(folder).map_err(BenchError::path("read", folder))?;
    Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum())
}

/// Runs the bench.
///
/// # Errors
/// A program is missing, a server does not start or answers wrongly, or the run is interrupted. In
/// every case all started processes are stopped.
pub fn run(options: &PgoBenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let bed = PgoBed::new(options.size)?;
    let mut points = Points::default();
    for round in 0..options.rounds {
        for io in [VermeilIo::Uring, VermeilIo::Epoll] {
            pair(&bed, options, io, round, stop, &mut points)?;
        }
    }
    Ok(report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &PgoBenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    report.check(&BUILDS.map(|build| (build, CPU)))?;
    Ok(report)
}

/// One start of both builds, and each work on both in turns.
fn pair(
    bed: &PgoBed,
    options: &PgoBenchOptions,
    io: VermeilIo,
    round: usize,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let start = |place: usize| {
        let state = bed.site.state_folder(BUILDS[place])?;
        bed.start(&options.builds[place], io, &state, "off")
    };
    let servers = [start(0)?, start(1)?];
    let client = &options.builds[0];
    for work in bed.works() {
        for server in &servers {
            // Fills caches, also PHP's.
            bed.load(client, server, work, options.duration / TURNS)?;
        }
        let (mut spent, mut answers) = ([Duration::ZERO; 2], [0; 2]);
        for turn in 0..TURNS as usize {
            let first = (round + turn) % 2;
            for place in [first, 1 - first] {
                stop.check()?;
                let group = servers[place].process.group();
                let before = CpuTime::of_group(group)?;
                answers[place] += bed.load(client, &servers[place], work, options.duration / TURNS)?;
                spent[place] += (CpuTime::of_group(group)? - before).run;
            }
        }
        for place in [0, 1] {
            let cpu_us = spent[place].as_secs_f64() * 1e6 / answers[place] as f64;
            let (program, variant) = (program(work, io), BUILDS[place].to_owned());
            eprintln!("{program:<38} {variant:<8} {cpu_us:>8.2} us");
            points.push(PointKey { program, variant, metric: CPU, unit: "us" }, cpu_us);
        }
    }
    servers.into_iter().try_for_each(|server| server.process.stop())
}

/// The name of a work with a driver, in rows.
fn program(work: PgoWork, io: VermeilIo) -> String {
    format!("{}, {}", work.name(), io.name())
}

/// The finished bench.
fn report(options: &PgoBenchOptions, points: &Points) -> BenchReport {
    let load = format!(
        "vermeil load, {CONNECTIONS} connections, {:?} a build and round, in {TURNS} parts{}",
        options.duration,
        options.size.note()
    );
    let parameters = vec![
        ("load", load),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the servers and PHP on one, the load on the other".into()),
    ];
    BenchReport::new("pgo", "the gain of profile-guided optimization", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head =
        ["work, driver", "release µs", "low – high", "pgo µs", "low – high", "× release", "low – high"];
    let mut table = CellTable::new(1, &head);
    let [release, pgo] = BUILDS;
    for (program, _) in points.cells().into_iter().filter(|(_, variant)| *variant == release) {
        let ratio = points.ratio(program, (pgo, release), CPU);
        table.push([
            program.into(),
            points.median(program, release, CPU),
            points.spread(program, release, CPU),
            points.median(program, pgo, CPU),
            points.spread(program, pgo, CPU),
            ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default(),
            ratio.map(|ratio| format!("{:.2} – {:.2}", ratio.low, ratio.high)).unwrap_or_default(),
        ]);
    }
    table
}
