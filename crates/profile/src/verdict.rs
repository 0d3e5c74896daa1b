//! Reports of comparisons and of scaling: the verdict, the factors of efficiency, the potential
//! gain of functions.
//!
//! The table of gains always adds up: idle, listed functions and the rest are the whole loss.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gain::{CostComparison, Gain, RatioChange};
use crate::report::{CounterRatio, PAGE_STYLE, escaped};
use crate::scale::Scaling;

/// A comparison as text.
pub fn comparison_text(comparison: &CostComparison) -> String {
    let mut out = String::new();
    let percent = |share: f64| 100.0 * share;
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
    let bad: Vec<_> = scaling.repetitions.iter().filter(|run| !run.is_good()).collect();
    if bad.is_empty() {
        let _ = writeln!(out, "all {} runs pass their gates", scaling.repetitions.len());
    } else {
        let _ = writeln!(out, "DOUBTFUL: {} of {} runs fail a gate", bad.len(), scaling.repetitions.len());
        out.push_str(&failed_gates(scaling));
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
        let part = scaling.part.name();
        let _ = writeln!(out, "  {count} {part}, {failed} of {runs} runs: {gate}: {}", found.join(", "));
    }
    out
}

/// The result of a plan as one HTML file without network.
pub fn scaling_html(scaling: &Scaling) -> String {
    let title = escaped(&scaling.command.join(" "));
    let mut body = String::new();
    let part = scaling.part.name();
    for (count, comparison) in &scaling.comparisons {
        let _ = write!(body, "<h2>{count} {part}</h2>{}{}", waterfall(comparison), table(comparison));
    }
    let mut runs = String::new();
    let most = scaling.repetitions.iter().map(|run| run.rate).fold(f64::MIN_POSITIVE, f64::max);
    for run in &scaling.repetitions {
        let gates: Vec<String> = run
            .gates
            .iter()
            .map(|gate| format!("{} {}: {}", if gate.holds { "✓" } else { "✗" }, gate.name, gate.found))
            .collect();
        let _ = write!(
            runs,
            "<tr><td>{}<td>{}<td>{:.1}<td><span class=\"dot\" style=\"margin-left:{:.1}%\"></span><td>{}",
            run.count,
            run.block,
            run.rate,
            95.0 * run.rate / most,
            escaped(&gates.join("; "))
        );
    }
    let data = serde_json::to_string(scaling).expect("a result has text keys only").replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>Scaling of {title}</title>\n<style>{}{STYLE}</style>\n\
         <h1>{title}</h1>\n<pre>{}</pre>\n{body}\n<h2>Runs</h2><div class=\"wide\"><table class=\"runs\"><thead><tr><th>{part}<th>block\
         <th>{} each second<th>from 0 to {most:.0}<th>gates</thead><tbody>{runs}</tbody></table></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n</html>\n",
        PAGE_STYLE,
        escaped(&scaling_text(scaling)),
        escaped(&scaling.work)
    )
}

/// Bars whose lengths add up to the loss in efficiency: idle cpus, listed functions, the rest.
fn waterfall(comparison: &CostComparison) -> String {
    let idle = comparison.idle_factor.unwrap_or(1.0);
    let mut bars = vec![("idle cpus".to_owned(), 1.0 - idle)];
    let listed = comparison.gains.iter().filter(|gain| gain.listed).take(12);
    let shown: Vec<_> = listed.map(|gain| (gain.function.clone(), idle * gain.gain.mean)).collect();
    let sum: f64 = shown.iter().map(|(_, gain)| gain).sum();
    bars.extend(shown);
    bars.push(("rest".to_owned(), idle * comparison.loss.mean - sum));
    let most = bars.iter().map(|(_, share)| share.abs()).fold(1e-9, f64::max);
    bars.iter()
        .map(|(name, share)| {
            format!(
                "<div class=\"bar\"><span style=\"width:{:.1}%\" class=\"{}\"></span>{:.2} % {}</div>",
                60.0 * share.abs() / most,
                if *share < 0.0 { "less" } else { "more" },
                100.0 * share,
                escaped(name)
            )
        })
        .collect()
}

fn table(comparison: &CostComparison) -> String {
    let mut rows = String::new();
    for gain in comparison.gains.iter().filter(|gain| gain.listed) {
        let owner = gain
            .owner
            .as_ref()
            .map_or_else(String::new, |(owner, share)| format!("{owner} ({:.0} %)", 100.0 * share));
        let _ = write!(
            rows,
            "<tr><td>{:.2}<td>{:.2} to {:.2}<td>{:.3} → {:.3}<td>{}<td>{}<td>{}",
            100.0 * gain.gain.mean,
            100.0 * gain.gain.low,
            100.0 * gain.gain.high,
            gain.cost_base / 1e3,
            gain.cost / 1e3,
            escaped(&gain.function),
            escaped(gain.module.trim_matches(['[', ']'])),
            escaped(&owner)
        );
    }
    format!(
        "<div class=\"wide\"><table><thead><tr><th>gain %<th>95 % interval<th>thousands for a unit<th>function<th>module\
         <th>owner of the excess</thead><tbody>{rows}</tbody></table></div>"
    )
}

const STYLE: &str = "\
.bar{font-size:13px;margin:2px 0;overflow-wrap:anywhere}.bar span{display:inline-block;height:1em;vertical-align:middle;margin-right:.5em;background:var(--kernel)}\
.bar .less{background:var(--none)}.dot{display:block;width:9px;height:9px;border-radius:50%;background:var(--kernel)}.runs td:nth-child(4){min-width:8rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gain::{CostedRun, compare};
    use crate::profile::Function;

    fn comparison() -> CostComparison {
        let run = |slow: f64, noise: f64| CostedRun {
            cost: [("slow", slow * noise), ("rest", 90.0)]
                .map(|(name, cost)| {
                    (Function { name: name.to_owned(), module: "prog".to_owned(), is_named: true }, cost)
                })
                .into(),
            owned: Default::default(),
            samples: 1_000,
            work: 1.0,
            seconds: 1.0,
            cpus: 1.0,
            busy_s: Some(0.9),
            ratios: Default::default(),
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
            ratios: Default::default(),
        };
        let text = comparison_text(&compare(std::slice::from_ref(&run), std::slice::from_ref(&run)));
        assert!(text.contains("ONE PAIR") && text.contains("no function's gain"), "{text}");
    }

    #[test]
    fn waterfall_adds_up_to_loss_of_efficiency() {
        let html = waterfall(&comparison());
        assert!(html.contains("0.00 % idle cpus") && html.contains("16.67 % slow"), "{html}");
    }
}
