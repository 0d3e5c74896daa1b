//! The summary of a bench: one row per program, variant and metric of the latest full run.
//!
//! A summary is a text file with columns, in `results/`. The rows and the tables of the page come
//! from the same numbers. Raw results and earlier runs are not kept, because the history of the
//! repository has the earlier summaries. Tested below.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::stats::Summary;
use crate::{BenchError, BenchResult};

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
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

/// The columns of a summary file.
const COLUMNS: &str = "program\tvariant\tmetric\tunit\tmedian\tlow\thigh\trounds";

/// Replaces the summary at `path` with `rows`, which are of one run; creates the file and its
/// folders if missing.
///
/// # Errors
/// There are no rows, a name contains a tab or a line break, or the file cannot be written.
pub fn write(path: &Path, rows: &[BenchRow]) -> BenchResult<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(BenchError::path("create", folder))?;
    }
    let Some(first) = rows.first() else {
        return Err(BenchError::form(path.display(), "a run without rows"));
    };
    let mut text = format!("# {}\n# {}\n# {}\n{COLUMNS}\n", first.bench, first.commit, first.machine);
    for row in rows {
        let cells = [&row.program, &row.variant, &row.metric, &row.unit];
        if let Some(cell) = cells.into_iter().find(|cell| cell.contains(['\t', '\n'])) {
            return Err(BenchError::form(
                path.display(),
                format!("a name with a tab or a line break: {cell:?}"),
            ));
        }
        let BenchRow { program, variant, metric, unit, median, low, high, rounds, .. } = row;
        let _infallible =
            writeln!(text, "{program}\t{variant}\t{metric}\t{unit}\t{median}\t{low}\t{high}\t{rounds}");
    }
    vermeil_io::output::write(path, text).map_err(BenchError::path("write", path))
}

/// Reads the summary at `path`.
///
/// # Errors
/// The file cannot be read or is no summary.
pub fn read(path: &Path) -> BenchResult<Vec<BenchRow>> {
    let text = fs::read_to_string(path).map_err(BenchError::path("read", path))?;
    parse(&text).ok_or_else(|| BenchError::form(path.display(), "not a summary of a bench"))
}

fn parse(text: &str) -> Option<Vec<BenchRow>> {
    let mut lines = text.lines();
    let mut head = || lines.next()?.strip_prefix("# ").map(str::to_owned);
    let (bench, commit, machine) = (head()?, head()?, head()?);
    let rows = text.lines().skip(3).collect::<Vec<_>>();
    let (columns, rows) = rows.split_first()?;
    let row = |line: &&str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [program, variant, metric, unit, median, low, high, rounds] = cells[..] else { return None };
        Some(BenchRow {
            bench: bench.clone(),
            program: program.into(),
            variant: variant.into(),
            metric: metric.into(),
            unit: unit.into(),
            median: median.parse().ok()?,
            low: low.parse().ok()?,
            high: high.parse().ok()?,
            rounds: rounds.parse().ok()?,
            commit: commit.clone(),
            machine: machine.clone(),
        })
    };
    (*columns == COLUMNS).then(|| rows.iter().map(row).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, median: f64) -> BenchRow {
        let origin =
            RunOrigin { bench: "serve".into(), commit: "abc".into(), machine: "a cpu, Linux".into() };
        origin.row("1k", variant, "cpu_us", "us", Summary { median, low: 1.0, high: 2.0, rounds: 5 })
    }

    #[test]
    fn later_run_replaces_summary() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results/serve.tsv");
        write(&path, &[row("nginx", 1.5), row("vermeil", 1.2)]).expect("written");
        write(&path, &[row("nginx", 1.23456)]).expect("written");
        assert_eq!(row("nginx", 1.23456).median, 1.2346);
        assert_eq!(read(&path).expect("read"), [row("nginx", 1.23456)]);
    }

    #[test]
    fn summary_has_origin_once_and_eight_columns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.tsv");
        write(&path, &[row("nginx", 1.5)]).expect("written");
        let expected = "# serve\n# abc\n# a cpu, Linux\n\
            program\tvariant\tmetric\tunit\tmedian\tlow\thigh\trounds\n\
            1k\tnginx\tcpu_us\tus\t1.5\t1\t2\t5\n";
        assert_eq!(fs::read_to_string(&path).expect("read"), expected);
    }

    #[test]
    fn malformed_summary_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.tsv");
        fs::write(&path, "# serve\n# abc\n# m\nother columns\n").expect("written");
        assert!(read(&path).is_err());
        assert!(write(&path, &[]).is_err() && write(&path, &[row("a\tb", 1.5)]).is_err());
    }

    #[test]
    fn kept_summaries_are_read() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
        for entry in fs::read_dir(&results).expect("a folder") {
            let path = entry.expect("an entry").path();
            let rows = read(&path).unwrap_or_else(|error| panic!("{error}"));
            assert!(rows.iter().all(|row| row.low <= row.median && row.median <= row.high), "{path:?}");
        }
    }
}
