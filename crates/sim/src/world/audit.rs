//! The invariants that only show inside: tokens against queues, sums, placements.
//!
//! Recomputes from the parts what the world keeps as totals. Owns no rule of its own: I2 (a color that is not empty has
//! exactly one token, in its core's queue or being run), I12 (a class has no more than its share while others wait), I7 (a color's worth is the sum of its events'), I8 (a color is
//! where it may be). Run after every so many steps of a checked run.

use super::World;
use super::colors::Token;
use super::core::Phase;
use crate::watch::Watch;

impl<W: Watch> World<W> {
    /// Audits when it is time, and keeps the first finding.
    pub(super) fn audit_if_due(&mut self) {
        let Some(every) = self.options.audit_every else { return };
        if self.results.audit.is_none() && self.steps.is_multiple_of(u64::from(every.max(1))) {
            self.results.audit = self.audit().err();
        }
    }

    fn audit(&self) -> Result<(), (&'static str, String)> {
        let mut ready = vec![(0usize, 0u64); self.cores.len()];
        let mut running = 0;
        for (index, color) in self.colors.in_use() {
            let has_token = color.token != Token::Absent;
            // While it runs its last event a color is empty and has its token still.
            if has_token != (color.len > 0) && color.token != Token::Running {
                let what =
                    format!("color {index} has {} events and its token is {:?}", color.len, color.token);
                return Err(("I2", what));
            }
            match color.token {
                Token::Ready => {
                    let (tokens, events) = &mut ready[color.core.0 as usize];
                    (*tokens, *events) = (*tokens + 1, *events + u64::from(color.len));
                }
                Token::Running => running += 1,
                Token::Next if self.cores[color.core.0 as usize].kept != Some(index) => {
                    return Err((
                        "I2",
                        format!("color {index} is to run next, and {} keeps another", color.core),
                    ));
                }
                Token::Absent | Token::Gathering | Token::Next => {}
            }
            let sum = self.colors.sum_of_worth(index);
            if sum != color.worth_ns {
                let what = format!("color {index} is worth {} and its events {sum}", color.worth_ns);
                return Err(("I7", what));
            }
            let at_home = color.placement.allows(color.core) || self.cores.iter().any(|core| core.is_gone);
            if !at_home {
                return Err(("I8", format!("color {index} is on {}, outside its placement", color.core)));
            }
        }
        self.audit_queues(&ready, running)
    }

    fn audit_queues(&self, ready: &[(usize, u64)], running: usize) -> Result<(), (&'static str, String)> {
        if self.options.ideal {
            return Ok(());
        }
        for (core, &hint) in self.cores.iter().zip(&self.hints) {
            if core.hint() != hint {
                return Err((
                    "I2",
                    format!("{} says {:?}, and is seen as {hint:?}", core.index, core.hint()),
                ));
            }
            let sets = [&self.asleep, &self.busy, &self.giving, &self.keeping];
            let seen = sets.map(|set| set.contains(core.index));
            let is =
                [core.phase != Phase::Awake, core.running.is_some(), hint.stealable > 0, core.kept.is_some()];
            if seen != is {
                let what = format!(
                    "{} is seen asleep, busy, giving, keeping: {seen:?}, and the core says {is:?}",
                    core.index
                );
                return Err(("I2", what));
            }
        }
        for core in &self.cores {
            if let Some(class) = core.ready.overdrawn() {
                let what =
                    format!("class {} kept others waiting on {} beyond its share", class.0, core.index);
                return Err(("I12", what));
            }
        }
        for (core, &expected) in self.cores.iter().zip(ready) {
            let found = (core.ready.len(), core.waiting_events);
            if found != expected {
                let what = format!(
                    "{} has {found:?} tokens and events queued, and the colors say {expected:?}",
                    core.index
                );
                return Err(("I2", what));
            }
        }
        let cores = self.cores.iter().filter(|core| core.running.is_some()).count();
        // A core between two events of a color runs none at this moment.
        if running > cores + 1 || running < cores {
            return Err(("I2", format!("{cores} cores run {running} colors")));
        }
        Ok(())
    }
}
