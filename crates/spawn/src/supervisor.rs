//! The keeper: takes profiles and channels, forks the spawner, and forks another when the spawner
//! is killed.
//!
//! The keeper holds the spawner's ends of the channels open, so that a channel outlives spawners.
//! The next spawner continues the channel and says so. When the server asks, the keeper has the
//! allowed programs read again (`revise.rs`).
//!
//! Orphans of programs come to the keeper (`PR_SET_CHILD_SUBREAPER`), not to init. When a spawner
//! or the server dies, the keeper kills all remaining descendants. Tested with real processes
//! (`tests/processes.rs`).

use crate::{
    error::DefineError,
    keeper_messages::{CHANNEL, DEFINE, FIND, ProfileVerdict, REVISE, SERVE},
    process::{self, Forked},
    profile::Profile,
    ready::PreparedProfile,
    request::REQUEST_BYTES_MAX,
    revise::{self, ANSWER_PATIENCE, Numbers, PROFILES_MAX, Reviser, message},
    socket, spawner,
    stall_watchdog::StallWatchdog,
    wire::WireReader,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, getegid, geteuid, getpid, kill_process, set_child_subreaper, setsid, wait,
    },
    stdio::{dup2_stdin, dup2_stdout},
    thread::{CapabilitySet, capabilities},
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd as _, OwnedFd},
    thread,
    time::{Duration, Instant},
};

/// Pause between the deaths of two spawners, or between two attempts to fork, so a machine on which
/// every spawner dies at once sees ten attempts per second.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// A spawner that lived this long is replaced without a pause.
const SOUND_LIFE: Duration = Duration::from_secs(1);

/// How long the keeper waits for the next end among killed processes. Only a process that waits in
/// the kernel for an unresponsive disk takes longer.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// The interval between two kills of the remaining processes, because a process may have new
/// children, or its end may have raised no signal. A round of kills takes some microseconds per
/// process.
const KILL_AGAIN: Duration = Duration::from_millis(10);

/// The spawner's name in `ps`.
const SPAWNER_NAME: &CStr = c"vermeil-spawn";

struct SpawnSupervisor {
    control: OwnedFd,
    signals: OwnedFd,
    watchdog: StallWatchdog,
    profiles: Vec<Profile>,
    numbers: Numbers,
    reviser: Option<Reviser>,
    channels: Vec<OwnedFd>,
    generation: u32,
}

/// The spawner that serves.
struct ServingSpawner {
    pid: Pid,
    /// The socket on which the keeper tells the spawner of profiles.
    line: OwnedFd,
}

/// The process that has gone.
#[derive(PartialEq, Eq)]
enum Gone {
    Spawner,
    Server,
}

/// The main function of the keeper's process.
pub(crate) fn run(control: OwnedFd, reviser: Option<Reviser>) -> ! {
    process::settle(c"vermeil-keeper");
    let kept = keep(control, reviser);
    process::exit(kept.is_err().into())
}

fn keep(control: OwnedFd, reviser: Option<Reviser>) -> Result<(), Errno> {
    stand_alone(&control)?;
    let signals = process::child_signals().map_err(|error| errno(&error))?;
    let mut keeper = SpawnSupervisor {
        control,
        signals,
        watchdog: StallWatchdog::new()?,
        profiles: Vec::new(),
        numbers: Numbers::default(),
        reviser,
        channels: Vec::new(),
        generation: 0,
    };
    let served = keeper.serve_all();
    // After an error too, because the programs would outlive the keeper.
    keeper.kill_descendants();
    served
}

