//! Selects the cpu of a packet in front of the stack: an XDP program that hashes flows to cpus.
//!
//! For cards with one queue, in place of receive packet steering. Contains the attachment, by a
//! link that the kernel removes when the process ends for any reason, the counts, and the check for
//! checksums that a driver has lost. Leaves out the decision whether this pays (`compare.rs`).
//! Tested here, packet by packet if allowed, and with real traffic through the command.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vermeil_topology::{CpuId, CpuSet};

use crate::bpf::{self, MapKind, Mappable, ProgramKind, XdpPlace};
use crate::drops::{Drops, PacketDrops};
use crate::meter::possible_cpus;
use crate::{Nic, SteerError};

/// Packets that may wait for a cpu; further packets are dropped. As in the kernel's example
/// (`xdp_redirect_cpu`).
const WAITING_MAX: u32 = 2048;

/// Wrong checksums of a window that count as lost packets. Single packets are damaged on any
/// network. A driver that loses checksums reaches the number when four connections try twice.
const WRONG_MIN: u64 = 8;

/// Steered packets of a window that count as lost if none arrives. A client alone tries a
/// connection seven times only (`tcp_syn_retries`), so its tries never reach [`WRONG_MIN`].
const ALL_WRONG_MIN: u64 = 2;

/// Steered packets that end a window. So the packets of an hour without damage do not hide a loss
/// that begins afterwards.
const WINDOW_PACKETS: u64 = 1_000;

/// The position of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramPosition {
    /// In the driver, before the kernel builds any structure for the packet.
    Native,
    /// In the stack, before any other processing.
    Generic,
}

/// The requested position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaceChoice {
    /// The driver, if the driver supports XDP and the packets are complete; the stack otherwise.
    #[default]
    Auto,
    /// Only this position.
    Only(ProgramPosition),
}

/// Packet counts since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Classified {
    /// Passed up on the same cpu: no flow of TCP or UDP, or a fragment.
    pub unsteered: u64,
    /// Passed to a cpu, by cpu.
    pub steered: Vec<(CpuId, u64)>,
    /// Dropped on the way to a cpu; `None` if not countable.
    pub dropped: Option<PacketDrops>,
    /// The reason why drops are not countable.
    pub not_measurable: Option<String>,
}

impl Classified {
    /// Passed to any cpu.
    pub fn all_steered(&self) -> u64 {
        self.steered.iter().map(|(_, count)| count).sum()
    }
}

/// Classifies the packets of a card until dropped.
#[derive(Debug)]
pub struct Classifier {
    cpus: Vec<CpuId>,
    place: ProgramPosition,
    counts: OwnedFd,
    drops: Result<Drops, String>,
    possible: usize,
    _link: OwnedFd,
}

/// A loaded program, not attached.
#[derive(Debug)]
struct LoadedProgram {
    program: OwnedFd,
    queues: OwnedFd,
    counts: OwnedFd,
}

