//! The client: one core's line to the spawner. It never blocks, and needs nothing but to be told when there is something
//! to read.
//!
//! ```text
//! spawn ──▶ (waiting, if the socket is full) ──▶ sent ──▶ Started ──▶ Exited
//!                     kill ▼                        ▼         ▼
//!                  Failed(Withdrawn)        Failed(why, or Lost when the spawner died)
//! ```
//!
//! A channel outlives spawners: when one is killed the next says so on it, and everything that was asked of the last is
//! lost, whether it had been started or not. Tested with real processes (`tests/processes.rs`).

use crate::{
    error::SpawnError,
    reply::{Exit, Reply},
    request::{REQUEST_BYTES_MAX, Request, address, kill_message},
    socket,
};
use rustix::io::Errno;
use std::{
    collections::{BTreeSet, VecDeque},
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Requests that wait because the socket is full; each holds three descriptors. Guess: the spawner starts so many in a
/// tenth of a second.
const WAITING_MAX: usize = 256;

/// Bytes of the longest answer: a path of 4,096 bytes and some numbers.
const REPLY_BYTES_MAX: usize = 8192;

/// A program that was asked for. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// What a program gets as standard input, output and error. They may be anything: pipes, files, a listening socket.
#[derive(Debug)]
pub struct Stdio {
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

/// What has become of a program.
#[derive(Debug)]
pub enum Event {
    /// It runs.
    Started {
        /// Which.
        job: JobId,
        /// The number of its process, and of its group.
        pid: u32,
        /// A descriptor of its process, if the request asked for one.
        descriptor: Option<OwnedFd>,
    },
    /// It was not started, or was lost. Nothing more comes.
    Failed {
        /// Which.
        job: JobId,
        /// Why.
        error: SpawnError,
    },
    /// It has ended, and its process group with it. Nothing more comes.
    Exited {
        /// Which.
        job: JobId,
        /// How, and what it used.
        exit: Exit,
    },
}

/// A line to the spawner.
pub struct Channel {
    socket: OwnedFd,
    generation: u32,
    is_gone: bool,
    jobs: u64,
    /// Sent to this generation's spawner and not ended.
    sent: BTreeSet<JobId>,
    waiting: VecDeque<Waiting>,
    /// To be told before anything is read.
    ended: VecDeque<(JobId, SpawnError)>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct Waiting {
    job: JobId,
    message: Vec<u8>,
    stdio: Option<Stdio>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, is_gone, sent, waiting, .. } = self;
        let waiting = waiting.len();
        write!(
            f,
            "Channel {{ generation: {generation}, is_gone: {is_gone}, sent: {sent:?}, waiting: {waiting} }}"
        )
    }
}

impl Channel {
    /// Takes over a socket on which a spawner has said that it serves.
    pub(crate) fn open(socket: OwnedFd) -> io::Result<Self> {
        let mut channel = Self {
            socket,
            generation: 0,
            is_gone: false,
            jobs: 0,
            sent: BTreeSet::new(),
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
            buffer: vec![0; REPLY_BYTES_MAX].into(),
        };
        channel.receive()?;
        if channel.is_gone || channel.generation == 0 { Err(Errno::PIPE.into()) } else { Ok(channel) }
    }

    /// A descriptor that becomes readable when [`Channel::receive`] has something new.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Whether neither spawner nor keeper are left, and none will come.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Programs asked for that have not ended.
    pub fn unfinished(&self) -> usize {
        self.sent.len() + self.waiting.iter().filter(|waiting| waiting.stdio.is_some()).count()
    }

    /// Asks for a program. Its descriptors are closed here once the spawner has them.
    ///
    /// # Errors
    /// When the request cannot be sent, now or ever; nothing of it will happen.
    pub fn spawn(&mut self, request: Request, stdio: Stdio) -> Result<JobId, SpawnError> {
        if let Some(what) = request.invalid() {
            return Err(SpawnError::Invalid { what });
        }
        let message = request.into_bytes();
        if message.len() > REQUEST_BYTES_MAX {
            return Err(SpawnError::TooLong { bytes: message.len() });
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(SpawnError::Busy { waiting: self.waiting.len() });
        }
        if self.is_gone {
            return Err(SpawnError::Gone);
        }
        let job = JobId(self.jobs);
        self.jobs += 1;
        self.waiting.push_back(Waiting { job, message, stdio: Some(stdio) });
        self.send_waiting();
        Ok(job)
    }

    /// Kills a program's process group. A request that was not sent is withdrawn; a program that has ended is left alone.
    pub fn kill(&mut self, job: JobId) {
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.job == job) {
            if self.waiting[place].stdio.is_some() {
                self.waiting.remove(place);
                self.ended.push_back((job, SpawnError::Withdrawn));
            }
            return;
        }
        if self.sent.contains(&job) {
            let message = kill_message(libc::SIGKILL as u8);
            self.waiting.push_back(Waiting { job, message, stdio: None });
            self.send_waiting();
        }
    }

    /// What is new, if anything. To be called until it gives nothing whenever the descriptor is readable, and after
    /// [`Channel::kill`].
    ///
    /// # Errors
    /// When the socket fails in a way it should not.
    pub fn receive(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some((job, error)) = self.ended.pop_front() {
                return Ok(Some(Event::Failed { job, error }));
            }
            if self.is_gone {
                return Ok(None);
            }
            let received = match socket::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(Some(received)) => received,
                Err(Errno::AGAIN) => return Ok(None),
                // What came with it found no descriptor: the message is lost, and with it what it was about.
                Err(Errno::MSGSIZE) => continue,
                Ok(None) | Err(Errno::CONNRESET | Errno::PIPE) => {
                    self.lose_everything();
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            };
            let reply = Reply::from_bytes(&self.buffer[..received.bytes]);
            let event = reply.ok().and_then(|reply| self.hear(reply, received.descriptors));
            // The spawner has taken something, so there may be room.
            self.send_waiting();
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn hear(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) -> Option<Event> {
        match reply {
            Reply::Hello { generation } => {
                self.generation = generation;
                self.lose_sent(|| SpawnError::Lost);
                None
            }
            Reply::Started { job, pid } => {
                let descriptor = descriptors.into_iter().next();
                Some(Event::Started { job: JobId(job), pid, descriptor })
            }
            Reply::Failed { job, path, fault } => {
                self.sent.remove(&JobId(job));
                Some(Event::Failed { job: JobId(job), error: SpawnError::Failed { path, fault } })
            }
            Reply::Exited { job, exit } => {
                self.sent.remove(&JobId(job));
                Some(Event::Exited { job: JobId(job), exit })
            }
        }
    }

    fn send_waiting(&mut self) {
        while let Some(waiting) = self.waiting.front_mut() {
            address(&mut waiting.message, self.generation, waiting.job.0);
            let stdio = waiting.stdio.as_ref();
            let descriptors: Vec<BorrowedFd<'_>> = stdio
                .into_iter()
                .flat_map(|stdio| [&stdio.stdin, &stdio.stdout, &stdio.stderr])
                .map(AsFd::as_fd)
                .collect();
            match socket::send(self.socket.as_fd(), &waiting.message, &descriptors) {
                Ok(()) => {
                    if waiting.stdio.is_some() {
                        self.sent.insert(waiting.job);
                    }
                    self.waiting.pop_front();
                }
                // The end of the connection is noticed where it is read. Too many descriptors in flight is full, too.
                Err(_) => return,
            }
        }
    }

    fn lose_everything(&mut self) {
        self.is_gone = true;
        self.lose_sent(|| SpawnError::Gone);
        let unsent = self.waiting.drain(..).filter(|waiting| waiting.stdio.is_some());
        self.ended.extend(unsent.map(|waiting| (waiting.job, SpawnError::Gone)));
    }

    fn lose_sent(&mut self, error: impl Fn() -> SpawnError) {
        let sent = std::mem::take(&mut self.sent);
        self.ended.extend(sent.into_iter().map(|job| (job, error())));
    }
}
