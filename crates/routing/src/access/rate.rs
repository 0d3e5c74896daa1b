//! Rates of requests: how many requests a client may make, and which of them wait.
//!
//! A bucket is the time at which its requests would all be served, if they came at the allowed rate
//! (the generic cell rate algorithm, ITU-T I.371). The table of buckets has a fixed size. When a
//! set of the table is full, a new client takes the bucket that is nearest to empty, so the clients
//! that are limited most stay limited. Tested below, and through the binary
//! (`crates/e2e/tests/e2e/access.rs`).

use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use std::{
    hash::{BuildHasher as _, Hash},
    sync::Mutex,
    time::Duration,
};
use vermeil_http::Status;

/// Buckets of the table by default, 16 bytes each, so the table takes a megabyte. A client that
/// comes when its ways are full shares a bucket.
pub const BUCKETS: usize = 1 << 16;

/// Locks of the table: more than the cores that count at the same instant, because counting takes
/// less than a microsecond.
const SHARDS: usize = 64;

/// Buckets among which a client's bucket is looked for: two cache lines.
const WAYS: usize = 8;

/// The rate of a host or a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The number of the rule in its host. Rules with different numbers count apart.
    pub rule: u32,
    /// The time between two requests at the allowed rate.
    pub interval: Duration,
    /// Requests beyond the rate that are accepted at once or wait. Further requests get 429.
    pub burst: u32,
    /// The last requests of the burst, which wait until they keep to the rate.
    pub delayed: u32,
    /// The requests that are counted together.
    pub by: ClientKey,
}

/// The most requests of a host or a route that are in progress at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgressLimit {
    /// The number of the rule in its host. Rules with different numbers count apart.
    pub rule: u32,
    /// Requests in progress. Further requests are refused.
    pub requests: usize,
    /// The requests that are counted together.
    pub by: ClientKey,
    /// The answer to a refused request: 503 or 429.
    pub status: Status,
}

/// Which requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// Those of a client address.
    Client,
    /// All requests.
    All,
    /// Those with the same value of a field. Requests without the field are counted by client.
    Field(Box<str>),
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// The request is answered now.
    Now,
    /// The request is answered after this time.
    Later(Duration),
    /// The request is refused. After this time a request would be accepted.
    Refused(Duration),
}

impl RateLimit {
    /// The bucket after a request at `now_ns`, and the decision. `full_ns` is the bucket before.
    fn decide(&self, full_ns: u64, now_ns: u64) -> (u64, RateDecision) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let interval = nanos(self.interval);
        let times = |count: u32| interval.saturating_mul(count.into());
        let ahead = full_ns.saturating_sub(now_ns);
        if let Some(over @ 1..) = ahead.checked_sub(times(self.burst)) {
            return (full_ns, RateDecision::Refused(Duration::from_nanos(over)));
        }
        let after = full_ns.max(now_ns).saturating_add(interval);
        let decision = match ahead.saturating_sub(times(self.burst.saturating_sub(self.delayed))) {
            0 => RateDecision::Now,
            wait => RateDecision::Later(Duration::from_nanos(wait)),
        };
        (after, decision)
    }
}

/// A bucket: the hash of its client and rule, and the time at which it is empty. Zeros stand for no
/// bucket.
type Bucket = [u64; 2];

/// The buckets of all clients and rules.
pub struct RateTable {
    shards: Box<[CachePadded<Mutex<Vec<Bucket>>>]>,
    /// Buckets of a shard, a power of two.
    buckets: usize,
    hasher: RandomState,
}

