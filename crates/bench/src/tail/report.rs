//! The tables of the bench and their explanation.

use super::servers::TailServer;
use super::{CONNECTIONS, slow, walk};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *hosts* is a page of 1 KB of a random host: the only page of the host, or one of 20. *files* is a \
random file of 4 KB in folders of 100 files; *zipf* is the same with popular files (exponent 0.9), *overlayfs* the same on the file system of most containers. *vermeil-uncached* has \
a cache of a single path, so for pages that are all alike its cost is that of a request without a cache. *floor* is a loop \
that opens the named file, takes its size, reads, closes and sends it, without any check and with a head of fixed bytes: about \
the least that a server without a cache can do. *Cpu* is the cpu time of the server's processes \
per request, after a visit to each folder and a warm-up of the same length. *Both* adds the cpu time of the load: nginx \
sends a file from the kernel's memory without a copy, so over loopback the load pays for reading content that no cache \
holds. *First* is the server's time for the first request in each folder, and ends before. *× nginx* is the median of the ratios of the rounds to the column before. *Calls* are the system calls of a request \
with those of receiving, sending and waiting, counted by the kernel's tracepoint in a run of its own. With io_uring, \
receiving and sending take no calls of their own. *Memory* counts shared pages once.

The second table shows the share of requests for 1,000 popular files that the cache answers: alone, and while every fourth \
request is for the next of all files, as of a crawler. *Looked up* is how often each popular file is looked up in a second. A \
file in memory is checked once a second, which counts as a look-up, so more than 1 would mean that the walk takes files out of memory.

In the third table the contents of the files are not in memory, and the disk answers each read after 10 ms. nginx reads on \
threads (`aio threads`). *Hot* is the time to the answer for a file in memory, at 2,000 requests a second, alone and beside \
16 clients of cold files that pause for up to 10 ms before each request; the clients of the hot file run before all others of their cpu. Both are measured by turns of 0.6 s, \
without the turns in which the clients themselves were late by more than 2 ms, and *× alone* is the median of the ratios of the turns. *Cold files/s* is the number of cold files for 64 \
clients. The disk is a loop device over a file system of the bench, and its metadata is in memory. With *overlayfs* each server \
sees the disk through overlayfs, which cannot tell whether a read waits.

**What it does not show.** Folders that are not in memory.";

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
pub(super) fn tail(
    options: &BenchOptions,
    (points, of_walk, of_disk): (&Points, &Points, &Points),
) -> BenchReport {
    BenchReport::new("tail", "requests that no cache answers", &options.repository, parameters(options))
        .with_points(points)
        .with_points(of_walk)
        .with_points(of_disk)
        .with_table(table(points))
        .with_table(walk_table(of_walk))
        .with_table(disk_table(of_disk))
        .with_how_to_read(HOW_TO_READ)
}

fn walk_table(points: &Points) -> CellTable {
    let head = ["server", "alone %", "looked up", "beside a walk %", "low – high", "looked up", "cpu µs"];
    let mut table = CellTable::new(1, &head);
    for (program, variant) in points.cells() {
        debug_assert_eq!(program, walk::NAME);
        table.push([
            variant.into(),
            points.median(program, variant, "alone_hits"),
            points.median(program, variant, "alone_looked_up"),
            points.median(program, variant, "beside_hits"),
            points.spread(program, variant, "beside_hits"),
            points.median(program, variant, "beside_looked_up"),
            points.median(program, variant, "walk_cpu_us"),
        ]);
    }
    table
}

fn disk_table(points: &Points) -> CellTable {
    let head = [
        "file system",
        "server",
        "hot p50 µs",
        "beside",
        "× alone",
        "hot p99 µs",
        "beside",
        "× alone",
        "low – high",
        "cold files/s",
        "low – high",
        "× nginx",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let file_system = if program == slow::OVERLAY_NAME { "overlayfs" } else { "ext4" };
        let median = |metric| points.median(program, variant, metric);
        let of_nginx = points.ratio(program, (variant, TailServer::Nginx.name()), "cold_per_s");
        table.push([
            file_system.into(),
            variant.into(),
            median("alone_p50_us"),
            median("beside_p50_us"),
            median("p50_growth"),
            median("alone_p99_us"),
            median("beside_p99_us"),
            median("p99_growth"),
            points.spread(program, variant, "p99_growth"),
            median("cold_per_s"),
            points.spread(program, variant, "cold_per_s"),
            of_nginx.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default(),
        ]);
    }
    table
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
