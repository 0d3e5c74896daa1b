//! What becomes of the results: a summary on standard output, and files; `vermeil load report` makes them again from
//! records.

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::fs;
use std::path::{Path, PathBuf};
use vermeil_load::report::{self, Record};

/// Where results go.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Write the whole result as JSON; - is standard output, without the summary
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Write a page with plots, in one file
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Write the course of the run, an interval per line
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,

    /// Write the result in the OpenMetrics text format
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    openmetrics: Option<PathBuf>,

    /// No live line
    ///
    /// Default: a line on standard error while the run lasts, if that is a terminal.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl OutputArgs {
    /// Finds files that could not be written after the run, when it would be too late.
    ///
    /// # Errors
    /// The first of them, and why.
    pub(super) fn check(&self) -> Result<(), String> {
        for path in [&self.json, &self.html, &self.csv, &self.openmetrics].into_iter().flatten() {
            let found = fs::metadata(path);
            // A pipe would be waited for, and its reader see the end of what comes later.
            let is_pipe = found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir());
            if path == Path::new("-") || is_pipe {
                continue;
            }
            let is_new = found.is_err();
            let opened = fs::OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            if is_new {
                // Left, it would be a result of nothing. If that is refused, it is overwritten.
                let _left = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

/// Show results that were kept as JSON, several side by side.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Records of runs, as --json writes them
    #[arg(value_name = "FILE.json", required = true, value_hint = ValueHint::FilePath)]
    records: Vec<PathBuf>,

    /// Write a page with plots of all of them, in one file
    ///
    /// Default: the summaries are printed.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
}

impl ReportArgs {
    /// Shows them.
    pub(super) fn run(self) -> Exit {
        let mut records = Vec::new();
        for path in &self.records {
            let read = fs::read_to_string(path).map_err(|error| error.to_string());
            match read.and_then(|text| Record::from_json(&text)) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let why =
                        format_args!("{}: {error}; write one with `vermeil load --json`", path.display());
                    return print::failure(&why, Exit::CannotStart);
                }
            }
        }
        match &self.html {
            Some(path) => to_file(path, &report::html(&records)),
            None => print::result(&records.iter().map(report::summary).collect::<Vec<_>>().join("\n")),
        }
    }
}

/// Writes `record` to where it was asked for; a run that cannot be trusted has an exit code of its own.
pub(super) fn write(output: &OutputArgs, record: &Record) -> Exit {
    let mut exit = Exit::Clean;
    let to_stdout = output.json.as_deref() == Some(Path::new("-"));
    if to_stdout {
        exit = worse(exit, print::result(&record.to_json()));
    } else if let Some(path) = &output.json {
        exit = worse(exit, to_file(path, &record.to_json()));
    }
    if let Some(path) = &output.html {
        exit = worse(exit, to_file(path, &report::html(std::slice::from_ref(record))));
    }
    if let Some(path) = &output.csv {
        exit = worse(exit, to_file(path, &report::csv(record)));
    }
    if let Some(path) = &output.openmetrics {
        exit = worse(exit, to_file(path, &report::open_metrics(record)));
    }
    if !to_stdout {
        exit = worse(exit, print::result(&report::summary(record)));
    }
    if record.valid { exit } else { worse(exit, Exit::Doubtful) }
}

fn to_file(path: &Path, text: &str) -> Exit {
    match fs::write(path, text) {
        Ok(()) => Exit::Clean,
        Err(error) => print::failure(&format_args!("cannot write {}: {error}", path.display()), Exit::Failed),
    }
}

fn worse(one: Exit, other: Exit) -> Exit {
    if one == Exit::Clean { other } else { one }
}
