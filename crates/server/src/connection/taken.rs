//! Waiting for a client to take what is sent: as long as it takes some of it, since a slow client is not a dead one.
//!
//! Leaves out what is sent, and which limits other waits have. The rule is tested below, the cut through the binary
//! (`crates/cli/tests/e2e/bounds.rs`).

use super::{Lost, WaitingFor};
use crate::local;
use std::{future::poll_fn, io, pin::pin, task::Poll};
use vermeil::{Sleep, TcpStream};

/// How often within the time that a client may take for a step it is looked whether it has taken one: it is cut a quarter of
/// that time late at most. Guess: timers and system calls of slow clients alone.
const LOOKS: u32 = 4;

/// Waits for `sending` as long as the client takes some of what was sent.
pub(super) async fn while_taken<T>(
    stream: &TcpStream,
    limit: &mut Sleep,
    waiting_for: &mut WaitingFor,
    sending: impl Future<Output = io::Result<T>>,
) -> Result<T, Lost> {
    let mut sending = pin!(sending);
    // Nearly always the kernel has room, and no limit is needed where it is asked at once (epoll).
    if let Poll::Ready(sent) = poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
        return Ok(sent?);
    }
    *waiting_for = WaitingFor::Nothing;
    let write = local::with(|local| local.server.timeouts.write);
    let mut steps = Steps::default();
    loop {
        limit.set(write / LOOKS);
        match limit.limit(sending.as_mut()).await {
            Ok(sent) => return Ok(sent?),
            Err(_) if steps.have_ended(stream.with_fd(vermeil_io::acknowledged_bytes)??) => {
                return Err(Lost::Late);
            }
            Err(_) => {}
        }
    }
}

/// The steps of a client, as they are looked at: not before the first quarter of the time is over, since a ring's driver sends
/// nothing at once, and most answers would cost a system call that nobody needs.
#[derive(Default)]
struct Steps {
    /// Bytes that it had taken, if it was looked already.
    taken: Option<u64>,
    /// How often they were the same.
    same: u32,
}

impl Steps {
    /// Whether there has been none for the whole time, now that so many bytes are taken.
    fn have_ended(&mut self, taken: u64) -> bool {
        self.same = if self.taken == Some(taken) { self.same + 1 } else { 0 };
        self.taken = Some(taken);
        self.same == LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was looked at once in the whole time, so a step at its start was one until the end of the next.
    #[test]
    fn the_time_begins_with_the_last_step() {
        let mut steps = Steps::default();
        for taken in [10, 10, 10, 11, 12, 12, 12, 12] {
            assert!(!steps.have_ended(taken), "{taken}");
        }
        assert!(steps.have_ended(12));
        let mut never = Steps::default();
        let looks = [0; LOOKS as usize + 1].map(|taken| never.have_ended(taken));
        assert_eq!(
            looks,
            [false, false, false, false, true],
            "a step just before the first look is not seen"
        );
    }
}
