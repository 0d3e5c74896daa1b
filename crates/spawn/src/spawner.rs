//! The spawner's loop: takes requests, starts programs, reports their ends.
//!
//! The spawner has one thread and one epoll over the channels and the signal of children's ends.
//! The loop watches no descriptor for each process, because making, watching and closing such a
//! descriptor takes a tenth of a start. When a program ends, the spawner kills its process group.
//! When a channel is closed, the spawner kills the channel's programs. When all channels are
//! closed, the server has gone, and the spawner ends.
//!
//! Answers wait when their channel is full, and the channel's requests wait with them. Leaves out
//! the steps between clone and exec (`clone_stack.rs`, `child.rs`). Tested with real processes
//! (`tests/processes`).

use crate::{
    cgroup::Cgroups,
    clone_stack::CloneStack,
    error::StartStep,
    jobs::{Asker, Jobs, SpawnedJob},
    path_check::Refused,
    process::{self, EndedChild},
    profile::Profile,
    ready::{PreparedProfile, StartedProgram},
    reap::Reaper,
    reply::{ProgramEnd, ProgramExit, Reply, at},
    request::{REQUEST_BYTES_MAX, ReceivedRequest, RunNews, SpawnContent, SpawnMessage},
    socket,
    stall_watchdog::StallWatchdog,
    wire::WireReader,
};
use rustix::{
    event::{Timespec, epoll},
    io::{Errno, retry_on_intr},
    process::{Pid, Signal, WaitOptions, waitpid},
};
use std::{
    collections::VecDeque,
    ffi::OsStr,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::PathBuf,
    time::{Duration, Instant},
};

/// Events taken from the kernel at once: an event has 12 bytes, so the array takes less than half a
/// page of the stack.
const EVENTS_MAX: usize = 128;

/// Empty cradles that are kept, each of some pages. The bound limits the memory kept after a burst;
/// a further cradle costs an allocation.
const CRADLES_MAX: usize = 16;

/// The event of the keeper's socket. Any other event is the number of a channel.
const OF_KEEPER: u64 = u64::MAX;
/// The event of children's ends.
const OF_CHILDREN: u64 = OF_KEEPER - 1;

/// The spawner's end of a channel, and the answers that wait for room.
struct SpawnerChannel {
    socket: OwnedFd,
    unsent: VecDeque<(Reply, Option<OwnedFd>)>,
    /// Whether the epoll waits for room, not for requests.
    is_full: bool,
}

struct Spawner<'k> {
    generation: u32,
    ready: Vec<PreparedProfile>,
    cgroups: Cgroups,
    /// The socket on which the keeper sends profiles, until the keeper has gone.
    keeper: Option<OwnedFd>,
    lines: Vec<Option<SpawnerChannel>>,
    jobs: Jobs,
    epoll: OwnedFd,
    /// Readable when children have ended.
    signals: OwnedFd,
    reaper: Reaper,
    /// Empty cradles for reuse.
    cradles: Vec<CloneStack>,
    watchdog: &'k StallWatchdog,
}

/// Serves `channels` until all are closed.
///
/// # Errors
///
/// When there are no descriptors left for the epoll.
pub(crate) fn run(
    profiles: Vec<Profile>,
    channels: Vec<OwnedFd>,
    keeper: OwnedFd,
    watchdog: &StallWatchdog,
    generation: u32,
) -> Result<(), Errno> {
    let mut spawner = Spawner::new(profiles, channels, keeper, watchdog, generation)?;
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
            match event.data.u64() {
                OF_KEEPER => spawner.hear_keeper(),
                OF_CHILDREN => spawner.hear_children(),
                channel => spawner.serve(usize::try_from(channel).expect("their number"), &mut buffer),
            }
        }
        spawner.scan_if_due();
    }
    spawner.jobs.kill_all(|_| true);
    Ok(())
}

