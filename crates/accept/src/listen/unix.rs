//! Opens listening unix sockets, and removes their files.
//!
//! The server binds a socket under a temporary name in the folder of its path, sets the mode and
//! the queue, and gives the socket its path later, in place of the previous file (`names.rs`). So
//! every connection attempt finds the previous socket or the new socket. All cores accept from the
//! same socket. Tested through the binary (`crates/e2e/tests/e2e/unix.rs`).

use super::names::{FileRights, PendingName, PendingRights, Unpublished};
use crate::{
    admission_control::QUEUE_MAX,
    port_owner::{PortOwner, of_process},
};
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, openat},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt::socket_peercred},
};
use std::{
    ffi::OsString,
    fs::{self, Permissions},
    hash::{BuildHasher as _, RandomState},
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
use vermeil_io::{
    connect_unix, limit_queue,
    output::{FileOwner, NameInFolder},
};

/// Interval and number of checks for another server. The kernel destroys the io_uring of an ended
/// process in the background, together with the sockets that the process was accepting from.
const AFTERLIFE: (Duration, u32) = (Duration::from_millis(5), 20);

/// Temporary names to try. A leftover of a killed process may have such a name.
const NAMES_MAX: u32 = 100;

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
/// being taken over. No other living server is replaced. The file gets `owner`.
pub(super) fn open(
    addr: UnixAddr,
    cores: usize,
    own: Option<SocketFile>,
    owner: Option<FileOwner>,
) -> Result<(PendingName, Vec<OwnedFd>), Refusal> {
    let name = NameInFolder::find(addr.path())?;
    if let Some(why) = obstacle(&name) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
    }
    // Before the check for a living server, so that a file that another server puts there later
    // differs.
    let seen = SeenFile::look(&name)?;
    if seen.as_ref().map(|seen| seen.file) != own
        && let Some(holder) = living(addr.path())
    {
        return Err(Refusal::Taken(holder));
    }
    let (socket, pending) = bind(addr, FileRights { mode: addr.mode(), owner }, name, seen)?;
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

fn bind(
    addr: UnixAddr,
    rights: FileRights,
    name: NameInFolder,
    seen: Option<SeenFile>,
) -> io::Result<(OwnedFd, PendingName)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let temporary = bind_temporary(&socket, &name, temporary_name)?;
    let listens = || {
        let file = set_rights(&temporary, rights, None)?;
        limit_queue(socket.as_fd(), QUEUE_MAX)?;
        Ok(file)
    };
    let file = listens().inspect_err(|_: &io::Error| drop(temporary.remove()))?;
    // The rename to the path keeps the identity of the file.
    Ok((socket, PendingName { addr: addr.bound_as(file), temporary, name, file, seen }))
}

/// Binds the socket in the folder of `name`, under the first of `names` that no file has.
fn bind_temporary(
    socket: &OwnedFd,
    name: &NameInFolder,
    mut names: impl FnMut() -> OsString,
) -> io::Result<NameInFolder> {
    let mut attempts = 0;
    loop {
        let temporary = NameInFolder::within(name.folder().try_clone_to_owned()?, &names(), name.path());
        attempts += 1;
        match rustix::net::bind(socket, &SocketAddrUnix::new(temporary.way())?) {
            Err(Errno::ADDRINUSE) if attempts < NAMES_MAX => {}
            bound => return Ok(bound.map(|()| temporary)?),
        }
    }
}

/// A name that no other socket has, so the name also identifies the listener of a connection. The
/// name has a random part, because processes of several containers may have the same number.
fn temporary_name() -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (count, random) = (COUNT.fetch_add(1, Ordering::Relaxed), RandomState::new().hash_one(()));
    format!(".vermeil-{}-{count}-{random:016x}", process::id()).into()
}

/// The file at a path before the new socket gets the path. The open descriptor keeps the inode, so
/// no later file has the same inode number.
#[derive(Debug)]
pub(super) struct SeenFile {
    pub(super) file: SocketFile,
    _held: OwnedFd,
}

