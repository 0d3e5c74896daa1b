//! The time limit for sending: the client must take a part of the answer in each period, because a
//! slow client is not a dead client.
//!
//! Leaves out sending itself and the limits of other waits. The rule is tested below, the
//! disconnect through the binary (`crates/e2e/tests/e2e/bounds.rs`).

use super::WaitingFor;
use std::{
    future::poll_fn,
    io,
    os::fd::BorrowedFd,
    pin::{Pin, pin},
    task::Poll,
};
use vermeil::{Sleep, TcpStream, now_ms};
use vermeil_exchange::Lost;
use vermeil_settings::gateway::CONTENT_RATE_MIN;
use vermeil_state::{
    connections::IdleState,
    core_context::{self, ConnectionPermit},
};

/// Progress checks per write timeout. A stalled client is disconnected at most a quarter of the
/// timeout late. Each check costs a timer and a system call, for slow clients alone.
const LOOKS: u32 = 4;

/// Waits for `sending` as long as the client takes some of the sent bytes.
pub(super) async fn with_write_timeout<T>(
    stream: &TcpStream,
    place: &ConnectionPermit,
    limit: &mut Sleep,
    waiting_for: &mut WaitingFor,
    sending: impl Future<Output = io::Result<T>>,
) -> Result<T, Lost> {
    let mut sending = pin!(sending);
    // Nearly always the kernel has room. A driver that asks the kernel at once (epoll) then needs
    // no limit.
    if let Poll::Ready(sent) = poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
        return Ok(sent?);
    }
    *waiting_for = WaitingFor::Nothing;
    place.set_idle(IdleState::Answer);
    let taken = Box::pin(taken(stream, place, limit, sending)).await;
    place.set_idle(IdleState::No);
    taken
}

/// The same once the kernel has no room.
async fn taken<T>(
    stream: &TcpStream,
    place: &ConnectionPermit,
    limit: &mut Sleep,
    mut sending: Pin<&mut impl Future<Output = io::Result<T>>>,
) -> Result<T, Lost> {
    let write = core_context::with(|local| local.server.timeouts.write);
    let (mut steps, mut wanted) = (WriteProgress::default(), WantedRate::default());
    let mut count = Count::default();
    loop {
        limit.set(write / LOOKS);
        let waiting = poll_fn(|context| match sending.as_mut().poll(context) {
            Poll::Pending if place.gives_way(context) => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let is_wanted = match limit.limit(waiting).await {
            Ok(Some(sent)) => return Ok(sent?),
            Ok(None) => true,
            Err(_) => false,
        };
        let bytes = stream.with_fd(|fd| count.taken(fd))??;
        let is_over = match is_wanted {
            true => wanted.gives_way(bytes, now_ms()),
            false => steps.have_ended(bytes),
        };
        if is_over {
            return Err(Lost::Late);
        }
        if is_wanted {
            place.progress();
        }
    }
}

/// Counts the bytes that the client has taken.
#[derive(Default)]
struct Count {
    /// What a unix socket held at the last check that its client had not read.
    held: Option<u64>,
    changes: u64,
}

impl Count {
    /// The bytes so far. The kernel counts them for TCP. For a unix socket it tells only how much
    /// the socket holds, and each change of that amount counts as progress.
    fn taken(&mut self, fd: BorrowedFd<'_>) -> io::Result<u64> {
        if let Ok(bytes) = vermeil_io::acknowledged_bytes(fd) {
            return Ok(bytes);
        }
        Ok(self.count(vermeil_io::held_bytes(fd)?))
    }

    fn count(&mut self, held: u64) -> u64 {
        let before = self.held.replace(held).unwrap_or(held);
        self.changes += held.abs_diff(before);
        self.changes
    }
}

/// The rate at which the client takes an answer, when another connection wants the place. Two
/// checks are needed, because only the difference tells.
#[derive(Default)]
struct WantedRate {
    /// Bytes taken at the last check, and the time of that check.
    taken: Option<(u64, u64)>,
}

impl WantedRate {
    /// Whether the connection gives way, now that `taken` bytes are taken. Less than the minimum
    /// rate is no progress.
    fn gives_way(&mut self, taken: u64, now_ms: u64) -> bool {
        let Some((before, at_ms)) = self.taken.replace((taken, now_ms)) else { return false };
        let least = CONTENT_RATE_MIN * now_ms.saturating_sub(at_ms) / 1000;
        taken.saturating_sub(before) < least.max(1)
    }
}

/// The progress of a client. The first check is after a quarter of the timeout, because an io_uring
/// driver sends nothing at once. An earlier check would cost most answers a needless system call.
#[derive(Default)]
struct WriteProgress {
    /// Bytes taken at the last check, if there was one.
    taken: Option<u64>,
    /// How many checks in a row found the same number.
    same: u32,
}

impl WriteProgress {
    /// Whether the client has made no progress for the whole timeout, now that `taken` bytes are
    /// taken.
    fn have_ended(&mut self, taken: u64) -> bool {
        self.same = if self.taken == Some(taken) { self.same + 1 } else { 0 };
        self.taken = Some(taken);
        self.same == LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_of_unix_socket_makes_progress() {
        let mut count = Count::default();
        assert_eq!([4000, 4000, 1000, 4000, 4000].map(|held| count.count(held)), [0, 0, 3000, 6000, 6000]);
    }

    #[test]
    fn slow_reader_gives_way_and_steady_reader_stays() {
        let mut slow = WantedRate::default();
        assert!(!slow.gives_way(1000, 5000), "one look tells nothing");
        assert!(slow.gives_way(1499, 6000));
        let mut steady = WantedRate::default();
        assert!(!steady.gives_way(1000, 5000));
        assert!(!steady.gives_way(1500, 6000));
        assert!(steady.gives_way(1500, 6001), "nothing taken");
    }

    /// With a single check per timeout, a step at the start of a period counted until the end of
    /// the next period.
    #[test]
    fn the_time_begins_with_the_last_step() {
        let mut steps = WriteProgress::default();
        for taken in [10, 10, 10, 11, 12, 12, 12, 12] {
            assert!(!steps.have_ended(taken), "{taken}");
        }
        assert!(steps.have_ended(12));
        let mut never = WriteProgress::default();
        let looks = [0; LOOKS as usize + 1].map(|taken| never.have_ended(taken));
        assert_eq!(
            looks,
            [false, false, false, false, true],
            "a step just before the first look is not seen"
        );
    }
}
