//! The tables of the bench and their explanation.

use super::{COMPLETE, handshakes, served, simulated, threads};
use crate::options::BenchOptions;
use crate::points::Points;
use crate::report::BenchReport;
use crate::stats::Summary;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** Each row compares one binary with and without a mechanism. A column with × divides the run *without* the \
mechanism by the complete run: above 1 for cpu time and latency, and below 1 for rates, the mechanism is a gain. The \
first table has the median and the extremes of pairs of starts, whose loads take short turns. Its last columns are the system calls of a request, complete and without, \
which are nearly the same in each run, while cpu times depend on the other work of the machine. The second table has requests beside handshakes as in `bench tls`, on all cpus, one start of the server after the \
other. The third table has programs of `bench runtime` on all cpus. The fourth table is simulated, each pair with another \
seed. It shows only the workloads that change clearly: all seeds are on one side of 1, and the median differs by \
more than 2 % in rate or cpu time, or by more than 10 % in p50 or p99. *Cpu* is the busy time of all cores per answer.

**What it does not show.** Mechanisms that prevent a fault instead of saving time. A test of each fault shows their \
worth: the rescue from stalled cores, admission control, the parking of idle connections, and the move of a woken task to the core \
where its turn comes sooner.";

/// Least differences of a clear change.
const RATE_LEAST: f64 = 0.02;
const LATENCY_LEAST: f64 = 0.1;

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let load = format!(
        "{:?} a run{}, the server on one cpu, the load on the other",
        options.duration,
        options.size.note()
    );
    let parameters = vec![
        ("load", load),
        ("rounds", format!("{} pairs, of {} turns each", options.rounds, served::TURNS)),
        (
            "simulated",
            format!(
                "{} of virtual time, of pipelines {}; {} seeds",
                simulated::RUN,
                simulated::PIPELINE_RUN,
                simulated::SEEDS
            ),
        ),
    ];
    BenchReport::new("mechanisms", "the gain of each mechanism", &options.repository, parameters)
        .with_points(points)
        .with_table(measured(points))
        .with_table(beside_handshakes(points))
        .with_table(on_threads(points))
        .with_table(simulated_gains(options, points))
        .with_how_to_read(HOW_TO_READ)
}

/// The runs without a mechanism, divided by the complete runs.
fn ratio(points: &Points, (work, mechanism): (&str, &str), metric: &str) -> Option<Summary> {
    points.ratio(work, (mechanism, COMPLETE), metric)
}

/// The median, or nothing.
fn times(ratio: Option<Summary>) -> String {
    ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default()
}

/// The extremes, or nothing.
fn spread(ratio: Option<Summary>) -> String {
    ratio.map(|ratio| format!("{:.2} – {:.2}", ratio.low, ratio.high)).unwrap_or_default()
}

/// The works and mechanisms with this metric, and the metric without the mechanism, divided by that
/// of the complete run.
fn compared<'p>(points: &'p Points, metric: &'p str) -> impl Iterator<Item = ((&'p str, &'p str), Summary)> {
    let without = |&(_, mechanism): &(&str, &str)| mechanism != COMPLETE;
    let ratio = move |cell| Some((cell, ratio(points, cell, metric)?));
    points.cells().into_iter().filter(without).filter_map(ratio)
}

fn measured(points: &Points) -> CellTable {
    let head = [
        "mechanism",
        "load",
        "cpu µs",
        "× cpu",
        "low – high",
        "× req/s",
        "low – high",
        "× p99",
        "calls",
        "without",
    ];
    let mut table = CellTable::new(2, &head);
    for (cell, cpu) in compared(points, served::CPU) {
        let (work, mechanism) = cell;
        let rate = ratio(points, cell, served::RATE);
        table.push([
            mechanism.into(),
            work.into(),
            points.median(work, COMPLETE, served::CPU),
            times(Some(cpu)),
            spread(Some(cpu)),
            times(rate),
            spread(rate),
            times(ratio(points, cell, served::P99)),
            points.median(work, COMPLETE, served::CALLS),
            points.median(work, mechanism, served::CALLS),
        ]);
    }
    table
}

fn beside_handshakes(points: &Points) -> CellTable {
    let head = ["mechanism", "load", "p99 µs", "without", "× p99", "low – high"];
    let mut table = CellTable::new(2, &head);
    for (cell, p99) in compared(points, handshakes::P99) {
        let (work, mechanism) = cell;
        table.push([
            mechanism.into(),
            work.into(),
            points.median(work, COMPLETE, handshakes::P99),
            points.median(work, mechanism, handshakes::P99),
            times(Some(p99)),
            spread(Some(p99)),
        ]);
    }
    table
}

fn on_threads(points: &Points) -> CellTable {
    let head = ["mechanism", "program", "cpu ns", "× cpu", "low – high", "× events/s", "low – high"];
    let mut table = CellTable::new(2, &head);
    for (cell, cpu) in compared(points, threads::CPU) {
        let (work, mechanism) = cell;
        let rate = ratio(points, cell, threads::RATE);
        table.push([
            mechanism.into(),
            work.into(),
            points.median(work, COMPLETE, threads::CPU),
            times(Some(cpu)),
            spread(Some(cpu)),
            times(rate),
            spread(rate),
        ]);
    }
    table
}

fn simulated_gains(options: &BenchOptions, points: &Points) -> CellTable {
    let head = ["mechanism", "workload", "× rate", "× p50", "low – high", "× p99", "low – high", "× cpu"];
    let mut table = CellTable::new(2, &head);
    for mechanism in simulated::MECHANISMS.map(|mechanism| mechanism.name()) {
        let (mut shown, mut all) = (0, 0);
        for work in simulated::works(options.size) {
            let of = |metric| ratio(points, (&work, mechanism), metric);
            let [rate, cpu] = [simulated::RATE, simulated::CPU].map(of);
            let [p50, p99] = [simulated::P50, simulated::P99].map(of);
            all += 1;
            if [rate, cpu].iter().any(|&ratio| is_clear(ratio, RATE_LEAST))
                || [p50, p99].iter().any(|&ratio| is_clear(ratio, LATENCY_LEAST))
            {
                shown += 1;
                let latency = [p50, p99].into_iter().flat_map(|ratio| [times(ratio), spread(ratio)]);
                let numbers = [times(rate)].into_iter().chain(latency).chain([times(cpu)]);
                table.push([mechanism.into(), work].into_iter().chain(numbers));
            }
        }
        table.push([mechanism.into(), format!("the other {}", all - shown)]);
    }
    table
}

/// Whether all rounds are on one side of 1, and the median differs by more than `least`.
fn is_clear(ratio: Option<Summary>, least: f64) -> bool {
    ratio.is_some_and(|ratio| (ratio.median - 1.0).abs() > least && (ratio.low > 1.0 || ratio.high < 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_change_is_large_and_has_one_sign() {
        let of = |rounds: &[f64]| is_clear(Summary::of(rounds), RATE_LEAST);
        assert!(of(&[1.01, 1.03, 1.2]) && of(&[0.5, 0.9, 0.99]));
        assert!(!of(&[0.99, 1.03, 1.2]), "two signs");
        assert!(!of(&[1.01, 1.015, 1.2]), "small");
        assert!(!of(&[]), "not measured");
    }
}
