//! The planned instances of a server on this machine: cpus, memory, and the receive queues of cards
//! whose interrupts come to these cpus.
//!
//! Leaves out the division, which belongs to the topology crate, and reading the cards, which
//! belongs to the steer crate. Tested in `tests.rs`.

use serde::Serialize;
use std::path::Path;
use vermeil_steer::{LiveKernel, Nic, read};
use vermeil_topology::{CpuSet, Instance, Machine};

/// One planned instance.
#[derive(Debug, Serialize)]
pub(super) struct PlannedInstance {
    instance: usize,
    cpus: Vec<u32>,
    nodes: Vec<u32>,
    memory_bytes: u64,
    queues: Vec<PlannedQueue>,
}

/// A receive queue whose interrupt comes to an instance.
#[derive(Debug, Serialize)]
struct PlannedQueue {
    nic: String,
    queue: u32,
}

/// The cards of this machine; empty where the cards cannot be read.
pub(super) fn cards() -> Vec<Nic> {
    read(Path::new("/"), &LiveKernel).unwrap_or_default().nics
}

/// The plan of these instances.
pub(super) fn of(machine: &Machine, instances: &[Instance], cards: Vec<Nic>) -> Vec<PlannedInstance> {
    let memory = |instance: &Instance| {
        let nodes = machine.nodes().iter().filter(|node| instance.nodes.contains(&node.id));
        nodes.map(|node| node.memory_bytes).fold(0, u64::saturating_add)
    };
    (0..)
        .zip(instances)
        .map(|(number, instance)| PlannedInstance {
            instance: number,
            cpus: instance.cpus.iter().map(|cpu| cpu.0).collect(),
            nodes: instance.nodes.iter().map(|node| node.0).collect(),
            memory_bytes: memory(instance),
            queues: queues_of(&instance.cpus.iter().copied().collect(), &cards),
        })
        .collect()
}

/// The queues whose interrupts are delivered to one of `cpus`.
fn queues_of(cpus: &CpuSet, cards: &[Nic]) -> Vec<PlannedQueue> {
    let mut queues = Vec::new();
    for nic in cards {
        for queue in &nic.rx {
            let delivered = queue.irq.as_ref().map(|irq| irq.effective.as_ref().unwrap_or(&irq.cpus));
            if delivered.is_some_and(|delivered| !delivered.intersection(cpus).is_empty()) {
                queues.push(PlannedQueue { nic: nic.name.clone(), queue: queue.queue });
            }
        }
    }
    queues
}

/// As JSON.
pub(super) fn to_json(plan: &[PlannedInstance]) -> String {
    serde_json::to_string_pretty(plan).expect("our own records are JSON") + "\n"
}

/// A line per instance.
pub(super) fn to_text(plan: &[PlannedInstance]) -> String {
    plan.iter().map(line).collect()
}

fn line(planned: &PlannedInstance) -> String {
    let PlannedInstance { instance, cpus, nodes, memory_bytes, queues } = planned;
    let cpus: CpuSet = cpus.iter().map(|&cpu| vermeil_topology::CpuId(cpu)).collect();
    let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let place = match names.len() {
        0 => "memory from anywhere (no node is known to be near)".to_owned(),
        1 => format!("memory of node {}", names[0]),
        _ => format!("memory of nodes {}", names.join(", ")),
    };
    let memory = match memory_bytes {
        0 => String::new(),
        bytes => format!(" ({:.1} GiB)", *bytes as f64 / f64::from(1 << 30)),
    };
    let queues: Vec<String> = queues.iter().map(|queue| format!("{} {}", queue.nic, queue.queue)).collect();
    let queues = if queues.is_empty() { String::new() } else { format!("; queues {}", queues.join(", ")) };
    format!("instance {instance}: cpus {cpus}, {place}{memory}{queues}\n")
}
