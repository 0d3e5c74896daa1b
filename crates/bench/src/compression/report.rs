//! The tables of the bench and their explanation.

use super::work::{FILES, PAGE_BYTES, SMALL_BYTES, large_bytes};
use super::{CONNECTIONS, LARGE_CONNECTIONS};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::{PeerServer, find_program};
use crate::points::Points;
use crate::report::BenchReport;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Cpu* is the cpu time of the server's processes per compressed answer, in the kernel too. *× nginx* \
compares medians. *KB* is the length of an answer with its head; both servers have the same level, but not the same \
library: zlib in nginx, zlib-rs in Vermeil, which writes longer answers at level 1. *kept* is a file with Vermeil's \
default configuration, which compresses a file once; nginx compresses each answer. In *gzip-1*, *gzip-6*, *br-5* and \
*zstd-3* Vermeil keeps no compressed contents, so both servers do the same work. *php* is an answer of PHP, and its \
cpu is the server's alone. In the second table, a small file that is not compressed is asked for while other \
connections ask for large files, compressed anew: *p99* is the time of the small request.

**What it does not show.** Idle cores that take the work, because the server has one cpu.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let version = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
    let size = options.size.note();
    let parameters = vec![
        ("versions", version.unwrap_or_default().replace("nginx version: ", "")),
        (
            "content",
            format!(
                "pages of this repository: {FILES} files of {} KB; beside {FILES} of {} KB, one of {SMALL_BYTES} bytes",
                PAGE_BYTES / 1024,
                large_bytes(options.size) / 1024
            ),
        ),
        (
            "load",
            format!(
                "wrk, {CONNECTIONS} keep-alive connections, and {LARGE_CONNECTIONS} for large files beside, {:?} a \
                 run{size}",
                options.duration
            ),
        ),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server and PHP on one, the load on the other".into()),
    ];
    BenchReport::new("compression", "the cost of a compressed answer", &options.repository, parameters)
        .with_points(points)
        .with_table(cost_table(points))
        .with_table(beside_table(points))
        .with_how_to_read(HOW_TO_READ)
}

/// The median of a metric of a server as a multiple of nginx's.
fn times_nginx(points: &Points, program: &str, variant: &str, metric: &str) -> String {
    let of = |variant| points.summary(program, variant, metric).map(|summary| summary.median);
    let ratio = of(variant).zip(of(PeerServer::Nginx.name())).map(|(own, nginx)| number(own / nginx));
    ratio.unwrap_or_default()
}

fn cost_table(points: &Points) -> CellTable {
    let head = ["work", "server", "cpu µs", "low – high", "× nginx", "KB", "answers/s"];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        if median("cpu_us").is_empty() {
            continue;
        }
        table.push([
            program.into(),
            variant.into(),
            median("cpu_us"),
            points.spread(program, variant, "cpu_us"),
            times_nginx(points, program, variant, "cpu_us"),
            median("answer_kb"),
            median("per_s"),
        ]);
    }
    table
}

fn beside_table(points: &Points) -> CellTable {
    let head = ["work", "server", "p99 µs", "low – high", "× nginx", "p50 µs", "small/s", "large/s"];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        if median("p99_us").is_empty() {
            continue;
        }
        table.push([
            program.into(),
            variant.into(),
            median("p99_us"),
            points.spread(program, variant, "p99_us"),
            times_nginx(points, program, variant, "p99_us"),
            median("p50_us"),
            median("small_per_s"),
            median("large_per_s"),
        ]);
    }
    table
}
