//! `vermeil profile compare`: a configuration against its base.

use crate::{Exit, print};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use vermeil_profile::{gain::compare_recordings, verdict, verdict_page};

/// The form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonForm {
    /// Text for people
    Text,
    /// All functions and ratios for programs
    Json,
    /// One HTML file with a flame graph of the excess, without network
    Html,
}

/// Compare recordings: which functions cost more for each unit of work, and the possible gain
///
/// The potential gain of a function is its share of the cost now, less its share in the base times
/// the cost factor. The gains of all functions add up to the whole loss in cost. With several
/// recordings of each side, one after another, the intervals know how runs differ; with one, only
/// the error of sampling.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct CompareArgs {
    /// The base: a recording, or a folder of recordings
    #[arg(value_name = "BASE", value_hint = ValueHint::AnyPath)]
    base: PathBuf,

    /// The other side: a recording, or a folder of recordings
    #[arg(value_name = "NOW", value_hint = ValueHint::AnyPath)]
    now: PathBuf,

    /// The work done during each recording of the base and of the other side, such as requests
    ///
    /// Default: the number in the recordings, which those of vermeil scale have.
    #[arg(long, value_name = "BASE,NOW", value_parser = parse_pair)]
    work: Option<(f64, f64)>,

    /// The cpus of the base and of the other side
    ///
    /// Default: the numbers in the recordings; else 1,1.
    #[arg(long, value_name = "BASE,NOW", value_parser = parse_pair)]
    cpus: Option<(f64, f64)>,

    /// The form of the comparison
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    form: ComparisonForm,

    /// The file to write; `-` is standard output
    ///
    /// Default: standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl CompareArgs {
    /// Compares.
    pub(super) fn run(self) -> Exit {
        let comparison = match compare_recordings(&self.base, &self.now, self.work, self.cpus) {
            Ok(comparison) => comparison,
            Err(error) => return print::failure(&error, Exit::CannotStart),
        };
        let (base, now) = (self.base.display().to_string(), self.now.display().to_string());
        let text = match self.form {
            ComparisonForm::Text => verdict::comparison_text(&comparison),
            ComparisonForm::Json => super::as_json(&comparison),
            ComparisonForm::Html => verdict_page::comparison_html(&comparison, &base, &now),
        };
        super::write(self.output.as_deref(), text.into_bytes())
    }
}

/// Reads `1000,1900`.
fn parse_pair(text: &str) -> Result<(f64, f64), String> {
    let positive =
        |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    text.split_once(',')
        .and_then(|(base, now)| Some((positive(base)?, positive(now)?)))
        .ok_or_else(|| "two positive numbers with a comma between them, such as 1000,1900".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_of_numbers_is_read() {
        assert_eq!(parse_pair("1000,1900.5"), Ok((1000.0, 1900.5)));
        for wrong in ["1000", "0,1", "-1,2", "a,b", "1,inf"] {
            assert!(parse_pair(wrong).is_err(), "{wrong}");
        }
    }
}
