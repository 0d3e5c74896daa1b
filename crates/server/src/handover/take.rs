//! The new server's side: it takes what it has a use for, and says when it serves.

use super::{Address, Handed, Serves};
use crate::{
    balance::{Balancing, Changeover},
    control::{ClientError, ControlTarget, Offer, ask_to_take_over},
    listen::Listening,
    messages::Messages,
    options::ServeOptions,
    signals,
    voice::say,
};
use signal_hook::iterator::Signals;
use std::{
    fs, io,
    net::SocketAddr,
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt as _, net::UnixListener},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use vermeil_topology::CpuId;

/// How long the old server may take to hand over, and to let go. Guess: it asks each of its cores, which answer between two
/// events.
const PATIENCE: Duration = Duration::from_secs(60);

/// From whom a server takes over when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// From nobody: addresses that others have are refused.
    #[default]
    Never,
    /// From the server that has its control socket where this one is to have it; by default, the only server of this user.
    SameControl,
    /// From the server whose control socket this is.
    At(PathBuf),
}

/// How to name the server to take over from, whether or not there is a configuration file.
const CURE: &str = "--take-over=PATH";

/// A server could not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// It cannot be asked.
    #[error("--take-over: {}", .0.with_cure(CURE))]
    Client(#[from] ClientError),
    /// It refuses.
    #[error("--take-over: the server that runs refuses: {0}")]
    Refused(String),
    /// What it hands over makes no sense.
    #[error(
        "--take-over: what the server that runs hands over is not understood ({0}); stop it and start this one"
    )]
    Strange(io::Error),
}

/// What was taken over, until it is used.
#[derive(Default)]
pub(crate) struct Inherited {
    /// The server it is from; nothing if there is none.
    from: Option<(Messages, u32)>,
    control: Option<(PathBuf, OwnedFd)>,
    listening: Vec<Listening>,
    agent: Vec<Listening>,
    /// Addresses as they were asked for, whose sockets were used.
    taken: Vec<SocketAddr>,
}

impl Inherited {
    /// What `options` ask to be taken over. Where no server runs there is nothing to take, which is said.
    ///
    /// # Errors
    /// One runs and cannot be taken over, or several do.
    pub(crate) fn of(options: &ServeOptions) -> Result<Self, TakeOverError> {
        let place = match (&options.take_over, &options.control) {
            (TakeOver::Never, _) => return Ok(Self::default()),
            (TakeOver::At(path), _) | (_, ControlTarget::Path(path)) => Some(path.as_path()),
            (TakeOver::SameControl, _) => None,
        };
        match ask_to_take_over(place) {
            Ok(Offer::Link(link)) => Self::receive(link).map_err(TakeOverError::Strange),
            Ok(Offer::Refused(why)) => Err(TakeOverError::Refused(why)),
            Err(error) if error.is_nobody() => {
                say(format_args!("nothing to take over: {}", error.with_cure(CURE)));
                Ok(Self::default())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn receive(link: OwnedFd) -> io::Result<Self> {
        let mut messages = Messages::new(link);
        let received = messages.receive::<Handed>(Some(Instant::now() + PATIENCE))?;
        let (Handed { pid, control, listening, agent }, descriptors) =
            received.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut descriptors = descriptors.into_iter();
        let socket = descriptors.next().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut all = |addresses: Vec<Address>| -> Vec<Listening> {
            let of = |Address { asked, addr, sockets }| {
                let sockets = descriptors.by_ref().take(sockets).collect();
                Listening { asked, addr, sockets }
            };
            addresses.into_iter().map(of).collect()
        };
        let (listening, agent) = (all(listening), all(agent));
        let (from, control) = (Some((messages, pid)), Some((control, socket)));
        Ok(Self { from, control, listening, agent, taken: Vec::new() })
    }

    /// The ports on which it listens.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.listening.iter().map(|listening| listening.addr.port()).collect()
    }

    /// Its sockets for an address; none if it has none.
    pub(crate) fn take(&mut self, asked: SocketAddr) -> Vec<OwnedFd> {
        let sockets = take_from(&mut self.listening, asked);
        self.taken.extend((!sockets.is_empty()).then_some(asked));
        sockets
    }

    /// Prepares what is to change in the kernel for those addresses of `listening` that were taken over.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn prepare(
        &self,
        balancing: &Balancing,
        listening: &[Listening],
    ) -> io::Result<Vec<Changeover>> {
        let taken = listening.iter().filter(|listening| self.taken.contains(&listening.asked));
        taken.map(|listening| Changeover::prepare(balancing, listening)).collect()
    }

    /// Its socket for agent checks at an address.
    pub(crate) fn take_agent(&mut self, asked: SocketAddr) -> Option<OwnedFd> {
        take_from(&mut self.agent, asked).into_iter().next()
    }

    /// Its control socket, if it is at `path`.
    pub(crate) fn take_control(&mut self, path: &Path) -> Option<UnixListener> {
        let file = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let is_there =
            |(theirs, _): &mut (PathBuf, OwnedFd)| file(path).is_some() && file(path) == file(theirs);
        self.control.take_if(is_there).map(|(_, socket)| socket.into())
    }

    /// Whether this server, which is about to take over, has been told to stop; then the other one goes on, which is said.
    pub(crate) fn is_called_off(&self, signals: &mut Signals) -> bool {
        let Some((_, pid)) = &self.from else { return false };
        let is_called_off = signals::ask_to_stop(signals);
        if is_called_off {
            say(format_args!("told to stop before it served: process {pid} goes on"));
        }
        is_called_off
    }

    /// This server serves: has the other let go, waits until it has, and changes what was prepared.
    pub(crate) fn finish(self, changeovers: Vec<Changeover>, balancing: &Balancing, cpus: &[CpuId]) {
        self.have_it_let_go();
        changeovers.into_iter().for_each(|changeover| changeover.carry_out(balancing, cpus));
    }

    fn have_it_let_go(self) {
        let Self { from: Some((mut messages, pid)), control, listening, .. } = self else { return };
        let serves = Serves { has_control: control.is_none() };
        let heard = messages
            .send(&serves, &[])
            .and_then(|()| messages.receive::<Serves>(Some(Instant::now() + PATIENCE)));
        for Listening { addr, .. } in listening {
            say(format_args!("no longer listening on {addr}"));
        }
        match heard {
            Ok(_) => say(format_args!("took over from process {pid}, which drains")),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                say(format_args!("took over from process {pid}, which has ended"));
            }
            Err(error) => say(format_args!("process {pid} does not let go ({error}); stop it")),
        }
    }
}

/// The sockets of an address as it was asked for, or as it is bound.
fn take_from(all: &mut Vec<Listening>, asked: SocketAddr) -> Vec<OwnedFd> {
    let found = all.iter().position(|has| has.asked == asked || has.addr == asked);
    found.map(|at| all.remove(at).sockets).unwrap_or_default()
}
