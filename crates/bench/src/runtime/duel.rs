//! The default against the best of the other variants, in fresh rounds.
//!
//! The best of many variants that differ by less than their spread is the best by luck, and is not
//! the best in fresh rounds. For this reason the policy and the peer with the best median of a
//! program meet the default in fresh pairs of runs, with the first place in turn, and the report
//! compares only these pairs. Leaves out the report: `report`.

use crate::Result;
use crate::runtime::child::Sample;
use crate::runtime::plan::{Program, Variant};
use crate::runtime::report::throughput;
use crate::runtime::run::Cells;
use crate::stats::Summary;

/// The default policy of a program.
pub(super) const DEFAULT: Variant = Variant::Policy("adaptive");

/// Pairs of runs for each round of the bench.
const PAIRS: usize = 6;

/// The default's rivals on `program`: the best of the other policies and the best of the peers, if
/// any ran.
fn rivals(cells: &Cells, program: Program) -> impl Iterator<Item = Variant> {
    let policy = best_of(cells, program, |variant| variant.is_own() && variant != DEFAULT);
    let rivals = [policy, best_of(cells, program, Variant::is_peer)];
    rivals.into_iter().flatten()
}

/// The variant with the highest median of the program's throughput among `rivals`.
pub(super) fn best_of(cells: &Cells, program: Program, rivals: fn(Variant) -> bool) -> Option<Variant> {
    let medians = cells.ended.iter().filter(|((of, variant), _)| *of == program && rivals(*variant));
    let medians = medians.filter_map(|((_, variant), samples)| {
        let throughputs: Vec<f64> = samples.iter().map(throughput).collect();
        Some((*variant, Summary::of(&throughputs)?.median))
    });
    medians.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(variant, _)| variant)
}

/// Runs the pairs, the default first in each, for every program that the default ran.
///
/// # Errors
/// As `run` does.
pub(super) fn meet(
    cells: &mut Cells,
    rounds: usize,
    mut run: impl FnMut(Program, Variant) -> Result<Sample>,
) -> Result<()> {
    for program in Program::ALL.into_iter().filter(|program| program.is_compared()) {
        if !cells.ended.contains_key(&(program, DEFAULT)) {
            continue;
        }
        let rivals: Vec<Variant> = rivals(cells, program).collect();
        for rival in rivals {
            let mut pairs = Vec::new();
            for pair in 0..PAIRS * rounds {
                let default_first = pair % 2 == 0;
                let order = if default_first { [DEFAULT, rival] } else { [rival, DEFAULT] };
                let [first, second] = [run(program, order[0])?, run(program, order[1])?];
                pairs.push(if default_first { [first, second] } else { [second, first] });
            }
            cells.duels.insert((program, rival), pairs);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vermeil_programs::kernel::Pace;

    fn sample(events: u64) -> Sample {
        Sample { events, elapsed_ns: 1_000_000_000, ..Sample::default() }
    }

    #[test]
    fn the_default_meets_who_has_the_best_median() {
        let cell = |variant, rounds: [u64; 3]| ((Program::Spawn, variant), rounds.map(sample).to_vec());
        let (none, mely) = (Variant::Policy("none"), Variant::Policy("mely"));
        let ended = [
            cell(DEFAULT, [100, 100, 100]),
            cell(none, [90, 90, 500]),
            cell(mely, [95, 95, 95]),
            cell(Variant::Tokio, [10, 10, 10]),
        ];
        let mut cells = Cells {
            ended: ended.into(),
            settling: BTreeMap::new(),
            observed: BTreeMap::new(),
            duels: BTreeMap::new(),
            pace: Pace { rounds_per_us: 1.0 },
            others_share: 0.0,
        };
        let mut order = Vec::new();
        let run = |_, variant| {
            order.push(variant);
            Ok(sample(if variant == DEFAULT { 3 } else { 2 }))
        };
        meet(&mut cells, 1, run).expect("nothing fails");
        assert_eq!(
            order,
            [mely, Variant::Tokio].map(|rival| [DEFAULT, rival, rival, DEFAULT].repeat(PAIRS / 2)).concat()
        );
        let pairs = &cells.duels[&(Program::Spawn, mely)];
        assert!(
            pairs.len() == PAIRS && pairs.iter().all(|[own, other]| (own.events, other.events) == (3, 2))
        );
    }
}
