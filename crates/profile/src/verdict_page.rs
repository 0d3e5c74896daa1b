//! Pages of comparisons and of scaling: the text of `verdict`, bars, tables with owners, and a
//! flame graph of the excess. One HTML file each, without network, for wide and narrow screens and
//! in the dark.

use std::fmt::Write;

use serde::Serialize;

use crate::gain::CostComparison;
use crate::report::{FLAME_SCRIPT, FLAME_STYLE, PAGE_STYLE, escaped};
use crate::scale::Scaling;
use crate::verdict::{comparison_text, scaling_text};

/// The result of a plan as one HTML file without network.
pub fn scaling_html(scaling: &Scaling) -> String {
    let title = escaped(&scaling.command.join(" "));
    let mut body = String::new();
    let part = scaling.part.name();
    for (count, comparison) in &scaling.comparisons {
        let _ = write!(body, "<h2>{count} {part}</h2>{}", parts(comparison));
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
    let body = format!(
        "<pre>{}</pre>\n{body}\n<h2>Runs</h2><div class=\"wide\"><table class=\"runs\"><thead><tr><th>{part}<th>block\
         <th>{} each second<th>from 0 to {most:.0}<th>gates</thead><tbody>{runs}</tbody></table></div>",
        escaped(&scaling_text(scaling)),
        escaped(&scaling.work)
    );
    page(&format!("Scaling of {title}"), &title, &body, scaling)
}

/// A comparison of two recordings, or of folders of recordings, as one HTML file without network.
pub fn comparison_html(comparison: &CostComparison, base: &str, now: &str) -> String {
    let title = escaped(&format!("{now} against {base}"));
    let body = format!("<pre>{}</pre>\n{}", escaped(&comparison_text(comparison)), parts(comparison));
    page(&title, &title, &body, comparison)
}

/// A page with its data for programs. Title and body are markup.
fn page(title: &str, heading: &str, body: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("a result has text keys only").replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>{title}</title>\n<style>{PAGE_STYLE}{FLAME_STYLE}{STYLE}</style>\n\
         <h1>{heading}</h1>\n{body}\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{FLAME_SCRIPT}</script>\n</html>\n"
    )
}

/// The pictures and tables of a comparison.
fn parts(comparison: &CostComparison) -> String {
    let hint = "Width is the cost of a unit of work now, and a label tells the excess over the base, both in \
                percent of the whole cost now. Red frames cost more than in the base, blue frames less. Callers \
                are above. Select a frame to enlarge it.";
    let graph = comparison.stacks.html(hint, "%", true, &|function| &**function);
    format!("{}{}<h3>Excess flame graph</h3>\n{graph}", waterfall(comparison), table(comparison))
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
.bar .less{background:var(--none)}.dot{display:block;width:9px;height:9px;border-radius:50%;background:var(--kernel)}.runs td:nth-child(4){min-width:8rem}h3{font-size:1rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gain::{CostedRun, compare};
    use crate::profile::tests::profile;
    use crate::report::flame_tests::frames;
    use crate::verdict::tests::comparison;

    #[test]
    fn waterfall_adds_up_to_loss_of_efficiency() {
        let html = waterfall(&comparison());
        assert!(html.contains("0.00 % idle cpus") && html.contains("16.67 % slow"), "{html}");
    }

    #[test]
    fn page_has_excess_by_stack() {
        let run = |stacks: &[(&str, u64)]| CostedRun::of(&profile(stacks), 10.0, 1);
        let base = run(&[("main;f", 50), ("main;k_old", 25)]);
        let now = run(&[("main;f;k_lock", 50), ("main;f", 50)]);
        let html = comparison_html(&compare(&[base], &[now]), "a.prof", "<b>.prof");
        assert!(html.contains("<h1>&lt;b&gt;.prof against a.prof</h1>"), "{html}");
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside} is in the file");
        }
        let old = serde_json::json!(["k_old", "[kernel]", 0, [], 25]);
        let lock = serde_json::json!(["k_lock", "[kernel]", 50, [], 0]);
        let expected = serde_json::json!([
            "all",
            "",
            100,
            [["main", "prog", 100, [["f", "prog", 100, [lock], 50], old], 75]],
            75
        ]);
        assert_eq!(frames(&html[html.find("Excess").unwrap()..]), expected);
    }
}
