//! The plan for a card: class, cores of the queues, and the resulting changes, each with a reason.
//!
//! Interrupt, transmit queue and listeners of a queue are one decision. If a queue serves several
//! cores, packets are spread in software, because a listener gets the connections whose packets its
//! cpu handles. Leaves out the assignment of cores (`deal.rs`). Tested in `plan/tests.rs`.

use vermeil_topology::{CpuId, CpuSet, Machine};

use super::deal::deal;
use super::{NicPlan, PlannedChange, QueuePlan, Queues, SteerClass, SteerPlan};
use crate::setting::{channels_text, even_over, switch_text, table_text};
use crate::{CardKind, Channels, Nic, RxQueue, Setting};

/// Entries of the table of flows: the suggestion of `Documentation/networking/scaling.rst` for a
/// server of moderate load.
const FLOW_TABLE: u32 = 32_768;

/// Adds the plan for `nic`, whose packets are for `cores` (not empty).
pub(super) fn plan(
    machine: &Machine,
    nic: &Nic,
    cores: &CpuSet,
    queues: Queues,
    flow_table: Option<u32>,
    plan: &mut SteerPlan,
) {
    let channels = wanted_channels(nic, cores, queues);
    let count = channels.as_ref().map_or(nic.rx.len(), |channels| channels.combined.0 as usize);
    let groups = deal(machine, cores, count);
    let mut card = CardPlan {
        class: class_of(nic, count),
        nic,
        machine,
        all: cores,
        refusals: Vec::new(),
        changes: Vec::new(),
    };
    if let Some(wanted) = channels {
        card.channels(&wanted);
    }
    card.table(groups.len() as u32);
    card.moderate();
    for (group, queue) in groups.iter().zip(0..) {
        card.queue(queue, group);
    }
    card.clear_others(groups.len() as u32);
    if card.class == SteerClass::Single {
        card.flows(flow_table);
    }
    card.say_what_is_missing(count);
    let planned = groups.iter().zip(0..).map(|(group, queue)| QueuePlan {
        queue,
        irq: card.rx(queue).and_then(|rx| rx.irq.as_ref()).map(|irq| irq.number),
        cpu: group[0],
        listeners: group.iter().copied().collect(),
    });
    plan.nics.push(NicPlan {
        nic: nic.name.clone(),
        driver: nic.driver.clone(),
        node: nic.node,
        class: card.class,
        queues: planned.collect(),
        polling: nic.polling,
        refusals: card.refusals,
    });
    plan.changes.extend(card.changes);
}

/// The planned channels of the card, if different: one queue per core, up to the maximum.
fn wanted_channels(nic: &Nic, cores: &CpuSet, queues: Queues) -> Option<Channels> {
    let now = nic.channels.filter(|now| queues == Queues::Fit && now.combined.1 > 0)?;
    let wanted = (cores.len() as u32).min(now.combined.1);
    let changed = Channels { combined: (wanted, now.combined.1), ..now };
    (nic.kind == CardKind::Device && changed != now).then_some(changed)
}

fn class_of(nic: &Nic, count: usize) -> SteerClass {
    match nic.kind {
        CardKind::Software => SteerClass::Software,
        CardKind::Device if count <= 1 => SteerClass::Single,
        CardKind::Device if nic.rss.is_none() && nic.driver == "virtio_net" => SteerClass::TransmitLed,
        CardKind::Device => SteerClass::Hashed,
    }
}

struct CardPlan<'a> {
    class: SteerClass,
    nic: &'a Nic,
    machine: &'a Machine,
    all: &'a CpuSet,
    refusals: Vec<String>,
    changes: Vec<PlannedChange>,
}

