//! The waits of a recording in memory: exact sums for each thread and cpu, and the stacks in which
//! threads blocked, as estimates that add up to these sums.
//!
//! A stack that was sampled at each switch of its cpu is exact. Otherwise the time of a thread that
//! no exact stack has is divided among the thread's other stacks, each with the weight of the
//! switches that it stands for. Leaves out output (`report::waiting`). Tested below.

use std::collections::{BTreeMap, HashMap};

use crate::format::FileRecord;
use crate::window::Window;

/// Waits of a thread that left a cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ThreadWaits {
    /// Nanoseconds until an event came.
    pub blocked_ns: u64,
    /// Waits for an event.
    pub blocked: u64,
    /// Nanoseconds in which the thread could run, but another thread had the cpu.
    pub ready_ns: u64,
    /// Waits for the cpu.
    pub ready: u64,
}

impl ThreadWaits {
    /// Adds the waits of another thread or cpu.
    pub(crate) fn add(&mut self, other: &Self) {
        self.blocked_ns += other.blocked_ns;
        self.blocked += other.blocked;
        self.ready_ns += other.ready_ns;
        self.ready += other.ready;
    }
}

/// Why the stack of a wait is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnknownStack {
    /// The wait began before the recording.
    BeganBefore,
    /// The stack was not among those that were sampled.
    NotSampled,
}

impl UnknownStack {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BeganBefore => "[waiting since before the recording]",
            Self::NotSampled => "[stack not sampled]",
        }
    }
}

/// A wait, or the waits of a thread that share a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedTime {
    /// The end, in nanoseconds since the start of the recording.
    pub time: u64,
    /// The cpu that the thread left.
    pub cpu: u32,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The stack. In a profile that was read, the index of a stack of functions.
    pub stack: Result<u32, UnknownStack>,
    /// Nanoseconds, an estimate if stacks were sampled.
    pub ns: u64,
    /// Waits, an estimate if stacks were sampled.
    pub waits: u64,
}

/// The waits of a recording or a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWaits {
    /// Whether waits were recorded.
    pub recorded: bool,
    /// Whether the samples of the profile are waits, not cpu time.
    pub instead: bool,
    /// Sums by process, thread and cpu.
    pub threads: BTreeMap<(i32, i32, u32), ThreadWaits>,
    /// The time that threads were blocked, by stack.
    pub blocked: Vec<BlockedTime>,
    /// Switches that the kernel could not keep.
    pub lost: u64,
}

impl RecordedWaits {
    /// Takes a record, with times since `start`; returns whether it was one of waits.
    pub(crate) fn take(&mut self, record: &FileRecord, start: u64, window: Option<Window>) -> bool {
        match *record {
            FileRecord::Waited { time, pid, tid, cpu, blocked_ns, blocked, ready_ns, ready } => {
                if window.is_none_or(|window| window.contains(time.saturating_sub(start))) {
                    let waits = ThreadWaits { blocked_ns, blocked, ready_ns, ready };
                    self.threads.entry((pid, tid, cpu)).or_default().add(&waits);
                }
            }
            FileRecord::Wait { time, cpu, pid, tid, stack, ns, switches } => {
                let time = time.saturating_sub(start);
                let ns = match window {
                    None => ns,
                    Some(window) => window.overlap(time.saturating_sub(ns), time),
                };
                if ns > 0 {
                    let stack = stack.ok_or(UnknownStack::BeganBefore);
                    self.blocked.push(BlockedTime { time, cpu, pid, tid, stack, ns, waits: switches });
                }
            }
            FileRecord::WaitsEnd { lost } => self.lost = lost,
            _ => return false,
        }
        self.recorded = true;
        true
    }

