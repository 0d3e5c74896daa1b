//! A connection that waits for its next request where other cores see it: on its core's shelf.
//!
//! A core's driver cannot be looked into by others, so what a driver waits for is answered when the core comes to it. A
//! connection between requests owes nobody anything and holds nothing but its socket: after a while it is taken out of
//! the driver, and from the shelf either this task takes it back, when the core is told of the next request, or a core
//! that finds this one stuck (`balance/relieve.rs`). Its task stays meanwhile, with its place and its time limit, and
//! ends when it finds the socket gone. Tested through the binary (`crates/cli/tests/e2e/rest.rs`).

use super::{Connection, Lost};
use crate::local;
use std::{
    future::poll_fn,
    task::{Poll, Waker},
    time::Duration,
};
use vermeil::TcpStream;

/// How long a connection waits for its next request before it rests. Guess: what follows a page comes sooner, and is spared
/// the four system calls (two with io_uring) and two wake-ups of its task that resting costs, some 10 µs; a client that reads
/// the page takes longer.
pub(super) const AFTER: Duration = Duration::from_secs(1);

impl Connection {
    /// Sets the time until the connection rests; gives what is allowed beyond that. If no more is allowed than that, all of it is set.
    pub(super) fn wait_to_rest(&mut self, allowed: Duration) -> Option<Duration> {
        let beyond = allowed.checked_sub(AFTER).filter(|beyond| !beyond.is_zero());
        self.limit.set(if beyond.is_some() { AFTER } else { allowed });
        beyond
    }

    /// Rests until something comes, `allowed` is over or the connection is told to end: in each case it is then waited for as
    /// before. If it cannot rest now, since its last answer is still on its way, it does so later: gives what is allowed
    /// beyond that.
    ///
    /// # Errors
    /// Another core has taken it.
    pub(super) async fn rest(&mut self, allowed: Duration) -> Result<Option<Duration>, Lost> {
        let Some(socket) = self.stream.release().await? else { return Ok(self.wait_to_rest(allowed)) };
        self.limit.set(allowed);
        let Some(shelf) = local::with(|local| local.shelf.clone()) else {
            self.stream = TcpStream::resume(socket)?;
            return Ok(None);
        };
        let waker: Waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let socket = match shelf.put(socket, self.conversation.requests(), waker) {
            Ok(rest) => {
                let place = &self.place;
                let back = poll_fn(|_| match place.is_ending() {
                    true => Poll::Ready(rest.back()),
                    false => rest.poll_back(),
                });
                let socket = self.limit.limit(back).await.unwrap_or_else(|_timeout| rest.back());
                socket.ok_or(Lost::Moved)?
            }
            Err(socket) => socket,
        };
        // Who asked before it ends is answered, although this core comes late.
        self.stream = TcpStream::resume(socket)?;
        Ok(None)
    }
}