impl CardPlan<'_> {
    fn name(&self) -> String {
        self.nic.name.clone()
    }

    fn rx(&self, queue: u32) -> Option<&RxQueue> {
        self.nic.rx.iter().find(|rx| rx.queue == queue)
    }

    fn change(&mut self, setting: Setting, from: String, to: String, why: String) {
        if from != to {
            self.changes.push(PlannedChange { setting, from, to, why });
        }
    }

    fn channels(&mut self, wanted: &Channels) {
        let now = self.nic.channels.expect("wanted because known");
        let why = format!(
            "a queue for each of the {} cores near it, as far as it has {}; the link goes down for a moment",
            self.all.len(),
            now.combined.1
        );
        let setting = Setting::Channels { nic: self.name() };
        self.change(setting, channels_text(&now), channels_text(wanted), why);
    }

    /// The hash table must spread over exactly the queues that have cores.
    fn table(&mut self, queues: u32) {
        let Some(table) = &self.nic.rss else { return };
        if even_over(table) == Some(queues) {
            return;
        }
        let wanted: Vec<u32> = (0..table.len() as u32).map(|slot| slot % queues).collect();
        let why =
            format!("each of the {queues} queues that a core waits for gets an even share of the flows");
        self.change(Setting::Rss { nic: self.name() }, table_text(table), table_text(&wanted), why);
    }

    /// The rate of interrupts: adaptive to the arrivals, which suits few packets and many.
    fn moderate(&mut self) {
        let Some(now) = self.nic.adaptive else { return };
        let why = "few packets are told of at once and many together: the driver measures, and switches";
        let setting = Setting::Adaptive { nic: self.name() };
        self.change(setting, switch_text(now), switch_text(true), why.to_owned());
    }

    fn queue(&mut self, queue: u32, group: &[CpuId]) {
        let group_set: CpuSet = group.iter().copied().collect();
        self.interrupts(queue, group[0]);
        self.spread(queue, &group_set);
        self.transmit(queue, &group_set);
    }

    fn interrupts(&mut self, queue: u32, cpu: CpuId) {
        let rx = self.rx(queue).and_then(|rx| rx.irq.clone());
        let tx = self.nic.tx.iter().find(|tx| tx.queue == queue).and_then(|tx| tx.irq.clone());
        let to = CpuSet::from_iter([cpu]).to_string();
        if let Some(irq) = rx {
            let why = format!("queue {queue}'s packets are handled on cpu {cpu}{}", self.place_of(cpu));
            self.change(
                Setting::Interrupt { irq: irq.number, name: irq.name },
                irq.cpus.to_string(),
                to.clone(),
                why,
            );
        }
        if let Some(irq) = tx {
            let why = format!(
                "packets that queue {queue} has transmitted are released on cpu {cpu}, which handles the queue's packets"
            );
            self.change(
                Setting::Interrupt { irq: irq.number, name: irq.name },
                irq.cpus.to_string(),
                to,
                why,
            );
        }
    }

    fn place_of(&self, cpu: CpuId) -> String {
        let node = self.machine.pu(cpu).and_then(|pu| pu.node);
        match (self.machine.nodes().len(), node) {
            (2.., Some(node)) => format!(" of node {node}, where a listener takes their connections"),
            _ => ", where a listener takes their connections".to_owned(),
        }
    }

    /// Receive packet steering: over the cores of a queue with several cores, otherwise off.
    fn spread(&mut self, queue: u32, group: &CpuSet) {
        let Some(now) = self.rx(queue).and_then(|rx| rx.rps.clone()) else { return };
        let alone = group.len() == 1 && self.class != SteerClass::Software;
        let (wanted, why) = if alone {
            let why = format!("queue {queue} has a core of its own: spreading in software would only cost");
            (CpuSet::new(), why)
        } else if self.class == SteerClass::Software {
            let why = "packets of software cards are handled where they were sent, unless they are spread: \
                       to the cores that take their connections";
            (group.clone(), why.to_owned())
        } else {
            let why = format!(
                "cpus {group} share queue {queue}: without spreading, listeners on all but one of them would be given \
                 no connection"
            );
            (group.clone(), why)
        };
        let setting = Setting::Rps { nic: self.name(), queue };
        self.change(setting, now.to_string(), wanted.to_string(), why);
    }

    /// Transmit packet steering: the cores of a queue transmit on the queue, together with their
    /// sibling hardware threads that have no core.
    fn transmit(&mut self, queue: u32, group: &CpuSet) {
        let Some(now) = self.xps(queue) else { return };
        let siblings = self.siblings(group);
        let wanted = group.union(&siblings);
        let mut why = match self.class {
            SteerClass::TransmitLed => format!(
                "the other side answers on the queue that cpus {group} transmit on, so this setting steers receiving"
            ),
            _ => {
                format!("answers of cpus {group} leave by queue {queue}, whose completions come back to them")
            }
        };
        if !siblings.is_empty() {
            why += &format!("; cpus {siblings} are the other hardware threads of the same cores");
        }
        let setting = Setting::Xps { nic: self.name(), queue };
        self.change(setting, now.to_string(), wanted.to_string(), why);
    }

    fn xps(&self, queue: u32) -> Option<CpuSet> {
        let several = self.nic.tx.len() > 1;
        self.nic.tx.iter().find(|tx| several && tx.queue == queue)?.xps.clone()
    }

    /// Hardware threads of the group's cores without a listener.
    fn siblings(&self, group: &CpuSet) -> CpuSet {
        let cores = self.machine.cores().iter().filter(|core| !core.cpus.intersection(group).is_empty());
        cores.fold(CpuSet::new(), |all, core| all.union(&core.cpus)).difference(self.all)
    }

    /// Queues beyond the groups: no core transmits there, because the core would then use two
    /// queues.
    fn clear_others(&mut self, used: u32) {
        let others: Vec<u32> = self.nic.tx.iter().map(|tx| tx.queue).filter(|&queue| queue >= used).collect();
        for queue in others {
            let Some(now) = self.xps(queue) else { continue };
            let left = now.difference(self.all);
            let why = format!("the cores transmit on queues 0 to {}; queue {queue} would compete", used - 1);
            self.change(Setting::Xps { nic: self.name(), queue }, now.to_string(), left.to_string(), why);
        }
    }

    /// Receive flow steering, for one queue and several cores: a flow's packets go to the reading
    /// cpu.
    fn flows(&mut self, table: Option<u32>) {
        if self.all.len() == 1 {
            return;
        }
        let Some(table) = table else {
            self.refusals.push(
                "receive flow steering: net.core.rps_sock_flow_entries can be set in the first network namespace only"
                    .to_owned(),
            );
            return;
        };
        let why =
            "packets of a flow go to the cpu whose thread reads it, also when that has moved".to_owned();
        let wanted = table.max(FLOW_TABLE);
        self.change(Setting::FlowTable, table.to_string(), wanted.to_string(), why.clone());
        let Some(now) = self.rx(0).and_then(|rx| rx.rps_flows) else { return };
        let setting = Setting::RpsFlows { nic: self.name(), queue: 0 };
        self.change(setting, now.to_string(), now.max(wanted).to_string(), why);
    }

    fn say_what_is_missing(&mut self, count: usize) {
        let driver = if self.nic.driver.is_empty() { "its driver" } else { &self.nic.driver };
        let mut refusals = Vec::new();
        if self.nic.kind == CardKind::Device && self.nic.rx.iter().all(|rx| rx.irq.is_none()) {
            refusals.push(format!("interrupts: {driver} has none that can be told apart by queue"));
        }
        if self.nic.kind == CardKind::Device && self.nic.adaptive.is_none() {
            refusals.push(format!(
                "interrupt moderation: {driver} does not adapt it to the load here (adaptive-rx)"
            ));
        }
        if self.class == SteerClass::TransmitLed {
            refusals.push(format!("hash table: {driver} offers none here (no VIRTIO_NET_F_RSS)"));
        }
        if self.class == SteerClass::Hashed && self.nic.rss.is_none() {
            refusals.push(format!("hash table: {driver} does not show one; taken as even over its queues"));
        }
        if self.nic.kind == CardKind::Device && count < self.all.len() {
            let most = self.nic.channels.map_or(0, |channels| channels.combined.1).max(count as u32);
            let kept = if most > count as u32 { format!("; {count} kept, as asked") } else { String::new() };
            refusals.push(format!("queues: {driver} has {most} at most, for {} cores{kept}", self.all.len()));
        }
        if self.nic.tx.len() > 1 && self.nic.tx.iter().all(|tx| tx.xps.is_none()) {
            refusals.push(format!("transmit queues: {driver} does not let them be chosen (xps_cpus)"));
        }
        self.refusals.extend(refusals);
    }
}
