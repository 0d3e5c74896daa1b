//! Is B better than A? Measured in turns, A B A B A, and compared in pairs.
//!
//! Each B is compared with the mean of the As before and after it, so that a steadily rising or
//! falling load favours neither. Contains the arithmetic and the verdict. Tested in
//! `control/adaptive/tests.rs`.

/// Pairs after which there is a verdict in any case.
pub(super) const PAIRS_MAX: usize = 8;

/// Student's t for a one-sided 97.5 percent, by degrees of freedom less one. A test after every
/// pair makes a false verdict a few times likelier than that. The required gain of a candidate
/// prevents alternating plans.
const STUDENT: [f64; PAIRS_MAX - 1] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36];

/// The least spread of a difference that is assumed, because two equal measurements prove nothing.
/// In 20 loads of `control/tests/world.rs`, half of it or none changes nothing, and twice as much
/// changes the served load by 0.1 % at most.
const SPREAD_MIN: f64 = 0.005;

/// A candidate that is this much worse in the first turn gets no second turn.
const HOPELESS: f64 = -0.5;

/// Measurements of both plans; more is better.
#[derive(Clone, Debug, Default)]
pub(super) struct Paired {
    a: Vec<f64>,
    b: Vec<f64>,
}

/// The verdict of the measurements so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PairedVerdict {
    /// More pairs are needed.
    Open,
    /// B is better by this share.
    Better(f64),
    /// B is not better, or not by enough.
    NotBetter(f64),
}

impl Paired {
    /// Adds a measurement of A; A opens and closes each pair.
    pub(super) fn push_a(&mut self, figure: f64) {
        self.a.push(figure);
    }

    /// Adds a measurement of B.
    pub(super) fn push_b(&mut self, figure: f64) {
        self.b.push(figure);
    }

    /// The last two measurements of A.
    pub(super) fn last_as(&self) -> Option<(f64, f64)> {
        self.a.last_chunk().map(|&[before, last]| (before, last))
    }

    /// The last measurement of A, 0 before the first.
    pub(super) fn last_a(&self) -> f64 {
        self.a.last().copied().unwrap_or(0.0)
    }

    /// Complete pairs.
    pub(super) fn pairs(&self) -> usize {
        self.b.len().min(self.a.len().saturating_sub(1))
    }

    /// Whether B is better by at least `bar`.
    pub(super) fn verdict(&self, bar: f64) -> PairedVerdict {
        if let (Some(&a), Some(&b)) = (self.a.last(), self.b.first())
            && self.pairs() == 0
        {
            let gain = b / a.max(f64::MIN_POSITIVE) - 1.0;
            return if gain < HOPELESS { PairedVerdict::NotBetter(gain) } else { PairedVerdict::Open };
        }
        let gains: Vec<_> =
            self.a.windows(2).zip(&self.b).map(|(a, b)| 2.0 * b / (a[0] + a[1]) - 1.0).collect();
        let pairs = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / pairs;
        if gains.len() < 2 {
            return PairedVerdict::Open;
        }
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (pairs - 1.0);
        let margin = STUDENT[(gains.len() - 2).min(STUDENT.len() - 1)] * variance.sqrt().max(SPREAD_MIN)
            / pairs.sqrt();
        if mean >= bar && mean - margin > 0.0 {
            PairedVerdict::Better(mean)
        } else if mean + margin < bar || gains.len() >= PAIRS_MAX {
            PairedVerdict::NotBetter(mean)
        } else {
            PairedVerdict::Open
        }
    }
}
