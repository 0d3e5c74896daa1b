//! Ratios of counters, in all, by memory node, and for each unit of work: instructions per cycle,
//! misses, remote reads, use of links.
//!
//! A ratio needs two counters. Without both the ratio is unmeasured and has a reason, never a 0.
//! Leaves out the counters themselves (`ledger`) and the rates of growth (`counters`). Tested below
//! with recordings made up from the tables of the Apache document, because machines without
//! hardware counters cannot record any.

use std::collections::BTreeMap;

use serde::Serialize;

use super::counters::rates;
use crate::StackProfile;
use crate::format::MissingCounter;

/// How a ratio is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RatioForm {
    /// A plain number.
    Number,
    /// A share of a whole, shown in percent.
    Share,
}

/// The denominator of a ratio.
#[derive(Clone, Copy)]
enum Whole {
    Counter(&'static str),
    Work,
}

/// The definition of a ratio.
#[derive(Clone, Copy)]
struct Ratio {
    name: &'static str,
    part: &'static str,
    whole: Whole,
    form: RatioForm,
    /// Whether the node with the greatest value stands for the machine, as with links, where the
    /// busiest is the bottleneck.
    by_busiest: bool,
}

const fn share(name: &'static str, part: &'static str, whole: &'static str) -> Ratio {
    Ratio { name, part, whole: Whole::Counter(whole), form: RatioForm::Share, by_busiest: false }
}

const fn of_work(name: &'static str, part: &'static str) -> Ratio {
    Ratio { name, part, whole: Whole::Work, form: RatioForm::Number, by_busiest: false }
}

/// Instructions per cycle, by name.
pub(crate) const IPC: &str = "instructions per cycle";
/// Instructions for each unit of work, by name.
pub(crate) const PATH: &str = "instructions of a unit";

/// The reason of a ratio whose counters belong to another set than the counted one.
pub(crate) const NOT_COUNTED: &str = "not in the set that was counted";

const RATIOS: [Ratio; 10] = [
    Ratio {
        name: IPC,
        part: "instructions",
        whole: Whole::Counter("cycles"),
        form: RatioForm::Number,
        by_busiest: false,
    },
    of_work(PATH, "instructions"),
    share("cache misses of accesses", "cache misses", "cache accesses"),
    of_work("cache misses of a unit", "cache misses"),
    share("last level misses of reads", "last level misses", "last level reads"),
    of_work("data tlb misses of a unit", "data tlb misses"),
    of_work("code tlb misses of a unit", "code tlb misses"),
    share("remote reads of node reads", "remote node reads", "node reads"),
    of_work("remote reads of a unit", "remote node reads"),
    Ratio { by_busiest: true, ..share("link use", "link packets", "link slots") },
];

/// A ratio of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterRatio {
    /// The ratio.
    pub name: &'static str,
    /// Its value for the machine.
    pub value: f64,
    /// How it is written.
    pub form: RatioForm,
    /// Its value for each memory node, if there are several.
    pub nodes: Vec<(u32, f64)>,
}

impl CounterRatio {
    /// The value as text.
    pub fn shown(&self, value: f64) -> String {
        match self.form {
            RatioForm::Share => format!("{:.1} %", 100.0 * value),
            RatioForm::Number if value >= 100.0 => format!("{value:.0}"),
            RatioForm::Number => format!("{value:.3}"),
        }
    }
}

/// The ratios that a recording permits with these units of work, and the others with the reason.
pub fn ratios(profile: &StackProfile, units: Option<f64>) -> (Vec<CounterRatio>, Vec<MissingCounter>) {
    let counters = NodeCounters::of(profile);
    let units_per_second = units.map(|units| units / (profile.duration_ns as f64 / 1e9));
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for ratio in RATIOS {
        match counters.ratio(ratio, units_per_second) {
            Some(value) => found.push(value),
            None => missing.push(MissingCounter {
                name: ratio.name.to_owned(),
                why: reason(profile, ratio, units_per_second.is_some()),
            }),
        }
    }
    (found, missing)
}

