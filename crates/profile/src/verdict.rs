//! Reports of comparisons and of scaling: the verdict, the factors of efficiency, the potential
//! gain of functions.
//!
//! The table of gains always adds up: idle, listed functions and the rest are the whole loss.
//! `verdict_page` makes pages of the same.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gain::{CostComparison, Gain, RatioChange};
use crate::report::CounterRatio;
use crate::scale::Scaling;

/// A comparison as text.
pub fn comparison_text(comparison: &CostComparison) -> String {
    let mut out = String::new();
    let percent = |share: f64| 100.0 * share;
    if let Some((base, now)) = &comparison.programs {
        let _ = writeln!(
            out,
            "DIFFERENT PROGRAMS: {base} in the base, {now} now; a function of one program alone has no partner"
        );
    }
    let _ = writeln!(out, "efficiency {:.1} %", percent(comparison.efficiency));
    if let Some(idle) = comparison.idle_factor {
        let _ = writeln!(out, "  idle factor {:.3}: how busy the cpus are, against the base", idle);
    }
    let _ = writeln!(
        out,
        "  cost factor {:.3}: cost of a unit of work in the base, against now",
        comparison.cost_factor
    );
    let _ = writeln!(
        out,
        "loss in cost {:.2} % [{:.2} to {:.2} %], from {} pairs of runs",
        percent(comparison.loss.mean),
        percent(comparison.loss.low),
        percent(comparison.loss.high),
        comparison.repetitions
    );
    if comparison.sampling_error_only {
        out.push_str("ONE PAIR: intervals know the error of sampling only, not how runs differ; use at least 5 pairs\n");
    }
    out.push_str("\npotential gain   95 % interval        cost now/base  function\n");
    let listed: Vec<&Gain> = comparison.gains.iter().filter(|gain| gain.listed).collect();
    for gain in &listed {
        let ratio = if gain.cost_base > 0.0 {
            format!("{:.2}", gain.cost / gain.cost_base)
        } else {
            "new".to_owned()
        };
        let owner = gain.owner.as_ref().map_or_else(String::new, |(owner, share)| {
            format!("  called by {owner} ({:.0} % of the excess)", percent(*share))
        });
        let _ = writeln!(
            out,
            "{:12.2} %   [{:6.2} to {:6.2} %]   {ratio:>10}     {}  [{}]{owner}",
            percent(gain.gain.mean),
            percent(gain.gain.low),
            percent(gain.gain.high),
            gain.function,
            gain.module.trim_matches(['[', ']'])
        );
    }
    if listed.is_empty() {
        out.push_str("   no function's gain is told from noise\n");
    }
    let others = comparison.gains.len() - listed.len();
    let _ = writeln!(
        out,
        "{:12.2} %   rest: {others} functions that are not told from noise",
        percent(comparison.rest)
    );
    let _ = writeln!(out, "{:12.2} %   sum = loss in cost", percent(comparison.loss.mean));
    out.push_str(&ratios_text(comparison));
    out
}

/// Ratios of counters in the base and now, and ratios that are not measurable.
fn ratios_text(comparison: &CostComparison) -> String {
    let mut out = String::new();
    if !comparison.ratios.is_empty() {
        out.push_str("\nratio of counters                      base          now\n");
    }
    for RatioChange { base, now, .. } in &comparison.ratios {
        let nodes = |side: &str, ratio: &CounterRatio| {
            let nodes =
                ratio.nodes.iter().map(|(node, value)| format!(" node {node} {}", ratio.shown(*value)));
            let nodes: Vec<String> = nodes.collect();
            if nodes.is_empty() { String::new() } else { format!("   {side}:{}", nodes.join(",")) }
        };
        let _ = writeln!(
            out,
            "  {:30} {:>12} {:>12}{}{}",
            now.name,
            base.shown(base.value),
            now.shown(now.value),
            nodes("base", base),
            nodes("now", now)
        );
    }
    if let Some((path, ipc)) = comparison.cycle_factors() {
        let _ = writeln!(
            out,
            "  cost factor in cycles {:.3} = instructions {path:.3} × instructions per cycle {ipc:.3}",
            path * ipc
        );
    }
    let mut reasons: Vec<&str> = comparison.unmeasured.iter().map(|missing| &*missing.why).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let names: Vec<&str> = comparison
            .unmeasured
            .iter()
            .filter(|missing| missing.why == why)
            .map(|missing| &*missing.name)
            .collect();
        let _ = writeln!(out, "  not measurable here ({why}): {}", names.join(", "));
    }
    out
}

