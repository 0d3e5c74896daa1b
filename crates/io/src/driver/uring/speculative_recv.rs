//! Predicts whether a connection's first bytes are there at the first read, for a speculative
//! receive.
//!
//! Learned from earlier connections: connections that waited in the accept queue, and connections
//! of near clients, bring their request along. A system call then receives the request, and a
//! connection with one request is never armed, which saves arming, canceling, and a shared buffer.
//! Leaves out connections that this side has made, because these send first.

use vermeil_ablation::Mechanism;

/// Streams that are armed at once after a failed prediction, before the next try. A receive without
/// bytes costs a hundredth of a connection, so one in sixteen costs less than a thousandth.
const ARMED_IN_A_ROW: u8 = 15;

#[derive(Default)]
pub(super) struct SpeculativeRecv {
    /// Number of streams still to be armed at once.
    armed: u8,
}

impl SpeculativeRecv {
    /// Whether to try a receive on the next stream.
    pub(super) fn is_likely(&mut self) -> bool {
        let is_likely = self.armed == 0 && !Mechanism::SpeculativeReceive.is_off();
        self.armed = self.armed.saturating_sub(1);
        is_likely
    }

    /// Records the result of a try.
    pub(super) fn learn(&mut self, has_come: bool) {
        self.armed = if has_come { 0 } else { ARMED_IN_A_ROW };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_prediction_lowers_number_of_tries() {
        let mut early = SpeculativeRecv::default();
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
