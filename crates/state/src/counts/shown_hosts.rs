//! The hosts that the status shows one by one, and the sum of the other hosts.
//!
//! A monitor takes a count that falls for a restart of the server. Two causes would let a count
//! fall: a core forgets the counts of its quieter hosts (`counts.rs`), and a host that becomes one
//! of the busiest leaves the sum of the others. Therefore each count that was shown stays at its
//! maximum. The price: `others` contains again what a forgotten host still shows, so the sum over
//! all hosts can exceed the number of requests. Tested below.

use super::{CountsSnapshot, HostCounts};
use foldhash::fast::RandomState;
use std::{collections::HashMap, sync::Arc};

/// Hosts whose shown counts are remembered, in some 500 KB. Once so many hosts were shown, every
/// other host belongs to the others.
const REMEMBERED_HOSTS_MAX: usize = 4096;

/// The highest counts that were shown.
#[derive(Default)]
pub struct ShownHosts {
    hosts: HashMap<Arc<str>, HostCounts, RandomState>,
    others: HostCounts,
}

impl ShownHosts {
    /// The counts to show: of the `max` busiest hosts, and of the others. No count is lower than
    /// in an earlier result.
    pub fn show(&mut self, mut counts: CountsSnapshot, max: usize) -> CountsSnapshot {
        let is_full = self.hosts.len() >= REMEMBERED_HOSTS_MAX;
        let mut hosts = self.hosts.clone();
        for (name, now) in std::mem::take(&mut counts.hosts) {
            match hosts.get_mut(&name) {
                Some(known) => known.raise(&now),
                None if is_full => counts.others.add(&now),
                None => _ = hosts.insert(name, now),
            }
        }
        counts.hosts = hosts.into_iter().collect();
        counts.keep_busiest(max);
        self.hosts.extend(counts.hosts.iter().cloned());
        self.others.raise(&counts.others);
        counts.others = self.others;
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(requests: u64) -> HostCounts {
        HostCounts { requests, errors: requests / 10, body_bytes: 100 * requests }
    }

    fn counts(hosts: &[(&str, u64)], others: u64) -> CountsSnapshot {
        let hosts = hosts.iter().map(|(name, requests)| ((*name).into(), host(*requests))).collect();
        CountsSnapshot { hosts, others: host(others), ..CountsSnapshot::default() }
    }

    fn requests(shown: &CountsSnapshot) -> (Vec<(&str, u64)>, u64) {
        let hosts = shown.hosts.iter().map(|(name, counts)| (&**name, counts.requests)).collect();
        (hosts, shown.others.requests)
    }

    #[test]
    fn forgotten_host_keeps_its_shown_counts() {
        let mut shown = ShownHosts::default();
        let first = shown.show(counts(&[("a", 100), ("b", 50), ("c", 10)], 0), 2);
        assert_eq!(requests(&first), (vec![("a", 100), ("b", 50)], 10));
        // A core has moved the counts of `b` and `c` to the others.
        let second = shown.show(counts(&[("a", 110)], 60), 2);
        assert_eq!(requests(&second), (vec![("a", 110), ("b", 50)], 60));
        assert_eq!(second.hosts[1].1, host(50));
        let third = shown.show(counts(&[("a", 110), ("b", 20), ("c", 90)], 60), 2);
        assert_eq!(requests(&third), (vec![("a", 110), ("c", 90)], 110));
        let fourth = shown.show(counts(&[("a", 110), ("b", 120), ("c", 5)], 60), 2);
        assert_eq!(requests(&fourth), (vec![("b", 120), ("a", 110)], 150));
    }

    #[test]
    fn number_of_remembered_hosts_is_bounded() {
        let mut shown = ShownHosts::default();
        for n in 0..REMEMBERED_HOSTS_MAX as u64 + 10 {
            shown.show(counts(&[(&format!("h{n}"), 1000 + n)], 0), 1);
        }
        assert_eq!(shown.hosts.len(), REMEMBERED_HOSTS_MAX);
        let last = shown.show(counts(&[("h0", 100_000), ("new", 200_000)], 0), 1);
        assert_eq!(requests(&last).0, [("h0", 100_000)]);
        assert!(last.others.requests >= 200_000);
    }
}