/// The result of a plan as text.
pub fn scaling_text(scaling: &Scaling) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n{}", scaling.command.join(" "), scaling.machine);
    if let Some(block) = scaling.stopped_in {
        let _ = writeln!(out, "ENDED EARLY: a signal stopped block {block}; the blocks before are compared");
    }
    let bad: Vec<_> = scaling.repetitions.iter().filter(|run| !run.is_good()).collect();
    if bad.is_empty() {
        let _ = writeln!(out, "all {} runs pass their gates", scaling.repetitions.len());
    } else {
        let _ = writeln!(out, "DOUBTFUL: {} of {} runs fail a gate", bad.len(), scaling.repetitions.len());
        out.push_str(&failed_gates(scaling));
    }
    if scaling.comparisons.is_empty() {
        out.push_str(
            "one number: nothing is compared here; compare its recordings with those of another run by \
             `vermeil profile compare`\n",
        );
    }
    let part = scaling.part.name();
    for (count, comparison) in &scaling.comparisons {
        let _ = write!(out, "\n{count} {part} against {}\n{}", scaling.base, comparison_text(comparison));
        let idle = scaling.idle(*count);
        if !idle.is_empty() {
            let cpus = idle.iter().map(|(cpu, share)| format!("cpu {cpu} {:.0} %", 100.0 * share));
            let _ = writeln!(out, "idle: {}", cpus.collect::<Vec<_>>().join(", "));
        }
    }
    out.push('\n');
    match &scaling.law {
        Ok(law) => {
            let peak = law
                .peak_cpus
                .map_or_else(|| "no peak".to_owned(), |count| format!("peak at {count:.0} {part}"));
            let _ = writeln!(
                out,
                "universal scalability law: contention {:.4}, coherency {:.6}, {:.1} {} each second on one of {part}, {peak}",
                law.alpha, law.beta, law.gamma, scaling.work
            );
        }
        Err(why) => {
            let _ = writeln!(out, "{why}");
        }
    }
    out
}

/// The length of the findings of a gate, of several runs. The table of a page has all findings.
const FINDINGS_LENGTH_MAX: usize = 120;

/// The failed gates: a line for each gate and number of cpus, with the findings of all such runs.
fn failed_gates(scaling: &Scaling) -> String {
    let mut lines: BTreeMap<(u32, &str), Vec<&str>> = BTreeMap::new();
    for run in &scaling.repetitions {
        for gate in run.gates.iter().filter(|gate| !gate.holds) {
            lines.entry((run.count, gate.name)).or_default().push(&gate.found);
        }
    }
    let mut out = String::new();
    for ((count, gate), mut found) in lines {
        let runs = scaling.repetitions.iter().filter(|run| run.count == count).count();
        let failed = found.len();
        found.sort_unstable();
        found.dedup();
        let parts = scaling.part.counted(count);
        let shown = found.iter().scan(0, |length, finding| {
            *length += finding.len();
            (*length <= FINDINGS_LENGTH_MAX).then_some(*finding)
        });
        let shown = shown.collect::<Vec<_>>();
        let shown = if shown.is_empty() { &found[..1] } else { &shown[..] };
        let more = found.len() - shown.len();
        let more = if more > 0 { format!(", and {more} like it") } else { String::new() };
        let _ = writeln!(out, "  {parts}, {failed} of {runs} runs: {gate}: {}{more}", shown.join(", "));
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gain::{CostedRun, compare};
    use crate::profile::Function;

    pub(crate) fn comparison() -> CostComparison {
        let run = |slow: f64, noise: f64| CostedRun {
            cost: [("slow", slow * noise), ("rest", 90.0)]
                .map(|(name, cost)| {
                    (Function { name: name.to_owned(), module: "prog".to_owned(), is_named: true }, cost)
                })
                .into(),
            owned: Default::default(),
            samples: 1_000,
            work: 1.0,
            // Dearer work takes longer, and the cpu is as busy as before.
            seconds: (slow * noise + 90.0) / 100.0,
            cpus: 1.0,
            busy_s: Some(0.9 * (slow * noise + 90.0) / 100.0),
            program: "prog".to_owned(),
            ratios: Default::default(),
            stacks: Default::default(),
        };
        let noise = [1.0, 1.01, 0.99, 1.02, 0.98];
        let base: Vec<_> = noise.iter().map(|noise| run(10.0, *noise)).collect();
        let now: Vec<_> = noise.iter().map(|noise| run(30.0, *noise)).collect();
        compare(&base, &now)
    }

    #[test]
    fn comparison_text_adds_up() {
        let text = comparison_text(&comparison());
        for line in ["16.67 %", "slow  [prog]", "3.00", "16.67 %   sum = loss in cost", "rest: 1 functions"] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn one_pair_is_said_to_be_one() {
        let run = CostedRun {
            cost: [(Function { name: "f".to_owned(), module: "p".to_owned(), is_named: true }, 1.0)].into(),
            owned: Default::default(),
            samples: 10,
            work: 1.0,
            seconds: 1.0,
            cpus: 1.0,
            busy_s: None,
            program: "p".to_owned(),
            ratios: Default::default(),
            stacks: Default::default(),
        };
        let text = comparison_text(&compare(std::slice::from_ref(&run), std::slice::from_ref(&run)));
        assert!(text.contains("ONE PAIR") && text.contains("no function's gain"), "{text}");
    }
}
