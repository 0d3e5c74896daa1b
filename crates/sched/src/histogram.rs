//! Histogram classes: each class is as fine as one part in a power of two of the time, at every
//! magnitude.
//!
//! Each power of two is divided into equal steps, so a class is found with two shifts and a
//! histogram over all times has a few hundred counts. Contains only the classes; the caller counts.
//! Tested below.

/// Classes of times in nanoseconds: `1 << STEP_BITS` in each power of two.
#[derive(Clone, Copy, Debug)]
pub struct Classes<const STEP_BITS: u32>;

impl<const STEP_BITS: u32> Classes<STEP_BITS> {
    /// Steps in each power of two.
    const STEPS: usize = 1 << STEP_BITS;

    /// The number of classes that distinguish all times below two to the power of `bits`.
    pub const fn count(bits: u32) -> usize {
        (bits - STEP_BITS + 1) as usize * Self::STEPS
    }

    /// The class of a time.
    #[inline]
    pub const fn of(ns: u64) -> usize {
        if ns < Self::STEPS as u64 {
            return ns as usize;
        }
        let power = ns.ilog2() - STEP_BITS;
        (power as usize + 1) * Self::STEPS + ((ns >> power) as usize & (Self::STEPS - 1))
    }

    /// The longest time of a class.
    pub const fn upper_ns(class: usize) -> u64 {
        if class < Self::STEPS {
            return class as u64;
        }
        let power = (class / Self::STEPS - 1) as u32;
        let first = ((Self::STEPS + class % Self::STEPS) as u128) << power;
        let upper = first + (1u128 << power) - 1;
        if upper > u64::MAX as u128 { u64::MAX } else { upper as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Eighths = Classes<3>;

    proptest! {
        #[test]
        fn every_time_has_its_class(ns in any::<u64>()) {
            let class = Eighths::of(ns);
            prop_assert!(Eighths::upper_ns(class) >= ns && (class == 0 || Eighths::upper_ns(class - 1) < ns));
            prop_assert!(class < Eighths::count(64));
        }
    }

    #[test]
    fn short_times_are_exact_and_long_ones_to_an_eighth() {
        assert_eq!(
            (0..16).map(Eighths::of).map(Eighths::upper_ns).collect::<Vec<_>>(),
            (0..16).collect::<Vec<_>>()
        );
        assert_eq!(Eighths::upper_ns(Eighths::of(1_000_000)), (1 << 20) - 1);
        assert_eq!(Eighths::upper_ns(Eighths::of(u64::MAX)), u64::MAX);
        assert_eq!(Eighths::of((1 << 36) - 1) + 1, Eighths::count(36));
    }
}
