//! The results for a program: a line for each policy, and whether both ways rank the policies
//! alike.
//!
//! The rule: two policies are distinguished if no run of one policy was as good as any run of the
//! other. Otherwise the policies are a tie, because the overlap proves nothing for either way.
//! Tested below on invented numbers.

use std::fmt;

use vermeil_sim::report::Table;

/// The good direction of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    More,
    /// Times.
    Less,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyLine {
    /// The policy's name.
    pub policy: String,
    /// The measurements of the real runs, ascending; at least one.
    pub real: Vec<f64>,
    /// The simulator's value.
    pub simulated: f64,
}

/// A measure of a program under all policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The program.
    pub program: &'static str,
    /// The measured quantity, with its unit.
    pub measure: &'static str,
    /// The good direction.
    pub better: Better,
    /// By policy.
    pub lines: Vec<PolicyLine>,
    /// The share, 0 to 1, of the cpus that other programs used during the real runs.
    pub others_share: f64,
}

/// Share of other programs above which the finding is doubtful. A guess: the kernel's own threads
/// take less of an idle machine, and a program that takes more moves a rate by more than the runs
/// differ.
const OTHERS_MAX: f64 = 0.05;

impl PolicyLine {
    /// The median of the real runs.
    pub fn median(&self) -> f64 {
        self.real[self.real.len() / 2]
    }

    /// The simulator's relative error against the median.
    pub fn error(&self) -> f64 {
        self.simulated / self.median() - 1.0
    }

    fn lowest(&self) -> f64 {
        self.real[0]
    }

    fn highest(&self) -> f64 {
        self.real[self.real.len() - 1]
    }
}

impl Finding {
    /// Pairs of policies that the real runs distinguish, the higher first.
    pub fn apart(&self) -> Vec<(&PolicyLine, &PolicyLine)> {
        let pairs = self.lines.iter().flat_map(|a| self.lines.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a.lowest() > b.highest()).collect()
    }

    /// Distinguished pairs that the simulator ranks in reverse, or as equals.
    pub fn reversed(&self) -> Vec<(&PolicyLine, &PolicyLine)> {
        self.apart().into_iter().filter(|(high, low)| high.simulated <= low.simulated).collect()
    }

    /// The largest error, as a share.
    #[cfg(test)]
    pub(crate) fn worst_error(&self) -> f64 {
        self.lines.iter().map(|line| line.error().abs()).fold(0.0, f64::max)
    }

    /// The finding as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let line = |line: &PolicyLine| {
            serde_json::json!({
                "policy": line.policy, "real": line.real, "simulated": line.simulated, "error": line.error(),
            })
        };
        serde_json::json!({
            "program": self.program,
            "measure": self.measure,
            "policies": self.lines.iter().map(line).collect::<Vec<_>>(),
            "pairs_apart": self.apart().len(),
            "pairs_reversed": self.reversed().len(),
            "others_share": self.others_share,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.program, self.measure)?;
        let mut table = Table::new(&["policy", "real", "lowest", "highest", "simulated", "error"]);
        let mut lines: Vec<&PolicyLine> = self.lines.iter().collect();
        lines.sort_by(|a, b| match self.better {
            Better::More => b.median().total_cmp(&a.median()),
            Better::Less => a.median().total_cmp(&b.median()),
        });
        for line in lines {
            let number = |number: f64| format!("{number:.0}");
            let error = format!("{:+.0} %", 100.0 * line.error());
            let [real, low, high] = [line.median(), line.lowest(), line.highest()].map(number);
            table.row([line.policy.clone(), real, low, high, number(line.simulated), error]);
        }
        let (apart, reversed) = (self.apart().len(), self.reversed());
        write!(
            f,
            "{table}{apart} pairs told apart by the real runs, {} ranked alike",
            apart - reversed.len()
        )?;
        for (high, low) in reversed {
            write!(f, "; not {} above {}", high.policy, low.policy)?;
        }
        writeln!(f)?;
        if self.others_share > OTHERS_MAX {
            writeln!(
                f,
                "DOUBTFUL: other programs used {:.0} % of the cpus during the real runs ({:.0} % would be fine): stop them \
                 and run again",
                100.0 * self.others_share,
                100.0 * OTHERS_MAX
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(lines: [(&str, [f64; 3], f64); 3]) -> Finding {
        let line = |(policy, real, simulated): (&str, [f64; 3], f64)| PolicyLine {
            policy: policy.to_owned(),
            real: real.to_vec(),
            simulated,
        };
        Finding {
            program: "p",
            measure: "m",
            better: Better::More,
            lines: lines.map(line).to_vec(),
            others_share: 0.0,
        }
    }

    #[test]
    fn overlapping_intervals_are_a_tie() {
        let overlap = [("a", [1.0, 2.0, 5.0], 9.0), ("b", [4.0, 4.5, 6.0], 8.0), ("c", [1.0, 1.5, 2.0], 1.0)];
        let found = finding(overlap);
        assert_eq!(found.apart().len(), 1);
        assert!(found.reversed().is_empty(), "{found}");
    }

    /// Regression: beside other programs the real rates fell, and nothing said why.
    #[test]
    fn real_runs_beside_other_programs_are_doubtful() {
        let lines = [("a", [9.0, 10.0, 11.0], 5.0), ("b", [4.0, 5.0, 6.0], 5.0), ("c", [1.0, 2.0, 3.0], 4.0)];
        let busy = Finding { others_share: 0.4, ..finding(lines) };
        assert!(busy.to_string().contains("DOUBTFUL: other programs used 40 %"), "{busy}");
        assert_eq!(busy.to_json()["others_share"], 0.4);
        assert!(!finding(lines).to_string().contains("DOUBTFUL"));
    }

    #[test]
    fn a_rank_that_is_reversed_is_named() {
        let found = finding([
            ("a", [9.0, 10.0, 11.0], 5.0),
            ("b", [4.0, 5.0, 6.0], 5.0),
            ("c", [1.0, 2.0, 3.0], 4.0),
        ]);
        assert_eq!((found.apart().len(), found.reversed().len()), (3, 1));
        let text = found.to_string();
        assert!(text.contains("2 ranked alike; not a above b") && text.contains("-50 %"), "{text}");
        assert_eq!(found.worst_error(), 1.0);
        assert_eq!(found.to_json()["pairs_reversed"], 1);
    }
}
