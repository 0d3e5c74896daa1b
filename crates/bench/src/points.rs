//! Measured numbers, round after round, and their summaries in order of first appearance.

use crate::rows::{BenchRow, RunOrigin};
use crate::stats::Summary;
use crate::svg::number;

/// The subject of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointKey {
    /// The program.
    pub program: String,
    /// The server or runtime that ran the program.
    pub variant: String,
    /// The measured quantity.
    pub metric: &'static str,
    /// The unit.
    pub unit: &'static str,
}

/// Numbers of some rounds.
#[derive(Clone, Debug, Default)]
pub struct Points(Vec<(PointKey, Vec<f64>)>);

impl Points {
    /// Adds a number of one round.
    pub fn push(&mut self, key: PointKey, value: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => self.0.push((key, vec![value])),
        }
    }

    /// The summary of a metric.
    pub fn summary(&self, program: &str, variant: &str, metric: &str) -> Option<Summary> {
        self.rounds(program, variant, metric).and_then(Summary::of)
    }

    /// The median of a metric, for a table; empty if there is no measurement.
    pub fn median(&self, program: &str, variant: &str, metric: &str) -> String {
        let summary = self.summary(program, variant, metric);
        summary.map(|summary| number(summary.median)).unwrap_or_default()
    }

    /// The extremes of a metric, for a table; empty if there is no measurement.
    pub fn spread(&self, program: &str, variant: &str, metric: &str) -> String {
        let text = |summary: Summary| format!("{} – {}", number(summary.low), number(summary.high));
        self.summary(program, variant, metric).map(text).unwrap_or_default()
    }

    /// The summary of the ratios of a metric between two variants, taken round by round.
    pub fn ratio(&self, program: &str, (variant, base): (&str, &str), metric: &str) -> Option<Summary> {
        Summary::of_ratios(self.rounds(program, variant, metric)?, self.rounds(program, base, metric)?)
    }

    /// The summary of the ratios of a metric between two programs, taken round by round.
    pub fn ratio_of_programs(
        &self,
        (program, base): (&str, &str),
        variant: &str,
        metric: &str,
    ) -> Option<Summary> {
        Summary::of_ratios(self.rounds(program, variant, metric)?, self.rounds(base, variant, metric)?)
    }

    fn rounds(&self, program: &str, variant: &str, metric: &str) -> Option<&[f64]> {
        let is_it = |key: &PointKey| key.program == program && key.variant == variant && key.metric == metric;
        self.0.iter().find(|(key, _)| is_it(key)).map(|(_, values)| &values[..])
    }

    /// All pairs of a program and a variant.
    pub fn cells(&self) -> Vec<(&str, &str)> {
        let mut cells: Vec<(&str, &str)> = Vec::new();
        for (key, _) in &self.0 {
            if !cells.contains(&(&key.program, &key.variant)) {
                cells.push((&key.program, &key.variant));
            }
        }
        cells
    }

    /// All numbers as rows.
    pub fn rows(&self, origin: &RunOrigin) -> Vec<BenchRow> {
        let row = |(key, values): &(PointKey, Vec<f64>)| {
            let summary = Summary::of(values)?;
            Some(origin.row(&key.program, &key.variant, key.metric, key.unit, summary))
        };
        self.0.iter().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_compares_rounds() {
        let key = |variant: &str| PointKey {
            program: "p".into(),
            variant: variant.into(),
            metric: "m",
            unit: "us",
        };
        let mut points = Points::default();
        for (own, base) in [(1.0, 2.0), (8.0, 4.0), (3.0, 3.0)] {
            points.push(key("a"), own);
            points.push(key("b"), base);
        }
        let ratio = points.ratio("p", ("a", "b"), "m").expect("both were measured");
        assert_eq!((ratio.low, ratio.median, ratio.high), (0.5, 1.0, 2.0));
        assert_eq!(points.ratio("p", ("a", "c"), "m"), None);
    }

    #[test]
    fn rounds_of_one_number_are_summarized() {
        let key = |metric| PointKey { program: "p".into(), variant: "v".into(), metric, unit: "us" };
        let mut points = Points::default();
        for value in [3.0, 1.0, 2.0] {
            points.push(key("a"), value);
            points.push(key("b"), value * 10.0);
        }
        assert_eq!(points.summary("p", "v", "b").map(|summary| summary.median), Some(20.0));
        assert_eq!(points.summary("p", "v", "c"), None);
        assert_eq!(points.cells(), [("p", "v")]);
    }
}
