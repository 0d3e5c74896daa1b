//! What becomes of the numbers: rows, a table and a section of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Options, Size};
use crate::cgi::points::Points;
use crate::rows::{self, Origin};
use crate::svg::number;
use crate::table::Table;
use crate::{Error, Result, machine, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** An *event* is one run of a simulated handler, with everything around it: queues, locks, steals, caches, \
links, wake-ups. *Moments* are entries of the virtual clock. Both for each second of processor time of the one thread that \
simulates. *Memory* is the most that the process had. Every case has the same trace hash in every round.

**What it does not show.** How many chunks of memory a handler touches decides: a handler that walks through a megabyte costs \
more than one that touches nothing.";

/// Where a full run leaves its results.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// The rows, appended.
    pub rows: PathBuf,
    /// The page with the generated section.
    pub page: PathBuf,
}

impl Outputs {
    /// The places in a repository.
    pub fn of(repository: &Path) -> Self {
        Self { rows: repository.join("results/sim.ndjson"), page: repository.join("docs/benchmarks.md") }
    }
}

/// The finished bench.
#[derive(Clone, Debug)]
pub struct Report {
    origin: Origin,
    parameters: Vec<(&'static str, String)>,
    points: Points,
}

impl Report {
    pub(super) fn new(options: &Options, points: Points) -> Self {
        let origin = Origin {
            bench: "sim".into(),
            commit: machine::commit(&options.repository),
            machine: machine::describe(),
        };
        let size = if options.size == Size::Smoke { " (smoke size: the numbers mean nothing)" } else { "" };
        let parameters = vec![
            ("commit", origin.commit.clone()),
            ("machine", origin.machine.clone()),
            ("rounds", format!("{}{size}", options.rounds)),
        ];
        Self { origin, parameters, points }
    }

    /// The parameters and the table, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        let _infallible = write!(text, "\n{}", self.table().to_text());
        text
    }

    /// Appends the rows and renews the section of the page.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, outputs: &Outputs) -> Result<()> {
        rows::append(&outputs.rows, &self.points.rows(&self.origin))?;
        if let Some(folder) = outputs.page.parent() {
            fs::create_dir_all(folder).map_err(Error::path("create", folder))?;
        }
        let mut parameters = Table::new(2, &["", ""]);
        for (name, value) in &self.parameters {
            parameters.push([(*name).into(), value.clone()]);
        }
        let section = format!(
            "## sim: how fast machines are simulated\n\n`cargo xtask bench sim`\n\n{}\n{}\n{HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.table().to_markdown()
        );
        markdown::replace_section(&outputs.page, "sim", &section)
    }

    fn table(&self) -> Table {
        let head = [
            "workload",
            "machine and policy",
            "million events/s",
            "low – high",
            "million moments/s",
            "memory MB",
        ];
        let mut table = Table::new(2, &head);
        for (program, variant) in self.points.cells() {
            let summary = |metric| self.points.summary(program, variant, metric);
            let millions = |value: f64| format!("{:.2}", value / 1e6);
            let median = |metric| summary(metric).map(|found| millions(found.median)).unwrap_or_default();
            let spread = summary("events_per_s")
                .map(|found| format!("{} – {}", millions(found.low), millions(found.high)));
            table.push([
                program.into(),
                variant.into(),
                median("events_per_s"),
                spread.unwrap_or_default(),
                median("moments_per_s"),
                summary("memory_mb").map(|found| number(found.median)).unwrap_or_default(),
            ]);
        }
        table
    }
}
