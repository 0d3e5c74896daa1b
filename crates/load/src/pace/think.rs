//! Think times: the wait of a user between an answer and the next request.
//!
//! Syntax: `5s` (constant), `exp:5s` or `exp:5s:75s` (exponential; times above the bound are drawn
//! again), `uniform:1s:3s`, `lognormal:5s:1.2` (median and sigma). Tested here.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// The longest time in seconds that can be written: a year, because a longer time is a mistake. A
/// drawn log-normal time is not longer either.
const LONGEST_S: f64 = 3.2e7;

/// A distribution of think times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Think {
    /// A constant time; zero for no thinking.
    Constant(Duration),
    /// Exponential with this mean, and no time above `max`.
    Exponential {
        /// The mean without the bound.
        mean: Duration,
        /// The longest time; `None` for no bound.
        max: Option<Duration>,
    },
    /// Uniform between two times.
    Uniform(Duration, Duration),
    /// Log-normal.
    LogNormal {
        /// The median.
        median: Duration,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// A text that is not a distribution of think times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no think time: write 5s, exp:5s, exp:5s:75s (mean, longest), uniform:1s:3s or lognormal:5s:1.2 (median, sigma)"
)]
pub struct ThinkError(String);

impl Default for Think {
    fn default() -> Self {
        Self::NONE
    }
}

impl Think {
    /// No think time.
    pub const NONE: Self = Self::Constant(Duration::ZERO);

    /// Whether users never think.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Draws a think time.
    pub fn draw(&self, random: &mut Random) -> Duration {
        match *self {
            Self::Constant(time) => time,
            Self::Exponential { mean, max } => {
                let mut drawn = random.exponential(mean.as_secs_f64());
                if let Some(max) = max {
                    // The bound is usually several means. For a bound near the mean, the number of
                    // draws is limited.
                    for _ in 0..16 {
                        if drawn <= max.as_secs_f64() {
                            break;
                        }
                        drawn = random.exponential(mean.as_secs_f64());
                    }
                    drawn = drawn.min(max.as_secs_f64());
                }
                Duration::from_secs_f64(drawn)
            }
            Self::Uniform(low, high) => low + (high - low).mul_f64(random.unit()),
            Self::LogNormal { median, sigma } => {
                let factor = (sigma * random.normal()).exp();
                // A larger sum with a moment of the clock would overflow.
                Duration::from_secs_f64((median.as_secs_f64() * factor).min(LONGEST_S))
            }
        }
    }

    /// The same distribution for a run that is `factor` times as fast.
    pub fn compressed(self, factor: f64) -> Self {
        let shorter = |time: Duration| time.div_f64(factor);
        match self {
            Self::Constant(time) => Self::Constant(shorter(time)),
            Self::Exponential { mean, max } => {
                Self::Exponential { mean: shorter(mean), max: max.map(shorter) }
            }
            Self::Uniform(low, high) => Self::Uniform(shorter(low), shorter(high)),
            Self::LogNormal { median, sigma } => Self::LogNormal { median: shorter(median), sigma },
        }
    }
}

impl FromStr for Think {
    type Err = ThinkError;

    fn from_str(text: &str) -> Result<Self, ThinkError> {
        let parts: Vec<&str> = text.split(':').collect();
        let parsed = match parts[..] {
            ["exp", mean] => parse_time(mean).map(|mean| Self::Exponential { mean, max: None }),
            ["exp", mean, max] => parse_time(mean)
                .zip(parse_time(max))
                .filter(|(mean, max)| mean <= max)
                .map(|(mean, max)| Self::Exponential { mean, max: Some(max) }),
            ["uniform", low, high] => parse_time(low)
                .zip(parse_time(high))
                .filter(|(low, high)| low <= high)
                .map(|(low, high)| Self::Uniform(low, high)),
            ["lognormal", median, sigma] => parse_time(median)
                .zip(sigma.parse().ok())
                .filter(|(_, sigma): &(_, f64)| (0.0..=10.0).contains(sigma))
                .map(|(median, sigma)| Self::LogNormal { median, sigma }),
            [constant] => parse_time(constant).map(Self::Constant),
            _ => None,
        };
        parsed.ok_or_else(|| ThinkError(text.to_owned()))
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(time) => write!(f, "{time:?}"),
            Self::Exponential { mean, max: None } => write!(f, "exp:{mean:?}"),
            Self::Exponential { mean, max: Some(max) } => write!(f, "exp:{mean:?}:{max:?}"),
            Self::Uniform(low, high) => write!(f, "uniform:{low:?}:{high:?}"),
            Self::LogNormal { median, sigma } => write!(f, "lognormal:{median:?}:{sigma}"),
        }
    }
}

/// Parses a time, for example `5s`, `1.5s`, `200ms`, `100us`, `2m`. A number without a unit means
/// seconds. Returns `None` for other text, and for more than a year.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * seconds;
    (seconds <= LONGEST_S).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(think: &str) -> f64 {
        let think: Think = think.parse().unwrap();
        let mut random = Random::new(1, 1);
        (0..100_000).map(|_| think.draw(&mut random).as_secs_f64()).sum::<f64>() / 100_000.0
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert_eq!(mean("0"), 0.0);
        assert!((mean("200ms") - 0.2).abs() < 1e-9);
        assert!((mean("exp:5s:75s") - 5.0).abs() < 0.1);
        assert!((mean("uniform:1s:3s") - 2.0).abs() < 0.02);
        let expected = 2.0 * (0.5f64 * 0.5 / 2.0).exp();
        assert!((mean("lognormal:2s:0.5") - expected).abs() < 0.03);
    }

    #[test]
    fn nothing_passes_the_bound() {
        let think: Think = "exp:5s:6s".parse().unwrap();
        let mut random = Random::new(3, 1);
        assert!((0..10_000).all(|_| think.draw(&mut random) <= Duration::from_secs(6)));
    }

    /// Regression: some times were too long to be added to the time of the clock.
    #[test]
    fn drawn_time_is_never_longer_than_a_year() {
        let think: Think = "lognormal:8000h:10".parse().unwrap();
        let mut random = Random::new(3, 1);
        assert!((0..10_000).all(|_| think.draw(&mut random).as_secs_f64() <= LONGEST_S));
    }

    #[test]
    fn printed_think_time_reads_back() {
        for text in ["0ns", "5s", "exp:5s:75s", "exp:100ms", "uniform:1s:3s", "lognormal:5s:1.2"] {
            assert_eq!(text.replace("0ns", "0").parse::<Think>().unwrap().to_string(), text);
        }
        for text in ["", "exp", "exp:5s:1s", "uniform:3s:1s", "5x", "-1s", "lognormal:1s:x", "1e99s"] {
            let said = text.parse::<Think>().unwrap_err().to_string();
            assert!(said.contains("write 5s"), "{said}");
        }
    }

    #[test]
    fn a_faster_world_thinks_less() {
        let think: Think = "exp:5s:75s".parse().unwrap();
        assert_eq!(think.compressed(5.0).to_string(), "exp:1s:15s");
    }
}
