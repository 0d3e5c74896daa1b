//! The parts of the adaptive controller: verdicts, loads, turns.

use super::paired::{PAIRS_MAX, Paired, PairedVerdict};
const BAR: f64 = 0.02;

/// A B A B A … with these figures.
fn paired(figures: &[f64]) -> Paired {
    let mut paired = Paired::default();
    for (turn, &figure) in figures.iter().enumerate() {
        if turn % 2 == 0 { paired.push_a(figure) } else { paired.push_b(figure) }
    }
    paired
}

#[test]
fn a_clear_difference_is_seen_in_two_pairs() {
    assert_eq!(paired(&[100.0, 130.0, 100.0]).verdict(BAR), PairedVerdict::Open);
    assert!(
        matches!(paired(&[100.0, 130.0, 100.0, 131.0, 101.0]).verdict(BAR), PairedVerdict::Better(gain) if gain > 0.29)
    );
    assert!(matches!(paired(&[100.0, 70.0, 100.0, 71.0, 101.0]).verdict(BAR), PairedVerdict::NotBetter(_)));
}

#[test]
fn a_hopeless_candidate_gets_no_second_turn() {
    assert!(matches!(paired(&[100.0, 40.0]).verdict(BAR), PairedVerdict::NotBetter(gain) if gain < -0.5));
    assert_eq!(paired(&[100.0, 60.0]).verdict(BAR), PairedVerdict::Open);
}

#[test]
fn a_rising_load_favours_neither() {
    let rising: Vec<_> = (0..2 * PAIRS_MAX + 1).map(|turn| 100.0 + 5.0 * turn as f64).collect();
    assert!(matches!(paired(&rising).verdict(BAR), PairedVerdict::NotBetter(gain) if gain.abs() < 1e-9));
}

#[test]
fn trial_ends_with_equal_for_equal_plans() {
    let figures: Vec<_> = (0..2 * PAIRS_MAX + 1).map(|turn| 100.0 + f64::from(turn as u32 * 7 % 5)).collect();
    assert!(matches!(paired(&figures).verdict(BAR), PairedVerdict::NotBetter(_)));
    assert_eq!(paired(&figures).pairs(), PAIRS_MAX);
}
