//! Counters of each cpu and of the machine, read periodically with time stamps (lightProf).
//!
//! Values only grow and are stored as they are, so any window can be cut out afterwards. Nothing
//! overflows and no threshold is to be calibrated. One set of hardware events at a time is counted:
//! the kernel would share counters between more, and its estimates would be too rough. Leaves out
//! rates (`report`). Sources: perf events, `/proc/stat`, `/proc/interrupts`, `/proc/pressure`.
//! Tested below.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_ITLB, PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_MISSES,
    PERF_COUNT_HW_CACHE_NODE, PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES,
    PERF_COUNT_HW_INSTRUCTIONS,
};

use crate::format::{FileRecord, MissingCounter, Series};
use crate::machine;
use crate::perf::{Counted, CounterGroup, SOFTWARE, SoftwareCounts};
use crate::work::WorkReader;

/// The columns of `/proc/stat` that are kept, by their place behind the cpu's name, joined.
const STAT: [(&str, &[usize]); 4] =
    [("busy", &[0, 1, 2]), ("interrupt time", &[5, 6]), ("idle", &[3, 4]), ("stolen time", &[7])];

/// The states of a cpu, which add up to the whole time.
pub(crate) const STATES: [&str; 4] = [STAT[0].0, STAT[1].0, STAT[2].0, STAT[3].0];

/// A named set of hardware events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardwareSet {
    /// Cycles and instructions.
    #[default]
    Ipc,
    /// Accesses and misses of the last cache.
    Cache,
    /// Misses of the translation caches.
    Tlb,
    /// Accesses to memory of other nodes.
    Remote,
}

impl HardwareSet {
    /// The set of a block of runs. A set at a time, so several blocks are needed for all.
    pub(crate) fn of_block(block: u32) -> Self {
        [Self::Ipc, Self::Cache, Self::Tlb, Self::Remote][(block.saturating_sub(1) % 4) as usize]
    }

    fn events(self) -> Vec<(&'static str, Counted)> {
        match self {
            Self::Ipc => vec![
                ("cycles", Counted::hardware(PERF_COUNT_HW_CPU_CYCLES)),
                ("instructions", Counted::hardware(PERF_COUNT_HW_INSTRUCTIONS)),
            ],
            Self::Cache => vec![
                ("cache accesses", Counted::hardware(PERF_COUNT_HW_CACHE_REFERENCES)),
                ("cache misses", Counted::hardware(PERF_COUNT_HW_CACHE_MISSES)),
                ("last level reads", Counted::cache(PERF_COUNT_HW_CACHE_LL, false)),
                ("last level misses", Counted::cache(PERF_COUNT_HW_CACHE_LL, true)),
            ],
            Self::Tlb => vec![
                ("data tlb misses", Counted::cache(PERF_COUNT_HW_CACHE_DTLB, true)),
                ("code tlb misses", Counted::cache(PERF_COUNT_HW_CACHE_ITLB, true)),
            ],
            Self::Remote => vec![
                ("node reads", Counted::cache(PERF_COUNT_HW_CACHE_NODE, false)),
                ("remote node reads", Counted::cache(PERF_COUNT_HW_CACHE_NODE, true)),
            ],
        }
    }
}

/// The time between two ticks. Values between two readings are those of the reading before.
pub(crate) const TICK_NS: u64 = 10_000_000;
/// Readings of `/proc` for each of `/proc/interrupts`. This file takes 64 µs on two cpus, and all
/// other files together 16 µs.
const INTERRUPTS_READINGS: u64 = 5;
/// How long a cpu may have no sample, until its counts are read.
const SAMPLED_NS: u64 = 100_000_000;

/// The counts of a cpu, by its samples.
#[derive(Clone, Copy, Default)]
struct SampledCpu {
    counts: SoftwareCounts,
    /// The time of the latest sample or reading.
    time: u64,
}

/// The counters of a recording.
pub(crate) struct CounterLedger {
    cpus: Vec<u32>,
    /// The memory node of each cpu.
    nodes: Vec<u32>,
    /// By the place in `cpus`; empty if samples have no counts.
    sampled: Vec<SampledCpu>,
    /// Ticks that wait for the samples up to their time, with the other values.
    waiting: VecDeque<(u64, Vec<u64>)>,
    /// The other values of the latest reading.
    others: Vec<u64>,
    read_ns: u64,
    groups: Vec<(CounterGroup, usize)>,
    series: Vec<Series>,
    missing: Vec<MissingCounter>,
    proc: ProcCounters,
    work: WorkReader,
    multiplexed: bool,
}

