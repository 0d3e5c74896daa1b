//! The report on a run in words and tables: the outcome, each core, each handler, and the decisions
//! about handlers.
//!
//! docs/runtime.md, "Reading the counters", explains the columns. Tested through the examples, in
//! the runtime's `tests/docs.rs`.

use crate::ProgramOutcome;
use std::{fmt, time::Duration};
use vermeil::{Handle, HandlerSnapshot};

/// The end of a run, for people.
pub fn report(handle: &Handle, outcome: &ProgramOutcome) -> String {
    let mut text = format!(
        "{} events in {:.3} s: {:.0} a second\nchecksum {:016x}\n\n",
        outcome.events,
        outcome.elapsed.as_secs_f64(),
        outcome.throughput(),
        outcome.checksum
    );
    text += &cores(handle);
    text += "\n";
    text += &handlers(handle);
    text += &placements(handle);
    text
}

/// The counters of each core since the start.
pub fn cores(handle: &Handle) -> String {
    let head =
        ["events", "activations", "panics", "parks", "completions", "steals", "moves", "wakes", "thieves"];
    let mut text = format!("{:>6}{:>6}", "core", "cpu") + &head.map(column).concat();
    for (index, core) in handle.snapshot().cores.into_iter().enumerate() {
        let done = [core.events, core.activations, core.panics, core.parks, core.completions];
        let rare = [core.steals, core.moves, core.wakes, core.thieves_woken];
        text += &format!("\n{index:>6}{:>6}", core.cpu);
        text.extend(done.into_iter().chain(rare).map(column));
    }
    text + "\n"
}

/// The counters of each handler's events since the start. Times are of observed runs. The names
/// come last, because the names of tasks are long.
pub fn handlers(handle: &Handle) -> String {
    let head = ["runs", "delay us", "99 %", "warm us", "cold us", "steals", "moves", "wakes"];
    let mut text = head.map(column).concat() + "  handler\n";
    for handler in handle.snapshot().handlers.iter().filter(|handler| handler.runs > 0) {
        text += &handler_line(handler);
    }
    text
}

fn handler_line(handler: &HandlerSnapshot) -> String {
    let times = &handler.times;
    let us =
        |count: u64, ns: u64| if count == 0 { "-".to_owned() } else { format!("{:.1}", ns as f64 / 1e3) };
    let delay = |share| us(times.queue_delay.count(), times.queue_delay.quantile_ns(share));
    let columns = [
        handler.runs.to_string(),
        delay(0.5),
        delay(0.99),
        us(times.warm_run.count(), times.warm_run.mean_ns()),
        us(times.cold_run.count(), times.cold_run.mean_ns()),
        handler.steals.to_string(),
        handler.moves.to_string(),
        handler.wakes.to_string(),
    ];
    columns.map(column).concat() + &format!("  {}\n", handler.name)
}

fn column(value: impl fmt::Display) -> String {
    format!("{value:>12}")
}

/// The policy's decisions about handlers, and the time spent on learning; empty if the policy
/// neither decides nor learns.
pub fn placements(handle: &Handle) -> String {
    let placements = handle.placements();
    let mut text = String::new();
    if !placements.decisions.is_empty() {
        let stand = placements.handlers.iter().map(|(name, core)| format!("{name} on {}", core.0));
        text += &format!("\nhandlers: {}\n", stand.collect::<Vec<_>>().join(", "));
        text += &format!("decisions:\n  {}\n", placements.decisions.join("\n  "));
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let regret = placements.regret.map(|regret| format!("regret: {:.1} ms of the machine", ms(regret)));
    let explored = placements.explored;
    let explored =
        (!explored.is_zero()).then(|| format!("steals to learn: {:.3} ms of the cores", ms(explored)));
    let told: Vec<_> =
        [placements.unknown, placements.perf_counters, regret, explored].into_iter().flatten().collect();
    if !told.is_empty() {
        text += &format!("\n{}\n", told.join("\n"));
    }
    text
}
