//! `vermeil sim show`: a recording as it ran, in tables and pictures.

use super::given::{self, DrawnForm, SimUsage};
use crate::values::Span;
use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Show a recording as it ran, without simulation: the handlers, their times and waits, and which
/// core ran them.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct ShowArgs {
    /// A recording of the runtime, for example of `vermeil serve --trace`
    #[arg(value_name = "FILE.ndjson", value_hint = ValueHint::FilePath)]
    recording: PathBuf,

    /// Draw the events of each core over time
    ///
    /// Events from another core begin with a red line. Default: not drawn.
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    timeline: Option<PathBuf>,

    /// Write the events of each core over time, for ui.perfetto.dev
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,

    /// The start of the picture and the trace, counted from the first event, in seconds or with a
    /// unit: ms, s, m, h
    ///
    /// From 1ms to 24h. Default: the first event.
    #[arg(long, value_name = "TIME")]
    show_from: Option<Span>,

    /// The length of the picture and the trace, in seconds or with a unit: ms, s, m, h
    ///
    /// From 1ms to 24h. At most 400,000 spans are kept.
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    show_time: Span,
}

impl ShowArgs {
    /// Shows.
    pub(super) fn run(self) -> Exit {
        match self.text() {
            Ok(text) => print::result(&text),
            Err(error) => print::failure(&error, error.exit()),
        }
    }

    fn text(&self) -> Result<String, SimUsage> {
        given::check_writable("--timeline", self.timeline.as_deref(), DrawnForm::Svg)?;
        given::check_writable("--trace", self.trace.as_deref(), DrawnForm::Json)?;
        let run = given::recorded(&self.recording)?;
        let from_ns = self.show_from.map_or(0, |from| from.ms() * NS_PER_MS);
        let (timeline, handlers) = run.timeline(from_ns, self.show_time.ms() * NS_PER_MS);
        let handlers: Vec<&str> = handlers.iter().map(String::as_str).collect();
        if let Some(path) = &self.timeline {
            let title = self.recording.display().to_string();
            given::write("--timeline", path, &timeline.to_svg(&title, &handlers))?;
        }
        if let Some(path) = &self.trace {
            given::write("--trace", path, &timeline.to_chrome(&handlers))?;
        }
        Ok(run.to_text())
    }
}
