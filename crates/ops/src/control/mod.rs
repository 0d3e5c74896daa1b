//! The control socket, by which the owner of a running server asks for its status and tells it to
//! reload.
//!
//! A UNIX socket with a name, mode 0600, in a folder that only its owner may enter
//! (`control_socket.rs`). A client sends one line, and the end of the connection ends the answer:
//!
//! | line | answer |
//! | --- | --- |
//! | `status` | the status, for people |
//! | `status json` | the same for programs: [`ServerStatus`] |
//! | `status metrics` | the same for monitors: OpenMetrics text |
//! | `reload` | `reloaded` or `refused`, then remarks, line by line |
//! | `take over` | the end of a link, as a descriptor, or `refused` and the reason: `handover/` |
//!
//! The client's process must also belong to the user that started the server, or to the superuser,
//! according to the kernel. One thread reads all clients concurrently (`clients.rs`), and each
//! answer has its own thread. Tested through the binary
//! (`crates/e2e/tests/e2e/status.rs`).

mod clients;

pub use clients::ClientRequest;

use crate::{
    control_client::{REFUSED, RELOADED},
    control_socket::{self, BoundSocket, PlaceError},
};
use crate::{
    handover::{Handing, HasControl, Inherited, Taker},
    status::ServerStatus,
};
use clients::WaitingClients;
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_peercred,
};
use std::{
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use vermeil_settings::ControlTarget;
use vermeil_spawn::Remover;

/// How long a client may take to send its request, and to read the answer. The client is a program
/// on this machine; the limit only frees the place of a stopped client.
const PATIENCE: Duration = Duration::from_secs(5);

/// The source of the answers: a server, or the supervisor of several instances.
pub trait Overseer: Send + Sync {
    /// The present status.
    fn status(&self) -> ServerStatus;

    /// Reads the configuration from its file again, and also logs the result. Returns remarks.
    ///
    /// # Errors
    /// The reason of the refusal. Nothing has changed then.
    fn reload(&self) -> Result<Vec<String>, String>;

    /// Prepares the data that another process needs to take over. Nothing changes until
    /// [`keep`](Self::keep) or [`let_go`](Self::let_go).
    ///
    /// # Errors
    /// The reason of the refusal.
    fn hand_over(&self) -> Result<Handing, String>;

    /// Process `pid` failed to serve, so this process continues as before.
    fn keep(&self, pid: u32);

    /// Process `pid` serves, so this process drains.
    fn let_go(&self, pid: u32);
}

/// A bound control socket that does not answer yet.
pub struct BoundControl(Result<BoundSocket, String>);

/// The control socket of one server.
pub struct ControlSocket {
    path: PathBuf,
    /// Sends the overseer to the thread. Dropped without a message if the server does not start.
    running: mpsc::Sender<Arc<dyn Overseer>>,
    /// Closed to end the thread.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl BoundControl {
    /// Binds the socket at `target`. Binds nothing if there is to be no socket.
    ///
    /// # Errors
    /// [`PlaceError`], for a configured path. If the default path is unavailable, the server logs a
    /// line instead.
    pub fn at(target: &ControlTarget, inherited: &mut Inherited) -> Result<Self, PlaceError> {
        // Determines the owner before this process changes its user.
        control_socket::owner();
        Ok(Self(match target {
            ControlTarget::Off => Err("off".to_owned()),
            ControlTarget::Default => {
                BoundSocket::default_for_this_process().map_err(|error| format!("none ({error})"))
            }
            ControlTarget::Path(path) => Ok(match inherited.take_control(path) {
                Some(listener) => BoundSocket::inherited(path, listener),
                None => BoundSocket::bind(path)?,
            }),
        }))
    }

    /// Starts the thread that answers. Otherwise returns the line that says why there is none.
    /// `remover` removes the name if this process may not.
    pub fn start(self, remover: Option<Remover>) -> Result<ControlSocket, String> {
        let mut place = self.0?;
        if let Some(remover) = remover {
            place.remove_by(remover);
        }
        ControlSocket::start(place).map_err(|error| format!("none ({error})"))
    }

    /// Removes the name, called in a process other than the answering process.
    pub fn remove_name(&self) {
        if let Ok(place) = &self.0 {
            place.remove_name();
        }
    }

    /// The descriptors that a process needs to remove the name.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.as_ref().map(BoundSocket::descriptors).unwrap_or_default()
    }
}

