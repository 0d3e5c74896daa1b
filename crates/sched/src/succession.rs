//! The LIFO slot: a core runs next the color that the previous activation has woken, if the
//! activation has woken no other color.
//!
//! Two colors that answer each other run in turns, and use each other's cached data. Through the
//! queue each turn costs a queue entry and the lock, twice, and shows thieves a color that waits
//! for almost nothing. A thief would take the color, and the two would communicate across cores. So
//! the color stays out of the queue and runs when the waking activation ends, within the same batch
//! of events. A waiting color waits no longer than for one color with a whole batch. The slot is
//! not used if the activation is expected to take long, and not if the activation wakes a second
//! color: fanned-out work is for all cores, in the order of waking. If the activation takes long
//! nevertheless, a thief puts the color into the queue. Leaves out the storage of the token, which
//! belongs to the core. Tested below.

use crate::{Hint, Stealing};

/// The longest expected duration of an activation whose woken color may use the slot, in
/// nanoseconds. After this time the slot is open to thieves. Before this time no thief would have
/// come, because waking a sleeping core takes longer. Guess.
pub const SUCCESSION_NS: u64 = 10_000;

/// The state of the slot during an activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Succession {
    /// A woken color is queued.
    #[default]
    Closed,
    /// The first woken color will be kept.
    Open,
    /// A color is kept, and is the only color woken so far.
    Kept,
}

/// The destination of a woken color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The LIFO slot, outside the queue.
    Keep,
    /// The queue.
    Queue,
    /// The queue, behind the kept color.
    QueueBoth,
}

impl Succession {
    /// An activation with this expected duration begins.
    #[inline]
    pub fn begin(stealing: Stealing, expected_ns: u64) -> Self {
        let opens = stealing == Stealing::Learned && expected_ns <= SUCCESSION_NS;
        if opens { Self::Open } else { Self::Closed }
    }

    /// The activation has woken a color of this core.
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

    /// The activation will wake no more colors. Returns whether a color is kept.
    #[inline]
    pub fn end(&mut self) -> bool {
        std::mem::take(self) == Self::Kept
    }

    /// Whether the kept color of a core with hint `owner` is stuck behind an activation that was
    /// expected to be short.
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
