//! The table of the bench and its explanation.

use crate::machine;
use crate::options::Options;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::Report;
use crate::svg::number;
use crate::table::Table;

const HOW_TO_READ: &str = "\
**How to read it.** *Offered* is what arrives each second, as a part of what the server answered in a closed loop at the beginning \
of the round, the median of three probes. \
Each request has a connection of its own, and its client gives up after a second, connecting included. *Good* are complete \
answers with a status below 400 in that time; *of its peak* compares them with the same server's best level, which is the one of the highest median after \
the machine's pace was taken out of each round: the mean of what the floor gave above 100 %. The best of some medians is a little too high: with errors of 4 % a server \
that loses nothing shows 98 %. The lowest and the highest round stand beside it. *µs each* is the cpu time that the server took for each good answer, what it turned away \
included. The *floor* is a loop that accepts, receives, answers as many bytes and closes, with blocking calls and a queue of 200 connections: it refuses \
nobody and looks at nothing, so what it loses, or takes more time for, is the kernel and the machine; *of the floor's* compares the part of the peak with the \
floor's in the same round. *p99* is the time within which 99 of 100 good answers came, from the moment the request was to begin, in the worst \
tenth of a second of four. Above 100 % *good* comes from another run, in which the four levels follow one another in changing order, three seconds each, \
six times: so each has its part of every moment of the machine. The first second of a level is not counted. Each server is started once in a round and has answered one request before: where its memory lies is the same at all levels. A run in \
which one request in a hundred began 100 ms late or more, or the hypervisor took more than 2 % of the machine's time, is repeated, twice at most. *Recovered* is how long after the overload half of the \
capacity, which is offered then, is served again. Every number is the median of interleaved rounds.

**What it does not show.** A server that has a whole machine: this one is held to a part of a cpu, so that the load can offer \
four times as much, and what the kernel does with packets is not held to it.";

/// The finished bench.
pub(super) fn report(options: &Options, quota: String, points: &Points) -> Report {
    let nginx = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
    let size = options.size.note();
    let parameters = vec![
        ("versions", nginx.unwrap_or_default().replace("nginx version: ", "")),
        ("load", format!("vermeil load, open loop, 1 KB over a connection each{size}")),
        ("server", quota),
        ("rounds", options.rounds.to_string()),
    ];
    Report::new("overload", "what is left of the good answers", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> Table {
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
    let mut table = Table::new(2, &head);
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
