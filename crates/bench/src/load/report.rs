//! The tables of the bench and their explanation.

use super::injectors::BenchInjector;
use super::{AGREEMENT, CONNECTIONS, WAITING};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Requests per CPU second* is the number of answers of an injector per second of its processor \
time, from its start to its end. The runs are so long that the start is under 2 % of the time. Each injector has one \
cpu, the server the other. Against *nginx 1k* all injectors go as fast as possible. The rates beside it are those of a \
closed loop and belong to the slower of the two programs. Against *10 ms* the server answers each request 10 ms after \
its arrival, so 64 connections get at most 6,400 answers a second, and every median is at least 10 ms. There, rates \
and times must agree. ab sends HTTP/1.0 and does not take part in that row; h2load reports means only, hey tenths of a \
millisecond. *h2* is HTTP/2 without TLS, with ten concurrent requests on each connection.

*Users* think 5 s on average between requests. Users per GB are the running users divided by the peak of resident \
memory. Users per core are the running users divided by the used share of a core, if usage were even. *Late* is the \
delay of a user's next request after its planned time, by the injector's own timers.

**What it does not show.** Two virtual cores of one machine, shared with other guests: compare within a table.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    BenchReport::new("load", "the injector's cost of a request", &options.repository, parameters(options))
        .with_points(points)
        .with_table(injectors(points))
        .with_line(agreement(points))
        .with_table(users(points))
        .with_how_to_read(HOW_TO_READ)
}

fn injectors(points: &Points) -> CellTable {
    let head =
        ["target", "injector", "requests per CPU s", "low – high", "req/s", "p50 µs", "p99 µs", "mean µs"];
    let mut table = CellTable::new(2, &head);
    let is_injector = |name: &str| BenchInjector::ALL.iter().any(|injector| injector.name() == name);
    for (program, variant) in points.cells().into_iter().filter(|(_, variant)| is_injector(variant)) {
        let median = |metric| points.median(program, variant, metric);
        table.push([
            program.into(),
            variant.into(),
            median("per_cpu_s"),
            points.spread(program, variant, "per_cpu_s"),
            median("per_s"),
            median("p50_us"),
            median("p99_us"),
            median("mean_us"),
        ]);
    }
    table
}

/// The relative difference between the injectors' rates where the rates must agree.
fn agreement(points: &Points) -> String {
    let rates = points.cells().into_iter().filter(|(program, _)| *program == AGREEMENT);
    let rates =
        rates.filter_map(|(program, variant)| Some(points.summary(program, variant, "per_s")?.median));
    let (low, high) = rates.fold((f64::MAX, 0.0), |(low, high), rate| (rate.min(low), rate.max(high)));
    let apart = (high - low).max(0.0) / high.max(1.0);
    format!("Against {AGREEMENT}, the rates of all are within {:.1} % of each other.", apart * 100.0)
}

fn users(points: &Points) -> CellTable {
    let head =
        ["users", "users per GB", "users per core", "low – high", "late p50 µs", "late p99 µs", "latest µs"];
    let mut table = CellTable::new(1, &head);
    for (program, variant) in points.cells().into_iter().filter(|(_, variant)| *variant == "vermeil") {
        let median = |metric| points.median(program, variant, metric);
        table.push([
            program.trim_end_matches(" users").into(),
            median("users_per_gb"),
            median("users_per_core"),
            points.spread(program, variant, "users_per_core"),
            median("late_p50_us"),
            median("late_p99_us"),
            median("late_max_us"),
        ]);
    }
    table
}

fn parameters(options: &BenchOptions) -> Vec<(&'static str, String)> {
    let version = |program: &str, argument: &str| machine::version(&find_program(program)?, argument);
    let versions = [
        version("wrk", "-v").map(|said| said.split(" [").next().unwrap_or_default().to_owned()),
        version("ab", "-V")
            .map(|said| said.replace("This is ", "").split(" <").next().unwrap_or_default().to_owned()),
        find_program("hey").map(|_| "hey".to_owned()),
        version("h2load", "--version"),
        version("nginx", "-v").map(|said| said.replace("nginx version: ", "")),
    ];
    let size = options.size.note();
    vec![
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        (
            "load",
            format!(
                "{CONNECTIONS} keep-alive connections, {:?} a run{size}; against {AGREEMENT} at least {WAITING:?}, for all alike",
                options.duration
            ),
        ),
        ("rounds", options.rounds.to_string()),
        ("cpus", "the injector on one, the server on the other".into()),
    ]
}
