//! Reading the allowed programs again while the server runs. The keeper does this, not the server.
//!
//! A server under an attacker's control must not decide which programs may start. Therefore the
//! keeper has from its birth a function that reads the profiles from their original source
//! ([`Reviser`]). When the server asks, a child of the keeper runs the function, with the keeper's
//! rights, in memory that is freed with the child. The keeper judges the profiles and adds the new
//! profiles. The server then learns the numbers of the profiles that the server can name exactly
//! ([`Revisions::find`]). No profile is removed, because running requests keep their profiles to
//! the end. Tested with real processes (`tests/processes/revisions.rs`).

use crate::{
    error::DefineError,
    keeper_messages::{FIND, ProfileVerdict, REVISE},
    process::{self, Forked},
    profile::{Profile, ProfileId},
    request::REQUEST_BYTES_MAX,
    socket,
    wire::{WireReader, WireWriter},
};
use rustix::{
    event::PollFlags,
    io::Errno,
    process::{Signal, kill_process},
};
use std::{
    collections::HashMap,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

/// Reads the allowed programs, or returns the reason why reading failed. Runs in a process of its
/// own.
pub type Reviser = Box<dyn Fn() -> Result<Vec<Profile>, String>>;

/// The maximum number of profiles of a keeper, including profiles that are no longer needed: a
/// hundred thousand sites, each changed ten times. Beyond that only a restart helps.
pub const PROFILES_MAX: usize = 1 << 20;

/// How long reading may take: a hundred times the fifth of a second that a hundred thousand sites
/// take (`bench tail`).
const READ_PATIENCE: Duration = Duration::from_secs(20);

/// How long the server waits for the keeper to read the profiles.
const REVISE_PATIENCE: Duration = Duration::from_secs(25);

/// How long the keeper or the spawner may take to answer. An answer takes a millisecond; the limit
/// only ends a wait for a process that hangs.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// The interval between two checks for stopped children that block the spawner.
const LOOK: Duration = Duration::from_millis(10);

/// The name of the reading child in `ps`.
const READER_NAME: &std::ffi::CStr = c"vermeil-reread";

/// Messages of the child: a profile, the reason for a failure, or the end of the list.
const PROFILE: u8 = b'P';
const TROUBLE: u8 = b'E';
const DONE: u8 = b'.';

/// The server's handle for reading the profiles again.
#[derive(Debug)]
pub struct Revisions {
    control: OwnedFd,
    /// An answer did not come in time. The late answer may still come, and would be taken for the
    /// answer to the next question.
    is_lost: bool,
}

impl Revisions {
    pub(crate) fn over(control: OwnedFd) -> Self {
        Self { control, is_lost: false }
    }

    /// Has the keeper read the allowed programs.
    ///
    /// # Errors
    ///
    /// The programs cannot be read, or a profile is not available or is refused. No profile has
    /// changed then.
    pub fn read(&mut self) -> Result<(), DefineError> {
        match self.ask(&[REVISE], REVISE_PATIENCE)? {
            ProfileVerdict::Defined(_) => Ok(()),
            ProfileVerdict::Refused(error) => Err(error),
        }
    }

    /// The number of a profile that was read.
    ///
    /// # Errors
    ///
    /// The keeper has read no equal profile.
    pub fn find(&mut self, profile: &Profile) -> Result<ProfileId, DefineError> {
        match self.ask(&message(FIND, profile)?, ANSWER_PATIENCE)? {
            ProfileVerdict::Defined(number) => Ok(ProfileId(number)),
            ProfileVerdict::Refused(error) => Err(error),
        }
    }

    /// The same for several profiles, with a single read.
    pub fn rereading(&mut self) -> Rereading<'_> {
        Rereading { revisions: self, is_read: false }
    }

    fn ask(&mut self, message: &[u8], patience: Duration) -> Result<ProfileVerdict, DefineError> {
        if self.is_lost {
            return Err(DefineError::Keeper(Errno::TIMEDOUT.into()));
        }
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        let control = self.control.as_fd();
        let heard = socket::say(control, message, &[], ANSWER_PATIENCE)
            .and_then(|()| socket::hear(control, &mut buffer, patience));
        let verdict =
            heard.and_then(|bytes| ProfileVerdict::from_bytes(&buffer[..bytes]).map_err(|_| Errno::PROTO));
        verdict.map_err(|errno| {
            self.is_lost = true;
            DefineError::Keeper(errno.into())
        })
    }
}

/// Finds profiles after the keeper has read the allowed programs again. The keeper reads nothing if
/// the caller looks for no profile.
#[derive(Debug)]
pub struct Rereading<'r> {
    revisions: &'r mut Revisions,
    is_read: bool,
}

