//! What the supervisor and an instance say to each other: orders and answers, one at a time, with the sockets and the
//! configuration as descriptors.
//!
//! Both ends are one binary, so there are no versions. An answer repeats its order's number: one that came too late is
//! passed over. Leaves out what is done (`member.rs`, `instance.rs`) and how messages travel (`messages.rs`). Tested below.

use crate::{balance::Neighbours, messages::Messages, status::InstanceStatus};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write as _},
    net::SocketAddr,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    time::{Duration, Instant},
};
use vermeil_topology::Instance;

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
    /// Another server has taken over: when it stops, balancers need not be told.
    HandedOver,
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
    /// Of each address, how many sockets are this instance's.
    pub(super) sockets: Vec<usize>,
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
    Noted,
    Status(Box<InstanceStatus>),
    /// In hundredths.
    Weight(u32),
}

/// A message with the number of its order.
#[derive(Serialize, Deserialize)]
struct Numbered<B> {
    number: u64,
    body: B,
}

/// One end.
#[derive(Debug)]
pub(super) struct Link {
    messages: Messages,
    /// Of the order that was given or taken last.
    number: u64,
}

/// Two ends.
pub(super) fn pair() -> io::Result<(Link, OwnedFd)> {
    let (messages, theirs) = Messages::pair()?;
    Ok((Link { messages, number: 0 }, theirs))
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { messages: Messages::new(socket), number: 0 }
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
        self.messages.send(&Numbered { number: self.number, body: order }, descriptors)?;
        let deadline = Instant::now() + patience;
        loop {
            let received = self.messages.receive::<Numbered<Answer>>(Some(deadline))?;
            let (Numbered { number, body }, _) = received.ok_or(io::ErrorKind::UnexpectedEof)?;
            if number == self.number {
                return Ok(body);
            }
        }
    }

    /// Waits for an order; nothing when the other end is closed.
    pub(super) fn next_order(&mut self) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
        let received = self.messages.receive::<Numbered<Order>>(None)?;
        Ok(received.map(|(Numbered { number, body }, descriptors)| {
            self.number = number;
            (body, descriptors)
        }))
    }

    /// Answers the order that was taken last.
    pub(super) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.messages.send(&Numbered { number: self.number, body: answer }, &[])
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

/// Whether the bytes are an answer.
#[cfg(feature = "fuzz")]
pub(super) fn is_answer(bytes: &[u8]) -> bool {
    crate::messages::read::<Numbered<Answer>>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, os::fd::AsFd as _, thread};

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
