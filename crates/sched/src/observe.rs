//! The amount of observation, and the choice of observed events.
//!
//! `budget::Sampler` chooses runs, with a budget of run time. This file chooses the events whose
//! waiting time is measured: an equal number per unit of time at every load, at random distances,
//! because the first of many events that are posted together always waits least. Pure; tested
//! below.

use std::{fmt, str::FromStr};

/// The amount of observation for the histograms of a runtime. Measurements that a policy needs come
/// in addition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Observe {
    /// No events.
    Off,
    /// As many events as cost at most one part in a hundred.
    #[default]
    Sampled,
    /// Every event.
    All,
}

/// An unknown amount of observation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("observation `{0}` is not known; it is one of off, sampled, all")]
pub struct UnknownObserve(String);

impl FromStr for Observe {
    type Err = UnknownObserve;

    fn from_str(name: &str) -> Result<Self, UnknownObserve> {
        match name {
            "off" => Ok(Self::Off),
            "sampled" => Ok(Self::Sampled),
            "all" => Ok(Self::All),
            _ => Err(UnknownObserve(name.to_owned())),
        }
    }
}

impl fmt::Display for Observe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Sampled => "sampled",
            Self::All => "all",
        })
    }
}

/// The time per stamped event. A stamp is two readings of a clock, some 40 ns, and so two parts in
/// a thousand of this time. The rest of one part in a hundred pays for the check of each event.
const STAMP_EVERY_NS: u64 = 25_000;

/// Maximum mean number of events between two stamps: at 12 ns per event, the number that fits into
/// the time above.
const EVENTS_MAX: u32 = 1 << 11;

/// Decides which of a thread's posted events get a stamp with the time of posting.
#[derive(Clone, Debug)]
pub struct Stamps {
    stamped_ns: u64,
    /// Mean number of events between two stamps.
    events: u32,
    /// State of a linear congruential generator.
    drawn: u32,
}

impl Stamps {
    /// For a thread that has posted nothing.
    pub const fn new() -> Self {
        Self { stamped_ns: 0, events: 1, drawn: 1 }
    }

    /// An event is stamped now. Returns the number of events until the next stamp, at least 1.
    pub fn stamped(&mut self, now_ns: u64) -> u32 {
        let passed_ns = now_ns.saturating_sub(self.stamped_ns);
        self.stamped_ns = now_ns;
        self.events = if passed_ns < STAMP_EVERY_NS {
            (self.events * 2).min(EVENTS_MAX)
        } else {
            (self.events / 2).max(1)
        };
        // The constants of Numerical Recipes; the upper bits are the good ones.
        self.drawn = self.drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + (self.drawn >> 16) % (2 * self.events - 1)
    }
}

impl Default for Stamps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of stamps among events that are posted every `gap_ns`, in a tenth of a second.
    fn stamps(gap_ns: u64) -> u64 {
        let (mut stamps, mut left, mut count) = (Stamps::new(), 1, 0);
        // A real clock never reads zero.
        for now_ns in (1_000_000_000..1_100_000_000).step_by(gap_ns as usize) {
            left -= 1;
            if left == 0 {
                left = stamps.stamped(now_ns);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn number_of_stamps_is_independent_of_load() {
        for gap_ns in [30, 300, 3_000] {
            assert!((1_600..8_000).contains(&stamps(gap_ns)), "{} every {gap_ns} ns", stamps(gap_ns));
        }
        assert_eq!(stamps(100_000), 1_000, "all of what is rare");
    }

    #[test]
    fn amounts_are_found_by_their_names() {
        for observe in [Observe::Off, Observe::Sampled, Observe::All] {
            assert_eq!(observe.to_string().parse(), Ok(observe));
        }
        assert!("some".parse::<Observe>().is_err());
    }
}
