//! The display of a running load: a line on the terminal. The first Ctrl-C ends the run with its
//! results, the second ends the process.
//!
//! Nothing is drawn where standard error is no terminal.

use super::output::OutputArgs;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vermeil_load::{RunObserver, RunProgress};

/// Follows a run.
pub(super) struct LiveView {
    bar: ProgressBar,
    asked_to_end: Arc<AtomicBool>,
    /// Whether a signal ends the process.
    is_deadly: Arc<AtomicBool>,
}

impl LiveView {
    /// A line, unless the line would disturb other output, and handlers for SIGINT and SIGTERM.
    pub(super) fn new(output: &OutputArgs) -> Self {
        let hidden = output.quiet || !std::io::stderr().is_terminal();
        let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style =
            ProgressStyle::with_template("{bar:12} {elapsed}/{wide_msg}").expect("a template that is tested");
        bar.set_style(style);
        let (asked_to_end, is_deadly) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        for signal in [SIGINT, SIGTERM] {
            // Without the handler a signal ends the process, which is right, except for the first
            // process of a container. Handlers run in the order of their registration.
            let _deaf = flag::register_conditional_default(signal, is_deadly.clone())
                .and_then(|_| flag::register(signal, is_deadly.clone()))
                .and_then(|_| flag::register(signal, asked_to_end.clone()));
        }
        Self { bar, asked_to_end, is_deadly }
    }

    /// From now on there are results: the next signal asks for the results, and a further signal
    /// ends the process.
    pub(super) fn begin(&self) {
        self.is_deadly.store(false, Ordering::Relaxed);
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Whether the user asked for the end.
    pub(super) fn asked_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Relaxed)
    }
}

impl RunObserver for LiveView {
    fn see(&mut self, progress: RunProgress<'_>) -> ControlFlow<()> {
        let now = progress.interval;
        // A run that ends when everything is done has no length that could be shown.
        let planned =
            progress.planned.map_or_else(|| "…".to_owned(), |all| format!("{:.0}s", all.as_secs_f64()));
        self.bar.set_length(progress.planned.map_or(0, |all| all.as_millis() as u64));
        self.bar.set_position(progress.elapsed.as_millis() as u64);
        let [p50, _, p99, ..] = now.percentiles;
        let said = |name, time: Option<std::time::Duration>| {
            time.map_or_else(String::new, |time| format!("{name} {time:.1?}  "))
        };
        let times = said("p50", p50) + &said("p99", p99);
        // The most important figures come first, because a narrow terminal cuts the line.
        self.bar.set_message(format!(
            "{planned}  {}: {:.0}/s  {} failed  {times}{} users",
            now.phase.name().replace('_', "-"),
            now.rate(),
            progress.total.failed(),
            now.users,
        ));
        if self.asked_to_end() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
