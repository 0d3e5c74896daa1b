//! The report for people: facts about the recording, gaps, the functions that cost most.

use std::fmt::Write;

use super::callers::{Callers, by_outermost, callers_of};
use super::{colors, waiting};
use crate::StackProfile;
use crate::perf::Trigger;
use crate::profile::{CoreUnits, FunctionId, Sampled};
use crate::symbols::KERNEL_NAMES;

/// The choices in a text report.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// How many functions to list.
    pub top: usize,
    /// Functions whose callers are wanted.
    pub callers_of: Option<String>,
    /// The module in which owners are looked for.
    pub owner_module: Option<String>,
    /// Texts in the names of the functions by which all samples are divided; may be empty.
    pub outermost: Vec<String>,
    /// Whether samples are divided by the color whose event ran.
    pub colors: bool,
}

/// The report as text.
pub fn text(profile: &StackProfile, options: &TextOptions) -> String {
    let mut out = heading(profile);
    match &options.callers_of {
        Some(pattern) => {
            let callers = callers_of(profile, pattern, options.owner_module.as_deref());
            callers_text(&mut out, profile, pattern, &callers, options.top);
        }
        None if !options.outermost.is_empty() => outermost(&mut out, profile, options),
        None if options.colors => out.push_str(&colors::table(profile, options.top)),
        None if profile.waiting.instead => {
            out.push_str(waiting::table(profile, options.top).trim_start());
            out.push_str("\n--callers-of NAME shows which code waits in a function\n");
        }
        None => functions(&mut out, profile, options),
    }
    out
}

/// The line about the samples of a profile of waits.
fn waits_heading(profile: &StackProfile, seconds: f64) -> String {
    format!(
        "{:.3} s blocked in {seconds:.1} s, by all threads together; lost {} switches\n",
        profile.waiting.blocked_ns() as f64 / 1e9,
        profile.waiting.lost
    )
}

pub(super) fn heading(profile: &StackProfile) -> String {
    let origin = &profile.origin;
    let seconds = profile.duration_ns as f64 / 1e9;
    let weight = profile.weight();
    let mut out = String::new();
    // An import does not know the process.
    let process = if origin.pid == 0 { String::new() } else { format!(" (process {})", origin.pid) };
    let _ = writeln!(out, "{}{process}", origin.command.join(" "));
    if profile.waiting.instead {
        out.push_str(&waits_heading(profile, seconds));
        out.push_str(&unnamed_kernel(profile));
        out.push_str(&incomplete(profile));
        out.push('\n');
        return out;
    }
    let unit = match origin.trigger {
        Trigger::CpuClock => "cpu-clock; no hardware counters here, so a sample is time, not cycles",
        Trigger::Cycles => "hardware cycles",
        Trigger::Events => "events of another kind",
    };
    let _ = writeln!(
        out,
        "{} samples in {seconds:.1} s, {} on {} cpus ({unit})",
        profile.samples.len(),
        rate(profile),
        origin.cpus.len()
    );
    if origin.trigger == Trigger::CpuClock {
        let _ = writeln!(
            out,
            "cpu time {:.2} s = {:.2} cpus; time with interrupts off counts for the instruction that enables them",
            weight as f64 / 1e9,
            weight as f64 / profile.duration_ns.max(1) as f64
        );
    }
    if let Some(work) = &profile.work {
        let cost = cost_of_one(profile, weight as f64 / work.units);
        let _ = writeln!(out, "work: {:.0} {}, {cost}", work.units, work.unit);
        out.push_str(&work_of_cores(profile));
    }
    let of_kernel = profile.samples.iter().filter(|sample| innermost_module(profile, sample) == "[kernel]");
    let kernel_share = percent(of_kernel.map(|sample| sample.weight).sum(), weight);
    let unnamed = profile.samples.iter().filter(|sample| {
        profile.stack(sample).first().is_none_or(|function| !profile.function(*function).is_named)
    });
    let unnamed_share = percent(unnamed.map(|sample| sample.weight).sum(), weight);
    let kernel =
        if origin.kernel { format!("kernel {kernel_share:.1} %") } else { "kernel not recorded".to_owned() };
    let _ = writeln!(
        out,
        "{kernel}, without a name {unnamed_share:.1} %, lost {}, throttled {}, of other processes {} (left out)",
        profile.lost, profile.throttled, profile.others
    );
    out.push_str(&unnamed_kernel(profile));
    out.push_str(&incomplete(profile));
    if profile.lost > 0 || profile.throttled > 0 {
        let _ = writeln!(out, "DOUBTFUL: samples are missing; record with a lower --hz");
    }
    out.push('\n');
    out
}

