//! Two hosts in network namespaces, connected by a pair of virtual cards; the server's card
//! receives in one of several ways.
//!
//! A virtual card polls (NAPI) only if the card joins packets (GRO) and the other side does not
//! send joined packets. Then the kernel polls the card in threads, one for each queue, and the
//! threads can be pinned and given a priority (Documentation/networking/napi.rst). This bed
//! therefore decides the cpu that handles a packet, and not the sender. `Drop` always removes
//! everything that was made here, and nothing else.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::machine::BenchCpus;
use crate::network::{BenchNamespace, ip, run};
use crate::{BenchError, BenchResult};

/// The addresses of the server and of the load, from the block for tests of network devices (RFC
/// 2544).
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Where the web server listens: ports belong to the namespace.
const PORT: u16 = 80;
/// The load's card. The server's card has our process id in its name, because its polling threads
/// are named after the card and all namespaces share the threads.
const CLIENT_CARD: &str = "knet-client";
/// The time that the kernel may take to start a thread.
const THREADS_PATIENCE: Duration = Duration::from_secs(10);

/// A way of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnetReceiving {
    /// One queue, polled on the first cpu.
    Napi,
    /// As `Napi`, and the kernel distributes the packets to all cpus by a hash of their addresses
    /// (RPS).
    Clas,
    /// As many queues as cpus; the sender chooses the queue as a classifying card would. Each queue
    /// is polled by a thread on its cpu.
    Knet,
}

impl KnetReceiving {
    /// All ways, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Napi, Self::Clas, Self::Knet];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Napi => "NAPI",
            Self::Clas => "CLAS",
            Self::Knet => "KNET",
        }
    }

    /// The server's rule for the core of a connection: by the cpu of the connection's packets where
    /// packets come to all cpus.
    pub fn balance(self) -> &'static str {
        match self {
            Self::Napi => "hash",
            Self::Clas | Self::Knet => "local",
        }
    }

    fn queues(self) -> usize {
        if self == Self::Knet { 2 } else { 1 }
    }
}

/// The priority of receiving, relative to other work on the same cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Before everything else (`SCHED_FIFO`), as interrupts were.
    RealTime,
    /// As everything else.
    Default,
    /// After the server: nice 10.
    Below,
}

impl Urgency {
    /// All priorities, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::RealTime, Self::Default, Self::Below];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::Default => "default",
            Self::Below => "below the server",
        }
    }
}

/// The two hosts.
#[derive(Debug)]
pub struct Bed {
    /// The server's.
    pub(super) server: BenchNamespace,
    /// The load's.
    pub(super) client: BenchNamespace,
    card: String,
    /// The threads that poll the server's card.
    threads: Vec<u32>,
}

/// Checks that hosts can be made here, by making hosts.
///
/// # Errors
/// The reason why not.
pub fn can_be_made(cpus: BenchCpus) -> BenchResult<()> {
    Bed::new(KnetReceiving::Knet, cpus).map(|_bed| ())
}

impl Bed {
    /// Makes the hosts. Needs the rights of root, `ip` and `ethtool`.
    ///
    /// # Errors
    /// A step is refused; everything made until then is removed.
    pub fn new(receiving: KnetReceiving, cpus: BenchCpus) -> BenchResult<Self> {
        let (server, client) = (BenchNamespace::new("server")?, BenchNamespace::new("client")?);
        let card = format!("kn{}", std::process::id());
        let mut bed = Self { server, client, card, threads: Vec::new() };
        bed.connect(receiving)?;
        bed.have_polled()?;
        let all = [cpus.server, cpus.client];
        for (&thread, cpu) in bed.threads.iter().zip(all) {
            run(Command::new("taskset").args(["-p", "-c", &cpu.to_string(), &thread.to_string()]))?;
        }
        if receiving == KnetReceiving::Clas {
            let queue = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", bed.card);
            bed.on_server(&format!("echo {} > {queue}", mask_of(all)))?;
        }
        Ok(bed)
    }

    fn connect(&self, receiving: KnetReceiving) -> BenchResult<()> {
        let (server, client, queues) =
            (self.server.name(), self.client.name(), receiving.queues().to_string());
        let many = ["numtxqueues", &queues, "numrxqueues", &queues];
        let ours =
            ["link", "add", &self.card, "netns", server].into_iter().chain(many).chain(["type", "veth"]);
        ip(ours.chain(["peer", "name", CLIENT_CARD, "netns", client]).chain(many))?;
        for (side, card, address) in [(server, self.card.as_str(), SERVER), (client, CLIENT_CARD, CLIENT)] {
            ip(["-n", side, "address", "add", &format!("{address}/30"), "dev", card])?;
            ip(["-n", side, "link", "set", "lo", "up"])?;
            ip(["-n", side, "link", "set", card, "up"])?;
        }
        Ok(())
    }

