//! The users that wait for an answer, and the start of each wait.
//!
//! A missing answer is in no histogram. If users wait for each other, a server that never answers
//! some users would look better than a server that is slow for all. Therefore a run reports the
//! oldest wait at the end of the window (`verdict`). Pages that are under way for longer than the
//! limit of good or tolerable pages count as not good or not tolerable (`quality`). Tested here,
//! and with planted servers in `tests/planted`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The waits: at most one request or page for each user.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Nanoseconds from the epoch of the run to the intended start, plus one; 0 without a wait. The
    /// highest bit marks a time that is not judged. The user writes the entry. The collecting
    /// thread reads the entry once; a value that is late by a page does no harm.
    since: Box<[AtomicU64]>,
    /// The limits of a good page and of a tolerable page.
    longest: [Duration; 2],
}

/// Marks a wait that is not judged by its time.
const UNJUDGED: u64 = 1 << 63;

impl Waits {
    pub(crate) fn new(users: usize, longest: [Duration; 2]) -> Self {
        Self { since: (0..users).map(|_| AtomicU64::new(0)).collect(), longest }
    }

    /// `user` waits for an answer whose request was due at `since` after the epoch.
    pub(crate) fn begin(&self, user: usize, since: Duration) {
        self.since[user].store(nanoseconds(since) + 1, Ordering::Relaxed);
    }

    /// The same for a page that is not judged by its time.
    pub(crate) fn begin_unjudged(&self, user: usize, since: Duration) {
        self.since[user].store((nanoseconds(since) + 1) | UNJUDGED, Ordering::Relaxed);
    }

    /// `user` no longer waits.
    pub(crate) fn end(&self, user: usize) {
        self.since[user].store(0, Ordering::Relaxed);
    }

    /// Number of users that have waited longer than the limit of a good page, and of a tolerable
    /// page.
    pub(crate) fn overdue(&self, now: Duration) -> [u64; 2] {
        let now = nanoseconds(now) + 1;
        self.longest.map(|longest| {
            let waited = |since: &&AtomicU64| match since.load(Ordering::Relaxed) {
                0 => false,
                since => since & UNJUDGED == 0 && now.saturating_sub(since) > nanoseconds(longest),
            };
            self.since.iter().filter(waited).count() as u64
        })
    }

    /// The longest wait of a user.
    pub(crate) fn oldest(&self, now: Duration) -> Option<Duration> {
        let since = self.since.iter().map(|since| since.load(Ordering::Relaxed) & !UNJUDGED);
        let first = since.filter(|&since| since > 0).min()?;
        Some(Duration::from_nanos((nanoseconds(now) + 1).saturating_sub(first)))
    }
}

/// The nanoseconds of a time in a run, which lasts a day at most.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_wait_is_counted_until_it_ends() {
        let second = Duration::from_secs;
        let waits = Waits::new(3, [second(3), second(5)]);
        waits.begin(0, second(0));
        waits.begin(1, second(2));
        assert_eq!(waits.overdue(second(3)), [0, 0]);
        assert_eq!(waits.overdue(second(4)), [1, 0]);
        assert_eq!(waits.overdue(second(6)), [2, 1]);
        waits.end(0);
        assert_eq!(waits.overdue(second(9)), [1, 1]);
        waits.begin_unjudged(2, second(1));
        assert_eq!((waits.overdue(second(9)), waits.oldest(second(9))), ([1, 1], Some(second(8))));
        assert_eq!(Waits::default().oldest(second(9)), None);
        assert_eq!(Waits::default().overdue(second(9)), [0, 0]);
    }
}
