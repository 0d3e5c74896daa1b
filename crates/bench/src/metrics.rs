//! The bench of metrics: the cost of a request while a monitor reads the metrics every second.
//!
//! Each round starts the server once and loads the server in parts. In every second part a monitor
//! reads the metrics too; a single start serves both, because two starts differ more than the
//! metrics cost. The load asks for a file, of a single host or of a thousand hosts, because the
//! counts of hosts are the largest part of an answer.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::{self, ProbeTarget};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stats::Summary;
use crate::stop::StopFlag;
use crate::table::CellTable;
use crate::wrk::{Wrk, WrkLoad};
use crate::{BenchError, BenchResult};

/// Rounds of a full run by default. The cost is less than a percent of a request, so more rounds
/// are needed than for a comparison of servers.
pub const ROUNDS: usize = 11;
/// Time under load of a round, without and with the monitor each.
pub const DURATION: Duration = Duration::from_secs(4);
/// Parts of this time, which take turns, because the machine's speed drifts.
const SLICES: usize = 2;
/// The pause between two reads. Prometheus reads once in a minute by default.
const READ_EACH: Duration = Duration::from_secs(1);
/// Connections with a request in flight each, the same number as in the benches of servers.
const CONNECTIONS: usize = 64;
/// The file of every request, and the size.
const FILE: (&str, usize) = ("1k.html", 1024);
/// The most that the metrics may cost, relative to the same request without a monitor.
const GOAL: f64 = 1.01;
/// Reads of the idle server whose cpu time is measured.
const IDLE_READS: u32 = 5;
/// The path of the metrics.
const METRICS: &str = "/metrics";

/// The numbers of hosts.
const COUNTS: [usize; 2] = [1, 1000];

/// The name in rows, without and with a monitor.
const VARIANTS: [&str; 2] = ["vermeil", "vermeil, read"];

const HOW_TO_READ: &str = "\
**How to read it.** The load asks for a file in memory of each host in turn. In the rows with *read*, a monitor asks for \
the metrics at the beginning and after each second; the other rows are the same process without the monitor. *Cpu* is the \
cpu time of all threads of the server per request of the load, with the answers to the monitor. *× unread* \
divides the two rows of a round, which take turns; the spread is over the rounds. *A read* is the cpu time of the server \
for an answer to the monitor, without other load: divided by the seconds between two reads, the number is the monitor's share of \
a core.

**What it does not show.** The cost of counting itself, because a server always counts.";

/// Runs the bench.
///
/// # Errors
/// The server does not start or answers wrongly, or the run is interrupted. In every case all
/// started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let (site, cpus) = (BenchSite::new(&[FILE])?, BenchCpus::allowed()?);
    let bench = MetricsBench { options, stop, cpus, site };
    let mut points = Points::default();
    for round in 0..options.rounds {
        for hosts in COUNTS {
            bench.sample(hosts, round, &mut points)?;
        }
    }
    Ok(report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    report.check(&[(VARIANTS[0], "cpu_us"), (VARIANTS[1], "cpu_us"), (VARIANTS[1], "reads")])?;
    Ok(report)
}

/// The state shared by all runs.
struct MetricsBench<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    site: BenchSite,
}

