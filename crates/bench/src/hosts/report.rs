//! The table of the bench and its explanation.

use super::CONNECTIONS;
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Loaded* is the time from the start of the process until the answer to a request for the last host \
of the configuration. *Memory* is the memory of all processes of the server at that moment, with shared pages counted \
once. *First* and *last* are the cpu time of a request for a small file of the first and of the last host of the file.

**What it does not show.** A server that reads its files from a disk, because all folders are in memory. A change of \
the configuration, because both servers read the whole configuration again.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let nginx = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
    let size = options.size.note();
    let parameters = vec![
        ("versions", nginx.unwrap_or_default().replace("nginx version: ", "")),
        ("load", format!("wrk, {CONNECTIONS} keep-alive connections, {:?} a run{size}", options.duration)),
        ("rounds", options.rounds.to_string()),
        ("cpus", "the server on one, the load on the other".into()),
    ];
    BenchReport::new("hosts", "the cost of virtual hosts", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
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
