//! Data of a card that no file contains: from the kernel, or from a recording.
//!
//! Contains the trait ([`CardKernel`]) and two implementations: [`LiveKernel`] (ethtool's ioctl,
//! the netdev family of generic netlink) and [`RecordedCard`], which reads text files from a
//! folder, so that plans can be made for a machine that is not here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Channels, Napi, ethtool, netlink};

/// Queries and commands for a card's driver.
pub trait CardKernel {
    /// The driver's name.
    ///
    /// # Errors
    /// `Unsupported` if the driver does not answer; otherwise the system's error.
    fn driver(&self, nic: &str) -> io::Result<String>;

    /// The number of queues.
    ///
    /// # Errors
    /// As [`CardKernel::driver`].
    fn channels(&self, nic: &str) -> io::Result<Channels>;

    /// Changes the number of queues; the link may go down for a moment.
    ///
    /// # Errors
    /// As [`CardKernel::driver`], and `PermissionDenied`.
    fn set_channels(&self, nic: &str, channels: &Channels) -> io::Result<()>;

    /// The receive queue of each slot of the hash table.
    ///
    /// # Errors
    /// As [`CardKernel::driver`].
    fn rss(&self, nic: &str) -> io::Result<Vec<u32>>;

    /// Replaces the hash table; an empty table restores the driver's default.
    ///
    /// # Errors
    /// As [`CardKernel::set_channels`].
    fn set_rss(&self, nic: &str, table: &[u32]) -> io::Result<()>;

    /// Whether the card adapts its receive interrupts to the load.
    ///
    /// # Errors
    /// As [`CardKernel::driver`].
    fn adaptive(&self, nic: &str) -> io::Result<bool>;

    /// Switches that adaptation on or off.
    ///
    /// # Errors
    /// As [`CardKernel::set_channels`].
    fn set_adaptive(&self, nic: &str, on: bool) -> io::Result<()>;

    /// The polling instances of the card with this number.
    ///
    /// # Errors
    /// `Unsupported` on kernels without the netdev family (before 6.8).
    fn napis(&self, index: u32) -> io::Result<Vec<Napi>>;
}

/// The running kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveKernel;

impl CardKernel for LiveKernel {
    fn driver(&self, nic: &str) -> io::Result<String> {
        ethtool::driver(nic)
    }

    fn channels(&self, nic: &str) -> io::Result<Channels> {
        ethtool::channels(nic)
    }

    fn set_channels(&self, nic: &str, channels: &Channels) -> io::Result<()> {
        ethtool::set_channels(nic, channels)
    }

    fn rss(&self, nic: &str) -> io::Result<Vec<u32>> {
        ethtool::rss(nic)
    }

    fn set_rss(&self, nic: &str, table: &[u32]) -> io::Result<()> {
        ethtool::set_rss(nic, table)
    }

    fn adaptive(&self, nic: &str) -> io::Result<bool> {
        netlink::adaptive(nic)
    }

    fn set_adaptive(&self, nic: &str, on: bool) -> io::Result<()> {
        netlink::set_adaptive(nic, on)
    }

    fn napis(&self, index: u32) -> io::Result<Vec<Napi>> {
        netlink::napis(index)
    }
}

/// A recording: `ethtool/NIC/driver`, `ethtool/NIC/channels` (the numbers in use and at most of rx,
/// tx, other and combined: `0 0 0 0 0 0 4 8`), `ethtool/NIC/rss` (queue numbers) and
/// `ethtool/NIC/adaptive` (0 or 1) below a folder. A missing file is a driver that does not answer.
#[derive(Debug, Clone)]
pub struct RecordedCard {
    folder: PathBuf,
}

impl RecordedCard {
    /// The recording below `root`, the same folder that stands for `/`.
    pub fn new(root: &Path) -> RecordedCard {
        RecordedCard { folder: root.join("ethtool") }
    }

    fn text(&self, nic: &str, what: &str) -> io::Result<String> {
        match fs::read_to_string(self.folder.join(nic).join(what)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(io::ErrorKind::Unsupported.into()),
            other => other,
        }
    }

    fn numbers(&self, nic: &str, what: &str) -> io::Result<Vec<u32>> {
        let text = self.text(nic, what)?;
        let numbers = text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>();
        numbers.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn write(&self, nic: &str, what: &str, numbers: &[u32]) -> io::Result<()> {
        self.text(nic, what)?;
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        fs::write(self.folder.join(nic).join(what), words.join(" "))
    }
}

impl CardKernel for RecordedCard {
    fn driver(&self, nic: &str) -> io::Result<String> {
        Ok(self.text(nic, "driver")?.trim().to_owned())
    }

    fn channels(&self, nic: &str) -> io::Result<Channels> {
        match self.numbers(nic, "channels")?[..] {
            [rx, rx_max, tx, tx_max, other, other_max, combined, combined_max] => Ok(Channels {
                rx: (rx, rx_max),
                tx: (tx, tx_max),
                other: (other, other_max),
                combined: (combined, combined_max),
            }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "channels are eight numbers")),
        }
    }

    fn set_channels(&self, nic: &str, channels: &Channels) -> io::Result<()> {
        let Channels { rx, tx, other, combined } = *channels;
        let numbers = [rx, tx, other, combined].map(|(now, max)| [now, max]).concat();
        self.write(nic, "channels", &numbers)
    }

    fn rss(&self, nic: &str) -> io::Result<Vec<u32>> {
        self.numbers(nic, "rss")
    }

    fn set_rss(&self, nic: &str, table: &[u32]) -> io::Result<()> {
        let queues = self.channels(nic)?.combined.0.max(1);
        let slots = self.rss(nic)?.len() as u32;
        let default: Vec<u32> = (0..slots).map(|slot| slot % queues).collect();
        self.write(nic, "rss", if table.is_empty() { &default } else { table })
    }

    fn adaptive(&self, nic: &str) -> io::Result<bool> {
        Ok(self.numbers(nic, "adaptive")?[..] == [1])
    }

    fn set_adaptive(&self, nic: &str, on: bool) -> io::Result<()> {
        self.write(nic, "adaptive", &[on.into()])
    }

    fn napis(&self, _index: u32) -> io::Result<Vec<Napi>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
