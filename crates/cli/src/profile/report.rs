//! `vermeil profile report`: a recording in the form that is wanted.

use crate::{Exit, print};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use vermeil_profile::{ReadOptions, StackProfile, Window, report};

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportForm {
    /// Tables for people
    Text,
    /// All functions and counters for programs
    Json,
    /// One HTML file with a flame graph, without network
    Html,
    /// Folded stacks, for flame graph tools
    Folded,
    /// A compressed protocol buffer, for `pprof`
    Pprof,
    /// JSON for profiler.firefox.com
    Firefox,
    /// Counters over time, a line for each moment
    Csv,
}

/// Report a recording: the functions that cost most, or the callers of a function, or stacks for
/// another tool.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct ProfileReportArgs {
    /// The recording
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    recording: PathBuf,

    /// The form of the report
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    form: ReportForm,

    /// The file to write; `-` is standard output
    ///
    /// Default: standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// How many functions or callers a table lists
    ///
    /// From 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,

    /// Show the callers of all functions with this text in the name
    ///
    /// Only with --form text, as --outermost and --colors. Default: the functions that cost most.
    #[arg(long, value_name = "TEXT")]
    callers_of: Option<String>,

    /// With --callers-of: the module whose nearest frame is responsible
    ///
    /// Default: the program.
    #[arg(long, value_name = "NAME", requires = "callers_of")]
    owner: Option<String>,

    /// Divide all samples by the outermost function with one of these texts in its name
    ///
    /// With the names of an event loop's parts and of the code that the loop runs, these are its
    /// handlers. For Vermeil: Core::io,vermeil_server::. Default: the functions that cost most.
    #[arg(long, value_name = "TEXTS", value_delimiter = ',', conflicts_with = "callers_of")]
    outermost: Vec<String>,

    /// Divide all samples by the color whose event ran
    ///
    /// For Vermeil's server a color is a connection. The events of a color never overlap, so a
    /// color that needs a whole cpu is a limit. Default: the functions that cost most.
    #[arg(long, conflicts_with_all = ["callers_of", "outermost", "waits"])]
    colors: bool,

    /// Only this part of the recording, from its start: 10s..25s, 10s.. or ..25s
    ///
    /// Default: all.
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window)]
    window: Option<Window>,

    /// Report waits instead of cpu time: where threads block, and for how long
    ///
    /// Needs a recording with --waits. All forms but csv, and --callers-of, then count the time of
    /// waits. Default: cpu time, with a table of waits behind, if the recording has waits.
    #[arg(long)]
    waits: bool,

    /// Count functions that the compiler inlined as functions of their own
    ///
    /// Default: they count for the function that contains them.
    #[arg(long)]
    inlined: bool,
}

impl ProfileReportArgs {
    /// Reports.
    pub(super) fn run(self) -> Exit {
        if let Err(why) = self.check_form() {
            return print::failure(&why, Exit::Usage);
        }
        let options = ReadOptions { window: self.window, inlined: self.inlined };
        let read = StackProfile::read(&self.recording, options);
        let read = if self.waits { read.and_then(|read| read.of_waits(&self.recording)) } else { read };
        let profile = match read {
            Ok(profile) => profile,
            Err(error) => return print::failure(&error, Exit::CannotStart),
        };
        let bytes = match self.form {
            ReportForm::Text => report::text(
                &profile,
                &report::TextOptions {
                    top: self.top as usize,
                    callers_of: self.callers_of,
                    owner_module: self.owner,
                    outermost: self.outermost,
                    colors: self.colors,
                },
            )
            .into_bytes(),
            ReportForm::Json => report::json(&profile).into_bytes(),
            ReportForm::Html => report::html(&profile, self.top as usize).into_bytes(),
            ReportForm::Folded => report::folded(&profile).into_bytes(),
            ReportForm::Pprof => report::pprof(&profile),
            ReportForm::Firefox => report::firefox(&profile).into_bytes(),
            ReportForm::Csv => report::csv(&profile).into_bytes(),
        };
        super::write(self.output.as_deref(), bytes)
    }

    /// Finds an option that has no meaning in the form.
    fn check_form(&self) -> Result<(), String> {
        let of_text = self.form == ReportForm::Text;
        let table = "only the text report has that table: leave one of them out";
        let given = [
            ("--callers-of", self.callers_of.is_some() && !of_text, table),
            ("--outermost", !self.outermost.is_empty() && !of_text, table),
            ("--colors", self.colors && !of_text, table),
            (
                "--waits",
                self.waits && self.form == ReportForm::Csv,
                "that form has counters alone: leave --waits out, or give --form json",
            ),
        ];
        let form = self.form.to_possible_value();
        let form = form.as_ref().map_or("", |form| form.get_name());
        match given.into_iter().find(|(_, has_no_meaning, _)| *has_no_meaning) {
            Some((option, _, cure)) => Err(format!("{option} and --form {form} exclude each other: {cure}")),
            None => Ok(()),
        }
    }
}

/// Reads `10s..25s`.
fn parse_window(text: &str) -> Result<Window, String> {
    // The start of the recording is no length of time, so `Span` refuses 0.
    let span = |text: &str| match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        _ => text.parse::<crate::values::Span>().map(Duration::from).map_err(|error| error.to_string()),
    };
    let (from, to) = text.split_once("..").ok_or("two times with .. between them, such as 10s..25s")?;
    let from = if from.is_empty() { Duration::ZERO } else { span(from)? };
    let to = if to.is_empty() { None } else { Some(span(to)?) };
    if to.is_some_and(|to| to <= from) {
        return Err("the end is not after the start".to_owned());
    }
    Ok(Window { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct ReportLine {
        #[command(flatten)]
        report: ProfileReportArgs,
    }

    fn checked(words: &[&str]) -> Result<(), String> {
        let words = [&["report", "web.prof"], words].concat();
        ReportLine::try_parse_from(words).expect("the options parse").report.check_form()
    }

    /// Regression: these options were ignored in every form but text.
    #[test]
    fn options_without_meaning_in_form_are_refused() {
        let of_text = [&["--callers-of", "x", "--owner", "m"][..], &["--outermost", "a,b"], &["--colors"]];
        for words in of_text {
            assert_eq!(checked(words), Ok(()));
            for form in ["json", "html", "folded", "pprof", "firefox", "csv"] {
                let why = checked(&[words, &["--form", form]].concat()).unwrap_err();
                assert!(why.contains(words[0]) && why.contains(form) && why.contains("leave"), "{why}");
            }
        }
        assert_eq!(checked(&["--waits", "--form", "html"]), Ok(()));
        let why = checked(&["--waits", "--form", "csv"]).unwrap_err();
        assert!(why.starts_with("--waits and --form csv exclude each other"), "{why}");
    }

    #[test]
    fn window_with_open_end_is_read() {
        let window = |from, to: Option<u64>| Window {
            from: Duration::from_secs(from),
            to: to.map(Duration::from_secs),
        };
        assert_eq!(parse_window("10s..25s"), Ok(window(10, Some(25))));
        assert_eq!(parse_window("10.."), Ok(window(10, None)));
        assert_eq!(parse_window("..25s"), Ok(window(0, Some(25))));
        assert_eq!(parse_window("0s..25s"), Ok(window(0, Some(25))));
        for wrong in ["0..0", "10s", "25s..10s", "a..b", "5..5"] {
            assert!(parse_window(wrong).is_err(), "{wrong}");
        }
    }
}
