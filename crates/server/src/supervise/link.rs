//! What the supervisor and an instance say to each other, over a socket pair: orders and answers, one at a time, with the
//! sockets and the configuration as descriptors.
//!
//! Both ends are one binary, so there are no versions. An answer repeats its order's number: one that came too late is
//! passed over. Leaves out what is done (`member.rs`, `instance.rs`). Tested below.

use crate::{balance::Neighbours, status::InstanceStatus};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::File,
    io::{self, Write as _},
    net::SocketAddr,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    time::{Duration, Instant},
};
use vermeil_spawn::socket::{self, DESCRIPTORS_MAX};
use vermeil_topology::Instance;

/// Bytes of one message: what the kernel takes with its default send buffer (`net.core.wmem_default`) is 208 KB.
const MESSAGE_BYTES_MAX: usize = 200 << 10;

/// How long a message may wait for room. Guess: the other end reads whenever it lives.
const SEND_PATIENCE: Duration = Duration::from_secs(5);

/// Carries descriptors that had no room in the message before it.
const MORE: &[u8] = b"+";

/// What the supervisor says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Serve. Descriptors: the text of the configuration, the board, the sockets by address and core.
    Start(Assignment),
    /// Make another configuration ready. Descriptors: its text, the sockets of the addresses that are added.
    Prepare {
        /// All addresses, as they are asked for.
        listen: Vec<SocketAddr>,
        /// Those that are new, and as they are bound.
        added: Vec<(SocketAddr, SocketAddr)>,
    },
    /// Take the configuration that is ready.
    Take,
    /// Forget it.
    Forget,
    /// Say what is done.
    Status,
    /// Say what part of its weight it should be given.
    Weight,
}

/// Everything that an instance cannot find out by itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// Its number.
    pub(super) number: u32,
    /// Its cpus and nodes.
    pub(super) instance: Instance,
    /// Its first core, among those of all instances.
    pub(super) first_core: usize,
    /// All cores of all instances.
    pub(super) cores: usize,
    pub(super) neighbours: Neighbours,
    /// Addresses as they were asked for and as they are bound.
    pub(super) listening: Vec<(SocketAddr, SocketAddr)>,
    /// Whether there is the text of a configuration.
    pub(super) has_text: bool,
    /// Whether there is a board.
    pub(super) has_board: bool,
}

/// What an instance says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It serves.
    Started,
    /// Another configuration is ready.
    Prepared,
    /// It is not, and why.
    Refused(String),
    /// It was taken; what there is to say.
    Taken(Vec<String>),
    Forgotten,
    Status(Box<InstanceStatus>),
    /// In hundredths.
    Weight(u32),
}

/// A message as it is sent.
#[derive(Serialize, Deserialize)]
struct Message<B> {
    /// Of the order.
    number: u64,
    /// How many come with it, and behind it.
    descriptors: usize,
    body: B,
}

/// One end.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Of the order that was given or taken last.
    number: u64,
}

/// Two ends.
pub(super) fn pair() -> io::Result<(Link, OwnedFd)> {
    let (ours, theirs) = socket::pair()?;
    Ok((Link::new(ours), theirs))
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; MESSAGE_BYTES_MAX], number: 0 }
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// The other end is closed, or does not answer in time.
    pub(super) fn ask(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> io::Result<Answer> {
        self.number += 1;
        self.send(order, descriptors)?;
        let deadline = Instant::now() + patience;
        loop {
            let (number, answer, _) = self.receive(Some(deadline))?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if number == self.number {
                return Ok(answer);
            }
        }
    }

    /// Waits for an order; nothing when the other end is closed.
    pub(super) fn next_order(&mut self) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
        let Some((number, order, descriptors)) = self.receive(None)? else { return Ok(None) };
        self.number = number;
        Ok(Some((order, descriptors)))
    }

    /// Answers the order that was taken last.
    pub(super) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.send(answer, &[])
    }

    fn send(&mut self, body: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let message = Message { number: self.number, descriptors: descriptors.len(), body };
        let bytes = serde_json::to_vec(&message)?;
        let (first, rest) = descriptors.split_at(descriptors.len().min(DESCRIPTORS_MAX));
        self.put(&bytes, first)?;
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

    /// A message with its number and descriptors.
    fn receive<B: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> io::Result<Option<(u64, B, Vec<OwnedFd>)>> {
        let Some((bytes, mut descriptors)) = self.get(deadline)? else { return Ok(None) };
        let message: Message<B> = serde_json::from_slice(&self.buffer[..bytes])?;
        while descriptors.len() < message.descriptors {
            let (_, more) = self.get(deadline)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            descriptors.extend(more);
        }
        Ok(Some((message.number, message.body, descriptors)))
    }

    fn get(&mut self, deadline: Option<Instant>) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
        loop {
            match socket::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(received) => return Ok(received.map(|received| (received.bytes, received.descriptors))),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                // A peer that died with unread messages.
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

/// A text of any length as a descriptor.
pub(super) fn text_to_descriptor(text: &str) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("vermeil.toml", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file.into())
}

/// The text that such a descriptor holds, which others may be reading too.
pub(super) fn text_of_descriptor(descriptor: OwnedFd) -> io::Result<String> {
    let file = File::from(descriptor);
    let mut text = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut text, 0)?;
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    #[test]
    fn orders_come_with_all_their_descriptors() {
        let (mut supervisor, theirs) = pair().unwrap();
        let instance = thread::spawn(move || {
            let mut link = Link::new(theirs);
            let (order, descriptors) = link.next_order().unwrap().expect("an order");
            let Order::Prepare { listen, .. } = order else { panic!("{order:?}") };
            let mut descriptors = descriptors.into_iter();
            let text = text_of_descriptor(descriptors.next().unwrap()).unwrap();
            let addrs = descriptors.map(|fd| TcpListener::from(fd).local_addr().unwrap());
            assert_eq!((text.len(), addrs.collect::<Vec<_>>()), (300_000, vec![listen[0]; 150]));
            // What was asked before is nobody's any more.
            link.number -= 1;
            link.answer(&Answer::Forgotten).unwrap();
            link.number += 1;
            link.answer(&Answer::Prepared).unwrap();
            assert!(link.next_order().unwrap().is_none());
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = text_to_descriptor(&"x".repeat(300_000)).unwrap();
        let mut descriptors = vec![text.as_fd()];
        descriptors.resize(151, listener.as_fd());
        let order = Order::Prepare { listen: vec![listener.local_addr().unwrap()], added: Vec::new() };
        let answer = supervisor.ask(&order, &descriptors, Duration::from_secs(30)).unwrap();
        assert!(matches!(answer, Answer::Prepared), "{answer:?}");
        drop(supervisor);
        instance.join().unwrap();
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let (mut supervisor, theirs) = pair().unwrap();
        let late = supervisor.ask(&Order::Status, &[], Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
        assert!(supervisor.ask(&Order::Status, &[], Duration::from_secs(30)).is_err());
    }
}
