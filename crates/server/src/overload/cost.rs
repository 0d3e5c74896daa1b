//! What serving a connection and refusing one cost a core, learned while it has no rest.
//!
//! A small file is served for about what refusing it takes: then whoever still waits is better off served. What costs more,
//! such as PHP, is worth refusing. Times and counts are added up before they are divided: what was done for a connection may have
//! been in another moment than the one in which it is counted. Pure; tested below.

use std::time::Duration;

/// What all before count, each time that something new comes. Guess: soon enough to be of use in the overload that it comes from.
const BEFORE: f64 = 0.75;

/// A connection is refused if that costs less than so much of what serving it does. Guess: what saves less helps nobody.
const WORTH: f64 = 0.5;

/// What refusing costs, of what serving does, where one of them was not seen yet. Guess, and rather less than it is: the pace is
/// then taken for slower, the queues get shorter, and there is less to refuse.
const UNSEEN: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct Costs {
    serving: Cost,
    refusing: Cost,
}

/// What some connections took, those of long ago counting for less.
#[derive(Debug, Default)]
struct Cost {
    ns: f64,
    count: f64,
}

impl Cost {
    fn learn(&mut self, count: usize, took: Duration) {
        self.ns = self.ns * BEFORE + took.as_nanos() as f64;
        self.count = self.count * BEFORE + count as f64;
    }

    /// Of one connection; nothing while none was seen.
    fn each_ns(&self) -> Option<f64> {
        (self.count > 0.0 && self.ns > 0.0).then(|| self.ns / self.count)
    }
}

impl Costs {
    /// A connection was refused.
    pub(super) fn on_refused(&mut self, took: Duration) {
        self.refusing.learn(1, took);
    }

    /// So many were served; all that was done for them `took` so long.
    pub(super) fn on_served(&mut self, count: usize, took: Duration) {
        self.serving.learn(count, took);
    }

    /// What refusing costs, of what serving does.
    pub(super) fn refusal(&self) -> f64 {
        match (self.refusing.each_ns(), self.serving.each_ns()) {
            (Some(refusing), Some(serving)) => (refusing / serving).min(1.0),
            _ => UNSEEN,
        }
    }

    /// Whether anybody is helped by refusing.
    pub(super) fn is_refusing_worth_it(&self) -> bool {
        self.refusal() < WORTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_little_is_served_and_what_costs_more_is_refused() {
        let mut costs = Costs::default();
        assert!(costs.is_refusing_worth_it(), "until it is known");
        costs.on_served(1000, Duration::from_millis(30));
        costs.on_refused(Duration::from_micros(18));
        assert_eq!((costs.refusal(), costs.is_refusing_worth_it()), (0.6, false));
        (0..40).for_each(|_| costs.on_served(10, Duration::from_millis(5)));
        assert!((0.03..0.05).contains(&costs.refusal()) && costs.is_refusing_worth_it());
    }

    /// The kernel took a moment to accept 600 connections of which 13 were counted in it; each seemed to take half a millisecond, so
    /// all that waited were refused.
    #[test]
    fn work_that_is_counted_later_does_not_make_serving_dear() {
        let mut costs = Costs::default();
        costs.on_refused(Duration::from_micros(18));
        costs.on_served(13, Duration::from_millis(7));
        (0..2).for_each(|_| costs.on_served(256, Duration::from_millis(6)));
        assert!(!costs.is_refusing_worth_it(), "{}", costs.refusal());
    }
}
