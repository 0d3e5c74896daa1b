//! A length of time: `10`, `2.5`, `500ms`, `10s`, `2m`, `1h`.
//!
//! Exact to the millisecond, the resolution of a core's timers. Tested below.

use super::split_unit;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const MS_PER_SECOND: u64 = 1000;
const MS_PER_MINUTE: u64 = 60 * MS_PER_SECOND;
const MS_PER_HOUR: u64 = 60 * MS_PER_MINUTE;
/// The longest time: a day. The limit keeps each sum of times far from the end of 64 bits, and no
/// timeout of a server needs more.
const MS_MAX: u64 = 24 * MS_PER_HOUR;
/// The most digits of a number, so the arithmetic stays exact in 64 bits.
const DIGITS_MAX: usize = 12;

/// A length of time from 1 ms to 24 h, in whole milliseconds. A number without a unit is in
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    ms: u64,
}

impl Span {
    /// The milliseconds, at least 1.
    pub const fn ms(self) -> u64 {
        self.ms
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_millis(span.ms)
    }
}

/// For defaults.
///
/// # Panics
/// Outside of the bounds.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        let span = Self { ms: duration.as_millis() as u64 };
        assert!(
            (1..=MS_MAX).contains(&span.ms) && Duration::from(span) == duration,
            "no default: {duration:?}"
        );
        span
    }
}

/// Why a text is no [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// The text has no known form.
    #[error("write seconds such as 10 or 2.5, or a number with a unit: 500ms, 10s, 2m, 1h")]
    Form,
    /// The value would be rounded.
    #[error("finer than a millisecond; the shortest time is 1ms")]
    TooFine,
    /// Zero.
    #[error("no time at all; the shortest time is 1ms")]
    Zero,
    /// Beyond 24 h.
    #[error("more than a day; the longest time is 24h")]
    TooLong,
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let (number, unit) = split_unit(text);
        let unit_ms = match unit {
            "ms" => 1,
            "" | "s" => MS_PER_SECOND,
            "m" => MS_PER_MINUTE,
            "h" => MS_PER_HOUR,
            _ => return Err(SpanError::Form),
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return Err(SpanError::Form),
            Some(parts) => parts,
            None => (number, ""),
        };
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || digits.contains('.') {
            return Err(SpanError::Form);
        }
        let significant = digits.trim_start_matches('0');
        if significant.len() > DIGITS_MAX || fraction.len() > DIGITS_MAX {
            return Err(if whole.len() > DIGITS_MAX { SpanError::TooLong } else { SpanError::TooFine });
        }
        let parts: u64 = if significant.is_empty() { 0 } else { significant.parse().expect("few digits") };
        let (parts, parts_per_unit) = (parts * unit_ms, 10_u64.pow(fraction.len() as u32));
        match parts / parts_per_unit {
            _ if !parts.is_multiple_of(parts_per_unit) => Err(SpanError::TooFine),
            0 => Err(SpanError::Zero),
            ms if ms > MS_MAX => Err(SpanError::TooLong),
            ms => Ok(Self { ms }),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ms {
            ms if ms.is_multiple_of(MS_PER_HOUR) => write!(f, "{}h", ms / MS_PER_HOUR),
            // A minute reads better as 60s beside 30s.
            ms if ms.is_multiple_of(MS_PER_MINUTE) && ms > MS_PER_MINUTE => {
                write!(f, "{}m", ms / MS_PER_MINUTE)
            }
            ms if ms.is_multiple_of(MS_PER_SECOND) => write!(f, "{}s", ms / MS_PER_SECOND),
            ms => write!(f, "{ms}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_spellings_are_read() {
        for (text, ms) in [
            ("10", 10_000),
            ("2.5", 2500),
            ("0.001", 1),
            ("500ms", 500),
            ("10s", 10_000),
            ("0.5s", 500),
            ("2m", 120_000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
            ("24h", MS_MAX),
            ("0.25h", 900_000),
            ("007", 7000),
            ("1.500000000", 1500),
        ] {
            assert_eq!(text.parse(), Ok(Span { ms }), "{text}");
        }
    }

    #[test]
    fn wrong_value_is_refused_with_reason() {
        use SpanError::{Form, TooFine, TooLong, Zero};
        for (text, why) in [
            ("", Form),
            ("s", Form),
            (".5", Form),
            ("5.", Form),
            ("1.2.3", Form),
            ("-1", Form),
            ("1e3", Form),
            ("10 s", Form),
            ("10d", Form),
            ("10S", Form),
            ("٣", Form),
            ("0", Zero),
            ("0.0h", Zero),
            ("1.0005", TooFine),
            ("0.5ms", TooFine),
            ("0.0000000000000001", TooFine),
            ("24.001h", TooLong),
            ("86401", TooLong),
            ("99999999999999999999999999", TooLong),
        ] {
            assert_eq!(text.parse::<Span>(), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_value_reads_back(ms in 1..=MS_MAX) {
            let span = Span { ms };
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }

        #[test]
        fn decimal_seconds_are_exact(ms in 1..=MS_MAX) {
            let text = format!("{}.{:03}", ms / 1000, ms % 1000);
            prop_assert_eq!(text.parse(), Ok(Span { ms }));
        }

        #[test]
        fn any_text_is_refused_or_read_within_bounds(text in "\\PC{0,12}|[0-9.]{0,30}(ms|s|m|h)?") {
            if let Ok(span) = text.parse::<Span>() {
                prop_assert!((1..=MS_MAX).contains(&span.ms));
            }
        }
    }
}
