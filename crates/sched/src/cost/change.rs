//! When a handler has begun to behave differently: Page's CUSUM on standardised run times.
//!
//! Owns the two sums. Leaves out what is forgotten when they alarm (`cost.rs`). Tested in `cost/tests.rs`.

/// Drift per sample that is ignored, in standard deviations: half of the smallest shift worth noticing (Page, Continuous
/// Inspection Schemes, 1954; the usual half).
const SLACK: f32 = 0.5;
/// The sum that alarms, in standard deviations. At 5 the textbooks expect a false alarm every few hundred normal samples, at 8
/// one in tens of thousands; run times have longer tails, and a false alarm costs a few samples of certainty.
const ALARM: f32 = 8.0;
/// The most one sample counts: three samples at least are a change, one never is.
const MOST: f32 = 4.0;

/// Cumulated deviation upwards and downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Change {
    up: f32,
    down: f32,
}

impl Change {
    /// Takes in a deviation from the mean, in standard deviations; whether this is a change.
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
