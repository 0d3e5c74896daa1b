//! The thread that measures, and answers HAProxy's agent checks (HAProxy configuration manual, `agent-check`): whoever
//! connects gets one line, such as `ready up 80%`, and the connection is closed.
//!
//! `80%` is of the weight that the balancer's own configuration gives this server. From the first signal to stop the line
//! is `drain`: what is under way is finished, nothing new comes. Nothing is read, so nobody can hold the thread up but by
//! not taking a line that fits any buffer.

use super::{Load, LoadBoard, weight::Weight};
use crate::{php::Php, server::Server, status::core_times};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use vermeil_io::{ListenOptions, listen};

/// How often the load is measured. Guess: HAProxy asks every two seconds unless told otherwise.
const LOOK: Duration = Duration::from_millis(500);

/// Opens the sockets for agent checks.
///
/// # Errors
/// The address, and what the system said.
pub(crate) fn bind(addrs: &[SocketAddr]) -> Result<Vec<TcpListener>, (SocketAddr, io::Error)> {
    let open = |addr: &SocketAddr| match listen(*addr, &ListenOptions::default()) {
        Ok(socket) => Ok(TcpListener::from(socket)),
        Err(error) => Err((*addr, error)),
    };
    addrs.iter().map(open).collect()
}

/// Whom it is about.
pub(crate) struct Subject {
    /// Any of its configurations: what is asked of it outlives them.
    pub(crate) server: Arc<Server>,
    pub(crate) php: Option<Arc<Php>>,
}

/// The thread.
pub(crate) struct Agent {
    /// Closed to end the thread.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl Agent {
    /// Starts it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start(listeners: Vec<TcpListener>, subject: Subject) -> io::Result<Self> {
        let (stopping, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = thread::Builder::new()
            .name("vermeil-agent".to_owned())
            .spawn(move || Measuring::new(subject).run(&listeners, &stopping))?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // It panicked, which has been reported; there is nothing to lose.
        let _ = self.thread.join();
    }
}

struct Measuring {
    subject: Subject,
    weight: Weight,
    looked: Instant,
    /// What the cores had run and waited for by then, and requests answered.
    before: (Duration, u64),
}

impl Measuring {
    fn new(subject: Subject) -> Self {
        let before = (worked(), subject.server.totals().requests);
        let measuring = Self { subject, weight: Weight::default(), looked: Instant::now(), before };
        measuring.board().set(Load::default(), 100);
        measuring
    }

    fn board(&self) -> &LoadBoard {
        &self.subject.server.load
    }

    fn run(mut self, listeners: &[TcpListener], stopping: &OwnedFd) {
        loop {
            let left = LOOK.saturating_sub(self.looked.elapsed());
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
                    let _ = client.write_all(self.line().as_bytes());
                }
            }
            if self.looked.elapsed() >= LOOK {
                self.look();
            }
        }
    }

    fn line(&self) -> String {
        match self.subject.server.is_leaving() {
            true => "drain\n".to_owned(),
            false => format!("ready up {}%\n", self.board().weight()),
        }
    }

    fn look(&mut self) {
        let lasted = self.looked.elapsed().as_secs_f64();
        let now = (worked(), self.subject.server.totals().requests);
        let cores = self.subject.server.cores().max(1) as f64;
        let cpu = now.0.saturating_sub(self.before.0).as_secs_f64() / lasted / cores;
        let load = Load {
            cpu: cpu.min(1.0),
            pending: cpu.min(1.0).max(self.php_asked_for()),
            requests_per_s: now.1.saturating_sub(self.before.1) as f64 / lasted,
        };
        (self.looked, self.before) = (Instant::now(), now);
        let weight = self.weight.follow(load.pending);
        self.board().set(load, weight);
    }

    /// Requests that PHP has or that wait for it, as a part of its children.
    fn php_asked_for(&self) -> f64 {
        let Some(php) = &self.subject.php else { return 0.0 };
        let pool = php.snapshot();
        (pool.busy + pool.queue) as f64 / pool.connections_max as f64
    }
}

/// What all cores have run, or waited for their cpus, since the start.
fn worked() -> Duration {
    core_times().values().map(|time| time.ran + time.waited).sum()
}