/// Keeps only the control socket and standard error from the server, and starts a session that no
/// terminal signals.
fn stand_alone(control: &OwnedFd) -> Result<(), Errno> {
    // The call cannot fail, because a forked child is never the leader of its process group.
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    drop(null);
    process::close_all_but([control]).map_err(|error| errno(&error))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl SpawnSupervisor {
    /// Serves from the first message until the server has gone.
    fn serve_all(&mut self) -> Result<(), Errno> {
        if self.prepare()? {
            while self.serve()? {}
        }
        Ok(())
    }

    /// Takes profiles and channels until the server asks for the spawner; returns whether the
    /// server did.
    fn prepare(&mut self) -> Result<bool, Errno> {
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        loop {
            wait_for(&[&self.control], None)?;
            let received = match socket::receive(self.control.as_fd(), &mut buffer) {
                Ok(Some(received)) => received,
                Err(Errno::AGAIN) => continue,
                Ok(None) | Err(_) => return Ok(false),
            };
            match buffer[..received.bytes].split_first() {
                Some((&DEFINE, profile)) => {
                    let verdict = self.define(profile);
                    socket::send(self.control.as_fd(), &verdict.to_bytes(), &[])?;
                }
                Some((&CHANNEL, _)) => self.channels.extend(received.descriptors),
                Some((&SERVE, _)) => return Ok(true),
                _ => return Err(Errno::INVAL),
            }
        }
    }

    fn define(&mut self, bytes: &[u8]) -> ProfileVerdict {
        let Ok(profile) = Profile::read(&mut WireReader::new(bytes)) else {
            return ProfileVerdict::Refused(DefineError::Keeper(Errno::INVAL.into()));
        };
        if let Err(error) = judge(&profile) {
            return ProfileVerdict::Refused(error);
        }
        self.profiles.push(profile);
        ProfileVerdict::Defined(u32::try_from(self.profiles.len() - 1).expect("as many as fit memory"))
    }

    /// Forks a spawner and waits for its end; returns whether another is needed.
    fn serve(&mut self) -> Result<bool, Errno> {
        self.generation = self.generation.wrapping_add(1);
        let start = Instant::now();
        // If there is no room for a process now, there may be room after a pause.
        if let Ok(spawner) = self.fork_spawner() {
            if self.watch(&spawner)? == Gone::Server {
                return Ok(false);
            }
            self.kill_descendants();
        }
        if start.elapsed() < SOUND_LIFE {
            thread::sleep(RESTART_PAUSE);
        }
        Ok(true)
    }

    fn fork_spawner(&self) -> io::Result<ServingSpawner> {
        let (line, spawners) = socket::pair()?;
        match process::fork()? {
            Forked::Parent(pid) => Ok(ServingSpawner { pid, line }),
            Forked::Child => {
                process::settle(SPAWNER_NAME);
                let served = self.be_spawner(spawners);
                process::exit(served.is_err().into())
            }
        }
    }

    fn be_spawner(&self, line: OwnedFd) -> io::Result<()> {
        let channels = self.channels.iter().map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>()?;
        // These are the keeper's descriptors, and this process never drops their owners.
        process::close_all_but(channels.iter().chain([self.watchdog.descriptor(), &line]))?;
        Ok(spawner::run(self.profiles.clone(), channels, line, &self.watchdog, self.generation)?)
    }

    /// Waits until the spawner or the server has gone.
    fn watch(&mut self, spawner: &ServingSpawner) -> Result<Gone, Errno> {
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        loop {
            wait_for(&[&self.control, &self.signals, self.watchdog.descriptor()], None)?;
            self.look(spawner);
            match socket::receive(self.control.as_fd(), &mut buffer) {
                Err(Errno::AGAIN) => {}
                Ok(Some(received)) => {
                    let verdict = self.answer(&buffer[..received.bytes], spawner);
                    socket::say(self.control.as_fd(), &verdict.to_bytes(), &[], ANSWER_PATIENCE)?;
                }
                Ok(None) | Err(_) => return Ok(Gone::Server),
            }
            process::drain(&self.signals);
            while let Ok(Some((ended, _))) = wait(WaitOptions::NOHANG) {
                if ended == spawner.pid {
                    return Ok(Gone::Spawner);
                }
            }
        }
    }

    /// Kills children that block the spawner.
    fn look(&self, spawner: &ServingSpawner) {
        self.watchdog.look(spawner.pid, SPAWNER_NAME.to_str().expect("ASCII"));
    }

    /// Answers a server that serves.
    fn answer(&mut self, message: &[u8], spawner: &ServingSpawner) -> ProfileVerdict {
        let answered = match message.split_first() {
            Some((&REVISE, _)) => self.revise(spawner),
            Some((&FIND, profile)) => self.find(profile),
            _ => Err(DefineError::Keeper(Errno::INVAL.into())),
        };
        match answered {
            Ok(number) => ProfileVerdict::Defined(number),
            Err(error) => ProfileVerdict::Refused(error),
        }
    }

    fn find(&mut self, profile: &[u8]) -> Result<u32, DefineError> {
        let profile = Profile::read(&mut WireReader::new(profile));
        let profile = profile.map_err(|_| DefineError::Keeper(Errno::INVAL.into()))?;
        self.numbers.learn(&self.profiles);
        self.numbers.find(&profile).ok_or(DefineError::Unlisted { root: profile.root })
    }

    /// Adds the current profiles, all or none; returns the number of profiles.
    fn revise(&mut self, spawner: &ServingSpawner) -> Result<u32, DefineError> {
        let Some(reviser) = &self.reviser else {
            return Err(DefineError::Unreadable("there is no list of permitted programs".to_owned()));
        };
        let read = revise::read(reviser, || self.look(spawner))?;
        self.numbers.learn(&self.profiles);
        let new = read.into_iter().filter(|profile| self.numbers.find(profile).is_none());
        let new: Vec<Profile> = new.collect();
        new.iter().try_for_each(judge)?;
        if self.profiles.len() + new.len() > PROFILES_MAX {
            let full =
                format!("{PROFILES_MAX} ways to run programs were read already; start the server again");
            return Err(DefineError::Unreadable(full));
        }
        if new.iter().any(|profile| self.tell(spawner, profile).is_err()) {
            // The spawner may have some of the profiles. The next spawner has all of them from its
            // start.
            let _ = kill_process(spawner.pid, Signal::KILL);
        }
        self.profiles.extend(new);
        Ok(u32::try_from(self.profiles.len()).expect("bounded"))
    }

    fn tell(&self, spawner: &ServingSpawner, profile: &Profile) -> Result<(), DefineError> {
        let message = message(DEFINE, profile)?;
        socket::say(spawner.line.as_fd(), &message, &[], ANSWER_PATIENCE)
            .map_err(|errno| DefineError::Keeper(errno.into()))
    }

    /// Kills all descendants of this process, until none is left or none has ended for
    /// [`KILL_PATIENCE`].
    fn kill_descendants(&self) {
        let mut deadline = Instant::now() + KILL_PATIENCE;
        loop {
            // Orphans arrive one generation after the other.
            for child in process::children() {
                let _ = kill_process(child, Signal::KILL);
            }
            match wait(WaitOptions::NOHANG) {
                // The children of this one have just arrived.
                Ok(Some(_)) => deadline = Instant::now() + KILL_PATIENCE,
                Ok(None) if Instant::now() < deadline => {
                    let _ = wait_for(&[&self.signals], Some(KILL_AGAIN));
                    process::drain(&self.signals);
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// Waits until a descriptor is readable.
fn wait_for(descriptors: &[&OwnedFd], limit: Option<Duration>) -> Result<(), Errno> {
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut polled, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether this process can start programs under the profile's settings.
///
/// # Errors
/// Its user may not start them, or a path of the profile is unfit.
pub fn judge(profile: &Profile) -> Result<(), DefineError> {
    permitted(profile)?;
    PreparedProfile::new(profile.clone()).verify().map_err(|(path, fault)| DefineError::Path { path, fault })
}

/// Whether this process may start programs under the profile's settings.
fn permitted(profile: &Profile) -> Result<(), DefineError> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let root = profile.root.clone();
    match &profile.identity {
        None if uid == 0 => Err(DefineError::Superuser { root }),
        None => Ok(()),
        Some(identity) if (identity.uid, identity.gid) == (uid, gid) || may_change_users() => Ok(()),
        Some(identity) => Err(DefineError::Identity { root, uid: identity.uid }),
    }
}

fn may_change_users() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
