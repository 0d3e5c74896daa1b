//! Whether a color that has run what it had, and has more by now, stays on its core although others wait there.
//!
//! An activation runs what was queued when it began. What comes to the color meanwhile, from its own events or from elsewhere,
//! is for its next turn, behind the others; but what its events have brought into the caches is gone by then. So each core
//! learns for each handler what a run takes that follows others', and what one takes that follows its own color's. Where
//! the difference is a good part of the run, the color stays for some times that difference: little of its time is lost to
//! coming back then, and the others wait for it no longer than that, and never longer than [`STAY_MAX_NS`]. Leaves out what
//! the runs are timed by, and everything that ends a stay besides: its batch, a plan that wants the color elsewhere, a task
//! that yields. Tested below.

use crate::cost::Ewma;

/// How many times what coming back costs a color stays: one part in so many of its time is lost to it then. Guess.
const TIMES: u32 = 16;

/// Longest stay while others wait, in nanoseconds: the most that they are kept waiting for a color's warmth. A kernel's time
/// slice is of that length.
pub const STAY_MAX_NS: u64 = 10_000_000;

/// Runs of both kinds after which their difference is believed.
const SURE: u32 = 8;

/// The least part of a run that coming back must cost: for less, nobody is kept waiting. Guess.
const WORTH: f32 = 0.25;

/// How many times its mean one run may count: a thread that lost its cpu says nothing about caches.
const OUTLIER: f32 = 8.0;

/// Of the timed runs after which a color might stay only to be measured, one in so many does, before the difference is known
/// and after. Guess.
const TRIES: (u32, u32) = (2, 64);

/// What ran on the core before an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// An event of its own color.
    Own,
    /// Those of others.
    Others,
}

/// What a handler's runs take that follow their own color's, and those that follow others', on one core.
#[derive(Clone, Copy, Debug, Default)]
pub struct StayCost {
    own: Ewma<16>,
    others: Ewma<16>,
    asked: u32,
}

impl StayCost {
    /// Takes in a timed run of a color that has not been moved.
    pub fn observe(&mut self, run_ns: u64, after: After) {
        let seen = match after {
            After::Own => &mut self.own,
            After::Others => &mut self.others,
        };
        let most = if seen.samples() == 0 { f32::INFINITY } else { OUTLIER * seen.mean() };
        seen.observe((run_ns as f32).min(most));
    }

    /// How long a color whose next event is of this handler stays while others wait, in nanoseconds; 0 where that would not
    /// repay their waiting, `None` where it is not known.
    pub fn stay_ns(&self) -> Option<u64> {
        let back_ns = self.others.mean() - self.own.mean();
        let is_clear = self.others.lower() > self.own.upper();
        self.is_sure().then(|| match is_clear && back_ns > WORTH * self.own.mean() {
            true => (back_ns as u64).saturating_mul(TIMES.into()).min(STAY_MAX_NS),
            false => 0,
        })
    }

    /// Whether a color whose last run was timed stays for one more, so that its difference is seen.
    pub fn tries(&mut self) -> bool {
        let every = if self.is_sure() { TRIES.1 } else { TRIES.0 };
        self.asked = self.asked.wrapping_add(1);
        self.asked.is_multiple_of(every)
    }

    fn is_sure(&self) -> bool {
        self.own.samples() >= SURE && self.others.samples() >= SURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(own_ns: [u64; 2], others_ns: [u64; 2]) -> StayCost {
        let mut cost = StayCost::default();
        for at in 0..2 * SURE as usize {
            cost.observe(own_ns[at % 2], After::Own);
            cost.observe(others_ns[at % 2], After::Others);
        }
        cost
    }

    #[test]
    fn who_comes_back_to_cold_caches_stays_for_some_times_that() {
        assert_eq!(learned([100_000, 100_000], [150_000, 150_000]).stay_ns(), Some(16 * 50_000));
        assert_eq!(learned([1_000_000, 1_000_000], [9_000_000, 9_000_000]).stay_ns(), Some(STAY_MAX_NS));
    }

    #[test]
    fn nobody_waits_for_little_or_for_chance() {
        assert_eq!(learned([100_000, 100_000], [120_000, 120_000]).stay_ns(), Some(0), "a fifth is little");
        assert_eq!(learned([100_000, 100_000], [80_000, 80_000]).stay_ns(), Some(0));
        assert_eq!(
            learned([100, 2_000], [150, 2_900]).stay_ns(),
            Some(0),
            "runs differ more than their kinds do"
        );
        let mut unknown = StayCost::default();
        (0..SURE).for_each(|_| unknown.observe(1_000, After::Others));
        assert_eq!(unknown.stay_ns(), None);
    }

    /// A thread that loses its cpu comes back a thousand times too late.
    #[test]
    fn one_accident_keeps_nobody_waiting() {
        let mut cost = learned([2_000, 2_100], [2_000, 2_100]);
        cost.observe(4_000_000, After::Others);
        assert_eq!(cost.stay_ns(), Some(0));
    }

    #[test]
    fn what_is_not_known_is_tried_more_often() {
        let tries = |mut cost: StayCost| (0..640).filter(|_| cost.tries()).count();
        assert_eq!(tries(StayCost::default()), 320);
        assert_eq!(tries(learned([100, 100], [100, 100])), 10);
    }
}