/// The rate of the samples. An imported file with a fixed period of events has no rate.
fn rate(profile: &StackProfile) -> String {
    match profile.origin.hz {
        0 => match (profile.mean_weight(), profile.origin.trigger.unit()) {
            (1, units) => format!("one for each {}", units.trim_end_matches('s')),
            (weight, units) => format!("one for each {weight} {units}"),
        },
        hz => format!("{hz} Hz"),
    }
}

/// The cost of a unit of work in words.
fn cost_of_one(profile: &StackProfile, weight: f64) -> String {
    match profile.origin.trigger {
        Trigger::CpuClock => format!("cpu time of one {:.2} µs", weight / 1e3),
        Trigger::Cycles | Trigger::Events => format!("cycles of one {weight:.0}"),
    }
}

/// The work of each core, if the subject has several that count their work.
fn work_of_cores(profile: &StackProfile) -> String {
    let cores = profile.work_of_cores();
    let line = |core: &CoreUnits| {
        let cost = if core.units > 0.0 {
            format!(", {}", cost_of_one(profile, core.weight as f64 / core.units))
        } else {
            String::new()
        };
        format!("  cpu {}: {:.0}{cost}\n", core.cpu, core.units)
    };
    if cores.len() > 1 { cores.iter().map(line).collect() } else { String::new() }
}

/// The reason why the kernel's functions have no names, if so.
fn unnamed_kernel(profile: &StackProfile) -> String {
    let missing = profile.missing.iter().find(|missing| missing.name == KERNEL_NAMES);
    missing.map_or_else(String::new, |missing| format!("no {KERNEL_NAMES}: {}\n", missing.why))
}

fn incomplete(profile: &StackProfile) -> String {
    let line = |why: &String| format!("INCOMPLETE: {why}; everything before is reported\n");
    profile.cut.as_ref().map_or_else(String::new, line)
}

fn innermost_module<'a>(profile: &'a StackProfile, sample: &Sampled) -> &'a str {
    profile.stack(sample).first().map_or("", |function| &profile.function(*function).module)
}

fn functions(out: &mut String, profile: &StackProfile, options: &TextOptions) {
    let weight = profile.weight();
    let costs = profile.costs();
    let units = profile.work.as_ref().map(|work| work.units);
    let heading = match (units, profile.origin.trigger) {
        (None, _) => "",
        (Some(_), Trigger::CpuClock) => "  ns of one",
        (Some(_), Trigger::Cycles | Trigger::Events) => "  cycles of one",
    };
    let _ = writeln!(out, "   own   total  samples{heading}  function");
    for cost in costs.iter().take(options.top).filter(|cost| cost.total > 0) {
        let _ = writeln!(
            out,
            "{:5.1} % {:5.1} % {:8}{}  {}",
            percent(cost.own, weight),
            percent(cost.total, weight),
            cost.samples,
            units.map_or_else(String::new, |units| {
                format!("{:1$.0}", cost.own as f64 / units, heading.len())
            }),
            name(profile, cost.function)
        );
    }
    let rest: u64 = costs.iter().skip(options.top).map(|cost| cost.own).sum();
    if rest > 0 {
        let others = costs.iter().skip(options.top).filter(|cost| cost.own > 0).count();
        let _ = writeln!(
            out,
            "{:5.1} %                   {others} more functions; --top N shows more",
            percent(rest, weight)
        );
    }
    out.push_str("\n--callers-of NAME shows which code calls a function\n");
    let counters = super::counters::table(profile);
    if !counters.is_empty() {
        let _ = write!(out, "\n{counters}");
    }
    out.push_str(&super::ratios::table(profile));
    out.push_str(&waiting::table(profile, options.top));
}

fn outermost(out: &mut String, profile: &StackProfile, options: &TextOptions) {
    let all = profile.weight();
    let _ = writeln!(
        out,
        "samples by their outermost function with {} in the name",
        options.outermost.join(" or ")
    );
    let ranked = by_outermost(profile, &options.outermost);
    listed(out, profile, &ranked, all, options.top, "[no such function in the stack]");
}

fn callers_text(out: &mut String, profile: &StackProfile, pattern: &str, callers: &Callers, top: usize) {
    let all = profile.weight();
    if callers.functions.is_empty() {
        let _ = writeln!(out, "no function with {pattern:?} in its name was sampled");
        return;
    }
    let _ = writeln!(
        out,
        "{:.1} % of all samples have one of {} functions with {pattern:?} in the name",
        percent(callers.weight, all),
        callers.functions.len()
    );
    for function in callers.functions.iter().take(top) {
        let _ = writeln!(out, "  {}", name(profile, *function));
    }
    let _ = writeln!(out, "\ncalled directly by");
    listed(out, profile, &callers.direct, callers.weight, top, "[nothing: the stack ends there]");
    let _ = writeln!(out, "\non behalf of code in {} (nearest frame)", callers.module);
    listed(out, profile, &callers.owners, callers.weight, top, "[no frame of that module]");
}

