//! A core's memory of recent requests, which decides what the caches admit.
//!
//! A cache gains from a key only if the key comes back soon. The doorkeeper counts the requests for
//! a key within a window of a second, in two bytes for each key (as the doorkeeper of TinyLFU:
//! Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", 2017). Two
//! keys may share a counter. Then the counter keeps the key with more requests, so a count may be
//! too low, and too high only for two pairs of such keys in 256. Tested below.

/// The length of a window. An entry in use is checked once a second ([`recheck_ms`]), and a check
/// costs about as much as a look-up. A key that comes less often than that therefore gains nothing.
///
/// [`recheck_ms`]: super::StoreOptions::recheck_ms
const WINDOW_MS: u64 = 1000;

/// Counters: twice the requests for different keys that a core can answer in a window.
const COUNTERS: usize = 1 << 16;

/// Counters that a key may have.
const WAYS: usize = 2;

/// Requests of a core for each key in the present window.
#[derive(Default)]
pub struct Doorkeeper {
    /// A tag of the key in the upper byte, the number of requests in the lower byte. Empty before
    /// the first request.
    counters: Vec<u16>,
    since_ms: u64,
}

impl Doorkeeper {
    /// A doorkeeper without counters. The first request makes them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request for the key with this `hash`. Returns the number of requests in the present
    /// window, with this request. `now_ms` is a monotonic clock.
    pub fn count(&mut self, hash: u64, now_ms: u64) -> u8 {
        if self.counters.is_empty() || now_ms.saturating_sub(self.since_ms) >= WINDOW_MS {
            self.counters.clear();
            self.counters.resize(COUNTERS, 0);
            self.since_ms = now_ms;
        }
        let tag = (hash >> 48) as u16 & 0xFF00;
        let first = hash as usize % (COUNTERS / WAYS) * WAYS;
        let ways = &mut self.counters[first..first + WAYS];
        let requests = |counter: &u16| *counter & 0x00FF;
        if let Some(own) = ways.iter_mut().find(|own| **own & 0xFF00 == tag && requests(own) > 0) {
            *own += u16::from(requests(own) < 0xFF);
            return *own as u8;
        }
        if let Some(least) = ways.iter_mut().min_by_key(|counter| requests(counter)) {
            *least = if requests(least) < 2 { tag | 1 } else { *least - 1 };
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    #[test]
    fn doorkeeper_counts_requests_of_a_window() {
        let mut doorkeeper = Doorkeeper::new();
        assert_eq!([1, 2, 3].map(|_| doorkeeper.count(hash(7), 5_000)), [1, 2, 3]);
        assert_eq!(doorkeeper.count(hash(8), 5_999), 1);
        assert_eq!(doorkeeper.count(hash(7), 6_000), 1, "another window");
        for _ in 0..300 {
            doorkeeper.count(hash(7), 6_000);
        }
        assert_eq!(doorkeeper.count(hash(7), 6_000), 255);
    }

    #[test]
    fn crowd_of_single_requests_is_not_admitted() {
        let mut doorkeeper = Doorkeeper::new();
        let admitted = (0..30_000).filter(|&key| doorkeeper.count(hash(key), 9) > 1).count();
        assert!(admitted < 300, "{admitted} of 30,000 share tag and counter with another key");
        doorkeeper.count(hash(1 << 40), 9);
        assert!(doorkeeper.count(hash(1 << 40), 9) >= 1);
    }
}
