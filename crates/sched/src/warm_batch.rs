//! Batch extension: whether a color that has run its batch, and has more events by now, continues
//! on its core although other colors wait.
//!
//! An activation runs the events that were queued at its start. Events that arrive meanwhile, from
//! the color's own events or from elsewhere, wait for the color's next turn, behind other colors.
//! By then the caches have lost the color's data. So each core learns for each handler the time of
//! a run that follows other colors, and of a run that follows the same color. If the difference is
//! a good part of the run, the color stays for a multiple of that difference. Then the color loses
//! little time to cold caches, and the others wait no longer than that, and never longer than
//! [`WARM_BATCH_MAX_NS`]. Leaves out the timing of runs, and every other reason to end an
//! extension: the batch, a pending migration, a task that yields. Tested below.

use crate::cost::Ewma;
use vermeil_ablation::Mechanism;

/// The ratio of a extension to the cost of coming back: one part in this number of the color's time
/// is lost to that cost, so this is the limit on the loss: 6 %.
const TIMES: u32 = 16;

/// Longest extension while other colors wait, in nanoseconds: the maximum wait for the sake of a
/// color's warm cache. A kernel's time slice has this length.
pub const WARM_BATCH_MAX_NS: u64 = 10_000_000;

/// Runs of both kinds after which their difference is believed.
const SURE: u32 = 8;

/// The least part of a run that coming back must cost, because less does not justify a wait.
/// Simulated: twice as much loses 8 % of the rate of `image-pipeline` on 2, 8 and 16 cores below
/// one cache. Half or a quarter as much changes nothing there.
const WORTH: f32 = 0.125;

/// The multiple of the mean that a run may count, because a thread that lost the cpu says nothing
/// about caches.
const OUTLIER: f32 = 8.0;

/// Intervals, in timed runs, between extensions for measurement only: before the difference is
/// known, and after. The limit on the cost of measuring: after the difference is known, one batch
/// in 64 is extended without need.
const TRIES: (u32, u32) = (2, 64);

/// The mean run from which a handler counts as long, in nanoseconds. A core reads more than a
/// megabyte in this time, so a long run may fill a private cache with the data of its color.
/// Simulated: without this bound, the p99 of `web`, whose runs take up to 11 us, is 15 % higher on
/// four cores.
const LONG_RUN_NS: f32 = 100_000.0;

/// While the difference of a long handler is unknown, a batch in this number ends without an
/// extension, so that runs after other colors are seen. Such a run comes only when the color's turn
/// comes again. Also the number of waiting colors from which this rule holds, because a further run
/// makes their waits longer by at most one part in this number. Simulated: with 8,
/// `image-pipeline` reaches 0.97 of the best rate on flat machines instead of 0.98. If few colors
/// wait, the rule makes the p99 of `support` up to 23 % higher.
const LEAVES: u32 = 16;

/// The predecessor of an event on the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAfter {
    /// An event of the same color.
    Own,
    /// An event of another color.
    Others,
}

/// Run times of a handler after an event of the same color, and after other colors, on one core.
#[derive(Clone, Copy, Debug, Default)]
pub struct WarmBatch {
    own: Ewma<16>,
    others: Ewma<16>,
    asked: u32,
}

impl WarmBatch {
    /// Adds a timed run of a color that has not moved.
    pub fn observe(&mut self, run_ns: u64, after: RunAfter) {
        let seen = match after {
            RunAfter::Own => &mut self.own,
            RunAfter::Others => &mut self.others,
        };
        let most = if seen.samples() == 0 { f32::INFINITY } else { OUTLIER * seen.mean() };
        seen.observe((run_ns as f32).min(most));
    }

