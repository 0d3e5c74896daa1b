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
//! Whoever connects must also be the user that started the server, or the superuser, by the kernel's word. Requests are
//! answered one after the other, on a thread of its own. Tested in `tests.rs` and through the binary
//! (`crates/cli/tests/e2e/status.rs`).

mod client;
mod place;

#[cfg(test)]
mod tests;

pub use client::{ClientError, Reloaded, StatusForm, ask_reload, ask_status};
pub(crate) use client::{Offer, ask_to_take_over};
pub use place::{ControlTarget, PlaceError};

use crate::{
    handover::{Handing, HasControl, Inherited, Taker},
    status::Status,
};
use place::Place;
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_peercred,
};
use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Longest line of a request, in bytes. Guess: the longest there is has 12.
const LINE_BYTES_MAX: u64 = 256;

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

    /// Starts the thread that answers, or gives the line that says why there is none. The thread gives up no right that this
    /// one has, so it is to be called before the sandbox is entered.
    pub(crate) fn start(self) -> Result<Control, String> {
        Control::start(self.0?).map_err(|error| format!("none ({error})"))
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
    let mut taker: Option<Taker> = None;
    loop {
        let mut fds = vec![
            PollFd::new(place.listener(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopping.as_fd(), PollFlags::IN),
        ];
        fds.extend(taker.iter().map(|taker| PollFd::from_borrowed_fd(taker.as_fd(), PollFlags::IN)));
        match poll(&mut fds, None) {
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
        let speaks = fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
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
            // What goes wrong with whoever asked is theirs.
            Ok((client, _)) => drop(answer(client, &place, &mut taker, running)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Out of descriptors: the next one may find some.
            Err(_) => thread::sleep(Duration::from_millis(50)),
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
    place: &Place,
    taker: &mut Option<Taker>,
    running: &Arc<dyn Overseer>,
) -> io::Result<()> {
    if !is_owner(&client) {
        return Ok(());
    }
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&client).take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let answer = match line.trim_end() {
        "status" => running.status().to_string(),
        "status json" => running.status().to_json(),
        "reload" => return reload(client, running.clone()),
        "take over" => match hand_over(&client, place, taker.as_ref(), running.as_ref()) {
            Ok(begun) => {
                *taker = Some(begun);
                return Ok(());
            }
            Err(why) => format!("{}\n{why}\n", client::REFUSED),
        },
        _ => "unknown request: status, status json, reload and take over are known\n".to_owned(),
    };
    client.write_all(answer.as_bytes())
}

/// Reloads, on a thread of its own: it may take its time, and others are answered meanwhile.
fn reload(mut client: UnixStream, running: Arc<dyn Overseer>) -> io::Result<()> {
    let reload = move || {
        let (outcome, lines) = match running.reload() {
            Ok(said) => (client::RELOADED, said.join("\n")),
            Err(why) => (client::REFUSED, why),
        };
        // Whoever asked may have gone.
        let _ = client.write_all(format!("{outcome}\n{lines}\n").as_bytes());
    };
    thread::Builder::new().name("vermeil-reload".to_owned()).spawn(reload).map(drop)
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
