//! The table of the bench and its explanation.

use crate::options::BenchOptions;
use crate::points::Points;
use crate::report::BenchReport;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** An *event* is a step at a single moment of the virtual clock, as simulators count events: an \
arrival, a core that goes on after a run, a wake-up, a search or a sleep. *Runs* are runs of simulated handlers, \
including queues, locks, steals, caches and links. On a large machine with little to do, half of the events are \
wake-ups, searches and sleeps of idle cores. Both numbers are per second of processor time of the single simulating \
thread. *Memory* is the peak of the process. Every case has the same trace hash in every round.

**What it does not show.** The influence of the memory that a handler touches: a handler that walks through a megabyte \
costs more than a handler that touches nothing.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let parameters = vec![("rounds", format!("{}{}", options.rounds, options.size.note()))];
    BenchReport::new("sim", "how fast machines are simulated", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head =
        ["workload", "machine and policy", "million events/s", "low – high", "million runs/s", "memory MB"];
    let mut table = CellTable::new(2, &head);
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
            median("runs_per_s"),
            summary("memory_mb").map(|found| number(found.median)).unwrap_or_default(),
        ]);
    }
    table
}
