//! The report for programs: facts about the recording, gaps, each function, the counters.

use serde::Serialize;

use super::colors::{ColorRow, colors};
use super::counters::{CounterRate, rates};
use super::ratios::{CounterRatio, ratios};
use super::waiting::{WaitReport, waits};
use crate::StackProfile;
use crate::format::{MissingCounter, Origin, Work};

#[derive(Serialize)]
struct Report<'a> {
    origin: &'a Origin,
    duration_s: f64,
    samples: usize,
    weight: u64,
    work: Option<&'a Work>,
    lost: u64,
    throttled: u64,
    other_processes: u64,
    incomplete: Option<&'a str>,
    #[serde(flatten)]
    divided: DividedReport<'a>,
    #[serde(flatten)]
    counted: CounterReport<'a>,
}

#[derive(Serialize)]
struct DividedReport<'a> {
    functions: Vec<FunctionRow<'a>>,
    colors: Vec<ColorRow<'a>>,
    waiting: Option<WaitReport<'a>>,
}

#[derive(Serialize)]
struct CounterReport<'a> {
    counters: Vec<CounterRate>,
    ratios: Vec<CounterRatio>,
    not_measurable: &'a [MissingCounter],
}

#[derive(Serialize)]
struct FunctionRow<'a> {
    name: &'a str,
    module: &'a str,
    named: bool,
    own: u64,
    total: u64,
    samples: u64,
}

/// The report as JSON. Weights are nanoseconds or cycles, as `origin.trigger` says.
pub fn json(profile: &StackProfile) -> String {
    let functions = profile.costs().into_iter().map(|cost| {
        let function = profile.function(cost.function);
        FunctionRow {
            name: &function.name,
            module: &function.module,
            named: function.is_named,
            own: cost.own,
            total: cost.total,
            samples: cost.samples,
        }
    });
    let report = Report {
        origin: &profile.origin,
        duration_s: profile.duration_ns as f64 / 1e9,
        samples: profile.samples.len(),
        weight: profile.weight(),
        work: profile.work.as_ref(),
        lost: profile.lost,
        throttled: profile.throttled,
        other_processes: profile.others,
        incomplete: profile.cut.as_deref(),
        divided: DividedReport {
            functions: functions.collect(),
            colors: colors(profile),
            waiting: waits(profile),
        },
        counted: CounterReport {
            counters: rates(profile),
            ratios: ratios(profile, profile.work.as_ref().map(|work| work.units)).0,
            not_measurable: &profile.missing,
        },
    };
    let mut text = serde_json::to_string_pretty(&report).expect("a report has text keys only");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    #[test]
    fn json_report_has_functions_and_origin() {
        let text = json(&profile(&[("main;f", 3)]));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["functions"][0]["name"], "f");
        assert_eq!(json["functions"][1]["total"], 3 * 1_003_009);
        assert_eq!(json["origin"]["hz"], 997);
        assert_eq!(json["incomplete"], serde_json::Value::Null);
        assert_eq!(json["waiting"], serde_json::Value::Null);
    }

    #[test]
    fn json_report_has_waits() {
        let text = json(&crate::report::waiting::tests::waiting(&[("main;k_poll", 1)]));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["waiting"]["blocked"][0]["kernel"], "k_poll");
        assert_eq!(json["waiting"]["threads"][0]["blocked_ns"], 1_000_000_000);
    }
}
