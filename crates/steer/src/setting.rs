//! A setting: its file, the form of its value, and the comparison of two values.
//!
//! Values have two forms: *raw*, the kernel's form, which is saved and restored; and *canonical*,
//! the form of plans and comparisons (cpus as a list, a table as numbers). Leaves out the planned
//! values (`plan.rs`). Tested here and through `apply`.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vermeil_topology::CpuSet;

use crate::interrupts::{self, InterruptLine};
use crate::{CardKernel, Channels, mask};

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Setting {
    /// The number of queues of a card.
    Channels {
        /// The card.
        nic: String,
    },
    /// The card's hash table.
    Rss {
        /// The card.
        nic: String,
    },
    /// Whether a card adapts its receive interrupts to the load.
    Adaptive {
        /// The card.
        nic: String,
    },
    /// The cpus of an interrupt.
    Interrupt {
        /// The number.
        irq: u32,
        /// The name, for people.
        name: String,
    },
    /// The cpus that spread a receive queue's packets in software (`rps_cpus`).
    Rps {
        /// The card.
        nic: String,
        /// The receive queue.
        queue: u32,
    },
    /// A receive queue's part of the table of flows (`rps_flow_cnt`).
    RpsFlows {
        /// The card.
        nic: String,
        /// The receive queue.
        queue: u32,
    },
    /// The cpus that transmit on a queue (`xps_cpus`).
    Xps {
        /// The card.
        nic: String,
        /// The transmit queue.
        queue: u32,
    },
    /// The table of flows (`net.core.rps_sock_flow_entries`).
    FlowTable,
}

impl Setting {
    /// The setting's card.
    pub(crate) fn nic(&self) -> Option<&str> {
        match self {
            Self::Channels { nic }
            | Self::Rss { nic }
            | Self::Adaptive { nic }
            | Self::Rps { nic, .. }
            | Self::RpsFlows { nic, .. }
            | Self::Xps { nic, .. } => Some(nic),
            Self::Interrupt { .. } | Self::FlowTable => None,
        }
    }

    /// The same setting for a card with this name, if the setting has a card.
    pub(crate) fn of_card(mut self, name: String) -> Self {
        match &mut self {
            Self::Channels { nic }
            | Self::Rss { nic }
            | Self::Adaptive { nic }
            | Self::Rps { nic, .. }
            | Self::RpsFlows { nic, .. }
            | Self::Xps { nic, .. } => *nic = name,
            Self::Interrupt { .. } | Self::FlowTable => {}
        }
        self
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Channels { nic } => write!(f, "{nic} channels"),
            Setting::Rss { nic } => write!(f, "{nic} hash table"),
            Setting::Adaptive { nic } => write!(f, "{nic} adaptive interrupts"),
            Setting::Interrupt { irq, name } => write!(f, "interrupt {irq} ({name}) cpus"),
            Setting::Rps { nic, queue } => write!(f, "{nic} rx-{queue} rps_cpus"),
            Setting::RpsFlows { nic, queue } => write!(f, "{nic} rx-{queue} rps_flow_cnt"),
            Setting::Xps { nic, queue } => write!(f, "{nic} tx-{queue} xps_cpus"),
            Setting::FlowTable => f.write_str("net.core.rps_sock_flow_entries"),
        }
    }
}

impl Setting {
    /// The file below the root, if there is a file.
    fn file(&self) -> Option<String> {
        Some(match self {
            Setting::Channels { .. } | Setting::Rss { .. } | Setting::Adaptive { .. } => return None,
            Setting::Interrupt { irq, .. } => format!("proc/irq/{irq}/smp_affinity_list"),
            Setting::Rps { nic, queue } => format!("sys/class/net/{nic}/queues/rx-{queue}/rps_cpus"),
            Setting::RpsFlows { nic, queue } => format!("sys/class/net/{nic}/queues/rx-{queue}/rps_flow_cnt"),
            Setting::Xps { nic, queue } => format!("sys/class/net/{nic}/queues/tx-{queue}/xps_cpus"),
            Setting::FlowTable => "proc/sys/net/core/rps_sock_flow_entries".to_owned(),
        })
    }

