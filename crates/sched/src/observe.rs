//! How much of what runs is observed, and which events are.
//!
//! Runs are chosen by `budget::Sampler`, whose budget is their time. Owns the choice of the events whose waiting is
//! measured: as many for each stretch of time whatever the load, at drawn distances, since the first of many that are posted
//! together would always be the one that waits least. Pure; tested below.

use std::{fmt, str::FromStr};

/// How much of what runs is observed for the histograms of a runtime. What a policy has to know, it measures besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Observe {
    /// Nothing.
    Off,
    /// So many events that it costs at most one part in a hundred.
    #[default]
    Sampled,
    /// Every event.
    All,
}

/// There is no such amount of observation.
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

/// The time in which one event is stamped. A stamp is two readings of a clock, some 40 ns, and so two parts in a thousand of
/// this: what remains of one in a hundred is for asking of each event whether it is one.
const STAMP_EVERY_NS: u64 = 25_000;

/// Most events between two stamps on the mean: at 12 ns an event, what the time above holds.
const EVENTS_MAX: u32 = 1 << 11;

/// Decides which of a thread's posted events are stamped with the time of their posting.
#[derive(Clone, Debug)]
pub struct Stamps {
    stamped_ns: u64,
    /// Events between two stamps, on the mean.
    events: u32,
    /// Of a linear congruential generator.
    drawn: u32,
}

impl Stamps {
    /// Of a thread that has posted nothing.
    pub const fn new() -> Self {
        Self { stamped_ns: 0, events: 1, drawn: 1 }
    }

    /// An event is stamped now; gives the number of events until the next one that is, at least 1.
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

    /// Stamps among events that are posted every `gap_ns`, in a tenth of a second.
    fn stamps(gap_ns: u64) -> u64 {
        let (mut stamps, mut left, mut count) = (Stamps::new(), 1, 0);
        // No clock that is read shows nothing.
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
    fn stamps_are_as_many_whatever_the_load() {
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
