//! Clients of the control socket that have not asked yet: all are heard side by side, so a silent one delays no other.
//!
//! Leaves out the answers (`mod.rs`).

use rustix::event::{PollFd, PollFlags, Timespec};
use std::{
    io::{self, Read as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// Longest line of a request, in bytes. Guess: the longest there is has 12.
const LINE_BYTES_MAX: usize = 256;

/// Clients that may be connected without having asked; one more takes the place of the oldest. Guess: several monitors.
const CLIENTS_MAX: usize = 16;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Status,
    StatusJson,
    Reload,
    TakeOver,
    Unknown,
}

impl Asked {
    /// The request that a line makes.
    pub(crate) fn of(line: &[u8]) -> Self {
        match line.trim_ascii_end() {
            b"status" => Self::Status,
            b"status json" => Self::StatusJson,
            b"reload" => Self::Reload,
            b"take over" => Self::TakeOver,
            _ => Self::Unknown,
        }
    }
}

/// A client and what has come of its line.
struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    until: Instant,
}

/// Where a line is.
enum Line {
    Coming,
    Whole,
    /// The client has gone.
    Never,
}

impl Client {
    fn read(&mut self) -> Line {
        let mut buffer = [0; LINE_BYTES_MAX];
        loop {
            let room = LINE_BYTES_MAX - self.line.len();
            match (&self.stream).read(&mut buffer[..room]) {
                Ok(0) if self.line.is_empty() => return Line::Never,
                // The end of what it says, or a line that is too long to be one.
                Ok(0) => return Line::Whole,
                Ok(count) => self.line.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Line::Coming,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Line::Never,
            }
            if self.line.contains(&b'\n') || self.line.len() == LINE_BYTES_MAX {
                return Line::Whole;
            }
        }
    }
}

/// All clients that have not asked yet, the oldest first.
#[derive(Default)]
pub(super) struct Clients(Vec<Client>);

impl Clients {
    /// One more, which may take so long to ask.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn add(&mut self, stream: UnixStream, patience: Duration) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.0.len() == CLIENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(Client { stream, line: Vec::new(), until: Instant::now() + patience });
        Ok(())
    }

    /// To be polled for.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN))
    }

    /// How long to poll at most; for ever without clients.
    pub(super) fn patience(&self) -> Option<Timespec> {
        let first = self.0.iter().map(|client| client.until).min()?;
        // Rounded up, or the loop would turn until the moment has come.
        let left = first.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    /// Reads what has come; gives those that have asked, and lets those go whose time is up.
    pub(super) fn hear(&mut self) -> Vec<(UnixStream, Asked)> {
        let (mut asked, now) = (Vec::new(), Instant::now());
        let mut left = Vec::with_capacity(self.0.len());
        for mut client in self.0.drain(..) {
            match client.read() {
                Line::Whole => asked.push((client.stream, Asked::of(&client.line))),
                Line::Coming if now < client.until => left.push(client),
                Line::Coming | Line::Never => {}
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
        let mut clients = Clients::default();
        for stream in [first, second, third] {
            clients.add(stream, Duration::from_secs(60)).unwrap();
        }
        asks.write_all(b"status js").unwrap();
        assert!(clients.hear().is_empty());
        asks.write_all(b"on\r\n").unwrap();
        long.write_all(&[b'x'; 2 * LINE_BYTES_MAX]).unwrap();
        let heard: Vec<Asked> = clients.hear().into_iter().map(|(_, asked)| asked).collect();
        assert_eq!(heard, [Asked::StatusJson, Asked::Unknown]);
        assert_eq!(clients.0.len(), 1);
    }

    #[test]
    fn late_client_and_one_too_many_are_let_go() {
        let mut clients = Clients::default();
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
