//! The client: one core's connection to the spawner. The client never blocks. The caller calls
//! [`Channel::receive`] when the socket is readable. While requests wait, the caller also calls
//! [`Channel::receive`] when the cause of the wait has gone ([`Channel::obstacle`]).
//!
//! ```text
//! spawn ──▶ (waiting, if the socket is full) ──▶ sent ──▶ Started ──▶ Exited
//!                     kill ▼                        ▼         ▼
//!                  Failed(Withdrawn)        Failed(why, or Lost when the spawner died)
//! ```
//!
//! A channel outlives spawners. When a spawner is killed, the next spawner says so on the channel.
//! All requests to the killed spawner are then lost, whether their programs had been started or
//! not. Tested with real processes (`tests/processes.rs`).

use crate::{
    error::SpawnError,
    reply::{ProgramExit, Reply},
    request::{ProgramRequest, REQUEST_BYTES_MAX, address, kill_message, look_message},
    socket,
};
use rustix::io::Errno;
use std::{
    collections::{BTreeSet, VecDeque},
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// Requests that wait because the socket is full; each holds three descriptors, so all hold 768. A
/// start takes some 180 µs (`bench cgi`), so the spawner starts so many in a twentieth of a second.
const WAITING_MAX: usize = 256;

/// Time until a request that the kernel refused is sent again. The kernel refuses a request while
/// too many descriptors are in flight, which ends without an event. A start takes some 180 µs, so
/// the spawner takes some 50 requests meanwhile, and a hundred attempts a second cost nothing.
pub const SEND_RETRY: Duration = Duration::from_millis(10);

/// Bytes of the longest answer: a path of 4,096 bytes and some numbers.
const REPLY_BYTES_MAX: usize = 8192;

/// A requested program. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// Standard input, output and error of a program. Any descriptor is allowed: pipes, files, a
/// listening socket.
#[derive(Debug)]
pub struct Stdio {
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

/// News about a program.
#[derive(Debug)]
pub enum ProgramEvent {
    /// The program runs: the answer to a request, or to [`Channel::look`].
    Started {
        /// The program.
        job: JobId,
        /// The number of the program's process, and of its process group.
        pid: u32,
        /// A descriptor of the process, if the request asked for a descriptor.
        descriptor: Option<OwnedFd>,
    },
    /// The program was not started, or was lost. No more events come for this job.
    Failed {
        /// The program.
        job: JobId,
        /// The reason.
        error: SpawnError,
    },
    /// The program has ended, and its process group with it. No more events come for this job.
    Exited {
        /// The program.
        job: JobId,
        /// How the program ended, and the resources that it used.
        exit: ProgramExit,
    },
}

/// Why requests wait in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendObstacle {
    /// The socket is full. The descriptor of [`Channel::readiness`] becomes writable when the
    /// socket has room.
    FullSocket,
    /// The kernel refused the message, for example because too many descriptors are in flight. No
    /// event tells when the kernel would take the message, so the caller waits for [`SEND_RETRY`].
    Refused,
}

/// A connection to the spawner.
pub struct Channel {
    socket: OwnedFd,
    generation: u32,
    is_gone: bool,
    jobs: u64,
    /// Requests sent to this generation's spawner that have not ended.
    sent: BTreeSet<JobId>,
    waiting: VecDeque<WaitingReply>,
    /// Why the first waiting request was not sent.
    obstacle: Option<SendObstacle>,
    /// Failures to report before anything is read.
    ended: VecDeque<(JobId, SpawnError)>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct WaitingReply {
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
    /// Takes over a socket on which a spawner has announced itself.
    pub(crate) fn open(socket: OwnedFd) -> io::Result<Self> {
        let mut channel = Self {
            socket,
            generation: 0,
            is_gone: false,
            jobs: 0,
            sent: BTreeSet::new(),
            waiting: VecDeque::new(),
            obstacle: None,
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

    /// Why requests wait; `None` if no request waits. The caller must call [`Channel::receive`]
    /// once the obstacle has gone, because an event of the spawner need not follow.
    pub fn obstacle(&self) -> Option<SendObstacle> {
        self.obstacle.filter(|_| !self.waiting.is_empty())
    }

    /// Whether spawner and keeper have both gone, so that no spawner will come.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Requested programs that have not ended.
    pub fn unfinished(&self) -> usize {
        self.sent.len() + self.waiting.iter().filter(|waiting| waiting.stdio.is_some()).count()
    }

    /// Asks for a program. The channel closes its copies of the descriptors once the spawner has
    /// them.
    ///
    /// # Errors
    ///
    /// When the request cannot be sent, now or ever. The request has no effect then.
    pub fn spawn(&mut self, request: ProgramRequest, stdio: Stdio) -> Result<JobId, SpawnError> {
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
        self.waiting.push_back(WaitingReply { job, message, stdio: Some(stdio) });
        self.send_waiting();
        Ok(job)
    }

    /// Kills a program's process group. A request that was not sent is withdrawn; a program that
    /// has ended is left alone.
    pub fn kill(&mut self, job: JobId) {
        let is_request = |waiting: &WaitingReply| waiting.job == job && waiting.stdio.is_some();
        match self.waiting.iter().position(is_request) {
            Some(place) => {
                self.waiting.remove(place);
                self.ended.push_back((job, SpawnError::Withdrawn));
            }
            None => self.say(job, kill_message(libc::SIGKILL as u8)),
        }
    }

    /// Asks whether a program runs. The answer is [`ProgramEvent::Started`], or the event of the
    /// program's end.
    pub fn look(&mut self, job: JobId) {
        self.say(job, look_message());
    }

    /// Sends a message about a program that the spawner has.
    fn say(&mut self, job: JobId, message: Vec<u8>) {
        if self.sent.contains(&job) {
            self.waiting.push_back(WaitingReply { job, message, stdio: None });
            self.send_waiting();
        }
    }

    /// The next event, if there is one. Also sends waiting requests. Call this until it returns no
    /// event whenever the descriptor is readable, after [`Channel::kill`], and when the
    /// [obstacle](Channel::obstacle) has gone.
    ///
    /// # Errors
    ///
    /// When the socket fails in an unexpected way.
    pub fn receive(&mut self) -> io::Result<Option<ProgramEvent>> {
        loop {
            if let Some((job, error)) = self.ended.pop_front() {
                return Ok(Some(ProgramEvent::Failed { job, error }));
            }
            if self.is_gone {
                return Ok(None);
            }
            let received = match socket::receive(self.socket.as_fd(), &mut self.buffer) {
                Ok(Some(received)) => received,
                Err(Errno::AGAIN) => {
                    self.send_waiting();
                    return Ok(None);
                }
                // No descriptor was free for the message. The message is lost, and its job with it.
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

    fn hear(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) -> Option<ProgramEvent> {
        match reply {
            Reply::Hello { generation } => {
                self.generation = generation;
                self.lose_sent(|| SpawnError::Lost);
                None
            }
            Reply::Started { job, pid } => {
                let descriptor = descriptors.into_iter().next();
                Some(ProgramEvent::Started { job: JobId(job), pid, descriptor })
            }
            Reply::Failed { job, path, fault } => {
                self.sent.remove(&JobId(job));
                Some(ProgramEvent::Failed { job: JobId(job), error: SpawnError::Failed { path, fault } })
            }
            Reply::Exited { job, exit } => {
                self.sent.remove(&JobId(job));
                Some(ProgramEvent::Exited { job: JobId(job), exit })
            }
        }
    }

    fn send_waiting(&mut self) {
        self.obstacle = None;
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
                Err(Errno::AGAIN) => {
                    self.obstacle = Some(SendObstacle::FullSocket);
                    return;
                }
                // The end of the connection is noticed by the read.
                Err(_) => {
                    self.obstacle = Some(SendObstacle::Refused);
                    return;
                }
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
