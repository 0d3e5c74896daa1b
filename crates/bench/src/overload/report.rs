//! The table of the bench and its explanation.

use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Offered* is the rate of arrivals, relative to the rate that the server reached in a closed loop \
at the beginning of the round (the median of three probes). Each request has its own connection, and its client gives \
up after a second, connecting included. *Good* are complete answers with a status below 400 in that time. *Of its \
peak* compares these with the same server's best level. The best level has the highest median after division by the \
machine's pace in each round: the mean of the floor's results above 100 %. The best of several medians is a little too \
high: with errors of 4 %, a server that loses nothing shows 98 %. The lowest and the highest round stand beside the \
median. *µs each* is the cpu time of the server per good answer, including the cost of refusals. The *floor* is a loop \
that accepts, receives, answers as many bytes and closes, with blocking calls and a queue of 200 connections. The \
floor refuses no client and parses nothing, so its losses and delays are the kernel's and the machine's. *Of the \
floor's* compares the share of the peak with the floor's in the same round. *p99* is the time within which 99 of 100 \
good answers came, from the planned start of the request, in the worst tenth of a second of four. Above 100 %, *good* \
comes from another run. In that run the four levels follow each other in changing order, three seconds each, six \
times, so each level gets its part of every moment of the machine. The first second of a level does not count. Each \
server is started once in a round and has answered one request before, so the placement of its memory is the same at \
all levels. The bench repeats a run, at most twice, if one request in a hundred began 100 ms late or more, or the \
hypervisor took more than 2 % of the machine's time. *Recovered* is the time after the overload until the server \
handles half of its capacity again, which is the load then. Every number is the median of interleaved rounds.

**What it does not show.** A server with a whole machine. Here the server is limited to a part of a cpu, so that the \
load can offer four times as much. The limit does not cover the kernel's work on packets.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, quota: String, points: &Points) -> BenchReport {
    let nginx = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
    let size = options.size.note();
    let parameters = vec![
        ("versions", nginx.unwrap_or_default().replace("nginx version: ", "")),
        ("load", format!("vermeil load, open loop, 1 KB over a connection each{size}")),
        ("server", quota),
        ("rounds", options.rounds.to_string()),
    ];
    BenchReport::new("overload", "the good answers that remain", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head = [
        "offered",
        "server",
        "offered/s",
        "good/s",
        "of its peak",
        "spread",
        "of the floor's",
        "µs each",
        "p99 ms",
        "recovered s",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let median = |metric| points.summary(program, variant, metric).map(|summary| summary.median);
        let text = |metric| median(metric).map(number).unwrap_or_default();
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let kept = points.summary(program, variant, "kept");
        table.push([
            program.into(),
            variant.into(),
            text("offered_per_s"),
            text("good_per_s"),
            kept.map(|share| percent(share.median)).unwrap_or_default(),
            kept.map(|share| format!("{} – {}", percent(share.low), percent(share.high))).unwrap_or_default(),
            median("kept_of_floor").map(percent).unwrap_or_default(),
            text("cpu_us"),
            text("p99_ms"),
            text("recovery_s"),
        ]);
    }
    table
}
