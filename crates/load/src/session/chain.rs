//! The mean number of visits of each page in a session, as the solution of a Markov chain.
//!
//! The visits v satisfy v = e + Pᵀ v, where e is one visit of the first page and P has the
//! probabilities of the transitions. Solved by iteration, which follows the session page by page
//! and needs no pivoting. Tested here.

/// Number of iterations after which the chain counts as endless.
const STEPS_MAX: usize = 10_000;

/// Visits of each page, for a session that begins with the first page. More than a million for an
/// endless session.
pub(super) fn visits(next: &[&[(usize, f64)]]) -> Vec<f64> {
    let mut visits = vec![0.0; next.len()];
    let mut here = vec![0.0; next.len()];
    if let Some(first) = here.first_mut() {
        *first = 1.0;
    }
    for _ in 0..STEPS_MAX {
        let mut there = vec![0.0; next.len()];
        for (page, share) in here.iter().enumerate() {
            visits[page] += share;
            for &(to, probability) in next[page] {
                if let Some(place) = there.get_mut(to) {
                    *place += share * probability;
                }
            }
        }
        here = there;
        if here.iter().sum::<f64>() < 1e-12 {
            return visits;
        }
    }
    // The share that is left after this number of pages never ends.
    visits.iter().map(|visits| visits + here.iter().sum::<f64>() * 1e12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_visited_geometrically() {
        let solved = visits(&[&[(0, 0.5), (1, 0.25)], &[]]);
        assert!((solved[0] - 2.0).abs() < 1e-9 && (solved[1] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_chain_without_end_is_found() {
        assert!(visits(&[&[(1, 1.0)], &[(0, 1.0)]]).iter().sum::<f64>() > 1e6);
        assert_eq!(visits(&[&[]]), [1.0]);
    }
}
