//! A client that has closed its sending side while a program answers it: does it still receive?
//!
//! A client that has left and one that waits for its answer (`nc -N`) look the same: both have sent
//! the end of their bytes. Only what is sent to them tells, since the one acknowledges it and the
//! other resets the connection. So the first byte of the status line, which is the same for all
//! answers, is sent ahead, and left out when the answer follows. Amid an answer no byte can be sent
//! ahead. There the next bytes of the program tell. If the program stays silent for [`SILENT_MAX`],
//! the client counts as gone, because nearly every client that closes amid an answer has left, and
//! its program must not run on. Tested through the binary (`crates/cli/tests/e2e/log.rs`) and by the
//! smoke size of `bench cgi`.

use super::Connection;
use bytes::Bytes;
use rustix::net::{SendFlags, send};
use std::{
    io, mem,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};
use vermeil::{More, Sleep};
use vermeil_io::Peer;

/// What every answer begins with.
const FIRST: &[u8] = b"H";

/// How long the first look at whether the client has acknowledged waits, and how long one does at
/// most. Guess: a round trip nearby; a program that runs in vain for half a second.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// How long a program may stay silent amid its answer after the client has closed its sending side.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// A client that has sent its last byte.
pub(super) struct HalfClosed {
    state: State,
    limit: Sleep,
    pause: Duration,
    /// Whether the first byte of the next answer was sent.
    is_first_sent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was sent yet that tells.
    Ask,
    /// Something was.
    Wait,
    /// It receives, as far as is known.
    There,
    /// The answer has begun, and its next bytes will tell.
    Amid,
}

impl HalfClosed {
    pub(super) fn new() -> Self {
        Self { state: State::Ask, limit: Sleep::unset(), pause: LOOK_FIRST, is_first_sent: false }
    }
}

impl Connection {
    /// Ready when a client that has closed its sending side turns out to have left.
    pub(super) fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(half_closed) = &self.half_closed else { return Poll::Pending };
            match half_closed.state {
                State::There => return Poll::Pending,
                State::Amid => {
                    let half_closed = self.half_closed.as_mut().expect("looked at above");
                    return Pin::new(&mut half_closed.limit).poll(context).map(drop);
                }
                State::Ask => match self.poll_ask(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(state)) => self.set_state(state),
                },
                State::Wait => match self.stream.with_fd(vermeil_io::peer_after_end) {
                    Ok(Ok(Peer::Receives)) => self.set_state(State::There),
                    Ok(Ok(Peer::Unknown)) => {
                        let half_closed = self.half_closed.as_mut().expect("looked at above");
                        if Pin::new(&mut half_closed.limit).poll(context).is_pending() {
                            return Poll::Pending;
                        }
                        half_closed.limit.set(half_closed.pause);
                        half_closed.pause = (half_closed.pause * 2).min(LOOK_MAX);
                    }
                    Ok(Ok(Peer::Gone) | Err(_)) | Err(_) => return Poll::Ready(()),
                },
            }
        }
    }

    fn set_state(&mut self, state: State) {
        if let Some(half_closed) = &mut self.half_closed {
            half_closed.state = state;
            half_closed.limit.set(if state == State::Amid { SILENT_MAX } else { LOOK_FIRST });
        }
    }

    /// Sends something that the client acknowledges: answers before this one, or the first byte of
    /// this one.
    fn poll_ask(&mut self, context: &mut Context<'_>) -> Poll<io::Result<State>> {
        if self.sending {
            let taken = pin!(self.stream.sent()).poll(context);
            let Poll::Ready(taken) = taken else { return Poll::Pending };
            self.sending = false;
            taken?;
        }
        if !self.output.is_empty() {
            self.stream.send(mem::take(&mut self.output), Bytes::new(), More::No)?;
            self.sending = true;
            return Poll::Ready(Ok(State::Wait));
        }
        if !self.is_before_head() {
            return Poll::Ready(Ok(State::Amid));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = self.stream.with_fd(|fd| send(fd, FIRST, flags))?;
        match sent {
            Ok(1..) => {
                if let Some(half_closed) = &mut self.half_closed {
                    half_closed.is_first_sent = true;
                }
                Poll::Ready(Ok(State::Wait))
            }
            // No room: what fills it tells.
            Ok(0) | Err(rustix::io::Errno::AGAIN) => Poll::Ready(Ok(State::Wait)),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Leaves out of an answer what was sent ahead of it.
    pub(super) fn drop_first_sent(&mut self) {
        let Some(half_closed) = &mut self.half_closed else { return };
        if half_closed.state == State::Amid {
            // These bytes tell, and the silence begins anew after them.
            half_closed.state = State::Ask;
        }
        if !self.output.is_empty() && mem::take(&mut half_closed.is_first_sent) {
            debug_assert!(self.output.starts_with(FIRST), "every answer begins with a status line");
            self.output.drain(..FIRST.len());
        }
    }
}
