//! The thread that measures the load and answers HAProxy's agent checks (HAProxy configuration
//! manual, `agent-check`). Each client gets one line, such as `ready up 80%`, and the thread closes
//! the connection.
//!
//! `80%` is relative to the weight in the balancer's own configuration. From the first signal to
//! stop the line is `drain`: the balancer finishes requests in flight and sends no new ones. The
//! thread reads nothing, and its line fits any send buffer, so a client cannot hold the thread up.
//! Leaves out the measurement of the load.

use crate::handover::Inherited;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil_accept::listening::{Listening, SocketKeeper};
use vermeil_address::ListenAddr;
use vermeil_io::{ListenOptions, listen, probe_free};
use vermeil_log::operator_log::log_line;

/// Interval of the measurement: a quarter of HAProxy's default interval of two seconds, so an
/// answer is at most 500 ms old.
const LOOK: Duration = Duration::from_millis(500);

/// Pause after accepting failed for want of descriptors or memory, as for other clients
/// (`crates/server/src/accept.rs`). The client waits in the queue, so the socket stays readable.
const RETRY: Duration = Duration::from_millis(50);

/// Opens the sockets for agent checks.
///
/// # Errors
/// The address, and the system's error.
pub fn bind(
    addrs: &[SocketAddr],
    inherited: &mut Inherited,
) -> Result<Vec<Listening>, (SocketAddr, io::Error)> {
    let mut open = |asked: SocketAddr| {
        let socket = match inherited.take_agent(asked.into()) {
            Some(socket) => TcpListener::from(socket),
            None => {
                // The probe also covers the listeners of this server, which are open already,
                // because sockets that share a port share its connections.
                probe_free(asked)?;
                listen(asked, &ListenOptions::default())?.into()
            }
        };
        let addr = socket.local_addr()?;
        let (sockets, keeper) = (vec![socket.into()], SocketKeeper::Server);
        Ok(Listening { asked: asked.into(), addr: ListenAddr::from(addr), sockets, keeper })
    };
    addrs.iter().map(|&addr| open(addr).map_err(|error| (addr, error))).collect()
}

/// The source of the load.
pub trait Observed: Send {
    /// Measures the load. The thread calls this function at intervals.
    fn look(&mut self);

    /// The present answer.
    fn told(&self) -> BalancerAnswer;
}

/// The answer to a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerAnswer {
    /// The weight, in hundredths of the configured weight.
    Weight(u32),
    /// Send no more clients.
    Drain,
}

impl BalancerAnswer {
    fn line(self) -> String {
        match self {
            Self::Weight(weight) => format!("ready up {weight}%\n"),
            Self::Drain => "drain\n".to_owned(),
        }
    }
}

/// The thread.
pub struct AgentThread {
    /// Closed to end the thread.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl AgentThread {
    /// Starts the thread and logs its addresses, or the error.
    pub fn start(listening: Vec<Listening>, observed: impl Observed + 'static) -> Option<Self> {
        for Listening { addr, .. } in &listening {
            log_line(format_args!("agent checks: {addr}"));
        }
        let listeners =
            listening.into_iter().flat_map(|listening| listening.sockets).map(TcpListener::from).collect();
        match Self::begin(listeners, observed) {
            Ok(agent) => Some(agent),
            Err(error) => {
                log_line(format_args!("balancers are told nothing: {error}"));
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

    /// Ends the thread.
    pub fn stop(self) {
        drop(self.stop);
        // An error means that the thread panicked, which has been reported.
        let _ = self.thread.join();
    }
}

/// Measures and answers until told to stop.
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
            match listener.accept() {
                Ok((mut client, _)) => {
                    // An error is the client's problem.
                    let _ = client.write_all(observed.told().line().as_bytes());
                }
                Err(error) if has_lost_client(&error) => {}
                Err(_) => thread::sleep(RETRY),
            }
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            observed.look();
        }
    }
}

/// Whether there is no client to accept any more. All other errors last.
fn has_lost_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// Regression: without a free descriptor the thread used a whole cpu.
    #[test]
    fn thread_pauses_without_free_descriptors() {
        for (errno, has_lost) in
            [(Errno::MFILE, false), (Errno::NFILE, false), (Errno::AGAIN, true), (Errno::CONNABORTED, true)]
        {
            assert_eq!(has_lost_client(&errno.into()), has_lost, "{errno}");
        }
    }
}
