//! A machine drawn as a tree for people, and written as JSON for programs.
//!
//! Decides on the nesting (by cpus), the sharing of lines and the collapsing of equal siblings.
//! Leaves out the output. Golden drawings in `render/tests.rs`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::cgroup::hundredths;
use crate::{
    Allowed, Cache, CacheKind, CoreClass, CpuSet, Machine, Node, Package, PhysicalCore, Pu, cores_for,
};

#[cfg(test)]
mod tests;

/// More identical siblings than this are drawn on a single line. 16 fit on a screen twice.
const SIBLINGS_MAX: usize = 16;

/// Draws the machine: nodes, packages, caches, cores and cpus, nested; then the distances between
/// nodes, the cpus without memory of their own, offline cpus, and the part that this process may
/// use. An object with a single child shares the child's line. Ends with a new line.
pub fn tree(machine: &Machine, allowed: &Allowed) -> String {
    let memory = machine.nodes().iter().fold(0_u64, |all, node| all.saturating_add(node.memory_bytes));
    let mut out = format!(
        "machine: {}, {}, {}{}\n",
        counted(machine.nodes().len(), "node"),
        counted(machine.cores().len(), "core"),
        counted(machine.cpus().len(), "cpu"),
        if memory == 0 { String::new() } else { format!(", {}", size(memory)) },
    );
    draw(&mut out, &branches(machine, allowed), "");
    if machine.nodes().len() > 1 {
        draw_distances(&mut out, machine);
    }
    draw_cpus_without_memory(&mut out, machine);
    if !machine.offline().is_empty() {
        out += &format!("\noffline: cpus {}\n", machine.offline());
    }
    let limit = allowed
        .cpu_limit
        .map_or("no cpu limit".to_owned(), |limit| format!("cpu limit {}", hundredths(limit)));
    let cores = counted(cores_for(allowed), "core");
    out += &format!("\nallowed: cpus {}, {limit}: {cores} for a server\n", allowed.cpus);
    for reason in &allowed.reasons {
        out += &format!("  {reason}\n");
    }
    out
}

/// The same as JSON: `machine`, `allowed`, and `cores`, the number of cores for a server. Sets of
/// cpus are in the kernel's list form.
pub fn to_json(machine: &Machine, allowed: &Allowed) -> String {
    #[derive(Serialize)]
    struct TopologyReport<'a> {
        machine: &'a Machine,
        allowed: &'a Allowed,
        cores: usize,
    }
    let report = TopologyReport { machine, allowed, cores: cores_for(allowed) };
    serde_json::to_string_pretty(&report).expect("no map keys and no fallible parts")
}

/// The subject of a line of the tree.
#[derive(Clone, Copy)]
enum Thing<'a> {
    Node(&'a Node),
    Package(&'a Package),
    Cache(&'a Cache),
    Core(&'a PhysicalCore),
    Pu(&'a Pu, Mark),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Allowed,
    NotAllowed,
}

impl Thing<'_> {
    /// The kind, without numbers: equal for objects of a kind.
    fn kind(self) -> String {
        match self {
            Thing::Node(Node { memory_bytes: 0, .. }) => "node".to_owned(),
            Thing::Node(node) => format!("node {}", size(node.memory_bytes)),
            Thing::Package(_) => "package".to_owned(),
            Thing::Cache(cache) => {
                let suffix = match cache.kind {
                    CacheKind::Unified => "",
                    CacheKind::Data => "d",
                    CacheKind::Instruction => "i",
                };
                let bytes = cache.bytes.map_or(String::new(), |bytes| format!(" {}", size(bytes)));
                format!("L{}{suffix}{bytes}", cache.level)
            }
            Thing::Core(PhysicalCore { class: CoreClass::Performance, .. }) => "core".to_owned(),
            Thing::Core(core) => format!("core (efficient, capacity {})", core.capacity),
            Thing::Pu(_, Mark::Allowed) => "cpu".to_owned(),
            Thing::Pu(_, Mark::NotAllowed) => "cpu (not allowed)".to_owned(),
        }
    }

    /// The kind with the number behind the first word.
    fn label(self) -> String {
        let number = match self {
            Thing::Node(node) => node.id.0,
            Thing::Package(package) => package.id.0,
            Thing::Cache(_) => return self.kind(),
            Thing::Core(core) => core.id.0,
            Thing::Pu(pu, _) => pu.cpu.0,
        };
        let kind = self.kind();
        let (word, rest) = kind.split_at(kind.find(' ').unwrap_or(kind.len()));
        format!("{word} {number}{rest}")
    }
}

struct Branch<'a> {
    thing: Thing<'a>,
    cpus: CpuSet,
    children: Vec<Branch<'a>>,
}

impl Branch<'_> {
    /// The structure without the numbers.
    fn shape(&self) -> String {
        let children: Vec<String> = self.children.iter().map(Branch::shape).collect();
        format!("{}[{}]", self.thing.kind(), children.join(","))
    }

    /// The branch and its only child, and so on down: the branches that share a line.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |branch| match branch.children.as_slice() {
            [only] => Some(only),
            _ => None,
        })
    }
}

