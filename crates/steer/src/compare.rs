//! Measures whether an XDP program spreads a card's packets more cheaply than receive packet
//! steering: both in turn, under the present traffic.
//!
//! Contains the windows, the verdict, and its storage for plans until the next boot. The measure is
//! the kernel's cpu time per packet, on all cpus, because spreading costs time on the receiving and
//! on the handling cpus. Leaves out traffic and waiting. The verdict is tested here, the rest
//! through the command.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vermeil_io::output;
use vermeil_topology::CpuSet;

use crate::state::read_own;
use crate::verify::share;
use crate::{
    ChecksumWatch, Classifier, Meter, Nic, PlaceChoice, Planner, ProgramPosition, StateStore, SteerClass,
    SteerError, SteerPlan, Steering,
};

/// Windows of each way, in turn. By chance XDP is cheaper than RPS in all of four rounds once in
/// sixteen times, if both cost the same.
pub const ROUNDS: u32 = 4;

/// Fewer packets in a window prove nothing, because a random count of 1,000 has a spread of 3 %
/// (its square root). The median of four windows has one of 2 %, the decrease that [`RATE_KEPT`]
/// accepts.
const PACKETS_MIN: u64 = 1_000;

/// The acceptable decrease of the packet rate for a lower cost, because smaller changes are noise.
const RATE_KEPT: f64 = 0.98;

/// Maximum time that a window's settings stay after the window, in case that no process is left to
/// undo them.
const GRACE: Duration = Duration::from_secs(30);

/// The mechanism that spreads packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpreadWay {
    /// The stack, by the settings of a plan.
    Rps,
    /// A program in front of it.
    Xdp,
}

/// A window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowRow {
    /// The mechanism.
    pub way: SpreadWay,
    /// Duration.
    pub seconds: f64,
    /// Packets received.
    pub packets: u64,
    /// The kernel's cpu time, on all cpus.
    pub kernel_seconds: f64,
    /// Share of reads, 0 to 1, on the cpu that had handled the packets, if measurable.
    pub here_share: Option<f64>,
}

impl WindowRow {
    fn cost(&self) -> f64 {
        self.kernel_seconds / self.packets.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.packets as f64 / self.seconds.max(1e-9)
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The card.
    pub nic: String,
    /// The cpus that packets were spread over.
    pub cpus: CpuSet,
    /// The position of the program.
    pub place: ProgramPosition,
    /// The windows, in their order: RPS and XDP in turn.
    pub rows: Vec<WindowRow>,
}

/// The stored part of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Share, 0 to 1, of the kernel's time per packet that XDP saves; negative if XDP costs more.
    /// `None` without enough traffic.
    pub saved: Option<f64>,
    /// Whether XDP pays: XDP saved time in every round, and the packet rate did not fall.
    pub is_gain: bool,
    boot: String,
}

impl Comparison {
    /// The windows of a way.
    pub fn of(&self, way: SpreadWay) -> impl Iterator<Item = &WindowRow> {
        self.rows.iter().filter(move |row| row.way == way)
    }

    /// The median of a value over the windows of a way.
    pub fn median(&self, way: SpreadWay, what: fn(&WindowRow) -> f64) -> f64 {
        let mut values: Vec<f64> = self.of(way).map(what).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }

    /// Packets per second, and microseconds of the kernel's time per packet, as the median of a
    /// way's windows.
    pub fn medians(&self, way: SpreadWay) -> (f64, f64) {
        (self.median(way, WindowRow::rate), self.median(way, WindowRow::cost) * 1e6)
    }

    /// The verdict.
    pub fn verdict(&self) -> Compared {
        let boot = String::new();
        if self.rows.is_empty() || self.rows.iter().any(|row| row.packets < PACKETS_MIN) {
            return Compared { saved: None, is_gain: false, boot };
        }
        let ((rps_rate, rps), (xdp_rate, xdp)) = (self.medians(SpreadWay::Rps), self.medians(SpreadWay::Xdp));
        let in_every_round =
            self.of(SpreadWay::Rps).zip(self.of(SpreadWay::Xdp)).all(|(rps, xdp)| xdp.cost() < rps.cost());
        let saved = 1.0 - xdp / rps.max(f64::MIN_POSITIVE);
        Compared { saved: Some(saved), is_gain: in_every_round && xdp_rate >= RATE_KEPT * rps_rate, boot }
    }
}

