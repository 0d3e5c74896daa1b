//! A connection that waits for its next request in a place that other cores can see: on its core's
//! shelf.
//!
//! Other cores cannot look into a core's driver. Therefore only the owning core can answer a
//! request that its driver waits for. A connection between requests owes no answer, so after a
//! while its socket leaves the driver for the shelf. The connection's task then waits in a movable
//! wait, and hands the socket to the driver of the core where it continues: its own core when that
//! core learns of the next request, or another core if this core is stuck (stall rescue).
//! Tested through the binary (`crates/e2e/tests/e2e/rest.rs`).

use super::Connection;
use std::{
    future::poll_fn,
    pin::pin,
    task::{Poll, Waker},
    time::Duration,
};
use vermeil::{movable, now_ms};
use vermeil_exchange::Lost;
use vermeil_state::{connections::IdleState, core_context};

/// How long a connection waits for its next request before it rests. Resting costs four system
/// calls (two with io_uring) and three wake-ups, so requests that follow a page are spared it.
const AFTER: Duration = Duration::from_millis(100);

/// The same for a connection whose last rest was shorter than this time, because its client asks
/// often. With 1,000 clients that think for 200 ms, resting after [`AFTER`] each time took twice
/// the cpu time of a request (`docs/operating.md`).
const AFTER_SHORT_REST: Duration = Duration::from_secs(1);

impl Connection {
    /// Sets the time until the connection rests, and returns the allowed time beyond that. If
    /// `allowed` is shorter, sets all of it.
    pub(super) fn wait_to_park(&mut self, allowed: Duration) -> Option<Duration> {
        let after = if self.wait.asks_often { AFTER_SHORT_REST } else { AFTER };
        let beyond = allowed.checked_sub(after).filter(|beyond| !beyond.is_zero());
        self.wait.limit.set(if beyond.is_some() { after } else { allowed });
        beyond
    }

    /// Rests until bytes come, `allowed` is over or the connection is told to end. In each case the
    /// caller then waits as before, perhaps on another core. The connection cannot rest while its
    /// last answer is in flight. In that case the connection rests later, and this function returns
    /// the allowed time beyond that moment. The client has been idle since `since_ms`.
    ///
    /// # Errors
    /// The socket failed, or the driver has no room for it.
    pub(super) async fn rest(&mut self, allowed: Duration, since_ms: u64) -> Result<Option<Duration>, Lost> {
        if self.stream.is_secure() {
            // The buffer of the last answer is given back.
            let is_sent = poll_fn(|context| Poll::Ready(self.stream.drop_sent(context))).await?;
            if !is_sent {
                return Ok(self.wait_to_park(allowed));
            }
        }
        let Some(shelf) = core_context::with(|local| local.sockets.shelf.clone()) else {
            self.wait.limit.set(allowed);
            return Ok(None);
        };
        let Some(socket) = self.stream.release().await? else { return Ok(self.wait_to_park(allowed)) };
        self.wait.limit.set(allowed);
        let waker: Waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let socket = match shelf.put(socket, waker) {
            Ok(rest) => {
                let permit = &mut self.permit;
                let waits = poll_fn(|context| {
                    permit.follow(IdleState::Between, since_ms);
                    match rest.has_input() || permit.is_ending(context) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                });
                let _timeout = movable(pin!(self.wait.limit.limit(waits))).await;
                let quiet = Duration::from_millis(now_ms().saturating_sub(since_ms));
                self.wait.asks_often = quiet < AFTER_SHORT_REST;
                rest.back()
            }
            Err(socket) => socket,
        };
        // A client that asked before the end is answered, although this core comes late.
        self.stream.resume(socket)?;
        Ok(None)
    }
}
