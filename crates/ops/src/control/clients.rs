//! Clients of the control socket that have not sent their request yet. The thread reads all clients
//! concurrently, so a silent client delays no other client.
//!
//! Leaves out the answers (`mod.rs`).

use rustix::event::{PollFd, PollFlags, Timespec};
use std::{
    io::{self, Read as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// Longest line of a request, in bytes. The longest request has 14 bytes.
const LINE_BYTES_MAX: usize = 256;

/// Clients that may be connected without a request. The limit bounds the descriptors of clients
/// that never ask; a further client replaces the oldest.
const CLIENTS_MAX: usize = 16;

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    /// The status as text.
    Status,
    /// The status as JSON.
    StatusJson,
    /// The status as metrics.
    StatusMetrics,
    /// A reload of the configuration.
    Reload,
    /// A take-over of the sockets.
    TakeOver,
    /// No known request.
    Unknown,
}

impl ClientRequest {
    /// Parses the request of a line.
    pub fn of(line: &[u8]) -> Self {
        match line.trim_ascii_end() {
            b"status" => Self::Status,
            b"status json" => Self::StatusJson,
            b"status metrics" => Self::StatusMetrics,
            b"reload" => Self::Reload,
            b"take over" => Self::TakeOver,
            _ => Self::Unknown,
        }
    }
}

/// A client and the received part of a line.
struct ControlClient {
    stream: UnixStream,
    line: Vec<u8>,
    until: Instant,
}

/// The state of a line.
enum LineState {
    Coming,
    Whole,
    /// The client has gone.
    Never,
}

impl ControlClient {
    fn read(&mut self) -> LineState {
        let mut buffer = [0; LINE_BYTES_MAX];
        loop {
            let room = LINE_BYTES_MAX - self.line.len();
            match (&self.stream).read(&mut buffer[..room]) {
                Ok(0) if self.line.is_empty() => return LineState::Never,
                // The end of the client's data, or a line that is too long for a request.
                Ok(0) => return LineState::Whole,
                Ok(count) => self.line.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return LineState::Coming,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return LineState::Never,
            }
            if self.line.contains(&b'\n') || self.line.len() == LINE_BYTES_MAX {
                return LineState::Whole;
            }
        }
    }
}

/// All clients without a request, the oldest first.
#[derive(Default)]
pub(super) struct WaitingClients(Vec<ControlClient>);

impl WaitingClients {
    /// Adds a client, which has `patience` to send its request.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn add(&mut self, stream: UnixStream, patience: Duration) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.0.len() == CLIENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(ControlClient { stream, line: Vec::new(), until: Instant::now() + patience });
        Ok(())
    }

    /// The descriptors to poll.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN))
    }

    /// The timeout of the next poll. `None` without clients.
    pub(super) fn patience(&self) -> Option<Timespec> {
        let first = self.0.iter().map(|client| client.until).min()?;
        // Rounded up, because otherwise the loop would spin until the deadline.
        let left = first.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    /// Reads available data. Returns the clients with a complete request, and closes clients whose
    /// time is over.
    pub(super) fn hear(&mut self) -> Vec<(UnixStream, ClientRequest)> {
        let (mut asked, now) = (Vec::new(), Instant::now());
        let mut left = Vec::with_capacity(self.0.len());
        for mut client in self.0.drain(..) {
            match client.read() {
                LineState::Whole => asked.push((client.stream, ClientRequest::of(&client.line))),
                LineState::Coming if now < client.until => left.push(client),
                LineState::Coming | LineState::Never => {}
            }
        }
        self.0 = left;
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn silent_client_delays_no_other() {
        let pair = || UnixStream::pair().unwrap();
        let ((_silent, first), (mut asks, second), (mut long, third)) = (pair(), pair(), pair());
        let mut clients = WaitingClients::default();
        for stream in [first, second, third] {
            clients.add(stream, Duration::from_secs(60)).unwrap();
        }
        asks.write_all(b"status js").unwrap();
        assert!(clients.hear().is_empty());
        asks.write_all(b"on\r\n").unwrap();
        long.write_all(&[b'x'; 2 * LINE_BYTES_MAX]).unwrap();
        let heard: Vec<ClientRequest> = clients.hear().into_iter().map(|(_, asked)| asked).collect();
        assert_eq!(heard, [ClientRequest::StatusJson, ClientRequest::Unknown]);
        assert_eq!(clients.0.len(), 1);
    }

    #[test]
    fn late_client_and_one_too_many_are_let_go() {
        let mut clients = WaitingClients::default();
        let pairs: Vec<_> = (0..=CLIENTS_MAX).map(|_| UnixStream::pair().unwrap()).collect();
        let mut others = Vec::new();
        for (ours, theirs) in pairs {
            clients.add(ours, Duration::from_secs(60)).unwrap();
            others.push(theirs);
        }
        assert_eq!(clients.0.len(), CLIENTS_MAX);
        assert_eq!(others[0].read(&mut [0]).unwrap(), 0, "the oldest was let go");
        clients.0[0].until = Instant::now();
        clients.hear();
        assert_eq!(clients.0.len(), CLIENTS_MAX - 1);
    }
}