    /// Makes the kernel poll the server's card in threads, and finds the threads.
    fn have_polled(&mut self) -> BenchResult<()> {
        ip(["netns", "exec", self.client.name(), "ethtool", "-K", CLIENT_CARD, "tso", "off"])?;
        ip(["netns", "exec", self.server.name(), "ethtool", "-K", &self.card, "gro", "on"])?;
        self.on_server(&format!("echo 1 > /sys/class/net/{}/threaded", self.card))?;
        let name = format!("napi/{}-", self.card);
        let deadline = Instant::now() + THREADS_PATIENCE;
        while self.threads.is_empty() {
            self.threads = named(&name)?;
            if Instant::now() > deadline {
                return Err(BenchError::form("the kernel", format!("polls {} in no thread", self.card)));
            }
        }
        Ok(())
    }

    fn on_server(&self, script: &str) -> BenchResult<()> {
        ip(["netns", "exec", self.server.name(), "sh", "-c", script])
    }

    /// Gives the polling threads a priority.
    ///
    /// # Errors
    /// Without the right to.
    pub fn make_receiving(&self, urgency: Urgency) -> BenchResult<()> {
        for thread in self.threads.iter().map(u32::to_string) {
            match urgency {
                Urgency::RealTime => run(Command::new("chrt").args(["-f", "-p", "50", &thread]))?,
                Urgency::Default => {}
                Urgency::Below => run(Command::new("renice").args(["-n", "10", "-p", &thread]))?,
            }
        }
        Ok(())
    }

    /// Where the web server listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((SERVER, PORT))
    }

    /// Where packets of the flood go.
    pub fn sink(&self) -> SocketAddr {
        SocketAddr::from((SERVER, PORT + 1))
    }

    /// The polling threads.
    pub fn threads(&self) -> &[u32] {
        &self.threads
    }

    /// Packets that the server's card has received and sent.
    ///
    /// # Errors
    /// When the card has gone.
    pub fn packets(&self) -> BenchResult<u64> {
        // The kernel shows the file of the reader's namespace.
        let text = self.server.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(BenchError::thing("read", "the cards' counters"))?;
        packets_of(&text, &self.card)
            .ok_or_else(|| BenchError::form("/proc/net/dev", format!("has no {}", self.card)))
    }
}

/// Packets received and sent by a card, from `/proc/net/dev`: bytes and packets come first on each
/// side (proc(5)).
fn packets_of(text: &str, card: &str) -> Option<u64> {
    let counts = text.lines().find_map(|line| line.trim_start().strip_prefix(card)?.strip_prefix(':'))?;
    let counts: Vec<u64> = counts.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some(counts.get(1)? + counts.get(9)?)
}

/// The kernel threads whose names begin with `start`.
fn named(start: &str) -> BenchResult<Vec<u32>> {
    let entries = fs::read_dir("/proc").map_err(BenchError::thing("read", "/proc"))?;
    let mut found: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            fs::read_to_string(entry.path().join("comm")).ok()?.starts_with(start).then_some(pid)
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// These cpus as the kernel's hexadecimal mask, in words of 32 bits.
fn mask_of(cpus: [usize; 2]) -> String {
    let words = cpus.into_iter().max().unwrap_or(0) / 32 + 1;
    let word = |at: usize| {
        let bits = cpus.iter().filter(|&&cpu| cpu / 32 == at).fold(0u32, |bits, cpu| bits | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_the_highest_first() {
        assert_eq!(mask_of([0, 1]), "00000003");
        assert_eq!(mask_of([1, 33]), "00000002,00000002");
    }

    #[test]
    fn packets_of_both_ways_are_added() {
        let text = "Inter-|   Receive   |  Transmit\n face |bytes packets errs\n\
                    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n kn12: 900 7 0 0 0 0 0 0 800 5 0 0 0 0 0 0\n";
        assert_eq!(packets_of(text, "kn12"), Some(12));
        assert_eq!(packets_of(text, "kn1"), None);
    }
}