impl<'k> Spawner<'k> {
    fn new(
        profiles: Vec<Profile>,
        channels: Vec<OwnedFd>,
        keeper: OwnedFd,
        watchdog: &'k StallWatchdog,
        generation: u32,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, channel) in channels.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, channel, data, epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, &keeper, epoll::EventData::new_u64(OF_KEEPER), epoll::EventFlags::IN)?;
        let signals =
            process::child_signals().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        epoll::add(&epoll, &signals, epoll::EventData::new_u64(OF_CHILDREN), epoll::EventFlags::IN)?;
        let lines = channels
            .into_iter()
            .map(|socket| Some(SpawnerChannel { socket, unsent: VecDeque::new(), is_full: false }));
        let ready: Vec<PreparedProfile> = profiles.into_iter().map(PreparedProfile::new).collect();
        let mut cgroups = Cgroups::default();
        ready.iter().for_each(|ready| ready.tell(&mut cgroups));
        Ok(Self {
            generation,
            ready,
            cgroups,
            keeper: Some(keeper),
            lines: lines.collect(),
            jobs: Jobs::default(),
            epoll,
            signals,
            reaper: Reaper::new(Instant::now()),
            cradles: Vec::new(),
            watchdog,
        })
    }

    /// Takes the profiles that the keeper sends.
    fn hear_keeper(&mut self) {
        // Messages of the keeper are rare, so the buffer is not kept.
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        while let Some(keeper) = &self.keeper {
            match socket::receive(keeper.as_fd(), &mut buffer) {
                Ok(Some(received)) => {
                    // The keeper has judged these profiles and has written the bytes itself.
                    let profile = buffer[..received.bytes].split_first();
                    let profile =
                        profile.and_then(|(_, bytes)| Profile::read(&mut WireReader::new(bytes)).ok());
                    let ready = PreparedProfile::new(profile.expect("the keeper's own words"));
                    ready.tell(&mut self.cgroups);
                    self.ready.push(ready);
                }
                Err(Errno::AGAIN) => return,
                Ok(None) | Err(_) => self.keeper = None,
            }
        }
    }

    /// Kills programs past their deadline; returns the time until the next deadline or scan.
    fn next_deadline(&mut self) -> Option<Timespec> {
        let scan = self.reaper.due();
        if scan.is_none() && self.jobs.has_no_deadline() {
            return None;
        }
        let now = Instant::now();
        let late = self.jobs.kill_late(now);
        let left = late.into_iter().chain(scan).min()?.saturating_duration_since(now);
        // One millisecond more than the time left, because the loop would otherwise spin until the
        // deadline.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    /// Sends the waiting answers of a channel, or takes a request from it. If there are more
    /// requests, the next epoll says so. That costs less than a read that finds no request.
    fn serve(&mut self, channel: usize, buffer: &mut [u8]) {
        if !self.send_unsent(channel) {
            return;
        }
        let Some(line) = &self.lines[channel] else { return };
        match socket::receive(line.socket.as_fd(), buffer) {
            Ok(Some(received)) => self.take(channel, &buffer[..received.bytes], received.descriptors),
            // The message was too long, or no descriptor was free. The sender gets no answer, and
            // its own time limit ends the wait.
            Err(Errno::AGAIN | Errno::MSGSIZE) => {}
            Ok(None) | Err(_) => self.close(channel),
        }
    }

    fn take(&mut self, channel: usize, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        let Ok(message) = SpawnMessage::read(bytes) else { return };
        // The request is for a spawner that has died. The server gives the request up when the
        // server hears of this spawner.
        if message.generation != self.generation {
            return;
        }
        let asker = Asker { channel, job: message.job };
        match message.content {
            SpawnContent::Kill { signal } => {
                if let (Some(job), Some(signal)) = (self.jobs.of(asker), Signal::from_named_raw(signal)) {
                    job.signal(signal);
                }
            }
            SpawnContent::Look => {
                // The news of an end follows anyway, so a program that is ending needs no answer.
                if let Some(job) = self.jobs.of(asker).filter(|job| process::runs(job.pid)) {
                    let pid = job.pid.as_raw_nonzero().get().unsigned_abs();
                    self.reply(channel, Reply::Started { job: message.job, pid }, None);
                }
            }
            SpawnContent::Start(order) => match self.start(asker, &order, &descriptors) {
                Ok(_) if order.told == RunNews::Nothing => {}
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

    /// Starts a program; returns its process, and a descriptor if the request asked for a
    /// descriptor.
    fn start(
        &mut self,
        asker: Asker,
        order: &ReceivedRequest<'_>,
        descriptors: &[OwnedFd],
    ) -> Result<(Pid, Option<OwnedFd>), Refused> {
        let nowhere = |step, errno| (PathBuf::from("a program"), at(step)(errno));
        let [stdin, stdout, stderr] = descriptors else {
            return Err(nowhere(StartStep::Request, Errno::INVAL));
        };
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        if order.profile as usize >= self.ready.len() {
            // The keeper tells the spawner of a profile before the keeper tells the server.
            self.hear_keeper();
        }
        let ready = self
            .ready
            .get(order.profile as usize)
            .ok_or_else(|| nowhere(StartStep::Profile, Errno::NOENT))?;
        let mut stack = self.cradles.pop().unwrap_or_else(CloneStack::new);
        let started = ready.start(order, stdio, &mut stack, &mut self.cgroups, self.watchdog);
        let stack = match (&started, order.told) {
            (Ok(_), RunNews::Nothing) => Some(stack),
            // The child no longer uses the clone stack, or there was no child.
            _ => {
                self.keep(stack);
                None
            }
        };
        let StartedProgram { pid, descriptor } = started?;
        let job = SpawnedJob { asker, pid, stack, late: false };
        self.jobs.insert(job, order.time_limit.map(|limit| Instant::now() + limit));
        Ok((pid, descriptor))
    }

    fn keep(&mut self, stack: CloneStack) {
        if self.cradles.len() < CRADLES_MAX {
            self.cradles.push(stack);
        }
    }

    /// Reports the end of the program that a signal names. A signal may stand for several children.
    fn hear_children(&mut self) {
        if let Some(pid) = process::named_child(&self.signals)
            && let Some(ended) = process::end_of(pid)
        {
            self.end(&ended);
        }
        self.reaper.want();
    }

    /// Reports the ends of all ended programs, if a scan is due.
    fn scan_if_due(&mut self) {
        let Some(due) = self.reaper.due() else { return };
        let mut now = Instant::now();
        if now < due {
            return;
        }
        // Of the last scan.
        let mut took = Duration::ZERO;
        while !self.jobs.is_empty() {
            let ended = process::next_end();
            let begun = std::mem::replace(&mut now, Instant::now());
            took = now - begun;
            let Some(ended) = ended else { break };
            self.end(&ended);
            now = Instant::now();
        }
        self.reaper.done(now, took);
    }

    /// Reports the end of a program. Only afterwards the spawner reaps the process, which takes a
    /// while. The requester continues meanwhile, and its next request is handled after the reaping.
    fn end(&mut self, ended: &EndedChild) {
        if let Some(job) = self.jobs.remove(ended.pid) {
            // The process is not reaped yet, so its number still names its own group.
            job.signal(Signal::KILL);
            self.tell_end(job, ended);
        }
        let _none_is_left = retry_on_intr(|| waitpid(Some(ended.pid), WaitOptions::empty()));
    }

    fn tell_end(&mut self, SpawnedJob { asker, late, stack, .. }: SpawnedJob, ended: &EndedChild) {
        let exit = ProgramExit { end: if late { ProgramEnd::Late } else { ended.end }, usage: ended.usage };
        let mut reply = Reply::Exited { job: asker.job, exit };
        if let Some(mut stack) = stack {
            if let Some((path, (step, errno))) = stack.failure() {
                let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
                reply = Reply::Failed { job: asker.job, path, fault: at(step)(errno) };
            }
            self.keep(stack);
        }
        self.reply(asker.channel, reply, None);
    }

    /// Closes a channel and kills its programs.
    fn close(&mut self, channel: usize) {
        if let Some(line) = self.lines[channel].take() {
            // The keeper holds the same socket open. So without this call the epoll would keep the
            // socket after the close, and report the end of the channel for ever.
            let deleted = epoll::delete(&self.epoll, &line.socket);
            debug_assert!(deleted.is_ok(), "a channel is registered as long as it is open");
        }
        self.jobs.kill_all(|of| of == channel);
    }

    fn reply(&mut self, channel: usize, reply: Reply, descriptor: Option<OwnedFd>) {
        let Some(line) = &mut self.lines[channel] else { return };
        line.unsent.push_back((reply, descriptor));
        if !line.is_full {
            self.send_unsent(channel);
        }
    }

    /// Sends the waiting answers of a channel; returns whether the channel is open and no answer
    /// waits.
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
