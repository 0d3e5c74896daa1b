//! Moves to the place of an instance: cpus, and memory of the nodes.
//!
//! Threads and processes inherit the affinity of the parent thread. So the supervisor's thread
//! moves there before it starts the instance, which then has no page elsewhere. The instance logs
//! the outcome. Tested on an emulated machine with four nodes (`cargo xtask test numa`).

use vermeil_io::{allow_current_thread, bind_memory};
use vermeil_topology::Instance;

/// Binds the calling thread, and all that it starts, to the place of the instance. Returns a
/// description of the memory.
pub(crate) fn take_place(instance: &Instance) -> String {
    let cpus: Vec<usize> = instance.cpus.iter().map(|cpu| cpu.0 as usize).collect();
    // For threads without a core, because each core pins itself and reports a failure.
    let _ = allow_current_thread(&cpus);
    let nodes: Vec<u32> = instance.nodes.iter().map(|node| node.0).collect();
    if nodes.is_empty() {
        return "memory from anywhere (no node is known to be near)".to_owned();
    }
    let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let names = format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, names.join(", "));
    match bind_memory(&nodes) {
        Ok(()) => format!("memory of {names}"),
        Err(error) => format!("memory from anywhere ({names}: {error})"),
    }
}
