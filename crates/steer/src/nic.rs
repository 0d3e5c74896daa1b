//! The network of a machine as data: cards, their queues, interrupts and tables.
//!
//! Contains the types. Leaves out the sources (`read.rs`) and the planned changes (`plan.rs`).

use serde::Serialize;
use vermeil_topology::{CpuSet, NodeId};

/// All state that decides which cpu handles a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CardNetwork {
    /// The cards, by name.
    pub nics: Vec<Nic>,
    /// Entries of the table of flows that receive flow steering shares
    /// (`net.core.rps_sock_flow_entries`). `None` if the table is out of reach, because the table
    /// belongs to the first network namespace.
    pub sock_flow_entries: Option<u32>,
    /// The process that moves interrupts around, if one runs.
    pub irqbalance_pid: Option<u32>,
}

/// The kind of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CardKind {
    /// A device on a bus, with interrupts, including virtual machines' devices.
    Device,
    /// Made by the kernel (veth, bridge, loopback): packets are handled on the cpu that sent them.
    Software,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// The name, as in `ip link`.
    pub name: String,
    /// The kernel's index of the card.
    pub index: u32,
    /// The driver's name; empty if unknown.
    pub driver: String,
    /// Device or software.
    pub kind: CardKind,
    /// The card's memory node, if known.
    pub node: Option<NodeId>,
    /// Whether the card is switched on and has a carrier.
    pub up: bool,
    /// Receive queues in use, by number.
    pub rx: Vec<RxQueue>,
    /// Transmit queues in use, by number.
    pub tx: Vec<TxQueue>,
    /// The present and maximum numbers of queues; `None` if the driver does not tell.
    pub channels: Option<Channels>,
    /// The receive queue of each slot of the hash table (receive side scaling); `None` if the
    /// driver has no table.
    pub rss: Option<Vec<u32>>,
    /// Whether the card adapts receive interrupts to the load (`ethtool -C`, adaptive-rx); `None`
    /// if not supported.
    pub adaptive: Option<bool>,
    /// The polling of the card.
    pub polling: CardPolling,
}

/// The kernel's polling of a card, for all users of the card: shown, and never changed. `None` if
/// unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CardPolling {
    /// The number of empty polls that keep the interrupts off (`napi_defer_hard_irqs`).
    pub defer_hard_irqs: Option<u32>,
    /// Time that the card's interrupts stay off after the last packet, in ns (`gro_flush_timeout`).
    pub gro_flush_timeout_ns: Option<u64>,
    /// Whether polling runs in separate threads (`threaded`).
    pub threaded: Option<bool>,
}

/// A receive queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RxQueue {
    /// The number.
    pub queue: u32,
    /// The interrupt, if known.
    pub irq: Option<Irq>,
    /// The cpus that spread the queue's packets in software (`rps_cpus`); empty: none, the
    /// interrupt's cpu handles all packets.
    pub rps: Option<CpuSet>,
    /// The queue's part of the table of flows (`rps_flow_cnt`).
    pub rps_flows: Option<u32>,
}

/// A transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TxQueue {
    /// The number.
    pub queue: u32,
    /// The interrupt of completions, unless shared with a receive queue.
    pub irq: Option<Irq>,
    /// The cpus that transmit on the queue (`xps_cpus`); `None` if not settable, as with one queue.
    pub xps: Option<CpuSet>,
}

/// An interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Irq {
    /// The number in `/proc/irq`.
    pub number: u32,
    /// The name in `/proc/interrupts`.
    pub name: String,
    /// The device that lists the interrupt (`msi_irqs`), below the root; `None` without such a
    /// device.
    pub device: Option<String>,
    /// The allowed cpus.
    pub cpus: CpuSet,
    /// The present cpu, if known; may lag behind `cpus` until the next interrupt.
    pub effective: Option<CpuSet>,
}

/// Present and maximum numbers of queues.
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

/// A polling instance of the kernel (`Documentation/networking/napi.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Napi {
    /// The number.
    pub id: u32,
    /// The interrupt that starts the instance, if known.
    pub irq: Option<u32>,
    /// Receive queues of the instance.
    pub rx: Vec<u32>,
    /// Transmit queues whose completions the instance handles.
    pub tx: Vec<u32>,
}
