//! The new server's side: takes the necessary sockets, and reports readiness.

use super::{AddressSockets, Handed, Serves};
use crate::{
    control_client::{ClientError, Offer, ask_to_take_over},
    messages::Messages,
    signals,
};
use signal_hook::iterator::Signals;
use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt as _, net::UnixListener},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use vermeil_accept::{
    activation::ActivationError,
    balance::{Balancing, Changeover},
    listening::Listening,
};
use vermeil_address::ListenAddr;
use vermeil_config::ServeOptions;
use vermeil_log::operator_log::log_line;
use vermeil_settings::{ControlTarget, TakeOver};
use vermeil_tls::TicketSecret;
use vermeil_topology::CpuId;

/// Time limit for the old server to hand over, and to let go. The old server asks each core, and a
/// core answers between two events. The limit only ends a wait for a server that does not answer at
/// all.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to name the server to take over from, with or without a configuration file.
const CURE: &str = "--take-over=PATH";

/// A server could not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The old server cannot be asked.
    #[error("--take-over: {}", .0.with_cure(CURE))]
    Client(#[from] ClientError),
    /// The old server refuses.
    #[error("--take-over: the server that runs refuses: {0}")]
    Refused(String),
    /// The handover message makes no sense.
    #[error(
        "--take-over: the answer of the running server is malformed ({0}); stop that server, then start this one"
    )]
    Strange(io::Error),
}

/// Sockets taken over and not used yet.
#[derive(Default)]
pub struct Inherited {
    /// The link to the old server, and the process id; `None` without a takeover.
    from: Option<(Messages, u32)>,
    control: Option<(PathBuf, OwnedFd)>,
    listening: Vec<Listening>,
    agent: Vec<Listening>,
    /// Addresses, as configured, whose sockets are in use here.
    taken: Vec<ListenAddr>,
    /// The secret of TLS session tickets.
    tickets: Option<TicketSecret>,
    /// Sockets of the service manager that are not in use here.
    passed: Vec<Listening>,
}

impl Inherited {
    /// Takes over as `options` demand. If no server runs, there is nothing to take, and a message
    /// says so.
    ///
    /// # Errors
    /// A server runs and cannot be taken over, or several servers run.
    pub fn of(options: &ServeOptions) -> Result<Self, TakeOverError> {
        let place = match (&options.take_over, &options.control) {
            (TakeOver::Never, _) => return Ok(Self::default()),
            (TakeOver::At(path), _) | (_, ControlTarget::Path(path)) => Some(path.as_path()),
            (TakeOver::SameControl, _) => None,
        };
        match ask_to_take_over(place) {
            Ok(Offer::Link(link)) => Self::receive(link).map_err(TakeOverError::Strange),
            Ok(Offer::Refused(why)) => Err(TakeOverError::Refused(why)),
            Err(error) if error.is_nobody() => {
                log_line(format_args!("nothing to take over: {}", error.with_cure(CURE)));
                Ok(Self::default())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn receive(link: OwnedFd) -> io::Result<Self> {
        let mut messages = Messages::new(link);
        let received = messages.receive::<Handed>(Some(Instant::now() + PATIENCE))?;
        let (Handed { pid, control, listening, agent, tickets }, descriptors) =
            received.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut descriptors = descriptors.into_iter();
        let socket = descriptors.next().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut all = |addresses: Vec<AddressSockets>| -> Vec<Listening> {
            let of = |AddressSockets { asked, addr, sockets, keeper }| {
                let sockets = descriptors.by_ref().take(sockets).collect();
                Listening { asked, addr, sockets, keeper }
            };
            addresses.into_iter().map(of).collect()
        };
        let (listening, agent) = (all(listening), all(agent));
        let (from, control) = (Some((messages, pid)), Some((control, socket)));
        Ok(Self { from, control, listening, agent, taken: Vec::new(), tickets, passed: Vec::new() })
    }

    /// The old server's secret of TLS session tickets, if there is one.
    pub fn take_tickets(&mut self) -> Option<TicketSecret> {
        self.tickets.take()
    }

    /// Adds sockets of the service manager.
    pub fn add(&mut self, passed: Vec<Listening>) {
        self.passed = passed;
    }

    /// Refuses sockets of the service manager that no listener has taken.
    ///
    /// # Errors
    /// There are such sockets.
    pub fn refuse_unnamed(&self) -> Result<(), ActivationError> {
        let unnamed: Vec<_> = self.passed.iter().map(|passed| passed.addr.to_string()).collect();
        if unnamed.is_empty() { Ok(()) } else { Err(ActivationError::Unnamed(unnamed.join(", "))) }
    }

    /// The addresses of the old server that are not in use here, as bound.
    pub fn addrs(&self) -> Vec<ListenAddr> {
        self.listening.iter().map(|listening| listening.addr).collect()
    }

    /// The sockets of the service manager or of the old server for an address, if there are any.
    pub fn take(&mut self, asked: ListenAddr) -> Option<Listening> {
        if let Some(passed) = take_from(&mut self.passed, asked) {
            return Some(passed);
        }
        let taken = take_from(&mut self.listening, asked)?;
        self.taken.push(asked);
        Some(taken)
    }

    /// Prepares the kernel changes for the addresses of `listening` that were taken over.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn prepare(&self, balancing: &Balancing, listening: &[Listening]) -> io::Result<Vec<Changeover>> {
        let taken = listening.iter().filter(|listening| self.taken.contains(&listening.asked));
        taken.filter_map(|listening| Changeover::prepare(balancing, listening).transpose()).collect()
    }

    /// The old server's socket for agent checks at an address.
    pub fn take_agent(&mut self, asked: ListenAddr) -> Option<OwnedFd> {
        take_from(&mut self.agent, asked)?.sockets.into_iter().next()
    }

    /// The old server's control socket, if the path is `path`.
    pub fn take_control(&mut self, path: &Path) -> Option<UnixListener> {
        let file = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let is_there =
            |(theirs, _): &mut (PathBuf, OwnedFd)| file(path).is_some() && file(path) == file(theirs);
        self.control.take_if(is_there).map(|(_, socket)| socket.into())
    }

    /// Whether this server was told to stop before the takeover. Then the old server goes on, and a
    /// message says so.
    pub fn is_called_off(&self, signals: &mut Signals) -> bool {
        let Some((_, pid)) = &self.from else { return false };
        let is_called_off = signals::ask_to_stop(signals);
        if is_called_off {
            log_line(format_args!("told to stop before it served: process {pid} goes on"));
        }
        is_called_off
    }

    /// Call once this server serves. Makes the old server let go, waits, and carries out the
    /// prepared changes.
    pub fn finish(self, changeovers: Vec<Changeover>, balancing: &Balancing, cpus: &[CpuId]) {
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
            log_line(format_args!("no longer listening on {addr}"));
        }
        match heard {
            Ok(_) => log_line(format_args!("took over from process {pid}, which drains")),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                log_line(format_args!("took over from process {pid}, which has ended"));
            }
            Err(error) => log_line(format_args!("process {pid} does not let go ({error}); stop it")),
        }
    }
}

/// The sockets of an address, given as configured or as bound.
fn take_from(all: &mut Vec<Listening>, asked: ListenAddr) -> Option<Listening> {
    let found = all.iter().position(|has| has.asked.is_at(&asked) || has.addr.is_at(&asked))?;
    Some(all.remove(found)).filter(|listening| !listening.sockets.is_empty())
}
