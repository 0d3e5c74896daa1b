//! Receives by a system call.
//!
//! The epoll driver always receives in this way. The io_uring driver receives in this way the bytes
//! that arrive with a connection, long answers to readers with room, and all bytes when the shared
//! buffers are all in use. Bytes go through one buffer of the driver, so that the caller's buffer
//! grows only by the received bytes and an idle connection holds no memory. Copying a request costs
//! less than touching fresh memory for each request. A caller with as much free capacity (one
//! buffer for many streams, or a long expected answer) receives directly into that capacity,
//! without the copy, up to the whole capacity. Tested here and, through the drivers, in
//! `tests/suite`.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// The buffer that all streams of a driver receive through.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
}

impl Inbox {
    pub(crate) fn new(bytes: u32) -> Self {
        Self { buffer: vec![0; bytes.max(1) as usize].into_boxed_slice() }
    }

    /// The size.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Appends the received bytes to `out`; zero bytes are the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, out: &mut Vec<u8>) -> Result<CallResult, Errno> {
        let room = out.spare_capacity_mut();
        if room.len() >= self.buffer.len() {
            let asked = room.len();
            let count =
                patiently(|| recv(fd, &mut *room, RecvFlags::DONTWAIT).map(|((bytes, _), _)| bytes.len()))?;
            // SAFETY: the kernel has written `count` bytes behind the old length, within the
            // capacity.
            unsafe { out.set_len(out.len() + count) };
            return Ok(CallResult { count, asked });
        }
        let count = patiently(|| recv(fd, &mut *self.buffer, RecvFlags::DONTWAIT).map(|(count, _)| count))?;
        out.extend_from_slice(&self.buffer[..count]);
        Ok(CallResult { count, asked: self.buffer.len() })
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallResult {
    pub(crate) count: usize,
    /// The maximum possible number of bytes.
    pub(crate) asked: usize,
}

impl CallResult {
    /// Whether there may be more bytes.
    pub(crate) fn is_full(self) -> bool {
        self.count == self.asked
    }
}

/// Repeats the call when a signal interrupts it.
#[inline]
fn patiently(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_are_appended_with_room_and_without() {
        for (room, first) in [(0, 4), (3, 4), (4, 4), (5, 5)] {
            let (mut peer, stream) = UnixStream::pair().expect("a pair");
            peer.write_all(b"abcdef").expect("room");
            let mut inbox = Inbox::new(4);
            let mut out = Vec::with_capacity(1 + room);
            out.push(b'>');
            let received = |inbox: &mut Inbox, out: &mut Vec<u8>| inbox.receive(stream.as_fd(), out);
            let full = CallResult { count: first, asked: first };
            assert_eq!(received(&mut inbox, &mut out), Ok(full), "one call receives no more");
            let rest = CallResult { count: 6 - first, asked: 4 };
            assert_eq!(received(&mut inbox, &mut out), Ok(rest));
            assert_eq!(out, b">abcdef", "{room}");
            assert_eq!(received(&mut inbox, &mut out), Err(Errno::AGAIN));
            drop(peer);
            assert_eq!(received(&mut inbox, &mut out).map(|end| end.count), Ok(0));
        }
    }
}
