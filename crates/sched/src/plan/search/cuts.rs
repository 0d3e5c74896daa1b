//! Consecutive runs: cuts of a row of units into pieces, one for each core.
//!
//! Enumerates exhaustively if there are few cuts, and otherwise gives balanced cuts. Tested in
//! `plan/tests.rs`.

/// Maximum number of enumerated cuts. If there are more, each number of runs gets only the balanced
/// cut. 16 units into 4 runs have 455 cuts.
pub const CUTS_MAX: usize = 512;

/// Cuts of a row of units with these loads into at most `cores` runs: for each unit, its run. Every
/// cut into the maximum number of runs if there are at most [`CUTS_MAX`], and the balanced cut into
/// each number of runs.
pub(super) fn cuts(loads: &[f64], cores: usize) -> Vec<Vec<usize>> {
    let most = cores.min(loads.len());
    let mut found: Vec<_> = (1..=most).map(|runs| balanced(loads, runs)).collect();
    if most > 1 && ways(loads.len() - 1, most - 1).is_some_and(|ways| ways <= CUTS_MAX) {
        all(loads.len(), most, &mut Vec::new(), &mut found);
    }
    found
}

/// Binomial coefficient; `None` if the value is far above [`CUTS_MAX`].
fn ways(n: usize, k: usize) -> Option<usize> {
    (0..k.min(n - k)).try_fold(1_usize, |all, i| {
        let next = all * (n - i) / (i + 1);
        (next <= 1_000 * CUTS_MAX).then_some(next)
    })
}

/// Runs of about equal load: the middle of a unit's load determines the run.
fn balanced(loads: &[f64], runs: usize) -> Vec<usize> {
    let total: f64 = loads.iter().sum();
    let mut before = 0.0;
    let run_of = |(unit, &load): (usize, &f64)| {
        let middle = before + load / 2.0;
        before += load;
        let run =
            if total > 0.0 { (middle / total * runs as f64) as usize } else { unit * runs / loads.len() };
        run.min(runs - 1)
    };
    loads.iter().enumerate().map(run_of).collect()
}

/// Every cut of `units` into `runs` nonempty runs; `sizes` are the sizes of the runs so far.
fn all(units: usize, runs: usize, sizes: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    let used: usize = sizes.iter().sum();
    let left = runs - sizes.len();
    if left == 1 {
        let last = units - used;
        let whole = sizes.iter().copied().chain([last]).enumerate();
        return found.push(whole.flat_map(|(run, size)| std::iter::repeat_n(run, size)).collect());
    }
    for size in 1..=units - used - (left - 1) {
        sizes.push(size);
        all(units, runs, sizes, found);
        sizes.pop();
    }
}