impl Rereading<'_> {
    /// The number of a profile.
    ///
    /// # Errors
    /// As of [`Revisions::read`] and [`Revisions::find`].
    pub fn find(&mut self, profile: &Profile) -> Result<ProfileId, DefineError> {
        if !self.is_read {
            self.revisions.read()?;
            self.is_read = true;
        }
        self.revisions.find(profile)
    }
}

/// A message about a profile.
pub(crate) fn message(word: u8, profile: &Profile) -> Result<Vec<u8>, DefineError> {
    let mut message = WireWriter::default();
    message.u8(word);
    profile.write(&mut message);
    let message = message.into_bytes();
    if message.len() > REQUEST_BYTES_MAX {
        return Err(DefineError::TooLong { root: profile.root.clone(), bytes: message.len() });
    }
    Ok(message)
}

/// The keeper's profiles by their content. The index is filled on the first query.
#[derive(Default)]
pub(crate) struct Numbers {
    by_bytes: HashMap<Vec<u8>, u32>,
    learned: usize,
}

impl Numbers {
    /// Records all `profiles`, in their order.
    pub(crate) fn learn(&mut self, profiles: &[Profile]) {
        for (number, profile) in profiles.iter().enumerate().skip(self.learned) {
            self.by_bytes.insert(bytes_of(profile), u32::try_from(number).expect("bounded"));
        }
        self.learned = profiles.len();
    }

    pub(crate) fn find(&self, profile: &Profile) -> Option<u32> {
        self.by_bytes.get(&bytes_of(profile)).copied()
    }
}

fn bytes_of(profile: &Profile) -> Vec<u8> {
    let mut to = WireWriter::default();
    profile.write(&mut to);
    to.into_bytes()
}

/// In the keeper: has a child read the profiles; calls `meanwhile` every few milliseconds until the
/// child is done.
pub(crate) fn read(reviser: &Reviser, mut meanwhile: impl FnMut()) -> Result<Vec<Profile>, DefineError> {
    let system = |errno: Errno| DefineError::Keeper(errno.into());
    let (line, theirs) = socket::pair().map_err(system)?;
    let child = match process::fork().map_err(DefineError::Keeper)? {
        Forked::Child => {
            process::settle(READER_NAME);
            let told = process::close_all_but([&theirs]).is_ok() && tell(&theirs, reviser).is_ok();
            process::exit((!told).into())
        }
        Forked::Parent(pid) => pid,
    };
    drop(theirs);
    let read = collect(&line, &mut meanwhile);
    // The keeper's loop waits for this child, as for all other children.
    let _ = kill_process(child, Signal::KILL);
    read
}

fn tell(line: &OwnedFd, reviser: &Reviser) -> Result<(), Errno> {
    let profiles = match reviser() {
        Ok(profiles) => profiles,
        Err(why) => return tell_trouble(line, &why),
    };
    for profile in &profiles {
        match message(PROFILE, profile) {
            Ok(message) => socket::say(line.as_fd(), &message, &[], READ_PATIENCE)?,
            Err(error) => return tell_trouble(line, &error.to_string()),
        }
    }
    socket::say(line.as_fd(), &[DONE], &[], READ_PATIENCE)
}

fn tell_trouble(line: &OwnedFd, why: &str) -> Result<(), Errno> {
    let why = &why[..why.floor_char_boundary(REQUEST_BYTES_MAX / 2)];
    socket::say(line.as_fd(), &[&[TROUBLE], why.as_bytes()].concat(), &[], READ_PATIENCE)
}

fn collect(line: &OwnedFd, meanwhile: &mut impl FnMut()) -> Result<Vec<Profile>, DefineError> {
    let system = |errno: Errno| DefineError::Keeper(errno.into());
    let deadline = Instant::now() + READ_PATIENCE;
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    let mut profiles = Vec::new();
    loop {
        let received = match socket::receive(line.as_fd(), &mut buffer) {
            Ok(Some(received)) => received,
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                // The result is ignored, because the next turn finds out whether there is a
                // message.
                let _ = socket::wait(line.as_fd(), PollFlags::IN, LOOK);
                meanwhile();
                continue;
            }
            Err(Errno::AGAIN) => return Err(DefineError::Unreadable("it takes too long".to_owned())),
            Ok(None) => return Err(DefineError::Unreadable("its reader ended".to_owned())),
            Err(errno) => return Err(system(errno)),
        };
        match buffer[..received.bytes].split_first() {
            Some((&PROFILE, profile)) => {
                let profile = Profile::read(&mut WireReader::new(profile));
                profiles.push(profile.map_err(|_| system(Errno::PROTO))?);
            }
            Some((&TROUBLE, why)) => {
                return Err(DefineError::Unreadable(String::from_utf8_lossy(why).into_owned()));
            }
            Some((&DONE, _)) => return Ok(profiles),
            _ => return Err(system(Errno::PROTO)),
        }
    }
}
