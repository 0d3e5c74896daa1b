//! Verifies steering under the present traffic: reads on the cpu that handled the packets
//! (`meter.rs`), wake-ups of the reading threads (`wakes.rs`), interrupts per packet, and settings
//! that differ from the plan.
//!
//! Contains the two samples and their difference. Leaves out waiting in between, and traffic. If a
//! measurement is impossible, the result says so in words, and never guesses. Tested on recorded
//! trees here, under traffic through the command.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::wakes::{CpuWakes, Wakes};
use crate::{CardNetwork, Meter, Reads, Setting, Settings, StateStore, SteerError, interrupts};

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// Duration.
    pub seconds: f64,
    /// Share of reads, 0 to 1, by the cpu that had handled the packets; `None` without traffic, or
    /// without a meter.
    pub here_share: Option<f64>,
    /// The reads by reading cpu.
    pub reads: Vec<Reads>,
    /// The reason why reads could not be counted, if so.
    pub not_measurable: Option<String>,
    /// Share of wake-ups of reading threads, 0 to 1, by the cpu of the sleeping thread; `None`
    /// without any, or if not counted.
    pub own_wakes_share: Option<f64>,
    /// The wake-ups by waking cpu.
    pub woken: Vec<CpuWakes>,
    /// The reason why wake-ups could not be counted, if so.
    pub wakes_not_measurable: Option<String>,
    /// Per card.
    pub nics: Vec<CardTraffic>,
    /// Settings of the plan in force that another program has changed since.
    pub drifted: Vec<Drift>,
    /// The reason why the plan in force could not be read, if a right is missing.
    pub drift_not_measurable: Option<String>,
}

/// The received traffic of a card.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CardTraffic {
    /// The card.
    pub nic: String,
    /// Packets received.
    pub packets: u64,
    /// Interrupts of the card's queues, both directions.
    pub interrupts: u64,
    /// Interrupts per receive queue, for queues whose interrupt is known.
    pub queues: Vec<(u32, u64)>,
}

/// A setting that differs from the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The setting.
    pub setting: Setting,
    /// The planned value, canonical.
    pub planned: String,
    /// The present value, canonical.
    pub found: String,
}

/// Counters at one moment.
struct CounterReading {
    interrupts: BTreeMap<u32, u64>,
    packets: Vec<u64>,
}

/// Measures while `traffic` runs.
///
/// # Errors
/// [`SteerError::State`] if the state in force cannot be read, although this user may.
pub fn verify(
    root: &Path,
    network: &CardNetwork,
    settings: &dyn Settings,
    store: &StateStore,
    port: Option<u16>,
    traffic: &mut dyn FnMut() -> Duration,
) -> Result<Verified, SteerError> {
    let (drifted, drift_not_measurable) = where_permitted(drifted(settings, store))?;
    let meter = Meter::start(port);
    let wakes = meter.as_ref().map_err(String::clone).and_then(Wakes::start);
    let before = CounterReading::take(root, network);
    let time = traffic();
    let after = CounterReading::take(root, network);
    let reads = meter.as_ref().map(Meter::reads).unwrap_or_default();
    let woken = wakes.as_ref().map(Wakes::woken).unwrap_or_default();
    Ok(Verified {
        seconds: time.as_secs_f64(),
        here_share: share(reads.iter().map(|reads| (reads.here, reads.elsewhere))),
        reads,
        own_wakes_share: share(woken.iter().map(|woken| (woken.here, woken.elsewhere))),
        woken,
        wakes_not_measurable: wakes.err(),
        not_measurable: meter.err(),
        nics: difference(network, &before, &after),
        drifted,
        drift_not_measurable,
    })
}

/// The share of the first counts in all counts.
pub(crate) fn share(counts: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (here, all) =
        counts.fold((0, 0), |(sum, all), (here, elsewhere)| (sum + here, all + here + elsewhere));
    (all > 0).then(|| here as f64 / all as f64)
}

impl CounterReading {
    fn take(root: &Path, network: &CardNetwork) -> CounterReading {
        let table = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
        let packets = network.nics.iter().map(|nic| {
            let path = root.join(format!("sys/class/net/{}/statistics/rx_packets", nic.name));
            fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        });
        CounterReading {
            interrupts: interrupts::parse(&table).into_iter().map(|line| (line.number, line.count)).collect(),
            packets: packets.collect(),
        }
    }
}