impl RateTable {
    /// A table with at least `buckets` buckets. The memory is taken with the first requests.
    pub fn new(buckets: usize) -> Self {
        let of_shard = buckets.div_ceil(SHARDS).next_power_of_two().max(WAYS);
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            buckets: of_shard,
            hasher: RandomState::default(),
        }
    }

    /// Counts a request of `client` for `limit` at `now_ns`. Different `rule`s count apart.
    pub fn admit(&self, limit: &RateLimit, rule: impl Hash, client: impl Hash, now_ns: u64) -> RateDecision {
        let tag = self.hasher.hash_one((rule, client)).max(1);
        let mut shard = self.shards[tag as usize % SHARDS].lock().expect("nothing panics under this lock");
        if shard.is_empty() {
            *shard = vec![[0; 2]; self.buckets];
        }
        let sets = self.buckets / WAYS;
        let at = (tag as usize / SHARDS) % sets * WAYS;
        let set = &mut shard[at..at + WAYS];
        let known = set.iter().position(|[known, _]| *known == tag);
        let place = known.unwrap_or_else(|| {
            let emptiest = set.iter().enumerate().min_by_key(|(_, [_, full_ns])| *full_ns);
            emptiest.map_or(0, |(place, _)| place)
        });
        let full_ns = if known.is_some() { set[place][1] } else { 0 };
        let (after, decision) = limit.decide(full_ns, now_ns);
        set[place] = [tag, after];
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RateDecision::{Later, Now, Refused};

    const SECOND: u64 = 1_000_000_000;

    fn limit(burst: u32, delayed: u32) -> RateLimit {
        RateLimit { rule: 0, interval: Duration::from_secs(1), burst, delayed, by: ClientKey::Client }
    }

    #[test]
    fn burst_is_served_and_refills() {
        let table = RateTable::new(64);
        let at = |now| table.admit(&limit(2, 0), 0, "client", now);
        let start = 100 * SECOND;
        assert_eq!([at(start), at(start), at(start)], [Now, Now, Now]);
        assert_eq!(at(start), Refused(Duration::from_secs(1)));
        assert_eq!(at(start + SECOND / 2), Refused(Duration::from_millis(500)));
        assert_eq!(at(start + SECOND), Now);
        assert_eq!(at(start + SECOND), Refused(Duration::from_secs(1)));
        assert_eq!([at(start + 9 * SECOND), at(start + 9 * SECOND), at(start + 9 * SECOND)], [Now; 3]);
    }

    #[test]
    fn delayed_part_of_burst_waits() {
        let table = RateTable::new(64);
        let at = |now| table.admit(&limit(3, 2), 0, "client", now);
        let start = 100 * SECOND;
        assert_eq!([at(start), at(start)], [Now, Now]);
        assert_eq!([at(start), at(start)], [1, 2].map(|seconds| Later(Duration::from_secs(seconds))));
        assert_eq!(at(start), Refused(Duration::from_secs(1)));
    }

    #[test]
    fn clients_and_rules_count_apart() {
        let table = RateTable::new(64);
        let limit = limit(0, 0);
        for (rule, client, is_served) in
            [(0, "a", true), (0, "b", true), (1, "a", true), (0, "a", false), (1, "a", false)]
        {
            assert_eq!(table.admit(&limit, rule, client, SECOND) == Now, is_served, "{rule} {client}");
        }
    }

    /// A million addresses take no more memory, and the client that asks too often stays refused.
    #[test]
    fn table_is_bounded_and_keeps_the_busiest() {
        let table = RateTable::new(1 << 12);
        let (strict, start) = (limit(1000, 0), 1000 * SECOND);
        let busy = |table: &RateTable| table.admit(&strict, 0, u32::MAX, start);
        while busy(&table) == Now {}
        for client in 0..1_000_000_u32 {
            assert_eq!(table.admit(&strict, 0, client, start), Now);
        }
        assert!(matches!(busy(&table), Refused(_)));
        let taken: usize = table.shards.iter().map(|shard| shard.lock().unwrap().capacity()).sum();
        assert_eq!(taken, 1 << 12);
    }

    #[test]
    fn no_number_overflows() {
        let endless = RateLimit {
            rule: 0,
            interval: Duration::MAX,
            burst: u32::MAX,
            delayed: u32::MAX,
            by: ClientKey::All,
        };
        let table = RateTable::new(1);
        for now in [0, u64::MAX, 1] {
            let _ = table.admit(&endless, 0, 0, now);
        }
    }
}
