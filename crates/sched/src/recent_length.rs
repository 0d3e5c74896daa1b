//! The length of a color's recent events, by which a ready queue separates long and short colors.
//!
//! Leaves out the queue (`ready.rs`) and the measurement of events. Tested below.

use crate::TURN_NS;
use vermeil_ablation::Mechanism;

/// The shortest event that counts as long, in nanoseconds: a whole turn, because a core looks at
/// its sockets after a turn. A tenth of a turn separated the stages of a pipeline over images,
/// whose data then left the caches: on a simulated machine with pairs of cores 605 images a second
/// instead of 842.
pub const LONG_EVENT_NS: u64 = TURN_NS;

/// The longest recent event of a color, in quarters of [`LONG_EVENT_NS`] up to 64 ms, so that a
/// color needs a byte. Each timed event reduces the number by a quarter, because a task with long
/// events has short ones too, such as the end of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentLength(pub u8);

impl RecentLength {
    /// The number of a long event.
    const LONG: u8 = 4;

    /// After an event of `run_ns`.
    #[inline]
    pub fn after(self, run_ns: u64) -> Self {
        let length = run_ns / (LONG_EVENT_NS / u64::from(Self::LONG));
        let length = u8::try_from(length).unwrap_or(u8::MAX);
        Self(length.max(self.0 - self.0.div_ceil(4)))
    }

    /// Whether the color counts as long.
    #[inline]
    pub fn is_long(self) -> bool {
        self.0 >= Self::LONG && !Mechanism::LengthClasses.is_off()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_long_until_several_short_events() {
        let mut length = RecentLength::default().after(LONG_EVENT_NS - 1);
        assert!(!length.is_long());
        length = length.after(2 * LONG_EVENT_NS);
        let mut short = 0;
        while length.is_long() {
            length = length.after(LONG_EVENT_NS / 20);
            short += 1;
        }
        assert_eq!((short, length.after(u64::MAX)), (3, RecentLength(u8::MAX)));
        assert_eq!((0..100).fold(length, |length, _| length.after(0)), RecentLength(0));
    }
}
