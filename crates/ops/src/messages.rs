//! Messages in JSON over a socket pair, with any number of descriptors: between a supervisor and
//! its instances, and between two servers during a takeover.
//!
//! A message arrives whole or not at all, and the receiver notices when the other end closes. A
//! long message comes in a sealed memory file, because the kernel refuses long packets. Leaves out
//! the content of the messages (`handover/`, and those between supervisor and instance). Tested
//! there and below.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};
use vermeil_io::{read_sealed, sealed_memory};
use vermeil_spawn::socket::{self, DESCRIPTORS_MAX};

/// Bytes of a packet that is received. With its default send buffer (`net.core.wmem_default`) the
/// kernel takes 208 KB, and earlier versions send as much.
const PACKET_BYTES_MAX: usize = 200 << 10;

/// Bytes of a message that is sent in a packet. A longer message comes in a memory file.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a message in a memory file, unless the receiver sets another bound: half a million
/// addresses.
const LONG_BYTES_MAX: u64 = 64 << 20;

/// Descriptors of a message: a thousand cores with sixty addresses each. The kernel's limit on the
/// descriptors of a process is of the same order.
const DESCRIPTORS_IN_ALL_MAX: usize = 1 << 16;

/// How long a message may wait for room. The receiver is a thread without other work on this
/// machine, so a receiver without room for that long is stopped.
const SEND_PATIENCE: Duration = Duration::from_secs(5);

/// A packet with the descriptors that had no room in the previous packet.
const MORE: &[u8] = b"+";

/// A message as it is sent.
#[derive(Serialize, Deserialize)]
struct FramedMessage<B> {
    /// Number of descriptors of this message, including the packets after the message.
    descriptors: usize,
    /// `None` if the body comes in a sealed memory file, the first descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<B>,
}

