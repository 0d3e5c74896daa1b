//! The spawner's loop: requests in, programs started, their ends told.
//!
//! One thread, one epoll over the channels and the descriptors of the programs. A program that ended takes its process
//! group with it; a channel that closed takes its programs. When all are closed the server has gone, and so goes the
//! spawner. Answers that find no room wait, and their channel's requests with them. Leaves out what happens between
//! clone and exec (`child.rs`). Tested with real processes (`tests/processes.rs`).

use crate::{
    child::{Stack, Strings},
    error::Step,
    jobs::{Asker, Job, Jobs},
    look::Refused,
    process,
    profile::Profile,
    ready::{Ready, Room},
    reply::{End, Exit, Reply, at},
    request::{Content, Message, Order, REQUEST_BYTES_MAX, Told},
    socket,
    stall::StallTimer,
    wire::Reader,
};
use rustix::{
    event::{Timespec, epoll},
    io::Errno,
    process::{Pid, Signal},
};
use std::{
    collections::VecDeque,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

/// Events taken from the kernel at once. Guess: enough for a busy machine, a page of memory.
const EVENTS_MAX: usize = 128;

/// Requests of one channel before the others get their turn. Guess: some milliseconds of work.
const REQUESTS_PER_TURN: usize = 16;

/// Marks an event as one of a program; the rest is its place. Others are of the channel of that number.
const OF_JOB: u64 = 1 << 32;

/// The event of the keeper's line.
const OF_KEEPER: u64 = u32::MAX as u64;

/// The spawner's end of a channel, and the answers that found no room.
struct Line {
    socket: OwnedFd,
    unsent: VecDeque<(Reply, Option<OwnedFd>)>,
    /// Whether room is waited for, rather than requests.
    is_full: bool,
}

struct Spawner<'k> {
    generation: u32,
    ready: Vec<Ready>,
    /// On which the keeper tells of profiles, until it has gone.
    keeper: Option<OwnedFd>,
    lines: Vec<Option<Line>>,
    jobs: Jobs,
    epoll: OwnedFd,
    room: Room,
    stall: &'k StallTimer,
}

