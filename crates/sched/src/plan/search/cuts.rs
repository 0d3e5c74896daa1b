//! Consecutive runs: how a row of units is cut into pieces, one for each core.
//!
//! Owns the enumeration, exhaustive where there are few cuts and balanced where there are many. Tested in `plan/tests.rs`.

/// Most cuts that are enumerated; where there are more, each number of runs gets its balanced cut only. 16 units into 4
/// runs are 455.
pub const CUTS_MAX: usize = 512;

/// Cuts of a row of units with these loads into at most `cores` runs: for each unit, its run. Every cut into as many runs as
/// possible if these are at most [`CUTS_MAX`], and the balanced cut into each number of runs.
pub(super) fn cuts(loads: &[f64], cores: usize) -> Vec<Vec<usize>> {
    let most = cores.min(loads.len());
    let mut found: Vec<_> = (1..=most).map(|runs| balanced(loads, runs)).collect();
    if most > 1 && ways(loads.len() - 1, most - 1).is_some_and(|ways| ways <= CUTS_MAX) {
        all(loads.len(), most, &mut Vec::new(), &mut found);
    }
    found
}

/// Binomial coefficient, `None` once it passes [`CUTS_MAX`] by far.
fn ways(n: usize, k: usize) -> Option<usize> {
    (0..k.min(n - k)).try_fold(1_usize, |all, i| {
        let next = all * (n - i) / (i + 1);
        (next <= 1_000 * CUTS_MAX).then_some(next)
    })
}

/// Runs of about equal load: a unit belongs where the middle of its load falls.
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

/// Every cut of `units` into `runs` runs, none of them empty; `sizes` are those of the runs so far.
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
