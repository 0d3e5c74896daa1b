//! One HTML file without network: facts about the recording, a flame graph, the table of functions,
//! the counters. Readable on a phone, in the dark, and (but for the flame graph) without scripts.
//!
//! Widths are samples. A click opens a frame, a second click on the top row closes it. Names are
//! text, never markup, because they come from programs that are profiled.

use std::fmt::Write;

use super::counters::table;
use super::flame::{self, FlameNode};
use super::text::heading;
use super::{ratios, waiting};
use crate::StackProfile;

/// The report as one HTML file. The tables list `top` functions.
pub fn html(profile: &StackProfile, top: usize) -> String {
    let title = escaped(&profile.origin.command.join(" "));
    let mut rows = String::new();
    let weight = profile.weight().max(1) as f64;
    for cost in profile.costs().iter().take(top).filter(|cost| cost.total > 0) {
        let function = profile.function(cost.function);
        let _ = writeln!(
            rows,
            "<tr><td>{:.1}<td>{:.1}<td>{}<td>{}<td>{}",
            100.0 * cost.own as f64 / weight,
            100.0 * cost.total as f64 / weight,
            cost.samples,
            escaped(&function.name),
            escaped(function.module.trim_matches(['[', ']']))
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Profile of {title}</title>\n\
         <style>{STYLE}{}</style>\n<h1>{title}</h1>\n<pre>{}</pre>\n\
         {}<h2>Functions</h2>\n<div class=\"wide\"><table><thead><tr><th>own %<th>total %<th>samples<th>function\
         <th>module</thead><tbody>\n{rows}</tbody></table></div>\n<h2>Counters</h2>\n<pre>{}</pre>\n\
         <script>{}</script>\n</html>\n",
        flame::STYLE,
        escaped(&heading(profile)),
        graphs(profile, top),
        escaped(&[table(profile), ratios::table(profile)].concat()),
        flame::SCRIPT
    )
}

/// The flame graph of the samples, and that of the waits if these were recorded.
fn graphs(profile: &StackProfile, top: usize) -> String {
    let hint = "callers are above. Select a frame to enlarge it.";
    let of = |samples: &mut dyn Iterator<Item = (u32, f64)>, hint: &str, unit: &str| {
        let mut tree = FlameNode::default();
        for (stack, value) in samples {
            tree.add(profile.stacks[stack as usize].iter().rev().copied(), value);
        }
        tree.html(hint, unit, false, &|id| profile.function(*id))
    };
    let mut blocked =
        profile.waiting.blocked.iter().filter_map(|wait| Some((wait.stack.ok()?, wait.ns as f64 / 1e6)));
    let mut waits = || {
        format!(
            "<h2>Waiting</h2>\n<pre>{}</pre>\n{}",
            escaped(waiting::table(profile, top).trim_start()),
            of(&mut blocked, &format!("Width is the time that threads were blocked; {hint}"), "ms")
        )
    };
    if profile.waiting.instead {
        return waits();
    }
    let mut samples = profile.samples.iter().map(|sample| (sample.stack, 1.0));
    let graph = of(&mut samples, &format!("Width is samples; {hint}"), "samples");
    let waits = if profile.waiting.recorded { waits() } else { String::new() };
    format!("<h2>Flame graph</h2>\n{graph}{waits}")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1c1e;--paper:#fff;--line:#d0d0d5;--user:#e9b44c;--kernel:#d9774f;--none:#a9a9b2}\
@media(prefers-color-scheme:dark){:root{--ink:#ececf0;--paper:#17171a;--line:#3a3a42;--user:#8a6414;--kernel:#8c3d1c;--none:#55555e}}\
body{font:15px/1.4 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1rem auto;max-width:1200px;padding:0 .7rem}\
h1{font-size:1.2rem;overflow-wrap:anywhere}h2{font-size:1.05rem}pre{white-space:pre-wrap;font-size:13px;overflow-wrap:anywhere}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}td,th{padding:.15rem .5rem;border-bottom:1px solid var(--line);text-align:right}\
td:nth-child(n+4),th:nth-child(n+4){text-align:left;overflow-wrap:anywhere;min-width:6rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;
    use crate::report::flame::tests::frames;
    use crate::report::waiting::tests::waiting;

    #[test]
    fn html_report_needs_no_network_and_no_trust_in_names() {
        let html = html(&profile(&[("main;</script><b>f", 3), ("main;k_send", 1)]), 10);
        assert!(!html.contains("</script><b>"), "{html}");
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside} is in the file");
        }
        assert!(html.contains("prefers-color-scheme:dark") && html.contains("width=device-width"));
        assert!(html.contains("<td>25.0<td>25.0<td>1<td>k_send<td>kernel"), "{html}");
    }

    #[test]
    fn flame_graph_holds_counts_of_tree() {
        let html = html(&profile(&[("main;f", 3), ("main;g", 1)]), 10);
        let tree = frames(&html);
        assert_eq!(
            tree,
            serde_json::json!([
                "all",
                "",
                4,
                [["main", "prog", 4, [["f", "prog", 3, []], ["g", "prog", 1, []]]]]
            ])
        );
    }

    #[test]
    fn waits_have_graph_of_their_own() {
        let mut profile = waiting(&[("main;k_poll", 2)]);
        profile.samples = crate::profile::tests::profile(&[("main", 1)]).samples;
        let html = html(&profile, 10);
        let second = html[html.find("<h2>Waiting").unwrap()..].to_owned();
        assert!(
            second.contains("main  [prog], by k_poll") && second.contains("data-unit=\"ms\""),
            "{second}"
        );
        let expected = serde_json::json!([
            "all",
            "",
            2000,
            [["main", "prog", 2000, [["k_poll", "[kernel]", 2000, []]]]]
        ]);
        assert_eq!(frames(&second), expected);
        assert_eq!(frames(&html)[2], 1, "the samples have the first graph");
    }
}