fn difference(network: &CardNetwork, before: &CounterReading, after: &CounterReading) -> Vec<CardTraffic> {
    let count = |look: &CounterReading, irq: u32| look.interrupts.get(&irq).copied().unwrap_or(0);
    let since = |irq: u32| count(after, irq).saturating_sub(count(before, irq));
    let packets =
        after.packets.iter().zip(&before.packets).map(|(after, before)| after.saturating_sub(*before));
    let traffic = network.nics.iter().zip(packets).map(|(nic, packets)| {
        let rx = nic.rx.iter().filter_map(|rx| Some((rx.queue, since(rx.irq.as_ref()?.number))));
        let queues: Vec<(u32, u64)> = rx.collect();
        let tx = nic.tx.iter().filter_map(|tx| Some(since(tx.irq.as_ref()?.number)));
        let interrupts = tx.sum::<u64>() + queues.iter().map(|(_, count)| count).sum::<u64>();
        CardTraffic { nic: nic.name.clone(), packets, interrupts, queues }
    });
    traffic.filter(|traffic| traffic.packets + traffic.interrupts > 0).collect()
}

fn drifted(settings: &dyn Settings, store: &StateStore) -> Result<Vec<Drift>, SteerError> {
    let Some(state) = store.load()? else { return Ok(Vec::new()) };
    let drift = state.saved.iter().filter_map(|saved| {
        let planned = saved.planned.clone()?;
        let Some(setting) = saved.setting_now(settings, &state.cards) else {
            let found = "no longer exists".to_owned();
            return Some(Drift { setting: saved.setting.clone(), planned, found });
        };
        let found = match settings.get(&setting) {
            Ok(raw) => setting.canonical(&raw),
            Err(error) => format!("unreadable: {error}"),
        };
        (found != planned).then_some(Drift { setting, planned, found })
    });
    Ok(drift.collect())
}

/// The drift, or the reason why this user cannot see the plan in force.
fn where_permitted(
    drifted: Result<Vec<Drift>, SteerError>,
) -> Result<(Vec<Drift>, Option<String>), SteerError> {
    match drifted {
        Err(error) if error.is_missing_right() => Ok((Vec::new(), Some(error.to_string()))),
        drifted => Ok((drifted?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;
    use crate::{Saved, System};

    /// Regression: without the right to read the plan in force, nothing was measured, and the cure
    /// was another folder.
    #[test]
    fn missing_right_leaves_other_measurements() {
        let failure = |kind: std::io::ErrorKind| {
            let path = "/run/vermeil/steer.json".into();
            Err(SteerError::State { doing: "read", path, source: kind.into() })
        };
        let (drifted, why) = where_permitted(failure(std::io::ErrorKind::PermissionDenied)).unwrap();
        let why = why.expect("a reason");
        assert!(drifted.is_empty() && why.ends_with("; run as root"), "{why}");
        let error = where_permitted(failure(std::io::ErrorKind::InvalidData)).unwrap_err().to_string();
        assert!(error.ends_with("; choose another folder with --state"), "{error}");
    }

    #[test]
    fn counters_are_compared_and_drift_is_seen() {
        let tree = Tree::of("one-queue");
        let (network, kernel, folder) = (tree.network(), tree.kernel(), tempfile::tempdir().unwrap());
        let system = System { root: tree.path().to_owned(), kernel: &kernel };
        let store = StateStore::new(folder.path(), tree.path());
        let setting = Setting::Rps { nic: "eth0".into(), queue: 0 };
        let saved = Saved {
            setting: setting.clone(),
            before: Some("0".into()),
            planned: Some("0-1".into()),
            owner: None,
        };
        let _lock = store.lock().unwrap();
        store.save(&store.begin(None, vec![saved], Default::default())).unwrap();
        let packets = "sys/class/net/eth0/statistics/rx_packets";
        tree.write(packets, "1000");
        let verified = verify(tree.path(), &network, &system, &store, Some(1), &mut || {
            tree.write(packets, "1040");
            tree.write("proc/interrupts", "CPU0 CPU1\n38: 7 3 virtio2-input.0\n39: 0 1 virtio2-output.0");
            Duration::from_secs(2)
        })
        .unwrap();
        let expected = CardTraffic { nic: "eth0".into(), packets: 40, interrupts: 11, queues: vec![(0, 10)] };
        assert_eq!(verified.nics, [expected]);
        assert_eq!(verified.here_share, None, "nobody reads from port 1");
        assert_eq!(verified.drifted, [Drift { setting, planned: "0-1".into(), found: String::new() }]);
    }
}
