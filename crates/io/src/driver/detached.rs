//! An object outside of a driver, on its way from the driver of one core to the driver of another.
//!
//! The object carries everything that the old driver held for it: bytes that were received and not
//! read, the end of the stream, an error, the rest of a send, and the wakers of waiting tasks.
//! Therefore nothing is lost or repeated, and a task that waits need not ask again. Both drivers
//! give and take the same form, because one runtime may have both. Tested in
//! `tests/suite/moves.rs`.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Waker;

use super::outgoing::{Outgoing, reset_when_closed};
use super::table::{Id, ListenerKey, SourceKey, StreamKey};
use super::waiter::CarriedWaiter;

/// A stream, listener or source of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    /// A stream.
    Stream(StreamKey),
    /// A listener.
    Listener(ListenerKey),
    /// A source.
    Source(SourceKey),
}

impl ObjectKey {
    /// The key as a number, for an atomic word.
    pub fn bits(self) -> u64 {
        match self {
            Self::Stream(StreamKey(id)) => id.pack(0),
            Self::Listener(ListenerKey(id)) => id.pack(1),
            Self::Source(SourceKey(id)) => id.pack(2),
        }
    }

    /// The reverse of [`bits`](Self::bits).
    pub fn from_bits(bits: u64) -> Self {
        match Id::unpack(bits) {
            (0, id) => Self::Stream(StreamKey(id)),
            (1, id) => Self::Listener(ListenerKey(id)),
            (_, id) => Self::Source(SourceKey(id)),
        }
    }
}

/// A key of one kind of object.
pub trait DriverKey: Copy + Into<ObjectKey> {
    /// The reverse of [`ObjectKey::bits`], for the kind of this key.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! driver_key {
    ($key:ident, $kind:ident) => {
        impl From<$key> for ObjectKey {
            fn from(key: $key) -> Self {
                Self::$kind(key)
            }
        }

        impl DriverKey for $key {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self(Id::unpack(bits).1)
            }
        }
    };
}

driver_key!(StreamKey, Stream);
driver_key!(ListenerKey, Listener);
driver_key!(SourceKey, Source);

/// A stream, listener or source that no driver has. Dropping the object closes the object and wakes
/// its waiting tasks.
pub struct Detached(pub(crate) DetachedObject);

pub(crate) enum DetachedObject {
    Stream(DetachedStream),
    Listener(DetachedListener),
    Source(DetachedSource),
}

/// A stream without a driver.
pub(crate) struct DetachedStream {
    /// `None` once a driver has the descriptor.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) received: Received,
    pub(crate) sending: DetachedSend,
    /// Whether room to send, or the connection, is awaited.
    pub(crate) awaits_room: bool,
    pub(crate) reader: CarriedWaiter,
    pub(crate) writer: CarriedWaiter,
}

/// Bytes that a driver has received and no task has read.
#[derive(Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    read: usize,
    /// The end of receiving, reported after the bytes: 0 for the end of the stream, else an error
    /// number.
    ended: Option<i32>,
}

/// A send without a driver.
#[derive(Default)]
pub(crate) enum DetachedSend {
    #[default]
    Idle,
    /// The kernel has not taken all bytes.
    Unsent(Box<Outgoing>),
    Done,
    Failed(io::Error),
}

/// A listener without a driver.
pub(crate) struct DetachedListener {
    /// `None` once closed.
    pub(crate) fd: Option<OwnedFd>,
    /// Connections that were accepted and not taken.
    pub(crate) accepted: VecDeque<OwnedFd>,
    /// The error number of the last failure, until it is reported.
    pub(crate) failed: Option<i32>,
    pub(crate) waiter: CarriedWaiter,
}

/// A source without a driver.
pub(crate) struct DetachedSource {
    pub(crate) fd: OwnedFd,
    /// Whether the source watches the listener of another core.
    pub(crate) is_watch: bool,
    /// Readiness that a driver has reported and no task has seen: input, room. A task that moves at
    /// each wake-up would otherwise never see its source ready.
    pub(crate) ready: [bool; 2],
    pub(crate) reader: CarriedWaiter,
    pub(crate) writer: CarriedWaiter,
}