/// Lets each way spread the packets of `nic` over `cpus` in turn, and measures while `window` runs,
/// which takes about `length`. `steering` sets RPS as in `plan`, so that every change is undone in
/// any case, if necessary by `guard`. The verdict is stored.
///
/// # Errors
/// As [`Steering::apply`] and [`Classifier::attach`]. [`SteerError::NothingApplied`] if the
/// settings of a window were undone before the end. [`SteerError::Checksums`] if packets are lost
/// under XDP.
pub fn compare(
    root: &Path,
    (nic, cpus, choice): (&Nic, &CpuSet, PlaceChoice),
    steering: &Steering<'_>,
    plan: &mut Planner<'_>,
    guard: &mut dyn FnMut() -> io::Result<()>,
    (length, window): (Duration, &mut dyn FnMut() -> Duration),
) -> Result<Comparison, SteerError> {
    let mut rows = Vec::new();
    let mut place = ProgramPosition::Generic;
    for _ in 0..ROUNDS {
        let applied = steering.apply(plan, Some(length + GRACE), guard)?;
        let row = measure(root, nic, SpreadWay::Rps, window);
        if !applied.changes.is_empty() {
            steering.undo()?;
        }
        rows.push(row);
        let mut checksums = ChecksumWatch::start(root);
        let classifier = Classifier::attach(nic, cpus, choice)?;
        place = classifier.place();
        rows.push(measure(root, nic, SpreadWay::Xdp, window));
        checksums.look(nic, &classifier)?;
    }
    let comparison = Comparison { nic: nic.name.clone(), cpus: cpus.clone(), place, rows };
    steering.store.remember(&comparison)?;
    Ok(comparison)
}

fn measure(root: &Path, nic: &Nic, way: SpreadWay, window: &mut dyn FnMut() -> Duration) -> WindowRow {
    let meter = Meter::start(None);
    let (packets, kernel) = (received(root, nic), kernel_seconds(root));
    let seconds = window().as_secs_f64();
    let reads = meter.as_ref().map(Meter::reads).unwrap_or_default();
    WindowRow {
        way,
        seconds,
        packets: received(root, nic).saturating_sub(packets),
        kernel_seconds: kernel_seconds(root) - kernel,
        here_share: share(reads.iter().map(|reads| (reads.here, reads.elsewhere))),
    }
}

