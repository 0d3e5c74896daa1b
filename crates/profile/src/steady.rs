//! Waits until a server under load works at a steady rate, before its recording begins.
//!
//! The work is the bytes that the network interfaces send, second by second, because each server
//! has these and no server need be asked. The wait is bounded; a run that never became steady is
//! recorded nevertheless and fails a gate. Leaves out the load (`scale`). Tested below.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// The greatest difference between the seconds, as a share of their mean.
const SPREAD_MAX: f64 = 0.1;
/// The number of successive seconds that must agree.
const SECONDS: usize = 3;

/// The rates of the work before a recording.
#[derive(Debug, Default)]
pub(crate) struct SteadyState {
    /// Bytes in each second.
    rates: Vec<f64>,
}

impl SteadyState {
    /// Adds the bytes of the next second.
    pub(crate) fn add(&mut self, bytes: f64) {
        self.rates.push(bytes);
    }

    /// The difference between the last seconds, as a share of their mean.
    fn spread(&self) -> Option<f64> {
        let last = self.rates.len().checked_sub(SECONDS).map(|first| &self.rates[first..])?;
        let (least, most) =
            last.iter().fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        let mean = last.iter().sum::<f64>() / SECONDS as f64;
        (mean > 0.0).then(|| (most - least) / mean)
    }

    /// Whether the last seconds agree.
    pub(crate) fn is_reached(&self) -> bool {
        self.spread().is_some_and(|spread| spread <= SPREAD_MAX)
    }

    /// The finding in words.
    pub(crate) fn found(&self, waited: Duration) -> String {
        let seconds = waited.as_secs_f64();
        match self.spread() {
            Some(spread) => format!(
                "after {seconds:.0} s of load, bytes sent in the last {SECONDS} seconds differ by {:.0} % (at most {:.0} %)",
                100.0 * spread,
                100.0 * SPREAD_MAX
            ),
            None => format!("after {seconds:.0} s of load, not {SECONDS} seconds with bytes sent"),
        }
    }
}

/// The bytes that the interfaces sent so far through which clients reach an address: the loopback
/// interface for a loopback address, else all. A client on this host reaches also the other
/// addresses of the host through the loopback interface.
pub(crate) fn bytes_sent(address: SocketAddr) -> u64 {
    sum_sent(&fs::read_to_string("/proc/net/dev").unwrap_or_default(), address.ip().is_loopback())
}

fn sum_sent(text: &str, loopback_alone: bool) -> u64 {
    let sent = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        // Eight columns of received come first.
        let bytes: u64 = counts.split_whitespace().nth(8)?.parse().ok()?;
        (name.trim() == "lo" || !loopback_alone).then_some(bytes)
    };
    text.lines().filter_map(sent).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rates: &[f64]) -> SteadyState {
        let mut state = SteadyState::default();
        rates.iter().for_each(|rate| state.add(*rate));
        state
    }

    #[test]
    fn last_seconds_must_agree() {
        assert!(!after(&[100.0, 100.0]).is_reached(), "too few seconds");
        assert!(!after(&[50.0, 90.0, 100.0]).is_reached());
        assert!(after(&[50.0, 98.0, 100.0, 102.0]).is_reached());
        assert!(!after(&[0.0, 0.0, 0.0]).is_reached(), "no load arrives");
    }

    #[test]
    fn finding_tells_difference_and_bound() {
        let found = after(&[80.0, 100.0, 120.0]).found(Duration::from_secs(12));
        assert!(found.contains("after 12 s") && found.contains("by 40 % (at most 10 %)"), "{found}");
        assert!(after(&[]).found(Duration::from_secs(2)).contains("not 3 seconds"));
    }

    /// Regression: a server at another address of the host never was steady under a load of the
    /// same host, because the loopback interface did not count.
    #[test]
    fn loopback_counts_for_each_address() {
        let text = "Inter-| Receive | Transmit\n face |bytes | bytes\n    lo: 7 1 0 0 0 0 0 0 70 1 0\n  eth0: 5 1 0 0 0 0 0 0 50 1 0\n  eth1: 5 1 0 0 0 0 0 0 9 1 0\n";
        assert_eq!((sum_sent(text, true), sum_sent(text, false)), (70, 129));
    }
}
