//! Reads and writes of slices over a [`TcpStream`], for the traits of other crates.
//!
//! The driver uses whole buffers and those traits lend slices. Received bytes are therefore copied
//! once into the reader's slice, and the slices of a write are gathered into one buffer for the
//! driver. A write is accepted before the driver sends the bytes, so with io_uring the bytes leave
//! in the system call that waits for the next request. The traits: `io_stream/hyper.rs`,
//! `futures.rs`,
//! `tokio.rs`, each behind a feature. Tested in `tests/hyper.rs` and `tests/ecosystem.rs`.

#[cfg(feature = "futures-io")]
mod futures;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "tokio-io")]
mod tokio;

use crate::{More, TcpStream};
use bytes::Bytes;
use std::{
    io::{self, IoSlice},
    task::{Context, Poll, ready},
};

/// Most bytes of a write; the next write waits until these bytes are sent: as many as the
/// pending bytes of a connection of the web server.
const SEND_BYTES_MAX: usize = 64 << 10;

/// A connected socket that reads and writes slices.
///
/// - Feature `hyper`: `hyper::rt::{Read, Write}`. A flush does not wait, so the next write reports
///   an error of the send.
/// - Feature `futures-io`: `AsyncRead`, `AsyncBufRead` and `AsyncWrite` of the crate futures-io.
/// - Feature `tokio-io`: `AsyncRead`, `AsyncBufRead` and `AsyncWrite` of tokio. A flush waits, as
///   with futures-io, until the kernel has taken all bytes.
///
/// Flush or shut the stream down before the drop. A drop resets the connection if the kernel has
/// not taken all bytes.
#[derive(Debug)]
pub struct IoStream {
    stream: TcpStream,
    /// Received bytes, of which the reader has already taken the first `read`.
    received: Vec<u8>,
    read: usize,
    /// The empty buffer of a send whose end a flush has seen; the next write fills this buffer.
    head: Vec<u8>,
}

impl IoStream {
    /// Wraps `stream` without a read or a write.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new(), read: 0, head: Vec::new() }
    }

    /// The stream below, for addresses and options.
    pub fn get_ref(&self) -> &TcpStream {
        &self.stream
    }

    /// The stream, with the received bytes that no read has taken.
    pub fn into_inner(mut self) -> (TcpStream, Vec<u8>) {
        self.received.drain(..self.read);
        (self.stream, self.received)
    }

    /// Received bytes that no read has taken; none at the end of the stream.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        if self.read == self.received.len() {
            self.received.clear();
            self.read = 0;
            ready!(self.stream.poll_recv(context, &mut self.received))?;
        }
        Poll::Ready(Ok(&self.received[self.read..]))
    }

    fn take(&mut self, count: usize) {
        self.read = self.received.len().min(self.read + count);
    }

    /// Waits for the current send, then sends as many of the bytes as a send takes.
    fn poll_send(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        ready!(self.poll_all_sent(context))?;
        let mut head = std::mem::take(&mut self.head);
        for slice in slices {
            let room = SEND_BYTES_MAX.saturating_sub(head.len());
            head.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let count = head.len();
        if count > 0 {
            self.stream.send(head, Bytes::new(), More::No)?;
        }
        Poll::Ready(Ok(count))
    }

    /// Waits until the kernel has taken all bytes.
    fn poll_all_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let head = ready!(self.stream.poll_sent(context))?;
        // Without a send under way the driver may return a buffer without memory.
        if head.capacity() > self.head.capacity() {
            self.head = head;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the kernel has taken all bytes, then tells the peer that no more will come. A
    /// connection that has ended already is no error, as with tokio.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_all_sent(context))?;
        Poll::Ready(match self.stream.shutdown_write() {
            // Only an error of the kernel has a number. A stream without a driver has none.
            Err(error) if error.kind() == io::ErrorKind::NotConnected && error.raw_os_error().is_some() => {
                Ok(())
            }
            ended => ended,
        })
    }
}
