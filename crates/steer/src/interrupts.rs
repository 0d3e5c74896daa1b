//! Maps interrupts to queues, by the names that drivers give interrupts.
//!
//! Contains the parser of `/proc/interrupts` and the vocabulary of names: `virtio2-input.3`,
//! `eth0-TxRx-3`, `i40e-eth0-TxRx-3`, `eth0-rx-3`, `mlx5_comp3@pci:…`, `ens5-Tx-Rx-3`,
//! `gve-ntfy-blk3@pci:…`. If the kernel reports the interrupt of a polling instance (netlink), that
//! report takes precedence. Other names (`virtio2-config`) belong to no queue.

use std::path::Path;

/// The purpose of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptRole {
    Receive,
    Transmit,
    Both,
}

/// A line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptLine {
    /// The number, which may belong to another device once the driver has released the number.
    pub number: u32,
    /// The name.
    pub name: String,
    /// Interrupts so far, all cpus together.
    pub count: u64,
}

/// The numbered lines of `/proc/interrupts`. The name is the last word, because drivers use no
/// blanks in names.
pub(crate) fn parse(text: &str) -> Vec<InterruptLine> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |head| head.split_ascii_whitespace().count());
    lines
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let counts = words.iter().take(cpus).map_while(|word| word.parse::<u64>().ok());
            Some(InterruptLine {
                number: number.trim().parse().ok()?,
                count: counts.sum(),
                name: (*words.last()?).to_owned(),
            })
        })
        .collect()
}

/// The purpose and the queue in a driver's name of an interrupt.
pub(crate) fn role(name: &str) -> Option<(InterruptRole, u32)> {
    let name = name.split('@').next()?;
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (words, number) = name.split_at(name.len() - digits);
    let queue = number.parse().ok()?;
    let words = words.to_ascii_lowercase();
    let both = ["txrx", "tx-rx", "rxtx", "rx-tx", "_comp", "ntfy-blk"];
    // The last word counts, because the card's name may contain any of these words.
    let last = words.trim_end_matches(['-', '.', '_']);
    let ends = |what: &str| last.ends_with(what.trim_end_matches(['-', '.']));
    if both.iter().any(|what| ends(what)) {
        Some((InterruptRole::Both, queue))
    } else if ends("rx") || ends("input") {
        Some((InterruptRole::Receive, queue))
    } else if ends("tx") || ends("output") {
        Some((InterruptRole::Transmit, queue))
    } else {
        None
    }
}

/// Whether the device lists the interrupt.
pub(crate) fn lists(device: &Path, number: u32) -> bool {
    device.join("msi_irqs").join(number.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_name_identifies_queue() {
        for (name, expected) in [
            ("virtio2-input.0", Some((InterruptRole::Receive, 0))),
            ("virtio2-output.12", Some((InterruptRole::Transmit, 12))),
            ("virtio2-config", None),
            ("eth0-TxRx-3", Some((InterruptRole::Both, 3))),
            ("i40e-ens1f0-TxRx-63", Some((InterruptRole::Both, 63))),
            ("ens5-Tx-Rx-1", Some((InterruptRole::Both, 1))),
            ("mlx5_comp7@pci:0000:41:00.0", Some((InterruptRole::Both, 7))),
            ("mlx5_async0@pci:0000:41:00.0", None),
            ("gve-ntfy-blk2@pci:0000:00:03.0", Some((InterruptRole::Both, 2))),
            ("eth0-rx-1", Some((InterruptRole::Receive, 1))),
            ("eth0-tx-1", Some((InterruptRole::Transmit, 1))),
            ("eth0", None),
            ("rx0", Some((InterruptRole::Receive, 0))),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    #[test]
    fn the_table_is_read() {
        let text = "           CPU0       CPU1       \n \
            38:          5       7468 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
            NMI:          0          0   Non-maskable interrupts\nERR:          0\n";
        let lines = parse(text);
        assert_eq!(lines, [InterruptLine { number: 38, name: "virtio2-input.0".into(), count: 7473 }]);
    }
}
