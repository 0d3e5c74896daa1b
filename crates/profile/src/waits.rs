//! Waits: how long each thread of the tree did not run, and in which stacks threads blocked.
//!
//! A thread leaves its cpu either blocked, until an event comes, or ready, because another thread
//! took the cpu. The kernel reports both moments of each wait, so the sums are exact. Stacks are
//! sampled at a bounded rate: a stack stands for the switches of its cpu since the stack before.
//! All tables are bounded by the number of threads. Leaves out the events (`sampler`) and the
//! report (`report::waiting`). Tested below and in `tests/waits.rs`.

use std::collections::{HashMap, HashSet};

use crate::event::SwitchTarget;
use crate::format::FileRecord;

/// Threads that are followed at once. Waits of further threads count as lost.
const THREADS_MAX: usize = 1 << 16;
/// How often the sums of each thread are written. A window of a report is exact to this time.
const FLUSH_NS: u64 = 1_000_000_000;

/// The moment at which a thread left or took a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
}

/// A stack of a thread that leaves its cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftStack {
    /// The stack, by its order in the file; `None` for a wait that began before the recording.
    pub(crate) stack: Option<u32>,
    /// The switches of the cpu since the stack before, which this stack stands for.
    pub(crate) switches: u64,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenWait {
    from: Switch,
    /// Up to here the sums have the wait already.
    summed_ns: u64,
    is_ready: bool,
    left: Option<LeftStack>,
}

/// Sums of a thread on a cpu since the last flush.
#[derive(Clone, Copy, Debug, Default)]
struct WaitSums {
    blocked_ns: u64,
    blocked: u64,
    ready_ns: u64,
    ready: u64,
}

impl WaitSums {
    fn add(&mut self, is_ready: bool, ns: u64, waits: u64) {
        let (sum, count) = if is_ready {
            (&mut self.ready_ns, &mut self.ready)
        } else {
            (&mut self.blocked_ns, &mut self.blocked)
        };
        *sum += ns;
        *count += waits;
    }
}

/// The waits of a recording in progress.
#[derive(Default)]
pub(crate) struct WaitLedger {
    open: HashMap<i32, OpenWait>,
    /// Stacks of threads whose switch follows.
    leaving: HashMap<i32, LeftStack>,
    /// Threads that have ended, until their last switch.
    ended: HashSet<i32>,
    /// By process, thread and the cpu that the thread left.
    sums: HashMap<(i32, i32, u32), WaitSums>,
    flushed_ns: u64,
    lost: u64,
}

impl WaitLedger {
    /// A thread waits already when the recording begins.
    pub(crate) fn waits_already(&mut self, from: Switch) {
        self.open(from, false, Some(LeftStack { stack: None, switches: 1 }));
    }

    /// The stack of a thread that leaves its cpu next.
    pub(crate) fn leaves_with(&mut self, tid: i32, left: LeftStack) {
        if self.leaving.len() < THREADS_MAX {
            self.leaving.insert(tid, left);
        }
    }

    /// Takes a switch. Returns the record of a wait that ended, if its stack is known.
    pub(crate) fn switched(&mut self, at: Switch, to: SwitchTarget) -> Option<FileRecord> {
        match to {
            SwitchTarget::Runs => return self.runs(at.tid, at.time),
            SwitchTarget::Ready => self.left(at, true),
            SwitchTarget::Blocked => self.left(at, false),
        }
        None
    }

    /// A thread left its cpu.
    fn left(&mut self, from: Switch, is_ready: bool) {
        let left = self.leaving.remove(&from.tid);
        if !self.ended.remove(&from.tid) {
            self.open(from, is_ready, left);
        }
    }

    fn open(&mut self, from: Switch, is_ready: bool, left: Option<LeftStack>) {
        if self.open.len() < THREADS_MAX || self.open.contains_key(&from.tid) {
            self.open.insert(from.tid, OpenWait { from, summed_ns: from.time, is_ready, left });
        } else {
            self.lost += 1;
        }
    }

    /// A thread runs again. Returns the record of a wait with a known stack.
    fn runs(&mut self, tid: i32, time: u64) -> Option<FileRecord> {
        let wait = self.open.remove(&tid)?;
        let OpenWait { from, summed_ns, is_ready, left } = wait;
        let sums = self.sums.entry((from.pid, tid, from.cpu)).or_default();
        sums.add(is_ready, time.saturating_sub(summed_ns), 1);
        let LeftStack { stack, switches } = left.filter(|_| !is_ready)?;
        let (Switch { cpu, pid, .. }, ns) = (from, time.saturating_sub(from.time));
        Some(FileRecord::Wait { time, cpu, pid, tid, stack, ns, switches })
    }

    /// A thread has ended; its last switch is no wait.
    pub(crate) fn ends(&mut self, tid: i32) {
        self.open.remove(&tid);
        self.leaving.remove(&tid);
        if self.ended.len() < THREADS_MAX {
            self.ended.insert(tid);
        }
    }

    /// A thread began, perhaps with the number of one that has ended.
    pub(crate) fn begins(&mut self, tid: i32) {
        self.ended.remove(&tid);
    }

