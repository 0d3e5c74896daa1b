//! Statistics of few repetitions: intervals, tests, and many tests at once.
//!
//! The repetition is the unit, not the sample: two runs of the same program differ by more than the
//! number of their samples explains, so an interval from samples alone promises too much. Tested
//! below against tables.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A mean with the interval that holds the true one in 95 of 100 cases, and the chance that a mean
/// so far from zero comes from noise.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance, from 0 to 1.
    pub p: f64,
}

impl Estimate {
    /// From the values of repetitions, by Student's distribution. `None` for fewer than two.
    pub fn of_repetitions(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = (variance / count).sqrt();
        let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
        let reach = student.inverse_cdf(0.975) * error;
        let p = if error > 0.0 { 2.0 * student.sf((mean / error).abs()) } else { f64::from(mean == 0.0) };
        Some(Self { mean, low: mean - reach, high: mean + reach, p })
    }

    /// From the values of many short measurements, without the outer fifths: the moments in which
    /// other programs ran. The error comes from the values moved to the inner ones (Tukey and
    /// McLaughlin). `None` for fewer than five.
    pub fn of_middle(mut values: Vec<f64>) -> Option<Self> {
        let fifth = values.len() / 5;
        if fifth == 0 {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let inner = &values[fifth..values.len() - fifth];
        let mean = inner.iter().sum::<f64>() / inner.len() as f64;
        let moved: Vec<f64> =
            values.iter().map(|value| value.clamp(inner[0], inner[inner.len() - 1])).collect();
        let count = moved.len() as f64;
        let moved_mean = moved.iter().sum::<f64>() / count;
        let variance = moved.iter().map(|value| (value - moved_mean).powi(2)).sum::<f64>() / (count - 1.0);
        let inner_share = inner.len() as f64 / count;
        Some(Self::of_error(mean, (variance / count).sqrt() / inner_share))
    }

    /// From a value with a known standard error, by the normal distribution.
    pub fn of_error(mean: f64, error: f64) -> Self {
        let normal = Normal::standard();
        let reach = normal.inverse_cdf(0.975) * error;
        let p = if error > 0.0 { 2.0 * normal.sf((mean / error).abs()) } else { f64::from(mean == 0.0) };
        Self { mean, low: mean - reach, high: mean + reach, p }
    }
}

/// Which of many tests are significant, if at most the share `rate` of the significant ones may be
/// wrong (Benjamini and Hochberg).
pub fn significant(chances: &[f64], rate: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let threshold = |rank: usize| rate * (rank + 1) as f64 / chances.len() as f64;
    let last = order.iter().enumerate().rev().find(|(rank, index)| chances[**index] <= threshold(*rank));
    let mut marks = vec![false; chances.len()];
    if let Some((last, _)) = last {
        order[..=last].iter().for_each(|index| marks[*index] = true);
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_leaves_out_moments_of_other_programs() {
        let mut values: Vec<f64> = (0..40).map(|index| 1.0 + 0.01 * f64::from(index % 5)).collect();
        let quiet = Estimate::of_middle(values.clone()).unwrap();
        assert!((quiet.mean - 1.02).abs() < 1e-9 && quiet.low < 1.02 && quiet.high > 1.02, "{quiet:?}");
        values[..4].fill(50.0);
        let busy = Estimate::of_middle(values).unwrap();
        assert!((busy.mean - quiet.mean).abs() < 0.01, "{busy:?}");
        assert_eq!(Estimate::of_middle(vec![1.0; 4]), None);
    }

    #[test]
    fn interval_of_five_repetitions_uses_student() {
        let estimate = Estimate::of_repetitions(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        // The 97.5 % point of Student's distribution with 4 degrees of freedom is 2.776.
        let reach = 2.776 * (2.5_f64 / 5.0).sqrt();
        assert!((estimate.mean - 3.0).abs() < 1e-12);
        assert!((estimate.high - 3.0 - reach).abs() < 1e-3, "{estimate:?}");
        assert!((estimate.p - 0.0132).abs() < 1e-3, "{estimate:?}");
        assert_eq!(Estimate::of_repetitions(&[1.0]), None);
    }

    #[test]
    fn equal_repetitions_have_no_width() {
        let estimate = Estimate::of_repetitions(&[0.5, 0.5, 0.5]).unwrap();
        assert_eq!((estimate.low, estimate.high, estimate.p), (0.5, 0.5, 0.0));
        assert_eq!(Estimate::of_repetitions(&[0.0, 0.0]).unwrap().p, 1.0);
    }

    /// The example of Benjamini and Hochberg (1995): 15 chances, 4 significant at 5 %.
    #[test]
    fn published_example_has_four_significant() {
        let chances = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let marks = significant(&chances, 0.05);
        assert_eq!(marks.iter().filter(|mark| **mark).count(), 4);
        assert!(marks[..4].iter().all(|mark| *mark));
    }
}
