//! How many colors a thief takes from a victim in one visit: at most a batch, and in worth up to
//! [`Stealing::amount_ns`].
//!
//! Leaves out the choice of the colors (`steal.rs`). Tested below.

use crate::{STEAL_BATCH_MAX, Stealing};

/// The colors that a thief takes from a victim in one visit.
#[derive(Clone, Copy, Debug)]
pub struct StealAmount {
    stealing: Stealing,
    victim_backlog_ns: u64,
    colors: usize,
    worth_ns: u64,
}

impl StealAmount {
    /// The thief has taken nothing from a victim with this backlog.
    pub fn new(stealing: Stealing, victim_backlog_ns: u64) -> Self {
        Self { stealing, victim_backlog_ns, colors: 0, worth_ns: 0 }
    }

    /// The thief has taken a color of this worth. Returns whether the thief has enough.
    #[inline]
    pub fn add(&mut self, worth_ns: u64) -> bool {
        self.colors += 1;
        self.worth_ns += worth_ns;
        self.colors >= STEAL_BATCH_MAX
            || self.worth_ns >= self.stealing.amount_ns(self.victim_backlog_ns, self.worth_ns)
    }

    /// The worth of all taken colors.
    pub fn worth_ns(&self) -> u64 {
        self.worth_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thief_takes_half_of_difference_in_bounded_batch() {
        let colors = |stealing, backlog_ns, each_ns| {
            let mut amount = StealAmount::new(stealing, backlog_ns);
            (1..).find(|_| amount.add(each_ns)).map(|colors: u64| (colors, amount.worth_ns()))
        };
        assert_eq!(colors(Stealing::TimeLeft, 90_000, 1_000), Some((1, 1_000)), "as in the publications");
        assert_eq!(colors(Stealing::Learned, 60_000, 2_000), Some((10, 20_000)));
        let most = STEAL_BATCH_MAX as u64;
        assert_eq!(colors(Stealing::Learned, 1_000_000, 100), Some((most, most * 100)));
    }
}
