//! The report of waits: sums for each cpu and thread, and the code in which threads blocked.
//!
//! A blocked stack ends in the scheduler, which says nothing. Therefore a row names the function
//! of the kernel that called the scheduler, and the nearest frame of the program.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::callers::program;
use crate::StackProfile;
use crate::format::KERNEL;
use crate::profile::{Function, FunctionId};
use crate::waiting::ThreadWaits;

/// Functions through which each blocked thread enters the scheduler, by the start of their names.
const SCHEDULER: [&str; 6] = ["__schedule", "schedule", "io_schedule", "perf_", "__perf", "__traceiter"];

/// The language's library, which programs contain, by the start of names.
const LIBRARY: [&str; 6] = ["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"];

/// The waits of a recording.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WaitReport<'a> {
    threads: Vec<ThreadRow<'a>>,
    blocked: Vec<BlockedRow<'a>>,
    lost_switches: u64,
}

#[derive(Clone, Debug, Serialize)]
struct ThreadRow<'a> {
    pid: i32,
    tid: i32,
    name: &'a str,
    cpu: u32,
    #[serde(flatten)]
    waits: ThreadWaits,
}

/// The waits in one place of the program and the kernel.
#[derive(Clone, Debug, Serialize)]
struct BlockedRow<'a> {
    function: &'a str,
    module: &'a str,
    /// The function of the kernel that waits; empty if the stack lacks one.
    kernel: &'a str,
    ns: u64,
    waits: u64,
}

/// The waits of a recording; `None` if they were not recorded.
pub(super) fn waits(profile: &StackProfile) -> Option<WaitReport<'_>> {
    let waiting = &profile.waiting;
    let thread = |((pid, tid, cpu), waits): (&(i32, i32, u32), &ThreadWaits)| {
        let name = profile.threads.get(&(*pid, *tid)).map_or("", String::as_str);
        ThreadRow { pid: *pid, tid: *tid, name, cpu: *cpu, waits: *waits }
    };
    waiting.recorded.then(|| WaitReport {
        threads: waiting.threads.iter().map(thread).collect(),
        blocked: blocked(profile),
        lost_switches: waiting.lost,
    })
}

/// The time in each place, most first.
fn blocked(profile: &StackProfile) -> Vec<BlockedRow<'_>> {
    let program = program(profile);
    let mut rows: BTreeMap<(&Function, &str), (u64, u64)> = BTreeMap::new();
    for wait in &profile.waiting.blocked {
        let Ok(stack) = wait.stack else { continue };
        let stack = &profile.stacks[stack as usize];
        let sums = rows.entry(place(profile, stack, &program)).or_default();
        sums.0 += wait.ns;
        sums.1 += wait.waits;
    }
    let mut rows: Vec<BlockedRow<'_>> = rows
        .into_iter()
        .map(|((function, kernel), (ns, waits))| {
            let module = function.module.trim_matches(['[', ']']);
            BlockedRow { function: &function.name, module, kernel, ns, waits }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.ns, row.waits)));
    rows
}

/// The nearest function of the program besides the language's library, and the function of the
/// kernel that called the scheduler.
fn place<'a>(profile: &'a StackProfile, stack: &[FunctionId], program: &str) -> (&'a Function, &'a str) {
    let functions = || stack.iter().map(|id| profile.function(*id));
    let is_kernel = |function: &&Function| function.module == KERNEL;
    let calls = |function: &&Function| !SCHEDULER.iter().any(|name| function.name.starts_with(name));
    let kernel = functions().take_while(is_kernel).find(calls).map_or("", |function| &function.name);
    let of_program = || functions().filter(|function| function.module == program);
    let is_own = |function: &&Function| !LIBRARY.iter().any(|name| function.name.starts_with(name));
    let owner = of_program().find(is_own).or_else(|| of_program().next());
    let other = || functions().find(|function| !is_kernel(function));
    let outermost = || profile.function(*stack.last().expect("a stack has a frame"));
    (owner.or_else(other).unwrap_or_else(outermost), kernel)
}

