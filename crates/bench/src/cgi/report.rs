//! The tables of the bench and their explanation.

use super::servers::UNANSWERED;
use super::symbols::CpuProfile;
use super::{CONNECTIONS, abort};
use crate::machine;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::BenchReport;
use crate::stats::Summary;
use crate::svg::number;
use crate::table::CellTable;

const HOW_TO_READ: &str = "\
**How to read it.** *Blocked* is the duration of the call that starts a program; the calling thread does nothing else \
in that time. *To its end* is the time until the caller knows the program's end; the program does nothing but end. \
*CPU* is the processor time of the caller, of the spawner, and of the program until its end, per start. *Stall* is \
measured in µs on another thread of the same process, during separate starts. Stall is the longest delay of a write to \
memory, of a request for memory, and of opening a descriptor: one time in a thousand, and at most in any round, with \
as many samples for each way. Stall excludes the wait for a cpu, because any running program causes that wait. Stall \
also excludes *host's longest*, the time in which the host had taken the cpu away from the machine while the thread \
ran, because no way to start can avoid it. *none* starts nothing, so its stall is the machine's. *Page tables* are the \
page tables of the process that starts the program. `fork` copies them, so its cost grows with memory and shrinks with \
the size of pages. `posix_spawn` and `vfork` borrow the memory, but copy the table of descriptors. *bare* is \
`posix_spawn` by a small process without other work: the least cost of a start. The spawner is another process, small \
and with few descriptors, so its cost is the same throughout. *several* are four starts at once instead of one after \
another, as in a server. *awake* are cpus that are not halted when idle. In starts one after another, the caller and \
the spawner take turns, and waking a halted cpu of a virtual machine takes longer than most of a start. *bare* needs \
such wake-ups less often, so compare the rows *awake*, *several* or *one_cpu*. *one_cpu* puts all processes on one \
cpu, so no wake-up crosses cpus and only the work remains. *sandboxed* is the spawner with another user, its groups \
and a session of its own; limits and no new privileges are in both. The additional cost of *sandboxed* is the cost of \
the kernel's scheduling groups for sessions (`sched_autogroup_enabled`), if the kernel makes such groups here.

*Dead after* is the time from the moment at which a client closes its connection until its program and the program's \
child are dead; both sleep. The table has the median of a round's hundred, and the longest of all. *floor* is the \
kernel's part: the bench itself kills the same two processes.

*Requests per CPU second* is the number of CGI requests that one cpu handles in a second without idle time, programs \
included: idle time of that cpu is left out. *System* is the share of that time in the kernel. The first round samples \
the functions of the kernel and of the programs. *Failed* are the requests of a run whose answer was an error, late (2 \
s) or missing. A server with failed requests does not carry this load, so its other numbers say little. *No answer \
within* means that the server was too slow to send its first answers before the end of the run. *floor* is not a \
server, but a loop that starts the program and reads its answer, one after another: about the most that a server can \
do. *all cpus*: the server and its programs have all cpus, and share them with the load. *Fat* servers hold 4 GB on 4 \
KB pages and 19,000 descriptors. Each run starts a fresh server. Every number is the median of interleaved rounds; \
*low – high* are the extremes.

**What it does not show.** Two virtual cores of one machine, shared with other guests: compare within a table. The \
memory of the first part is written once and then left alone. A server that writes to its memory after a fork also \
pays for copies of pages. On a virtual machine, most of `hello` is its C library, which asks the processor for its \
features (`handle_amd`, `get_common_indices` and similar symbols). Each question stops the machine until the host \
answers. Every server pays this cost alike, and so does the floor.";

/// The finished bench.
pub(super) fn report(options: &BenchOptions, points: &Points, profiles: &[CpuProfile]) -> BenchReport {
    BenchReport::new("cgi", "the cost of starting a program", &options.repository, parameters(options))
        .with_points(points)
        .with_table(starts(points))
        .with_table(aborts(points))
        .with_table(servers(points))
        .with_table(symbols(profiles))
        .with_how_to_read(HOW_TO_READ)
}

