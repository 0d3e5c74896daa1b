//! The default against the best of the other variants, in fresh rounds.
//!
//! The best of many variants that differ by less than their spread is the best by luck, and is not
//! the best in fresh rounds. For this reason the policy and the peer with the best median of a
//! program meet the default in fresh pairs of runs, with the first place in turn, and the report
//! compares only these pairs. Leaves out the report: `report`.

use crate::BenchResult;
use crate::runtime::child::ChildSample;
use crate::runtime::plan::{BenchProgram, RuntimeVariant};
use crate::runtime::report::throughput;
use crate::runtime::run::RuntimeCells;
use crate::stats::Summary;

/// The default policy of a program.
pub(super) const DEFAULT: RuntimeVariant = RuntimeVariant::Policy("adaptive");

/// Pairs of runs for each round of the bench.
const PAIRS: usize = 6;

/// The default's rivals on `program`: the best of the other policies and the best of the peers, if
/// any ran.
fn rivals(cells: &RuntimeCells, program: BenchProgram) -> impl Iterator<Item = RuntimeVariant> {
    let policy = best_of(cells, program, |variant| variant.is_own() && variant != DEFAULT);
    let rivals = [policy, best_of(cells, program, RuntimeVariant::is_peer)];
    rivals.into_iter().flatten()
}

/// The variant with the highest median of the program's throughput among `rivals`.
pub(super) fn best_of(
    cells: &RuntimeCells,
    program: BenchProgram,
    rivals: fn(RuntimeVariant) -> bool,
) -> Option<RuntimeVariant> {
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
    cells: &mut RuntimeCells,
    rounds: usize,
    mut run: impl FnMut(BenchProgram, RuntimeVariant) -> BenchResult<ChildSample>,
) -> BenchResult<()> {
    for program in BenchProgram::ALL.into_iter().filter(|program| program.is_compared()) {
        if !cells.ended.contains_key(&(program, DEFAULT)) {
            continue;
        }
        let rivals: Vec<RuntimeVariant> = rivals(cells, program).collect();
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
    use vermeil_programs::kernel::MixingPace;

    fn sample(events: u64) -> ChildSample {
        ChildSample { events, elapsed_ns: 1_000_000_000, ..ChildSample::default() }
    }

    #[test]
    fn default_is_compared_with_best_median() {
        let cell = |variant, rounds: [u64; 3]| ((BenchProgram::Spawn, variant), rounds.map(sample).to_vec());
        let (none, mely) = (RuntimeVariant::Policy("none"), RuntimeVariant::Policy("mely"));
        let ended = [
            cell(DEFAULT, [100, 100, 100]),
            cell(none, [90, 90, 500]),
            cell(mely, [95, 95, 95]),
            cell(RuntimeVariant::Tokio, [10, 10, 10]),
        ];
        let mut cells = RuntimeCells {
            ended: ended.into(),
            settling: BTreeMap::new(),
            observed: BTreeMap::new(),
            duels: BTreeMap::new(),
            pace: MixingPace { rounds_per_us: 1.0 },
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
            [mely, RuntimeVariant::Tokio]
                .map(|rival| [DEFAULT, rival, rival, DEFAULT].repeat(PAIRS / 2))
                .concat()
        );
        let pairs = &cells.duels[&(BenchProgram::Spawn, mely)];
        assert!(
            pairs.len() == PAIRS && pairs.iter().all(|[own, other]| (own.events, other.events) == (3, 2))
        );
    }
}
