//! What part of its best rate a server keeps at each level of overload.
//!
//! The best of several levels that one round measured is mostly the luckiest: were all rates the same, and each measured with an
//! error of 8 %, five of six would seem to lose a tenth. So the pace of a round is taken out first, the peak is the best level's
//! *median* over the rounds, and each rate is a part of that. Pure; tested below.

use crate::stats::Summary;

/// The good answers per second of one round, with what was offered, in hundredths of the capacity, in the same order each round.
pub(super) type Round = Vec<(u32, f64)>;

/// Each rate of `rounds` as a part of the peak.
pub(super) fn parts_of_peak(rounds: &[Round]) -> Vec<Round> {
    let paced: Vec<Round> = rounds.iter().map(of_pace).collect();
    let levels = rounds.first().map_or(0, Vec::len);
    let median = |level: usize| {
        let of_level: Vec<f64> = paced.iter().map(|round| round[level].1).collect();
        Summary::of(&of_level).map_or(0.0, |summary| summary.median)
    };
    let peak = (0..levels).map(median).fold(f64::MIN_POSITIVE, f64::max);
    let part = |round: Round| round.into_iter().map(|(offered, rate)| (offered, rate / peak)).collect();
    paced.into_iter().map(part).collect()
}

/// The rates of a round as parts of its pace: the mean of what was answered where more was offered than can be served.
fn of_pace(round: &Round) -> Round {
    let over: Vec<f64> = round.iter().filter(|(offered, _)| *offered > 100).map(|(_, rate)| *rate).collect();
    let pace = (over.iter().sum::<f64>() / over.len().max(1) as f64).max(f64::MIN_POSITIVE);
    round.iter().map(|&(offered, rate)| (offered, rate / pace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(rounds: &[Round]) -> Vec<Vec<u32>> {
        let part = |part: &(u32, f64)| (part.1 * 100.0).round() as u32;
        rounds.iter().map(|round| round.iter().map(part).collect()).collect()
    }

    #[test]
    fn a_machine_that_becomes_slower_is_no_loss() {
        let rounds =
            [vec![(50, 500.0), (200, 1000.0), (400, 900.0)], vec![(50, 250.0), (200, 500.0), (400, 450.0)]];
        assert_eq!(percent(&parts_of_peak(&rounds)), [[50, 100, 90], [50, 100, 90]]);
    }

    #[test]
    fn one_lucky_run_is_no_peak() {
        let rounds = [
            vec![(150, 1000.0), (200, 1200.0)],
            vec![(150, 1200.0), (200, 1000.0)],
            vec![(150, 1100.0), (200, 1100.0)],
        ];
        assert_eq!(percent(&parts_of_peak(&rounds)), [[91, 109], [109, 91], [100, 100]]);
    }

    #[test]
    fn what_answers_nothing_has_no_part() {
        assert_eq!(percent(&parts_of_peak(&[vec![(300, 0.0), (400, 0.0)]])), [[0, 0]]);
        assert_eq!(parts_of_peak(&[]), Vec::<Round>::new());
    }
}