    /// Makes the time of the stacks of each thread add up to the time that the thread was blocked.
    pub(crate) fn estimate(&mut self) {
        let mut of_threads: HashMap<(i32, i32), (u64, u64)> = HashMap::new();
        for ((pid, tid, _), waits) in &self.threads {
            let sums = of_threads.entry((*pid, *tid)).or_default();
            sums.0 += waits.blocked_ns;
            sums.1 += waits.blocked;
        }
        let mut sampled: HashMap<(i32, i32), Vec<BlockedTime>> = HashMap::new();
        for wait in self.blocked.drain(..) {
            sampled.entry((wait.pid, wait.tid)).or_default().push(wait);
        }
        for (thread, (ns, waits)) in of_threads {
            let mut stacks = sampled.remove(&thread).unwrap_or_default();
            let (exact, rough): (Vec<BlockedTime>, _) = stacks.drain(..).partition(|wait| wait.waits == 1);
            let left_ns = ns.saturating_sub(exact.iter().map(|wait| wait.ns).sum());
            let left = waits.saturating_sub(exact.len() as u64);
            self.blocked.extend(exact);
            self.blocked.extend(divided(thread, rough, left_ns, left));
        }
        self.blocked.sort_by_key(|wait| (wait.time, wait.tid));
    }

    /// All time that threads were blocked.
    pub fn blocked_ns(&self) -> u64 {
        self.threads.values().map(|waits| waits.blocked_ns).sum()
    }
}

/// Divides `ns` among stacks by their own time and the switches that they stand for.
fn divided((pid, tid): (i32, i32), mut stacks: Vec<BlockedTime>, ns: u64, waits: u64) -> Vec<BlockedTime> {
    let time = |wait: &BlockedTime| wait.ns as f64 * wait.waits as f64;
    let all: f64 = stacks.iter().map(time).sum();
    let switches: f64 = stacks.iter().map(|wait| wait.waits as f64).sum();
    if all == 0.0 {
        let unknown =
            BlockedTime { time: 0, cpu: 0, pid, tid, stack: Err(UnknownStack::NotSampled), ns, waits };
        return if ns > 0 { vec![unknown] } else { Vec::new() };
    }
    for wait in &mut stacks {
        wait.ns = (time(wait) / all * ns as f64) as u64;
        wait.waits = (wait.waits as f64 / switches * waits as f64).round() as u64;
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn waited(time: u64, blocked_ns: u64, blocked: u64) -> FileRecord {
        FileRecord::Waited { time, pid: 7, tid: 8, cpu: 1, blocked_ns, blocked, ready_ns: 0, ready: 0 }
    }

    fn wait(time: u64, ns: u64, stack: u32, switches: u64) -> FileRecord {
        FileRecord::Wait { time, cpu: 1, pid: 7, tid: 8, stack: Some(stack), ns, switches }
    }

    fn of(records: &[FileRecord], window: Option<Window>) -> RecordedWaits {
        let mut waiting = RecordedWaits::default();
        assert!(records.iter().all(|record| waiting.take(record, 0, window)));
        waiting.estimate();
        waiting
    }

    fn times(waiting: &RecordedWaits) -> Vec<(Result<u32, UnknownStack>, u64)> {
        waiting.blocked.iter().map(|wait| (wait.stack, wait.ns)).collect()
    }

    #[test]
    fn stacks_of_thread_add_up_to_its_time() {
        // One exact stack of 40 ns, and stacks that stand for the other 60 ns, 1 to 2.
        let waiting =
            of(&[wait(50, 40, 1, 1), wait(60, 5, 2, 2), wait(70, 10, 3, 2), waited(99, 100, 8)], None);
        assert_eq!(times(&waiting), [(Ok(1), 40), (Ok(2), 20), (Ok(3), 40)]);
        assert_eq!(waiting.blocked_ns(), 100);
    }

    #[test]
    fn time_without_stack_is_named() {
        let waiting = of(&[waited(99, 100, 8)], None);
        assert_eq!(times(&waiting), [(Err(UnknownStack::NotSampled), 100)]);
    }

    #[test]
    fn window_cuts_long_wait() {
        let window = Window { from: Duration::from_nanos(10), to: Some(Duration::from_nanos(30)) };
        let waiting = of(&[wait(50, 45, 1, 1), waited(20, 10, 0), waited(50, 30, 1)], Some(window));
        assert_eq!(times(&waiting), [(Ok(1), 20)]);
        assert_eq!(waiting.blocked_ns(), 10, "sums count in the second in which they were written");
    }
}
