//! Reports of results: one run, several runs side by side, and JSON.
//!
//! Owns the choice of numbers and their units. The timeline is in `report/timeline.rs`, tables are
//! in `report/table.rs`. The simulation has no floating point; only reports do. Tested in
//! `report/tests.rs`.

mod chrome;
mod comparison;
mod decisions;
mod recorded;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

use serde_json::{Value, json};

use crate::histogram::SimHistogram;
use crate::machine::SimMachine;
use crate::results::Results;
use crate::workload::CompiledProgram;
use comparison::rate;
pub use comparison::{Regret, RunComparison, ideal};
pub use recorded::RecordedRun;
pub use table::Table;
pub use timeline::{SPANS_MAX, Timeline};

/// A run and the ideal schedule for comparison.
struct MeasuredRun<'a> {
    machine: &'a SimMachine,
    results: &'a Results,
    ideal: Option<&'a Results>,
}

impl MeasuredRun<'_> {
    /// The rate in percent of the ideal; `None` without an ideal, or if its rate is 0.
    fn of_ideal(&self) -> Option<f64> {
        let ideal = self.ideal.map(rate).filter(|&ideal| ideal > 0.0)?;
        Some(100.0 * rate(self.results) / ideal)
    }

    /// Share of all cores' time, in percent.
    fn share(&self, ns: u64) -> f64 {
        let all_ns = self.results.counted_ns as f64 * self.results.cores.len() as f64;
        100.0 * ns as f64 / all_ns
    }

    fn per_event(&self, count: u64) -> f64 {
        count as f64 / self.results.events().max(1) as f64
    }

    /// Cycles per steal; `None` without steals.
    fn per_steal_cycles(&self, ns: u64) -> Option<u64> {
        let each_ns = ns.checked_div(self.results.sum(|core| core.steals));
        each_ns.map(|ns| self.machine.cycles(ns))
    }

    /// The time that `permille` of 1,000 answers did not exceed; `None` without answers.
    fn latency_ns(&self, permille: u64) -> Option<u64> {
        permille_ns(&self.results.latency, permille)
    }
}

fn permille_ns(times: &SimHistogram, permille: u64) -> Option<u64> {
    (times.count() > 0).then(|| times.permille_ns(permille))
}

/// A cell of a table; empty without a number.
fn cell(number: Option<u64>, said: fn(u64) -> String) -> String {
    number.map_or_else(String::new, said)
}

/// A cell with a percentage; empty without a number.
fn percent(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.1} %"))
}

/// Instructions per cycle: the instructions of the base cycles, divided by all cycles of the
/// handlers.
pub fn ipc(machine: &SimMachine, results: &Results) -> f64 {
    let busy_ns = results.sum(|core| core.busy_ns).max(1);
    machine.base_ipc() * results.sum(|core| core.base_ns) as f64 / busy_ns as f64
}

/// A time in a suitable unit.
pub fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A number with commas between thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Several policies on the same program and machine, side by side. Percentages refer to `ideal`.
pub fn compare(
    machine: &SimMachine,
    program: &CompiledProgram,
    runs: &[Results],
    ideal: Option<&Results>,
) -> String {
    let mut table = Table::new(&[
        "policy",
        "rate",
        "behind best",
        "of FIFO",
        "p50",
        "p99",
        "of best p99",
        "p99.9",
        "backlog",
        "busy",
        "idle",
        "misses",
        "remote",
        "steals",
        "per steal",
        "stolen",
        "handed",
        "moves",
    ]);
    for results in runs {
        let seen = MeasuredRun { machine, results, ideal };
        let regret = Regret::of(results, runs);
        let traffic = results.all_traffic();
        let cycles = |ns| cell(seen.per_steal_cycles(ns), thousands);
        table.row([
            results.policy.clone(),
            format!("{}/s", thousands(rate(results).round() as u64)),
            percent(regret.rate_percent),
            percent(seen.of_ideal()),
            cell(seen.latency_ns(500), time),
            cell(seen.latency_ns(990), time),
            regret.p99_times.map_or(String::new(), |times| format!("{times:.2}")),
            cell(seen.latency_ns(999), time),
            results.backlog_percent().map_or_else(String::new, |percent| format!("{percent:+.1} %")),
            format!("{:.1} %", seen.share(results.sum(|core| core.busy_ns))),
            format!("{:.1} %", seen.share(results.sum(|core| core.idle_ns))),
            format!("{:.1}", seen.per_event(traffic.missed_lines)),
            format!("{:.1}", seen.per_event(traffic.remote_lines)),
            thousands(results.sum(|core| core.steals)),
            cycles(results.sum(|core| core.steal_ns)),
            cycles(results.sum(|core| core.stolen_work_ns)),
            thousands(results.handed_over),
            thousands(results.moves),
        ]);
    }
    format!(
        "{} on {}\n{}\n\n{table}\nof best p99: against the runs with at least 97 % of the rate; backlog: waiting events at the end against the start, in \
         percent of the events run; misses, remote: cache lines per event; per steal, stolen: cycles per color taken; \
         handed: colors that a core gave to another; moves: colors moved by placement.\n",
        program.name(),
        machine.name(),
        program.about()
    )
}

