//! The invariants that only the world itself can check: tokens against queues, sums, placements.
//!
//! Recomputes the world's totals from their parts. Checks I2 (a color with events has exactly one
//! token: in the queue of the color's core, kept, set apart, or running), I12 (a class gets no more
//! than its share while others wait), I7 (the worth of a color is the sum of the worth of the
//! color's events) and I8 (a color is on an allowed core). Runs every `audit_every` steps of a
//! checked run.

use super::World;
use super::colors::TokenPlace;
use super::core::CorePhase;
use crate::watch::Watch;

impl<W: Watch> World<W> {
    /// Audits if an audit is due, and keeps the first finding.
    pub(super) fn audit_if_due(&mut self) {
        let Some(every) = self.given.options.audit_every else { return };
        if self.output.results.audit.is_none() && self.time.steps.is_multiple_of(u64::from(every.max(1))) {
            self.output.results.audit = self.audit().err();
        }
    }

    fn audit(&self) -> Result<(), (&'static str, String)> {
        let mut ready = vec![(0usize, 0u64); self.cores.len()];
        let mut running = 0;
        for (index, color) in self.colors.in_use() {
            let has_token = color.token != TokenPlace::Absent;
            // A color that runs its last event is empty and still has the token.
            if has_token != (color.len > 0) && color.token != TokenPlace::Running {
                let what =
                    format!("color {index} has {} events and its token is {:?}", color.len, color.token);
                return Err(("I2", what));
            }
            match color.token {
                TokenPlace::Ready => {
                    let (tokens, events) = &mut ready[color.core.0 as usize];
                    (*tokens, *events) = (*tokens + 1, *events + u64::from(color.len));
                }
                TokenPlace::Running => running += 1,
                TokenPlace::Next if self.cores[color.core.0 as usize].slot.kept != Some(index) => {
                    return Err((
                        "I2",
                        format!("color {index} is to run next, and {} keeps another", color.core),
                    ));
                }
                TokenPlace::Absent | TokenPlace::WaitingForBatch | TokenPlace::Next => {}
            }
            let sum = self.colors.sum_of_worth(index);
            if sum != color.worth_ns {
                let what = format!("color {index} is worth {} and its events {sum}", color.worth_ns);
                return Err(("I7", what));
            }
            let at_home =
                color.placement.allows(color.core) || self.cores.iter().any(|core| core.faults.is_gone);
            if !at_home {
                return Err(("I8", format!("color {index} is on {}, outside its placement", color.core)));
            }
        }
        self.audit_queues(&ready, running)
    }

    fn audit_queues(&self, ready: &[(usize, u64)], running: usize) -> Result<(), (&'static str, String)> {
        if self.given.options.ideal {
            return Ok(());
        }
        for (core, &load) in self.cores.iter().zip(&self.shown.loads) {
            if core.core_load() != load {
                return Err((
                    "I2",
                    format!("{} says {:?}, and is seen as {load:?}", core.index, core.core_load()),
                ));
            }
            let sets = [&self.shown.asleep, &self.shown.busy, &self.shown.giving, &self.shown.keeping];
            let seen = sets.map(|set| set.contains(core.index));
            let is = [
                core.phase != CorePhase::Awake,
                core.running.is_some(),
                load.stealable > 0,
                core.slot.kept.is_some(),
            ];
            if seen != is {
                let what = format!(
                    "{} is seen asleep, busy, giving, keeping: {seen:?}, and the core says {is:?}",
                    core.index
                );
                return Err(("I2", what));
            }
        }
        for core in &self.cores {
            if let Some(class) = core.queue.ready.overdrawn() {
                let what =
                    format!("class {} kept others waiting on {} beyond its share", class.0, core.index);
                return Err(("I12", what));
            }
        }
        for (core, &expected) in self.cores.iter().zip(ready) {
            let found = (core.queue.ready.len(), core.queue.waiting_events);
            if found != expected {
                let what = format!(
                    "{} has {found:?} tokens and events queued, and the colors say {expected:?}",
                    core.index
                );
                return Err(("I2", what));
            }
        }
        let cores = self.cores.iter().filter(|core| core.running.is_some()).count();
        // A core between two events of a color runs no event at this moment.
        if running > cores + 1 || running < cores {
            return Err(("I2", format!("{cores} cores run {running} colors")));
        }
        Ok(())
    }
}
