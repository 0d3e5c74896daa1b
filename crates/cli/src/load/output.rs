//! The results: a summary on standard output, and files; `vermeil load report` makes the same
//! results from records.

use crate::writable::check_writable;
use crate::{Exit, print};
use clap::{ArgAction, Args, ValueHint};
use std::fs;
use std::path::{Path, PathBuf};
use vermeil_load::{
    Threshold,
    report::{self, Record},
};

/// The file that is standard output.
const STDOUT: &str = "-";

/// Makes a result from a record.
type MakeResult = fn(&Record) -> String;

/// The destinations of results.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Write the whole result as JSON; - is standard output, in place of the summary
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Write a page with plots, in a single file; - is standard output
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Write the course of the run, an interval per line; - is standard output
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,

    /// Write the result in the OpenMetrics text format; - is standard output
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    openmetrics: Option<PathBuf>,

    /// End with exit code 6 if the run passes this threshold, for example 'p99>200ms' or
    /// 'failed>1%'; may be repeated
    ///
    /// Figures are p50, p99 or another percentile, max and mean of the response times, failed (a
    /// number, or % of all), rate (good answers a second), good, unfinished, missed, repeated;
    /// comparisons are >, >=, <, <=. Default: none.
    #[arg(long, value_name = "THRESHOLD", action = ArgAction::Append)]
    fail_if: Vec<Threshold>,

    /// No live line
    ///
    /// Default: a line on standard error during the run, if standard error is a terminal.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl OutputArgs {
    /// The requested results: option, path, and the function that makes the result.
    fn asked(&self) -> impl Iterator<Item = (&'static str, &Path, MakeResult)> {
        let page: MakeResult = |record| report::html(std::slice::from_ref(record));
        let all = [
            ("--json", &self.json, Record::to_json as MakeResult),
            ("--html", &self.html, page),
            ("--csv", &self.csv, report::csv),
            ("--openmetrics", &self.openmetrics, report::open_metrics),
        ];
        all.into_iter().filter_map(|(option, path, make)| Some((option, path.as_deref()?, make)))
    }

    /// Finds results with the same path, and unwritable files, because after the run these errors
    /// would come too late.
    ///
    /// # Errors
    ///
    /// The first error, and the exit code.
    pub(super) fn check(&self) -> Result<(), (String, Exit)> {
        let mut before: Vec<(&str, &Path)> = Vec::new();
        for (option, path, _) in self.asked() {
            if let Some((other, _)) = before.iter().find(|(_, other)| *other == path) {
                let why = format!(
                    "{other} and {option} exclude each other: both write {}; give each a file",
                    path.display()
                );
                return Err((why, Exit::Usage));
            }
            before.push((option, path));
            if path != Path::new(STDOUT) {
                check_writable(path).map_err(|why| (why, Exit::CannotStart))?;
            }
        }
        Ok(())
    }
}

/// Show results that were saved as JSON, several side by side.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Records of runs, as --json writes them
    #[arg(value_name = "FILE.json", required = true, value_hint = ValueHint::FilePath)]
    records: Vec<PathBuf>,

    /// Write a page with plots of all records, in a single file; - is standard output
    ///
    /// Default: the summaries are printed.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
}

impl ReportArgs {
    /// Prints the summaries, or writes the page.
    pub(super) fn run(self) -> Exit {
        let mut records = Vec::new();
        for path in &self.records {
            let read = fs::read_to_string(path).map_err(|error| error.to_string());
            match read.and_then(|text| Record::from_json(&text)) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let why = format_args!(
                        "{}: {error}; write one with `vermeil load --json FILE`",
                        path.display()
                    );
                    return print::failure(&why, Exit::CannotStart);
                }
            }
        }
        match &self.html {
            Some(path) if path == Path::new(STDOUT) => print::result(&report::html(&records)),
            Some(path) => match to_file(path, &report::html(&records)) {
                Exit::Clean => print::result(&format!("wrote {}\n", path.display())),
                failed => failed,
            },
            None => print::result(&records.iter().map(report::summary).collect::<Vec<_>>().join("\n")),
        }
    }
}

/// Writes `record` to the requested places. A doubtful run has an exit code of its own, and a run
/// that missed its targets has another.
pub(super) fn write(output: &OutputArgs, mut record: Record) -> Exit {
    record.thresholds = output.fail_if.iter().map(|threshold| threshold.judge(&record)).collect();
    let record = &record;
    let mut exit = Exit::Clean;
    let mut to_stdout = false;
    for (_, path, make) in output.asked() {
        let text = make(record);
        let written = if path == Path::new(STDOUT) {
            to_stdout = true;
            print::result(&text)
        } else {
            to_file(path, &text)
        };
        exit = worse(exit, written);
    }
    if !to_stdout {
        exit = worse(exit, print::result(&report::summary(record)));
    }
    if !record.valid {
        exit = worse(exit, Exit::Doubtful);
    }
    if is_held(record) { exit } else { worse(exit, Exit::NotHeld) }
}

/// Whether a run has held the quality of service and passed no threshold. A search has held the
/// quality if the search found a number of users that holds the quality, because its record is the
/// record of a single run.
fn is_held(record: &Record) -> bool {
    let quality = match (&record.search, &record.quality) {
        (Some(search), _) => search.users > 0,
        (None, Some(quality)) => quality.held,
        (None, None) => true,
    };
    quality && !record.thresholds.iter().any(|judged| judged.is_passed)
}

fn to_file(path: &Path, text: &str) -> Exit {
    match vermeil_io::output::write(path, text) {
        Ok(()) => Exit::Clean,
        Err(error) => print::failure(&format_args!("cannot write {}: {error}", path.display()), Exit::Failed),
    }
}

fn worse(one: Exit, other: Exit) -> Exit {
    if one == Exit::Clean { other } else { one }
}
