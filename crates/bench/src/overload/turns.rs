//! Levels of overload in turns, some seconds each, in one run.
//!
//! The speed of a shared machine changes from second to second by a tenth and more, so levels that
//! are measured one after the other differ by that much. In turns each level gets a share of every
//! moment, and has so many turns that its error is small compared with a loss of a twentieth. All
//! levels are above the server's capacity, so a level begins with the full queue of the level
//! before. The first answers are for requests of the level before and are not counted. Pure; tested
//! below.

use std::time::Duration;

use vermeil_load::report::CourseInterval;

use super::peak::Round;
use crate::size::BenchSize;

/// The number of turns of each level, their length, and the uncounted part at the beginning of
/// each.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverloadTurns {
    cycles: usize,
    step: Duration,
    settles: Duration,
}

impl OverloadTurns {
    pub(super) fn of(size: BenchSize) -> Self {
        let (cycles, step_ms) = match size {
            BenchSize::Full => (6, 3000),
            BenchSize::Smoke => (1, 500),
        };
        let step = Duration::from_millis(step_ms);
        Self { cycles, step, settles: step / 3 }
    }

    /// The levels in the order of the load: each level follows each other level equally often, or
    /// nearly.
    fn order(self, levels: &[u32]) -> impl Iterator<Item = u32> + '_ {
        (0..self.cycles).flat_map(move |cycle| {
            let at = move |place: usize| match cycle % 2 {
                0 => (place + cycle) % levels.len(),
                _ => (levels.len() - 1 - place + cycle) % levels.len(),
            };
            (0..levels.len()).map(move |place| levels[at(place)])
        })
    }

    /// The load's argument and its duration: `levels` in hundredths of `capacity` requests a
    /// second.
    pub(super) fn schedule(self, levels: &[u32], capacity: f64) -> (String, Duration) {
        let steps: Vec<_> = self
            .order(levels)
            .map(|level| format!("{}ms@{:.1}", self.step.as_millis(), capacity * f64::from(level) / 100.0))
            .collect();
        (format!("steps:{}", steps.join(",")), self.step * steps.len() as u32)
    }

    /// The good answers per second at each level.
    pub(super) fn good_per_s(self, levels: &[u32], course: &[CourseInterval]) -> Round {
        let step_s = self.step.as_secs_f64();
        let rate = |level: u32| {
            let (mut good, mut lasted) = (0.0, 0.0);
            for (place, _) in self.order(levels).enumerate().filter(|(_, of)| *of == level) {
                let ends_s = (place + 1) as f64 * step_s;
                let begins_s = ends_s - step_s + self.settles.as_secs_f64();
                let counts = |slot: &&CourseInterval| {
                    slot.begins_s >= begins_s && slot.begins_s + slot.lasts_s <= ends_s
                };
                for slot in course.iter().filter(counts) {
                    good += slot.rate * slot.lasts_s;
                    lasted += slot.lasts_s;
                }
            }
            if lasted > 0.0 { good / lasted } else { 0.0 }
        };
        levels.iter().map(|&level| (level, rate(level))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: OverloadTurns =
        OverloadTurns { cycles: 4, step: Duration::from_secs(2), settles: Duration::from_secs(1) };

    #[test]
    fn every_level_comes_as_often_and_behind_others() {
        let order: Vec<_> = TURNS.order(&[150, 200, 300, 400]).collect();
        assert_eq!(order.len(), 16);
        for level in [150, 200, 300, 400] {
            assert_eq!(order.iter().filter(|of| **of == level).count(), 4);
            let before: std::collections::BTreeSet<_> =
                order.windows(2).filter(|pair| pair[1] == level).map(|pair| pair[0]).collect();
            assert!(before.len() > 1, "{level} always comes behind {before:?}");
        }
        let (steps, lasts) = TURNS.schedule(&[200], 1000.0);
        assert_eq!(
            (steps.as_str(), lasts.as_secs()),
            ("steps:2000ms@2000.0,2000ms@2000.0,2000ms@2000.0,2000ms@2000.0", 8)
        );
    }

    #[test]
    fn backlog_of_previous_level_does_not_count() {
        let turns = OverloadTurns { cycles: 1, ..TURNS };
        let slot = |begins_s, rate| CourseInterval {
            begins_s,
            lasts_s: 1.0,
            phase: String::new(),
            rate,
            byte_rate: 0.0,
            failed: 0,
            users: 0,
            good: 0,
            percentiles_ns: None,
            max_ns: None,
        };
        let course = [slot(0.0, 9.0), slot(1.0, 100.0), slot(2.0, 9.0), slot(3.0, 70.0)];
        assert_eq!(turns.good_per_s(&[150, 400], &course), [(150, 100.0), (400, 70.0)]);
        assert_eq!(turns.good_per_s(&[150], &[]), [(150, 0.0)]);
    }
}
