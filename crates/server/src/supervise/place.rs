//! Going where an instance is to be: its cpus, and memory of its nodes.
//!
//! What a thread is bound to, the threads and processes that it starts are bound to as well. So the supervisor's thread goes
//! there before it starts the instance, which has no page elsewhere then; what it says of that is the instance's to say.
//! Tested on an emulated machine with four nodes (`cargo xtask test numa`).

use vermeil_io::{allow_current_thread, bind_memory};
use vermeil_topology::Instance;

/// Goes where the instance is to be, with the calling thread and all that it starts; says what became of its memory.
pub(super) fn take_place(instance: &Instance) -> String {
    let cpus: Vec<usize> = instance.cpus.iter().map(|cpu| cpu.0 as usize).collect();
    // Each core pins itself and says if it cannot; this is for the other threads.
    let _ = allow_current_thread(&cpus);
    let nodes: Vec<u32> = instance.nodes.iter().map(|node| node.0).collect();
    let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let names = format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, names.join(", "));
    match bind_memory(&nodes) {
        Ok(()) => format!("memory of {names}"),
        Err(error) => format!("memory from anywhere ({names}: {error})"),
    }
}