fn received(root: &Path, nic: &Nic) -> u64 {
    let path = root.join(format!("sys/class/net/{}/statistics/rx_packets", nic.name));
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The kernel's cpu time since the boot, on all cpus: system, interrupts, and soft interrupts
/// (proc_stat(5)).
fn kernel_seconds(root: &Path) -> f64 {
    let text = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    let kernel: u64 = [2, 5, 6].iter().filter_map(|&field| ticks.get(field)).sum();
    kernel as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Adds notes on XDP to `plan`, for cards whose packets are spread in software: the stored verdict,
/// or the command that measures.
///
/// # Errors
/// [`SteerError::State`] if the stored verdict cannot be read.
pub fn advise(plan: &mut SteerPlan, store: &StateStore) -> Result<(), SteerError> {
    for nic in &plan.nics {
        let cpus = nic.queues.iter().fold(CpuSet::new(), |all, queue| all.union(&queue.listeners));
        let is_spread = nic.class == SteerClass::Single && cpus.len() > 1;
        let name = &nic.nic;
        let note = match store.compared(name)? {
            Some(Compared { is_gain: true, saved: Some(saved), .. }) => format!(
                "{name}: measured here, XDP spreads packets for {:.0} % less of the kernel's time than RPS; in place of \
                 `vermeil steer apply`: vermeil steer xdp --nic {name} --cores {cpus}",
                saved * 100.0
            ),
            None if is_spread => format!(
                "{name}: whether XDP would spread its packets for less than RPS is not measured; under load: \
                 vermeil steer compare --nic {name} --cores {cpus}"
            ),
            _ => continue,
        };
        plan.notes.push(note);
    }
    Ok(())
}

impl StateStore {
    fn remember(&self, comparison: &Comparison) -> Result<(), SteerError> {
        let compared = Compared { boot: self.boot().to_owned(), ..comparison.verdict() };
        let text = serde_json::to_string_pretty(&compared).expect("our own types are JSON");
        let path = self.compared_path(&comparison.nic);
        output::write(&path, text).map_err(|source| SteerError::State { doing: "write", path, source })
    }

    /// The verdict of a comparison on this card since the boot.
    fn compared(&self, nic: &str) -> Result<Option<Compared>, SteerError> {
        let path = self.compared_path(nic);
        let text = match read_own(&path) {
            Err(source) => return Err(SteerError::State { doing: "read", path, source }),
            Ok(None) => return Ok(None),
            Ok(Some(text)) => text,
        };
        let known: Option<Compared> = serde_json::from_str(&text).ok();
        Ok(known.filter(|compared| compared.boot == self.boot()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NicPlan, QueuePlan};
    use vermeil_topology::CpuId;

    fn comparison(costs: &[(f64, f64)], packets: u64) -> Comparison {
        let row =
            |way, cost| WindowRow { way, seconds: 1.0, packets, kernel_seconds: cost, here_share: None };
        let rows = costs
            .iter()
            .flat_map(|&(rps, xdp)| [row(SpreadWay::Rps, rps), row(SpreadWay::Xdp, xdp)])
            .collect();
        Comparison { nic: "eth0".into(), cpus: CpuSet::new(), place: ProgramPosition::Native, rows }
    }

    #[test]
    fn a_gain_is_one_in_every_round() {
        let better = comparison(&[(1.0, 0.8), (1.1, 0.8), (0.9, 0.7)], 5_000).verdict();
        assert!(better.is_gain && (better.saved.unwrap() - 0.2).abs() < 1e-9, "{better:?}");
        let sometimes = comparison(&[(1.0, 0.8), (0.7, 0.8), (1.0, 0.8)], 5_000).verdict();
        assert!(!sometimes.is_gain && sometimes.saved.is_some(), "{sometimes:?}");
        assert!(comparison(&[(1.0, 0.5)], 10).verdict().saved.is_none(), "too little traffic");
        let mut slower = comparison(&[(1.0, 0.5)], 5_000);
        slower.rows[1].seconds = 2.0;
        assert!(!slower.verdict().is_gain, "fewer packets came");
    }

    #[test]
    fn plan_shows_measurement_until_next_boot() {
        let tree = crate::fixture::Tree::of("one-queue");
        let folder = tempfile::tempdir().unwrap();
        let advised = || {
            let queue = QueuePlan {
                queue: 0,
                irq: None,
                cpu: CpuId(0),
                listeners: [0, 1].map(CpuId).into_iter().collect(),
            };
            let nic = NicPlan {
                nic: "eth0".into(),
                driver: String::new(),
                node: None,
                class: SteerClass::Single,
                queues: vec![queue],
                polling: crate::CardPolling::default(),
                refusals: Vec::new(),
            };
            let mut plan = SteerPlan { nics: vec![nic], ..SteerPlan::default() };
            advise(&mut plan, &StateStore::new(folder.path(), tree.path())).unwrap();
            plan.notes.join("\n")
        };
        tree.write("proc/sys/kernel/random/boot_id", "one");
        assert!(advised().contains("vermeil steer compare --nic eth0 --cores 0-1"), "{}", advised());
        let store = StateStore::new(folder.path(), tree.path());
        store.remember(&comparison(&[(1.0, 0.8)], 5_000)).unwrap();
        assert!(
            advised().contains("20 % less") && advised().contains("steer xdp --nic eth0"),
            "{}",
            advised()
        );
        store.remember(&comparison(&[(1.0, 1.8)], 5_000)).unwrap();
        assert_eq!(advised(), "", "measured, and no gain: the plan stays with RPS");
        tree.write("proc/sys/kernel/random/boot_id", "two");
        assert!(advised().contains("compare"), "{}", advised());
    }
}