impl ControlSocket {
    fn start(mut place: BoundSocket) -> io::Result<Self> {
        let (stopping, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (running, runs) = mpsc::channel::<Arc<dyn Overseer>>();
        let path = place.path().to_owned();
        let thread = thread::Builder::new().name("vermeil-control".to_owned()).spawn(move || {
            if let Ok(running) = runs.recv() {
                place.take_name();
                serve(place, &stopping, &running);
            }
        })?;
        Ok(Self { path, running, stop, thread })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts to answer requests, including requests that came earlier.
    pub fn watch(&self, running: Arc<dyn Overseer>) {
        // An error means that the thread has ended, and then there are no clients.
        let _ = self.running.send(running);
    }

    /// Closes the socket and removes its name.
    pub fn close(self) {
        drop((self.stop, self.running));
        // An error means that the thread panicked, which has been reported. There is nothing to
        // lose.
        let _ = self.thread.join();
    }
}

fn serve(mut place: BoundSocket, stopping: &OwnedFd, running: &Arc<dyn Overseer>) {
    let (mut taker, mut clients): (Option<Taker>, _) = (None, WaitingClients::default());
    loop {
        let mut fds = vec![
            PollFd::new(place.listener(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopping.as_fd(), PollFlags::IN),
        ];
        let of_taker = taker.as_ref().map(|taker| PollFd::from_borrowed_fd(taker.as_fd(), PollFlags::IN));
        let taker_at = of_taker.map(|fd| {
            fds.push(fd);
            fds.len() - 1
        });
        fds.extend(clients.polled());
        match poll(&mut fds, clients.patience().as_ref()) {
            Ok(_) if !fds[1].revents().is_empty() => {
                if taker.is_some() {
                    // The taker has the socket. If the taker does not serve, the name is like a
                    // name of an ended server, which the next server replaces.
                    place.leave_name();
                }
                return;
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        let speaks = taker_at.is_some_and(|at| !fds[at].revents().is_empty());
        drop(fds);
        if let Some(mut taker) = taker.take_if(|_| speaks) {
            match taker.serves() {
                Some(control) => {
                    if control == HasControl::Yes {
                        place.leave_name();
                    }
                    drop(place);
                    // The end of the link tells the taker that all of this has happened.
                    return running.let_go(taker.pid());
                }
                None => running.keep(taker.pid()),
            }
        }
        match place.listener().accept() {
            Ok((client, _)) if is_owner(&client) => drop(clients.add(client, PATIENCE)),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Out of descriptors. The next attempt may succeed.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
        for (client, asked) in clients.hear() {
            // An error of one client does not concern other clients.
            drop(answer(client, asked, &place, &mut taker, running));
        }
    }
}

/// Whether the client's process belongs to the owner or to the superuser.
fn is_owner(client: &UnixStream) -> bool {
    let Ok(peer) = socket_peercred(client) else { return false };
    peer.uid.is_root() || peer.uid == control_socket::owner()
}

fn answer(
    mut client: UnixStream,
    asked: ClientRequest,
    place: &BoundSocket,
    taker: &mut Option<Taker>,
    running: &Arc<dyn Overseer>,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let overseer = running.clone();
    match asked {
        ClientRequest::Status => aside(client, "vermeil-status", move || overseer.status().to_string()),
        ClientRequest::StatusJson => aside(client, "vermeil-status", move || overseer.status().to_json()),
        ClientRequest::StatusMetrics => {
            aside(client, "vermeil-status", move || overseer.status().to_metrics())
        }
        ClientRequest::Reload => aside(client, "vermeil-reload", move || reload(&*overseer)),
        ClientRequest::TakeOver => match hand_over(&client, place, taker.as_ref(), running.as_ref()) {
            Ok(begun) => {
                *taker = Some(begun);
                Ok(())
            }
            Err(why) => client.write_all(format!("{}\n{why}\n", REFUSED).as_bytes()),
        },
        ClientRequest::Unknown => {
            let known =
                b"unknown request: status, status json, status metrics, reload and take over are known\n";
            client.write_all(known)
        }
    }
}

/// Answers on a separate thread, because the answer and its reader may be slow, and other clients
/// need answers meanwhile.
fn aside(
    mut client: UnixStream,
    name: &str,
    make: impl FnOnce() -> String + Send + 'static,
) -> io::Result<()> {
    // The client may have gone.
    let answer = move || drop(client.write_all(make().as_bytes()));
    thread::Builder::new().name(name.to_owned()).spawn(answer).map(drop)
}

fn reload(running: &dyn Overseer) -> String {
    let (outcome, lines) = match running.reload() {
        Ok(said) => (RELOADED, said.join("\n")),
        Err(why) => (REFUSED, why),
    };
    format!("{outcome}\n{lines}\n")
}

/// Begins a handover to the client. The error is the reason in words.
fn hand_over(
    client: &UnixStream,
    place: &BoundSocket,
    another: Option<&Taker>,
    running: &dyn Overseer,
) -> Result<Taker, String> {
    if let Some(another) = another {
        return Err(format!("process {} is taking over already", another.pid()));
    }
    let pid = socket_peercred(client).map_err(|error| error.to_string())?.pid.as_raw_pid().unsigned_abs();
    let handing = running.hand_over()?;
    let begun = Taker::begin(client, pid, (place.path(), place.listener().as_fd()), &handing);
    begun.map_err(|error| {
        running.keep(pid);
        error.to_string()
    })
}
