//! From how much a server has to do to the part of its weight that a balancer should give it.
//!
//! A balancer that goes by weights gives each server its part of all requests; what a server can do with its part shows in
//! how busy it is. So the weight goes down while the server is busier than it should be, the faster the more, and up while
//! it is not: of two servers the slower one ends with the lower weight, and both are as busy as each other. Pure.

/// How busy a server should be at most. Guess: what is left absorbs what comes between two looks.
const TARGET: f64 = 0.8;

/// The least weight, in hundredths: a server that is given nothing would never be seen to be idle.
pub(crate) const LEAST: u32 = 5;

/// The most that a weight changes in one look, as a factor. Guess: what is measured lags behind what was told.
const STEP: f64 = 1.25;

/// A weight in hundredths.
#[derive(Debug)]
pub(super) struct Weight(f64);

impl Default for Weight {
    fn default() -> Self {
        Self(100.0)
    }
}

impl Weight {
    /// Takes what was measured, 1 for a server that has no time left; gives the weight that follows.
    pub(super) fn follow(&mut self, pending: f64) -> u32 {
        let factor = (TARGET / pending.max(0.01)).sqrt().clamp(1.0 / STEP, STEP);
        self.0 = (self.0 * factor).clamp(LEAST.into(), 100.0);
        self.0.round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_have_all_of_it_and_the_overloaded_little() {
        let mut weight = Weight::default();
        assert_eq!(weight.follow(0.0), 100);
        let least = (0..100).map(|_| weight.follow(3.0)).last();
        assert_eq!(least, Some(5));
        assert!(weight.follow(0.1) > 5, "it comes back");
    }

    /// A balancer in front of a fast server and one of a third of its speed, both asked for what they can do together at 75 %.
    #[test]
    fn two_servers_of_unequal_speed_come_to_be_as_busy_as_each_other() {
        let speeds = [3.0, 1.0];
        let mut weights = [Weight::default(), Weight::default()];
        let mut parts = [100.0, 100.0];
        let mut busy = [0.0; 2];
        for _ in 0..50 {
            let all: f64 = parts.iter().sum();
            for server in 0..2 {
                let asked = 0.75 * 4.0 * parts[server] / all;
                busy[server] = asked / speeds[server];
                parts[server] = f64::from(weights[server].follow(busy[server]));
            }
        }
        assert!(busy.iter().all(|busy| (0.6..0.9).contains(busy)), "{busy:?} at {parts:?}");
    }
}
