//! The table of the bench, and how to read it.

use crate::options::Options;
use crate::points::Points;
use crate::report::Report;
use crate::svg::number;
use crate::table::Table;

const HOW_TO_READ: &str = "\
**How to read it.** An *event* is one run of a simulated handler, with everything around it: queues, locks, steals, caches, \
links, wake-ups. *Moments* are entries of the virtual clock. Both for each second of processor time of the one thread that \
simulates. *Memory* is the most that the process had. Every case has the same trace hash in every round.

**What it does not show.** How many chunks of memory a handler touches decides: a handler that walks through a megabyte costs \
more than one that touches nothing.";

/// The finished bench.
pub(super) fn report(options: &Options, points: &Points) -> Report {
    let parameters = vec![("rounds", format!("{}{}", options.rounds, options.size.note()))];
    Report::new("sim", "how fast machines are simulated", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> Table {
    let head = [
        "workload",
        "machine and policy",
        "million events/s",
        "low – high",
        "million moments/s",
        "memory MB",
    ];
    let mut table = Table::new(2, &head);
    for (program, variant) in points.cells() {
        let summary = |metric| points.summary(program, variant, metric);
        let millions = |value: f64| format!("{:.2}", value / 1e6);
        let median = |metric| summary(metric).map(|found| millions(found.median)).unwrap_or_default();
        let spread = summary("events_per_s")
            .map(|found| format!("{} – {}", millions(found.low), millions(found.high)));
        table.push([
            program.into(),
            variant.into(),
            median("events_per_s"),
            spread.unwrap_or_default(),
            median("moments_per_s"),
            summary("memory_mb").map(|found| number(found.median)).unwrap_or_default(),
        ]);
    }
    table
}