fn starts(points: &Points) -> CellTable {
    let head = [
        "holding",
        "way",
        "blocked µs",
        "low – high",
        "p99",
        "to its end µs",
        "CPU µs",
        "page tables kB",
        "stall p99.9",
        "longest",
        "host's longest",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        let Some(holding) = program.strip_prefix("start ") else { continue };
        let median = |metric| points.median(program, variant, metric);
        let longest = |metric| {
            let summary = points.summary(program, variant, metric);
            summary.map(|summary| number(summary.high)).unwrap_or_default()
        };
        table.push([
            holding.into(),
            variant.into(),
            median("blocked_us"),
            points.spread(program, variant, "blocked_us"),
            median("blocked_p99_us"),
            median("ended_us"),
            median("cpu_us"),
            median("page_tables_kb"),
            median("stall_p999_us"),
            longest("stall_us"),
            longest("host_us"),
        ]);
    }
    table
}

fn aborts(points: &Points) -> CellTable {
    let mut table = CellTable::new(2, &["program", "server", "dead after µs", "low – high", "longest"]);
    for (program, variant) in points.cells() {
        let Some(longest) = points.summary(program, variant, "gone_longest_us") else { continue };
        table.push([
            program.into(),
            variant.into(),
            points.median(program, variant, "gone_us"),
            points.spread(program, variant, "gone_us"),
            number(longest.high),
        ]);
    }
    table
}

fn servers(points: &Points) -> CellTable {
    let head = [
        "program",
        "server",
        "requests per CPU s",
        "low – high",
        "system %",
        "req/s",
        "p50 µs",
        "p99 µs",
        "failed",
    ];
    let mut table = CellTable::new(2, &head);
    for (program, variant) in points.cells() {
        if program.starts_with("start ") || program == abort::PROGRAM {
            continue;
        }
        let median = |metric| points.median(program, variant, metric);
        table.push([
            program.into(),
            variant.into(),
            median("per_cpu_s"),
            points.spread(program, variant, "per_cpu_s"),
            median("system_percent"),
            median("per_s"),
            median("p50_us"),
            median("p99_us"),
            match points.summary(program, variant, UNANSWERED) {
                None => median("failures"),
                Some(waited) => silence(waited, points.summary(program, variant, "failures")),
            },
        ]);
    }
    table
}

/// The cell for runs without any answer, beside runs with answers.
fn silence(waited: Summary, failures: Option<Summary>) -> String {
    let silence = format!("no answer within {} s", waited.median);
    match failures {
        None => silence,
        Some(failures) => format!("{}; in {} of the runs {silence}", number(failures.median), waited.rounds),
    }
}

fn symbols(profiles: &[CpuProfile]) -> CellTable {
    let mut table = CellTable::new(3, &["program", "server", "where that cpu's time goes, in percent"]);
    for CpuProfile { program, server, symbols } in profiles {
        let symbols = symbols.iter().map(|(name, share)| format!("`{name}` {share:.1}"));
        table.push([program.clone(), (*server).into(), symbols.collect::<Vec<_>>().join(", ")]);
    }
    table
}

fn parameters(options: &BenchOptions) -> Vec<(&'static str, String)> {
    let version = |program: &str, argument: &str| machine::version(&find_program(program)?, argument);
    let versions = [
        version("apache2", "-v").map(|said| said.replace("Server version: ", "")),
        version("lighttpd", "-v").map(|said| said.split(" - ").next().unwrap_or_default().to_owned()),
        version("nginx", "-v").map(|said| said.replace("nginx version: ", "")),
        version("php-cgi", "-v").map(|said| said.split(" (").next().unwrap_or_default().to_owned()),
    ];
    let size = options.size.note();
    vec![
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("load", format!("wrk, {CONNECTIONS} keep-alive connections, {:?} a run{size}", options.duration)),
        ("rounds", options.rounds.to_string()),
        ("cpus", "server and programs on one, load on the other".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answered_nothing_is_told_as_such() {
        let summary = |values: &[f64]| Summary::of(values).expect("numbers");
        assert_eq!(silence(summary(&[8.0, 8.0]), None), "no answer within 8 s");
        let text = silence(summary(&[8.0]), Some(summary(&[3.0, 5.0])));
        assert_eq!(text, "4.00; in 1 of the runs no answer within 8 s");
    }
}
