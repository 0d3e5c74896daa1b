//! Clocks and counters of this process and this machine, read at both ends of the window.
//!
//! The readings show the injector's resources, and whether the server was not the limit: the
//! hypervisor took time, a network card was at its speed, or the network lost segments. An
//! unreadable counter is no error and counts as no limit. Tested here.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::pulse::CpuNs;

/// Readings of one moment.
pub(super) struct Readings {
    at: Instant,
    pub(super) process: Duration,
    cores_ns: Vec<u64>,
    /// Ticks of the injector's cpus that the hypervisor stole, and all ticks.
    stolen: (u64, u64),
    cards: Vec<NetworkCard>,
    /// Retransmitted TCP segments, and all sent segments, of this network namespace.
    resent: (u64, u64),
}

/// A network card with a known speed.
#[derive(Debug, PartialEq)]
struct NetworkCard {
    name: String,
    bits_per_second: f64,
    bytes: [u64; 2],
}

impl Readings {
    /// Reads all; `cpus` are the cpus of the cores.
    pub(super) fn take(cpu_ns: &CpuNs, cpus: &[usize]) -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            at: Instant::now(),
            process: Duration::new(used.tv_sec as u64, used.tv_nsec as u32),
            cores_ns: cpu_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).collect(),
            stolen: stolen_ticks(&read("/proc/stat"), cpus),
            cards: cards(Path::new("/sys/class/net")),
            resent: resent_segments(&read("/proc/net/snmp")),
        }
    }

    /// The busy share, 0 to 1, of each core since an `earlier` reading.
    pub(super) fn busy_since(&self, earlier: &Self) -> Vec<f64> {
        let passed = (self.at - earlier.at).as_nanos().max(1) as f64;
        let used = |(now, before): (&u64, &u64)| (now.saturating_sub(*before) as f64 / passed).min(1.0);
        self.cores_ns.iter().zip(&earlier.cores_ns).map(used).collect()
    }

    /// The share, 0 to 1, of the time of the injector's cpus that the hypervisor gave to other
    /// machines.
    pub(super) fn stolen_since(&self, earlier: &Self) -> f64 {
        share((self.stolen.0, earlier.stolen.0), (self.stolen.1, earlier.stolen.1))
    }

    /// The share, 0 to 1, of retransmitted TCP segments.
    pub(super) fn resent_since(&self, earlier: &Self) -> f64 {
        share((self.resent.0, earlier.resent.0), (self.resent.1, earlier.resent.1))
    }

    /// The card with the highest share of its speed, and that share (0 to 1).
    pub(super) fn card_since(&self, earlier: &Self) -> Option<(String, f64)> {
        let seconds = (self.at - earlier.at).as_secs_f64().max(1e-9);
        let used = self.cards.iter().filter_map(|card| {
            let before = earlier.cards.iter().find(|before| before.name == card.name)?;
            let bytes =
                (0..2).map(|way| card.bytes[way].saturating_sub(before.bytes[way])).max().unwrap_or(0);
            Some((card.name.clone(), bytes as f64 * 8.0 / seconds / card.bits_per_second))
        });
        used.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

fn share(part: (u64, u64), whole: (u64, u64)) -> f64 {
    let whole = whole.0.saturating_sub(whole.1);
    if whole == 0 { 0.0 } else { part.0.saturating_sub(part.1) as f64 / whole as f64 }
}

/// Stolen ticks and all ticks of `cpus`, from `/proc/stat` (proc(5)).
fn stolen_ticks(stat: &str, cpus: &[usize]) -> (u64, u64) {
    let mut sums = (0, 0);
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let cpu: Option<usize> = words.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if !cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
            continue;
        }
        // Guest time, the column after steal, is already a part of user time.
        let ticks: Vec<u64> = words.take(8).map(|tick| tick.parse().unwrap_or(0)).collect();
        sums.0 += ticks.get(7).copied().unwrap_or(0);
        sums.1 += ticks.iter().sum::<u64>();
    }
    sums
}

/// Retransmitted and all sent segments, from the two lines of TCP in `/proc/net/snmp`: names, then
/// values.
fn resent_segments(snmp: &str) -> (u64, u64) {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return (0, 0) };
    let value = |name: &str| {
        let at = names.split_whitespace().position(|other| other == name)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    (value("RetransSegs").unwrap_or(0), value("OutSegs").unwrap_or(0))
}

/// The cards below `folder` with a known speed. Loopback and virtual cards have no speed.
fn cards(folder: &Path) -> Vec<NetworkCard> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let card = |entry: fs::DirEntry| {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(entry.path().join(file)).ok()?.trim().parse().ok()
        };
        // A card without a link reads -1, which is not a u64.
        let megabits = number("speed").filter(|&speed| speed > 0)?;
        Some(NetworkCard {
            name: entry.file_name().to_string_lossy().into_owned(),
            bits_per_second: megabits as f64 * 1e6,
            bytes: [number("statistics/rx_bytes")?, number("statistics/tx_bytes")?],
        })
    };
    entries.flatten().filter_map(card).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the cpus that the injector does not use diluted the stolen share.
    #[test]
    fn steal_is_the_eighth_of_the_ticks_of_own_cpus() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 100\ncpu12 1 1 1 1 1 1 1 1\nintr 1\n";
        assert_eq!(stolen_ticks(stat, &[0]), (8, 36));
        assert_eq!(stolen_ticks(stat, &[0, 12]), (9, 44));
        assert_eq!(stolen_ticks("", &[0]), (0, 0));
    }

    #[test]
    fn segments_sent_again_are_found_by_name() {
        let snmp = "Ip: A\nIp: 1\nTcp: X OutSegs RetransSegs\nTcp: 7 100 3\n";
        assert_eq!(resent_segments(snmp), (3, 100));
        assert_eq!(resent_segments("Tcp: X\n"), (0, 0));
    }

    #[test]
    fn only_cards_with_a_speed_count() {
        let folder = std::env::temp_dir().join(format!("vermeil-load-cards-{}", std::process::id()));
        for (card, speed) in [("lo", None), ("eth0", Some("1000\n")), ("eth1", Some("-1\n"))] {
            let statistics = folder.join(card).join("statistics");
            fs::create_dir_all(&statistics).unwrap();
            fs::write(statistics.join("rx_bytes"), "5\n").unwrap();
            fs::write(statistics.join("tx_bytes"), "6\n").unwrap();
            if let Some(speed) = speed {
                fs::write(folder.join(card).join("speed"), speed).unwrap();
            }
        }
        let found = cards(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [NetworkCard { name: "eth0".into(), bits_per_second: 1e9, bytes: [5, 6] }]);
    }
}
