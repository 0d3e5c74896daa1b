//! Flame graphs as parts of an HTML page: the tree of stacks as JSON, and the script that draws it.
//!
//! A graph of one recording shows a value for each frame. A graph of a comparison shows the cost
//! now and in the base; colors and labels tell the excess. Names are text, never markup, because
//! they come from programs that are profiled. Tested below and by the pages.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::profile::Function;

/// Frames narrower than this share of the whole are left out of a picture, not of the tables.
const SHARE_MIN: f64 = 0.000_5;

/// A frame with its callees. `K` names a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlameNode<K> {
    value: f64,
    /// The value in the base of a comparison.
    base: f64,
    callees: BTreeMap<K, FlameNode<K>>,
}

impl<K> Default for FlameNode<K> {
    fn default() -> Self {
        Self { value: 0.0, base: 0.0, callees: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> FlameNode<K> {
    /// Adds a value to the frames of a stack, outermost first.
    pub(crate) fn add(&mut self, stack: impl Iterator<Item = K>, value: f64) {
        self.value += value;
        let mut node = self;
        for function in stack {
            node = node.callees.entry(function).or_default();
            node.value += value;
        }
    }

    /// The tree with other names, without the frames that no picture shows.
    pub(crate) fn named<N: Ord>(&self, name: &impl Fn(&K) -> N) -> FlameNode<N> {
        self.above(SHARE_MIN * self.value, name)
    }

    fn above<N: Ord>(&self, least: f64, name: &impl Fn(&K) -> N) -> FlameNode<N> {
        let callees = self.callees.iter().filter(|(_, node)| node.value > least);
        FlameNode {
            value: self.value,
            base: self.base,
            callees: callees.map(|(key, node)| (name(key), node.above(least, name))).collect(),
        }
    }

    /// Adds a part of another tree, as the present side or as the base of a comparison.
    pub(crate) fn merge(&mut self, other: &Self, part: f64, is_base: bool) {
        *(if is_base { &mut self.base } else { &mut self.value }) += part * other.value;
        for (key, node) in &other.callees {
            self.callees.entry(key.clone()).or_default().merge(node, part, is_base);
        }
    }

    /// The graph as a part of a page.
    pub(crate) fn html<'a>(
        &'a self,
        hint: &str,
        unit: &str,
        is_comparison: bool,
        function: &impl Fn(&'a K) -> &'a Function,
    ) -> String {
        let mut frames = String::new();
        let least = SHARE_MIN * self.value.max(self.base);
        self.write(&mut frames, None, least, is_comparison, function);
        let switch = if is_comparison {
            "<label><input type=\"checkbox\"> width is the excess alone</label>"
        } else {
            ""
        };
        format!(
            "<div class=\"flame\" data-unit=\"{unit}\"><p class=\"path\">{hint}</p>{switch}\n<div class=\"graph\">\
             <noscript>The picture needs scripts; the tables do not.</noscript></div>\n\
             <script type=\"application/json\">{frames}</script></div>\n"
        )
    }

    /// Writes a node as `["name", "module", value, [callees]]`, the base of a comparison behind.
    fn write<'a>(
        &'a self,
        out: &mut String,
        of: Option<&Function>,
        least: f64,
        is_comparison: bool,
        function: &impl Fn(&'a K) -> &'a Function,
    ) {
        let (name, module) = of.map_or(("all", ""), |of| (&*of.name, &*of.module));
        let text = |text: &str| {
            // `<` as an escape, so that no name ends the script element.
            serde_json::to_string(text).expect("text is JSON").replace('<', "\\u003c")
        };
        let rounded = |value: f64| (1_000.0 * value).round() / 1_000.0;
        let _ = write!(out, "[{},{},{},[", text(name), text(module), rounded(self.value));
        let shown = self.callees.iter().filter(|(_, node)| node.value.max(node.base) > least);
        for (index, (key, node)) in shown.enumerate() {
            if index > 0 {
                out.push(',');
            }
            node.write(out, Some(function(key)), least, is_comparison, function);
        }
        out.push(']');
        if is_comparison {
            let _ = write!(out, ",{}", rounded(self.base));
        }
        out.push(']');
    }
}

/// The style of all graphs of a page.
pub(crate) const STYLE: &str = "\
.graph{position:relative;overflow:hidden}.path{min-height:2.8em;overflow-wrap:anywhere}\
.graph button{position:absolute;height:19px;border:0;border-right:1px solid var(--paper);padding:0 3px;font:12px/19px system-ui,sans-serif;\
color:var(--ink);text-align:left;white-space:nowrap;overflow:hidden;background:var(--user);cursor:pointer}\
.graph button.k{background:var(--kernel)}.graph button.n{background:var(--none)}.graph button:focus-visible{outline:2px solid var(--ink)}\
.graph button.e0{background:var(--none)}.graph button.e1{background:var(--more1)}.graph button.e2{background:var(--more2)}\
.graph button.e-1{background:var(--less1)}.graph button.e-2{background:var(--less2)}\
:root{--more1:#f0b8a4;--more2:#e0714f;--less1:#b9d2ee;--less2:#6fa0d8}\
@media(prefers-color-scheme:dark){:root{--more1:#6b3423;--more2:#a8421f;--less1:#27405c;--less2:#2c5f96}}";

/// The script that draws all graphs of a page. A frame is `[name, module, value, callees]`, in a
/// comparison with the base as fifth. A sixth value is the excess of the frame and its callees,
/// which only grows.
pub(crate) const SCRIPT: &str = "\
document.querySelectorAll('.flame').forEach(box=>{\
const all=JSON.parse(box.querySelector('script').textContent),graph=box.querySelector('.graph'),path=box.querySelector('.path'),\
unit=box.dataset.unit,both=all.length>4,only=box.querySelector('input');let trail=[all];\
if(both)(function sum(f){const sums=f[3].map(sum),own=f[2]-f[4]-f[3].reduce((s,k)=>s+k[2]-k[4],0);\
return f[5]=Math.max(0,own)+sums.reduce((s,k)=>s+k,0)})(all);\
const size=f=>only&&only.checked?f[5]:f[2],\
excess=f=>100*(f[2]-f[4])/(all[2]||1),signed=n=>(n<0?'\u{2212}':'+')+Math.abs(n).toFixed(1)+' %';\
function say(f){const of=f[0]+(f[1]?' ['+f[1].replace(/[\\[\\]]/g,'')+']':'')+': ',part=n=>(100*n/(all[2]||1)).toFixed(1)+' %';\
path.textContent=both?of+part(f[2])+' of the cost now, in the base '+part(f[4])+', excess '+signed(excess(f)):of+f[2]+' '+unit+', '+part(f[2])}\
function kind(f){if(!both)return f[1]==='[kernel]'?'k':f[0][0]==='['?'n':'';const e=(f[2]-f[4])/Math.max(f[2],f[4],1e-9);\
return Math.abs(excess(f))<.1||Math.abs(e)<.05?'e0':e<-.3?'e-2':e<0?'e-1':e>.3?'e2':'e1'}\
function draw(){graph.textContent='';const w=graph.clientWidth;let deep=0;\
function add(f,x,width,row,up){if(width<1)return;deep=Math.max(deep,row+1);const b=document.createElement('button');\
b.textContent=width>24?(both&&width>90?signed(excess(f))+' ':'')+f[0]:'';b.title=f[0];b.setAttribute('aria-label',f[0]);\
b.style.cssText='left:'+x+'px;width:'+width+'px;top:'+row*20+'px';\
b.className=kind(f);b.onmouseenter=()=>say(f);b.onfocus=()=>say(f);\
b.onclick=()=>{const at=trail.indexOf(f);trail=at>=0&&at===trail.length-1&&at>0?trail.slice(0,at):at>=0?trail.slice(0,at+1):up.concat([f]);draw();say(f)};\
graph.append(b)}\
trail.forEach((f,i)=>add(f,0,w,i,trail.slice(0,i)));\
(function below(f,x,width,row,up){const kids=f[3].slice().sort((a,b)=>size(b)-size(a));for(const k of kids){const kw=size(f)>0?width*size(k)/size(f):0;\
add(k,x,kw,row,up);if(kw>=1)below(k,x,kw,row+1,up.concat([k]));x+=kw}})(trail[trail.length-1],0,w,trail.length,trail);\
graph.style.height=deep*20+'px'}\
if(only)only.onchange=draw;draw();addEventListener('resize',draw)});";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), module: "prog".to_owned(), is_named: true }
    }

    fn tree(stacks: &[(&[&str], f64)]) -> FlameNode<Function> {
        let mut tree = FlameNode::default();
        stacks.iter().for_each(|(stack, value)| tree.add(stack.iter().map(|name| function(name)), *value));
        tree
    }

    /// The tree in a part of a page.
    pub(crate) fn frames(html: &str) -> serde_json::Value {
        let start = html.find("application/json\">").unwrap() + "application/json\">".len();
        let end = start + html[start..].find("</script>").unwrap();
        serde_json::from_str(&html[start..end]).unwrap()
    }

    #[test]
    fn comparison_holds_both_sides() {
        let mut both = FlameNode::default();
        both.merge(&tree(&[(&["main", "f"], 30.0), (&["main"], 10.0)]), 0.5, false);
        both.merge(&tree(&[(&["main", "g"], 20.0)]), 1.0, true);
        let html = both.html("hint", "ns", true, &|function| function);
        let expected = serde_json::json!([
            "all",
            "",
            20,
            [["main", "prog", 20, [["f", "prog", 15, [], 0], ["g", "prog", 0, [], 20]], 20]],
            20
        ]);
        assert_eq!(frames(&html), expected);
    }

    #[test]
    fn narrow_frames_are_left_out() {
        let all = tree(&[(&["main", "f"], 9_999.0), (&["main", "rare"], 1.0)]);
        let html = all.named(&|function: &Function| function.clone()).html("", "ns", false, &|key| key);
        assert_eq!(
            frames(&html),
            serde_json::json!(["all", "", 10_000, [["main", "prog", 10_000, [["f", "prog", 9_999, []]]]]])
        );
    }
}
