//! What serving a connection and refusing one cost a core, learned while it has no rest.
//!
//! A small file is served for about what refusing it takes: then whoever still waits is better off served. What costs more,
//! such as PHP, is worth refusing. Pure; tested below.

use std::time::Duration;

/// How much the newest measurement counts. Guess: soon enough to be of use in the overload that it comes from.
const NEWEST: f64 = 0.25;

/// A connection is refused if that costs less than so much of what serving it does. Guess: what saves less helps nobody.
const WORTH: f64 = 0.5;

/// What refusing costs, of what serving does, where one of them was not seen yet. Guess, and rather less than it is: the pace is
/// then taken for slower, the queues get shorter, and there is less to refuse.
const UNSEEN: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Of one connection.
    serving_ns: Option<f64>,
    refusing_ns: Option<f64>,
}

impl Costs {
    /// A connection was refused.
    pub(super) fn on_refused(&mut self, took: Duration) {
        learn(&mut self.refusing_ns, took.as_nanos() as f64);
    }

    /// So many were served; all that was done for them `took` so long.
    pub(super) fn on_served(&mut self, count: usize, took: Duration) {
        if count > 0 {
            learn(&mut self.serving_ns, took.as_nanos() as f64 / count as f64);
        }
    }

    /// What refusing costs, of what serving does.
    pub(super) fn refusal(&self) -> f64 {
        match (self.refusing_ns, self.serving_ns) {
            (Some(refusing), Some(serving)) if serving > 0.0 => (refusing / serving).min(1.0),
            _ => UNSEEN,
        }
    }

    /// Whether anybody is helped by refusing.
    pub(super) fn is_refusing_worth_it(&self) -> bool {
        self.refusal() < WORTH
    }
}

fn learn(cost: &mut Option<f64>, newest: f64) {
    *cost = Some(cost.map_or(newest, |cost| cost + (newest - cost) * NEWEST));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_little_is_served_and_what_costs_more_is_refused() {
        let mut costs = Costs::default();
        assert!(costs.is_refusing_worth_it(), "until it is known");
        costs.on_served(0, Duration::from_secs(1));
        costs.on_served(1000, Duration::from_millis(30));
        costs.on_refused(Duration::from_micros(18));
        assert_eq!((costs.refusal(), costs.is_refusing_worth_it()), (0.6, false));
        (0..20).for_each(|_| costs.on_served(10, Duration::from_millis(5)));
        assert!((0.03..0.05).contains(&costs.refusal()) && costs.is_refusing_worth_it());
    }
}
