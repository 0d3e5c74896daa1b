//! The tables of the bench and their explanation.

use super::idle::{FEW, many};
use super::servers::AcceptServer;
use super::{CONNECTIONS, FILE};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::stats::Summary;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** In the first table each request has a connection of its own (`Connection: close`). *Cpu* is the cpu \
time of the server's processes per request, and *both* adds the cpu time of the load: over loopback the kernel charges a \
part of the work of a connection to either side, as the packets fall. *floor* is a loop of blocking calls, without \
parsing, that accepts, receives, sends and closes. *× nginx* and *× floor* are medians of the ratios of the rounds. In the \
second table keep-alive requests are measured beside few and many idle connections, by turns in one start of the \
server. *Growth* divides the two.

**What it does not show.** A network card, and the memory of the connections.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, each: &Points, idle: &Points) -> BenchReport {
    let version = |program, flag| find_program(program).and_then(|path| machine::version(&path, flag));
    let nginx = version("nginx", "-v").unwrap_or_default().replace("nginx version: ", "");
    let lighttpd = version("lighttpd", "-v").unwrap_or_default();
    let lighttpd = lighttpd.split_whitespace().next().unwrap_or_default().to_owned();
    let load = format!(
        "wrk, {CONNECTIONS} connections, a file of {} bytes, {:?} a run{}",
        FILE.1,
        options.duration,
        options.size.note()
    );
    let parameters = vec![
        ("versions", format!("{nginx} {lighttpd}").trim().to_owned()),
        ("load", load),
        ("idle", format!("{FEW} and {} connections", many(options.size))),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "the server on one, the load on the other".into()),
    ];
    BenchReport::new("accept", "the cost of connections", &options.repository, parameters)
        .with_points(each)
        .with_points(idle)
        .with_table(each_table(each))
        .with_table(idle_table(idle))
        .with_how_to_read(HOW_TO_READ)
}

fn ratio(points: &Points, program: &str, pair: (&str, &str), metric: &str) -> String {
    let median = |ratio: Summary| format!("{:.2}", ratio.median);
    points.ratio(program, pair, metric).map(median).unwrap_or_default()
}

fn each_table(points: &Points) -> CellTable {
    let head =
        ["server", "cpu µs", "low – high", "× nginx", "× floor", "both µs", "× nginx", "× floor", "req/s"];
    let mut table = CellTable::new(1, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.median(program, variant, metric);
        let to = |base: AcceptServer, metric| ratio(points, program, (variant, base.name()), metric);
        table.push([
            variant.into(),
            median("cpu_us"),
            points.spread(program, variant, "cpu_us"),
            to(AcceptServer::Nginx, "cpu_us"),
            to(AcceptServer::Floor, "cpu_us"),
            median("both_us"),
            to(AcceptServer::Nginx, "both_us"),
            to(AcceptServer::Floor, "both_us"),
            median("per_s"),
        ]);
    }
    table
}

fn idle_table(points: &Points) -> CellTable {
    let head = ["server", "few µs", "many µs", "growth", "low – high", "many × nginx"];
    let mut table = CellTable::new(1, &head);
    for (program, variant) in points.cells() {
        let growth = points.summary(program, variant, "growth");
        let text = |text: fn(Summary) -> String| growth.map(text).unwrap_or_default();
        table.push([
            variant.into(),
            points.median(program, variant, "few_us"),
            points.median(program, variant, "many_us"),
            text(|growth| format!("{:.3}", growth.median)),
            text(|growth| format!("{:.3} – {:.3}", growth.low, growth.high)),
            ratio(points, program, (variant, AcceptServer::Nginx.name()), "many_us"),
        ]);
    }
    table
}
