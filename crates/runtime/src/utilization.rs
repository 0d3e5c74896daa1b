//! The part of the time for which a core has work, measured over some milliseconds.
//!
//! A color waits for some microseconds on every core that has work, and a short wait is reason
//! enough to move a color that costs nothing to move. A connection costs more: both cores move its
//! socket, and its next requests find cold caches. So the color of a task that stays moves only
//! to a core with much less work (`RuntimeShared::may_go`). Tested below.

use std::sync::atomic::{AtomicU64, Ordering};
use vermeil_io::ThreadTimes;

/// The length of a measurement, in nanoseconds: at least three slices of the kernel's scheduler, so
/// that one slice of another process on the core's cpu is not taken for much work.
pub(crate) const PERIOD_NS: u64 = 10_000_000;

/// The whole of a core's time.
const WHOLE: u64 = 256;

/// How much busier a core must be than the core that takes a connection from it. With a smaller
/// difference, connections would move to and fro between cores with equal loads: measured with 8
/// connections on 2 cores, such moves cost an eighth of the answers.
const MUCH: u64 = WHOLE / 4;

/// A core's measurements. Only the core writes, except `took_ns`.
#[derive(Debug, Default)]
pub(crate) struct Utilization {
    /// When the core last measured.
    measured_ns: AtomicU64,
    /// [`ThreadTimes::with_work_ns`] then.
    with_work_ns: AtomicU64,
    /// The time with work in the last measurement, in parts of [`WHOLE`].
    busy: AtomicU64,
    /// The same of the measurement before.
    busy_before: AtomicU64,
    /// When the core last took a color whose task stays.
    took_ns: AtomicU64,
}

impl Utilization {
    /// The core, which has just woken, measures once in a period.
    #[inline]
    pub(crate) fn measure(&self, now_ns: u64, times: &ThreadTimes) {
        if now_ns.saturating_sub(self.measured_ns.load(Ordering::Relaxed)) >= PERIOD_NS {
            self.measured(now_ns, times.with_work_ns());
        }
    }

    fn measured(&self, now_ns: u64, with_work_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.measured_ns.swap(now_ns, Ordering::Relaxed));
        let worked_ns = with_work_ns.saturating_sub(self.with_work_ns.swap(with_work_ns, Ordering::Relaxed));
        let busy = worked_ns.saturating_mul(WHOLE).checked_div(elapsed_ns).unwrap_or(0);
        let before = self.busy.swap(busy.min(WHOLE), Ordering::Relaxed);
        self.busy_before.store(before, Ordering::Relaxed);
    }

    /// The last two measurements, the lesser first. A core that has not measured for long has slept
    /// or worked all the time.
    fn busy(&self, now_ns: u64, is_asleep: bool) -> (u64, u64) {
        let is_late = now_ns.saturating_sub(self.measured_ns.load(Ordering::Relaxed)) > 2 * PERIOD_NS;
        if is_late {
            let busy = if is_asleep { 0 } else { WHOLE };
            return (busy, busy);
        }
        let (last, before) = (self.busy.load(Ordering::Relaxed), self.busy_before.load(Ordering::Relaxed));
        (last.min(before), last.max(before))
    }

    /// The core has taken a color whose task stays.
    pub(crate) fn took(&self, now_ns: u64) {
        self.took_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether this core, the thief, may take a color whose task stays from the core `owner`. One
    /// color goes in each period, because the next measurement shows the effect. Two measurements
    /// count, because those of both cores do not begin together: the first load after a rest would
    /// otherwise look like a difference.
    pub(crate) fn may_take_from(&self, owner: &Self, thief_is_asleep: bool, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.took_ns.load(Ordering::Relaxed)) >= PERIOD_NS
            && owner.busy(now_ns, false).0 >= self.busy(now_ns, thief_is_asleep).1 + MUCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A core that has measured after 20 and 30 ms, and had work for `part_ms` of each 10 ms.
    fn with_work(part_ms: u64) -> Utilization {
        let utilization = Utilization::default();
        for period in 1..=3 {
            utilization.measured(period * PERIOD_NS, period * part_ms * MS);
        }
        utilization
    }

    #[test]
    fn only_much_less_busy_core_takes() {
        let (busy, half, idle) = (with_work(9), with_work(5), with_work(0));
        let now_ns = 31 * MS;
        assert!(idle.may_take_from(&busy, true, now_ns));
        assert!(half.may_take_from(&busy, false, now_ns));
        assert!(!busy.may_take_from(&half, false, now_ns));
        assert!(!half.may_take_from(&with_work(7), false, now_ns));
    }

    #[test]
    fn core_takes_one_color_per_period() {
        let (busy, idle) = (with_work(10), with_work(0));
        idle.took(31 * MS);
        assert!(!idle.may_take_from(&busy, true, 40 * MS));
        assert!(idle.may_take_from(&busy, true, 41 * MS));
    }

    #[test]
    fn long_sleep_and_long_work_count_before_they_end() {
        let (asleep, awake) = (with_work(10), with_work(0));
        assert!(!asleep.may_take_from(&awake, true, 40 * MS));
        assert!(asleep.may_take_from(&awake, true, 60 * MS));
    }

    #[test]
    fn difference_must_last() {
        let (once, idle) = (with_work(0), with_work(0));
        once.measured(40 * MS, 10 * MS);
        assert!(!idle.may_take_from(&once, true, 41 * MS));
        once.measured(50 * MS, 20 * MS);
        assert!(idle.may_take_from(&once, true, 51 * MS));
    }
}
