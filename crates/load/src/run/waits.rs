//! The users that wait for an answer, and the start of each wait.
//!
//! A missing answer is in no histogram. Each user waits for an answer before the next request, so a
//! server that never answers some users would look better than a server that is slow for all users.
//! Therefore a run reports the oldest wait at the end of the window, and the longest silence of the
//! server in such a wait (`verdict`). Pages that are
//! under way for longer than the limit of good or tolerable pages count as not good or not
//! tolerable (`quality`). Tested here, and with planted servers in `tests/planted`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The waits: for each user at most one page, or the requests of one batch.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    users: Box<[UserWait]>,
    /// The limits of a good page and of a tolerable page.
    longest: [Duration; 2],
}

/// The wait of a user. The user writes the entry, and the collecting thread reads it at the end of
/// the window; a value that is late by a page does no harm.
#[derive(Debug, Default)]
struct UserWait {
    /// Nanoseconds from the epoch of the run to the intended start, plus one; 0 without a wait. The
    /// highest bit marks a time that is not judged.
    since: AtomicU64,
    /// The pages or requests for which the user waits.
    asked: AtomicU32,
    /// Nanoseconds from the epoch to the last received bytes, or to the end of the user's pause
    /// after these bytes; 0 without bytes.
    heard: AtomicU64,
}

/// The waits at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWaits {
    /// The longest wait, from the intended start.
    pub oldest: Duration,
    /// The longest time without received bytes in a wait.
    pub silence: Duration,
}

impl OpenWaits {
    /// The waits of two injectors.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self { oldest: self.oldest.max(other.oldest), silence: self.silence.max(other.silence) }
    }
}

/// Marks a wait that is not judged by its time.
const UNJUDGED: u64 = 1 << 63;

impl Waits {
    pub(crate) fn new(users: usize, longest: [Duration; 2]) -> Self {
        Self { users: (0..users).map(|_| UserWait::default()).collect(), longest }
    }

    /// `user` waits for `asked` answers to requests that were due at `since` after the epoch.
    pub(crate) fn begin(&self, user: usize, since: Duration, asked: u64) {
        self.note(user, nanoseconds(since) + 1, asked);
    }

    /// The same for a page that is not judged by its time.
    pub(crate) fn begin_unjudged(&self, user: usize, since: Duration) {
        self.note(user, (nanoseconds(since) + 1) | UNJUDGED, 1);
    }

    fn note(&self, user: usize, since: u64, asked: u64) {
        let wait = &self.users[user];
        wait.asked.store(u32::try_from(asked).unwrap_or(u32::MAX), Ordering::Relaxed);
        wait.heard.store(0, Ordering::Relaxed);
        wait.since.store(since, Ordering::Relaxed);
    }

    /// `user` has one of the answers of its batch since `at` after the epoch.
    pub(crate) fn answered(&self, user: usize, at: Duration) {
        let asked = &self.users[user].asked;
        asked.store(asked.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        self.heard(user, at);
    }

    /// `user` received bytes at `at` after the epoch. A later time stays, because one connection of
    /// the user may pause while another receives.
    pub(crate) fn heard(&self, user: usize, at: Duration) {
        self.users[user].heard.fetch_max(nanoseconds(at), Ordering::Relaxed);
    }

    /// `user` no longer waits.
    pub(crate) fn end(&self, user: usize) {
        self.users[user].since.store(0, Ordering::Relaxed);
    }

    /// Number of pages or requests that have waited longer than the limit of a good page, and of a
    /// tolerable page.
    pub(crate) fn overdue(&self, now: Duration) -> [u64; 2] {
        let now = nanoseconds(now) + 1;
        self.longest.map(|longest| {
            let has_waited = |wait: &&UserWait| match wait.since.load(Ordering::Relaxed) {
                0 => false,
                since => since & UNJUDGED == 0 && now.saturating_sub(since) > nanoseconds(longest),
            };
            let late = self.users.iter().filter(has_waited);
            late.map(|wait| u64::from(wait.asked.load(Ordering::Relaxed))).sum()
        })
    }

    /// The longest wait of a user, and the longest silence in a wait.
    pub(crate) fn open(&self, now: Duration) -> Option<OpenWaits> {
        let now = nanoseconds(now);
        let open = self.users.iter().filter_map(|wait| {
            let since = (wait.since.load(Ordering::Relaxed) & !UNJUDGED).checked_sub(1)?;
            let heard = wait.heard.load(Ordering::Relaxed).max(since);
            let [oldest, silence] = [since, heard].map(|from| Duration::from_nanos(now.saturating_sub(from)));
            Some(OpenWaits { oldest, silence })
        });
        open.reduce(OpenWaits::merge)
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
        waits.begin(0, second(0), 1);
        waits.begin(1, second(2), 1);
        assert_eq!(waits.overdue(second(3)), [0, 0]);
        assert_eq!(waits.overdue(second(4)), [1, 0]);
        assert_eq!(waits.overdue(second(6)), [2, 1]);
        waits.end(0);
        assert_eq!(waits.overdue(second(9)), [1, 1]);
        waits.begin_unjudged(2, second(1));
        assert_eq!(waits.overdue(second(9)), [1, 1]);
        assert_eq!(waits.open(second(9)).unwrap().oldest, second(8));
        waits.begin(0, second(8), 16);
        assert_eq!(waits.overdue(second(12)), [17, 1], "each request of a batch counts");
        waits.answered(0, second(12));
        assert_eq!(waits.overdue(second(12)), [16, 1], "until it is answered");
        assert_eq!(Waits::default().open(second(9)), None);
        assert_eq!(Waits::default().overdue(second(9)), [0, 0]);
    }

    #[test]
    fn silence_begins_with_the_last_bytes() {
        let second = Duration::from_secs;
        let silence = |waits: &Waits, now| waits.open(second(now)).map(|open| open.silence);
        let waits = Waits::new(2, [second(3), second(5)]);
        waits.begin_unjudged(0, second(1));
        assert_eq!(silence(&waits, 9), Some(second(8)));
        waits.heard(0, second(6));
        assert_eq!(silence(&waits, 9), Some(second(3)));
        // A pause of the user until 12 s, while another connection of the user receives.
        waits.heard(0, second(12));
        waits.heard(0, second(7));
        assert_eq!(silence(&waits, 9), Some(Duration::ZERO));
        waits.begin(1, second(5), 1);
        assert_eq!(silence(&waits, 9), Some(second(4)), "the bytes of another user do not count");
        waits.end(1);
        waits.begin(0, second(7), 1);
        assert_eq!(silence(&waits, 9), Some(second(2)), "the bytes of an earlier wait do not count");
    }
}
