//! The tables of the trials and their explanation.

use std::time::Duration;

use vermeil_load::report::Record;

use super::servers::FindmaxServer;
use super::{CHILDREN, COMPRESS, window};
use crate::options::BenchOptions;
use crate::report::BenchReport;
use crate::rows::{BenchRow, RunOrigin};
use crate::stats::Summary;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** Each line is a trial of `vermeil load support --find-max`: a number of users of the support site \
that think and receive bytes ten times as fast as published. *Held* means that 95 % of the complete pages came within 3 \
s, 99 % within 5 s, downloads at their rate, and under 0.5 % failed. The number of users doubles until the result is \
not held, and is then bisected. Pages are PHP that asks a back end; files are plain. nginx opens a connection to PHP \
for each request, as by default, because kept connections would hold children that other requests wait for. A trial \
that the load or the machine limited is marked and does not count.

**What it does not show.** Two virtual cores of one machine, shared with other guests; short trials; a file set that \
fits into memory.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, found: &[(FindmaxServer, Record)]) -> BenchReport {
    let size = options.size.note();
    let parameters = vec![
        ("workload", format!("support, {COMPRESS} times as fast, {:?} a trial{size}", window(options))),
        ("PHP", format!("php-fpm, {CHILDREN} children")),
        ("cpus", "server and PHP on one, injector and back end on the other".into()),
    ];
    let title = "the most users that are served well";
    let mut report = BenchReport::new("find-max", title, &options.repository, parameters);
    for (server, record) in found {
        report = report
            .with_rows(|origin| rows(origin, *server, record))
            .with_line(result(*server, record))
            .with_table(trials(record));
    }
    report.with_how_to_read(HOW_TO_READ)
}

fn rows(origin: &RunOrigin, server: FindmaxServer, record: &Record) -> Vec<BenchRow> {
    let Some(search) = &record.search else { return Vec::new() };
    let (low, high) = search.bracket;
    let [median, low, high] = [search.users, low, high].map(|users| users as f64);
    let users = Summary { median, low, high, rounds: search.trials.len() };
    let rate = Summary { median: record.rate, low: record.rate, high: record.rate, rounds: 1 };
    let row = |metric, unit, summary| origin.row("support", server.name(), metric, unit, summary);
    vec![row("users", "users", users), row("pages_per_s", "pages/s", rate)]
}

/// The result of a search in one line.
fn result(server: FindmaxServer, record: &Record) -> String {
    let Some(search) = &record.search else { return format!("{}: nothing found", server.name()) };
    format!("{}: {} users; {}", server.name(), search.users, search.confidence)
}

fn trials(record: &Record) -> CellTable {
    let mut table =
        CellTable::new(0, &["users", "held", "pages/s", "good %", "tolerable %", "failed %", "p99 ms"]);
    for trial in record.search.iter().flat_map(|search| &search.trials) {
        let held = match (trial.valid, trial.held) {
            (false, _) => "not to be trusted",
            (true, true) => "yes",
            (true, false) => "no",
        };
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        table.push([
            trial.users.to_string(),
            held.into(),
            number(trial.rate),
            percent(trial.good_share),
            percent(trial.tolerable_share),
            percent(trial.failed_share),
            trial
                .p99_ns
                .map_or_else(|| "–".into(), |ns| number(Duration::from_nanos(ns).as_secs_f64() * 1e3)),
        ]);
    }
    table
}
