//! What becomes of the numbers: rows, a table and a section of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Options, Size};
use crate::cgi::points::Points;
use crate::machine;
use crate::peers::find_program;
use crate::rows::{self, Origin};
use crate::svg::number;
use crate::table::Table;
use crate::{Error, Result, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** *Offered* is what arrives each second, as a part of what the server answered in a closed loop just before. \
Each request has a connection of its own, and its client gives up after a second, connecting included. *Good* are complete \
answers with a status below 400 in that time; *of its peak* compares them with the most that the same server gave at any \
level. *p99* is the time within which 99 of 100 good answers came, from the moment the request was to begin, in the worst \
tenth of a second. The first quarter of an overload is not counted. *Recovered* is how long after the overload half of the \
capacity, which is offered then, is served again. Every number is the median of interleaved rounds.

**What it does not show.** A server that has a whole machine: this one is held to a part of a cpu, so that the load can offer \
four times as much, and what the kernel does with packets is not held to it.";

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
        Self { rows: repository.join("results/overload.ndjson"), page: repository.join("docs/benchmarks.md") }
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
    pub(super) fn new(options: &Options, quota: String, points: Points) -> Self {
        let origin = Origin {
            bench: "overload".into(),
            commit: machine::commit(&options.repository),
            machine: machine::describe(),
        };
        let nginx = find_program("nginx").and_then(|path| machine::version(&path, "-v"));
        let size = if options.size == Size::Smoke { " (smoke size: the numbers mean nothing)" } else { "" };
        let parameters = vec![
            ("commit", origin.commit.clone()),
            ("machine", origin.machine.clone()),
            ("versions", nginx.unwrap_or_default().replace("nginx version: ", "")),
            ("load", format!("vermeil load, open loop, 1 KB over a connection each{size}")),
            ("server", quota),
            ("rounds", options.rounds.to_string()),
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
            "## overload: what is left of the good answers\n\n`cargo xtask bench overload`\n\n{}\n{}\n{HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.table().to_markdown()
        );
        markdown::replace_section(&outputs.page, "overload", &section)
    }

    fn table(&self) -> Table {
        let head = ["offered", "server", "offered/s", "good/s", "of its peak", "p99 ms", "recovered s"];
        let mut table = Table::new(2, &head);
        for (program, variant) in self.points.cells() {
            let median = |metric| self.points.summary(program, variant, metric).map(|summary| summary.median);
            let text = |metric| median(metric).map(number).unwrap_or_default();
            let share = median("good_per_s").unwrap_or_default() / self.peak(variant);
            table.push([
                program.into(),
                variant.into(),
                text("offered_per_s"),
                text("good_per_s"),
                format!("{:.0} %", share * 100.0),
                text("p99_ms"),
                text("recovery_s"),
            ]);
        }
        table
    }

    /// The most good answers per second of a server, at any level.
    fn peak(&self, variant: &str) -> f64 {
        let cells = self.points.cells();
        let medians = cells
            .iter()
            .filter(|(_, server)| *server == variant)
            .filter_map(|(program, server)| Some(self.points.summary(program, server, "good_per_s")?.median));
        medians.fold(f64::MIN_POSITIVE, f64::max)
    }
}
