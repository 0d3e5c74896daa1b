//! Reads the present network, from sysfs and procfs below a folder and from a [`CardKernel`]
//! (kernel: `Documentation/ABI/testing/sysfs-class-net-queues`,
//! `Documentation/networking/scaling.rst`).
//!
//! Contains the meaning of the files, and the search for a queue's interrupt: first by the kernel's
//! report (netlink), otherwise by name. Missing files are ignored, because a plan lists missing
//! data. Tested on recorded trees in `read/tests.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use vermeil_topology::{CpuSet, NodeId};

use crate::interrupts::{self, InterruptLine, InterruptRole, lists};
use crate::{CardKernel, CardKind, CardNetwork, CardPolling, Irq, Nic, RxQueue, SteerError, TxQueue, mask};

#[cfg(test)]
mod tests;

/// Reads all cards below `root`, normally `/`.
///
/// # Errors
/// [`SteerError::Sysfs`] if there is no folder of cards.
pub fn read(root: &Path, kernel: &dyn CardKernel) -> Result<CardNetwork, SteerError> {
    let folder = root.join("sys/class/net");
    let entries =
        fs::read_dir(&folder).map_err(|source| SteerError::Sysfs { path: folder.clone(), source })?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        // Skips `bonding_masters`, a file in the same folder.
        .filter(|name| folder.join(name).join("queues").is_dir())
        .collect();
    names.sort();
    let lines = interrupts::parse(&text(&root.join("proc/interrupts")).unwrap_or_default());
    let reader = SteerReader { root, kernel, lines };
    Ok(CardNetwork {
        nics: names.iter().map(|name| reader.nic(name)).collect(),
        sock_flow_entries: number(&root.join("proc/sys/net/core/rps_sock_flow_entries")),
        irqbalance_pid: process_named(&root.join("proc"), "irqbalance"),
    })
}

struct SteerReader<'a> {
    root: &'a Path,
    kernel: &'a dyn CardKernel,
    lines: Vec<InterruptLine>,
}

/// The interrupts of a card by purpose.
#[derive(Default)]
struct Interrupts {
    rx: Vec<(u32, Irq)>,
    tx: Vec<(u32, Irq)>,
}

