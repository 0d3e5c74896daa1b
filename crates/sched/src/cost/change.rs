//! Detects a change of a handler's behaviour: Page's CUSUM on standardised run times.
//!
//! Contains the two sums. Leaves out the reaction to an alarm (`cost.rs`). Tested in
//! `cost/tests.rs`.

/// Ignored drift per sample, in standard deviations: half of the smallest shift worth noticing
/// (Page, Continuous Inspection Schemes, 1954; the usual half).
const SLACK: f32 = 0.5;
/// The sum that raises an alarm, in standard deviations. At 5 the textbooks expect a false alarm
/// every few hundred normal samples, at 8 one in tens of thousands. Run times have longer tails,
/// and a false alarm costs a few samples of certainty.
const ALARM: f32 = 8.0;
/// The maximum weight of a sample: a change needs at least three samples, and one sample is never a
/// change.
const MOST: f32 = 4.0;

/// Accumulated deviation upwards and downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChangeDetector {
    up: f32,
    down: f32,
}

impl ChangeDetector {
    /// Adds a deviation from the mean, in standard deviations. Returns whether this is a change.
    pub(crate) fn alarms(&mut self, deviation: f32) -> bool {
        let deviation = deviation.clamp(-MOST, MOST);
        self.up = (self.up + deviation - SLACK).max(0.0);
        self.down = (self.down - deviation - SLACK).max(0.0);
        let alarm = self.up > ALARM || self.down > ALARM;
        if alarm {
            *self = Self::default();
        }
        alarm
    }
}
