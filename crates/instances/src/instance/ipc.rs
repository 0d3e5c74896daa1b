//! Messages between supervisor and instance: orders and answers, one at a time, with the sockets
//! and the configuration as descriptors.
//!
//! Both ends are the same binary, so the protocol has no versions. An answer repeats the number of
//! its order, so that a late answer is skipped. Execution (`supervise/instance_handle.rs`,
//! `instance/mod.rs`) and transport ([`vermeil_ops::messages`]) live elsewhere. Tested below.

use serde::{Deserialize, Serialize};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};
use vermeil_accept::balance::Neighbours;
use vermeil_address::ListenAddr;
use vermeil_config::ConfigText;
use vermeil_io::{read_sealed, sealed_memory};
use vermeil_ops::{messages::Messages, status::InstanceStatus};
use vermeil_tls::TicketSecret;
use vermeil_topology::Instance;

/// Bytes of an answer in a memory file: the status of seven thousand PHP pools, at about 2 KB each.
/// The supervisor holds the answers of all instances, and an instance may be under an attacker's
/// control.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Longest reason of a refusal, in bytes; the rest is cut.
const REASON_BYTES_MAX: usize = 64 << 10;

/// Longest line for the log, in bytes; the rest is cut.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Lines for the log, and their bytes in all. A configuration with more problems needs no list of
/// every problem.
const LINES_MAX: (usize, usize) = (1000, 1 << 20);

/// An order of the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InstanceCommand {
    /// Serve. Descriptors: the text of the configuration, the text with the fixed settings, the
    /// board, the sockets by address and core.
    Start(Assignment),
    /// Prepare another configuration. Descriptors: the text, and the sockets of added addresses.
    Prepare {
        /// All addresses, as configured.
        listen: Vec<ListenAddr>,
        /// Added addresses, as configured and as bound.
        added: Vec<(ListenAddr, ListenAddr)>,
    },
    /// Switch to the prepared configuration.
    Take,
    /// Drop the prepared configuration.
    Forget,
    /// Report the status.
    Status,
    /// Report the share of the full weight that balancers should give to this instance.
    Weight,
    /// Another server has taken over, so balancers need no message when this server stops.
    HandedOver,
}

/// Everything that an instance cannot find out alone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Number of the instance.
    pub number: u32,
    /// Cpus and nodes of the instance.
    pub instance: Instance,
    /// First core of the instance, among the cores of all instances.
    pub first_core: usize,
    /// Number of cores of all instances.
    pub cores: usize,
    pub neighbours: Neighbours,
    /// Addresses as configured and as bound.
    pub listening: Vec<(ListenAddr, ListenAddr)>,
    /// The addresses among these, as configured, whose sockets the service manager passed.
    pub passed: Vec<ListenAddr>,
    /// For each address, the number of sockets of this instance.
    pub sockets: Vec<usize>,
    /// Whether the text of a configuration comes along.
    pub has_text: bool,
    /// Whether the text of an earlier configuration comes along, with the settings that only a
    /// restart of the server changes.
    pub has_fixed_text: bool,
    /// Whether a board comes along.
    pub has_board: bool,
    /// The secret of TLS session tickets, which all instances share.
    pub tickets: TicketSecret,
}

/// An answer of an instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InstanceAnswer {
    /// The instance serves.
    Started,
    /// Another configuration is prepared.
    Prepared,
    /// The order is refused, for this reason.
    Refused(String),
    /// The configuration is in force; lines for the log.
    Taken(Vec<String>),
    Forgotten,
    Noted,
    Status(Box<InstanceStatus>),
    /// Share of the full weight, in hundredths.
    Weight(u32),
}

impl InstanceAnswer {
    /// The same with its texts cut to their bounds. The instance cuts, so that its answer arrives.
    /// The supervisor cuts too, because the instance may be under an attacker's control.
    fn cut(self) -> Self {
        match self {
            Self::Refused(mut why) => {
                why.truncate(why.floor_char_boundary(REASON_BYTES_MAX));
                Self::Refused(why)
            }
            Self::Taken(lines) => Self::Taken(cut_lines(lines)),
            answer => answer,
        }
    }
}

