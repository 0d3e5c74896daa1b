//! The rows of a bench: one JSON object per line, with the same eleven fields for every bench of
//! the project.
//!
//! Rows are appended, never rewritten, because the file is the history. Each bench chooses its
//! programs and variants.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::stats::Summary;
use crate::{BenchError, BenchResult};

/// One measured number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchRow {
    /// The bench, as given to `cargo xtask bench`.
    pub bench: String,
    /// The program; for `serve`, the request.
    pub program: String,
    /// The runtime or server; for `serve`, the server.
    pub variant: String,
    /// The measured quantity.
    pub metric: String,
    /// The unit of the three numbers.
    pub unit: String,
    /// The median round.
    pub median: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
    /// How many rounds.
    pub rounds: usize,
    /// The measured commit, with `-dirty` if files differed from the commit.
    pub commit: String,
    /// Processor, cpus and kernel.
    pub machine: String,
}

/// The fields that all rows of one run share.
#[derive(Clone, Debug)]
pub struct RunOrigin {
    /// The bench.
    pub bench: String,
    /// The commit measured.
    pub commit: String,
    /// The machine of the run.
    pub machine: String,
}

impl RunOrigin {
    /// A row of this run, rounded to four significant decimals.
    pub fn row(&self, program: &str, variant: &str, metric: &str, unit: &str, summary: Summary) -> BenchRow {
        let round = |value: f64| (value * 1e4).round() / 1e4;
        BenchRow {
            bench: self.bench.clone(),
            program: program.into(),
            variant: variant.into(),
            metric: metric.into(),
            unit: unit.into(),
            median: round(summary.median),
            low: round(summary.low),
            high: round(summary.high),
            rounds: summary.rounds,
            commit: self.commit.clone(),
            machine: self.machine.clone(),
        }
    }
}

/// Appends `rows` to the file at `path`; creates the file and its folders if missing.
pub fn append(path: &Path, rows: &[BenchRow]) -> BenchResult<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(BenchError::path("create", folder))?;
    }
    let mut lines = String::new();
    for row in rows {
        let line = serde_json::to_string(row).map_err(|error| BenchError::form("a row", error))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    let mut file = vermeil_io::output::Output::append()
        .mode(0o644)
        .open(path)
        .map_err(BenchError::path("open", path))?;
    file.write_all(lines.as_bytes()).map_err(BenchError::path("write", path))
}

/// Reads every row of the file at `path`.
pub fn read(path: &Path) -> BenchResult<Vec<BenchRow>> {
    let text = fs::read_to_string(path).map_err(BenchError::path("read", path))?;
    let parse = |line| serde_json::from_str(line).map_err(|error| BenchError::form(path.display(), error));
    text.lines().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_written_and_are_appended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results/serve.ndjson");
        let origin = RunOrigin { bench: "serve".into(), commit: "abc".into(), machine: "m".into() };
        let summary = Summary { median: 1.23456, low: 1.0, high: 2.0, rounds: 5 };
        let row = origin.row("1k", "nginx", "cpu_us", "us", summary);
        assert_eq!(row.median, 1.2346);
        append(&path, std::slice::from_ref(&row)).expect("written");
        append(&path, std::slice::from_ref(&row)).expect("written");
        assert_eq!(read(&path).expect("read"), [row.clone(), row]);
    }

    #[test]
    fn a_line_has_exactly_the_eleven_fields_in_order() {
        let origin = RunOrigin { bench: "serve".into(), commit: "abc".into(), machine: "m".into() };
        let row = origin.row(
            "1k",
            "nginx",
            "cpu_us",
            "us",
            Summary { median: 1.0, low: 1.0, high: 1.0, rounds: 1 },
        );
        let line = serde_json::to_string(&row).expect("json");
        let expected = concat!(
            r#"{"bench":"serve","program":"1k","variant":"nginx","metric":"cpu_us","unit":"us","#,
            r#""median":1.0,"low":1.0,"high":1.0,"rounds":1,"commit":"abc","machine":"m"}"#
        );
        assert_eq!(line, expected);
    }
}