impl Received {
    /// `None` if there is nothing to carry.
    pub(crate) fn carry(self) -> Option<Box<Self>> {
        (self.read < self.bytes.len() || self.ended.is_some()).then(|| Box::new(self))
    }

    /// A place behind the bytes for more bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn end(&mut self, ended: Option<i32>) {
        self.ended = self.ended.or(ended);
    }

    /// Appends at most `most` bytes to `out`. Returns their number, the end, or an error; then
    /// whether all has been read.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let unread = &self.bytes[self.read..];
        if unread.is_empty() {
            // An error is reported once, as on the socket; afterwards comes the end.
            return match self.ended.replace(0) {
                Some(error) if error != 0 => Err(io::Error::from_raw_os_error(error)),
                _ => Ok(0),
            };
        }
        let count = unread.len().min(most);
        out.extend_from_slice(&unread[..count]);
        self.read += count;
        Ok(count)
    }

    /// Whether the socket is to be received from again.
    pub(crate) fn is_read(&self) -> bool {
        self.read == self.bytes.len() && self.ended.is_none()
    }
}

impl Detached {
    /// Whether the object needs a driver although no task asks: a task waits in a direction without
    /// an asking task (reading, writing), or the rest of a send goes on by itself.
    pub fn needs_driver(&self, asking: [bool; 2]) -> bool {
        let (reads, writes, sends) = match &self.0 {
            DetachedObject::Stream(stream) => {
                let sends = matches!(stream.sending, DetachedSend::Unsent(_));
                (stream.reader.is_waiting(), stream.writer.is_waiting(), sends)
            }
            DetachedObject::Listener(listener) => (listener.waiter.is_waiting(), false, false),
            DetachedObject::Source(source) => (source.reader.is_waiting(), source.writer.is_waiting(), false),
        };
        sends || reads && !asking[0] || writes && !asking[1]
    }

    /// Takes the wakers of the tasks that wait in `directions`: reading, writing. After their
    /// wake-up the tasks poll the object again.
    pub fn take_waiters(&mut self, directions: [bool; 2]) -> [Option<Waker>; 2] {
        let (reader, writer) = match &mut self.0 {
            DetachedObject::Stream(stream) => (&mut stream.reader, Some(&mut stream.writer)),
            DetachedObject::Listener(listener) => (&mut listener.waiter, None),
            DetachedObject::Source(source) => (&mut source.reader, Some(&mut source.writer)),
        };
        let reader = if directions[0] { reader.take() } else { None };
        [reader, writer.filter(|_| directions[1]).and_then(CarriedWaiter::take)]
    }

    /// The close of a stream will reset the connection, because the owner has begun a send that no
    /// driver has got. Without effect on other objects.
    pub fn reset_when_closed(&self) {
        if let DetachedObject::Stream(DetachedStream { fd: Some(fd), .. }) = &self.0 {
            reset_when_closed(fd.as_fd());
        }
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            DetachedObject::Stream(_) => "Detached(stream)",
            DetachedObject::Listener(_) => "Detached(listener)",
            DetachedObject::Source(_) => "Detached(source)",
        })
    }
}

impl Drop for DetachedStream {
    /// A peer that has not got all of a send is told so. After a failed send the socket itself is
    /// set to a reset.
    fn drop(&mut self) {
        if let (Some(fd), DetachedSend::Unsent(_)) = (&self.fd, &self.sending) {
            reset_when_closed(fd.as_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_bytes_come_before_the_end() {
        let mut received = Received::default();
        received.bytes_mut().extend_from_slice(b"abcde");
        received.end(Some(libc::ECONNRESET));
        let (mut out, mut results) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            results.push(received.read(&mut out, 3).map_err(|error| error.raw_os_error()));
            assert!(!received.is_read(), "the end is still to be reported");
        }
        assert_eq!(out, b"abcde");
        assert_eq!(results, [Ok(3), Ok(2), Err(Some(libc::ECONNRESET)), Ok(0)]);
    }

    #[test]
    fn key_survives_its_number() {
        let id = Id { index: 5, generation: 1 << 31 };
        for key in [
            ObjectKey::Stream(StreamKey(id)),
            ObjectKey::Listener(ListenerKey(id)),
            ObjectKey::Source(SourceKey(id)),
        ] {
            assert_eq!(ObjectKey::from_bits(key.bits()), key);
        }
    }
}