/// Cuts long lines, and replaces the lines beyond the bounds with a line that counts them. Lines
/// that were cut are within the bounds.
fn cut_lines(mut lines: Vec<String>) -> Vec<String> {
    let (count_max, bytes_max) = LINES_MAX;
    for line in &mut lines {
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
    }
    let bytes = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
    if lines.len() <= count_max && bytes(&lines) <= bytes_max {
        return lines;
    }
    // Room for the last line.
    let bytes_max = bytes_max - LINE_BYTES_MAX;
    let all = lines.len();
    lines.truncate(count_max - 1);
    while bytes(&lines) > bytes_max {
        lines.pop();
    }
    lines.push(format!("{} further lines are left out", all - lines.len()));
    lines
}

/// A message with the number of the order.
#[derive(Serialize, Deserialize)]
struct Numbered<B> {
    number: u64,
    body: B,
}

/// An end of the link.
#[derive(Debug)]
pub(crate) struct Ipc {
    messages: Messages,
    /// Number of the last order, given or received.
    number: u64,
}

/// Both ends of a link.
pub(crate) fn pair() -> io::Result<(Ipc, OwnedFd)> {
    let (messages, theirs) = Messages::pair()?;
    Ok((Ipc { messages: messages.with_long_bytes_max(ANSWER_BYTES_MAX), number: 0 }, theirs))
}

