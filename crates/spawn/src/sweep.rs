//! When the spawner looks at all of its children.
//!
//! The signal of a child's end names that child; others that ended before it was heard are not told of. So all are looked at,
//! by the kernel, one after the other: that is nothing for a few, and as much as a start for a thousand (90 µs of the
//! spawner's cpu for a start became 170). Where it takes long it waits, so that it never takes more than a share of the time.
//! Pure: told what it took and when. Tested below.

use std::time::{Duration, Instant};

/// What may be done at once, each time. Guess: a tenth of a start.
const CHEAP: Duration = Duration::from_micros(10);

/// Anything longer takes at most this part of the time. Guess: lost among starts; with a thousand children, an end that no
/// signal was for is known some 4 ms late.
const SHARE: u32 = 50;

pub(crate) struct Sweep {
    is_wanted: bool,
    earliest: Instant,
}

impl Sweep {
    pub(crate) fn new(now: Instant) -> Self {
        Self { is_wanted: false, earliest: now }
    }

    /// A signal was heard: there may be more ends than one.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// When the next one is due, if one is wanted.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.is_wanted.then_some(self.earliest)
    }

    /// All were looked at, which was over `now` and has taken so long.
    pub(crate) fn done(&mut self, now: Instant, took: Duration) {
        self.is_wanted = false;
        self.earliest = if took <= CHEAP { now } else { now + took * SHARE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cheap_is_done_at_once_and_what_is_not_takes_its_share() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut sweep = Sweep::new(start);
        assert_eq!(sweep.due(), None, "nobody has ended");
        sweep.want();
        assert_eq!(sweep.due(), Some(start));
        sweep.done(at(10), CHEAP);
        assert_eq!(sweep.due(), None);
        sweep.want();
        assert_eq!(sweep.due(), Some(at(10)));
        sweep.done(at(100), Duration::from_micros(100));
        sweep.want();
        assert_eq!(sweep.due(), Some(at(100 + 100 * u64::from(SHARE))));
    }
}
