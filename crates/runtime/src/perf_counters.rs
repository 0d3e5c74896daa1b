//! A core's measurements beside the time: the loss of its cpu during a timed run, and the number of
//! missed cache lines.
//!
//! The counter of misses is opened at the first round of observation, so only if the policy places
//! handlers by observation. No other policy uses the counter, and the counter makes each park more
//! expensive. Rounds count all misses, timed runs count their own. If a reading takes a system
//! call, few runs are counted. Leaves out the counter itself (`vermeil_io`: `Counter`) and the use
//! of the counts (`vermeil_sched::cost`). Tested below, and in `tests/perf_counters.rs`.

use std::cell::{Cell, OnceCell, RefCell};
use vermeil_io::{CountReading, CountedEvent, Counter, preemptions};
use vermeil_sched::{Budget, Interruptions};

/// Cost of reading a count by system call, in nanoseconds: 1.0 us measured on a virtual machine.
const READ_NS: u64 = 1_000;

/// Thousandths of the time that may be spent on reading counts by system call: as much as timing
/// itself may take.
const READ_PERMILLE: u32 = 5;

/// The witness of a core's thread: measures the costs of runs beside the time.
#[derive(Default)]
pub(crate) struct PerfCounters {
    interruptions: Cell<Interruptions>,
    /// Set at the first attempt; `None` inside if misses cannot be counted.
    misses: OnceCell<Option<MissCounts>>,
}

struct MissCounts {
    counter: Counter,
    /// Whether the counter could be read by an instruction when it was opened. If so, a later run
    /// in which the instruction fails is not counted, because the budget does not pay for its
    /// system calls.
    by_instruction: bool,
    /// Reading at the last answered round.
    at_round: Cell<Option<CountReading>>,
    /// Reading at the begin of the counted run.
    at_start: Cell<Option<CountReading>>,
    /// The budget for system calls, and the time of its last income.
    budget: RefCell<(Budget, u64)>,
}

impl PerfCounters {
    /// Begins an activation with timed runs; returns whether that took a system call.
    #[inline]
    pub(crate) fn begin(&self, now_ns: u64) -> bool {
        let (mut interruptions, mut called) = (self.interruptions.get(), false);
        interruptions.begin(now_ns, || {
            called = true;
            preemptions()
        });
        self.interruptions.set(interruptions);
        self.misses.get().and_then(Option::as_ref).is_some_and(|misses| misses.begin(now_ns)) || called
    }

    /// Ends a timed run: returns its misses, if counted. The next run of the activation begins.
    #[inline]
    pub(crate) fn missed(&self) -> Option<u64> {
        self.misses.get()?.as_ref()?.missed()
    }

    /// Whether a timed run with the expected time `expected_ns`, which has just ended, has lost the
    /// cpu meanwhile; and whether the check took a system call.
    #[inline]
    pub(crate) fn is_interrupted(&self, now_ns: u64, run_ns: u64, expected_ns: u64) -> (bool, bool) {
        let (mut interruptions, mut asked) = (self.interruptions.get(), false);
        let spoiled = interruptions.spoiled(now_ns, run_ns, expected_ns, || {
            asked = true;
            preemptions()
        });
        self.interruptions.set(interruptions);
        (spoiled, asked)
    }

    /// The misses since the last round, if counted. The first call opens the counter and passes its
    /// description to `say`.
    pub(crate) fn missed_since_round(&self, counted: CountedEvent, say: impl FnOnce(String)) -> Option<u64> {
        let misses = self.misses.get_or_init(|| {
            let counter = Counter::open(counted);
            let how = counter.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            say(format!("{counted}: {how}"));
            counter.ok().map(MissCounts::new)
        });
        misses.as_ref()?.missed_since_round()
    }
}

impl MissCounts {
    fn new(counter: Counter) -> Self {
        Self {
            by_instruction: counter.read_by_instruction().is_some(),
            at_round: Cell::new(counter.read()),
            at_start: Cell::default(),
            budget: RefCell::new((Budget::new(READ_PERMILLE, 4 * READ_NS), 0)),
            counter,
        }
    }

