//! What becomes of the numbers: rows, tables and a section of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::injectors::Injector;
use super::{CONNECTIONS, Options, Size};
use crate::cgi::points::Points;
use crate::machine;
use crate::peers::find_program;
use crate::rows::{self, Origin};
use crate::stats::Summary;
use crate::svg::number;
use crate::table::Table;
use crate::{Error, Result, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** *Requests per CPU second* is what an injector has answered for each second of processor time that it was charged, \
from its start to its end. Each has one cpu for itself, the server the other. Against *nginx 1k* all go as fast as they can: \
the rates beside it are those of a closed loop and belong to the slower of the two. Against *10 ms* the server answers each \
request 10 ms after it came, so 64 connections can have 6,400 answers a second and no injector may see a median below \
10 ms: there, rates and times have to agree. ab asks by HTTP/1.0 and takes no part in that; h2load tells means only.

*Users* think 5 s on average between requests. Users per GB are those that ran, divided by the most memory that was \
resident; users per core are those that ran, divided by the share of one core they took, were it all as even. *Late* is \
how long after its time a user's next request began, by the injector's own timers.

**What it does not show.** Two virtual cores of one machine, shared with strangers: compare within a table.";

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
        Self { rows: repository.join("results/load.ndjson"), page: repository.join("docs/benchmarks.md") }
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
            bench: "load".into(),
            commit: machine::commit(&options.repository),
            machine: machine::describe(),
        };
        let parameters = parameters(options, &origin);
        Self { origin, parameters, points }
    }

    /// The parameters and the tables, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        let _infallible = write!(text, "\n{}\n{}", self.injectors().to_text(), self.users().to_text());
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
            "## load: what a request costs the injector\n\n`cargo xtask bench load`\n\n{}\n{}\n{}\n{HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.injectors().to_markdown(),
            self.users().to_markdown()
        );
        markdown::replace_section(&outputs.page, "load", &section)
    }

    fn injectors(&self) -> Table {
        let head = [
            "target",
            "injector",
            "requests per CPU s",
            "low – high",
            "req/s",
            "p50 µs",
            "p99 µs",
            "mean µs",
        ];
        let mut table = Table::new(2, &head);
        let is_injector = |name: &str| Injector::ALL.iter().any(|injector| injector.name() == name);
        for (program, variant) in self.points.cells().into_iter().filter(|(_, variant)| is_injector(variant))
        {
            let median = |metric| self.median(program, variant, metric);
            table.push([
                program.into(),
                variant.into(),
                median("per_cpu_s"),
                self.spread(program, variant, "per_cpu_s"),
                median("per_s"),
                median("p50_us"),
                median("p99_us"),
                median("mean_us"),
            ]);
        }
        table
    }

    fn users(&self) -> Table {
        let head = [
            "users",
            "users per GB",
            "users per core",
            "low – high",
            "late p50 µs",
            "late p99 µs",
            "latest µs",
        ];
        let mut table = Table::new(1, &head);
        for (program, variant) in self.points.cells().into_iter().filter(|(_, variant)| *variant == "vermeil")
        {
            let median = |metric| self.median(program, variant, metric);
            table.push([
                program.trim_end_matches(" users").into(),
                median("users_per_gb"),
                median("users_per_core"),
                self.spread(program, variant, "users_per_core"),
                median("late_p50_us"),
                median("late_p99_us"),
                median("late_max_us"),
            ]);
        }
        table
    }

    fn median(&self, program: &str, variant: &str, metric: &str) -> String {
        let summary = self.points.summary(program, variant, metric);
        summary.map(|summary| number(summary.median)).unwrap_or_default()
    }

    fn spread(&self, program: &str, variant: &str, metric: &str) -> String {
        let text = |summary: Summary| format!("{} – {}", number(summary.low), number(summary.high));
        self.points.summary(program, variant, metric).map(text).unwrap_or_default()
    }
}

fn parameters(options: &Options, origin: &Origin) -> Vec<(&'static str, String)> {
    let version = |program: &str, argument: &str| machine::version(&find_program(program)?, argument);
    let versions = [
        version("wrk", "-v").map(|said| said.split(" [").next().unwrap_or_default().to_owned()),
        version("ab", "-V")
            .map(|said| said.replace("This is ", "").split(" <").next().unwrap_or_default().to_owned()),
        version("h2load", "--version"),
        version("nginx", "-v").map(|said| said.replace("nginx version: ", "")),
    ];
    let size = if options.size == Size::Smoke { " (smoke size: the numbers mean nothing)" } else { "" };
    vec![
        ("commit", origin.commit.clone()),
        ("machine", origin.machine.clone()),
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("load", format!("{CONNECTIONS} keep-alive connections, {:?} a run{size}", options.duration)),
        ("rounds", options.rounds.to_string()),
        ("cpus", "the injector on one, the server on the other".into()),
    ]
}
