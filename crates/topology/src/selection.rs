//! The cpus to which a server's cores are pinned: `--cores all|N|LIST`.
//!
//! Contains the parsing of the option and the order of cpus. Leaves out pinning. Tested on
//! described machines in `selection/tests.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{Allowed, CpuId, CpuSet, Machine, NodeId, PhysicalCore, TopologyError, cores_for};

#[cfg(test)]
mod tests;

/// The selection of cpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreSelection {
    /// `all`: every allowed cpu, or as many as the cpu quota covers.
    All,
    /// `N`: a fixed number.
    Count(usize),
    /// `LIST`, such as `0-3,^1`: exactly these cpus. A single cpu is written as a range, `3-3`.
    List(CpuSet),
}

impl fmt::Display for CoreSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreSelection::All => f.write_str("all"),
            CoreSelection::Count(count) => count.fmt(f),
            CoreSelection::List(cpus) if cpus.len() == 1 => write!(f, "{cpus}-{cpus}"),
            CoreSelection::List(cpus) => cpus.fmt(f),
        }
    }
}

impl FromStr for CoreSelection {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<CoreSelection, TopologyError> {
        let text = text.trim();
        let refuse =
            |problem: &str| Err(TopologyError::Cores { asked: text.to_owned(), problem: problem.to_owned() });
        if text.eq_ignore_ascii_case("all") {
            return Ok(CoreSelection::All);
        }
        match text.parse() {
            Ok(0) => return refuse("a server needs at least one core"),
            Ok(count) => return Ok(CoreSelection::Count(count)),
            Err(_) => {}
        }
        if !text.starts_with(|c: char| c.is_ascii_digit() || c == '^') {
            return refuse("write all, a number of cores, or a list of cpus such as 0-7,^3");
        }
        let cpus: CpuSet = text.parse()?;
        if cpus.is_empty() { refuse("the list leaves no cpu") } else { Ok(CoreSelection::List(cpus)) }
    }
}

impl CoreSelection {
    /// The cpus to pin cores to, one core each, no cpu twice, at least one.
    ///
    /// A list is taken in ascending order. Otherwise physical cores come before second hardware
    /// threads, and near cpus stay together: node by node from the node with most allowed cores,
    /// big cores before small cores, one shared cache before the next. A number may exceed the cpu
    /// quota, not the allowed cpus.
    ///
    /// # Errors
    /// [`TopologyError::Cores`], naming the cpu that is missing, offline or not allowed, and the
    /// cpus that may be used.
    pub fn resolve(&self, machine: &Machine, allowed: &Allowed) -> Result<Vec<CpuId>, TopologyError> {
        let usable = allowed.cpus.intersection(machine.cpus());
        let refuse = |problem: String| {
            let why = if allowed.reasons.is_empty() {
                String::new()
            } else {
                format!(" ({})", allowed.reasons.join("; "))
            };
            Err(TopologyError::Cores {
                asked: self.to_string(),
                problem: format!("{problem}; cpus that may be used: {usable}{why}"),
            })
        };
        let count = match self {
            CoreSelection::List(cpus) => {
                return match cpus.difference(&usable).first() {
                    Some(cpu) => refuse(format!("cpu {cpu} {}", fault_of(cpu, machine))),
                    None => Ok(cpus.iter().collect()),
                };
            }
            CoreSelection::Count(count) => *count,
            CoreSelection::All => cores_for(&Allowed { cpus: usable.clone(), ..allowed.clone() }),
        };
        if count > usable.len() {
            return refuse(format!("{count} cpus asked for, {} allowed", usable.len()));
        }
        let mut order = preference(machine, &usable);
        order.truncate(count);
        Ok(order)
    }
}

fn fault_of(cpu: CpuId, machine: &Machine) -> &'static str {
    if machine.cpus().contains(cpu) {
        "is not allowed to this process"
    } else if machine.offline().contains(cpu) {
        "is offline"
    } else {
        "does not exist on this machine"
    }
}

/// All usable cpus, the best first.
fn preference(machine: &Machine, usable: &CpuSet) -> Vec<CpuId> {
    let nodes = node_order(machine, usable);
    let mut keyed: Vec<_> = Vec::with_capacity(usable.len());
    for core in machine.cores() {
        for (thread, cpu) in core.cpus.intersection(usable).iter().enumerate() {
            // Cpus without a near node come last.
            let memory = machine.memory_node(cpu).map_or(usize::MAX, |node| nodes[&node]);
            let node = machine.pu(cpu).and_then(|pu| pu.node);
            keyed.push((thread, memory, node, core.class, outer_cache(machine, core), core.id, cpu));
        }
    }
    keyed.sort_unstable();
    keyed.into_iter().map(|(.., cpu)| cpu).collect()
}

/// Names the outermost cache of a core by the first cpu it serves.
fn outer_cache(machine: &Machine, core: &PhysicalCore) -> Option<CpuId> {
    let first = core.cpus.first()?;
    machine.caches().iter().find(|cache| cache.cpus.contains(first))?.cpus.first()
}

/// The rank of each node: the node with most usable cores first, then by distance from that node.
fn node_order(machine: &Machine, usable: &CpuSet) -> BTreeMap<NodeId, usize> {
    let cores = |node: NodeId| {
        let near = |cpu| machine.memory_node(cpu) == Some(node);
        let has_near = |core: &&PhysicalCore| core.cpus.intersection(usable).iter().any(near);
        machine.cores().iter().filter(has_near).count()
    };
    let most = |index: &usize| (cores(machine.nodes()[*index].id), std::cmp::Reverse(*index));
    let first = (0..machine.nodes().len()).max_by_key(most).unwrap_or(0);
    let mut order: Vec<usize> = (0..machine.nodes().len()).collect();
    order.sort_by_key(|&index| (index != first, machine.node_distances()[first][index], index));
    order.into_iter().map(|index| machine.nodes()[index].id).zip(0..).collect()
}
