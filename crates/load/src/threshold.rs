//! Thresholds of a run: a run that passes a threshold has failed for the program that started the
//! injector (`--fail-if`).
//!
//! Written `p99>200ms`, `max>=1s`, `mean>50ms`, `failed>1%`, `failed>10`, `rate<1000`, `good<100`,
//! `unfinished>0`, `missed>0`, `repeated>0`. A percentile is over the good answers of this run,
//! however few, because the percentile is only compared, not shown. Tested here.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::pace::parse_time;
use crate::report::{Judged, Quantiles, Record};

/// A threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    comparison: ThresholdComparison,
    bound: f64,
}

/// The compared metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// A percentile of response times, in seconds.
    Percentile(f64),
    Max,
    Mean,
    /// Good answers per second.
    Rate,
    Good,
    Failed,
    /// The share in all finished requests, in percent.
    FailedShare,
    Unfinished,
    Missed,
    Repeated,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ThresholdComparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A text that is not a threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no threshold: write a figure, a comparison and a bound, such as 'p99>200ms', 'max>1s', 'failed>1%', 'failed>0', \
     'rate<1000', 'good<100', 'unfinished>0', 'missed>0' or 'repeated>0'"
)]
pub struct ThresholdError(String);

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        read(text).ok_or_else(|| ThresholdError(text.to_owned()))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn read(text: &str) -> Option<Threshold> {
    let at = text.find(['<', '>'])?;
    let (name, rest) = (text[..at].trim(), &text[at..]);
    let (comparison, bound) = [
        (">=", ThresholdComparison::AtLeast),
        ("<=", ThresholdComparison::AtMost),
        (">", ThresholdComparison::Above),
        ("<", ThresholdComparison::Below),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?.trim())))?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    let (metric, bound) = match name {
        "max" => (Metric::Max, seconds(bound)?),
        "mean" => (Metric::Mean, seconds(bound)?),
        "rate" => (Metric::Rate, number(bound.trim_end_matches("/s"))?),
        "good" => (Metric::Good, number(bound)?),
        "failed" => match bound.strip_suffix('%') {
            Some(percent) => (Metric::FailedShare, number(percent.trim())?),
            None => (Metric::Failed, number(bound)?),
        },
        "unfinished" => (Metric::Unfinished, number(bound)?),
        "missed" => (Metric::Missed, number(bound)?),
        "repeated" => (Metric::Repeated, number(bound)?),
        _ => {
            let percent =
                number(name.strip_prefix('p')?).filter(|percent| *percent > 0.0 && *percent < 100.0)?;
            (Metric::Percentile(percent), seconds(bound)?)
        }
    };
    Some(Threshold { text: text.trim().to_owned(), metric, comparison, bound })
}

fn seconds(text: &str) -> Option<f64> {
    parse_time(text).map(|time| time.as_secs_f64())
}

impl Metric {
    /// The value of the metric; `None` for a time without a good answer.
    fn of(self, record: &Record) -> Option<f64> {
        let ended = record.good + record.failed;
        let of_times = |ns: u64| (record.response.count > 0).then_some(ns as f64 / 1e9);
        match self {
            Self::Percentile(percent) => of_times(percentile_ns(&record.response, percent)),
            Self::Max => of_times(record.response.max_ns),
            Self::Mean => of_times(record.response.mean_ns),
            Self::Rate => Some(record.rate),
            Self::Good => Some(record.good as f64),
            Self::Failed => Some(record.failed as f64),
            Self::FailedShare => Some(record.failed as f64 / ended.max(1) as f64 * 100.0),
            Self::Unfinished => Some(record.unfinished as f64),
            Self::Missed => Some(record.missed as f64),
            Self::Repeated => Some(record.repeated as f64),
        }
    }

    fn is_time(self) -> bool {
        matches!(self, Self::Percentile(_) | Self::Max | Self::Mean)
    }
}

/// The time that `percent` of all times did not exceed.
fn percentile_ns(times: &Quantiles, percent: f64) -> u64 {
    let rank = (times.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let mut seen = 0;
    let reaches = |&&(_, count): &&(u64, u64)| {
        seen += count;
        seen >= rank
    };
    times.buckets.iter().find(reaches).map_or(times.max_ns, |(ns, _)| *ns)
}

impl Threshold {
    /// Whether `record` passes the threshold. A run without a good answer passes every threshold of
    /// a time.
    pub fn judge(&self, record: &Record) -> Judged {
        let value = self.metric.of(record);
        let is_passed = value.is_none_or(|value| match self.comparison {
            ThresholdComparison::Above => value > self.bound,
            ThresholdComparison::AtLeast => value >= self.bound,
            ThresholdComparison::Below => value < self.bound,
            ThresholdComparison::AtMost => value <= self.bound,
        });
        let said = match value {
            None => "no good answer, so there is no time".to_owned(),
            Some(value) if self.metric.is_time() => {
                let time = Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
                format!("it is {time:.1?} over {} good answers", record.response.count)
            }
            Some(value) if self.metric == Metric::FailedShare => format!("it is {value:.3} %"),
            Some(value) => format!("it is {}", (value * 100.0).round() / 100.0),
        };
        Judged { asked: self.text.clone(), is_passed, said }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn thresholds_are_judged() {
        // 2,000 good answers of 50 µs to 3.05 ms, and 6 failures.
        let record = sample("a run", 2000);
        let passed = |text: &str| text.parse::<Threshold>().unwrap().judge(&record).is_passed;
        for text in [
            "p99>1ms",
            "p50 > 60us",
            "max>=3ms",
            "mean>50us",
            "failed>0.2%",
            "failed>5",
            "rate<201/s",
            "good<=2000",
        ] {
            assert!(passed(text), "{text}");
        }
        for text in [
            "p99>4ms",
            "p99.9>3.1ms",
            "max>1s",
            "failed>1%",
            "failed>6",
            "rate<100",
            "missed>0",
            "repeated>0",
        ] {
            assert!(!passed(text), "{text}");
        }
        let said = "failed>0.2%".parse::<Threshold>().unwrap().judge(&record).said;
        assert_eq!(said, "it is 0.299 %");
    }

    #[test]
    fn a_run_without_good_answers_passes_thresholds_of_time() {
        let nothing = sample("nothing", 0);
        assert!("p99>1h".parse::<Threshold>().unwrap().judge(&nothing).is_passed);
    }

    #[test]
    fn wrong_threshold_is_refused_with_example() {
        for text in [
            "",
            "p99",
            "p99>",
            "p99>fast",
            "p0>1s",
            "p100>1s",
            "fast>1",
            "failed>-1",
            "failed>1%%",
            "rate<x",
            ">1",
        ] {
            let said = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(said.contains("'p99>200ms'"), "{said}");
        }
    }
}