impl Classifier {
    /// Starts to spread the flows that `nic` receives over `cpus`, at least one cpu.
    ///
    /// # Errors
    /// [`SteerError::Classify`], with the reason; nothing has changed in this case.
    pub fn attach(nic: &Nic, cpus: &CpuSet, choice: PlaceChoice) -> Result<Self, SteerError> {
        let cpus: Vec<CpuId> = cpus.iter().collect();
        let possible = possible_cpus().unwrap_or(1);
        let made = Self::load(&cpus, &bpf::CLASSIFY).and_then(|LoadedProgram { program, queues, counts }| {
            // Counts from the first packet on.
            let drops = Drops::start(queues.as_fd(), possible);
            let attach = |place| {
                let flag =
                    if place == ProgramPosition::Native { XdpPlace::Native } else { XdpPlace::Generic };
                bpf::attach_xdp(nic.index, flag, program.as_fd()).map(|link| (link, place))
            };
            let attached = match choice {
                PlaceChoice::Only(place) => attach(place),
                // Local packets have no checksums there, and lose the mark that says so.
                PlaceChoice::Auto if nic.driver == "veth" => attach(ProgramPosition::Generic),
                PlaceChoice::Auto => {
                    attach(ProgramPosition::Native).or_else(|error| match error.raw_os_error() {
                        Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EEXIST) => Err(error),
                        _ => attach(ProgramPosition::Generic),
                    })
                }
            };
            attached.map(|(link, place)| Self { cpus, place, counts, drops, possible, _link: link })
        });
        made.map_err(|source| SteerError::Classify { nic: nic.name.clone(), source })
    }

    /// The program and its maps.
    fn load(cpus: &[CpuId], instructions: &[u64]) -> io::Result<LoadedProgram> {
        let count = cpus.len() as u32;
        let entries = cpus.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(1);
        let queues = bpf::create_map(MapKind::Cpus, 4, entries, Mappable::No)?;
        let choices = bpf::create_map(MapKind::Array, 4, count, Mappable::No)?;
        let counts = bpf::create_map(MapKind::ArrayPerCpu, 8, count + 1, Mappable::No)?;
        for (choice, cpu) in (0..).zip(cpus) {
            bpf::update(queues.as_fd(), cpu.0, &WAITING_MAX.to_ne_bytes())?;
            bpf::update(choices.as_fd(), choice, &cpu.0.to_ne_bytes())?;
        }
        let seed = RandomState::new().hash_one(count) as u32;
        let maps = [queues.as_fd(), choices.as_fd(), counts.as_fd()];
        let program = bpf::load(ProgramKind::Xdp, instructions, &maps, &[count, seed])?;
        Ok(LoadedProgram { program, queues, counts })
    }

    /// The position of the program.
    pub fn place(&self) -> ProgramPosition {
        self.place
    }

    /// The counts.
    pub fn counts(&self) -> Classified {
        let count = |which| bpf::sum(self.counts.as_fd(), which, self.possible);
        let steered = self.cpus.iter().zip(1..).map(|(&cpu, which)| (cpu, count(which))).collect();
        Classified {
            unsteered: count(0),
            steered,
            dropped: self.drops.as_ref().ok().map(Drops::counts),
            not_measurable: self.drops.as_ref().err().cloned(),
        }
    }
}

/// Watches whether classified packets are lost.
///
/// A driver may lose the mark that a packet's checksum is still to be computed. Then all packets of
/// a local sender are dropped. So several wrong checksums, more than half of the steered packets of
/// a window, end the classification. So do two packets of a window in which no packet arrives.
#[derive(Debug)]
pub struct ChecksumWatch {
    root: PathBuf,
    /// Wrong checksums at the start of the window.
    wrong: u64,
    /// Steered packets at the start of the window.
    steered: u64,
}

impl ChecksumWatch {
    /// Begins with the classifier that the caller attaches next.
    pub fn start(root: &Path) -> Self {
        Self { root: root.to_owned(), wrong: wrong_checksums(root), steered: 0 }
    }

    /// Compares the counts of the present window.
    ///
    /// # Errors
    /// [`SteerError::Checksums`] if packets are lost. The caller must stop.
    pub fn look(&mut self, nic: &Nic, classifier: &Classifier) -> Result<(), SteerError> {
        match self.lost(wrong_checksums(&self.root), classifier.counts().all_steered()) {
            Some(wrong) => {
                Err(SteerError::Checksums { nic: nic.name.clone(), driver: nic.driver.clone(), wrong })
            }
            None => Ok(()),
        }
    }

    /// The wrong checksums of the window, if they count as lost packets. The arguments are the
    /// counts since the start.
    fn lost(&mut self, wrong: u64, steered: u64) -> Option<u64> {
        let wrong_here = wrong.saturating_sub(self.wrong);
        let steered_here = steered.saturating_sub(self.steered);
        let most = wrong_here >= WRONG_MIN && 2 * wrong_here > steered_here;
        let all = steered_here >= ALL_WRONG_MIN && wrong_here >= steered_here;
        if most || all {
            return Some(wrong_here);
        }
        if steered_here >= WINDOW_PACKETS {
            (self.wrong, self.steered) = (wrong, steered);
        }
        None
    }
}

