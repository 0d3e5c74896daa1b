//! hyper's reads and writes over a [`TcpStream`].
//!
//! The driver uses whole buffers and hyper lends slices. Received bytes are therefore copied once
//! into hyper's buffer, and hyper's head and body are gathered into a single buffer for the driver.
//! A write is accepted before the driver sends it, so with io_uring the bytes leave in the system
//! call that waits for the next request.

use crate::{More, TcpStream};
use bytes::Bytes;
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

/// Most bytes of a write; the next write waits until these bytes are sent. Guess: equal to the
/// pending bytes of a connection of the web server.
const SEND_BYTES_MAX: usize = 64 << 10;

/// A connected socket for hyper.
///
/// A flush hands bytes to the driver and does not wait, so the next write reports an error of the
/// send. hyper shuts the stream down before the drop; a drop without shutdown resets the connection
/// if the kernel has not taken all bytes.
#[derive(Debug)]
pub struct HyperStream {
    stream: TcpStream,
    /// Received bytes, of which hyper has already read the first `read`.
    received: Vec<u8>,
    read: usize,
}

impl HyperStream {
    /// Wraps `stream` without a read or a write.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), read: 0 }
    }

    /// The stream, with the received bytes that hyper has not read.
    pub fn into_inner(mut self) -> (TcpStream, Vec<u8>) {
        self.received.drain(..self.read);
        (self.stream, self.received)
    }

    /// Waits for the current send, then lets `gather` fill the next buffer.
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
        // The future has no state, because the driver keeps the state of the send.
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