fn listed(
    out: &mut String,
    profile: &StackProfile,
    ranked: &[(Option<FunctionId>, u64)],
    all: u64,
    top: usize,
    without: &str,
) {
    for (function, weight) in ranked.iter().take(top) {
        let name = function.map_or_else(|| without.to_owned(), |function| name(profile, function));
        let _ = writeln!(out, "{:5.1} %  {name}", percent(*weight, all));
    }
}

fn name(profile: &StackProfile, function: FunctionId) -> String {
    let function = profile.function(function);
    if function.is_named {
        format!("{}  [{}]", function.name, function.module.trim_matches(['[', ']']))
    } else {
        function.name.clone()
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    fn options() -> TextOptions {
        TextOptions { top: 2, callers_of: None, owner_module: None, outermost: Vec::new(), colors: false }
    }

    #[test]
    fn text_report_ranks_functions_by_own_weight() {
        let profile = profile(&[("main;f;k_send", 70), ("main;f", 20), ("main;g", 10)]);
        let text = text(&profile, &options());
        for line in [
            "prog -x (process 7)",
            "kernel 70.0 %, without a name 0.0 %, lost 0, throttled 0, of other processes 0 (left out)",
            " 70.0 %  70.0 %       70  k_send  [kernel]",
            " 20.0 %  90.0 %       20  f  [prog]",
            " 10.0 %                   1 more functions; --top N shows more",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("DOUBTFUL") && !text.contains("INCOMPLETE"), "{text}");
    }

    #[test]
    fn text_report_names_missing_data() {
        let mut profile = profile(&[("main", 1)]);
        profile.lost = 4;
        profile.cut = Some("cut off at byte 99".to_owned());
        let text = text(&profile, &options());
        assert!(text.contains("INCOMPLETE: cut off at byte 99"), "{text}");
        assert!(text.contains("DOUBTFUL: samples are missing; record with a lower --hz"), "{text}");
    }

    #[test]
    fn text_report_divides_cost_by_work() {
        let mut profile = profile(&[("main;f", 75), ("main;g", 25)]);
        profile.work = Some(crate::Work { units: 10.0, unit: "requests".to_owned(), cpus: 1 });
        let text = text(&profile, &options());
        assert!(text.contains("work: 10 requests, cpu time of one 10030.09 µs"), "{text}");
        assert!(text.contains(" 75.0 %  75.0 %       75    7522568  f  [prog]"), "{text}");
    }

    #[test]
    fn fixed_period_is_told_in_place_of_rate() {
        let mut profile = profile(&[("main", 3)]);
        (profile.origin.hz, profile.origin.trigger) = (0, Trigger::Cycles);
        let text = text(&profile, &options());
        assert!(text.contains("3 samples in 0.0 s, one for each 1003009 cycles on"), "{text}");
        profile.samples.iter_mut().for_each(|sample| sample.weight = 1);
        profile.origin.trigger = Trigger::Events;
        assert!(super::text(&profile, &options()).contains("3 samples in 0.0 s, one for each event on"));
    }

    #[test]
    fn samples_are_divided_by_outermost_function() {
        let profile = profile(&[("main;io", 3), ("main;serve", 1)]);
        let outermost = ["io", "serve"].map(str::to_owned).into();
        let text = text(&profile, &TextOptions { outermost, ..options() });
        assert!(text.contains(" 75.0 %  io  [prog]\n 25.0 %  serve  [prog]"), "{text}");
    }

    #[test]
    fn waits_are_reported_beside_and_instead_of_samples() {
        let mut profile = waiting::tests::waiting(&[("main;k_poll", 2)]);
        profile.samples = crate::profile::tests::profile(&[("main", 1)]).samples;
        let beside = text(&profile, &options());
        assert!(beside.contains("main  [prog], by k_poll") && beside.contains("   own   total"), "{beside}");
        let profile = profile.of_waits(std::path::Path::new("r")).unwrap();
        let instead = text(&profile, &options());
        assert!(instead.contains("2.000 s blocked in 0.0 s, by all threads together"), "{instead}");
        assert!(!instead.contains("   own   total"), "{instead}");
        let callers_of = Some("k_poll".to_owned());
        let callers = text(&profile, &TextOptions { callers_of, ..options() });
        assert!(callers.contains("100.0 %  main  [prog]"), "{callers}");
        assert_eq!(super::super::folded(&profile), "worker;main;k_poll 2000000\n");
    }

    #[test]
    fn unmatched_pattern_is_said() {
        let options = TextOptions { callers_of: Some("nothing_like_it".to_owned()), ..options() };
        let text = text(&profile(&[("main", 1)]), &options);
        assert!(text.contains("no function with \"nothing_like_it\""), "{text}");
    }
}
