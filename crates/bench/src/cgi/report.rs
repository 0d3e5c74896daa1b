//! The tables of the bench and their explanation.

use super::servers::UNANSWERED;
use super::symbols::Profile;
use super::{CONNECTIONS, abort};
use crate::machine;
use crate::options::Options;
use crate::peers::find_program;
use crate::points::Points;
use crate::report::Report;
use crate::stats::Summary;
use crate::svg::number;
use crate::table::Table;

const HOW_TO_READ: &str = "\
**How to read it.** *Blocked* is how long the call takes that starts a program: for so long the thread that makes it does \
nothing else. *To its end* is until the program's end is known; the program does nothing but end. *CPU* is the processor \
time of the caller, of the spawner, and of the program until its end, for each start. *Stall* is how long, in µs, another \
thread of the same process, which works during starts of their own, was kept from writing to its memory, asking for more, and opening a descriptor: one time in a thousand, and at most in any round, of as many times for each way. \
What it waited for a cpu is not in it: that is the programs' doing, whoever starts them. Nor is *host's longest*, for how long the host \
had taken the cpu away from the machine while the thread ran, which no way to start can help. *none* starts nothing, so its stall is the machine's. *Page tables* are those of the process that starts the \
program; `fork` copies them, so it grows with memory and shrinks with the size of pages; `posix_spawn` and `vfork` borrow the memory, but copy the table of \
descriptors; *bare* is `posix_spawn` by a process that holds nothing and does nothing else, the least that a start costs; the spawner is another process, small and with few descriptors, so its cost is the same throughout. \
*several* are four at once instead of one after the other, as a server has them. *awake* are cpus that are not halted when they \
have nothing to do: one after the other the caller and the spawner take turns, and waking a halted cpu of a virtual machine takes longer than most of a start; \
*bare* needs that less often, so compare those awake, several at once, or *one_cpu*: all on one, where nobody is woken elsewhere and nothing but the work is left. *sandboxed* is the spawner with another user, its groups and a session of its own; limits and no new privileges are in both. What it \
costs more is what the kernel's scheduling groups for sessions cost (`sched_autogroup_enabled`), if it makes them where this runs.

*Dead after* is how long, from the moment a client closes its connection, the program that it asked for and that program's child both \
live on, asleep: the median of a round's hundred, and the longest of all. Its *floor* is the kernel's part: the same two processes, killed by the bench itself.

*Requests per CPU second* is what one cpu does for CGI in a second in which it is never idle, programs included: the time in \
which that cpu was idle is left out. *System* is the share of that time in the kernel; which of its functions, and of the \
programs', is sampled in the first round. *Failed* are a run's requests whose answer was an error, late (2 s) or none: \
whoever has some does not serve this load, so its other numbers say little; *no answer within* so many seconds is a server that \
was so slow that its first answers had not come when the run was over. *floor* is no server, but a loop that starts the \
program and reads its answer, one after the other: about the most that a server could do. *all cpus*: the server and its programs have \
all cpus, and share them with the load. *Fat* servers hold 4 GB on 4 KB pages and 19,000 descriptors. Each server is started \
afresh for every run; every number is the median of interleaved rounds, *low – high* are the extremes.

**What it does not show.** Two virtual cores of one machine, shared with strangers: compare within a table. The memory of \
the first part is written once and then left alone; a server that writes to it after a fork pays for copies of pages as \
well. On a virtual machine most of `hello` is its C library asking the processor what it is (`handle_amd`, \
`get_common_indices` and their like among the symbols): each question stops the machine for its host, which takes as long as that \
has to do. Every server pays for it alike, and the floor.";

/// The finished bench.
pub(super) fn report(options: &Options, points: &Points, profiles: &[Profile]) -> Report {
    Report::new("cgi", "what starting a program costs", &options.repository, parameters(options))
        .with_points(points)
        .with_table(starts(points))
        .with_table(aborts(points))
        .with_table(servers(points))
        .with_table(symbols(profiles))
        .with_how_to_read(HOW_TO_READ)
}

fn starts(points: &Points) -> Table {
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
    let mut table = Table::new(2, &head);
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

fn aborts(points: &Points) -> Table {
    let mut table = Table::new(2, &["program", "server", "dead after µs", "low – high", "longest"]);
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

fn servers(points: &Points) -> Table {
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
    let mut table = Table::new(2, &head);
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

fn symbols(profiles: &[Profile]) -> Table {
    let mut table = Table::new(3, &["program", "server", "where that cpu's time goes, in percent"]);
    for Profile { program, server, symbols } in profiles {
        let symbols = symbols.iter().map(|(name, share)| format!("`{name}` {share:.1}"));
        table.push([program.clone(), (*server).into(), symbols.collect::<Vec<_>>().join(", ")]);
    }
    table
}

fn parameters(options: &Options) -> Vec<(&'static str, String)> {
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
