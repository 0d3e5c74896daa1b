//! Reduces rounds to a number with a spread.
//!
//! The result is the median over interleaved rounds, with the lowest and highest round, because
//! five rounds do not support finer statistics. Ratios are taken within each round, where both
//! sides ran on the machine in the same state, and then summarized.

/// The median of some rounds, with their extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle round, or the mean of the two middle rounds.
    pub median: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
    /// How many rounds.
    pub rounds: usize,
}

impl Summary {
    /// Summarizes `rounds`; `None` if there are no rounds or a round is not a number.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        if rounds.is_empty() || rounds.iter().any(|round| !round.is_finite()) {
            return None;
        }
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, low: sorted[0], high: sorted[sorted.len() - 1], rounds: sorted.len() })
    }

    /// Summarizes the ratios of `rounds` to `base`, taken round by round; `None` as for
    /// [`Summary::of`].
    pub fn of_ratios(rounds: &[f64], base: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> = rounds.iter().zip(base).map(|(round, base)| round / base).collect();
        Self::of(&ratios)
    }
}

/// The series with the lowest median; `None` if there is no series with numbers. The lowest value
/// of each round would be too low, because each round has noise of its own.
pub fn lowest<'s>(series: impl IntoIterator<Item = &'s [f64]>) -> Option<&'s [f64]> {
    let medians = series.into_iter().filter_map(|one| Some((Summary::of(one)?.median, one)));
    medians.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, series)| series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_number_of_rounds_has_a_middle() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).expect("three rounds");
        assert_eq!(summary, Summary { median: 2.0, low: 1.0, high: 3.0, rounds: 3 });
    }

    #[test]
    fn an_even_number_of_rounds_takes_the_mean_of_two() {
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
    }

    #[test]
    fn no_rounds_and_no_numbers_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of_ratios(&[1.0], &[0.0]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let summary = Summary::of_ratios(&[2.0, 40.0, 3.0], &[1.0, 20.0, 1.0]).expect("three rounds");
        assert_eq!((summary.median, summary.low, summary.high), (2.0, 2.0, 3.0));
    }

    #[test]
    fn lowest_series_has_lowest_median() {
        let (noisy, steady) = ([1.0, 5.0, 6.0], [4.0, 4.0, 4.0]);
        assert_eq!(lowest([&noisy[..], &steady]), Some(&steady[..]));
        assert_eq!(lowest([]), None);
    }
}