/// One run in detail.
pub fn describe(
    machine: &SimMachine,
    program: &CompiledProgram,
    results: &Results,
    ideal: Option<&Results>,
) -> String {
    let seen = MeasuredRun { machine, results, ideal };
    let mut text = format!(
        "{} on {}, policy {}, seed {}\n\n{}\n{}\n",
        results.workload,
        results.machine,
        results.policy,
        results.seed,
        totals(&seen, program),
        cores(&seen)
    );
    text += &format!("{}", handlers(machine, program, results));
    text += &usage(machine, results);
    text += &decisions::text(program, results);
    text += &format!("\ntrace hash {:016x} after {} events\n", results.hash, thousands(results.steps));
    text
}

fn totals(seen: &MeasuredRun<'_>, program: &CompiledProgram) -> String {
    let MeasuredRun { machine, results, .. } = seen;
    let traffic = results.all_traffic();
    let mut table = Table::new(&["", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("simulated", time(results.counted_ns));
    let per_second = |rate: f64| thousands(rate.round() as u64);
    if program.answers() {
        row("answered", format!("{}, {}/s", thousands(results.answered), per_second(results.per_second())));
    }
    if results.load.asked > 0 {
        row("asked, without waiting for answers", thousands(results.load.asked));
    }
    let waiting = [results.load.waiting_at_start, results.queued_at_end].map(thousands);
    row("events waiting at the start, at the end", waiting.join(", "));
    if let Some(percent) = seen.of_ideal() {
        row("of one FIFO queue", format!("{percent:.1} %"));
    }
    if let [Some(p50), Some(p90), Some(p99), Some(p999)] =
        [500, 900, 990, 999].map(|of| seen.latency_ns(of).map(time))
    {
        row("latency p50, p90, p99, p99.9", format!("{p50}, {p90}, {p99}, {p999}"));
    }
    row("events", format!("{}, {}/s", thousands(results.events()), per_second(results.events_per_second())));
    row("instructions per cycle", format!("{:.2} (estimate)", ipc(machine, results)));
    row("lines missed, from other caches, remote, per event", {
        let per = |count| format!("{:.1}", seen.per_event(count));
        let Traffics { missed, near, remote } = Traffics::of(&traffic);
        format!("{}, {}, {}", per(missed), per(near), per(remote))
    });
    if results.sent_bytes > 0 {
        let per_kb = |count: u64| format!("{:.1}", count as f64 * 1_024.0 / results.sent_bytes as f64);
        row("lines missed, remote, per KB sent", {
            format!("{}, {}", per_kb(traffic.missed_lines), per_kb(traffic.remote_lines))
        });
    }
    row("steals", thousands(results.sum(|core| core.steals)));
    let per_steal = |ns| seen.per_steal_cycles(ns).map(thousands);
    let cost = per_steal(results.sum(|core| core.steal_ns));
    if let Some((cost, work)) = cost.zip(per_steal(results.sum(|core| core.stolen_work_ns))) {
        row("cycles per steal, stolen work", format!("{cost}, {work}"));
    }
    row("colors handed over", thousands(results.handed_over));
    row("colors moved by placement", thousands(results.moves));
    if let Some(regret_ns) = results.regret_ns {
        row("lost by trials of plans (regret)", time(regret_ns));
    }
    table.to_string()
}

/// The three counts of the report.
struct Traffics {
    missed: u64,
    near: u64,
    remote: u64,
}

impl Traffics {
    fn of(traffic: &crate::memory::CoreTraffic) -> Self {
        let near = traffic.cache_to_cache_lines;
        Self { missed: traffic.missed_lines, near, remote: traffic.remote_lines }
    }
}

fn cores(seen: &MeasuredRun<'_>) -> Table {
    let mut table = Table::new(&[
        "core",
        "busy",
        "searching",
        "locks",
        "asleep",
        "events",
        "cold",
        "steals",
        "parks",
        "wakes",
    ]);
    for (index, core) in seen.results.cores.iter().enumerate() {
        let share = |ns: u64| format!("{:.1} %", 100.0 * ns as f64 / seen.results.counted_ns as f64);
        table.row([
            index.to_string(),
            share(core.busy_ns),
            share(core.search_ns),
            share(core.lock_ns),
            share(core.idle_ns),
            thousands(core.events),
            thousands(core.cold_runs),
            thousands(core.steals),
            thousands(core.parks),
            thousands(core.wakes),
        ]);
    }
    table
}

fn handlers(machine: &SimMachine, program: &CompiledProgram, results: &Results) -> Table {
    let mut table = Table::new(&["handler", "runs", "mean", "cycles", "cold runs", "mean of cold"]);
    for (name, counts) in program.handlers().zip(&results.handlers) {
        let mean_ns = counts.run_ns.checked_div(counts.runs);
        table.row([
            name.to_owned(),
            thousands(counts.runs),
            cell(mean_ns, time),
            cell(mean_ns.map(|ns| machine.cycles(ns)), thousands),
            thousands(counts.cold_runs),
            cell(counts.cold_ns.checked_div(counts.cold_runs), time),
        ]);
    }
    table
}

fn usage(machine: &SimMachine, results: &Results) -> String {
    let percent = |milli: &u64| format!("{:.1} %", *milli as f64 / 10.0);
    let list = |milli: &[u64]| milli.iter().map(percent).collect::<Vec<_>>().join(", ");
    let mut text = format!("\nmemory used by node: {}\n", list(&results.memory_use_milli));
    if !results.port_use_milli.is_empty() {
        text += &format!("ports used: {}\n", list(&results.port_use_milli));
    }
    let links = machine.link_ends().zip(&results.link_use_milli);
    let links: Vec<String> =
        links.map(|((from, to), used)| format!("{from}>{to} {}", percent(used))).collect();
    if !links.is_empty() {
        text += &format!("links used: {}\n", links.join(", "));
    }
    text
}

/// A run as a JSON object; `null` for a number without a count.
pub fn to_json(
    machine: &SimMachine,
    program: &CompiledProgram,
    results: &Results,
    ideal: Option<&Results>,
) -> Value {
    let seen = MeasuredRun { machine, results, ideal };
    let traffic = results.all_traffic();
    let answers = program.answers();
    let cores: Vec<Value> = results.cores.iter().map(|core| {
        json!({
            "busy_ns": core.busy_ns, "search_ns": core.search_ns, "lock_ns": core.lock_ns, "idle_ns": core.idle_ns,
            "events": core.events, "cold_runs": core.cold_runs, "steals": core.steals, "parks": core.parks,
            "wakes": core.wakes,
        })
    }).collect();
    let handlers: Vec<Value> = program
        .handlers()
        .zip(&results.handlers)
        .map(|(name, counts)| {
            json!({
                "name": name, "runs": counts.runs, "run_ns": counts.run_ns, "cold_runs": counts.cold_runs,
                "cold_ns": counts.cold_ns,
            })
        })
        .collect();
    json!({
        "machine": results.machine,
        "workload": results.workload,
        "policy": results.policy,
        "seed": results.seed,
        "hash": format!("{:016x}", results.hash),
        "counted_ns": results.counted_ns,
        "answered": answers.then_some(results.answered),
        "per_second": answers.then(|| results.per_second()),
        "percent_of_fifo": seen.of_ideal(),
        "asked": results.load.asked,
        "waiting_events": { "start": results.load.waiting_at_start, "end": results.queued_at_end },
        "backlog_percent": results.backlog_percent(),
        "latency_ns": {
            "p50": seen.latency_ns(500), "p90": seen.latency_ns(900), "p99": seen.latency_ns(990), "p999": seen.latency_ns(999),
            "max": seen.latency_ns(1_000),
        },
        "wait_p99_ns": permille_ns(&results.waits, 990),
        "events": results.events(),
        "events_per_second": results.events_per_second(),
        "busy_percent": 100.0 * results.busy(),
        "instructions_per_cycle": ipc(machine, results),
        "lines_per_event": {
            "missed": seen.per_event(traffic.missed_lines),
            "cache_to_cache": seen.per_event(traffic.cache_to_cache_lines),
            "remote": seen.per_event(traffic.remote_lines),
        },
        "steals": results.sum(|core| core.steals),
        "cycles_per_steal": seen.per_steal_cycles(results.sum(|core| core.steal_ns)),
        "cycles_stolen_per_steal": seen.per_steal_cycles(results.sum(|core| core.stolen_work_ns)),
        "handed_over": results.handed_over,
        "moves": results.moves,
        "regret_ns": results.regret_ns,
        "decisions": decisions::json(program, results),
        "decided": results.decided,
        "link_use_permille": results.link_use_milli,
        "memory_use_permille": results.memory_use_milli,
        "port_use_permille": results.port_use_milli,
        "cores": cores,
        "handlers": handlers,
    })
}