/// The tree: an object with more cpus contains objects with fewer; the order below decides among
/// equals. The depth is bounded, because no two objects of a kind overlap.
fn branches<'a>(machine: &'a Machine, allowed: &Allowed) -> Vec<Branch<'a>> {
    let mark = |pu: &Pu| if allowed.cpus.contains(pu.cpu) { Mark::Allowed } else { Mark::NotAllowed };
    let nodes = machine.nodes().iter().map(|node| (Thing::Node(node), node.cpus.clone()));
    let packages = machine.packages().iter().map(|package| (Thing::Package(package), package.cpus.clone()));
    let caches = machine.caches().iter().map(|cache| (Thing::Cache(cache), cache.cpus.clone()));
    let cores = machine.cores().iter().map(|core| (Thing::Core(core), core.cpus.clone()));
    let pus = machine.pus().iter().map(|pu| (Thing::Pu(pu, mark(pu)), CpuSet::from_iter([pu.cpu])));
    let mut things: Vec<_> = nodes.chain(packages).chain(caches).chain(cores).chain(pus).collect();
    things.sort_by_key(|(_, cpus)| Reverse(cpus.len()));
    let mut top = Vec::new();
    for (thing, cpus) in things {
        insert(&mut top, Branch { thing, cpus, children: Vec::new() });
    }
    sort(&mut top);
    top
}

fn insert<'a>(siblings: &mut Vec<Branch<'a>>, new: Branch<'a>) {
    let first = new.cpus.first();
    let contains = |sibling: &&mut Branch<'_>| {
        first.is_some_and(|cpu| sibling.cpus.contains(cpu)) && new.cpus.is_subset(&sibling.cpus)
    };
    match siblings.iter_mut().find(contains) {
        Some(parent) => insert(&mut parent.children, new),
        None => siblings.push(new),
    }
}

fn sort(siblings: &mut [Branch<'_>]) {
    siblings.sort_by_key(|branch| branch.cpus.first().map_or((1, 0), |cpu| (0, cpu.0)));
    siblings.iter_mut().for_each(|branch| sort(&mut branch.children));
}

fn draw(out: &mut String, siblings: &[Branch<'_>], indent: &str) {
    let shapes: Vec<String> = siblings.iter().map(Branch::shape).collect();
    let mut at = 0;
    while at < siblings.len() {
        let alike = shapes[at..].iter().take_while(|shape| **shape == shapes[at]).count();
        let taken = if alike > SIBLINGS_MAX { alike } else { 1 };
        let run = &siblings[at..at + taken];
        at += taken;
        let (branch, below) = if at == siblings.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        *out += &format!("{indent}{branch}{}\n", if taken > 1 { collapsed(run) } else { line(&run[0]) });
        if taken == 1 {
            let inner = run[0].chain().last().map_or(&[][..], |end| &end.children);
            draw(out, inner, &format!("{indent}{below}"));
        }
    }
}

fn line(branch: &Branch<'_>) -> String {
    branch.chain().map(|link| link.thing.label()).collect::<Vec<_>>().join(" + ")
}

/// `32 × (L2 1 MiB + core), 2 cpus each: cpus 0-63`
fn collapsed(run: &[Branch<'_>]) -> String {
    let kinds = run[0].chain().map(|link| link.thing.kind()).collect::<Vec<_>>().join(" + ");
    let cpus = run.iter().fold(CpuSet::new(), |all, branch| all.union(&branch.cpus));
    let each = match run[0].cpus.len() {
        1 => String::new(),
        several => format!(", {several} cpus each"),
    };
    format!("{} × ({kinds}){each}: cpus {cpus}", run.len())
}

fn draw_distances(out: &mut String, machine: &Machine) {
    let ids: Vec<String> = machine.nodes().iter().map(|node| node.id.to_string()).collect();
    *out += "\nnode distances\n";
    let entries = machine.node_distances().iter().flatten().map(|entry| entry.to_string().len());
    let width = ids.iter().map(String::len).chain(entries).max().unwrap_or(0) + 2;
    let mut row = |head: &str, cells: &mut dyn Iterator<Item = String>| {
        *out += &cells.fold(format!("{head:>width$}"), |row, cell| row + &format!("{cell:>width$}"));
        out.push('\n');
    };
    row("", &mut ids.iter().cloned());
    for (id, distances) in ids.iter().zip(machine.node_distances()) {
        row(id, &mut distances.iter().map(u32::to_string));
    }
}

/// Groups of cpus whose node has no memory, or that no node lists, each with the nearest memory.
fn draw_cpus_without_memory(out: &mut String, machine: &Machine) {
    let mut groups: BTreeMap<_, CpuSet> = BTreeMap::new();
    for pu in machine.pus() {
        let memory = machine.memory_node(pu.cpu);
        if pu.node.is_none() || pu.node != memory {
            groups.entry((pu.node, memory)).or_default().insert(pu.cpu);
        }
    }
    for ((node, memory), cpus) in groups {
        let place = node.map_or("outside of all nodes".to_owned(), |node| format!("of node {node}"));
        let nearest = match memory {
            Some(node) => format!("nearest memory: node {node}"),
            None => "nearest memory unknown, so it is not bound".to_owned(),
        };
        *out += &format!("\nwithout memory of their own: cpus {cpus} {place}; {nearest}\n");
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A size in the largest binary unit with a value of at least 1, with a decimal unless the value is
/// whole.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = units.into_iter().find(|(shift, _)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
    let (whole, tenth) = (tenths / 10, tenths % 10);
    if tenth == 0 { format!("{whole} {unit}") } else { format!("{whole}.{tenth} {unit}") }
}
