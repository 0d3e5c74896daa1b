//! The lock of a core's queue: callers get the lock in the order of virtual time.
//!
//! One step of a core covers a span of virtual time, so a caller may ask for a later time than the
//! callers of the next steps. Therefore the lock keeps the spans for which it is taken. A caller
//! gets the first gap from its own time on, and never waits for a caller of a later time. Owns the
//! spans. Leaves out the costs (`ready.rs`). Tested below.

use std::collections::VecDeque;

use vermeil_sched::CoreIndex;

/// A time for which a core holds the lock.
#[derive(Clone, Copy, Debug)]
struct LockSpan {
    from_ns: u64,
    until_ns: u64,
    holder: CoreIndex,
}

/// A lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimLock {
    /// In order of time, without overlaps. The first may have ended: its holder has the lock's
    /// cache line.
    spans: VecDeque<LockSpan>,
}

impl SimLock {
    /// Whether a core holds the lock at this time.
    pub(crate) fn is_taken(&self, at_ns: u64) -> bool {
        let next = self.spans.partition_point(|span| span.until_ns <= at_ns);
        self.spans.get(next).is_some_and(|span| span.from_ns <= at_ns)
    }

    /// Takes the lock at `at_ns` or later, for the time that `hold_ns` gives for the last holder
    /// before. Returns the start and the end. No caller asks for a time before `now_ns` any more.
    pub(crate) fn take(
        &mut self,
        holder: CoreIndex,
        (now_ns, at_ns): (u64, u64),
        mut hold_ns: impl FnMut(Option<CoreIndex>) -> u64,
    ) -> (u64, u64) {
        while self.spans.len() > 1 && self.spans[1].until_ns <= now_ns {
            self.spans.pop_front();
        }
        let mut from_ns = at_ns;
        let mut next = self.spans.partition_point(|span| span.until_ns <= at_ns);
        let until_ns = loop {
            let before = next.checked_sub(1).map(|before| self.spans[before].holder);
            let until_ns = from_ns + hold_ns(before);
            match self.spans.get(next) {
                Some(span) if span.from_ns < until_ns => from_ns = from_ns.max(span.until_ns),
                _ => break until_ns,
            }
            next += 1;
        };
        self.spans.insert(next, LockSpan { from_ns, until_ns, holder });
        (from_ns, until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: CoreIndex = CoreIndex(0);
    const THIEF: CoreIndex = CoreIndex(1);

    #[test]
    fn owner_waits_for_no_thief_of_a_later_time() {
        let mut lock = SimLock::default();
        assert_eq!(lock.take(THIEF, (0, 5_000), |_| 200), (5_000, 5_200));
        assert_eq!(lock.take(OWNER, (0, 10), |_| 30), (10, 40));
        assert_eq!(lock.take(OWNER, (0, 4_990), |_| 30), (5_200, 5_230), "the gap is too short");
        assert_eq!(lock.take(OWNER, (0, 4_960), |_| 40), (4_960, 5_000));
        assert!([10, 39, 4_999, 5_000, 5_229].into_iter().all(|at_ns| lock.is_taken(at_ns)));
        assert!([0, 9, 40, 4_959, 5_230].into_iter().all(|at_ns| !lock.is_taken(at_ns)));
    }

    #[test]
    fn line_comes_from_the_holder_before() {
        let mut lock = SimLock::default();
        lock.take(THIEF, (0, 100), |before| {
            assert_eq!(before, None);
            10
        });
        lock.take(OWNER, (0, 50), |before| {
            assert_eq!(before, None, "the thief comes later");
            10
        });
        let mut asked = Vec::new();
        lock.take(OWNER, (1_000, 1_000), |before| {
            asked.push(before);
            10
        });
        assert_eq!(asked, [Some(THIEF)], "spans that have ended leave the last holder");
        assert_eq!(lock.spans.len(), 2);
    }
}