/// The counters in `/proc`, which are read less often.
struct ProcCounters {
    /// The values of the latest reading.
    values: Vec<u64>,
    stat: ProcFile,
    /// `None` where the file cannot be read.
    interrupts: Option<ProcFile>,
    interrupt_counts: Vec<u64>,
    pressure: Vec<ProcFile>,
    readings: u64,
    /// The unit of the times in `stat`.
    tick_ns: u64,
}

impl Default for ProcCounters {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            stat: ProcFile::open("/proc/stat"),
            interrupts: None,
            interrupt_counts: Vec::new(),
            pressure: Vec::new(),
            readings: 0,
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
        }
    }
}

impl ProcCounters {
    /// Reads the counters of these cpus again.
    fn read(&mut self, cpus: &[u32]) {
        let stat = self.stat.read();
        let mut values = Vec::new();
        for cpu in cpus {
            let fields = stat_fields(stat, *cpu);
            for (_, places) in STAT {
                let ticks: u64 = places.iter().filter_map(|place| fields.get(*place)).sum();
                values.push(ticks * self.tick_ns);
            }
        }
        if let Some(file) = &mut self.interrupts {
            if self.readings.is_multiple_of(INTERRUPTS_READINGS) {
                let counts = sum_interrupts(file.read(), cpus);
                self.interrupt_counts = counts.unwrap_or_else(|| vec![0; cpus.len()]);
            }
            values.extend(&self.interrupt_counts);
        }
        self.readings += 1;
        values.extend(self.pressure.iter_mut().map(|file| parse_pressure(file.read()).unwrap_or(0)));
        self.values = values;
    }
}

impl CounterLedger {
    /// Opens the counters that this machine and user can read.
    pub(crate) fn open(cpus: &[u32], set: HardwareSet, are_sampled: bool) -> Self {
        let mut ledger = Self {
            cpus: cpus.to_vec(),
            nodes: machine::nodes_of(cpus),
            sampled: vec![SampledCpu::default(); if are_sampled { cpus.len() } else { 0 }],
            waiting: VecDeque::new(),
            others: Vec::new(),
            read_ns: 0,
            groups: Vec::new(),
            series: Vec::new(),
            missing: Vec::new(),
            proc: ProcCounters::default(),
            work: WorkReader::default(),
            multiplexed: false,
        };
        if are_sampled {
            ledger.add_series(&SOFTWARE);
        } else {
            ledger.add_groups(&SOFTWARE);
        }
        ledger.add_groups(&set.events());
        ledger.missing.push(MissingCounter {
            name: "link use".to_owned(),
            why: "needs raw events of the processor's model, which this version does not know".to_owned(),
        });
        ledger.add_proc();
        ledger
    }

    /// Adds the counts of those of these processes that have counts. Returns whether there are
    /// columns that [`columns`](Self::columns) did not have.
    pub(crate) fn find_work(&mut self, pids: impl Iterator<Item = i32>) -> bool {
        let further = self.work.add(pids);
        let has_further = !further.is_empty();
        self.series.extend(further);
        has_further
    }

    /// Whether the subject counts its work.
    pub(crate) fn counts_work(&self) -> bool {
        !self.work.is_empty()
    }

