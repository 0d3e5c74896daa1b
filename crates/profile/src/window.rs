//! A part of a recording's time. Tested below.

use std::fmt;
use std::time::Duration;

/// A part of a recording's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From this time after the start.
    pub from: Duration,
    /// To this time; `None` for the end.
    pub to: Option<Duration>,
}

impl Window {
    pub(crate) fn contains(self, time: u64) -> bool {
        u128::from(time) >= self.from.as_nanos() && self.to.is_none_or(|to| u128::from(time) < to.as_nanos())
    }

    /// The part of a time that the window has.
    pub(crate) fn overlap(self, from: u64, to: u64) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = self.to.map_or(to, |end| to.min(nanoseconds(end)));
        end.saturating_sub(from.max(nanoseconds(self.from)))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..", self.from)?;
        self.to.map_or(Ok(()), |to| write!(f, "{to:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_excludes_its_end() {
        let window = Window { from: Duration::from_secs(1), to: Some(Duration::from_secs(2)) };
        let found =
            [999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000].map(|time| window.contains(time));
        assert_eq!(found, [false, true, true, false]);
        assert_eq!(window.to_string(), "1s..2s");
        assert_eq!(Window { to: None, ..window }.to_string(), "1s..");
    }
}
