//! The division of a server's cores among its instances: `--instances per-node|N|one`.
//!
//! Contains the parsing of the option and the division. Leaves out starting and binding. Pure;
//! tested here on described machines.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{CpuId, Machine, NodeId};

/// Maximum number of instances: more than the 64 nodes of the largest machine that Linux supports
/// by default on x86.
pub const INSTANCES_MAX: usize = 256;

/// The number of instances of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InstanceSelection {
    /// `per-node`: an instance for each memory node that is the nearest of cores of the server.
    #[default]
    PerNode,
    /// `one`.
    One,
    /// `N`: a fixed number.
    Count(usize),
}

/// An instance: the cpus of its cores, and the nodes of its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// A cpu for each core; the same cpu twice if there are more instances than cpus.
    pub cpus: Vec<CpuId>,
    /// The nodes with memory that are nearest to these cpus, ascending. Empty if no node is known
    /// to be near, so that the memory is not bound.
    pub nodes: Vec<NodeId>,
    /// Number of instances of the server, this one included. They share the memory of the machine.
    pub count: usize,
}

impl fmt::Display for InstanceSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstanceSelection::PerNode => f.write_str("per-node"),
            InstanceSelection::One => f.write_str("one"),
            InstanceSelection::Count(count) => count.fmt(f),
        }
    }
}

impl FromStr for InstanceSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<InstanceSelection, String> {
        match (text, text.parse()) {
            ("per-node", _) => Ok(InstanceSelection::PerNode),
            ("one", _) => Ok(InstanceSelection::One),
            (_, Ok(count)) if (1..=INSTANCES_MAX).contains(&count) => Ok(InstanceSelection::Count(count)),
            _ => Err(format!("write per-node, one, or a number of instances from 1 to {INSTANCES_MAX}")),
        }
    }
}

impl InstanceSelection {
    /// Divides `cpus`, which are chosen already. Cpus of a node stay together as far as the numbers
    /// allow, and keep their order; a single instance gets the cpus unchanged. With more instances
    /// than cpus, instances share cpus, one core each.
    pub fn divide(self, machine: &Machine, cpus: &[CpuId]) -> Vec<Instance> {
        let mut by_node = cpus.to_vec();
        let rank =
            |cpu: &CpuId| cpus.iter().position(|other| node_of(machine, *other) == node_of(machine, *cpu));
        by_node.sort_by_key(rank);
        let parts: Vec<Vec<CpuId>> = match self {
            _ if cpus.is_empty() => Vec::new(),
            InstanceSelection::One | InstanceSelection::Count(1) => vec![cpus.to_vec()],
            InstanceSelection::PerNode => by_node
                .chunk_by(|a, b| node_of(machine, *a) == node_of(machine, *b))
                .map(<[CpuId]>::to_vec)
                .collect(),
            InstanceSelection::Count(count) if count > cpus.len() => {
                (0..count).map(|instance| vec![by_node[instance % cpus.len()]]).collect()
            }
            InstanceSelection::Count(count) => {
                let end = |instance: usize| instance * by_node.len() / count;
                (0..count).map(|instance| by_node[end(instance)..end(instance + 1)].to_vec()).collect()
            }
        };
        let count = parts.len();
        let on = |cpus: Vec<CpuId>| {
            let nodes: BTreeSet<NodeId> = cpus.iter().filter_map(|cpu| node_of(machine, *cpu)).collect();
            Instance { cpus, nodes: nodes.into_iter().collect(), count }
        };
        parts.into_iter().map(on).collect()
    }
}

impl Instance {
    /// Number of instances of the server to which all of `instances` belong: more than their
    /// number, if they are those of a single process.
    pub fn count_of(instances: &[Instance]) -> usize {
        instances.first().map_or(1, |instance| instance.count)
    }
}

