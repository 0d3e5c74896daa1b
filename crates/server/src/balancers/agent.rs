//! The thread that looks at the load, and answers HAProxy's agent checks (HAProxy configuration manual, `agent-check`):
//! whoever connects gets one line, such as `ready up 80%`, and the connection is closed.
//!
//! `80%` is of the weight that the balancer's own configuration gives this server. From the first signal to stop the line
//! is `drain`: what is under way is finished, nothing new comes. Nothing is read, so nobody can hold the thread up but by
//! not taking a line that fits any buffer. Who looks at what: `measuring.rs` for a server, `supervise/sum.rs` for several
//! instances.

use crate::{handover::Inherited, listen::Listening, voice::say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil_io::{ListenOptions, listen, probe_free};

/// How often the load is looked at. Guess: HAProxy asks every two seconds unless told otherwise.
const LOOK: Duration = Duration::from_millis(500);

/// Opens the sockets for agent checks.
///
/// # Errors
/// The address, and what the system said.
pub(crate) fn bind(
    addrs: &[SocketAddr],
    inherited: &mut Inherited,
) -> Result<Vec<Listening>, (SocketAddr, io::Error)> {
    let mut open = |asked: SocketAddr| {
        let socket = match inherited.take_agent(asked) {
            Some(socket) => TcpListener::from(socket),
            None => {
                // Also of the listeners of this server, which were opened before: who shares a port gets half of what comes there.
                probe_free(asked)?;
                listen(asked, &ListenOptions::default())?.into()
            }
        };
        let addr = socket.local_addr()?;
        Ok(Listening { asked, addr, sockets: vec![socket.into()] })
    };
    addrs.iter().map(|&addr| open(addr).map_err(|error| (addr, error))).collect()
}

/// What is asked about.
pub(crate) trait Observed: Send {
    /// Looks at it; the thread does so now and then.
    fn look(&mut self);

    /// What there is to tell.
    fn told(&self) -> Told;
}

/// What a balancer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// So many hundredths of its weight.
    Weight(u32),
    /// To send nobody any more.
    Drain,
}

impl Told {
    fn line(self) -> String {
        match self {
            Self::Weight(weight) => format!("ready up {weight}%\n"),
            Self::Drain => "drain\n".to_owned(),
        }
    }
}

/// The thread.
pub(crate) struct Agent {
    /// Closed to end the thread.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl Agent {
    /// Starts it and says where it answers, or why it does not.
    pub(crate) fn start(listening: Vec<Listening>, observed: impl Observed + 'static) -> Option<Self> {
        for Listening { addr, .. } in &listening {
            say(format_args!("agent checks: {addr}"));
        }
        let listeners =
            listening.into_iter().flat_map(|listening| listening.sockets).map(TcpListener::from).collect();
        match Self::begin(listeners, observed) {
            Ok(agent) => Some(agent),
            Err(error) => {
                say(format_args!("balancers are told nothing: {error}"));
                None
            }
        }
    }

    fn begin(listeners: Vec<TcpListener>, observed: impl Observed + 'static) -> io::Result<Self> {
        let (stopping, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = thread::Builder::new()
            .name("vermeil-agent".to_owned())
            .spawn(move || run(observed, &listeners, &stopping))?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // It panicked, which has been reported; there is nothing to lose.
        let _ = self.thread.join();
    }
}

/// Looks and answers until told to stop.
fn run(mut observed: impl Observed, listeners: &[TcpListener], stopping: &OwnedFd) {
    let mut looked = Instant::now();
    loop {
        let left = LOOK.saturating_sub(looked.elapsed());
        let mut fds: Vec<PollFd<'_>> =
            listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(stopping.as_fd(), PollFlags::IN));
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        if poll(&mut fds, Some(&timeout)).is_err() {
            continue;
        }
        if !fds[listeners.len()].revents().is_empty() {
            return;
        }
        let asked: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (listener, _) in listeners.iter().zip(asked).filter(|(_, asked)| *asked) {
            if let Ok((mut client, _)) = listener.accept() {
                // What goes wrong with whoever asked is theirs.
                let _ = client.write_all(observed.told().line().as_bytes());
            }
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            observed.look();
        }
    }
}
