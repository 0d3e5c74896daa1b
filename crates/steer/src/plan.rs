//! From a machine, its network and the cpus of a server's cores to what should be different: pure, no file is touched.
//!
//! Per card the cores nearest to it are dealt to its queues (`deal.rs`), and each queue's interrupt, transmit queue and
//! listeners follow from that as one decision (`card.rs`). Owns the result's types and the choice of cards. What a card
//! cannot do is in the plan, by name. Tested on recorded machines in `plan/tests.rs`.

mod card;
mod deal;

use serde::Serialize;
use vermeil_topology::{CpuId, CpuSet, Machine, NodeId};

use crate::{Error, Kind, Network, Nic, Polling, Setting};

#[cfg(test)]
mod tests;

/// What a plan is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The cpus of the server's cores, each of which has a listener.
    pub cores: Vec<CpuId>,
    /// The cards to plan for; empty: all devices that are up. A card made by software is planned for when it is named.
    pub nics: Vec<String>,
    /// Whether the number of queues may change.
    pub queues: Queues,
}

/// Whether a plan may change how many queues a card uses; the link goes down for a moment when it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Queues {
    /// As many as cores, as far as the card has them.
    #[default]
    Fit,
    /// As they are.
    Keep,
}

/// How a card decides which queue a packet goes to, and with that what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// By a hash of the flow, through a table.
    Hashed,
    /// On the queue on which this machine last transmitted for the flow, as virtual machines' hosts do.
    TransmitLed,
    /// There is one queue.
    Single,
    /// Made by software: no interrupts, packets are handled where they were sent.
    Software,
}

impl Class {
    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Hashed => "a hash of the flow chooses the queue",
            Class::TransmitLed => "packets come on the queue the flow's answers leave by",
            Class::Single => "one queue",
            Class::Software => "made by software, without interrupts",
        }
    }
}

/// One change, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What is set.
    pub setting: Setting,
    /// The value now, canonical.
    pub from: String,
    /// The value planned, canonical.
    pub to: String,
    /// Why.
    pub why: String,
}

/// Where one queue's packets go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueuePlan {
    /// The queue's number, receiving and transmitting.
    pub queue: u32,
    /// Its interrupt, where it is known.
    pub irq: Option<u32>,
    /// The cpu of its interrupt, and of its polling.
    pub cpu: CpuId,
    /// The cpus whose listeners are given its connections.
    pub listeners: CpuSet,
}

/// The plan for one card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NicPlan {
    /// Its name.
    pub nic: String,
    /// Its driver.
    pub driver: String,
    /// Its node, where the machine says.
    pub node: Option<NodeId>,
    /// How it chooses queues.
    pub class: Class,
    /// Its queues, by number.
    pub queues: Vec<QueuePlan>,
    /// How it is polled, which no plan changes: putting interrupts off is for all who use the card.
    pub polling: Polling,
    /// What it cannot do, by name.
    pub refusals: Vec<String>,
}

/// What should be different on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Per card, where its packets go once the plan is carried out.
    pub nics: Vec<NicPlan>,
    /// What to set, in this order.
    pub changes: Vec<Change>,
    /// What forbids carrying the plan out as things are, each with its cure.
    pub blockers: Vec<String>,
    /// What else one should know.
    pub notes: Vec<String>,
}

/// Plans.
///
/// Cpus of the request that the machine does not have are ignored.
///
/// # Errors
/// [`Error::NoSuchNic`] if a card is named that is not there.
pub fn plan(machine: &Machine, network: &Network, request: &Request) -> Result<Plan, Error> {
    let mut plan = Plan::default();
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

/// The cards to plan for; says which ones are left alone.
fn chosen<'a>(network: &'a Network, request: &Request, plan: &mut Plan) -> Result<Vec<&'a Nic>, Error> {
    if request.nics.is_empty() {
        let (up, down): (Vec<_>, Vec<_>) =
            network.nics.iter().filter(|nic| nic.kind == Kind::Device).partition(|nic| nic.up);
        plan.notes.extend(down.iter().map(|nic| format!("{}: down; left as it is", nic.name)));
        if up.is_empty() {
            let text =
                "no card with a device is up; cards made by software are planned for when they are named";
            plan.notes.push(text.to_owned());
        }
        return Ok(up);
    }
    let find = |name: &String| {
        network.nics.iter().find(|nic| nic.name == *name).ok_or_else(|| Error::NoSuchNic {
            name: name.clone(),
            present: network.nics.iter().map(|nic| nic.name.clone()).collect(),
        })
    };
    // Named twice is named.
    let again = |at: usize| request.nics[..at].contains(&request.nics[at]);
    let once = (0..request.nics.len()).filter(|&at| !again(at)).map(|at| &request.nics[at]);
    once.map(find).collect()
}

/// The cores for which no other of these cards is nearer. A card whose node is not known is near to all.
fn nearest_cores(machine: &Machine, nic: &Nic, nics: &[&Nic], cores: &CpuSet) -> CpuSet {
    let distance = |nic: &Nic, cpu: CpuId| {
        let of = |node: NodeId| machine.nodes().iter().position(|known| known.id == node);
        let core = machine.pu(cpu).and_then(|pu| of(pu.node))?;
        Some(machine.node_distances()[of(nic.node?)?][core])
    };
    let near = |cpu: &CpuId| {
        let Some(mine) = distance(nic, *cpu) else { return true };
        nics.iter().filter_map(|other| distance(other, *cpu)).all(|other| other >= mine)
    };
    cores.iter().filter(near).collect()
}