fn reason(profile: &StackProfile, ratio: Ratio, has_work: bool) -> String {
    let whole = match ratio.whole {
        Whole::Counter(name) => Some(name),
        Whole::Work => None,
    };
    let is_needed = |missing: &&MissingCounter| {
        [ratio.part, ratio.name].contains(&&*missing.name) || Some(&*missing.name) == whole
    };
    match profile.missing.iter().find(is_needed) {
        Some(missing) => missing.why.clone(),
        None if profile.series.iter().all(|series| series.name != ratio.part) => NOT_COUNTED.to_owned(),
        None if !has_work => "the work is unknown".to_owned(),
        None => "nothing was counted".to_owned(),
    }
}

/// The growth of each counter for each second, by memory node.
struct NodeCounters(BTreeMap<String, BTreeMap<u32, f64>>);

impl NodeCounters {
    fn of(profile: &StackProfile) -> Self {
        let mut counters: BTreeMap<String, BTreeMap<u32, f64>> = BTreeMap::new();
        for rate in rates(profile) {
            let nodes = counters.entry(rate.name).or_default();
            *nodes.entry(rate.node.unwrap_or(0)).or_default() += rate.per_second;
        }
        Self(counters)
    }

    fn ratio(&self, ratio: Ratio, units_per_second: Option<f64>) -> Option<CounterRatio> {
        let part = self.0.get(ratio.part)?;
        let (value, nodes) = match ratio.whole {
            // Work has no node: a request may be done on several.
            Whole::Work => (part.values().sum::<f64>() / units_per_second?, Vec::new()),
            Whole::Counter(name) => {
                let whole = self.0.get(name)?;
                let nodes: Vec<(u32, f64)> = part
                    .iter()
                    .filter_map(|(node, part)| Some((*node, part / *whole.get(node)?)))
                    .filter(|(_, value)| value.is_finite())
                    .collect();
                let value = if ratio.by_busiest {
                    nodes.iter().map(|(_, value)| *value).fold(f64::NAN, f64::max)
                } else {
                    part.values().sum::<f64>() / whole.values().sum::<f64>()
                };
                (value, nodes)
            }
        };
        let nodes = if nodes.len() > 1 { nodes } else { Vec::new() };
        value.is_finite().then_some(CounterRatio { name: ratio.name, value, form: ratio.form, nodes })
    }
}

