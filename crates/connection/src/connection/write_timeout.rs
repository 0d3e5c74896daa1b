//! The time limit for sending. A client is disconnected when the client has taken no byte for the
//! whole write timeout. A limit for the whole answer would disconnect clients that are only slow.
//!
//! While another connection wants the permit of this connection, the client must also take the
//! minimum rate. Leaves out sending itself and the limits of other waits. The rules are tested
//! below, the disconnect through the binary (`crates/e2e/tests/e2e/bounds.rs`).

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
const CHECKS_PER_TIMEOUT: u32 = 4;

/// Waits for `sending` while the client makes progress.
///
/// # Errors
/// `sending` has failed, or the client makes no progress ([`Lost::Late`]).
pub(super) async fn with_write_timeout<T>(
    stream: &TcpStream,
    permit: &ConnectionPermit,
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
    permit.set_idle(IdleState::Answer);
    // In a box, because few connections need the state of this wait.
    let sent = Box::pin(wait_for_client(stream, permit, limit, sending)).await;
    permit.set_idle(IdleState::No);
    sent
}

/// Continues [`with_write_timeout`] when the kernel has no room until the client takes bytes.
async fn wait_for_client<T>(
    stream: &TcpStream,
    permit: &ConnectionPermit,
    limit: &mut Sleep,
    mut sending: Pin<&mut impl Future<Output = io::Result<T>>>,
) -> Result<T, Lost> {
    let write = core_context::with(|local| local.server.timeouts.write);
    let mut taken = TakenBytes::default();
    let (mut stall, mut rate) = (StallCheck::default(), RateCheck::default());
    loop {
        limit.set(write / CHECKS_PER_TIMEOUT);
        let waiting = poll_fn(|context| match sending.as_mut().poll(context) {
            Poll::Pending if permit.gives_way(context) => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let reason = match limit.limit(waiting).await {
            Ok(Some(sent)) => return Ok(sent?),
            Ok(None) => CheckReason::PermitWanted,
            Err(_) => CheckReason::Period,
        };
        let bytes = stream.with_fd(|fd| taken.read(fd))??;
        match reason {
            CheckReason::Period if stall.has_timed_out(bytes) => return Err(Lost::Late),
            CheckReason::PermitWanted if rate.is_too_low(bytes, now_ms()) => return Err(Lost::Late),
            CheckReason::Period => {}
            // Withdraws the demand, so the core asks another connection.
            CheckReason::PermitWanted => permit.progress(),
        }
    }
}

/// The reason for a check of the client's progress.
enum CheckReason {
    /// A quarter of the write timeout is over.
    Period,
    /// Another connection wants the permit of this connection.
    PermitWanted,
}

/// Counts the bytes that the client has taken.
#[derive(Default)]
struct TakenBytes {
    /// The unread bytes that a unix socket held at the last check.
    held: Option<u64>,
    changes: u64,
}

impl TakenBytes {
    /// The bytes so far. For TCP the kernel counts acknowledged bytes. For a unix socket the kernel
    /// tells only how much the socket holds, so each change of that amount counts as progress.
    fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<u64> {
        if let Ok(bytes) = vermeil_io::acknowledged_bytes(fd) {
            return Ok(bytes);
        }
        Ok(self.count_changes(vermeil_io::held_bytes(fd)?))
    }

    fn count_changes(&mut self, held: u64) -> u64 {
        let before = self.held.replace(held).unwrap_or(held);
        self.changes += held.abs_diff(before);
        self.changes
    }
}

/// Compares the client's rate with the minimum while another connection wants the permit.
#[derive(Default)]
struct RateCheck {
    /// The last check. `None` before the first check, which cannot tell a rate.
    last: Option<RateSample>,
}

/// The progress of a client at a time.
struct RateSample {
    taken: u64,
    at_ms: u64,
}

impl RateCheck {
    /// Whether the client has taken less than the minimum rate since the last check. `taken`: the
    /// bytes taken so far.
    fn is_too_low(&mut self, taken: u64, now_ms: u64) -> bool {
        let Some(last) = self.last.replace(RateSample { taken, at_ms: now_ms }) else { return false };
        let bytes_min = CONTENT_RATE_MIN * now_ms.saturating_sub(last.at_ms) / 1000;
        taken.saturating_sub(last.taken) < bytes_min.max(1)
    }
}

/// Counts the checks without progress. The first check comes after a quarter of the timeout,
/// because an io_uring driver sends nothing at once. An earlier check would cost most answers a
/// needless system call.
#[derive(Default)]
struct StallCheck {
    /// Bytes taken at the last check, if there was a check.
    taken: Option<u64>,
    /// Checks in a row that found the same number.
    unchanged: u32,
}

impl StallCheck {
    /// Whether the client has taken nothing for the whole timeout. `taken`: the bytes taken so far.
    fn has_timed_out(&mut self, taken: u64) -> bool {
        self.unchanged = if self.taken == Some(taken) { self.unchanged + 1 } else { 0 };
        self.taken = Some(taken);
        self.unchanged == CHECKS_PER_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_of_unix_socket_makes_progress() {
        let mut taken = TakenBytes::default();
        let counted = [4000, 4000, 1000, 4000, 4000].map(|held| taken.count_changes(held));
        assert_eq!(counted, [0, 0, 3000, 6000, 6000]);
    }

    #[test]
    fn rate_check_ends_slow_reader_only() {
        let mut slow = RateCheck::default();
        assert!(!slow.is_too_low(1000, 5000), "one check tells no rate");
        assert!(slow.is_too_low(1499, 6000));
        let mut steady = RateCheck::default();
        assert!(!steady.is_too_low(1000, 5000));
        assert!(!steady.is_too_low(1500, 6000));
        assert!(steady.is_too_low(1500, 6001), "nothing taken");
    }

    /// With a single check per timeout, progress at the start of a period counted until the end of
    /// the next period.
    #[test]
    fn timeout_begins_with_last_progress() {
        let mut stall = StallCheck::default();
        for taken in [10, 10, 10, 11, 12, 12, 12, 12] {
            assert!(!stall.has_timed_out(taken), "{taken}");
        }
        assert!(stall.has_timed_out(12));
        let mut never = StallCheck::default();
        let checks = [0; CHECKS_PER_TIMEOUT as usize + 1].map(|taken| never.has_timed_out(taken));
        assert_eq!(
            checks,
            [false, false, false, false, true],
            "the first check does not see progress just before the check"
        );
    }
}
