//! What becomes of the trials: rows, a table for each server, and a section of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vermeil_load::report::Record;

use super::servers::Server;
use super::{CHILDREN, COMPRESS, Options, Size};
use crate::rows::{self, Origin, Row};
use crate::stats::Summary;
use crate::svg::number;
use crate::table::Table;
use crate::{Error, Result, machine, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** Each line is a trial of `vermeil load support --find-max`: so many users of the support site, who think \
and take bytes ten times as fast as published. *Held* says whether 95 % of the pages came within 3 s with all they show, 99 % \
within 5 s, downloads at their rate, and under 0.5 % failed. Users are doubled until that is not held, then bisected. Pages are \
PHP that asks a back end; files are plain. A trial whose numbers are not the server's alone says so and does not count.

**What it does not show.** Two virtual cores of one machine, shared with strangers; short trials; a file set that fits into \
memory.";

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
        Self { rows: repository.join("results/find-max.ndjson"), page: repository.join("docs/benchmarks.md") }
    }
}

/// The finished bench.
#[derive(Clone, Debug)]
pub struct Report {
    origin: Origin,
    parameters: Vec<(&'static str, String)>,
    found: Vec<(Server, Record)>,
}

impl Report {
    pub(super) fn new(options: &Options, found: Vec<(Server, Record)>) -> Self {
        let origin = Origin {
            bench: "find-max".into(),
            commit: machine::commit(&options.repository),
            machine: machine::describe(),
        };
        let size = if options.size == Size::Smoke { " (smoke size: the numbers mean nothing)" } else { "" };
        let parameters = vec![
            ("commit", origin.commit.clone()),
            ("machine", origin.machine.clone()),
            ("workload", format!("support, {COMPRESS} times as fast, {:?} a trial{size}", options.window)),
            ("PHP", format!("php-fpm, {CHILDREN} children")),
            ("cpus", "server and PHP on one, injector and back end on the other".into()),
        ];
        Self { origin, parameters, found }
    }

    /// The parameters and the tables, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        for (server, record) in &self.found {
            let _infallible = write!(text, "\n{}\n{}", result(*server, record), trials(record).to_text());
        }
        text
    }

    /// Appends the rows and renews the section of the page.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, outputs: &Outputs) -> Result<()> {
        let rows: Vec<_> =
            self.found.iter().flat_map(|(server, record)| self.rows(*server, record)).collect();
        rows::append(&outputs.rows, &rows)?;
        if let Some(folder) = outputs.page.parent() {
            fs::create_dir_all(folder).map_err(Error::path("create", folder))?;
        }
        let mut parameters = Table::new(2, &["", ""]);
        for (name, value) in &self.parameters {
            parameters.push([(*name).into(), value.clone()]);
        }
        let mut section = format!(
            "## find-max: the most users that are served well\n\n`cargo xtask bench find-max`\n\n{}\n",
            parameters.to_markdown()
        );
        for (server, record) in &self.found {
            let _infallible =
                write!(section, "**{}**\n\n{}\n", result(*server, record), trials(record).to_markdown());
        }
        section += HOW_TO_READ;
        section.push('\n');
        markdown::replace_section(&outputs.page, "find-max", &section)
    }

    fn rows(&self, server: Server, record: &Record) -> Vec<Row> {
        let Some(search) = &record.search else { return Vec::new() };
        let (low, high) = search.bracket;
        let [median, low, high] = [search.users, low, high].map(|users| users as f64);
        let users = Summary { median, low, high, rounds: search.trials.len() };
        let rate = Summary { median: record.rate, low: record.rate, high: record.rate, rounds: 1 };
        let row = |metric, unit, summary| self.origin.row("support", server.name(), metric, unit, summary);
        vec![row("users", "users", users), row("pages_per_s", "pages/s", rate)]
    }
}

/// What was found, in a line.
fn result(server: Server, record: &Record) -> String {
    let Some(search) = &record.search else { return format!("{}: nothing found", server.name()) };
    format!("{}: {} users; {}", server.name(), search.users, search.confidence)
}

fn trials(record: &Record) -> Table {
    let mut table =
        Table::new(0, &["users", "held", "pages/s", "good %", "tolerable %", "failed %", "p99 ms"]);
    for trial in record.search.iter().flat_map(|search| &search.trials) {
        let held = match (trial.valid, trial.held) {
            (false, _) => "not to be trusted",
            (true, true) => "yes",
            (true, false) => "no",
        };
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        table.push([
            trial.users.to_string(),
            held.into(),
            number(trial.rate),
            percent(trial.good_share),
            percent(trial.tolerable_share),
            percent(trial.failed_share),
            number(Duration::from_nanos(trial.p99_ns).as_secs_f64() * 1e3),
        ]);
    }
    table
}
