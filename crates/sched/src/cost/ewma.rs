//! A moving mean with its spread, used for every learned number here.
//!
//! The mean is a plain mean during the first window of samples, and then an exponentially weighted
//! mean. Tested in `cost/tests.rs`.

/// Standard errors between a bound and the mean: 2 is about 97 percent on one side.
const SIGMAS: f32 = 2.0;

/// An exponentially weighted mean and variance in 12 bytes. After `WINDOW` samples, each new sample
/// weighs `1 / WINDOW` (Welford's update until then, West's after).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ewma<const WINDOW: u32> {
    mean: f32,
    variance: f32,
    samples: u32,
}

impl<const WINDOW: u32> Ewma<WINDOW> {
    /// Adds a sample.
    pub fn observe(&mut self, sample: f32) {
        self.samples = self.samples.saturating_add(1);
        let weight = 1.0 / self.samples.min(WINDOW) as f32;
        let difference = sample - self.mean;
        let step = weight * difference;
        self.mean += step;
        self.variance = (1.0 - weight) * (self.variance + difference * step);
    }

    /// The mean, 0 before the first sample.
    pub fn mean(&self) -> f32 {
        self.mean
    }

    /// The standard deviation of the samples.
    pub fn deviation(&self) -> f32 {
        self.variance.sqrt()
    }

    /// The number of samples.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Upper confidence bound of the true mean: infinite before the second sample.
    pub fn upper(&self) -> f32 {
        self.mean + self.margin()
    }

    /// Lower confidence bound of the true mean: minus infinity before the second sample.
    pub fn lower(&self) -> f32 {
        self.mean - self.margin()
    }

    fn margin(&self) -> f32 {
        match self.samples {
            0 | 1 => f32::INFINITY,
            // The variance of the samples underestimates by (n - 1) / n; a moving mean of weight
            // 1/W has 2W - 1 effective samples.
            samples => SIGMAS * (self.variance / (samples - 1).min(2 * WINDOW - 1) as f32).sqrt(),
        }
    }

    /// Restarts at `sample`, as the only sample.
    pub(crate) fn restart(&mut self, sample: f32) {
        *self = Self { mean: sample, variance: 0.0, samples: 1 };
    }

    /// Moves the mean, and keeps its confidence.
    pub(crate) fn shift(&mut self, by: f32) {
        self.mean += by;
    }

    /// Keeps the mean and lowers its confidence to `samples` samples.
    pub(crate) fn doubt(&mut self, samples: u32) {
        self.samples = self.samples.min(samples);
    }

    /// Merges another mean, each by its weight.
    pub(crate) fn merge(&mut self, other: &Self, own_weight: f32, other_weight: f32) {
        if other.samples == 0 {
            return;
        }
        if self.samples == 0 {
            *self = *other;
            return;
        }
        let share = other_weight / (own_weight + other_weight);
        let difference = other.mean - self.mean;
        self.mean += share * difference;
        self.variance = (1.0 - share) * self.variance
            + share * other.variance
            + share * (1.0 - share) * difference * difference;
        self.samples = self.samples.saturating_add(other.samples);
    }

    /// The weight of the mean for the present: the number of samples, up to the effective number.
    pub(crate) fn weight(&self) -> f32 {
        self.samples.min(2 * WINDOW - 1) as f32
    }
}
