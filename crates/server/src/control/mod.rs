//! The control socket: how its owner asks a server that runs for its status, and tells it to reload.
//!
//! A UNIX socket with a name, mode 0600, in a folder that nobody else may enter (`place`). One line asks, the answer ends
//! with the connection:
//!
//! | line | answer |
//! | --- | --- |
//! | `status` | the status, for people |
//! | `status json` | the same for programs: [`Status`] |
//! | `reload` | `reloaded` or `refused`, then what there is to say, line by line |
//! | `take over` | the end of a link, as a descriptor, or `refused` and why: `handover/` |
//!
//! Whoever connects must also be the user that started the server, or the superuser, by the kernel's word. One thread
//! hears all clients side by side (`clients.rs`), and each answer is made on a thread of its own. Tested in `tests.rs` and through the binary
//! (`crates/cli/tests/e2e/status.rs`).

mod client;
mod clients;
mod place;

#[cfg(test)]
mod tests;

pub use client::{ClientError, Reloaded, StatusForm, ask_reload, ask_status};
pub(crate) use client::{Offer, ask_to_take_over};
pub(crate) use clients::Asked;
pub use place::{ControlTarget, PlaceError};

use crate::{
    handover::{Handing, HasControl, Inherited, Taker},
    removal::Remover,
    status::Status,
};
use clients::Clients;
use place::Place;
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

/// How long whoever has connected may take to ask, and to take the answer. Guess: it is a program on this machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// What answers: a server, or the supervisor of several instances.
pub(crate) trait Overseer: Send + Sync {
    /// What is done, was done and is held.
    fn status(&self) -> Status;

    /// Takes the configuration from its file again, and says so to whoever started the server too; what there is to say.
    ///
    /// # Errors
    /// Why it was refused; nothing has changed then.
    fn reload(&self) -> Result<Vec<String>, String>;

    /// What another process needs to take over. Nothing of it changes until one of the next two.
    ///
    /// # Errors
    /// Why it is refused.
    fn hand_over(&self) -> Result<Handing, String>;

    /// Process `pid` has not come to serve: all goes on as before.
    fn keep(&self, pid: u32);

    /// Process `pid` serves: has this one drain.
    fn let_go(&self, pid: u32);
}

/// A control socket that has its name and is not answered yet.
pub(crate) struct Bound(Result<Place, String>);

/// The control socket of one server.
pub(crate) struct Control {
    path: PathBuf,
    /// Told what runs; dropped instead if nothing comes to run.
    running: mpsc::Sender<Arc<dyn Overseer>>,
    /// Closed to end the thread.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl Bound {
    /// Binds the socket where `target` says; nothing if there is to be none.
    ///
    /// # Errors
    /// [`PlaceError`], for a place that was asked for. That the default cannot be had is said in a line instead.
    pub(crate) fn at(target: &ControlTarget, inherited: &mut Inherited) -> Result<Self, PlaceError> {
        // Who that is, is asked before this process becomes another user.
        place::owner();
        Ok(Self(match target {
            ControlTarget::Off => Err("off".to_owned()),
            ControlTarget::Default => {
                Place::default_for_this_process().map_err(|error| format!("none ({error})"))
            }
            ControlTarget::Path(path) => Ok(match inherited.take_control(path) {
                Some(listener) => Place::inherited(path, listener),
                None => Place::bind(path)?,
            }),
        }))
    }

    /// Starts the thread that answers, or gives the line that says why there is none. `remover` removes the name if this
    /// process may not.
    pub(crate) fn start(self, remover: Option<Remover>) -> Result<Control, String> {
        let mut place = self.0?;
        if let Some(remover) = remover {
            place.remove_by(remover);
        }
        Control::start(place).map_err(|error| format!("none ({error})"))
    }

    /// Removes the name, in another process than the one that answers.
    pub(crate) fn remove_name(&self) {
        if let Ok(place) = &self.0 {
            place.remove_name();
        }
    }

    /// What a process has to have open to remove the name.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.as_ref().map(Place::descriptors).unwrap_or_default()
    }
}

impl Control {
    fn start(mut place: Place) -> io::Result<Self> {
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

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// From now on requests are answered; those that came before have waited.
    pub(crate) fn watch(&self, running: Arc<dyn Overseer>) {
        // It fails if the thread has ended, and then nobody asks.
        let _ = self.running.send(running);
    }

    /// Closes the socket and takes its name away.
    pub(crate) fn close(self) {
        drop((self.stop, self.running));
        // It panicked, which has been reported; there is nothing to lose.
        let _ = self.thread.join();
    }
}

fn serve(mut place: Place, stopping: &OwnedFd, running: &Arc<dyn Overseer>) {
    let (mut taker, mut clients): (Option<Taker>, _) = (None, Clients::default());
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
                    // It has the socket. Should it not come to serve, the name is one that an ended server left behind.
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
                    // Its end of the link tells it that all of this has happened.
                    return running.let_go(taker.pid());
                }
                None => running.keep(taker.pid()),
            }
        }
        match place.listener().accept() {
            Ok((client, _)) if is_owner(&client) => drop(clients.add(client, PATIENCE)),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Out of descriptors: the next one may find some.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
        for (client, asked) in clients.hear() {
            // What goes wrong with a client is no other's trouble.
            drop(answer(client, asked, &place, &mut taker, running));
        }
    }
}

/// Whether the process at the other end is the owner's or the superuser's.
fn is_owner(client: &UnixStream) -> bool {
    let Ok(peer) = socket_peercred(client) else { return false };
    peer.uid.is_root() || peer.uid == place::owner()
}

fn answer(
    mut client: UnixStream,
    asked: Asked,
    place: &Place,
    taker: &mut Option<Taker>,
    running: &Arc<dyn Overseer>,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let overseer = running.clone();
    match asked {
        Asked::Status => aside(client, "vermeil-status", move || overseer.status().to_string()),
        Asked::StatusJson => aside(client, "vermeil-status", move || overseer.status().to_json()),
        Asked::Reload => aside(client, "vermeil-reload", move || reload(&*overseer)),
        Asked::TakeOver => match hand_over(&client, place, taker.as_ref(), running.as_ref()) {
            Ok(begun) => {
                *taker = Some(begun);
                Ok(())
            }
            Err(why) => client.write_all(format!("{}\n{why}\n", client::REFUSED).as_bytes()),
        },
        Asked::Unknown => {
            client.write_all(b"unknown request: status, status json, reload and take over are known\n")
        }
    }
}

/// Answers on a thread of its own, because the answer and its reader may take their time, and other clients are answered
/// meanwhile.
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
        Ok(said) => (client::RELOADED, said.join("\n")),
        Err(why) => (client::REFUSED, why),
    };
    format!("{outcome}\n{lines}\n")
}

/// Hands over to whoever has asked; why not, in words.
fn hand_over(
    client: &UnixStream,
    place: &Place,
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
