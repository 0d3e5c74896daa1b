//! Which color runs next on a core: the one that the color before it has woken, if it has woken one alone.
//!
//! Colors that answer each other run in turns, and what one leaves in the caches is for the other. By way of the queue each turn
//! costs a place in it and its lock, twice, and shows a thief a color that waits for next to nothing: it is taken, and the two
//! talk from afar. So it stays out of the queue and runs when the activation that has woken it ends, within the same batch of
//! events: nobody who waits there waits longer than for one color that has a whole batch queued. Not behind an activation that is
//! expected to take long, and not if another is woken as well: what fans out is for all cores, in the order of its waking. If
//! the activation takes long nevertheless, a thief that comes by puts the color into the queue. Leaves out where it is kept
//! meanwhile: the holder is the core's. Tested below.

use crate::{Hint, Stealing};

/// The longest that an activation may be expected to take if what it wakes is to follow it, in nanoseconds; if it has lasted
/// longer, what is kept is for everybody. Nobody would have come for it sooner: a core that sleeps takes longer to wake
/// up. Guess.
pub const SUCCESSION_NS: u64 = 10_000;

/// What the activation that runs has woken on its own core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Succession {
    /// What is woken is queued.
    #[default]
    Closed,
    /// The first that is woken will be kept.
    Open,
    /// One is kept, and has been woken alone by now.
    Kept,
}

/// Where a color goes that has been woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It is kept out of the queue.
    Keep,
    /// To the queue.
    Queue,
    /// To the queue, behind the one that has been kept.
    QueueBoth,
}

impl Succession {
    /// An activation begins that is expected to take so long.
    #[inline]
    pub fn begin(stealing: Stealing, expected_ns: u64) -> Self {
        let opens = stealing == Stealing::Learned && expected_ns <= SUCCESSION_NS;
        if opens { Self::Open } else { Self::Closed }
    }

    /// A color of this core has been woken.
    #[inline]
    pub fn woken(&mut self) -> Woken {
        match std::mem::take(self) {
            Self::Closed => Woken::Queue,
            Self::Open => {
                *self = Self::Kept;
                Woken::Keep
            }
            Self::Kept => Woken::QueueBoth,
        }
    }

    /// The activation wakes nobody any more; whether one is kept.
    #[inline]
    pub fn end(&mut self) -> bool {
        std::mem::take(self) == Self::Kept
    }

    /// Whether what a core keeps that looks like `owner` is caught there, behind an activation that was expected to be short.
    #[inline]
    pub fn is_caught(owner: &Hint, now_ns: u64) -> bool {
        owner.running_ns(now_ns) > SUCCESSION_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_one_is_kept_and_several_are_queued_in_order() {
        let mut succession = Succession::begin(Stealing::Learned, SUCCESSION_NS);
        assert_eq!(succession.woken(), Woken::Keep);
        assert!(succession.end());
        succession = Succession::begin(Stealing::Learned, 0);
        let woken = [(); 4].map(|()| succession.woken());
        assert_eq!(woken, [Woken::Keep, Woken::QueueBoth, Woken::Queue, Woken::Queue]);
        assert!(!succession.end());
    }

    #[test]
    fn behind_what_takes_long_and_outside_of_activations_all_is_queued() {
        assert_eq!(Succession::begin(Stealing::Learned, SUCCESSION_NS + 1).woken(), Woken::Queue);
        assert_eq!(
            Succession::begin(Stealing::TimeLeft, 0).woken(),
            Woken::Queue,
            "as the documents have it"
        );
        let mut succession = Succession::begin(Stealing::Learned, 0);
        assert!(!succession.end(), "nothing was woken");
        assert_eq!(succession.woken(), Woken::Queue);
    }

    #[test]
    fn what_was_to_be_short_and_is_not_has_caught_what_it_woke() {
        let hint = Hint { running_since_ns: Some(5_000), ..Hint::default() };
        assert!(!Succession::is_caught(&hint, 5_000 + SUCCESSION_NS));
        assert!(Succession::is_caught(&hint, 5_001 + SUCCESSION_NS));
        assert!(!Succession::is_caught(&Hint::default(), u64::MAX), "nothing runs");
    }
}
