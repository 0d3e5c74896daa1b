//! hyper's reads and writes over a [`TcpStream`].
//!
//! The driver gives and takes whole buffers, hyper lends slices: received bytes are copied once into hyper's buffer, and
//! what hyper writes is gathered, head and body together, into one buffer for the driver. A write is accepted before it
//! is sent, so that with io_uring it leaves in the system call that waits for the next request.

use crate::{More, TcpStream};
use bytes::Bytes;
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

/// Most bytes taken in one write; the next write waits until they are sent. A guess: as much as a connection of the
/// web server lets wait.
const SEND_BYTES_MAX: usize = 64 << 10;

/// A connected socket for hyper.
///
/// Flushing hands bytes to the driver and does not wait for them: an error is told by the next write, and dropping the
/// stream without shutting it down, which hyper does not do, resets the connection when the kernel
/// has not taken all of it.
#[derive(Debug)]
pub struct HyperStream {
    stream: TcpStream,
    /// What has arrived, of which the first `read` bytes are hyper's already.
    received: Vec<u8>,
    read: usize,
}

impl HyperStream {
    /// Wraps `stream`; nothing is read or written yet.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), read: 0 }
    }

    /// The stream, with the bytes that were received and not read.
    pub fn into_inner(mut self) -> (TcpStream, Vec<u8>) {
        self.received.drain(..self.read);
        (self.stream, self.received)
    }

    /// Waits for the send under way, then has `gather` fill the next.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        gather: impl FnOnce(&mut Vec<u8>),
    ) -> Poll<io::Result<usize>> {
        let mut head = ready!(self.poll_sent(context))?;
        gather(&mut head);
        let count = head.len();
        if count > 0 {
            self.stream.send(head, Bytes::new(), More::No)?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        // The future keeps nothing: what is under way is known to the driver.
        pin!(self.stream.sent()).poll(context)
    }
}

impl hyper::rt::Read for HyperStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read == this.received.len() {
            this.received.clear();
            this.read = 0;
            ready!(this.stream.poll_recv(context, &mut this.received))?;
        }
        let unread = &this.received[this.read..];
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for HyperStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let take = bytes.len().min(SEND_BYTES_MAX);
        self.get_mut().poll_send(context, |head| head.extend_from_slice(&bytes[..take]))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(context, |head| {
            for slice in slices {
                let room = SEND_BYTES_MAX.saturating_sub(head.len());
                head.extend_from_slice(&slice[..slice.len().min(room)]);
            }
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_sent(context))?;
        Poll::Ready(this.stream.shutdown_write())
    }
}
