//! Receiving by a system call.
//!
//! The only path of the epoll driver, and the fallback of the io_uring driver when its buffers are all in use. Bytes go
//! through one buffer of the driver, so that the caller's grows by what has arrived and an idle connection holds
//! nothing; copying a request costs less than touching fresh memory for each. A caller that has room for as much as one
//! call receives, because it keeps one buffer for many streams, gets them there without the copy.
//! Tested here and, through the drivers, in `tests/suite`.

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

    /// The most that one call receives.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Appends what has arrived to `out`; 0 is the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, out: &mut Vec<u8>) -> Result<usize, Errno> {
        if let Some(room) = out.spare_capacity_mut().get_mut(..self.buffer.len()) {
            let count =
                patiently(|| recv(fd, &mut *room, RecvFlags::DONTWAIT).map(|((bytes, _), _)| bytes.len()))?;
            // SAFETY: the kernel has written `count` bytes behind the old length, and there was room for them.
            unsafe { out.set_len(out.len() + count) };
            return Ok(count);
        }
        let count = patiently(|| recv(fd, &mut *self.buffer, RecvFlags::DONTWAIT).map(|(count, _)| count))?;
        out.extend_from_slice(&self.buffer[..count]);
        Ok(count)
    }
}

/// Calls again as long as signals interrupt.
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
        for room in [0, 3, 4, 100] {
            let (mut peer, stream) = UnixStream::pair().expect("a pair");
            peer.write_all(b"abcdef").expect("room");
            let mut inbox = Inbox::new(4);
            let mut out = Vec::with_capacity(1 + room);
            out.push(b'>');
            assert_eq!(inbox.receive(stream.as_fd(), &mut out), Ok(4), "one call receives no more");
            assert_eq!(inbox.receive(stream.as_fd(), &mut out), Ok(2));
            assert_eq!(out, b">abcdef", "{room}");
            assert_eq!(inbox.receive(stream.as_fd(), &mut out), Err(Errno::AGAIN));
            drop(peer);
            assert_eq!(inbox.receive(stream.as_fd(), &mut out), Ok(0));
        }
    }
}
