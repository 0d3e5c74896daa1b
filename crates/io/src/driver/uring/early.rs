//! Whether a connection's first bytes are there by the time it is first read.
//!
//! Learned from the connections before it: those that have waited to be accepted, and those of near clients, bring their
//! request along. It is received by a system call then, and a connection of one request is never armed, which saves arming,
//! canceling, and a shared buffer. Leaves out connections that this side has made, which are written to first.

/// Streams that are armed at once before one more is tried in vain. Guess: a receive that finds nothing costs a hundredth of
/// what a connection does, so this costs a thousandth.
const ARMED_IN_A_ROW: u8 = 15;

#[derive(Default)]
pub(super) struct Early {
    /// Streams that are yet to be armed at once.
    armed: u8,
}

impl Early {
    /// Whether the next stream is tried.
    pub(super) fn is_likely(&mut self) -> bool {
        let is_likely = self.armed == 0;
        self.armed = self.armed.saturating_sub(1);
        is_likely
    }

    /// What trying one has shown.
    pub(super) fn learn(&mut self, has_come: bool) {
        self.armed = if has_come { 0 } else { ARMED_IN_A_ROW };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_come_with_nothing_are_tried_seldom_and_the_others_always() {
        let mut early = Early::default();
        let mut tried = |has_come: bool| {
            let is_likely = early.is_likely();
            if is_likely {
                early.learn(has_come);
            }
            is_likely
        };
        assert_eq!((0..100).filter(|_| tried(true)).count(), 100);
        assert_eq!((0..160).filter(|_| tried(false)).count(), 10);
        assert!((0..16).any(|_| tried(true)) && tried(true), "one of sixteen shows that it has changed");
    }
}
