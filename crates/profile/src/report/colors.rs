//! The samples by color, for programs on the event runtime, whose cores mark their stacks.
//!
//! Events of one color never overlap, so a color with a large share of one cpu limits the program
//! whatever the number of cpus.

use std::collections::HashMap;
use std::fmt::Write;

use serde::Serialize;

use crate::StackProfile;
use crate::profile::FunctionId;

/// A color with its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ColorRow<'a> {
    /// The color, unique in its process; 0 for samples between events.
    color: u64,
    pid: i32,
    weight: u64,
    samples: u64,
    /// The function with the most weight of its own.
    function: &'a str,
}

#[derive(Default)]
struct ColorSums {
    weight: u64,
    samples: u64,
    functions: HashMap<FunctionId, u64>,
}

/// All colors, most weight first; empty if no sample has one.
pub(super) fn colors(profile: &StackProfile) -> Vec<ColorRow<'_>> {
    let mut sums: HashMap<(u64, i32), ColorSums> = HashMap::new();
    for sample in &profile.samples {
        // Samples between events are one row, whatever the process.
        let pid = if sample.color == 0 { 0 } else { sample.pid };
        let sums = sums.entry((sample.color, pid)).or_default();
        sums.weight += sample.weight;
        sums.samples += 1;
        if let Some(innermost) = profile.stack(sample).first() {
            *sums.functions.entry(*innermost).or_default() += sample.weight;
        }
    }
    if sums.keys().all(|(color, _)| *color == 0) {
        return Vec::new();
    }
    let row = |((color, pid), sums): ((u64, i32), ColorSums)| {
        let most = sums.functions.into_iter().max_by_key(|(id, weight)| (*weight, std::cmp::Reverse(*id)));
        let function = most.map_or("", |(id, _)| &*profile.function(id).name);
        ColorRow { color, pid, weight: sums.weight, samples: sums.samples, function }
    };
    let mut rows: Vec<ColorRow<'_>> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.color, row.pid));
    rows
}

/// The colors as text, at most `top` of them.
pub(super) fn table(profile: &StackProfile, top: usize) -> String {
    let rows = colors(profile);
    if rows.is_empty() {
        return "no sample has a color: the program does not run on the event runtime, or was recorded with \
                --stacks frames\n"
            .to_owned();
    }
    let all = profile.weight().max(1) as f64;
    let mut out = String::from("  share  samples  color, and the function that costs it most\n");
    for row in rows.iter().take(top) {
        let name = match row.color {
            0 => "between events".to_owned(),
            color => format!("color {color} of process {}", row.pid),
        };
        let share = 100.0 * row.weight as f64 / all;
        let _ = writeln!(out, "{share:5.1} % {:8}  {name}: {}", row.samples, row.function);
    }
    let rest: u64 = rows.iter().skip(top).map(|row| row.weight).sum();
    if rest > 0 {
        let others = rows.len() - top;
        let share = 100.0 * rest as f64 / all;
        let _ = writeln!(out, "{share:5.1} %           {others} more colors; --top N shows more");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    #[test]
    fn samples_are_divided_by_color() {
        let mut profile =
            profile(&[("main;serve;k_send", 5), ("main;serve", 2), ("main;io", 2), ("main", 1)]);
        let colors = [9, 9, 9, 9, 4, 9, 9, 0, 0, 0];
        profile.samples.iter_mut().zip(colors).for_each(|(sample, color)| sample.color = color);
        let text = table(&profile, 2);
        assert!(text.contains(" 60.0 %        6  color 9 of process 7: k_send\n"), "{text}");
        assert!(text.contains(" 30.0 %        3  between events: io\n"), "{text}");
        assert!(text.contains(" 10.0 %           1 more colors"), "{text}");
    }

    #[test]
    fn program_without_colors_is_named() {
        let profile = profile(&[("main", 1)]);
        assert!(colors(&profile).is_empty());
        assert!(table(&profile, 2).contains("no sample has a color"));
    }
}
