//! The line to a small process beside the server: one order at a time, and its answer.
//!
//! An answer repeats the number of its order. So the server passes over the late answer to an order
//! that it has given up, and a lost answer costs only its own order. Leaves out the content of the
//! orders (`broker/`, `key_reader/`) and the transport (`messages.rs`). Tested below.

use crate::messages::Messages;
use rustix::io::Errno;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// An order or an answer, with the number of the order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NumberedBody<B> {
    number: u64,
    body: B,
}

/// An end of the line.
#[derive(Debug)]
pub(crate) struct OrderLine {
    messages: Messages,
    /// The number of the last order, given or received.
    number: u64,
}

impl OrderLine {
    pub(crate) fn new(messages: Messages) -> Self {
        Self { messages, number: 0 }
    }

    /// Gives an order, and returns the answer with its descriptors. `None` once the process has
    /// ended.
    ///
    /// # Errors
    /// The answer did not come in time, or was lost. The next order may be answered.
    pub(crate) fn ask<A: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        patience: Duration,
    ) -> io::Result<Option<(A, Vec<OwnedFd>)>> {
        self.number += 1;
        match self.messages.send(&NumberedBody { number: self.number, body: order }, &[]) {
            Err(error) if has_ended(&error) => return Ok(None),
            sent => sent?,
        }
        let deadline = Some(Instant::now() + patience);
        loop {
            match self.messages.receive::<NumberedBody<A>>(deadline).map_err(named)? {
                None => return Ok(None),
                Some((NumberedBody { number, body }, descriptors)) if number == self.number => {
                    return Ok(Some((body, descriptors)));
                }
                // The late answer to an order that was given up.
                Some(_) => {}
            }
        }
    }

    /// Waits for an order. `None` once the server has closed the line.
    ///
    /// # Errors
    /// The order is malformed or too long.
    pub(crate) fn next_order<O: DeserializeOwned>(&mut self) -> io::Result<Option<O>> {
        let received = self.messages.receive::<NumberedBody<O>>(None)?;
        Ok(received.map(|(NumberedBody { number, body }, _)| {
            self.number = number;
            body
        }))
    }

    /// Answers the last order received.
    ///
    /// # Errors
    /// The server has closed the line, or has no room in time.
    pub(crate) fn answer(&self, answer: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.messages.send(&NumberedBody { number: self.number, body: answer }, descriptors)
    }
}

fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Names the cause of a cut answer. An answer always fits the buffer, so only its descriptors can
/// have found no room.
fn named(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::MSGSIZE) => Errno::MFILE.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd as _, thread};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A process that answers `count` orders, each with the text of the order.
    fn answered(count: usize, mut process: OrderLine) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            for _ in 0..count {
                let order = process.next_order::<String>().unwrap().expect("an order");
                process.answer(&order, &[]).unwrap();
            }
        })
    }

    fn pair() -> (OrderLine, Messages) {
        let (ours, theirs) = Messages::pair().unwrap();
        (OrderLine::new(ours), Messages::new(theirs))
    }

    /// Regression: after one late answer the server took the process for dead, and no certificate
    /// was ever renewed, and no log opened.
    #[test]
    fn late_answer_is_passed_over() {
        let (mut line, process) = pair();
        let late = line.ask::<String>(&"slow", Duration::ZERO).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let answering = answered(2, OrderLine::new(process));
        assert_eq!(line.ask::<String>(&"next", PATIENCE).unwrap().expect("the process lives").0, "next");
        answering.join().unwrap();
        assert!(line.ask::<String>(&"none", PATIENCE).unwrap().is_none(), "the process has ended");
    }

    /// Regression: without a free descriptor for one answer, no log was ever opened again.
    #[test]
    fn lost_descriptor_costs_one_order() {
        /// More than the receiver has room for.
        const MANY: usize = 80;
        let (mut line, process) = pair();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MANY))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [process.as_fd(); MANY];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&process, &[IoSlice::new(b"{}")], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        let lost = line.ask::<String>(&"lost", PATIENCE).unwrap_err();
        assert_eq!(Errno::from_io_error(&lost), Some(Errno::MFILE));
        let answering = answered(2, OrderLine::new(process));
        assert_eq!(line.ask::<String>(&"next", PATIENCE).unwrap().expect("the process lives").0, "next");
        answering.join().unwrap();
    }
}
