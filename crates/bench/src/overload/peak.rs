//! A server's rate at each level of overload as a fraction of its best rate.
//!
//! The best of several levels in one round is mostly the luckiest level. For example, if all rates
//! were the same and each measurement had an error of 8 %, five of six levels would seem to lose a
//! tenth. For this reason the pace of the machine in a round is divided out first, the peak is the
//! best level's *median* over the rounds, and each rate is a fraction of the peak. The pace is the
//! floor's rate, because the floor refuses no request; a server's losses do not change the pace.
//! Pure; tested below.

use crate::stats::Summary;

/// The good answers per second of one round with the offered rate in hundredths of the capacity, in
/// the same order each round.
pub(super) type Round = Vec<(u32, f64)>;

/// The pace of the machine in a round: the mean rate of the floor above its capacity.
pub(super) fn pace(floor: &Round) -> f64 {
    let over: Vec<f64> =
        floor.iter().filter(|(offered, _)| super::is_overload(offered)).map(|(_, rate)| *rate).collect();
    over.iter().sum::<f64>() / over.len().max(1) as f64
}

/// Each rate of `rounds` as a fraction of the peak; `paces` are the paces of the rounds.
pub(super) fn parts_of_peak(rounds: &[&Round], paces: &[f64]) -> Vec<Round> {
    let paced: Vec<Round> = rounds.iter().zip(paces).map(|(round, &pace)| parts(round, pace)).collect();
    let levels = paced.first().map_or(0, Vec::len);
    let median = |level: usize| {
        let of_level: Vec<f64> = paced.iter().map(|round| round[level].1).collect();
        Summary::of(&of_level).map_or(0.0, |summary| summary.median)
    };
    let peak = (0..levels).map(median).fold(0.0, f64::max);
    paced.iter().map(|round| parts(round, peak)).collect()
}

/// The rates of a round as fractions of `whole`; zero if `whole` is zero.
fn parts(round: &Round, whole: f64) -> Round {
    let part = |rate: f64| if whole > 0.0 { rate / whole } else { 0.0 };
    round.iter().map(|&(offered, rate)| (offered, part(rate))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(rounds: &[Round], paces: &[f64]) -> Vec<Vec<u32>> {
        let part = |part: &(u32, f64)| (part.1 * 100.0).round() as u32;
        let parts = parts_of_peak(&rounds.iter().collect::<Vec<_>>(), paces);
        parts.iter().map(|round| round.iter().map(part).collect()).collect()
    }

    #[test]
    fn a_machine_that_becomes_slower_is_no_loss() {
        let rounds =
            [vec![(50, 500.0), (200, 1000.0), (400, 900.0)], vec![(50, 250.0), (200, 500.0), (400, 450.0)]];
        assert_eq!(percent(&rounds, &[2000.0, 1000.0]), [[50, 100, 90], [50, 100, 90]]);
    }

    #[test]
    fn the_pace_is_that_of_an_overloaded_floor() {
        assert_eq!(pace(&vec![(50, 500.0), (90, 900.0), (150, 1000.0), (400, 1100.0)]), 1050.0);
    }

    #[test]
    fn one_lucky_run_is_no_peak() {
        let rounds = [
            vec![(150, 1000.0), (200, 1200.0)],
            vec![(150, 1200.0), (200, 1000.0)],
            vec![(150, 1100.0), (200, 1100.0)],
        ];
        assert_eq!(percent(&rounds, &[1.0; 3]), [[91, 109], [109, 91], [100, 100]]);
    }

    #[test]
    fn a_collapse_in_some_rounds_changes_nothing_at_other_levels() {
        let (well, ill) = (vec![(150, 1000.0), (400, 1000.0)], vec![(150, 1000.0), (400, 200.0)]);
        let rounds = [ill.clone(), well.clone(), ill];
        assert_eq!(percent(&rounds, &[900.0; 3]), [[100, 20], [100, 100], [100, 20]]);
    }

    #[test]
    fn silent_server_has_no_share() {
        assert_eq!(percent(&[vec![(300, 0.0), (400, 0.0)]], &[900.0]), [[0, 0]]);
        assert_eq!(percent(&[vec![(50, 500.0), (200, 0.0)]], &[0.0]), [[0, 0]]);
        assert_eq!(parts_of_peak(&[], &[]), Vec::<Round>::new());
    }
}