impl MetricsBench<'_> {
    /// A start of the server, and the load without and with a monitor.
    fn sample(&self, hosts: usize, round: usize, points: &mut Points) -> BenchResult<()> {
        self.stop.check()?;
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let state = self.site.state_folder("vermeil")?;
        let config = state.join("vermeil.toml");
        fs::write(&config, self.config(hosts, address)).map_err(BenchError::path("write", &config))?;
        let mut command = network.server_command(&self.options.vermeil, self.cpus.server);
        command.args(["serve", "--config"]).arg(config);
        let process = PeerProcess::start("vermeil", command, &state)?;
        process.wait_until_listening(network, address)?;
        let wrk = Wrk::with_requests(&state, self.cpus.client, &requests(hosts))?;
        let run = |duration| {
            let load = WrkLoad { connections: CONNECTIONS, duration };
            let outcome = wrk.run(network, address, &ProbeTarget::to("/"), load, self.stop)?;
            match outcome.problem(200) {
                Some(problem) => Err(process.failure(&format!("under load: {problem}"))),
                None => Ok(outcome.requests),
            }
        };
        run(self.options.duration / 4)?;
        let slices = if self.options.size == BenchSize::Full { SLICES } else { 1 };
        let (mut spent, mut requests, mut reads) = ([Duration::ZERO; 2], [0; 2], 0);
        for slice in 0..slices {
            let order = if (round + slice).is_multiple_of(2) { [0, 1] } else { [1, 0] };
            for place in order {
                let before = CpuTime::of_group(process.group())?;
                let load = || run(self.options.duration / slices as u32);
                requests[place] += match place {
                    0 => load()?,
                    _ => {
                        let (outcome, count) = while_read(address, load)?;
                        reads += count;
                        outcome
                    }
                };
                spent[place] += (CpuTime::of_group(process.group())? - before).run;
            }
        }
        let program = if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") };
        let mut push = |place: usize, metric, unit, value| {
            let key = PointKey { program: program.clone(), variant: VARIANTS[place].into(), metric, unit };
            points.push(key, value);
        };
        for place in [0, 1] {
            let cpu_us = spent[place].as_secs_f64() * 1e6 / requests[place] as f64;
            eprintln!("{program:<11} {:<14} {cpu_us:>6.3} us", VARIANTS[place]);
            push(place, "cpu_us", "us", cpu_us);
        }
        push(1, "reads", "reads", f64::from(reads));
        let before = CpuTime::of_group(process.group())?;
        (0..IDLE_READS).try_for_each(|_| read(address))?;
        let spent = (CpuTime::of_group(process.group())? - before).run;
        push(1, "read_us", "us", spent.as_secs_f64() * 1e6 / f64::from(IDLE_READS));
        process.stop()
    }

    /// The server's configuration.
    fn config(&self, hosts: usize, address: SocketAddr) -> String {
        let (cpu, root) = (self.cpus.server, self.site.root());
        let mut text =
            format!("cores = \"{cpu}-{cpu}\"\nlog = \"off\"\n[[listener]]\naddress = \"{address}\"\n");
        for number in 0..hosts {
            let _infallible = write!(
                text,
                "[[host]]\nnames = [\"{}\"]\nroot = \"{}\"\n\
                 [[host.route]]\npath = \"{METRICS}\"\naction = \"metrics\"\n",
                host_name(number),
                root.display()
            );
        }
        text
    }
}

/// Runs `load` while a monitor reads the metrics at `address`. Returns the result of `load` and
/// the number of reads.
fn while_read<T>(address: SocketAddr, load: impl FnOnce() -> BenchResult<T>) -> BenchResult<(T, u32)> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let monitor = scope.spawn(|| {
            let mut reads = 0;
            while !ended.load(Ordering::Acquire) {
                read(address)?;
                reads += 1;
                thread::park_timeout(READ_EACH);
            }
            Ok(reads)
        });
        let outcome = load();
        ended.store(true, Ordering::Release);
        monitor.thread().unpark();
        let reads = monitor.join().expect("the monitor does not panic")?;
        Ok((outcome?, reads))
    })
}

/// Reads the metrics once.
fn read(address: SocketAddr) -> BenchResult<()> {
    let target = ProbeTarget { host: Some(host_name(0)), ..ProbeTarget::to(METRICS) };
    let answer = probe::fetch(address, &target).map_err(BenchError::thing("read", METRICS))?;
    match answer.status {
        200 => Ok(()),
        status => Err(BenchError::peer("vermeil", format!("status {status} for {METRICS}"))),
    }
}

fn host_name(number: usize) -> String {
    format!("site-{number}.example")
}

/// The part of wrk's script that asks each host in turn.
fn requests(hosts: usize) -> String {
    format!(
        r#"
local made, place = {{}}, 0
init = function(args)
  for number = 0, {hosts} - 1 do
    made[number] = wrk.format(nil, "/{}", {{ Host = "site-" .. number .. ".example" }})
  end
end
request = function()
  place = (place + 1) % {hosts}
  return made[place]
end
"#,
        FILE.0
    )
}

/// The finished bench.
fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let parameters = vec![
        (
            "load",
            format!(
                "wrk, {CONNECTIONS} keep-alive connections, a file of {} bytes, {:?} a row and round, in {SLICES} parts{}",
                FILE.1,
                options.duration,
                options.size.note()
            ),
        ),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server on one, the load and the monitor on the other".into()),
        ("goal", format!("× unread at most {GOAL}")),
    ];
    BenchReport::new("metrics", "the cost of metrics", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head = ["hosts", "server", "cpu µs", "low – high", "× unread", "low – high", "a read, µs"];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let read = variant == VARIANTS[1];
        let ratio = points.ratio(program, (variant, VARIANTS[0]), "cpu_us").filter(|_| read);
        let text = |text: fn(Summary) -> String| ratio.map(text).unwrap_or_default();
        table.push([
            program.into(),
            variant.into(),
            points.median(program, variant, "cpu_us"),
            points.spread(program, variant, "cpu_us"),
            text(|ratio| format!("{:.3}", ratio.median)),
            text(|ratio| format!("{:.3} – {:.3}", ratio.low, ratio.high)),
            points.median(program, variant, "read_us"),
        ]);
    }
    table
}
