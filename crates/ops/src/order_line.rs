//! The line to a small process beside the server: one order at a time, and its answer.
//!
//! An answer repeats the number of its order. So the server passes over the late answer to an order
//! that it has given up, and a lost answer costs only its own order. A process that hangs delays
//! one order, and the next orders a moment only. Leaves out the content of the orders (`broker/`,
//! `key_reader/`) and the transport (`messages.rs`). Tested below.

use crate::messages::Messages;
use rustix::io::Errno;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How long an order waits while an earlier answer is overdue. The end of a server gives an order
/// for each unix socket, so a process that hangs delays the end by that time for each.
const OVERDUE_PATIENCE: Duration = Duration::from_millis(100);

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
    /// Whether an order was given up, and no answer has come since.
    is_overdue: bool,
}

impl OrderLine {
    pub(crate) fn new(messages: Messages) -> Self {
        Self { messages, number: 0, is_overdue: false }
    }

    /// Gives an order, and returns the answer with its descriptors. `None` once the process has
    /// ended. While an earlier answer is overdue, the order waits for [`OVERDUE_PATIENCE`] only.
    ///
    /// # Errors
    /// The answer did not come in time, or was lost. The next order may be answered.
    pub(crate) fn ask<A: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        patience: Duration,
    ) -> io::Result<Option<(A, Vec<OwnedFd>)>> {
        if self.is_overdue && !self.messages.has_room() {
            // The process takes no orders, so sending would wait too.
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.number += 1;
        match self.messages.send(&NumberedBody { number: self.number, body: order }, &[]) {
            Err(error) if has_ended(&error) => return Ok(None),
            sent => sent?,
        }
        let given = Instant::now();
        loop {
            let patience = if self.is_overdue { patience.min(OVERDUE_PATIENCE) } else { patience };
            let received = self.messages.receive::<NumberedBody<A>>(Some(given + patience));
            // Every answer shows that the process works, also a late or lost one.
            self.is_overdue = matches!(&received, Err(error) if error.kind() == io::ErrorKind::TimedOut);
            match received.map_err(named)? {
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
    use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd as _, sync::mpsc, thread};

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
        let mut process = OrderLine::new(process);
        let slow = process.next_order::<String>().unwrap().expect("an order");
        process.answer(&slow, &[]).unwrap();
        let answering = answered(1, process);
        assert_eq!(line.ask::<String>(&"next", PATIENCE).unwrap().expect("the process lives").0, "next");
        answering.join().unwrap();
        assert!(line.ask::<String>(&"none", PATIENCE).unwrap().is_none(), "the process has ended");
    }

    /// Regression: each order to a broker that hung waited for half a minute, so a server with many
    /// unix sockets took minutes to end.
    #[test]
    fn hung_process_delays_one_order() {
        let (mut line, _hung) = pair();
        let (say_done, done) = mpsc::channel();
        let asking = thread::spawn(move || {
            for patience in std::iter::once(Duration::ZERO).chain([Duration::from_secs(3600); 20]) {
                // Long orders, so that the process soon has no room for more.
                let late = line.ask::<String>(&"x".repeat(32 << 10), patience).unwrap_err();
                assert_eq!(late.kind(), io::ErrorKind::TimedOut);
            }
            say_done.send(()).unwrap();
        });
        done.recv_timeout(PATIENCE).expect("the next orders are given up soon");
        asking.join().unwrap();
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