impl Ipc {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { messages: Messages::new(socket), number: 0 }
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// The other end is closed, or does not answer in time.
    pub(crate) fn ask(
        &mut self,
        order: &InstanceCommand,
        descriptors: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> io::Result<InstanceAnswer> {
        self.number += 1;
        self.messages.send(&Numbered { number: self.number, body: order }, descriptors)?;
        let deadline = Instant::now() + patience;
        loop {
            let received = self.messages.receive::<Numbered<InstanceAnswer>>(Some(deadline))?;
            let (Numbered { number, body }, _) = received.ok_or(io::ErrorKind::UnexpectedEof)?;
            if number == self.number {
                return Ok(body.cut());
            }
            // Late answers that have arrived already are read without a wait.
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Waits for an order. `None` once the other end is closed.
    pub(crate) fn next_order(&mut self) -> io::Result<Option<(InstanceCommand, Vec<OwnedFd>)>> {
        let received = self.messages.receive::<Numbered<InstanceCommand>>(None)?;
        Ok(received.map(|(Numbered { number, body }, descriptors)| {
            self.number = number;
            (body, descriptors)
        }))
    }

    /// Answers the last order received.
    pub(crate) fn answer(&mut self, answer: InstanceAnswer) -> io::Result<()> {
        self.messages.send(&Numbered { number: self.number, body: answer.cut() }, &[])
    }
}

/// Writes a configuration of any length to a memory file. All instances share the file, so the file
/// is sealed: no instance changes the configuration of another.
pub(crate) fn text_to_descriptor(text: &ConfigText) -> io::Result<OwnedFd> {
    sealed_memory(c"vermeil.toml", vermeil_config::to_json(text)?.as_bytes())
}

/// Reads the configuration of such a descriptor.
pub(crate) fn text_of_descriptor(descriptor: OwnedFd) -> io::Result<ConfigText> {
    let text = read_sealed(descriptor, u64::MAX)?;
    vermeil_config::of_json(&String::from_utf8(text).map_err(io::Error::other)?)
}

/// Whether the bytes are an answer.
#[cfg(feature = "fuzz")]
pub fn is_answer(bytes: &[u8]) -> bool {
    vermeil_ops::messages::read::<Numbered<InstanceAnswer>>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Write as _, net::TcpListener, os::fd::AsFd as _, thread};

    #[test]
    fn orders_come_with_all_their_descriptors() {
        let (mut supervisor, theirs) = pair().unwrap();
        let instance = thread::spawn(move || {
            let mut link = Ipc::new(theirs);
            let (order, descriptors) = link.next_order().unwrap().expect("an order");
            let InstanceCommand::Prepare { listen, .. } = order else { panic!("{order:?}") };
            let mut descriptors = descriptors.into_iter();
            let text = text_of_descriptor(descriptors.next().unwrap()).unwrap();
            let addrs = descriptors.map(|fd| TcpListener::from(fd).local_addr().unwrap());
            assert_eq!(
                (text.main().len(), addrs.collect::<Vec<_>>()),
                (300_000, vec![listen[0].tcp().unwrap(); 150])
            );
            // A late answer to an earlier order is skipped.
            link.number -= 1;
            link.answer(InstanceAnswer::Forgotten).unwrap();
            link.number += 1;
            link.answer(InstanceAnswer::Prepared).unwrap();
            assert!(link.next_order().unwrap().is_none());
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = text_to_descriptor(&"x".repeat(300_000).into()).unwrap();
        let mut descriptors = vec![text.as_fd()];
        descriptors.resize(151, listener.as_fd());
        let order = InstanceCommand::Prepare {
            listen: vec![listener.local_addr().unwrap().into()],
            added: Vec::new(),
        };
        let answer = supervisor.ask(&order, &descriptors, Duration::from_secs(30)).unwrap();
        assert!(matches!(answer, InstanceAnswer::Prepared), "{answer:?}");
        drop(supervisor);
        instance.join().unwrap();
    }

    /// Regression: the kernel refused a long answer, and the instance took the error for the end of
    /// the supervisor.
    #[test]
    fn answer_of_a_megabyte_arrives() {
        let (mut supervisor, theirs) = pair().unwrap();
        let instance = thread::spawn(move || {
            let mut link = Ipc::new(theirs);
            link.next_order().unwrap().expect("an order");
            link.answer(InstanceAnswer::Taken(vec!["x".repeat(1000); 1000])).unwrap();
        });
        let answer = supervisor.ask(&InstanceCommand::Take, &[], Duration::from_secs(30)).unwrap();
        let InstanceAnswer::Taken(lines) = answer else { panic!("another answer") };
        assert!(lines.len() == 1000 && lines.iter().all(|line| line.len() == 1000));
        instance.join().unwrap();
    }

    #[test]
    fn long_answer_of_captured_instance_is_refused() {
        let (mut supervisor, theirs) = pair().unwrap();
        let instance = thread::spawn(move || {
            let captured = Ipc::new(theirs);
            let why = InstanceAnswer::Refused("x".repeat(ANSWER_BYTES_MAX as usize));
            captured.messages.send(&Numbered { number: 1, body: why }, &[]).unwrap();
            let lines = InstanceAnswer::Taken((0..300_000).map(|at| at.to_string()).collect());
            captured.messages.send(&Numbered { number: 2, body: lines }, &[]).unwrap();
            captured
        });
        let mut ask = || supervisor.ask(&InstanceCommand::Take, &[], Duration::from_secs(30));
        assert_eq!(ask().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let InstanceAnswer::Taken(lines) = ask().unwrap() else { panic!("another answer") };
        assert_eq!((lines.len(), &*lines[999]), (1000, "299001 further lines are left out"));
        instance.join().unwrap();
    }

    #[test]
    fn texts_of_answers_are_cut() {
        let InstanceAnswer::Refused(why) = InstanceAnswer::Refused("ä".repeat(REASON_BYTES_MAX)).cut()
        else {
            panic!("another answer")
        };
        assert_eq!(why.len(), REASON_BYTES_MAX);
        let lines = cut_lines(vec!["x".repeat(1 << 20); 70]);
        assert_eq!((lines.len(), lines[62].len()), (64, LINE_BYTES_MAX));
        assert_eq!(lines[63], "7 further lines are left out");
        assert_eq!(cut_lines(lines.clone()), lines, "the supervisor cuts again");
        let lines = cut_lines(vec!["x".to_owned(); 5000]);
        assert_eq!((lines.len(), &*lines[999]), (1000, "4001 further lines are left out"));
        assert_eq!(cut_lines(lines.clone()), lines);
    }

    #[test]
    fn configuration_for_all_instances_cannot_be_changed() {
        let memory = text_to_descriptor(&"text".to_owned().into()).unwrap();
        let mut writer = File::from(memory.try_clone().unwrap());
        assert_eq!(writer.write(b"other").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(text_of_descriptor(memory).unwrap().main(), "text");
    }

    /// Regression: late answers that kept arriving held the supervisor beyond its deadline.
    #[test]
    fn late_answers_do_not_extend_the_deadline() {
        let (mut supervisor, theirs) = pair().unwrap();
        let instance = thread::spawn(move || {
            let mut link = Ipc::new(theirs);
            link.number = 1000;
            // Ends when the supervisor closes the link.
            while link.answer(InstanceAnswer::Forgotten).is_ok() {}
        });
        let late = supervisor.ask(&InstanceCommand::Status, &[], Duration::from_millis(20)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(supervisor);
        instance.join().unwrap();
    }

    #[test]
    fn silent_instance_is_not_awaited() {
        let (mut supervisor, theirs) = pair().unwrap();
        let late = supervisor.ask(&InstanceCommand::Status, &[], Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
        assert!(supervisor.ask(&InstanceCommand::Status, &[], Duration::from_secs(30)).is_err());
    }
}
