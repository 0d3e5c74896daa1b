//! Pauses between attempts, which double from a first pause to a longest pause.
//!
//! The only back-off of the project. Leaves out the wait and the clock: the caller waits. Tested
//! below.

use std::time::Duration;

/// The bounds of a [`BackOff`]: a constant of the mechanism that retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOffBounds {
    /// The pause before the first repetition. Zero repeats at once.
    pub initial: Duration,
    /// The pause that follows a pause of zero.
    pub step: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl BackOffBounds {
    /// Pauses of `first`, twice `first` and so on, up to `longest`.
    #[must_use]
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { initial: first, step: first, longest }
    }

    /// No pause before the first repetition, then the pauses of [`Self::doubling`].
    #[must_use]
    pub const fn at_once_then(first: Duration, longest: Duration) -> Self {
        Self { initial: Duration::ZERO, step: first, longest }
    }
}

/// The pauses of one series of attempts.
#[derive(Clone, Debug)]
pub struct BackOff {
    bounds: &'static BackOffBounds,
    next: Duration,
}

impl BackOff {
    /// A series without failures.
    #[must_use]
    pub const fn new(bounds: &'static BackOffBounds) -> Self {
        Self { bounds, next: bounds.initial }
    }

    /// The pause that the next call of [`Self::advance`] returns.
    #[must_use]
    pub const fn peek(&self) -> Duration {
        self.next
    }

    /// Returns the pause before the next attempt, and doubles the pause after that.
    pub fn advance(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).clamp(self.bounds.step, self.bounds.longest);
        pause
    }

    /// An attempt succeeded, so the pauses begin anew.
    pub const fn reset(&mut self) {
        self.next = self.bounds.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_longest() {
        const BOUNDS: BackOffBounds = BackOffBounds::doubling(MS, Duration::from_millis(5));
        let mut back_off = BackOff::new(&BOUNDS);
        let pauses: Vec<u128> = (0..5).map(|_| back_off.advance().as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
        back_off.reset();
        assert_eq!((back_off.peek(), back_off.advance(), back_off.peek()), (MS, MS, 2 * MS));
    }

    #[test]
    fn first_repetition_has_no_pause_on_request() {
        const BOUNDS: BackOffBounds = BackOffBounds::at_once_then(MS, Duration::from_secs(1));
        let mut back_off = BackOff::new(&BOUNDS);
        let pauses: Vec<u128> = (0..4).map(|_| back_off.advance().as_millis()).collect();
        assert_eq!(pauses, [0, 1, 2, 4]);
        back_off.reset();
        assert_eq!(back_off.advance(), Duration::ZERO);
    }

    #[test]
    fn longest_representable_pause_does_not_overflow() {
        const BOUNDS: BackOffBounds = BackOffBounds::doubling(Duration::MAX, Duration::MAX);
        let mut back_off = BackOff::new(&BOUNDS);
        assert_eq!([back_off.advance(), back_off.advance()], [Duration::MAX; 2]);
    }
}
