//! The network of a machine as data: cards, their queues, interrupts and tables.
//!
//! Owns the types. Leaves out where they come from (`read.rs`) and what should be different (`plan.rs`).

use serde::Serialize;
use vermeil_topology::{CpuSet, NodeId};

/// Everything that decides which cpu handles a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    /// The cards, by name.
    pub nics: Vec<Nic>,
    /// Entries of the table of flows that receive flow steering shares (`net.core.rps_sock_flow_entries`); `None` where
    /// it cannot be reached: it belongs to the first network namespace.
    pub sock_flow_entries: Option<u32>,
    /// The process that moves interrupts around, if one runs.
    pub irqbalance_pid: Option<u32>,
}

/// What a card is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A device on a bus, with interrupts of its own; also a virtual machine's.
    Device,
    /// Made by the kernel (veth, bridge, loopback): packets are handled on the cpu that sent them.
    Software,
}

/// One network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Its name, as in `ip link`.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// The driver's name; empty where nobody says.
    pub driver: String,
    /// Device or software.
    pub kind: Kind,
    /// The memory node it is attached to, where the machine says.
    pub node: Option<NodeId>,
    /// Whether it is switched on and has a carrier.
    pub up: bool,
    /// Receive queues in use, by number.
    pub rx: Vec<RxQueue>,
    /// Transmit queues in use, by number.
    pub tx: Vec<TxQueue>,
    /// How many queues there are and could be; `None` where the driver does not tell.
    pub channels: Option<Channels>,
    /// The receive queue of each slot of the hash table (receive side scaling); `None` where the driver has no table.
    pub rss: Option<Vec<u32>>,
    /// Whether it adapts its receive interrupts to the load (`ethtool -C`, adaptive-rx); `None` where it cannot.
    pub adaptive: Option<bool>,
    /// How it is polled.
    pub polling: Polling,
}

/// How the kernel polls a card, for all who use it: shown, and left as it is. `None` where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Polling {
    /// How many empty polls keep the interrupts off (`napi_defer_hard_irqs`).
    pub defer_hard_irqs: Option<u32>,
    /// How long the card's interrupts stay off after the last packet, in ns (`gro_flush_timeout`).
    pub gro_flush_timeout_ns: Option<u64>,
    /// Whether its polling runs in threads of its own (`threaded`).
    pub threaded: Option<bool>,
}

/// One receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RxQueue {
    /// Its number.
    pub queue: u32,
    /// Its interrupt, where it has one and it can be told which.
    pub irq: Option<Irq>,
    /// The cpus that its packets are spread over in software (`rps_cpus`); empty: none, the interrupt's cpu does it all.
    pub rps: Option<CpuSet>,
    /// Its part of the table of flows (`rps_flow_cnt`).
    pub rps_flows: Option<u32>,
}

/// One transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TxQueue {
    /// Its number.
    pub queue: u32,
    /// The interrupt of its completions, if that is not a receive queue's.
    pub irq: Option<Irq>,
    /// The cpus that transmit on it (`xps_cpus`); `None` where it cannot be set, as with one queue.
    pub xps: Option<CpuSet>,
}

/// One interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Irq {
    /// Its number in `/proc/irq`.
    pub number: u32,
    /// Its name in `/proc/interrupts`.
    pub name: String,
    /// The device that lists it (`msi_irqs`), below the root; `None` where none does.
    pub device: Option<String>,
    /// The cpus it may be delivered to.
    pub cpus: CpuSet,
    /// The cpu it is delivered to, where the kernel says; it may lag behind `cpus` until the next interrupt.
    pub effective: Option<CpuSet>,
}

/// How many queues a card uses and could use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Channels {
    /// Queues for receiving alone: in use, and at most.
    pub rx: (u32, u32),
    /// Queues for transmitting alone: in use, and at most.
    pub tx: (u32, u32),
    /// Queues for other purposes: in use, and at most.
    pub other: (u32, u32),
    /// Queues for both directions: in use, and at most.
    pub combined: (u32, u32),
}

/// One polling instance of the kernel (`Documentation/networking/napi.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Napi {
    /// Its number.
    pub id: u32,
    /// The interrupt that starts it, where the driver says.
    pub irq: Option<u32>,
    /// Receive queues that it polls.
    pub rx: Vec<u32>,
    /// Transmit queues whose completions it handles.
    pub tx: Vec<u32>,
}
