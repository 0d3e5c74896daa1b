//! What becomes of the numbers: rows, tables and a section of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::points::Points;
use super::{CONNECTIONS, Options, Size};
use crate::machine;
use crate::peers::find_program;
use crate::rows::{self, Origin};
use crate::stats::Summary;
use crate::svg::number;
use crate::table::Table;
use crate::{Error, Result, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** *Blocked* is how long the call takes that starts a program: for so long the thread that makes it does \
nothing else. *To its end* is until the program's end is known; the program does nothing but end. *CPU* is the processor \
time of the caller, of the spawner, and of the program until its end, for each start. *Stall* is the longest time another \
thread of the same process was kept from writing to its memory and asking for more. `fork` copies page tables, so it grows \
with memory and shrinks with the size of pages; `posix_spawn` and `vfork` borrow the memory, but copy the table of \
descriptors; the spawner is another process, small and with few descriptors, so its cost is the same throughout. \
*sandboxed* is the spawner with another user and its groups; limits and no new privileges are in both.

*Requests per CPU second* is what one cpu does for CGI in a second in which it is never idle, programs included: the time in \
which that cpu was idle is left out. *Fat* servers hold 4 GB on 4 KB pages and 19,000 descriptors. Each server is started \
afresh for every run; every number is the median of interleaved rounds, *low – high* are the extremes.

**What it does not show.** Two virtual cores of one machine, shared with strangers: compare within a table. The memory of \
the first part is written once and then left alone; a server that writes to it after a fork pays for copies of pages as \
well.";

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
        Self { rows: repository.join("results/cgi.ndjson"), page: repository.join("docs/benchmarks.md") }
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
            bench: "cgi".into(),
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
        let _infallible = write!(text, "\n{}\n{}", self.starts().to_text(), self.servers().to_text());
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
            "## cgi: what starting a program costs\n\n`cargo xtask bench cgi`\n\n{}\n{}\n{}\n{HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.starts().to_markdown(),
            self.servers().to_markdown()
        );
        markdown::replace_section(&outputs.page, "cgi", &section)
    }

    fn starts(&self) -> Table {
        let head =
            ["holding", "way", "blocked µs", "low – high", "p99", "to its end µs", "CPU µs", "stall µs"];
        let mut table = Table::new(2, &head);
        for (program, variant) in self.points.cells() {
            let Some(holding) = program.strip_prefix("start ") else { continue };
            let median = |metric| self.median(program, variant, metric);
            table.push([
                holding.into(),
                variant.into(),
                median("blocked_us"),
                self.spread(program, variant, "blocked_us"),
                median("blocked_p99_us"),
                median("ended_us"),
                median("cpu_us"),
                median("stall_us"),
            ]);
        }
        table
    }

    fn servers(&self) -> Table {
        let head = ["program", "server", "requests per CPU s", "low – high", "req/s", "p50 µs", "p99 µs"];
        let mut table = Table::new(2, &head);
        for (program, variant) in self.points.cells() {
            if program.starts_with("start ") {
                continue;
            }
            let median = |metric| self.median(program, variant, metric);
            table.push([
                program.into(),
                variant.into(),
                median("per_cpu_s"),
                self.spread(program, variant, "per_cpu_s"),
                median("per_s"),
                median("p50_us"),
                median("p99_us"),
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
        version("apache2", "-v").map(|said| said.replace("Server version: ", "")),
        version("lighttpd", "-v").map(|said| said.split(" - ").next().unwrap_or_default().to_owned()),
        version("nginx", "-v").map(|said| said.replace("nginx version: ", "")),
        version("php-cgi", "-v").map(|said| said.split(" (").next().unwrap_or_default().to_owned()),
    ];
    let size = if options.size == Size::Smoke { " (smoke size: the numbers mean nothing)" } else { "" };
    vec![
        ("commit", origin.commit.clone()),
        ("machine", origin.machine.clone()),
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("load", format!("wrk, {CONNECTIONS} keep-alive connections, {:?} a run{size}", options.duration)),
        ("rounds", options.rounds.to_string()),
        ("cpus", "server and programs on one, load on the other".into()),
    ]
}
