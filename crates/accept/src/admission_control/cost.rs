//! The costs of serving a connection and of refusing one, learned while the core is busy.
//!
//! Serving a small file costs about as much as refusing. Then a client that still waits is better
//! off served. Serving a costlier answer, such as PHP, is worth refusing. Times and counts are
//! summed before the division, because the work for a connection may fall into another moment than
//! its count. Pure; tested below.

use std::time::Duration;

/// The weight of all earlier values at each new value. Guess: soon enough to be of use in the
/// overload that the value comes from.
const BEFORE: f64 = 0.75;

/// A connection is refused if that costs less than this part of serving. Guess: a smaller saving
/// helps no client.
const WORTH: f64 = 0.5;

/// The assumed cost of refusing, as a part of serving, while one of them is unknown. Guess, rather
/// too low: the pace then seems slower, the queues get shorter, and there is less to refuse.
const UNSEEN: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct Costs {
    serving: Cost,
    refusing: Cost,
}

/// The cost of some connections, with a lower weight for earlier ones.
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

    /// The cost of one connection. `None` before the first connection.
    fn each_ns(&self) -> Option<f64> {
        (self.count > 0.0 && self.ns > 0.0).then(|| self.ns / self.count)
    }
}

impl Costs {
    /// Records a refusal.
    pub(super) fn on_refused(&mut self, took: Duration) {
        self.refusing.learn(1, took);
    }

    /// Records that `count` connections were served, for which all work `took` this long.
    pub(super) fn on_served(&mut self, count: usize, took: Duration) {
        self.serving.learn(count, took);
    }

    /// The cost of refusing, as a part of the cost of serving.
    pub(super) fn refusal(&self) -> f64 {
        match (self.refusing.each_ns(), self.serving.each_ns()) {
            (Some(refusing), Some(serving)) => (refusing / serving).min(1.0),
            _ => UNSEEN,
        }
    }

    /// Whether refusing saves enough to help other clients.
    pub(super) fn is_refusing_worth_it(&self) -> bool {
        self.refusal() < WORTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_connection_is_served_and_costly_one_refused() {
        let mut costs = Costs::default();
        assert!(costs.is_refusing_worth_it(), "until it is known");
        costs.on_served(1000, Duration::from_millis(30));
        costs.on_refused(Duration::from_micros(18));
        assert_eq!((costs.refusal(), costs.is_refusing_worth_it()), (0.6, false));
        (0..40).for_each(|_| costs.on_served(10, Duration::from_millis(5)));
        assert!((0.03..0.05).contains(&costs.refusal()) && costs.is_refusing_worth_it());
    }

    /// The kernel took a moment to accept 600 connections, of which 13 were counted in that moment.
    /// Each seemed to cost half a millisecond, so the core refused all waiting connections.
    #[test]
    fn work_that_is_counted_later_does_not_make_serving_dear() {
        let mut costs = Costs::default();
        costs.on_refused(Duration::from_micros(18));
        costs.on_served(13, Duration::from_millis(7));
        (0..2).for_each(|_| costs.on_served(256, Duration::from_millis(6)));
        assert!(!costs.is_refusing_worth_it(), "{}", costs.refusal());
    }
}
