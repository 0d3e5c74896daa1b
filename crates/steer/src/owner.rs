//! The owner of an interrupt.
//!
//! A number does not identify an interrupt: after a driver has released the number, the kernel
//! gives the number to the next driver, perhaps a disk's. So an interrupt is identified by card,
//! device and name, and a card by its index.

use serde::{Deserialize, Serialize};

use crate::{CardNetwork, Setting};

/// The owner of an interrupt, beside the interrupt's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptOwner {
    /// The card.
    pub nic: String,
    /// The card's index, which does not change with the name.
    pub index: u32,
    /// The device that lists the interrupt, below the root; `None` without such a device.
    pub device: Option<String>,
}

impl InterruptOwner {
    /// The owner, for an interrupt's setting.
    pub(crate) fn of(setting: &Setting, network: &CardNetwork) -> Option<InterruptOwner> {
        let Setting::Interrupt { irq: number, .. } = setting else { return None };
        network.nics.iter().find_map(|nic| {
            let irqs = nic.rx.iter().map(|rx| &rx.irq).chain(nic.tx.iter().map(|tx| &tx.irq));
            let irq = irqs.flatten().find(|irq| irq.number == *number)?;
            Some(InterruptOwner { nic: nic.name.clone(), index: nic.index, device: irq.device.clone() })
        })
    }
}