/// Number of TCP and UDP packets that this network namespace dropped because of wrong checksums.
fn wrong_checksums(root: &Path) -> u64 {
    let text = fs::read_to_string(root.join("proc/net/snmp")).unwrap_or_default();
    let mut lines = text.lines();
    let mut sum = 0;
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        if names.starts_with("Tcp:") || names.starts_with("Udp:") {
            let pairs = names.split(' ').zip(values.split(' '));
            let wrong = pairs.filter(|(name, _)| *name == "InCsumErrors");
            sum += wrong.filter_map(|(_, value)| value.parse::<u64>().ok()).sum::<u64>();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CardKind;

    #[test]
    fn a_card_that_is_not_there_is_named() {
        let nic = Nic {
            name: "gone0".into(),
            index: u32::MAX >> 1,
            driver: String::new(),
            kind: CardKind::Software,
            node: None,
            up: false,
            rx: Vec::new(),
            tx: Vec::new(),
            channels: None,
            rss: None,
            adaptive: None,
            polling: crate::CardPolling::default(),
        };
        let error = Classifier::attach(&nic, &CpuSet::from_iter([CpuId(0)]), PlaceChoice::Auto).unwrap_err();
        assert!(error.to_string().contains("gone0"), "{error}");
    }

    /// The classifier without its last instruction.
    #[test]
    fn refusal_quotes_verifier() {
        let cpus = [CpuId(0)];
        if Classifier::load(&cpus, &bpf::CLASSIFY).is_err() {
            return eprintln!("SKIPPED: no programs of XDP may be loaded here");
        }
        let mut altered = bpf::CLASSIFY;
        let does_nothing = 0xb7;
        altered[altered.len() - 1] = does_nothing;
        let error = Classifier::load(&cpus, &altered).unwrap_err().to_string();
        assert_eq!(error, "the kernel's verifier refuses the program: last insn is not an exit or jmp");
    }

    const TCP: u8 = 6;
    const UDP: u8 = 17;

    /// A packet with this number of VLAN tags, and `rest` behind the type.
    fn ethernet(tags: usize, kind: u16, rest: &[u8]) -> Vec<u8> {
        let tags = [0x81, 0, 0, 7].repeat(tags);
        [&[2; 12], &tags[..], &kind.to_be_bytes(), rest].concat()
    }

    fn ipv4(protocol: u8, fragment: u16, options: usize, ports: [u16; 2]) -> Vec<u8> {
        let mut head = vec![0; 20 + 4 * options];
        head[0] = 0x45 + options as u8;
        head[6..8].copy_from_slice(&fragment.to_be_bytes());
        head[9] = protocol;
        head[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        [head, ports[0].to_be_bytes().to_vec(), ports[1].to_be_bytes().to_vec()].concat()
    }

    fn ipv6(next: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut head = vec![0; 40];
        (head[0], head[6], head[23], head[39]) = (0x60, next, 1, 2);
        [head, ports[0].to_be_bytes().to_vec(), ports[1].to_be_bytes().to_vec()].concat()
    }

    /// The program's verdicts, for packets of every kind and every length.
    #[test]
    fn only_flows_are_handed_on() {
        const PASS: u32 = 2;
        const REDIRECT: u32 = 4;
        let Ok(LoadedProgram { program, counts, .. }) = Classifier::load(&[CpuId(0)], &bpf::CLASSIFY) else {
            return eprintln!("SKIPPED: no programs of XDP may be loaded here");
        };
        let said = |packet: &[u8]| bpf::try_xdp(program.as_fd(), packet).expect("it runs");
        let ports = [1234, 80];
        let flows = [
            ethernet(0, 0x0800, &ipv4(TCP, 0x4000, 0, ports)),
            ethernet(0, 0x0800, &ipv4(UDP, 0, 10, ports)),
            ethernet(2, 0x0800, &ipv4(TCP, 0, 0, ports)),
            ethernet(0, 0x86dd, &ipv6(TCP, ports)),
            ethernet(1, 0x86dd, &ipv6(UDP, ports)),
        ];
        let mut passed = 0;
        for flow in &flows {
            assert_eq!(said(flow), REDIRECT, "{flow:02x?}");
            for length in 14..flow.len() {
                assert_eq!(said(&flow[..length]), PASS, "cut after {length}: {flow:02x?}");
                passed += 1;
            }
        }
        let others = [
            ethernet(0, 0x0806, &[0; 40]),
            ethernet(3, 0x0800, &ipv4(TCP, 0, 0, ports)),
            ethernet(0, 0x0800, &ipv4(1, 0, 0, ports)),
            ethernet(0, 0x0800, &ipv4(TCP, 0x2000, 0, ports)),
            ethernet(0, 0x0800, &ipv4(UDP, 0x00b9, 0, ports)),
            ethernet(0, 0x86dd, &ipv6(44, ports)),
        ];
        for other in &others {
            assert_eq!(said(other), PASS, "{other:02x?}");
        }
        assert_eq!(bpf::sum(counts.as_fd(), 0, possible_cpus().unwrap()), (passed + others.len()) as u64);
    }

    /// Many flows, several cpus: every cpu is chosen, and a flow stays on its cpu.
    #[test]
    fn flows_are_spread_evenly() {
        let count = possible_cpus().unwrap_or(1).min(2) as u32;
        let cpus: Vec<CpuId> = (0..count).map(CpuId).collect();
        let Ok(LoadedProgram { program, counts, .. }) = Classifier::load(&cpus, &bpf::CLASSIFY) else {
            return eprintln!("SKIPPED: no programs of XDP may be loaded here");
        };
        let flow = |port| ethernet(0, 0x0800, &ipv4(TCP, 0, 0, [port, 80]));
        let send = |port| bpf::try_xdp(program.as_fd(), &flow(port)).expect("it runs");
        assert!((0..1000).all(|port| send(port) == 4), "XDP_REDIRECT");
        let steered = |which: u32| bpf::sum(counts.as_fd(), which, possible_cpus().unwrap());
        let shares: Vec<u64> = (1..=count).map(steered).collect();
        assert_eq!(shares.iter().sum::<u64>(), 1000);
        // Seven standard deviations of even chances.
        assert!(shares.iter().all(|&share| share >= 1000 / u64::from(count) - 111), "{shares:?}");
        assert!((0..10).all(|_| send(7) == 4), "XDP_REDIRECT");
        let again: Vec<u64> = (1..=count).map(steered).collect();
        assert_eq!(shares.iter().zip(&again).filter(|(before, after)| before != after).count(), 1);
    }

    /// Regression: a single damaged packet ended the classification, and a long time without damage
    /// hid a loss.
    #[test]
    fn checksums_are_compared_within_a_window() {
        let folder = tempfile::tempdir().unwrap();
        let start = || ChecksumWatch::start(folder.path());
        assert_eq!(start().lost(1, 0), None, "a damaged packet before any other");
        assert_eq!(start().lost(WRONG_MIN - 1, 1), None);
        assert_eq!(start().lost(WRONG_MIN, 2 * WRONG_MIN), None, "half of the packets arrive");
        assert_eq!(start().lost(WRONG_MIN, 2 * WRONG_MIN - 1), Some(WRONG_MIN));
        let mut slow = start();
        assert_eq!((slow.lost(4, 5), slow.lost(WRONG_MIN, WRONG_MIN + 1)), (None, Some(WRONG_MIN)));
        let mut late = start();
        assert_eq!(late.lost(3, 1_000_000), None);
        assert_eq!(late.lost(3 + WRONG_MIN, 1_000_000 + WRONG_MIN), Some(WRONG_MIN));
    }

    /// Regression: the tries of a client alone, seven for a connection, ended nothing.
    #[test]
    fn two_lost_packets_end_window_without_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut alone = ChecksumWatch::start(folder.path());
        assert_eq!((alone.lost(1, 1), alone.lost(2, 2)), (None, Some(2)));
        let mut beside = ChecksumWatch::start(folder.path());
        assert_eq!((beside.lost(2, 0), beside.lost(2, 3)), (None, None));
    }

    #[test]
    fn wrong_checksums_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(wrong_checksums(folder.path()), 0);
        fs::create_dir_all(folder.path().join("proc/net")).unwrap();
        let text = "Ip: Forwarding InCsumErrors\nIp: 1 9\nTcp: InSegs InCsumErrors\nTcp: 70 3\nUdp: InCsumErrors\nUdp: 2\n";
        fs::write(folder.path().join("proc/net/snmp"), text).unwrap();
        assert_eq!(wrong_checksums(folder.path()), 5);
    }
}
