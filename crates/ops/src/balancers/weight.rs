//! Computes from the load of a server the weight that a balancer should give the server.
//!
//! A balancer with weights gives each server a share of all requests, and the load of a server
//! shows whether the share fits. So a server asks for the full weight while the load is moderate.
//! Beyond that the weight falls, by the same factor for each further part of the time, to the
//! minimum at no time left. Of two servers, the slower server ends with the lower weight and nearly
//! the load of the other. If all servers are overloaded, the balance among the servers remains.
//! Pure.

/// The maximum load that a server should have. In a model of two overloaded servers whose
/// measurements are off by up to a tenth, 0.7 loses 5 % of the joint capacity if one server is ten
/// times as fast, and 0.9 loses 3 % if both are equal.
const TARGET: f64 = 0.8;

/// The minimum weight, in hundredths. A server without requests would never be seen to be idle.
pub const LEAST: u32 = 5;

/// The part of the way to the due weight per measurement, in powers. The measurement lags two
/// intervals behind the announced weight, so a weight that follows faster oscillates. In a model of
/// servers of one to ten times another's speed, 0.07 loses a twentieth more of their joint
/// capacity, and 0.03 takes twice as long for the same.
const PACE: f64 = 0.04;

/// A weight.
#[derive(Debug, Default)]
pub struct Weight {
    /// The logarithm of the weight's part of the full weight: 0 or less.
    power: f64,
}

impl Weight {
    /// Takes a measurement, where 1 means no time left. Returns the new weight, in hundredths.
    ///
    /// The kernel does not enforce a bound of cpu time to the microsecond. Time beyond 1 in one
    /// measurement is missing in the next. Both count, because otherwise a server without time
    /// would seem to have some.
    pub fn follow(&mut self, pending: f64) -> u32 {
        let beyond = ((pending - TARGET) / (1.0 - TARGET)).clamp(0.0, 2.0);
        let least = (f64::from(LEAST) / 100.0).ln();
        self.power += (beyond * least - self.power) * PACE;
        (100.0 * self.power.exp()).round().max(LEAST.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_have_all_of_it_and_the_overloaded_little() {
        let mut weight = Weight::default();
        assert_eq!(weight.follow(0.0), 100);
        assert_eq!(weight.follow(1.0), 89, "one look is not the end");
        let least = (0..200).map(|_| weight.follow(1.0)).last();
        assert_eq!(least, Some(5));
        assert!((0..20).map(|_| weight.follow(0.1)).last() > Some(20), "it comes back");
    }

    /// A server held to 1 ms in 33 may run until the kernel's next tick, which is 4 ms apart.
    #[test]
    fn a_server_without_time_has_the_least_although_it_is_measured_unevenly() {
        let mut weight = Weight::default();
        let last = (0..200).map(|look| weight.follow([0.75, 1.25][look % 2])).last();
        assert_eq!(last, Some(5));
    }

    /// A balancer in front of a fast server and a server of a third of its speed. `offered`
    /// computes the arriving load from the weights. Returns the final loads and weights of both.
    fn balanced(offered: impl Fn(&[f64; 2]) -> f64) -> ([f64; 2], [f64; 2]) {
        let mut weights = [Weight::default(), Weight::default()];
        let (mut parts, mut busy) = ([100.0, 100.0], [0.0; 2]);
        for _ in 0..200 {
            let all: f64 = parts.iter().sum();
            let offered = offered(&parts);
            for server in 0..2 {
                busy[server] = (offered * parts[server] / all / SPEEDS[server]).min(1.0);
            }
            parts = std::array::from_fn(|server| f64::from(weights[server].follow(busy[server])));
        }
        (busy, parts)
    }

    const SPEEDS: [f64; 2] = [3.0, 1.0];

    #[test]
    fn two_servers_of_unequal_speed_come_to_be_nearly_as_busy_as_each_other() {
        let (busy, parts) = balanced(|_| 0.8 * (SPEEDS[0] + SPEEDS[1]));
        assert!(busy.iter().all(|busy| (0.72..0.92).contains(busy)), "{busy:?} at {parts:?}");
    }

    /// In a closed loop there is always more to do: the server with too large a share decides, and
    /// the other server is idle.
    #[test]
    fn where_all_are_overloaded_the_fast_one_is_hardly_idle() {
        let slowest = |parts: &[f64; 2]| {
            let all: f64 = parts.iter().sum();
            (0..2).map(|server| SPEEDS[server] * all / parts[server]).fold(f64::INFINITY, f64::min)
        };
        let (busy, parts) = balanced(slowest);
        // A load difference of (1 - TARGET) * ln 3 / ln 20 gives the slow server a third of the
        // weight.
        assert!(busy[0] > 0.85 && busy[1] > 0.95, "{busy:?} at {parts:?}");
    }
}