    /// Whether the run that begins costs system calls.
    fn begin(&self, now_ns: u64) -> bool {
        let counts = self.by_instruction || {
            let (budget, earned_ns) = &mut *self.budget.borrow_mut();
            budget.earn(now_ns.saturating_sub(std::mem::replace(earned_ns, now_ns)));
            budget.spend(2 * READ_NS)
        };
        self.at_start.set(if counts { self.read() } else { None });
        counts && !self.by_instruction
    }

    fn missed(&self) -> Option<u64> {
        let start = self.at_start.take()?;
        let now = self.read()?;
        if self.by_instruction {
            self.at_start.set(Some(now));
        }
        now.since(start)
    }

    fn read(&self) -> Option<CountReading> {
        if self.by_instruction { self.counter.read_by_instruction() } else { self.counter.read() }
    }

    fn missed_since_round(&self) -> Option<u64> {
        let now = self.counter.read();
        now?.since(self.at_round.replace(now)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A witness that counts page faults, as every machine can; `None` if this thread may not
    /// count.
    fn opened() -> Option<PerfCounters> {
        let (perf_counters, mut said) = (PerfCounters::default(), String::new());
        perf_counters.missed_since_round(CountedEvent::PageFaults, |how| said = how);
        if said.starts_with("page faults: not measurable here (") {
            eprintln!("skipped: {said}");
            return None;
        }
        assert_eq!(said, "page faults: counted (page-faults, read by system call)");
        Some(perf_counters)
    }

    /// Touches memory for the first time: 32 faults with the largest pages, 16,384 with the
    /// smallest.
    pub(crate) fn fault() {
        let mut fresh = vec![0u8; 64 << 20];
        fresh.chunks_mut(4096).for_each(|page| page[0] = 1);
        std::hint::black_box(&fresh);
    }

    #[test]
    fn perf_counter_reads_stay_within_their_budget() {
        let Some(perf_counters) = opened() else { return };
        assert!(perf_counters.begin(1_000_000_000), "a system call");
        fault();
        assert!(perf_counters.missed().expect("it was counted") >= 16);
        assert_eq!(perf_counters.missed(), None, "the next run of the activation is not counted");
        while perf_counters.begin(1_000_000_000) {}
        fault();
        assert_eq!(perf_counters.missed(), None, "not paid for");
        perf_counters.begin(1_000_400_000);
        assert!(perf_counters.missed().is_some(), "two readings in 0.4 ms");
    }

    /// As if another program has taken the processor's counter, so the counter's page no longer
    /// allows the instruction.
    #[test]
    fn counter_read_by_instruction_never_makes_a_call() {
        let Some(mut perf_counters) = opened() else { return };
        perf_counters.misses.get_mut().and_then(Option::as_mut).expect("it was opened").by_instruction = true;
        perf_counters.begin(1_000_000_000);
        assert!(!perf_counters.begin(1_000_000_001), "the count of preemptions is new");
        fault();
        assert_eq!(perf_counters.missed(), None);
        assert!(
            perf_counters.missed_since_round(CountedEvent::PageFaults, |_| ()).expect("one call a round")
                >= 16
        );
    }

    #[test]
    fn round_counts_all_misses() {
        let Some(perf_counters) = opened() else { return };
        fault();
        let again = |_| panic!("it was tried");
        assert!(
            perf_counters.missed_since_round(CountedEvent::PageFaults, again).expect("they were counted")
                >= 16
        );
    }

    #[test]
    fn missing_counter_reports_a_reason_and_no_zero() {
        let (perf_counters, mut said) = (PerfCounters::default(), String::new());
        let missed = perf_counters.missed_since_round(CountedEvent::CacheMisses, |how| said = how);
        if said.starts_with("cache misses: counted (") {
            return;
        }
        assert!(said.starts_with("cache misses: not measurable here ("), "{said}");
        perf_counters.begin(1_000_000_000);
        assert_eq!((missed, perf_counters.missed()), (None, None));
    }
}