    /// The length of an extension for a color whose next event is of this handler, in nanoseconds;
    /// 0 if a stay would not repay the wait of other colors, `None` if unknown.
    pub fn extension_ns(&self) -> Option<u64> {
        if Mechanism::WarmBatch.is_off() {
            return Some(0);
        }
        let back_ns = self.others.mean() - self.own.mean();
        let is_clear = self.others.lower() > self.own.upper();
        self.is_sure().then(|| match is_clear && back_ns > WORTH * self.own.mean() {
            true => (back_ns as u64).saturating_mul(TIMES.into()).min(WARM_BATCH_MAX_NS),
            false => 0,
        })
    }

    /// Whether a color whose last run was timed stays for one more run, for a measurement, while
    /// `waiting` other colors wait.
    pub fn tries_extension(&mut self, waiting: usize) -> bool {
        self.asked = self.asked.wrapping_add(1);
        let stays = match self.is_sure() {
            true => self.asked.is_multiple_of(TRIES.1),
            false if waiting >= LEAVES as usize && self.is_long() => !self.asked.is_multiple_of(LEAVES),
            false => self.asked.is_multiple_of(TRIES.0),
        };
        stays && !Mechanism::WarmBatch.is_off()
    }

    fn is_long(&self) -> bool {
        self.own.mean().max(self.others.mean()) > LONG_RUN_NS
    }

    fn is_sure(&self) -> bool {
        self.own.samples() >= SURE && self.others.samples() >= SURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(own_ns: [u64; 2], others_ns: [u64; 2]) -> WarmBatch {
        let mut cost = WarmBatch::default();
        for at in 0..2 * SURE as usize {
            cost.observe(own_ns[at % 2], RunAfter::Own);
            cost.observe(others_ns[at % 2], RunAfter::Others);
        }
        cost
    }

    #[test]
    fn color_returning_to_cold_caches_stays_several_times_longer() {
        assert_eq!(learned([100_000, 100_000], [150_000, 150_000]).extension_ns(), Some(16 * 50_000));
        assert_eq!(
            learned([1_000_000, 1_000_000], [9_000_000, 9_000_000]).extension_ns(),
            Some(WARM_BATCH_MAX_NS)
        );
    }

    #[test]
    fn small_or_chance_penalty_delays_no_color() {
        assert_eq!(
            learned([100_000, 100_000], [110_000, 110_000]).extension_ns(),
            Some(0),
            "a tenth is little"
        );
        assert_eq!(learned([100_000, 100_000], [80_000, 80_000]).extension_ns(), Some(0));
        assert_eq!(
            learned([100, 2_000], [150, 2_900]).extension_ns(),
            Some(0),
            "runs differ more than their kinds do"
        );
        let mut unknown = WarmBatch::default();
        (0..SURE).for_each(|_| unknown.observe(1_000, RunAfter::Others));
        assert_eq!(unknown.extension_ns(), None);
    }

    /// A thread that loses the cpu returns a thousand times too late.
    #[test]
    fn single_outlier_delays_no_color() {
        let mut cost = learned([2_000, 2_100], [2_000, 2_100]);
        cost.observe(4_000_000, RunAfter::Others);
        assert_eq!(cost.extension_ns(), Some(0));
    }

    #[test]
    fn unknown_penalty_is_tried_more_often() {
        let tries = |mut cost: WarmBatch| (0..640).filter(|_| cost.tries_extension(100)).count();
        assert_eq!(tries(WarmBatch::default()), 320);
        assert_eq!(tries(learned([100, 100], [100, 100])), 10);
    }

    /// Regression: half of the images in a long queue returned to cold caches before the first run
    /// after another image showed the cost.
    #[test]
    fn long_color_stays_while_penalty_is_unknown() {
        let tries = |run_ns, waiting| {
            let mut cost = WarmBatch::default();
            (0..2 * SURE).for_each(|_| cost.observe(run_ns, RunAfter::Own));
            (0..640).filter(|_| cost.tries_extension(waiting)).count()
        };
        assert_eq!((tries(90_000, 16), tries(110_000, 16)), (320, 600));
        assert_eq!(tries(110_000, 15), 320, "the stay would hold up few colors for long");
    }
}
