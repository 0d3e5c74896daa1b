//! The universal scalability law (Gunther): throughput `X(N) = γN / (1 + α(N−1) + βN(N−1))`.
//!
//! α is the share that waits for one another (contention), β the cost of keeping copies equal
//! (coherency), γ the throughput of one. The fit is least squares by Gauss and Newton with damping.
//! The law describes; it does not say which code. With fewer than four different N three parameters
//! fit anything, so the fit is refused. Tested below against values of R's package `usl` 3.0.4.

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Contention.
    pub alpha: f64,
    /// Coherency.
    pub beta: f64,
    /// Throughput at N = 1.
    pub gamma: f64,
}

/// The least number of different N.
pub const POINTS_MIN: usize = 4;

/// Why no law was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLaw {
    /// Too few points.
    #[error("no law can be fitted to {0} different numbers of cpus or nodes; {POINTS_MIN} are needed")]
    TooFew(usize),
    /// The points follow no such law.
    #[error("the points follow no universal scalability law")]
    NoFit,
}

impl Law {
    /// Fits the law to points of N and throughput.
    ///
    /// # Errors
    /// There are too few different N, or no law fits.
    pub fn fit(points: &[(f64, f64)]) -> Result<Self, NoLaw> {
        let mut distinct: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() < POINTS_MIN {
            return Err(NoLaw::TooFew(distinct.len()));
        }
        // A start that is near: γ from the point with the smallest N, a little of both losses.
        let first = points.iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are points");
        let mut law = Self { alpha: 0.01, beta: 1e-4, gamma: first.1 / first.0 };
        let mut damping = 1e-3;
        let mut error = law.error(points);
        for _ in 0..500 {
            let step = law.step(points, damping).ok_or(NoLaw::NoFit)?;
            let next =
                Self { alpha: law.alpha + step[0], beta: law.beta + step[1], gamma: law.gamma + step[2] };
            let next_error = next.error(points);
            if next_error.is_finite() && next_error <= error {
                let change = (error - next_error) / error.max(f64::MIN_POSITIVE);
                (law, error) = (next, next_error);
                damping = f64::max(damping / 10.0, 1e-12);
                if change < 1e-14 {
                    break;
                }
            } else {
                damping *= 10.0;
                if damping > 1e12 {
                    break;
                }
            }
        }
        let is_law = law.alpha.is_finite() && law.beta.is_finite() && law.gamma > 0.0;
        is_law.then_some(law).ok_or(NoLaw::NoFit)
    }

    /// The throughput at N.
    pub fn throughput(self, n: f64) -> f64 {
        self.gamma * n / self.denominator(n)
    }

    /// Where throughput is greatest, and how great; `None` if it grows for ever.
    pub fn peak(self) -> Option<(f64, f64)> {
        let n = ((1.0 - self.alpha) / self.beta).sqrt();
        (n.is_finite() && n >= 1.0).then(|| (n, self.throughput(n)))
    }

    fn denominator(self, n: f64) -> f64 {
        1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0)
    }

    fn error(self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(n, x)| (x - self.throughput(*n)).powi(2)).sum()
    }

    /// One step of Levenberg and Marquardt, with the damping scaled by the diagonal.
    fn step(self, points: &[(f64, f64)], damping: f64) -> Option<[f64; 3]> {
        let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for &(n, x) in points {
            let denominator = self.denominator(n);
            let value = self.throughput(n);
            let slope =
                [-value * (n - 1.0) / denominator, -value * n * (n - 1.0) / denominator, n / denominator];
            for row in 0..3 {
                for column in 0..3 {
                    matrix[row][column] += slope[row] * slope[column];
                }
                right[row] += slope[row] * (x - value);
            }
        }
        for (index, row) in matrix.iter_mut().enumerate() {
            row[index] *= 1.0 + damping;
        }
        solve(matrix, right)
    }
}

/// Solves three linear equations by elimination.
fn solve(mut matrix: [[f64; 3]; 3], mut right: [f64; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column] == 0.0 || !matrix[pivot][column].is_finite() {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..3 {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            for (cell, above) in matrix[row].iter_mut().zip(above) {
                *cell -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC SDM 91, the data set `specsdm91` of R's package, and the numbers that the package
    /// prints.
    #[test]
    fn fit_agrees_with_r() {
        let points = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        let law = Law::fit(&points).unwrap();
        assert_eq!(
            [format!("{:.3e}", law.alpha), format!("{:.3e}", law.beta), format!("{:.3e}", law.gamma)],
            ["2.773e-2", "1.044e-4", "9.000e1"]
        );
        let (n, throughput) = law.peak().unwrap();
        assert!((n - 96.51956).abs() < 0.01, "{n}");
        assert_eq!(throughput.round(), 1884.0);
    }

    /// The second data set of R's package: six points of an exact law.
    #[test]
    fn exact_law_is_found() {
        let points = [(1.0, 1.0), (2.0, 1.8868), (4.0, 3.0769), (6.0, 3.5294), (8.0, 3.5398), (10.0, 3.3557)];
        let law = Law::fit(&points).unwrap();
        assert!((law.alpha - 0.02).abs() < 1e-4 && (law.beta - 0.02).abs() < 1e-4, "{law:?}");
        assert!((law.gamma - 1.0).abs() < 1e-4, "{law:?}");
    }

    #[test]
    fn peak_of_given_law_agrees_with_r() {
        let law = Law { alpha: 0.001, beta: 0.00001, gamma: 1.0 };
        assert!((law.peak().unwrap().0 - 316.0696).abs() < 1e-3);
    }

    #[test]
    fn fit_needs_four_different_points() {
        let points = [(1.0, 1.0), (2.0, 1.9), (2.0, 1.8), (4.0, 3.0)];
        assert_eq!(Law::fit(&points), Err(NoLaw::TooFew(3)));
    }

    #[test]
    fn linear_growth_has_no_peak() {
        let points: Vec<_> = (1..=6).map(|n| (f64::from(n), 10.0 * f64::from(n))).collect();
        let law = Law::fit(&points).unwrap();
        assert!(law.alpha.abs() < 1e-6 && law.beta.abs() < 1e-6, "{law:?}");
        assert!(law.peak().is_none_or(|(n, _)| n > 1_000.0), "{law:?}");
    }
}
