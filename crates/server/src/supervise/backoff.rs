//! The pause before an ended instance is started again. Pure; tested below.

use std::time::Duration;

/// An instance that lived this long was sound, so the fault counts as over. Guess: a fault of the
/// start shows at once.
const SOUND_LIFE: Duration = Duration::from_secs(10);

/// The first pause. The first restart has none.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause. Guess: one start in ten seconds is a negligible load, and after a repair the
/// operator waits no longer than that.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The pauses of an instance.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// Consecutive short lives.
    short_lives: u32,
}

impl BackOff {
    /// Returns the pause after an instance that lived for `lived`.
    pub(super) fn pause_after(&mut self, lived: Duration) -> Duration {
        if lived >= SOUND_LIFE {
            self.short_lives = 0;
        }
        let pause = match self.short_lives {
            0 => Duration::ZERO,
            lives => PAUSE.saturating_mul(1 << (lives - 1).min(16)).min(PAUSE_MAX),
        };
        self.short_lives += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_a_life_was_long() {
        let mut back_off = BackOff::default();
        let short = Duration::from_secs(1);
        let pauses: Vec<u128> = (0..5).map(|_| back_off.pause_after(short).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800]);
        let last = (0..100).map(|_| back_off.pause_after(short)).last();
        assert_eq!(last, Some(PAUSE_MAX));
        assert_eq!(back_off.pause_after(SOUND_LIFE), Duration::ZERO);
        assert_eq!(back_off.pause_after(short), PAUSE);
    }
}