    /// The canonical form of a raw value; unchanged if malformed.
    pub fn canonical(&self, raw: &str) -> String {
        let raw = raw.trim();
        let cpus = match self {
            Setting::Rps { .. } | Setting::Xps { .. } => mask::parse(raw),
            Setting::Interrupt { .. } => raw.parse().ok(),
            _ => None,
        };
        cpus.map_or_else(|| raw.to_owned(), |cpus: CpuSet| cpus.to_string())
    }

    /// The kernel's form of a canonical value.
    pub(crate) fn raw(&self, canonical: &str) -> String {
        match (self, canonical.parse::<CpuSet>()) {
            (Setting::Rps { .. } | Setting::Xps { .. }, Ok(cpus)) => mask::format(&cpus),
            _ => canonical.to_owned(),
        }
    }

    /// A canonical value for people: `none` for no cpu, a table in words.
    pub fn describe(&self, canonical: &str) -> String {
        match self {
            Setting::Rss { .. } => describe_table(canonical),
            _ if canonical.is_empty() => "none".to_owned(),
            _ => canonical.to_owned(),
        }
    }
}

fn describe_table(canonical: &str) -> String {
    let table: Vec<u32> = canonical.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    match even_over(&table) {
        Some(queues) => format!("even over {queues} queues"),
        None => format!("uneven over {} queues", table.iter().max().map_or(0, |queue| queue + 1)),
    }
}

/// The number of queues, from 0 on, over which a table spreads evenly; `None` if not even.
pub(crate) fn even_over(table: &[u32]) -> Option<u32> {
    let queues = table.iter().max()? + 1;
    let slots = |queue| table.iter().filter(|&&of| of == queue).count();
    let least = table.len() / queues as usize;
    (0..queues).all(|queue| (least..=least + 1).contains(&slots(queue))).then_some(queues)
}

/// Canonical forms of the settings without a file.
pub(crate) fn channels_text(channels: &Channels) -> String {
    let Channels { rx, tx, other, combined } = channels;
    format!("rx {} tx {} other {} combined {}", rx.0, tx.0, other.0, combined.0)
}

pub(crate) fn switch_text(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

pub(crate) fn table_text(table: &[u32]) -> String {
    let words: Vec<String> = table.iter().map(u32::to_string).collect();
    words.join(" ")
}

/// Reads and writes settings.
pub trait Settings {
    /// The raw value.
    ///
    /// # Errors
    /// The system's error; `Unsupported` if the driver lacks the operation.
    fn get(&self, setting: &Setting) -> io::Result<String>;

    /// Writes a raw value.
    ///
    /// # Errors
    /// As [`Settings::get`], and `PermissionDenied`.
    fn set(&self, setting: &Setting, raw: &str) -> io::Result<()>;

    /// The index of a card, which does not change with the name.
    fn number_of(&self, nic: &str) -> Option<u32>;

    /// The present name of the card with this index.
    fn name_of(&self, number: u32) -> Option<String>;

    /// All interrupts, with their present numbers.
    fn interrupts(&self) -> Vec<InterruptLine>;

    /// Whether a device, whose folder is below the root, lists the interrupt.
    fn lists_interrupt(&self, device: &str, number: u32) -> bool;

    /// Whether no handler is installed for an interrupt at the moment.
    fn is_unused(&self, number: u32) -> bool;
}

/// The settings below a root, with the kernel for settings without a file.
pub struct System<'a> {
    /// Normally `/`.
    pub root: PathBuf,
    /// The source of driver data.
    pub kernel: &'a dyn CardKernel,
}

