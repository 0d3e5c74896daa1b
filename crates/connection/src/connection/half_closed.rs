//! A client that has closed its sending side while a program answers: does the client still
//! receive?
//!
//! A client that has left and a client that waits for its answer (`nc -N`) look the same, because
//! both have sent the end of their bytes. Only bytes sent to the client tell them apart: a waiting
//! client acknowledges the bytes, and a client that has left resets the connection. So the server
//! sends the first byte of the status line ahead, because that byte is the same for all answers.
//! The answer then leaves that byte out. Amid an answer no byte can be sent ahead, and the next
//! bytes of the program tell. If the program stays silent for [`SILENT_MAX`], the client counts as
//! gone. Nearly every client that closes amid an answer has left, and its program must not run on.
//! Tested through the binary (`crates/e2e/tests/e2e/log.rs`) and by the smoke size of `bench cgi`.

use super::Connection;
use bytes::Bytes;
use rustix::net::{SendFlags, send};
use std::{
    io, mem,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};
use vermeil::{BackOff, BackOffBounds, More, Sleep};
use vermeil_io::PeerState;

/// The first byte of every answer.
const FIRST: &[u8] = b"H";

/// Pauses between two checks whether the client has acknowledged. The first pause covers the round
/// trip of a client in the same town. The longest pause bounds the time for which a program runs in
/// vain, at no more than two system calls per second and connection.
const LOOK_PAUSES: BackOffBounds =
    BackOffBounds::doubling(Duration::from_millis(2), Duration::from_millis(500));

/// How long a program may stay silent amid its answer after the client has closed its sending side.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// A client that has sent its last byte.
pub(super) struct HalfClosed {
    state: HalfClosedState,
    limit: Sleep,
    pauses: BackOff,
    /// Whether the first byte of the next answer was sent.
    is_first_sent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HalfClosedState {
    /// No byte was sent yet whose acknowledgement would tell.
    Ask,
    /// Such a byte was sent.
    Wait,
    /// The client receives, as far as is known.
    There,
    /// The answer has begun, and its next bytes will tell.
    Amid,
}

impl HalfClosed {
    pub(super) fn new() -> Self {
        Self {
            state: HalfClosedState::Ask,
            limit: Sleep::unset(),
            pauses: BackOff::new(&LOOK_PAUSES),
            is_first_sent: false,
        }
    }
}

impl Connection {
    /// Ready when a client that has closed its sending side turns out to have left.
    pub(super) fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(half_closed) = &self.half_closed else { return Poll::Pending };
            match half_closed.state {
                HalfClosedState::There => return Poll::Pending,
                HalfClosedState::Amid => {
                    let half_closed = self.half_closed.as_mut().expect("looked at above");
                    return Pin::new(&mut half_closed.limit).poll(context).map(drop);
                }
                HalfClosedState::Ask => match self.poll_ask(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(state)) => self.set_state(state),
                },
                HalfClosedState::Wait => match self.stream.with_fd(vermeil_io::peer_after_end) {
                    Ok(Ok(PeerState::Receives)) => self.set_state(HalfClosedState::There),
                    Ok(Ok(PeerState::Unknown)) => {
                        let half_closed = self.half_closed.as_mut().expect("looked at above");
                        if Pin::new(&mut half_closed.limit).poll(context).is_pending() {
                            return Poll::Pending;
                        }
                        half_closed.limit.set(half_closed.pauses.advance());
                    }
                    Ok(Ok(PeerState::Gone) | Err(_)) | Err(_) => return Poll::Ready(()),
                },
            }
        }
    }

    fn set_state(&mut self, state: HalfClosedState) {
        if let Some(half_closed) = &mut self.half_closed {
            half_closed.state = state;
            half_closed.limit.set(if state == HalfClosedState::Amid {
                SILENT_MAX
            } else {
                LOOK_PAUSES.initial
            });
        }
    }

    /// Sends bytes that the client acknowledges: earlier answers, or the first byte of this answer.
    fn poll_ask(&mut self, context: &mut Context<'_>) -> Poll<io::Result<HalfClosedState>> {
        if self.handed.is_held {
            let taken = pin!(self.stream.sent()).poll(context);
            let Poll::Ready(taken) = taken else { return Poll::Pending };
            self.handed.is_held = false;
            taken?;
        }
        if !self.output.is_empty() {
            self.stream.send(mem::take(&mut self.output), Bytes::new(), More::No)?;
            self.handed.is_held = true;
            return Poll::Ready(Ok(HalfClosedState::Wait));
        }
        if !self.is_before_head() {
            return Poll::Ready(Ok(HalfClosedState::Amid));
        }
        if self.stream.is_secure() {
            self.stream.send(FIRST.to_vec(), Bytes::new(), More::No)?;
            self.handed.is_held = true;
            self.note_first_sent();
            return Poll::Ready(Ok(HalfClosedState::Wait));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = self.stream.with_fd(|fd| send(fd, FIRST, flags))?;
        match sent {
            Ok(1..) => {
                self.note_first_sent();
                Poll::Ready(Ok(HalfClosedState::Wait))
            }
            // The send buffer is full, so the bytes in it will tell.
            Ok(0) | Err(rustix::io::Errno::AGAIN) => Poll::Ready(Ok(HalfClosedState::Wait)),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    fn note_first_sent(&mut self) {
        if let Some(half_closed) = &mut self.half_closed {
            half_closed.is_first_sent = true;
        }
    }

    /// Removes from an answer the byte that was sent ahead.
    pub(super) fn drop_first_sent(&mut self) {
        let Some(half_closed) = &mut self.half_closed else { return };
        if half_closed.state == HalfClosedState::Amid {
            // These bytes will tell, and the time of silence begins anew after them.
            half_closed.state = HalfClosedState::Ask;
        }
        if !self.output.is_empty() && mem::take(&mut half_closed.is_first_sent) {
            debug_assert!(self.output.starts_with(FIRST), "every answer begins with a status line");
            self.output.drain(..FIRST.len());
        }
    }
}