    fn add_groups(&mut self, events: &[(&'static str, Counted)]) {
        let counted: Vec<Counted> = events.iter().map(|(_, counted)| *counted).collect();
        let groups: Result<Vec<_>, _> =
            self.cpus.iter().map(|cpu| CounterGroup::open(&counted, *cpu)).collect();
        match groups {
            Ok(groups) => {
                self.groups.extend(groups.into_iter().map(|group| (group, counted.len())));
                self.add_series(events);
            }
            Err(error) => {
                let why = match error.raw_os_error() {
                    // EPERM, EACCES
                    Some(1 | 13) => "this user may not count whole cpus; run as root".to_owned(),
                    // ENOENT, ENXIO, ENODEV, EINVAL, EOPNOTSUPP
                    Some(2 | 6 | 19 | 22 | 95) => "no such event on this machine".to_owned(),
                    _ => error.to_string(),
                };
                let names = events.iter().map(|(name, _)| *name);
                self.missing
                    .extend(names.map(|name| MissingCounter { name: name.to_owned(), why: why.clone() }));
            }
        }
    }

    fn add_series(&mut self, events: &[(&'static str, Counted)]) {
        let places = self.cpus.iter().zip(&self.nodes);
        self.series.extend(places.flat_map(|(cpu, node)| {
            events.iter().map(|(name, _)| Series::of_cpu(name, "count", *cpu, *node))
        }));
    }

    fn add_proc(&mut self) {
        let places = || self.cpus.iter().zip(&self.nodes);
        let stat =
            places().flat_map(|(cpu, node)| STAT.map(|(name, _)| Series::of_cpu(name, "ns", *cpu, *node)));
        self.series.extend(stat);
        let mut file = ProcFile::open("/proc/interrupts");
        if sum_interrupts(file.read(), &self.cpus).is_some() {
            self.proc.interrupts = Some(file);
            let interrupts = places().map(|(cpu, node)| Series::of_cpu("interrupts", "count", *cpu, *node));
            self.series.extend(interrupts);
        }
        for (path, name) in [
            ("/proc/pressure/cpu", "pressure of cpus"),
            ("/proc/pressure/memory", "pressure of memory"),
            ("/proc/pressure/io", "pressure of disks"),
        ] {
            let mut file = ProcFile::open(path);
            if parse_pressure(file.read()).is_some() {
                self.proc.pressure.push(file);
                let unit = "ns".to_owned();
                self.series.push(Series { name: name.to_owned(), cpu: None, node: None, unit });
            } else {
                let why = "this kernel has no pressure information".to_owned();
                self.missing.push(MissingCounter { name: name.to_owned(), why });
            }
        }
    }

    /// Adds a thing that this recording lacks.
    pub(crate) fn lacks(&mut self, name: &str, why: &str) {
        self.missing.push(MissingCounter { name: name.to_owned(), why: why.to_owned() });
    }

    /// The record that names the columns.
    pub(crate) fn columns(&self) -> FileRecord {
        FileRecord::Counters { series: self.series.clone(), missing: self.missing.clone() }
    }

    /// Whether there are values for each tick that samples do not hold.
    pub(crate) fn reads_each_tick(&self) -> bool {
        !self.groups.is_empty() || self.counts_work()
    }

    /// The counts of a cpu at the time of a sample.
    pub(crate) fn sampled(&mut self, cpu: u32, time: u64, counts: SoftwareCounts) {
        let place = self.cpus.iter().position(|known| *known == cpu);
        if let Some(sampled) = place.and_then(|place| self.sampled.get_mut(place)) {
            // A sample from the moment in which events were exchanged has lower counts.
            let counts = std::array::from_fn(|index| counts[index].max(sampled.counts[index]));
            *sampled = SampledCpu { counts, time };
        }
    }

    /// The places of the cpus without a sample for long, as on idle cpus.
    pub(crate) fn unsampled(&self, time: u64) -> impl Iterator<Item = (usize, u32)> {
        let is_old = move |sampled: &SampledCpu| sampled.time + SAMPLED_NS <= time;
        let places = self.cpus.iter().copied().enumerate();
        places.zip(&self.sampled).filter(move |(_, sampled)| is_old(sampled)).map(|(place, _)| place)
    }

    /// Reads all counters for the tick of this time. The sources in `/proc`, whose own resolution
    /// is 10 ms at best, are read again only with `all`; otherwise their last values stand.
    pub(crate) fn read(&mut self, time: u64, all: bool) {
        if !self.reads_each_tick() && self.read_ns > 0 {
            let ticks = (1..).map(|count| self.read_ns + count * TICK_NS);
            let between = ticks.take_while(|tick| tick + TICK_NS / 2 < time);
            self.waiting.extend(between.map(|tick| (tick, self.others.clone())));
        }
        let mut values = Vec::with_capacity(self.series.len());
        for (group, count) in &self.groups {
            let expected = values.len() + count;
            match group.read(&mut values) {
                Ok(is_whole) => self.multiplexed |= !is_whole,
                // The cpu went off line: no growth is all that can be said.
                Err(_) => values.resize(expected, 0),
            }
        }
        if all || self.proc.values.is_empty() {
            self.proc.read(&self.cpus);
        }
        values.extend(&self.proc.values);
        values.extend(self.work.counts());
        self.others.clone_from(&values);
        self.waiting.push_back((time, values));
        self.read_ns = time;
    }

    /// The next tick up to a time. All samples before must have been [`sampled`](Self::sampled).
    pub(crate) fn due(&mut self, until: u64) -> Option<FileRecord> {
        let (time, others) = self.waiting.pop_front_if(|(time, _)| *time <= until)?;
        let values = self.sampled.iter().flat_map(|cpu| cpu.counts).chain(others).collect();
        Some(FileRecord::Tick { time, values })
    }

    /// The record that takes the hardware's columns back, if others used the counters meanwhile.
    pub(crate) fn take_back(&self, set: HardwareSet) -> Option<FileRecord> {
        self.multiplexed.then(|| {
            let why = "other programs used the processor's counters meanwhile";
            let names = set.events().into_iter().map(|(name, _)| name);
            let missing = names.map(|name| MissingCounter { name: name.to_owned(), why: why.to_owned() });
            FileRecord::Counters {
                series: self.series.clone(),
                missing: self.missing.iter().cloned().chain(missing).collect(),
            }
        })
    }
}

/// The numbers in the line of a cpu in `/proc/stat`.
fn stat_fields(stat: &str, cpu: u32) -> Vec<u64> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
    line.split(' ').filter_map(|field| field.parse().ok()).collect()
}

/// Interrupts of each cpu, all kinds together.
fn sum_interrupts(text: &str, cpus: &[u32]) -> Option<Vec<u64>> {
    let mut lines = text.lines();
    let columns: Vec<u32> =
        lines.next()?.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let mut sums = vec![0; columns.len()];
    for line in lines {
        let counts = line.split_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let of = |cpu: &u32| columns.iter().position(|column| column == cpu).map(|at| sums[at]);
    cpus.iter().map(of).collect()
}

/// Nanoseconds in which tasks have waited for a resource.
fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some"))?;
    let total = line.split(' ').find_map(|field| field.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()? * 1_000)
}

/// A file of `/proc` that stays open, because for most of these files opening costs more than
/// reading.
struct ProcFile {
    file: Option<File>,
    bytes: Vec<u8>,
}

impl ProcFile {
    fn open(path: &str) -> Self {
        Self { file: File::open(path).ok(), bytes: Vec::new() }
    }

    /// The present content; empty for a file that cannot be read.
    fn read(&mut self) -> &str {
        self.bytes.clear();
        let mut part = [0; 4096];
        while let Some(file) = &self.file
            && let Ok(length @ 1..) = file.read_at(&mut part, self.bytes.len() as u64)
        {
            self.bytes.extend(&part[..length]);
        }
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_of_second_cpu_is_read() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 10 20 30 40 50 60 70 80 0 0\n";
        assert_eq!(stat_fields(stat, 1)[..8], [10, 20, 30, 40, 50, 60, 70, 80]);
        assert!(stat_fields(stat, 7).is_empty());
    }

    #[test]
    fn interrupts_add_up_by_cpu() {
        let text = "           CPU0       CPU1       \n  1:    5    7   IO-APIC  edge  1 kbd\nLOC:  100  200   Local timer\nERR:   3\n";
        assert_eq!(sum_interrupts(text, &[0, 1]), Some(vec![108, 207]));
        assert_eq!(sum_interrupts(text, &[2]), None);
    }

    #[test]
    fn pressure_total_is_in_nanoseconds() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(parse_pressure(text), Some(12_345_000));
        assert_eq!(parse_pressure("full avg10=0.00 total=9"), None);
    }

    /// Software counters come with samples, so a tick waits for the samples before the tick.
    #[test]
    fn tick_has_counts_of_samples_before_it() {
        let cpus = crate::machine::online_cpus();
        let mut ledger = CounterLedger::open(&cpus, HardwareSet::Ipc, true);
        // As on a machine without hardware counters.
        ledger.groups.clear();
        let start = TICK_NS;
        ledger.read(start, true);
        ledger.read(start + 3 * TICK_NS, false);
        ledger.sampled(cpus[0], start, [1, 0, 0]);
        let counts_until = |ledger: &mut CounterLedger, until: u64| {
            let mut counts = Vec::new();
            while let Some(FileRecord::Tick { time, values }) = ledger.due(until) {
                counts.push((time - start, values[0]));
            }
            counts
        };
        assert_eq!(counts_until(&mut ledger, start + TICK_NS / 2), [(0, 1)]);
        ledger.sampled(cpus[0], start + TICK_NS / 2, [5, 0, 0]);
        assert_eq!(counts_until(&mut ledger, start + TICK_NS), [(TICK_NS, 5)]);
        ledger.sampled(cpus[0], start + 2 * TICK_NS, [4, 0, 0]);
        let ticks = counts_until(&mut ledger, u64::MAX);
        assert_eq!(ticks, [(2 * TICK_NS, 5), (3 * TICK_NS, 5)], "counts never fall");
        let unsampled: Vec<_> = ledger.unsampled(start + 2 * TICK_NS + SAMPLED_NS - 1).collect();
        assert!(!unsampled.contains(&(0, cpus[0])), "{unsampled:?}");
    }

    #[test]
    fn each_tick_has_value_for_each_column() {
        let cpus = crate::machine::online_cpus();
        let mut ledger = CounterLedger::open(&cpus, HardwareSet::Ipc, true);
        let FileRecord::Counters { series, missing } = ledger.columns() else { panic!("no columns") };
        ledger.read(1, true);
        let Some(FileRecord::Tick { values, .. }) = ledger.due(1) else { panic!("no tick") };
        assert_eq!(values.len(), series.len());
        assert!(series.iter().any(|series| series.name == "stolen time"), "{series:?}");
        // Each hardware event is either a column or named as not measurable.
        let has = |name: &str| series.iter().any(|series| series.name == name);
        let lacks = |name: &str| missing.iter().any(|missing| missing.name == name);
        assert!(has("cycles") != lacks("cycles"), "{series:?} {missing:?}");
    }
}
