//! Opens listening unix sockets, and removes their files.
//!
//! The server binds a socket under a temporary name in the folder of its path, sets the mode and
//! the queue, and renames the socket to its path, in place of the previous file. So every
//! connection attempt finds the previous socket or the new socket. All cores accept from the same
//! socket. Tested through the binary (`crates/e2e/tests/e2e/unix.rs`).

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

/// The server that may listen at the path already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Perhaps another server, which must not be replaced.
    Others,
    /// This server, or the server that is being taken over.
    Ours,
}

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

/// A socket that listens at `addr`, with a duplicate for each of `cores` cores.
pub(super) fn open(
    addr: UnixAddr,
    cores: usize,
    before: Before,
) -> Result<(UnixAddr, Vec<OwnedFd>), Refusal> {
    let name = NameInFolder::find(addr.path())?;
    if let Some(why) = obstacle(&name) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
    }
    if before == Before::Others
        && let Some(holder) = living(addr.path())
    {
        return Err(Refusal::Taken(holder));
    }
    let (socket, file) = bind(addr, &name)?;
    let mut sockets = vec![socket];
    while sockets.len() < cores {
        sockets.push(sockets[0].try_clone()?);
    }
    Ok((addr.bound_as(file), sockets))
}

fn bind(addr: UnixAddr, name: &NameInFolder) -> io::Result<(OwnedFd, SocketFile)> {
    let temporary = NameInFolder::within(name.folder().try_clone_to_owned()?, &temporary_name(), name.path());
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(temporary.way())?)?;
    let listens = || {
        let file = set_mode(&temporary, addr.mode())?;
        limit_queue(socket.as_fd(), QUEUE_MAX)?;
        temporary.rename(name)?;
        Ok(file)
    };
    let file = listens().inspect_err(|_: &io::Error| drop(temporary.remove()))?;
    Ok((socket, file))
}

/// A name that no other socket has, so the name also identifies the listener of a connection.
fn temporary_name() -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(".vermeil-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Sets the mode of the socket's file. The file is held open meanwhile, because another user of the
/// folder could put a link in its place.
fn set_mode(name: &NameInFolder, mode: u32) -> io::Result<SocketFile> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(name.folder(), name.name(), flags, Mode::empty())?;
    let found = fstat(&file)?;
    if !is_socket(&found) {
        return Err(Errno::NOTSOCK.into());
    }
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))?;
    Ok(identity(&found))
}

/// Sets the mode of an inherited socket's file. Returns `None` if the path leads to another file by
/// now. The file of a socket of the service manager stays as it is.
pub(super) fn renew(addr: UnixAddr, bound: UnixAddr) -> io::Result<Option<UnixAddr>> {
    if bound.file().is_none() {
        return Ok(Some(addr));
    }
    let Some(file) = bound.file().filter(|file| file_at(addr.path()) == Some(*file)) else { return Ok(None) };
    if addr.mode() != bound.mode() {
        set_mode(&NameInFolder::find(addr.path())?, addr.mode())?;
    }
    Ok(Some(addr.bound_as(file)))
}

/// Removes the file of a socket, unless another file has the path by now.
pub fn remove(bound: UnixAddr) {
    let Ok(name) = NameInFolder::find(bound.path()) else { return };
    let is_there = name.stat().is_ok_and(|found| Some(identity(&found)) == bound.file());
    if is_there {
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
    Some(identity(&NameInFolder::find(path).ok()?.stat().ok()?))
}

fn is_socket(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket
}

fn identity(found: &Stat) -> SocketFile {
    SocketFile { dev: found.st_dev, ino: found.st_ino }
}
