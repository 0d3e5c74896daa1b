//! The times at which the spawner scans all of its children.
//!
//! The signal of a child's end names that child. The signal does not name children that ended
//! before the signal was read. So the kernel scans all children, one after the other. For a few
//! children a scan costs nothing. For a thousand children a scan costs as much as a start (90 µs of
//! the spawner's cpu for a start became 170). A scan that finds an ended child is repeated at once,
//! so each end causes one such scan at most. The last scan finds no ended child. After an expensive
//! last scan the spawner waits, so that last scans never take more than a share of the time. Pure:
//! the caller passes durations and times. Tested below.

use std::time::{Duration, Instant};

/// A scan up to this duration may be repeated at once: less than a tenth of the 180 µs of a start
/// (`bench cgi`).
const CHEAP: Duration = Duration::from_micros(10);

/// A longer scan takes at most this part of the time, two percent. With a thousand children, the
/// spawner learns some 4 ms late of an end without a signal.
const SHARE: u32 = 50;

pub(crate) struct Reaper {
    is_wanted: bool,
    earliest: Instant,
}

impl Reaper {
    pub(crate) fn new(now: Instant) -> Self {
        Self { is_wanted: false, earliest: now }
    }

    /// A signal was read: there may be further ends.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// When the next scan is due, if a scan is wanted.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.is_wanted.then_some(self.earliest)
    }

    /// The last scan ended at `now` and took `took`.
    pub(crate) fn done(&mut self, now: Instant, took: Duration) {
        self.is_wanted = false;
        self.earliest = if took <= CHEAP { now } else { now + took * SHARE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_scan_repeats_and_costly_scan_takes_share() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut reaper = Reaper::new(start);
        assert_eq!(reaper.due(), None, "no child has ended");
        reaper.want();
        assert_eq!(reaper.due(), Some(start));
        reaper.done(at(10), CHEAP);
        assert_eq!(reaper.due(), None);
        reaper.want();
        assert_eq!(reaper.due(), Some(at(10)));
        reaper.done(at(100), Duration::from_micros(100));
        reaper.want();
        assert_eq!(reaper.due(), Some(at(100 + 100 * u64::from(SHARE))));
    }
}