/// The waits as text, at most `top` rows of each table; empty if they were not recorded.
pub(super) fn table(profile: &StackProfile, top: usize) -> String {
    let Some(report) = waits(profile) else { return String::new() };
    let mut out = String::new();
    let (mut cpus, mut threads) = (BTreeMap::new(), BTreeMap::new());
    for row in &report.threads {
        cpus.entry(row.cpu).or_insert_with(ThreadWaits::default).add(&row.waits);
        threads.entry((row.name, row.pid, row.tid)).or_insert_with(ThreadWaits::default).add(&row.waits);
    }
    let _ = writeln!(
        out,
        "\nwaiting of {} threads: blocked until an event comes, or ready while another thread has the cpu",
        threads.len()
    );
    if report.lost_switches > 0 {
        let _ = writeln!(out, "DOUBTFUL: {} switches were lost, and waits with them", report.lost_switches);
    }
    out.push_str("blocked s    waits   ready s    waits  cpu\n");
    for (cpu, waits) in cpus.iter().take(top) {
        let _ = writeln!(out, "{}  {cpu}", sums(waits));
    }
    out.push_str("blocked s    waits   ready s    waits  thread\n");
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.blocked_ns + waits.ready_ns));
    for ((name, _, tid), waits) in threads.iter().take(top) {
        let _ = writeln!(out, "{}  {name} ({tid})", sums(waits));
    }
    let all = profile.waiting.blocked_ns().max(1);
    out.push_str("    share  blocked s    waits  blocked in\n");
    for row in report.blocked.iter().take(top) {
        let kernel = if row.kernel.is_empty() { String::new() } else { format!(", by {}", row.kernel) };
        let module = if row.module == "unknown" { String::new() } else { format!("  [{}]", row.module) };
        let _ = writeln!(
            out,
            "{:7.1} % {:10.3} {:8}  {}{module}{kernel}",
            100.0 * row.ns as f64 / all as f64,
            row.ns as f64 / 1e9,
            row.waits,
            row.function,
        );
    }
    let hidden = |count: usize| count.saturating_sub(top);
    let (threads, places) = (hidden(threads.len()), hidden(report.blocked.len()));
    if threads + places > 0 {
        let _ = writeln!(out, "{threads} more threads and {places} more places; --top N shows more");
    }
    out
}

fn sums(waits: &ThreadWaits) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "{:9.3} {:8} {:9.3} {:8}",
        seconds(waits.blocked_ns),
        waits.blocked,
        seconds(waits.ready_ns),
        waits.ready
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::profile::tests::profile;
    use crate::waiting::BlockedTime;

    /// A profile whose threads blocked in the stacks of its samples, a second each.
    pub(crate) fn waiting(stacks: &[(&str, u64)]) -> StackProfile {
        let mut profile = profile(stacks);
        profile.waiting.recorded = true;
        for sample in std::mem::take(&mut profile.samples) {
            let (time, cpu, stack) = (sample.time, sample.cpu, Ok(sample.stack));
            let ns = 1_000_000_000;
            profile.waiting.blocked.push(BlockedTime { time, cpu, pid: 7, tid: 8, stack, ns, waits: 2 });
            let sums = profile.waiting.threads.entry((7, 8, cpu)).or_default();
            sums.add(&ThreadWaits { blocked_ns: ns, blocked: 2, ready_ns: 5_000_000, ready: 1 });
        }
        // The functions of the kernel in the tests of profiles are named so.
        profile.functions.iter_mut().for_each(|function| {
            function.name = function.name.replace("k_schedule", "schedule");
        });
        profile.threads.insert((7, 8), "worker".to_owned());
        profile
    }

    #[test]
    fn row_names_program_and_kernel() {
        let mut profile =
            waiting(&[("main;serve;std::lock;k_futex_wait;k_schedule;k_schedule", 3), ("main;k_poll", 1)]);
        profile.samples = crate::profile::tests::profile(&[("main", 1)]).samples;
        let text = table(&profile, 10);
        for line in [
            "waiting of 1 threads",
            "    2.000        4     0.010        2  0\n",
            "    4.000        8     0.020        4  worker (8)\n",
            "   75.0 %      3.000        6  serve  [prog], by k_futex_wait\n",
            "   25.0 %      1.000        2  main  [prog], by k_poll\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("DOUBTFUL") && !text.contains("more threads"), "{text}");
    }

    #[test]
    fn long_tables_are_cut_and_say_so() {
        let mut profile = waiting(&[("main;k_a", 1), ("main;k_b", 1), ("main;k_c", 1)]);
        profile.waiting.lost = 9;
        let text = table(&profile, 1);
        assert!(text.contains("0 more threads and 2 more places; --top N shows more"), "{text}");
        assert!(text.contains("DOUBTFUL: 9 switches were lost"), "{text}");
    }

    #[test]
    fn recording_without_waits_has_no_table() {
        assert_eq!(table(&profile(&[("main", 1)]), 10), "");
    }
}
