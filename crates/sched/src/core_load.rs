//! The published load of a core: a few numbers, each read without a lock and perhaps stale.
//!
//! A published load selects a victim or a core to wake. A published load never proves that there is
//! no work. Tested below.

/// Weight of a new time in [`CoreLoad::activation_ns`]: one part in this number.
/// Simulated: half or twice as much changes no rate of the shipped workloads by 0.5 % for
/// three seeds alike.
const MEAN_WEIGHT: u64 = 16;

/// How busy a core is. Times are nanoseconds on the publisher's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreLoad {
    /// The start of the running activation; `None` while the core runs nothing.
    pub running_since_ns: Option<u64>,
    /// The expected duration of that activation.
    pub expected_ns: u64,
    /// Moving mean of the time for which a color taken from this core's queue, with its successors,
    /// delays the colors behind it.
    pub activation_ns: u64,
    /// Number of waiting colors.
    pub waiting: u32,
    /// Waiting colors that a thief may take.
    pub stealable: u32,
}

/// The time for which a color taken from a core's queue, with its successors, delays the colors
/// behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldBack {
    ns: u64,
    was_measured: bool,
}

impl HeldBack {
    /// The colors in the queue waited for `ns` more, which was measured or is an expectation.
    #[inline]
    pub fn add(&mut self, ns: u64, was_measured: bool) {
        self.ns = self.ns.saturating_add(ns);
        self.was_measured |= was_measured;
    }

    /// Ends the delay. Returns the time if a part was measured, because expectations alone teach
    /// nothing.
    #[inline]
    pub fn end(&mut self) -> Option<u64> {
        let Self { ns, was_measured } = std::mem::take(self);
        was_measured.then_some(ns)
    }
}

impl CoreLoad {
    /// The moving mean `mean_ns` of [`activation_ns`](Self::activation_ns) after a further time of
    /// `took_ns`.
    pub fn smooth_ns(mean_ns: u64, took_ns: u64) -> u64 {
        (mean_ns * (MEAN_WEIGHT - 1) + took_ns) / MEAN_WEIGHT
    }

    /// Expected wait of a color at the middle of this core's queue: the running activation, and
    /// half of the queue. An activation that has exceeded its expected duration is expected to last
    /// as long again, because durations have long tails.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.remaining_ns(now_ns).saturating_add(self.backlog_ns() / 2)
    }

    /// As [`wait_ns`](Self::wait_ns), of a color that is about to be the last in the queue.
    pub fn last_wait_ns(&self, now_ns: u64) -> u64 {
        self.remaining_ns(now_ns).saturating_add(self.backlog_ns())
    }

    /// Time for which the waiting colors are expected to keep the core busy.
    pub fn backlog_ns(&self) -> u64 {
        self.activation_ns.saturating_mul(u64::from(self.waiting))
    }

    /// Elapsed time of the running activation.
    pub fn running_ns(&self, now_ns: u64) -> u64 {
        self.running_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    fn remaining_ns(&self, now_ns: u64) -> u64 {
        if self.running_since_ns.is_none() {
            return 0;
        }
        let ran_ns = self.running_ns(now_ns);
        if ran_ns > self.expected_ns { ran_ns } else { self.expected_ns - ran_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_counts_if_part_was_measured() {
        let mut held_back = HeldBack::default();
        held_back.add(1_000, false);
        assert_eq!(held_back.end(), None);
        held_back.add(1_000, true);
        held_back.add(500, false);
        assert_eq!((held_back.end(), held_back.end()), (Some(1_500), None));
    }

    #[test]
    fn long_activation_raises_expected_time() {
        let load = CoreLoad {
            running_since_ns: Some(1_000),
            expected_ns: 500,
            activation_ns: 500,
            waiting: 4,
            stealable: 4,
        };
        assert_eq!(load.wait_ns(1_100), 400 + 1_000);
        assert_eq!(load.wait_ns(21_000), 20_000 + 1_000);
        assert_eq!(load.last_wait_ns(1_100), 400 + 2_000);
        assert_eq!(CoreLoad { running_since_ns: None, ..load }.wait_ns(21_000), 1_000);
    }
}