impl SteerReader<'_> {
    fn nic(&self, name: &str) -> Nic {
        let folder = self.root.join("sys/class/net").join(name);
        let index = number(&folder.join("ifindex")).unwrap_or(0);
        let devices = device_folders(&folder);
        let irqs = self.interrupts(name, index, &devices);
        let of =
            |irqs: &[(u32, Irq)], queue| irqs.iter().find(|(of, _)| *of == queue).map(|(_, irq)| irq.clone());
        let queues = folder.join("queues");
        let rx = numbered(&queues, "rx-").into_iter().map(|queue| RxQueue {
            queue,
            irq: of(&irqs.rx, queue),
            rps: cpu_mask(&queues.join(format!("rx-{queue}/rps_cpus"))),
            rps_flows: number(&queues.join(format!("rx-{queue}/rps_flow_cnt"))),
        });
        let tx = numbered(&queues, "tx-").into_iter().map(|queue| TxQueue {
            queue,
            irq: of(&irqs.tx, queue),
            xps: cpu_mask(&queues.join(format!("tx-{queue}/xps_cpus"))),
        });
        Nic {
            index,
            driver: self.kernel.driver(name).unwrap_or_else(|_| driver_of(&folder)),
            kind: if devices.is_empty() { CardKind::Software } else { CardKind::Device },
            node: devices.iter().find_map(|device| node_of(device)),
            up: matches!(text(&folder.join("operstate")).as_deref(), Some("up" | "unknown")),
            rx: rx.collect(),
            tx: tx.collect(),
            channels: self.kernel.channels(name).ok(),
            rss: self.kernel.rss(name).ok(),
            adaptive: self.kernel.adaptive(name).ok().filter(|_| device_adapts(&folder)),
            polling: CardPolling {
                defer_hard_irqs: number(&folder.join("napi_defer_hard_irqs")),
                gro_flush_timeout_ns: number(&folder.join("gro_flush_timeout")),
                threaded: number(&folder.join("threaded")).map(|threaded: u32| threaded != 0),
            },
            name: name.to_owned(),
        }
    }

    fn interrupts(&self, name: &str, index: u32, devices: &[PathBuf]) -> Interrupts {
        let mut found = Interrupts::default();
        for napi in self.kernel.napis(index).unwrap_or_default() {
            let line = self.lines.iter().find(|line| Some(line.number) == napi.irq);
            let Some(irq) = line.map(|line| self.irq(line, devices)) else { continue };
            found.rx.extend(napi.rx.iter().map(|&queue| (queue, irq.clone())));
            if napi.rx.is_empty() {
                found.tx.extend(napi.tx.iter().map(|&queue| (queue, irq.clone())));
            }
        }
        if !found.rx.is_empty() {
            return found;
        }
        for line in self.lines.iter().filter(|line| self.is_of(line, name, devices)) {
            let Some((role, queue)) = interrupts::role(&line.name) else { continue };
            let irq = self.irq(line, devices);
            match role {
                InterruptRole::Receive | InterruptRole::Both => found.rx.push((queue, irq)),
                InterruptRole::Transmit => found.tx.push((queue, irq)),
            }
        }
        found
    }

    /// Whether an interrupt belongs to this card: listed with the card's device, which may carry
    /// several cards, or named after the card.
    fn is_of(&self, line: &InterruptLine, name: &str, devices: &[PathBuf]) -> bool {
        let named = || line.name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
        let alone = |device: &PathBuf| fs::read_dir(device.join("net")).map_or(0, Iterator::count) <= 1;
        match devices.iter().find(|device| device.join("msi_irqs").is_dir()) {
            Some(device) => lists(device, line.number) && (alone(device) || named()),
            None => !devices.is_empty() && named(),
        }
    }

    fn irq(&self, line: &InterruptLine, devices: &[PathBuf]) -> Irq {
        let folder = self.root.join(format!("proc/irq/{}", line.number));
        Irq {
            number: line.number,
            name: line.name.clone(),
            device: devices
                .iter()
                .find(|device| lists(device, line.number))
                .and_then(|device| self.below(device)),
            cpus: cpu_list(&folder.join("smp_affinity_list")).unwrap_or_default(),
            effective: cpu_list(&folder.join("effective_affinity_list")).filter(|cpus| !cpus.is_empty()),
        }
    }

    /// A device's folder, as seen from the root.
    fn below(&self, device: &Path) -> Option<String> {
        let root = fs::canonicalize(self.root).ok()?;
        Some(device.strip_prefix(root).ok()?.to_str()?.to_owned())
    }
}

/// A card's device, and the device's parent: a virtio device has a PCI device as parent, with the
/// interrupts and the node.
fn device_folders(nic: &Path) -> Vec<PathBuf> {
    let Ok(device) = fs::canonicalize(nic.join("device")) else { return Vec::new() };
    let parent = device.parent().map(Path::to_owned);
    [Some(device), parent].into_iter().flatten().collect()
}

/// Whether the device supports adaptation as the driver does: a virtio device has a feature bit,
/// VIRTIO_NET_F_VQ_NOTF_COAL.
fn device_adapts(nic: &Path) -> bool {
    const BIT: usize = 52;
    text(&nic.join("device/features")).is_none_or(|bits| bits.as_bytes().get(BIT) == Some(&b'1'))
}

fn driver_of(nic: &Path) -> String {
    let link = fs::read_link(nic.join("device/driver")).unwrap_or_default();
    link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The kernel writes -1 if the firmware does not tell.
fn node_of(device: &Path) -> Option<NodeId> {
    Some(NodeId(text(&device.join("numa_node"))?.parse().ok()?))
}

fn process_named(proc: &Path, name: &str) -> Option<u32> {
    let processes: BTreeSet<u32> = numbered(proc, "").into_iter().collect();
    processes.into_iter().find(|pid| text(&proc.join(format!("{pid}/comm"))).as_deref() == Some(name))
}

fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn cpu_mask(path: &Path) -> Option<CpuSet> {
    mask::parse(&text(path)?)
}

fn cpu_list(path: &Path) -> Option<CpuSet> {
    text(path)?.parse().ok()
}

fn number<N: FromStr>(path: &Path) -> Option<N> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