    /// Switches were lost, so no open wait is known to last still.
    pub(crate) fn lost(&mut self, count: u64) {
        self.lost += count;
        self.open.clear();
        self.leaving.clear();
    }

    /// Switches that were lost so far.
    pub(crate) fn switches_lost(&self) -> u64 {
        self.lost
    }

    /// The sums since the last flush, if one is due. An open wait counts up to `time`.
    pub(crate) fn flush(&mut self, time: u64) -> Vec<FileRecord> {
        if time < self.flushed_ns.saturating_add(FLUSH_NS) {
            return Vec::new();
        }
        self.flushed_ns = time;
        for (tid, wait) in &mut self.open {
            let ns = time.saturating_sub(wait.summed_ns);
            wait.summed_ns = wait.summed_ns.max(time);
            self.sums.entry((wait.from.pid, *tid, wait.from.cpu)).or_default().add(wait.is_ready, ns, 0);
        }
        self.take_sums(time)
    }

    fn take_sums(&mut self, time: u64) -> Vec<FileRecord> {
        let record = |((pid, tid, cpu), sums): ((i32, i32, u32), WaitSums)| {
            let WaitSums { blocked_ns, blocked, ready_ns, ready } = sums;
            FileRecord::Waited { time, pid, tid, cpu, blocked_ns, blocked, ready_ns, ready }
        };
        self.sums.drain().map(record).collect()
    }

    /// Ends all waits at the end of the recording.
    pub(crate) fn finish(&mut self, time: u64) -> Vec<FileRecord> {
        let open: Vec<i32> = self.open.keys().copied().collect();
        let mut records: Vec<FileRecord> = open.into_iter().filter_map(|tid| self.runs(tid, time)).collect();
        records.extend(self.take_sums(time));
        records.push(FileRecord::WaitsEnd { lost: self.lost });
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(time: u64) -> Switch {
        Switch { time, cpu: 1, pid: 7, tid: 8 }
    }

    fn sums(records: &[FileRecord]) -> [u64; 4] {
        let mut all = [0; 4];
        for record in records {
            if let FileRecord::Waited { blocked_ns, blocked, ready_ns, ready, .. } = record {
                let found = [blocked_ns, blocked, ready_ns, ready];
                all.iter_mut().zip(found).for_each(|(all, found)| *all += found);
            }
        }
        all
    }

    #[test]
    fn blocked_and_ready_time_add_up() {
        let mut ledger = WaitLedger::default();
        ledger.leaves_with(8, LeftStack { stack: Some(3), switches: 2 });
        ledger.left(at(10), false);
        let wait = ledger.runs(8, 25);
        let expected =
            FileRecord::Wait { time: 25, cpu: 1, pid: 7, tid: 8, stack: Some(3), ns: 15, switches: 2 };
        assert_eq!(wait, Some(expected));
        ledger.leaves_with(8, LeftStack { stack: Some(4), switches: 1 });
        ledger.left(at(30), true);
        assert_eq!(ledger.runs(8, 37), None, "a thread that could run is not blocked");
        assert_eq!(sums(&ledger.finish(50)), [15, 1, 7, 1]);
    }

    #[test]
    fn long_wait_counts_in_each_second() {
        let mut ledger = WaitLedger::default();
        ledger.waits_already(at(0));
        assert_eq!(sums(&ledger.flush(S)), [S, 0, 0, 0]);
        assert!(ledger.flush(S + 1).is_empty(), "not yet due");
        assert_eq!(sums(&ledger.flush(2 * S)), [S, 0, 0, 0]);
        let records = ledger.finish(3 * S);
        assert_eq!(sums(&records), [S, 1, 0, 0]);
        assert!(matches!(records[0], FileRecord::Wait { stack: None, ns, .. } if ns == 3 * S));
    }

    #[test]
    fn last_switch_of_ended_thread_is_no_wait() {
        let mut ledger = WaitLedger::default();
        ledger.ends(8);
        ledger.left(at(10), false);
        assert_eq!(sums(&ledger.finish(S)), [0; 4]);
        // Another thread gets the number.
        ledger.begins(8);
        ledger.left(at(S), false);
        assert_eq!(sums(&ledger.finish(2 * S)), [S, 1, 0, 0]);
    }

    #[test]
    fn lost_switches_make_no_wait() {
        let mut ledger = WaitLedger::default();
        ledger.left(at(10), false);
        ledger.lost(3);
        assert_eq!(ledger.runs(8, S), None);
        assert_eq!(sums(&ledger.finish(S)), [0; 4]);
        assert_eq!(ledger.switches_lost(), 3);
    }

    #[test]
    fn tables_are_bounded_by_threads() {
        let mut ledger = WaitLedger::default();
        for tid in 0..THREADS_MAX as i32 + 5 {
            ledger.leaves_with(tid, LeftStack { stack: None, switches: 1 });
            ledger.left(Switch { tid, ..at(1) }, false);
        }
        assert_eq!((ledger.open.len(), ledger.switches_lost()), (THREADS_MAX, 5));
    }
}
