//! Counters over time: rates for people, all values as CSV.
//!
//! A rate is the growth between the first and the last value of the recording or the window, so it
//! needs no value at an exact time. A counter that could not be read has no number at all.

use std::fmt::Write;

use serde::Serialize;

use crate::StackProfile;
use crate::format::Series;
use crate::ledger::STATES;
use crate::symbols::KERNEL_NAMES;

/// The rate of a counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterRate {
    /// The counter.
    pub name: String,
    /// The cpu; `None` for the machine.
    pub cpu: Option<u32>,
    /// The memory node; `None` for the machine.
    pub node: Option<u32>,
    /// The unit of the growth.
    pub unit: String,
    /// Growth in all.
    pub growth: u64,
    /// Growth for each second.
    pub per_second: f64,
}

/// The rates of all counters.
pub fn rates(profile: &StackProfile) -> Vec<CounterRate> {
    profile
        .series
        .iter()
        .enumerate()
        .filter(|(_, series)| !profile.missing.iter().any(|missing| missing.name == series.name))
        .filter_map(|(column, series)| {
            let (growth, seconds) = profile.growth(column)?;
            let seconds = told_seconds(profile, series).unwrap_or(seconds);
            Some(CounterRate {
                name: series.name.clone(),
                cpu: series.cpu,
                node: series.node,
                unit: series.unit.clone(),
                growth,
                per_second: growth as f64 / seconds,
            })
        })
        .collect()
}

/// The seconds that the kernel has divided among the states of a cpu, if the counter is such a
/// state. The kernel divides in steps of 4 ms or more. So of a short time these can be other
/// seconds than the clock's, and a state could have more than all of the time.
fn told_seconds(profile: &StackProfile, series: &Series) -> Option<f64> {
    let of_cpu = |name: &str| {
        let mut all = profile.series.iter();
        let column = all.position(|other| other.name == name && other.cpu == series.cpu)?;
        Some(profile.growth(column)?.0)
    };
    series.cpu.filter(|_| STATES.contains(&series.name.as_str()))?;
    let told_ns: u64 = STATES.iter().map(|name| of_cpu(name)).sum::<Option<u64>>()?;
    (told_ns > 0).then_some(told_ns as f64 / 1e9)
}

/// All values as comma-separated text: a line for each time, a column for each counter and cpu.
pub fn csv(profile: &StackProfile) -> String {
    let mut out = String::from("seconds");
    for series in &profile.series {
        let place = place(series.cpu, series.node);
        let space = if place.is_empty() { "" } else { " " };
        let _ = write!(out, ",\"{}{space}{place} ({})\"", series.name, series.unit);
    }
    out.push('\n');
    for tick in &profile.ticks {
        let _ = write!(out, "{:.6}", tick.time as f64 / 1e9);
        for value in &tick.values {
            let _ = write!(out, ",{value}");
        }
        // Counts of a command that began later have no values yet.
        out.extend((tick.values.len()..profile.series.len()).map(|_| ','));
        out.push('\n');
    }
    out
}

/// The place of a counter in words: the cpu, else the memory node, else nothing.
fn place(cpu: Option<u32>, node: Option<u32>) -> String {
    match (cpu, node) {
        (Some(cpu), _) => format!("cpu {cpu}"),
        (None, Some(node)) => format!("node {node}"),
        (None, None) => String::new(),
    }
}

/// The rates as a table of text, a line for each counter.
pub(super) fn table(profile: &StackProfile) -> String {
    let rates = rates(profile);
    let mut out = String::new();
    let mut names: Vec<&str> = Vec::new();
    for rate in &rates {
        if !names.contains(&rate.name.as_str()) {
            names.push(&rate.name);
        }
    }
    if !names.is_empty() {
        out.push_str("counters for each second\n");
    }
    for name in names {
        let of_name: Vec<&CounterRate> = rates.iter().filter(|rate| rate.name == name).collect();
        let sum: f64 = of_name.iter().map(|rate| rate.per_second).sum();
        let is_time = of_name[0].unit == "ns";
        let shown =
            |value: f64| if is_time { format!("{:.1} %", value / 1e7) } else { format!("{value:.0}") };
        match of_name[..] {
            [only] if only.cpu.is_none() && only.node.is_none() => {
                let _ = writeln!(out, "  {name:32} {:>12}", shown(only.per_second));
            }
            _ => {
                let each: Vec<String> = of_name
                    .iter()
                    .take(16)
                    .map(|rate| format!("{} {}", place(rate.cpu, rate.node), shown(rate.per_second)))
                    .collect();
                let more = if of_name.len() > 16 { ", …" } else { "" };
                let all = if is_time { sum / of_name.len() as f64 } else { sum };
                let _ = writeln!(out, "  {name:32} {:>12}   {}{more}", shown(all), each.join(", "));
            }
        }
    }
    for missing in profile.missing.iter().filter(|missing| missing.name != KERNEL_NAMES) {
        let _ = writeln!(out, "  {:32} not measurable here: {}", missing.name, missing.why);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::MissingCounter;
    use crate::profile::{Tick, tests::profile};

    fn with_counters() -> StackProfile {
        let mut profile = profile(&[("main", 1)]);
        let series =
            |name: &str, cpu: Option<u32>, unit: &str| Series::of_cpu(name, unit, cpu.unwrap_or(0), 0);
        profile.series = vec![
            series("context switches", Some(0), "count"),
            series("context switches", Some(1), "count"),
            series("steal", Some(0), "ns"),
            series("cycles", Some(0), "count"),
        ];
        profile.missing = vec![MissingCounter {
            name: "cycles".to_owned(),
            why: "no such event on this machine".to_owned(),
        }];
        profile.ticks = vec![
            Tick { time: 1_000_000_000, values: vec![100, 10, 0, 0] },
            Tick { time: 3_000_000_000, values: vec![300, 10, 200_000_000, 0] },
        ];
        profile
    }

    #[test]
    fn counter_that_cannot_be_read_has_no_rate() {
        let profile = with_counters();
        assert!(rates(&profile).iter().all(|rate| rate.name != "cycles"));
        let table = table(&profile);
        assert!(table.contains("not measurable here: no such event on this machine"), "{table}");
        assert!(table.contains("100   cpu 0 100, cpu 1 0"), "{table}");
        assert!(table.contains("10.0 %"), "{table}");
    }

    /// Regression: of 0.3 s a cpu was busy 108 %.
    #[test]
    fn states_of_cpu_are_never_more_than_all_of_its_time() {
        let mut profile = with_counters();
        profile.series = STATES.map(|name| Series::of_cpu(name, "ns", 0, 0)).into();
        profile.missing.clear();
        let tick = |ms: u64, values: [u64; 4]| Tick { time: ms * 1_000_000, values: values.into() };
        profile.ticks = vec![tick(0, [0; 4]), tick(300, [324_000_000, 0, 36_000_000, 0])];
        let shares: Vec<f64> = rates(&profile).iter().map(|rate| rate.per_second / 1e9).collect();
        assert_eq!(shares, [0.9, 0.0, 0.1, 0.0]);
    }

    #[test]
    fn csv_has_line_for_each_time() {
        let csv = csv(&with_counters());
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0].split(',').next(), Some("seconds"));
        assert_eq!(lines[2], "3.000000,300,10,200000000,0");
    }
}
