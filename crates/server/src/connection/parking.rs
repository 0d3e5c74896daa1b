//! A connection that waits for its next request in a place that other cores can see: on its core's
//! shelf.
//!
//! Other cores cannot look into a core's driver. Therefore only the owning core can answer a
//! request that its driver waits for. A connection between requests owes no answer and holds only
//! its socket. After a while the connection leaves the driver for the shelf. This task takes the
//! connection back when the core learns of the next request. If this core is stuck, another core
//! may take the connection instead (`stall_rescue.rs`). The task keeps its place and its time
//! limit meanwhile, and ends when it finds the socket gone. A connection through TLS stays in the
//! driver, because its keys are in this core's memory, and gives back its buffer. Tested through
//! the binary (`crates/cli/tests/e2e/rest.rs`).

use super::Connection;
use crate::{client_stream::ClientStream, core_context};
use std::{
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};
use vermeil::TcpStream;
use vermeil_exchange::Lost;

/// How long a connection waits for its next request before it rests. Resting costs four system
/// calls (two with io_uring) and two wake-ups of the task, some 10 µs. Guess: requests that follow
/// a page come sooner and are spared this cost, while a client that reads the page takes longer.
pub(super) const AFTER: Duration = Duration::from_secs(1);

impl Connection {
    /// Sets the time until the connection rests, and returns the allowed time beyond that. If
    /// `allowed` is shorter, sets all of it.
    pub(super) fn wait_to_park(&mut self, allowed: Duration) -> Option<Duration> {
        let beyond = allowed.checked_sub(AFTER).filter(|beyond| !beyond.is_zero());
        self.limit.set(if beyond.is_some() { AFTER } else { allowed });
        beyond
    }

    /// Rests until bytes come, `allowed` is over or the connection is told to end. In each case the
    /// caller then waits as before. The connection cannot rest while its last answer is in flight.
    /// In that case the connection rests later, and this function returns the allowed time beyond
    /// that moment.
    ///
    /// # Errors
    /// Another core has taken the connection.
    pub(super) async fn rest(&mut self, allowed: Duration) -> Result<Option<Duration>, Lost> {
        if self.stream.is_secure() {
            // The state of TLS stays in this core's memory, without the buffer of the last answer.
            let is_sent = poll_fn(|context| Poll::Ready(self.stream.drop_sent(context))).await?;
            if !is_sent {
                return Ok(self.wait_to_park(allowed));
            }
            self.limit.set(allowed);
            return Ok(None);
        }
        let Some(socket) = self.stream.release().await? else { return Ok(self.wait_to_park(allowed)) };
        self.limit.set(allowed);
        let Some(shelf) = core_context::with(|local| local.sockets.shelf.clone()) else {
            self.stream = ClientStream::plain(TcpStream::resume(socket)?);
            return Ok(None);
        };
        let waker: Waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let socket = match shelf.put(socket, self.conversation.requests(), waker) {
            Ok(rest) => {
                let place = &self.place;
                let back = poll_fn(|context| match place.is_ending(context) {
                    true => Poll::Ready(rest.back()),
                    false => rest.poll_back(),
                });
                let socket = self.limit.limit(back).await.unwrap_or_else(|_timeout| rest.back());
                socket.ok_or(Lost::Moved)?
            }
            Err(socket) => socket,
        };
        // A client that asked before the end is answered, although this core comes late.
        self.stream = ClientStream::plain(TcpStream::resume(socket)?);
        Ok(None)
    }
}
