//! Plans changes for a machine, its network and the cpus of a server's cores: pure, touches no
//! file.
//!
//! For each card, `deal.rs` assigns the nearest cores to the card's queues. Each queue's interrupt,
//! transmit queue and listeners follow from that as one decision (`card.rs`). Contains the types of
//! the result and the choice of cards. The plan names operations that a card does not support.
//! Tested on recorded machines in `plan/tests.rs`.

mod card;
mod deal;

use serde::Serialize;
use vermeil_topology::{CpuId, CpuSet, Machine, NodeId};

use crate::{CardKind, CardNetwork, CardPolling, Nic, Setting, SteerError};

#[cfg(test)]
mod tests;

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The cpus of the server's cores, each of which has a listener.
    pub cores: Vec<CpuId>,
    /// The cards to plan for; empty: all devices that are up. A software card is planned for only
    /// if named.
    pub nics: Vec<String>,
    /// Whether the number of queues may change.
    pub queues: Queues,
}

/// Whether a plan may change the number of a card's queues; the link goes down for a moment in that
/// case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Queues {
    /// As many queues as cores, up to the card's maximum.
    #[default]
    Fit,
    /// Keep the number.
    Keep,
}

/// How a card chooses the queue of a packet, which determines the possible steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteerClass {
    /// By a hash of the flow, through a table.
    Hashed,
    /// On the queue on which this machine last transmitted for the flow, as virtual machines' hosts
    /// do.
    TransmitLed,
    /// There is one queue.
    Single,
    /// Made by software: no interrupts, packets are handled on the sending cpu.
    Software,
}

impl SteerClass {
    /// A description in words.
    pub fn meaning(self) -> &'static str {
        match self {
            SteerClass::Hashed => "a hash of the flow chooses the queue",
            SteerClass::TransmitLed => "packets come on the queue the flow's answers leave by",
            SteerClass::Single => "one queue",
            SteerClass::Software => "made by software, without interrupts",
        }
    }
}

/// A change, with a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    /// The setting.
    pub setting: Setting,
    /// The present value, canonical.
    pub from: String,
    /// The planned value, canonical.
    pub to: String,
    /// The reason.
    pub why: String,
}

/// The destination of a queue's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuePlan {
    /// The queue's number, receiving and transmitting.
    pub queue: u32,
    /// The interrupt, if known.
    pub irq: Option<u32>,
    /// The cpu of the interrupt, and of polling.
    pub cpu: CpuId,
    /// The cpus whose listeners get the queue's connections.
    pub listeners: CpuSet,
}

/// The plan for a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NicPlan {
    /// The name.
    pub nic: String,
    /// The driver.
    pub driver: String,
    /// The node, if known.
    pub node: Option<NodeId>,
    /// The choice of queues.
    pub class: SteerClass,
    /// The queues, by number.
    pub queues: Vec<QueuePlan>,
    /// The polling, which no plan changes, because deferred interrupts affect all users of the
    /// card.
    pub polling: CardPolling,
    /// Unsupported operations, by name.
    pub refusals: Vec<String>,
}

/// The planned changes of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SteerPlan {
    /// Per card, the destinations of packets after the plan is applied.
    pub nics: Vec<NicPlan>,
    /// The changes, in order.
    pub changes: Vec<PlannedChange>,
    /// Reasons that forbid applying the plan in the present state, each with a cure.
    pub blockers: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// Makes a plan.
///
/// Cpus of the request that the machine does not have are ignored.
///
/// # Errors
/// [`SteerError::NoSuchNic`] if a named card does not exist.
pub fn plan(
    machine: &Machine,
    network: &CardNetwork,
    request: &PlanRequest,
) -> Result<SteerPlan, SteerError> {
    let mut plan = SteerPlan::default();
    let nics = chosen(network, request, &mut plan)?;
    let cores: CpuSet = request.cores.iter().copied().collect::<CpuSet>().intersection(machine.cpus());
    for nic in &nics {
        let near = nearest_cores(machine, nic, &nics, &cores);
        if near.is_empty() {
            plan.notes.push(format!("{}: no core is nearest to it; left as it is", nic.name));
            continue;
        }
        card::plan(machine, nic, &near, request.queues, network.sock_flow_entries, &mut plan);
    }
    if let Some(pid) = network.irqbalance_pid
        && plan.changes.iter().any(|change| matches!(change.setting, Setting::Interrupt { .. }))
    {
        plan.blockers.push(format!(
            "irqbalance (process {pid}) is running and would move the interrupts again; stop it \
             (systemctl disable --now irqbalance), or give it --banirq for them"
        ));
    }
    let reached: CpuSet = plan
        .nics
        .iter()
        .flat_map(|nic| &nic.queues)
        .fold(CpuSet::new(), |all, queue| all.union(&queue.listeners));
    let unreached = cores.difference(&reached);
    if !plan.nics.is_empty() && !unreached.is_empty() {
        plan.notes.push(format!("cpus {unreached}: no queue's packets come here"));
    }
    Ok(plan)
}

/// The cards to plan for; adds a note on each ignored card.
fn chosen<'a>(
    network: &'a CardNetwork,
    request: &PlanRequest,
    plan: &mut SteerPlan,
) -> Result<Vec<&'a Nic>, SteerError> {
    if request.nics.is_empty() {
        let (up, down): (Vec<_>, Vec<_>) =
            network.nics.iter().filter(|nic| nic.kind == CardKind::Device).partition(|nic| nic.up);
        plan.notes.extend(down.iter().map(|nic| format!("{}: down; left as it is", nic.name)));
        if up.is_empty() {
            let text =
                "no card with a device is up; cards made by software are planned for when they are named";
            plan.notes.push(text.to_owned());
        }
        return Ok(up);
    }
    let find = |name: &String| {
        network.nics.iter().find(|nic| nic.name == *name).ok_or_else(|| SteerError::NoSuchNic {
            name: name.clone(),
            present: network.nics.iter().map(|nic| nic.name.clone()).collect(),
        })
    };
    // A card named twice counts once.
    let again = |at: usize| request.nics[..at].contains(&request.nics[at]);
    let once = (0..request.nics.len()).filter(|&at| !again(at)).map(|at| &request.nics[at]);
    once.map(find).collect()
}

/// The cores for which no other of these cards is nearer. A card with an unknown node is near to
/// all cores.
fn nearest_cores(machine: &Machine, nic: &Nic, nics: &[&Nic], cores: &CpuSet) -> CpuSet {
    let distance = |nic: &Nic, cpu: CpuId| {
        let of = |node: NodeId| machine.nodes().iter().position(|known| known.id == node);
        let core = machine.pu(cpu).and_then(|pu| of(pu.node?))?;
        Some(machine.node_distances()[of(nic.node?)?][core])
    };
    let near = |cpu: &CpuId| {
        let Some(mine) = distance(nic, *cpu) else { return true };
        nics.iter().filter_map(|other| distance(other, *cpu)).all(|other| other >= mine)
    };
    cores.iter().filter(near).collect()
}