impl Settings for System<'_> {
    fn get(&self, setting: &Setting) -> io::Result<String> {
        match setting {
            Setting::Channels { nic } => Ok(channels_text(&self.kernel.channels(nic)?)),
            Setting::Rss { nic } => Ok(table_text(&self.kernel.rss(nic)?)),
            Setting::Adaptive { nic } => Ok(switch_text(self.kernel.adaptive(nic)?)),
            _ => {
                let file = setting.file().expect("all others have one");
                Ok(fs::read_to_string(self.root.join(file))?.trim().to_owned())
            }
        }
    }

    fn set(&self, setting: &Setting, raw: &str) -> io::Result<()> {
        match setting {
            Setting::Channels { nic } => {
                let numbers: Vec<u32> = raw.split(' ').filter_map(|word| word.parse().ok()).collect();
                let [rx, tx, other, combined] = numbers[..] else {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "channels are four numbers"));
                };
                let now = self.kernel.channels(nic)?;
                let channels = Channels {
                    rx: (rx, now.rx.1),
                    tx: (tx, now.tx.1),
                    other: (other, now.other.1),
                    combined: (combined, now.combined.1),
                };
                self.kernel.set_channels(nic, &channels)
            }
            Setting::Rss { nic } => self.set_table(nic, raw),
            Setting::Adaptive { nic } => self.kernel.set_adaptive(nic, raw == switch_text(true)),
            _ => fs::write(self.root.join(setting.file().expect("all others have one")), raw),
        }
    }

    fn number_of(&self, nic: &str) -> Option<u32> {
        fs::read_to_string(self.root.join(CARDS).join(nic).join("ifindex")).ok()?.trim().parse().ok()
    }

    fn name_of(&self, number: u32) -> Option<String> {
        let cards = fs::read_dir(self.root.join(CARDS)).ok()?;
        let mut names = cards.flatten().filter_map(|card| card.file_name().into_string().ok());
        names.find(|name| self.number_of(name) == Some(number))
    }

    fn interrupts(&self) -> Vec<InterruptLine> {
        interrupts::parse(&fs::read_to_string(self.root.join("proc/interrupts")).unwrap_or_default())
    }

    fn lists_interrupt(&self, device: &str, number: u32) -> bool {
        interrupts::lists(&self.root.join(device), number)
    }

    fn is_unused(&self, number: u32) -> bool {
        let names = fs::read_to_string(self.root.join(format!("sys/kernel/irq/{number}/actions")));
        names.is_ok_and(|names| names.trim().is_empty())
    }
}

/// The folder of cards, below a root.
const CARDS: &str = "sys/class/net";

impl System<'_> {
    /// If the wanted table is the driver's default, the default is restored and nothing is written,
    /// because a card with an explicit table refuses to have fewer queues than the table names.
    fn set_table(&self, nic: &str, raw: &str) -> io::Result<()> {
        let table = raw.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>();
        let table = table.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        if self.kernel.set_rss(nic, &[]).is_ok() && self.kernel.rss(nic)? == table {
            return Ok(());
        }
        self.kernel.set_rss(nic, &table)
    }
}

/// The settings that no longer exist and so were not restored, as the end of a sentence; empty if
/// there is none.
pub fn but_for(gone: &[Setting]) -> String {
    let names: Vec<String> = gone.iter().map(Setting::to_string).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", except settings that no longer exist: {}", names.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_meaning() {
        let xps = Setting::Xps { nic: "eth0".into(), queue: 1 };
        assert_eq!(xps.canonical("00000000,0000000f\n"), "0-3");
        assert_eq!(xps.raw("0-3"), "f");
        assert_eq!(xps.raw(""), "0");
        assert_eq!(xps.describe(&xps.canonical("00")), "none");
        assert_eq!(Setting::FlowTable.canonical("32768\n"), "32768");
        assert_eq!(xps.to_string(), "eth0 tx-1 xps_cpus");
    }

    #[test]
    fn tables_are_put_into_words() {
        let rss = Setting::Rss { nic: "eth0".into() };
        assert_eq!(rss.describe("0 1 2 0 1 2 0 1"), "even over 3 queues");
        assert_eq!(rss.describe("0 0 0 1"), "uneven over 2 queues");
        assert_eq!(even_over(&[1, 1]), None, "queue 0 is left out");
        assert_eq!(even_over(&[]), None);
    }
}
