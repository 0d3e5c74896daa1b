//! Bytes of a send: a borrowed head and a shared body.
//!
//! Contains the common parts of both drivers: the progress of a send, the two remaining slices, and
//! non-blocking sends. Leaves queuing to the drivers. Tested here and, through the drivers, in
//! `tests/suite`.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

use crate::contained::contain;

/// Whether more bytes follow a send immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// More follows: the kernel may hold back a last, partly filled packet (`MSG_MORE`).
    Yes,
    /// Nothing follows: all bytes leave now.
    No,
}

/// A send: `head`, then `body`.
pub(crate) struct Outgoing {
    head: Vec<u8>,
    body: Bytes,
    sent: usize,
    pub(crate) more: More,
}

impl Outgoing {
    pub(crate) fn new(head: Vec<u8>, body: Bytes, more: More) -> Self {
        // The owner of an empty body ends here, so `drop` need not look at empty bodies.
        let body = if body.is_empty() { Bytes::new() } else { body };
        Self { head, body, sent: 0, more }
    }

    /// The remaining bytes, in order; either slice may be empty.
    #[inline]
    pub(crate) fn rest(&self) -> (&[u8], &[u8]) {
        match self.head.get(self.sent..) {
            Some(head) => (head, &self.body),
            None => (&[], &self.body[self.sent - self.head.len()..]),
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.sent == self.head.len() + self.body.len()
    }

    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        debug_assert!(self.sent <= self.head.len() + self.body.len());
    }

    /// Drops the body and returns the head, empty.
    #[inline]
    pub(crate) fn into_head(mut self) -> Vec<u8> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head
    }

    /// Sends until done or until the socket would block: `Ok(true)` when done, `Ok(false)` when it
    /// would block.
    pub(crate) fn send_now(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        while !self.is_done() {
            match self.send_once(fd) {
                Ok(count) => self.advance(count),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    #[inline]
    fn send_once(&self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if self.more == More::Yes {
            flags |= SendFlags::MORE;
        }
        match self.rest() {
            (head, []) => send(fd, head, flags),
            ([], body) => send(fd, body, flags),
            (head, body) => {
                let parts = [IoSlice::new(head), IoSlice::new(body)];
                sendmsg(fd, &parts, &mut SendAncillaryBuffer::default(), flags)
            }
        }
    }
}

impl Drop for Outgoing {
    /// Contains a panic of the body's owner, because a send often ends within a turn.
    #[inline]
    fn drop(&mut self) {
        if !self.body.is_empty() {
            let body = std::mem::take(&mut self.body);
            contain(|| drop(body));
        }
    }
}

/// Has the close of `fd` reset the connection: its peer must not take the bytes so far for all. The
/// close discards the bytes that the peer has not acknowledged.
pub fn reset_when_closed(fd: BorrowedFd<'_>) {
    // Of a socket that cannot be told the peer sees an end.
    let _ = rustix::net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

/// `sendfile(2)` on a non-blocking socket; "would block" is returned as an error.
pub(crate) fn sendfile_now(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    loop {
        match rustix::fs::sendfile(socket, file, Some(&mut *offset), count) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_holds_unsent_bytes() {
        let whole = b"headbody";
        for sent in 0..=whole.len() {
            let mut outgoing = Outgoing::new(b"head".to_vec(), Bytes::from_static(b"body"), More::No);
            outgoing.advance(sent);
            let (head, body) = outgoing.rest();
            assert_eq!([head, body].concat(), whole[sent..]);
            assert_eq!(outgoing.is_done(), sent == whole.len());
        }
    }

    #[test]
    fn the_head_comes_back_empty_with_its_memory() {
        let head = Vec::with_capacity(512);
        let outgoing = Outgoing::new(head, Bytes::from_static(b"x"), More::No);
        let head = outgoing.into_head();
        assert!(head.is_empty() && head.capacity() >= 512);
    }
}