/// Parses a message into the number of its descriptors and its body, unless the body comes in a
/// file. The other end may be under an attacker's control.
///
/// # Errors
/// The bytes are no message, or the message has too many descriptors.
pub fn read<B: DeserializeOwned>(bytes: &[u8]) -> io::Result<(usize, Option<B>)> {
    let message: FramedMessage<B> = serde_json::from_slice(bytes)?;
    match message.descriptors {
        count @ ..=DESCRIPTORS_IN_ALL_MAX => Ok((count, message.body)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// One end.
#[derive(Debug)]
pub struct Messages {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Bytes of a received message in a memory file.
    long_bytes_max: u64,
}

impl AsFd for Messages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Messages {
    /// The end whose socket this is.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; PACKET_BYTES_MAX], long_bytes_max: LONG_BYTES_MAX }
    }

    /// The same, but received messages have at most `long_bytes_max` bytes. For a receiver whose
    /// other end may be under an attacker's control, because the receiver holds the whole message.
    #[must_use]
    pub fn with_long_bytes_max(self, long_bytes_max: u64) -> Self {
        Self { long_bytes_max, ..self }
    }

    /// Makes a pair: one end for this process, the socket of the other end for another process.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        Ok((Self::new(ours), theirs))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is closed or has no room in time, or there is no memory for a long message.
    pub fn send(&self, body: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let message = FramedMessage { descriptors: descriptors.len(), body: Some(body) };
        let bytes = serde_json::to_vec(&message)?;
        if bytes.len() <= SHORT_BYTES_MAX {
            match self.put_all(&bytes, descriptors) {
                // The administrator allows shorter packets only.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {}
                sent => return sent,
            }
        }
        let file = sealed_memory(c"message", &serde_json::to_vec(body)?)?;
        let descriptors: Vec<_> = std::iter::once(file.as_fd()).chain(descriptors.iter().copied()).collect();
        let message = FramedMessage::<()> { descriptors: descriptors.len(), body: None };
        self.put_all(&serde_json::to_vec(&message)?, &descriptors)
    }

    /// Whether a message in a packet can be sent without waiting for room.
    pub(crate) fn has_room(&self) -> bool {
        self.wait(PollFlags::OUT, Some(Instant::now())).is_ok()
    }

    fn put_all(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (first, rest) = descriptors.split_at(descriptors.len().min(DESCRIPTORS_MAX));
        self.put(bytes, first)?;
        rest.chunks(DESCRIPTORS_MAX).try_for_each(|chunk| self.put(MORE, chunk))
    }

    fn put(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let deadline = Instant::now() + SEND_PATIENCE;
        loop {
            match socket::send(self.socket.as_fd(), bytes, descriptors) {
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, Some(deadline))?,
                result => return Ok(result?),
            }
        }
    }

    /// The next message and its descriptors. `None` when the other end is closed, even if the
    /// message has not arrived whole.
    ///
    /// # Errors
    /// No message came before the deadline, or the message is malformed or too long.
    pub fn receive<B: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> io::Result<Option<(B, Vec<OwnedFd>)>> {
        let Some((bytes, mut descriptors)) = self.get_first(deadline)? else { return Ok(None) };
        let (count, body) = read(&self.buffer[..bytes])?;
        while descriptors.len() < count {
            let Some((_, more)) = self.get(deadline)? else { return Ok(None) };
            if more.is_empty() {
                // Otherwise the other end could keep this process here for ever.
                return Err(io::ErrorKind::InvalidData.into());
            }
            descriptors.extend(more);
        }
        let body = match body {
            Some(body) => body,
            None if descriptors.is_empty() => return Err(io::ErrorKind::InvalidData.into()),
            None => serde_json::from_slice(&read_sealed(descriptors.remove(0), self.long_bytes_max)?)?,
        };
        Ok(Some((body, descriptors)))
    }

    /// The first packet of a message. Skips the further packets of a message that was lost, because
    /// its first packet could not be received.
    fn get_first(&mut self, deadline: Option<Instant>) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
        loop {
            match self.get(deadline)? {
                Some((bytes, _)) if &self.buffer[..bytes] == MORE => {}
                received => return Ok(received),
            }
            // The next packet may be there already, and then `get` does not look at the deadline.
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn get(&mut self, deadline: Option<Instant>) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
        loop {
            match socket::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(received) => return Ok(received.map(|received| (received.bytes, received.descriptors))),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                // The peer died with unread messages.
                Err(Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, what: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&self.socket, what)], timeout.as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Read as _};

    #[test]
    fn long_message_arrives_with_its_descriptors() {
        let (ours, theirs) = Messages::pair().unwrap();
        let mut theirs = Messages::new(theirs);
        for length in [10, SHORT_BYTES_MAX, 1 << 20] {
            let (read, write) = rustix::pipe::pipe().unwrap();
            ours.send(&"x".repeat(length), &[write.as_fd()]).unwrap();
            drop(write);
            let (body, descriptors) = theirs.receive::<String>(None).unwrap().expect("a message");
            assert_eq!((body.len(), descriptors.len()), (length, 1));
            drop(descriptors);
            assert_eq!(File::from(read).read(&mut [0]).unwrap(), 0, "{length}: no other end is open");
        }
    }

    #[test]
    fn receiver_bounds_long_messages() {
        let (ours, theirs) = Messages::pair().unwrap();
        let mut theirs = Messages::new(theirs).with_long_bytes_max(1 << 20);
        ours.send(&"x".repeat(1 << 20), &[]).unwrap();
        let error = theirs.receive::<String>(None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        ours.send(&"x".repeat((1 << 20) - 2), &[]).unwrap();
        assert!(theirs.receive::<String>(None).unwrap().is_some(), "two bytes are quotes");
    }

    #[test]
    fn rest_of_lost_message_is_skipped() {
        let (ours, theirs) = Messages::pair().unwrap();
        let mut theirs = Messages::new(theirs);
        ours.put(MORE, &[]).unwrap();
        ours.put(MORE, &[]).unwrap();
        ours.send(&"next", &[]).unwrap();
        assert_eq!(theirs.receive::<String>(None).unwrap().expect("a message").0, "next");
        ours.put(MORE, &[]).unwrap();
        let late = theirs.receive::<String>(Some(Instant::now())).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn end_within_message_is_end() {
        let (ours, theirs) = Messages::pair().unwrap();
        ours.put(b"{\"descriptors\":1,\"body\":\"x\"}", &[]).unwrap();
        drop(ours);
        assert!(Messages::new(theirs).receive::<String>(None).unwrap().is_none());
    }

    #[test]
    fn message_without_body_is_malformed() {
        let (ours, theirs) = Messages::pair().unwrap();
        ours.put(b"{\"descriptors\":0}", &[]).unwrap();
        let error = Messages::new(theirs).receive::<String>(None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