impl SeenFile {
    /// The file with this name, if there is one.
    fn look(name: &NameInFolder) -> io::Result<Option<Self>> {
        match hold(name) {
            Ok((held, found)) => Ok(Some(Self { file: identity(&found), _held: held })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens the file with this name, whatever the kind of the file, for its identity and mode only.
fn hold(name: &NameInFolder) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(name.folder(), name.name(), flags, Mode::empty())?;
    let found = fstat(&file)?;
    Ok((file, found))
}

/// Sets the owner and the mode of the socket's file, which must be `expected`, if given. The file
/// is held open meanwhile, because another user of the folder could put a link in its place.
fn set_rights(
    name: &NameInFolder,
    FileRights { mode, owner }: FileRights,
    expected: Option<SocketFile>,
) -> io::Result<SocketFile> {
    let (file, found) = hold(name)?;
    if expected.is_some_and(|expected| expected != identity(&found)) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if !is_socket(&found) {
        return Err(Errno::NOTSOCK.into());
    }
    if let Some(FileOwner { uid, gid }) = owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))?;
    Ok(identity(&found))
}

/// Sets the rights of a bound socket's file, unless another file has the path by now.
pub(super) fn change_rights(bound: UnixAddr, rights: FileRights, file: SocketFile) -> Result<(), Refusal> {
    set_rights(&NameInFolder::find(bound.path())?, rights, Some(file))?;
    Ok(())
}

/// The address of an inherited socket. Its file gets another mode or owner when the caller
/// publishes `names`. Returns `None` if the path leads to another file by now. The file of a socket
/// of the service manager stays as it is.
pub(super) fn renew(addr: UnixAddr, bound: UnixAddr, names: &mut Unpublished) -> Option<UnixAddr> {
    let Some(file) = bound.file() else { return Some(addr) };
    let found = NameInFolder::find(addr.path()).ok()?.stat().ok()?;
    if identity(&found) != file {
        return None;
    }
    // A process that becomes no other user leaves the owner as it is.
    let owner = names.owner();
    let present = owner.map(|_| FileOwner { uid: found.st_uid, gid: found.st_gid });
    let new = FileRights { mode: addr.mode(), owner };
    let former = FileRights { mode: bound.mode(), owner: present };
    if new != former {
        names.add_rights(PendingRights { addr: addr.bound_as(file), file, new, former });
    }
    Some(addr.bound_as(file))
}

/// Removes the file of a socket, unless another file has the path by now.
pub fn remove(bound: UnixAddr) {
    // If this fails, the next start replaces the file.
    let _ = try_remove(bound);
}

/// As [`remove`], with the error of the system.
pub(super) fn try_remove(bound: UnixAddr) -> io::Result<()> {
    let name = NameInFolder::find(bound.path())?;
    if bound.file().is_some() && file_named(&name) == bound.file() {
        name.remove()?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Regression: a killed process left a name, and the next process with the same number could
    /// not start.
    #[test]
    fn leftover_does_not_stop_bind() {
        let folder = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(folder.path().join("left")).unwrap());
        let name = NameInFolder::find(&folder.path().join("a")).unwrap();
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let error = bind_temporary(&socket, &name, || "left".into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let mut names = ["left", "free"].into_iter().map(OsString::from);
        let temporary = bind_temporary(&socket, &name, || names.next().unwrap()).unwrap();
        assert_eq!(temporary.name(), "free");
    }

    #[test]
    fn seen_file_keeps_its_inode_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let name = NameInFolder::find(&path).unwrap();
        assert!(SeenFile::look(&name).unwrap().is_none());
        drop(UnixListener::bind(&path).unwrap());
        let seen = SeenFile::look(&name).unwrap().expect("a file");
        for _ in 0..20 {
            fs::remove_file(&path).unwrap();
            drop(UnixListener::bind(&path).unwrap());
            assert_ne!(file_named(&name), Some(seen.file));
        }
    }
}
