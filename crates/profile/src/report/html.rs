//! One HTML file without network: facts about the recording, a flame graph, the table of functions,
//! the counters. Readable on a phone, in the dark, and (but for the flame graph) without scripts.
//!
//! Widths are samples. A click opens a frame, a second click on the top row closes it. Names are
//! text, never markup, because they come from programs that are profiled.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::counters::table;
use super::ratios;
use super::text::heading;
use crate::StackProfile;
use crate::profile::FunctionId;

/// Frames narrower than this share of all samples are left out of the picture, not of the table.
const SHARE_MIN: f64 = 0.000_5;

/// A frame of the flame graph with its callees.
#[derive(Default)]
struct FlameNode {
    count: u64,
    callees: BTreeMap<FunctionId, FlameNode>,
}

/// The report as one HTML file. The table lists `top` functions.
pub fn html(profile: &StackProfile, top: usize) -> String {
    let mut root = FlameNode::default();
    for sample in &profile.samples {
        root.count += 1;
        let mut node = &mut root;
        for function in profile.stack(sample).iter().rev() {
            node = node.callees.entry(*function).or_default();
            node.count += 1;
        }
    }
    let least = (root.count as f64 * SHARE_MIN) as u64;
    let mut frames = String::new();
    write_node(&mut frames, profile, &root, None, least);
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
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<pre>{}</pre>\n\
         <h2>Flame graph</h2>\n<p id=\"path\">Width is samples; callers are above. Select a frame to enlarge it.</p>\n\
         <div id=\"graph\"><noscript>The picture needs scripts; the table below does not.</noscript></div>\n\
         <h2>Functions</h2>\n<div class=\"wide\"><table><thead><tr><th>own %<th>total %<th>samples<th>function\
         <th>module</thead><tbody>\n{rows}</tbody></table></div>\n<h2>Counters</h2>\n<pre>{}</pre>\n\
         <script type=\"application/json\" id=\"frames\">{frames}</script>\n<script>{SCRIPT}</script>\n</html>\n",
        escaped(&heading(profile)),
        escaped(&[table(profile), ratios::table(profile)].concat())
    )
}

/// Writes a node as `["name", "module", samples, [callees]]`.
fn write_node(
    out: &mut String,
    profile: &StackProfile,
    node: &FlameNode,
    id: Option<FunctionId>,
    least: u64,
) {
    let (name, module) = match id {
        Some(id) => (&*profile.function(id).name, &*profile.function(id).module),
        None => ("all", ""),
    };
    let text = |text: &str| {
        // `<` as an escape, so that no name ends the script element.
        serde_json::to_string(text).expect("text is JSON").replace('<', "\\u003c")
    };
    let _ = write!(out, "[{},{},{},[", text(name), text(module), node.count);
    let mut is_first = true;
    for (callee, child) in node.callees.iter().filter(|(_, child)| child.count > least) {
        if !is_first {
            out.push(',');
        }
        is_first = false;
        write_node(out, profile, child, Some(*callee), least);
    }
    out.push_str("]]");
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
td:nth-child(n+4),th:nth-child(n+4){text-align:left;overflow-wrap:anywhere;min-width:6rem}\
#graph{position:relative;overflow:hidden}#path{min-height:2.8em;overflow-wrap:anywhere}\
#graph button{position:absolute;height:19px;border:0;border-right:1px solid var(--paper);padding:0 3px;font:12px/19px system-ui,sans-serif;\
color:var(--ink);text-align:left;white-space:nowrap;overflow:hidden;background:var(--user);cursor:pointer}\
#graph button.k{background:var(--kernel)}#graph button.n{background:var(--none)}#graph button:focus-visible{outline:2px solid var(--ink)}";

const SCRIPT: &str = "\
const all=JSON.parse(document.getElementById('frames').textContent),graph=document.getElementById('graph'),\
path=document.getElementById('path');let trail=[all];\
function say(f){path.textContent=f[0]+(f[1]?' ['+f[1].replace(/[\\[\\]]/g,'')+']':'')+': '+f[2]+' samples, '+(100*f[2]/all[2]).toFixed(1)+' %'}\
function draw(){graph.textContent='';const w=graph.clientWidth;let deep=0;\
function add(f,x,width,row,up){if(width<1)return;deep=Math.max(deep,row+1);const b=document.createElement('button');\
b.textContent=width>24?f[0]:'';b.title=f[0];b.setAttribute('aria-label',f[0]);b.style.cssText='left:'+x+'px;width:'+width+'px;top:'+row*20+'px';\
b.className=f[1]==='[kernel]'?'k':f[0][0]==='['?'n':'';b.onmouseenter=()=>say(f);b.onfocus=()=>say(f);\
b.onclick=()=>{const at=trail.indexOf(f);trail=at>=0&&at===trail.length-1&&at>0?trail.slice(0,at):at>=0?trail.slice(0,at+1):up.concat([f]);draw();say(f)};\
graph.append(b)}\
trail.forEach((f,i)=>add(f,0,w,i,trail.slice(0,i)));\
(function below(f,x,width,row,up){const kids=f[3].slice().sort((a,b)=>b[2]-a[2]);for(const k of kids){const kw=width*k[2]/f[2];\
add(k,x,kw,row,up);if(kw>=1)below(k,x,kw,row+1,up.concat([k]));x+=kw}})(trail[trail.length-1],0,w,trail.length,trail);\
graph.style.height=deep*20+'px'}\
draw();addEventListener('resize',draw);";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

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
        let start = html.find("id=\"frames\">").unwrap() + "id=\"frames\">".len();
        let end = start + html[start..].find("</script>").unwrap();
        let tree: serde_json::Value = serde_json::from_str(&html[start..end]).unwrap();
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
}
