//! The report of a finished bench: parameters and tables for a terminal, rows in a file, a section
//! of the documentation. All come from the same numbers, so no two places can differ.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::points::Points;
use crate::rows::{self, BenchRow, RunOrigin};
use crate::table::CellTable;
use crate::{BenchError, BenchResult, machine, markdown};

/// Where results are left.
#[derive(Clone, Debug)]
pub struct ReportOutputs {
    /// The summary, replaced.
    pub rows: PathBuf,
    /// The page with the generated section.
    pub page: PathBuf,
}

/// A part of a report.
#[derive(Clone, Debug)]
enum ReportPart {
    Table(CellTable),
    Line(String),
    /// For the page alone.
    HowToRead(&'static str),
}

/// The finished bench.
#[derive(Clone, Debug)]
pub struct BenchReport {
    origin: RunOrigin,
    title: &'static str,
    parameters: Vec<(&'static str, String)>,
    parts: Vec<ReportPart>,
    rows: Vec<BenchRow>,
}

impl BenchReport {
    /// The report of `bench`, run on the commit of `repository`, without numbers yet. The `title`
    /// names the measurement.
    pub fn new(
        bench: &str,
        title: &'static str,
        repository: &Path,
        parameters: Vec<(&'static str, String)>,
    ) -> Self {
        let origin = RunOrigin {
            bench: bench.into(),
            commit: machine::commit(repository),
            machine: machine::describe(),
        };
        let mut all = vec![("commit", origin.commit.clone()), ("machine", origin.machine.clone())];
        all.extend(parameters);
        Self { origin, title, parameters: all, parts: Vec::new(), rows: Vec::new() }
    }

    /// With the name of the measured build among the parameters.
    pub fn with_build(mut self, build: &str) -> Self {
        self.parameters.insert(2, ("build", build.into()));
        self
    }

    /// Adds a table at the end.
    pub fn with_table(mut self, table: CellTable) -> Self {
        self.parts.push(ReportPart::Table(table));
        self
    }

    /// Adds a line of text at the end.
    pub fn with_line(mut self, line: String) -> Self {
        self.parts.push(ReportPart::Line(line));
        self
    }

    /// Adds text for the page alone: how to read the numbers, and the limits of the numbers.
    pub fn with_how_to_read(mut self, words: &'static str) -> Self {
        self.parts.push(ReportPart::HowToRead(words));
        self
    }

    /// Adds a row for each number of `points`.
    pub fn with_points(mut self, points: &Points) -> Self {
        self.rows.extend(points.rows(&self.origin));
        self
    }

    /// With the rows that `rows` makes.
    pub fn with_rows(mut self, rows: impl FnOnce(&RunOrigin) -> Vec<BenchRow>) -> Self {
        self.rows.extend(rows(&self.origin));
        self
    }

    /// The parameters, the lines and the tables, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        for part in &self.parts {
            match part {
                ReportPart::Table(table) => text += &format!("\n{}", table.to_text()),
                ReportPart::Line(line) => text += &format!("\n{line}"),
                ReportPart::HowToRead(_) => {}
            }
        }
        text
    }

    /// Replaces the summary in the results of `repository` and renews the bench's section of its
    /// page.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, repository: &Path) -> BenchResult<ReportOutputs> {
        let bench = &self.origin.bench;
        let outputs = ReportOutputs {
            rows: repository.join(format!("results/{bench}.tsv")),
            page: repository.join("docs/benchmarks.md"),
        };
        rows::write(&outputs.rows, &self.rows)?;
        if let Some(folder) = outputs.page.parent() {
            fs::create_dir_all(folder).map_err(BenchError::path("create", folder))?;
        }
        markdown::replace_section(&outputs.page, bench, &self.section())?;
        Ok(outputs)
    }

    fn section(&self) -> String {
        let (bench, title) = (&self.origin.bench, self.title);
        let mut parameters = CellTable::new(2, &["", ""]);
        for (name, value) in &self.parameters {
            parameters.push([(*name).into(), value.clone()]);
        }
        let parameters = parameters.to_markdown();
        let mut text = format!("## {bench}: {title}\n\n`cargo xtask bench {bench}`\n\n{parameters}");
        for part in &self.parts {
            match part {
                ReportPart::Table(table) => text += &format!("\n{}", table.to_markdown()),
                ReportPart::Line(line) => text += &format!("\n{line}\n"),
                ReportPart::HowToRead(words) => text += &format!("\n{words}\n"),
            }
        }
        text
    }

    /// Writes the results of a smoke run into a temporary folder, and reads the results back.
    ///
    /// # Errors
    /// The files cannot be written or read, a row holds an impossible number, or a pair of variant
    /// and metric in `expected` has no row.
    pub fn check(&self, expected: &[(&str, &str)]) -> BenchResult<()> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let place = self.write(folder.path())?.rows;
        let rows = rows::read(&place)?;
        let is_sane = |row: &BenchRow| row.low >= 0.0 && row.low <= row.median && row.median <= row.high;
        if let Some(row) = rows.iter().find(|row| !is_sane(row)) {
            return Err(BenchError::form(place.display(), format!("an impossible number: {row:?}")));
        }
        let has = |variant, metric| rows.iter().any(|row| row.variant == variant && row.metric == metric);
        match expected.iter().find(|(variant, metric)| !has(*variant, *metric)) {
            Some((variant, metric)) => {
                Err(BenchError::form(place.display(), format!("no {metric} of {variant}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::PointKey;

    fn report(value: f64) -> BenchReport {
        let mut points = Points::default();
        points
            .push(PointKey { program: "p".into(), variant: "v".into(), metric: "per_s", unit: "1/s" }, value);
        let mut table = CellTable::new(1, &["program", "per second"]);
        table.push(["p".into(), points.median("p", "v", "per_s")]);
        BenchReport::new("some", "what it costs", Path::new("/"), vec![("rounds", "1".into())])
            .with_points(&points)
            .with_table(table)
            .with_how_to_read("**How to read it.** As it stands.")
    }

    #[test]
    fn terminal_and_page_show_the_same_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        let outputs = report(42.0).write(folder.path()).expect("written");
        let page = fs::read_to_string(outputs.page).expect("a page");
        let text = report(42.0).to_text();
        assert!(text.contains("42") && text.contains("rounds") && !text.contains("How to read"), "{text}");
        assert!(
            page.contains("## some: what it costs") && page.contains("42") && page.contains("How to read"),
            "{page}"
        );
    }

    #[test]
    fn check_finds_missing_and_impossible_values() {
        assert!(report(1.0).check(&[("v", "per_s")]).is_ok());
        let missing = report(1.0).check(&[("v", "cpu_us")]).expect_err("no such metric").to_string();
        assert!(missing.contains("no cpu_us of v"), "{missing}");
        let impossible = report(-1.0).check(&[]).expect_err("below nothing").to_string();
        assert!(impossible.contains("an impossible number"), "{impossible}");
    }
}