/// The ratios of a recording as lines of text.
pub(super) fn table(profile: &StackProfile) -> String {
    let (found, _) = ratios(profile, profile.work.as_ref().map(|work| work.units));
    let mut out = String::new();
    if !found.is_empty() {
        out.push_str("ratios of counters\n");
    }
    for ratio in found {
        let nodes = ratio.nodes.iter().map(|(node, value)| format!("node {node} {}", ratio.shown(*value)));
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        let line = format!("  {:32} {:>12}   {nodes}", ratio.name, ratio.shown(ratio.value));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FileRecord, Frame, Module, Origin, Series, Symbol, Work, Writer, tests::origin};
    use crate::gain::{CostComparison, compare_recordings};
    use crate::ledger::HardwareSet;
    use crate::perf::Trigger;
    use crate::report::{TextOptions, csv, html, json, text};
    use crate::{ReadOptions, verdict};
    use std::path::Path;

    /// Cpus of the made-up machine: 64 on two nodes.
    const CPUS: u32 = 64;
    const SECONDS: u64 = 10;
    /// KB that a run sends.
    const KB: u64 = 1_000_000;

    /// The figures of a configuration, as in tables 2 and 3 of the Apache document.
    struct PublishedRow {
        ipc: f64,
        remote_share: f64,
        remote_per_kb: f64,
        link_use: [f64; 2],
    }

    const ONE_PROCESSOR: PublishedRow =
        PublishedRow { ipc: 0.38, remote_share: 0.21, remote_per_kb: 4.0, link_use: [0.25, 0.10] };
    const ALL_PROCESSORS: PublishedRow =
        PublishedRow { ipc: 0.30, remote_share: 0.67, remote_per_kb: 14.0, link_use: [0.60, 0.75] };

    /// The totals of the counters of a set that give these figures.
    fn totals(row: &PublishedRow, set: HardwareSet) -> Vec<(&'static str, Vec<(u32, f64)>)> {
        let kb = KB as f64;
        let even = |total: f64| (0..CPUS).map(|cpu| (cpu, total / f64::from(CPUS))).collect();
        let instructions = 30_000.0 * kb;
        let remote = row.remote_per_kb * kb;
        // A link belongs to a node, not to a cpu.
        let links = |of: [f64; 2]| vec![(0, of[0]), (1, of[1])];
        match set {
            HardwareSet::Ipc => {
                vec![("cycles", even(instructions / row.ipc)), ("instructions", even(instructions))]
            }
            _ => vec![
                ("node reads", even(remote / row.remote_share)),
                ("remote node reads", even(remote)),
                ("link packets", links(row.link_use.map(|link_use| link_use * 1e9))),
                ("link slots", links([1e9; 2])),
            ],
        }
    }

    /// The column of a cpu, or of a node for links.
    fn series(name: &str, place: u32) -> Series {
        if name.starts_with("link") {
            return Series { name: name.to_owned(), cpu: None, node: Some(place), unit: "count".to_owned() };
        }
        Series::of_cpu(name, "count", place, place / (CPUS / 2))
    }

    /// Writes a recording of a machine with hardware counters.
    fn write(path: &Path, row: &PublishedRow, set: HardwareSet) {
        let origin = Origin { trigger: Trigger::Cycles, cpus: (0..CPUS).collect(), ..origin() };
        let start = origin.start_ns;
        let mut writer = Writer::create(path, &origin).unwrap();
        let mut put = |record: FileRecord| writer.write(&record).unwrap();
        put(FileRecord::Module(Module { path: "/usr/sbin/apache2".to_owned(), build_id: vec![1] }));
        let columns: Vec<(Series, f64)> = totals(row, set)
            .into_iter()
            .flat_map(|(name, cpus)| cpus.into_iter().map(move |(cpu, total)| (name, cpu, total)))
            .map(|(name, cpu, total)| (series(name, cpu), total))
            .collect();
        let series = columns.iter().map(|(series, _)| series.clone()).collect();
        put(FileRecord::Counters { series, missing: Vec::new() });
        for offset in 0..2 {
            put(FileRecord::Stack(vec![Frame { module: 0, offset }]));
        }
        // All cycles beyond those of the base are of one function.
        let base = 30_000.0 / ONE_PROCESSOR.ipc * KB as f64;
        let all = 30_000.0 / row.ipc * KB as f64;
        for second in 0..=SECONDS {
            let time = start + second * 1_000_000_000;
            let values = columns.iter().map(|(_, total)| (total * second as f64 / SECONDS as f64) as u64);
            put(FileRecord::Tick { time, values: values.collect() });
            let cpu = second as u32 * 7 % CPUS;
            for (stack, cycles) in
                [(0, base), (1, all - base)].into_iter().filter(|(_, cycles)| *cycles > 0.0)
            {
                let weight = (cycles / (SECONDS + 1) as f64) as u64;
                put(FileRecord::Sample { time, cpu, pid: 7, tid: 7, stack, weight, color: 0 });
            }
        }
        let names = ["ap_read_request", "d_lookup"].into_iter().zip(0..).map(|(name, offset)| Symbol {
            frame: Frame { module: 0, offset },
            function: name.to_owned(),
            inlined: Vec::new(),
            file: String::new(),
            line: 0,
        });
        put(FileRecord::Symbols(names.collect()));
        put(FileRecord::Work(Work { units: KB as f64, unit: "KB".to_owned(), cpus: CPUS }));
        put(FileRecord::End { time: start + SECONDS * 1_000_000_000, others: 0 });
        writer.flush().unwrap();
    }

    /// Two blocks of runs: the first counts instructions, the second remote reads and links.
    fn compared(folder: &Path) -> CostComparison {
        for (side, row) in [("base", &ONE_PROCESSOR), ("now", &ALL_PROCESSORS)] {
            std::fs::create_dir(folder.join(side)).unwrap();
            write(&folder.join(side).join("run-01.prof"), row, HardwareSet::Ipc);
            write(&folder.join(side).join("run-02.prof"), row, HardwareSet::Remote);
        }
        compare_recordings(&folder.join("base"), &folder.join("now"), None, None).unwrap()
    }

    fn contains_all(text: &str, lines: &[&str]) {
        // The width of columns is not the subject.
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in lines {
            assert!(plain.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn published_ratios_go_through_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.prof");
        let report = |set| {
            write(&path, &ALL_PROCESSORS, set);
            let profile = StackProfile::read(&path, ReadOptions::default()).unwrap();
            let options = TextOptions {
                top: 5,
                callers_of: None,
                owner_module: None,
                outermost: Vec::new(),
                colors: false,
            };
            (text(&profile, &options), profile)
        };
        let (text, _) = report(HardwareSet::Ipc);
        contains_all(
            &text,
            &[
                "(hardware cycles)",
                "instructions per cycle 0.300",
                "instructions of a unit 30000",
                "cycles of one",
            ],
        );
        let (text, profile) = report(HardwareSet::Remote);
        contains_all(
            &text,
            &[
                "remote reads of node reads 67.0 % node 0 67.0 %, node 1 67.0 %",
                "remote reads of a unit 14.000",
                "link use 75.0 % node 0 60.0 %, node 1 75.0 %",
            ],
        );
        let json: serde_json::Value = serde_json::from_str(&json(&profile)).unwrap();
        let busiest = json["ratios"].as_array().unwrap().iter().find(|ratio| ratio["name"] == "link use");
        assert_eq!(busiest.unwrap()["value"], 0.75);
        assert!(html(&profile, 5).contains("remote reads of a unit"));
        assert_eq!(csv(&profile).lines().next().unwrap().matches("cpu 63").count(), 2);
    }

    #[test]
    fn published_ratios_go_through_compare() {
        let folder = tempfile::tempdir().unwrap();
        let comparison = compared(folder.path());
        contains_all(
            &verdict::comparison_text(&comparison),
            &[
                "instructions per cycle 0.380 0.300",
                "remote reads of node reads 21.0 % 67.0 %",
                "remote reads of a unit 4.000 14.000",
                "link use 25.0 % 75.0 % base: node 0 25.0 %, node 1 10.0 % now: node 0 60.0 %, node 1 75.0 %",
                "cost factor in cycles 0.789 = instructions 1.000 × instructions per cycle 0.789",
                "not measurable here (not in the set that was counted): cache misses of accesses",
            ],
        );
        // With equal instructions the loss in cost is the loss in instructions per cycle.
        assert!((comparison.cost_factor - 0.30 / 0.38).abs() < 1e-6, "{}", comparison.cost_factor);
        assert_eq!(comparison.gains[0].function, "d_lookup");
        assert!((comparison.gains[0].gain.mean - (1.0 - 0.30 / 0.38)).abs() < 1e-6);
    }

    #[test]
    fn missing_counter_gives_reason_instead_of_zero() {
        let mut profile = crate::profile::tests::profile(&[("main", 1)]);
        let why = "no such event on this machine";
        profile.missing = vec![MissingCounter { name: "cycles".to_owned(), why: why.to_owned() }];
        let (found, missing) = ratios(&profile, Some(1.0));
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(missing.len(), RATIOS.len());
        assert_eq!(missing.iter().find(|ratio| ratio.name == IPC).unwrap().why, why);
    }
}