fn node_of(machine: &Machine, cpu: CpuId) -> Option<NodeId> {
    machine.memory_node(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allowed, CoreSelection, synthetic};

    /// The cpus and nodes of each instance.
    fn divided(machine: &str, cores: &str, instances: &str) -> Vec<(Vec<u32>, Vec<u32>)> {
        let machine = synthetic::parse(machine).unwrap();
        let cores: CoreSelection = cores.parse().unwrap();
        let cpus = cores.resolve(&machine, &Allowed::everything(&machine)).unwrap();
        let instances: InstanceSelection = instances.parse().unwrap();
        let numbers = |instance: Instance| {
            let cpus = instance.cpus.iter().map(|cpu| cpu.0).collect();
            (cpus, instance.nodes.iter().map(|node| node.0).collect())
        };
        instances.divide(&machine, &cpus).into_iter().map(numbers).collect()
    }

    #[test]
    fn each_node_with_cores_has_an_instance() {
        let four = divided("node:4 core:2 pu:1", "all", "per-node");
        assert_eq!(
            four,
            [(vec![0, 1], vec![0]), (vec![2, 3], vec![1]), (vec![4, 5], vec![2]), (vec![6, 7], vec![3])]
        );
        assert_eq!(
            divided("node:4 core:2 pu:1", "3-4", "per-node"),
            [(vec![3], vec![1]), (vec![4], vec![2])]
        );
        assert_eq!(divided("core:2 pu:1", "all", "per-node"), [(vec![0, 1], vec![0])]);
        // Second hardware threads come last in the choice, and stay with their node.
        assert_eq!(
            divided("node:2 core:1 pu:2", "all", "per-node"),
            [(vec![0, 1], vec![0]), (vec![2, 3], vec![1])]
        );
    }

    /// Cpus 0-1 in a node with memory, 2-3 in a node without memory near to node 2, 4-5 in no node,
    /// node 2 only memory, 6 beside node 0 in a package.
    #[test]
    fn cpus_without_memory_join_the_nearest_node_with_memory() {
        let mut root = crate::fixture::FixtureRoot::new().with("sys/devices/system/cpu/online", "0-6");
        for cpu in 0..7 {
            root = root.cpu(cpu, 0, &cpu.to_string());
            let package = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            let id = if [0, 1, 6].contains(&cpu) { 0 } else { cpu };
            root = root.with(&package, &id.to_string());
        }
        let root = root.node(0, "0-1", 4096, "10 20 30").node(1, "2-3", 0, "20 10 12");
        let root = root.node(2, "", 2048, "30 12 10");
        let machine = crate::sysfs::read(root.path()).unwrap();
        let cpus = CoreSelection::All.resolve(&machine, &Allowed::everything(&machine)).unwrap();
        let mut instances = InstanceSelection::PerNode.divide(&machine, &cpus);
        instances.iter_mut().for_each(|instance| instance.cpus.sort_unstable());
        let ids = |cpus: &[u32], nodes: &[u32]| Instance {
            cpus: cpus.iter().copied().map(CpuId).collect(),
            nodes: nodes.iter().copied().map(NodeId).collect(),
            count: 3,
        };
        assert_eq!(instances, [ids(&[0, 1, 6], &[0]), ids(&[2, 3], &[2]), ids(&[4, 5], &[])]);
    }

    #[test]
    fn a_number_divides_evenly_and_along_the_nodes() {
        assert_eq!(
            divided("node:2 core:2 pu:1", "all", "4").concat_cpus(),
            [[0].as_slice(), &[1], &[2], &[3]]
        );
        assert_eq!(divided("node:2 core:2 pu:1", "all", "one"), [(vec![0, 1, 2, 3], vec![0, 1])]);
        assert_eq!(divided("core:3 pu:1", "all", "2").concat_cpus(), [[0].as_slice(), &[1, 2]]);
    }

    #[test]
    fn more_instances_than_cpus_share_them() {
        let many = divided("core:2 pu:1", "all", "64");
        assert_eq!(many.len(), 64);
        assert_eq!((&many[62], &many[63]), (&(vec![0], vec![0]), &(vec![1], vec![0])));
    }

    #[test]
    fn wrong_number_of_instances_is_refused() {
        for text in ["0", "257", "two", "", "-1"] {
            assert!(text.parse::<InstanceSelection>().is_err(), "{text:?}");
        }
        for text in ["per-node", "one", "3"] {
            assert_eq!(text.parse::<InstanceSelection>().unwrap().to_string(), text);
        }
    }

    trait InstanceCpus {
        fn concat_cpus(&self) -> Vec<&[u32]>;
    }

    impl InstanceCpus for Vec<(Vec<u32>, Vec<u32>)> {
        fn concat_cpus(&self) -> Vec<&[u32]> {
            self.iter().map(|(cpus, _)| cpus.as_slice()).collect()
        }
    }
}
