//! What a core tells the others about itself: a few numbers, each read without a lock and perhaps stale.
//!
//! A hint decides whom to look at and whom to wake; it is never a reason to believe that there is nothing to do. Tested
//! below.

/// How busy a core is. Times are nanoseconds on the clock of whoever publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hint {
    /// When the activation that runs began; `None` while the core runs nothing.
    pub running_since_ns: Option<u64>,
    /// What that activation was expected to take.
    pub expected_ns: u64,
    /// For how long a color that is taken from this core's queue, and what follows it, hold back those behind, as a moving mean.
    pub activation_ns: u64,
    /// Colors that wait.
    pub waiting: u32,
    /// Those of them that a thief may take.
    pub stealable: u32,
}

impl Hint {
    /// How long a color at the middle of this core's queue will wait: what runs now, and half of what stands there. An
    /// activation that has lasted longer than expected is expected to last as long again: durations have long tails.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.remaining_ns(now_ns).saturating_add(self.backlog_ns() / 2)
    }

    /// Time for which what waits is expected to keep the core busy.
    pub fn backlog_ns(&self) -> u64 {
        self.activation_ns.saturating_mul(u64::from(self.waiting))
    }

    /// How long the running activation has lasted.
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
    fn what_lasts_long_is_expected_to_last() {
        let hint = Hint {
            running_since_ns: Some(1_000),
            expected_ns: 500,
            activation_ns: 500,
            waiting: 4,
            stealable: 4,
        };
        assert_eq!(hint.wait_ns(1_100), 400 + 1_000);
        assert_eq!(hint.wait_ns(21_000), 20_000 + 1_000);
        assert_eq!(Hint { running_since_ns: None, ..hint }.wait_ns(21_000), 1_000);
    }
}
