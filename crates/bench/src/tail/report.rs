//! The tables of the bench and their explanation.

use super::CONNECTIONS;
use super::servers::TailServer;
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *hosts* is a page of 1 KB of a random host: the only page of the host, or one of 20. *files* is a \
random file of 4 KB in folders of 100 files; *zipf* is the same with popular files (exponent 0.9), *overlayfs* the same on the file system of most containers. *vermeil-uncached* has \
a cache of a single path, so for pages that are all alike its cost is that of a request without a cache. *Cpu* is the cpu time of the server's processes \
per request, after a visit to each folder and a warm-up of the same length. *Both* adds the cpu time of the load: nginx \
sends a file from the kernel's memory without a copy, so over loopback the load pays for reading content that no cache \
holds. *First* is the server's time for the first request in each folder, and ends before. *× nginx* is the median of the ratios of the rounds to the column before. *Calls* are the system calls of a request \
with those of receiving, sending and waiting, counted by the kernel's tracepoint in a run of its own. With io_uring, \
receiving and sending take no calls of their own. *Memory* counts shared pages once.

**What it does not show.** A server that reads its files from a disk, because all folders are in memory.";

const HOW_TO_READ_HOSTS: &str = "\
**How to read it.** *Loaded* is \
the time from the start of the process until the answer to a request for the last host of the configuration, and \
*memory* is the memory at that moment. The hosts are in a single file, or in *a file each*, which a pattern includes; the \
files are in memory. With *a certificate each*, each host has a certificate and a key on P-256 in files of its own, and \
the server has a listener for HTTPS too. The requests of the bench use HTTP. At its start the server reads the \
certificates of the first 1,000 hosts, and each other certificate when a client first asks for its host. *First* and \
*last* are the cpu time of a request for a small file of the first and of the last host of the configuration.

**What it does not show.** Hosts with routes or logs of their own.";

/// The finished bench of requests that no cache answers.
pub(super) fn tail(options: &BenchOptions, points: &Points) -> BenchReport {
    BenchReport::new("tail", "requests that no cache answers", &options.repository, parameters(options))
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

/// The finished bench of hosts.
pub(super) fn hosts(options: &BenchOptions, points: &Points) -> BenchReport {
    BenchReport::new("hosts", "loading thousands of hosts", &options.repository, parameters(options))
        .with_points(points)
        .with_table(loading_table(points))
        .with_how_to_read(HOW_TO_READ_HOSTS)
}

fn parameters(options: &BenchOptions) -> Vec<(&'static str, String)> {
    let version = |program, flag| find_program(program).and_then(|path| machine::version(&path, flag));
    let nginx = version("nginx", "-v").unwrap_or_default().replace("nginx version: ", "");
    let lighttpd = version("lighttpd", "-v").unwrap_or_default();
    let lighttpd = lighttpd.split_whitespace().next().unwrap_or_default().to_owned();
    let size = options.size.note();
    vec![
        ("versions", format!("{nginx} {lighttpd}").trim().to_owned()),
        ("load", format!("wrk, {CONNECTIONS} keep-alive connections, {:?} a run{size}", options.duration)),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server on one, the load on the other".into()),
    ]
}

fn table(points: &Points) -> CellTable {
    let head = [
        "work",
        "server",
        "cpu µs",
        "low – high",
        "× nginx",
        "both µs",
        "× nginx",
        "first µs",
        "× nginx",
        "calls",
        "memory MB",
        "req/s",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        let ratio = |metric| {
            let ratio = points.ratio(program, (variant, TailServer::Nginx.name()), metric);
            ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default()
        };
        table.push([
            program.into(),
            variant.into(),
            median("cpu_us"),
            points.spread(program, variant, "cpu_us"),
            ratio("cpu_us"),
            median("both_us"),
            ratio("both_us"),
            median("first_us"),
            ratio("first_us"),
            median("calls"),
            median("memory_mb"),
            median("per_s"),
        ]);
    }
    table
}

fn loading_table(points: &Points) -> CellTable {
    let head = ["hosts", "server", "loaded ms", "low – high", "memory MB", "first µs", "last µs"];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        table.push([
            program.trim_end_matches(" hosts").into(),
            variant.into(),
            median("load_ms"),
            points.spread(program, variant, "load_ms"),
            median("memory_mb"),
            median("first_us"),
            median("last_us"),
        ]);
    }
    table
}
