//! Opens listening unix sockets, and removes their files.
//!
//! The server binds a socket under a temporary name in the folder of its path, sets the mode and
//! the queue, and gives the socket its path later, in place of the previous file (`names.rs`). So
//! every connection attempt finds the previous socket or the new socket. All cores accept from the
//! same socket. Tested through the binary (`crates/e2e/tests/e2e/unix.rs`).

use super::names::{PendingMode, PendingName, Unpublished};
use crate::{
    admission_control::QUEUE_MAX,
    port_owner::{PortOwner, of_process},
};
use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, openat},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt::socket_peercred},
};
use std::{
    ffi::OsString,
    fs::{self, Permissions},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};
use vermeil_address::{SocketFile, UnixAddr};
use vermeil_io::{connect_unix, limit_queue, output::NameInFolder};

/// Interval and number of checks for another server. The kernel destroys the io_uring of an ended
/// process in the background, together with the sockets that the process was accepting from.
const AFTERLIFE: (Duration, u32) = (Duration::from_millis(5), 20);

/// Why a unix socket cannot listen.
pub(super) enum Refusal {
    /// Another server listens there.
    Taken(Option<PortOwner>),
    /// The error, with a cure if the system's text has none.
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A socket that listens for `addr` under a temporary name, with a duplicate for each of `cores`
/// cores. `own` is the file of this server's present socket at the path, or of the server that is
/// being taken over. No other living server is replaced.
pub(super) fn open(
    addr: UnixAddr,
    cores: usize,
    own: Option<SocketFile>,
) -> Result<(PendingName, Vec<OwnedFd>), Refusal> {
    let name = NameInFolder::find(addr.path())?;
    if let Some(why) = obstacle(&name) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
    }
    // Before the check for a living server, so that a file that another server puts there later
    // differs.
    let seen = file_named(&name);
    if seen != own
        && let Some(holder) = living(addr.path())
    {
        return Err(Refusal::Taken(holder));
    }
    let (socket, pending) = bind(addr, name, seen)?;
    let mut sockets = vec![socket];
    while sockets.len() < cores {
        match sockets[0].try_clone() {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                // If this fails, a name without a listener stays.
                let _ = pending.temporary.remove();
                return Err(error.into());
            }
        }
    }
    Ok((pending, sockets))
}

fn bind(addr: UnixAddr, name: NameInFolder, seen: Option<SocketFile>) -> io::Result<(OwnedFd, PendingName)> {
    let temporary = NameInFolder::within(name.folder().try_clone_to_owned()?, &temporary_name(), name.path());
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(temporary.way())?)?;
    let listens = || {
        let file = set_mode(&temporary, addr.mode(), None)?;
        limit_queue(socket.as_fd(), QUEUE_MAX)?;
        Ok(file)
    };
    let file = listens().inspect_err(|_: &io::Error| drop(temporary.remove()))?;
    // The file keeps its identity when it gets its path.
    Ok((socket, PendingName { addr: addr.bound_as(file), temporary, name, file, seen }))
}

/// A name that no other socket has, so the name also identifies the listener of a connection.
fn temporary_name() -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(".vermeil-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Sets the mode of the socket's file, which must be `expected`, if given. The file is held open
/// meanwhile, because another user of the folder could put a link in its place.
fn set_mode(name: &NameInFolder, mode: u32, expected: Option<SocketFile>) -> io::Result<SocketFile> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(name.folder(), name.name(), flags, Mode::empty())?;
    let found = fstat(&file)?;
    if !is_socket(&found) {
        return Err(Errno::NOTSOCK.into());
    }
    if expected.is_some_and(|expected| expected != identity(&found)) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))?;
    Ok(identity(&found))
}

/// Sets the mode of a bound socket's file, unless another file has the path by now.
pub(super) fn change_mode(bound: UnixAddr, mode: u32, file: SocketFile) -> Result<(), Refusal> {
    set_mode(&NameInFolder::find(bound.path())?, mode, Some(file))?;
    Ok(())
}

/// The address of an inherited socket. Its file gets another mode when the caller publishes
/// `names`. Returns `None` if the path leads to another file by now. The file of a socket of the
/// service manager stays as it is.
pub(super) fn renew(addr: UnixAddr, bound: UnixAddr, names: &mut Unpublished) -> Option<UnixAddr> {
    let Some(file) = bound.file() else { return Some(addr) };
    if file_at(addr.path()) != Some(file) {
        return None;
    }
    if addr.mode() != bound.mode() {
        names.add_mode(PendingMode { addr: addr.bound_as(file), file, former: bound.mode() });
    }
    Some(addr.bound_as(file))
}

/// Removes the file of a socket, unless another file has the path by now.
pub fn remove(bound: UnixAddr) {
    let Ok(name) = NameInFolder::find(bound.path()) else { return };
    if bound.file().is_some() && file_named(&name) == bound.file() {
        // If this fails, the next start replaces the file.
        let _ = name.remove();
    }
}

/// The reason why no socket can be made at this path: the path holds a file that is not a socket.
pub fn obstacle(name: &NameInFolder) -> Option<&'static str> {
    let found = name.stat().ok()?;
    (!is_socket(&found)).then_some("a file that is no socket is there; remove it, or name another path")
}

/// Whether a server listens at `path`, and its process if known.
fn living(path: &Path) -> Option<Option<PortOwner>> {
    let (pause, attempts) = AFTERLIFE;
    let mut holder = None;
    for _ in 0..attempts {
        match connect_unix(path) {
            Ok(socket) => holder = socket_peercred(&socket).ok().map(|peer| peer.pid.as_raw_pid()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        thread::sleep(pause);
    }
    Some(holder.and_then(|pid| of_process(u32::try_from(pid).ok()?)))
}

fn file_at(path: &Path) -> Option<SocketFile> {
    file_named(&NameInFolder::find(path).ok()?)
}

/// The file with this name.
pub(super) fn file_named(name: &NameInFolder) -> Option<SocketFile> {
    Some(identity(&name.stat().ok()?))
}

fn is_socket(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket
}

fn identity(found: &Stat) -> SocketFile {
    SocketFile { dev: found.st_dev, ino: found.st_ino }
}