/// Serves `channels` until all are closed.
///
/// # Errors
/// When there are no descriptors for it.
pub(crate) fn run(
    profiles: Vec<Profile>,
    channels: Vec<OwnedFd>,
    keeper: OwnedFd,
    stall: &StallTimer,
    generation: u32,
) -> Result<(), Errno> {
    let mut spawner = Spawner::new(profiles, channels, keeper, stall, generation)?;
    for channel in 0..spawner.lines.len() {
        spawner.reply(channel, Reply::Hello { generation }, None);
    }
    let mut buffer = vec![0; REQUEST_BYTES_MAX].into_boxed_slice();
    let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
    while spawner.lines.iter().any(Option::is_some) {
        let timeout = spawner.next_deadline();
        let found = match epoll::wait(&spawner.epoll, &mut events, timeout.as_ref()) {
            Ok((found, _)) => found,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        for event in found {
            let data = event.data.u64();
            if data == OF_KEEPER {
                spawner.hear_keeper();
                continue;
            }
            match usize::try_from(data & (OF_JOB - 1)).expect("32 bits") {
                key if data & OF_JOB != 0 => spawner.end(key),
                channel => spawner.serve(channel, &mut buffer),
            }
        }
    }
    spawner.jobs.kill_all(|_| true);
    Ok(())
}

impl<'k> Spawner<'k> {
    fn new(
        profiles: Vec<Profile>,
        channels: Vec<OwnedFd>,
        keeper: OwnedFd,
        stall: &'k StallTimer,
        generation: u32,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, channel) in channels.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, channel, data, epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, &keeper, epoll::EventData::new_u64(OF_KEEPER), epoll::EventFlags::IN)?;
        let lines =
            channels.into_iter().map(|socket| Some(Line { socket, unsent: VecDeque::new(), is_full: false }));
        Ok(Self {
            generation,
            ready: profiles.into_iter().map(Ready::new).collect(),
            keeper: Some(keeper),
            lines: lines.collect(),
            jobs: Jobs::default(),
            epoll,
            stall,
            room: Room { stack: Stack::new(), arguments: Strings::default(), variables: Strings::default() },
        })
    }

    /// Takes the profiles that the keeper tells of.
    fn hear_keeper(&mut self) {
        // Seldom, so its memory is not kept.
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        while let Some(keeper) = &self.keeper {
            match socket::receive(keeper.as_fd(), &mut buffer) {
                Ok(Some(received)) => {
                    // It has judged them, and they are its own words.
                    let profile = buffer[..received.bytes].split_first();
                    let profile = profile.and_then(|(_, bytes)| Profile::read(&mut Reader::new(bytes)).ok());
                    self.ready.push(Ready::new(profile.expect("the keeper's own words")));
                }
                Err(Errno::AGAIN) => return,
                Ok(None) | Err(_) => self.keeper = None,
            }
        }
    }

    /// Kills what is late; gives how long the next one has.
    fn next_deadline(&mut self) -> Option<Timespec> {
        if self.jobs.has_no_deadline() {
            return None;
        }
        let now = Instant::now();
        let left = self.jobs.kill_late(now)?.saturating_duration_since(now);
        // Rounded up by epoll, or the loop would turn until the moment has come.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    /// Sends what waits on a channel, or takes requests from it.
    fn serve(&mut self, channel: usize, buffer: &mut [u8]) {
        if !self.send_unsent(channel) {
            return;
        }
        for _ in 0..REQUESTS_PER_TURN {
            let Some(line) = &self.lines[channel] else { return };
            match socket::receive(line.socket.as_fd(), buffer) {
                Ok(Some(received)) => self.take(channel, &buffer[..received.bytes], received.descriptors),
                Err(Errno::AGAIN) => return,
                // Too long, or no descriptor was free for what came with it: whoever sent it waits in vain, in its limits.
                Err(Errno::MSGSIZE) => {}
                Ok(None) | Err(_) => return self.close(channel),
            }
        }
    }

    fn take(&mut self, channel: usize, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        let Ok(message) = Message::read(bytes) else { return };
        // Meant for a spawner that has died: the server has given it up when it hears of us.
        if message.generation != self.generation {
            return;
        }
        let asker = Asker { channel, job: message.job };
        match message.content {
            Content::Kill { signal } => {
                if let (Some(job), Some(signal)) = (self.jobs.of(asker), Signal::from_named_raw(signal)) {
                    job.signal(signal);
                }
            }
            Content::Start(order) => match self.start(asker, &order, &descriptors) {
                Ok(_) if order.told == Told::Nothing => {}
                Ok((pid, descriptor)) => {
                    let pid = pid.as_raw_nonzero().get().unsigned_abs();
                    self.reply(channel, Reply::Started { job: message.job, pid }, descriptor);
                }
                Err((path, fault)) => {
                    self.reply(channel, Reply::Failed { job: message.job, path, fault }, None);
                }
            },
        }
    }

    /// Starts a program; gives its process, and a descriptor of it if that was asked for.
    fn start(
        &mut self,
        asker: Asker,
        order: &Order<'_>,
        descriptors: &[OwnedFd],
    ) -> Result<(Pid, Option<OwnedFd>), Refused> {
        let nowhere = |step, errno| (PathBuf::from("a program"), at(step)(errno));
        let [stdin, stdout, stderr] = descriptors else {
            return Err(nowhere(Step::Request, Errno::INVAL));
        };
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        if order.profile as usize >= self.ready.len() {
            // The keeper tells us before it tells the server.
            self.hear_keeper();
        }
        let ready =
            self.ready.get(order.profile as usize).ok_or_else(|| nowhere(Step::Profile, Errno::NOENT))?;
        let (pid, descriptor) = ready.start(order, stdio, &mut self.room, self.stall)?;
        let watched = (|| {
            let data = epoll::EventData::new_u64(OF_JOB | self.jobs.next_key() as u64);
            epoll::add(&self.epoll, &descriptor, data, epoll::EventFlags::IN)?;
            match order.told {
                Told::StartWithDescriptor => descriptor.try_clone().map(Some),
                Told::Start | Told::Nothing => Ok(None),
            }
        })();
        let job = Job { asker, pid, descriptor, late: false };
        match watched {
            Ok(handed_out) => {
                self.jobs.insert(job, order.time_limit.map(|limit| Instant::now() + limit));
                Ok((pid, handed_out))
            }
            Err(_) => {
                job.signal(Signal::KILL);
                let _ = process::reap(pid);
                Err(nowhere(Step::Clone, Errno::MFILE))
            }
        }
    }

    /// Tells the end of the program at `key`.
    fn end(&mut self, key: usize) {
        let Some(job) = self.jobs.remove(key) else { return };
        // The server may have a copy, and so has a child that goes on after its clone and has not closed it by executing yet:
        // closing ours would leave it watched, and tell the end of whoever gets its place.
        let unwatched = epoll::delete(&self.epoll, &job.descriptor);
        debug_assert!(unwatched.is_ok(), "a program is watched until its end");
        // Before it is waited for: its number is still its group's, and nobody else's.
        job.signal(Signal::KILL);
        let (end, usage) = process::reap(job.pid).unwrap_or((End::Signal(0), Default::default()));
        let end = if job.late { End::Late } else { end };
        let exit = Exit { end, usage };
        self.reply(job.asker.channel, Reply::Exited { job: job.asker.job, exit }, None);
    }

    fn close(&mut self, channel: usize) {
        self.lines[channel] = None;
        self.jobs.kill_all(|of| of == channel);
    }

    fn reply(&mut self, channel: usize, reply: Reply, descriptor: Option<OwnedFd>) {
        let Some(line) = &mut self.lines[channel] else { return };
        line.unsent.push_back((reply, descriptor));
        if !line.is_full {
            self.send_unsent(channel);
        }
    }

    /// Sends the answers that wait on a channel; says whether it is open and none waits any more.
    fn send_unsent(&mut self, channel: usize) -> bool {
        let Some(line) = &mut self.lines[channel] else { return false };
        while let Some((reply, descriptor)) = line.unsent.front() {
            let descriptors: Vec<BorrowedFd<'_>> = descriptor.iter().map(AsFd::as_fd).collect();
            match socket::send(line.socket.as_fd(), &reply.to_bytes(), &descriptors) {
                Ok(()) => drop(line.unsent.pop_front()),
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(_) => {
                    self.close(channel);
                    return false;
                }
            }
        }
        let is_full = !line.unsent.is_empty();
        if std::mem::replace(&mut line.is_full, is_full) != is_full {
            self.listen_for(channel, if is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::IN });
        }
        !is_full
    }

    fn listen_for(&self, channel: usize, flags: epoll::EventFlags) {
        if let Some(line) = &self.lines[channel] {
            let data = epoll::EventData::new_u64(channel as u64);
            let changed = epoll::modify(&self.epoll, &line.socket, data, flags);
            debug_assert!(changed.is_ok(), "a channel is registered as long as it is open");
        }
    }
}
