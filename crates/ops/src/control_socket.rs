//! The path of the control socket, which only its owner can reach.
//!
//! The socket has mode 0600 from the start. The server makes the default folder with mode 0700, and
//! refuses a folder that another user could have made or may write in. The server replaces a name
//! that an ended server left behind, but not the name of a socket that answers. Abstract names are
//! not used, because they have no owner. Tested in `control_socket/tests.rs`.

use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, open},
    process::{Uid, geteuid, umask},
};
use std::{
    env, fs, io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::{
            fs::DirBuilderExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};
use vermeil_io::output;
use vermeil_spawn::Remover;

#[cfg(test)]
mod tests;

/// The suffix of socket names in the default folder, after the process id.
const SUFFIX: &str = ".sock";

/// The name of the socket in the guides: `control = "/run/vermeil/control"`.
const CONFIGURED: &str = "control";

/// The control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The folder belongs to another user, or other users may write in it.
    #[error("{} is another user's folder, or other users may write there; choose another place with --control", .0.display())]
    NotPrivate(PathBuf),
    /// Another server answers at this path.
    #[error("another server has the control socket {}; choose another place with --control", .0.display())]
    Taken(PathBuf),
    /// A file that is not a socket has this path.
    #[error("{} is there and is no socket; remove it, or choose another place with --control", .0.display())]
    NoSocket(PathBuf),
    /// The error of the system.
    #[error("cannot open the control socket {}: {source}; choose another place with --control", path.display())]
    Io {
        /// The path of the socket or its folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl PlaceError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}

/// The user that started this process, even if the process changes its user later.
pub fn owner() -> Uid {
    static OWNER: OnceLock<Uid> = OnceLock::new();
    *OWNER.get_or_init(geteuid)
}

/// The folder of sockets without a configured path.
pub fn default_folder() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    match runtime {
        Some(runtime) if runtime.is_dir() => runtime.join("vermeil"),
        _ if owner().is_root() => PathBuf::from("/run/vermeil"),
        _ => PathBuf::from(format!("/tmp/vermeil-{}", owner().as_raw())),
    }
}

/// Whether `folder` belongs to this user and other users may not write in it, so that only this
/// user makes its sockets. A service manager makes such a folder with mode 0755. Does not follow a
/// symbolic link, because the link's owner would then choose the folder.
pub fn is_private(folder: &Path) -> io::Result<bool> {
    is_open_folder_private(&open_folder(folder)?)
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
}

fn is_open_folder_private(folder: &OwnedFd) -> io::Result<bool> {
    let stat = fstat(folder)?;
    Ok(stat.st_uid == owner().as_raw() && stat.st_mode & 0o022 == 0)
}

/// The sockets in `folder`, with and without a server: those of servers without a configured path,
/// and the one at the path that the guides configure.
pub fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let mut sockets: Vec<_> = names_in(folder).filter(|path| is_ours(path)).collect();
    sockets.sort();
    let configured = folder.join(CONFIGURED);
    sockets.extend(configured.exists().then_some(configured));
    sockets
}

fn names_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The process id in a socket's name.
fn pid_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}

fn is_ours(path: &Path) -> bool {
    pid_of(path).is_some()
}

/// A bound socket.
pub struct BoundSocket {
    path: PathBuf,
    /// The name, in an open folder. `None` if an inherited socket's folder is gone.
    name: Option<output::NameInFolder>,
    listener: UnixListener,
    /// Whether dropping this value removes the name.
    has_name: bool,
    /// Removes the name once this process may not.
    remover: Option<Remover>,
}

impl BoundSocket {
    /// Binds a socket in the default folder, and removes the sockets of ended processes.
    pub fn default_for_this_process() -> Result<Self, PlaceError> {
        let folder = default_folder();
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(PlaceError::io(&folder)(error));
            }
            _ => {}
        }
        let opened = open_folder(&folder).map_err(PlaceError::io(&folder))?;
        if !is_open_folder_private(&opened).map_err(PlaceError::io(&folder))? {
            return Err(PlaceError::NotPrivate(folder));
        }
        for left in names_in(&folder).filter(|path| is_ours(path)) {
            let process_is_there =
                pid_of(&left).is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists());
            if !process_is_there && !is_answered(&left) {
                let _ = fs::remove_file(&left);
            }
        }
        let name = format!("{}{SUFFIX}", std::process::id());
        let path = folder.join(&name);
        Self::bind_at(output::NameInFolder::within(opened, name.as_ref(), &path))
    }

    /// Binds a socket at `path`.
    pub fn bind(path: &Path) -> Result<Self, PlaceError> {
        Self::bind_at(output::NameInFolder::find(path).map_err(PlaceError::io(path))?)
    }

    /// Every step uses the open folder, because between two steps the folder's user could insert a
    /// link.
    fn bind_at(name: output::NameInFolder) -> Result<Self, PlaceError> {
        let path = name.path().to_owned();
        refuse_other_file(&name)?;
        match name.stat() {
            Ok(_) if is_answered(&name.way()) => return Err(PlaceError::Taken(path)),
            Ok(_) => name.remove().map_err(PlaceError::io(&path))?,
            Err(_) => {}
        }
        // The umask belongs to the whole process, but no other thread makes files yet. Setting the
        // mode after binding would be too late.
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(name.way());
        umask(before);
        let listener = bound.map_err(PlaceError::io(&path))?;
        listener.set_nonblocking(true).map_err(PlaceError::io(&path))?;
        Ok(Self { path, name: Some(name), listener, has_name: true, remover: None })
    }

    /// A socket that another process has bound at `path`. That process still owns the name.
    pub fn inherited(path: &Path, listener: UnixListener) -> Self {
        let name = output::NameInFolder::find(path).ok();
        Self { path: path.to_owned(), name, listener, has_name: false, remover: None }
    }

    /// From now on this process owns the name.
    pub fn take_name(&mut self) {
        self.has_name = true;
    }

    /// From now on another process owns the name.
    pub fn leave_name(&mut self) {
        self.has_name = false;
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listening socket.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl BoundSocket {
    /// Removes the name. Fails without harm if the process has changed its user.
    pub fn remove_name(&self) {
        if let Some(name) = &self.name {
            let _ = name.remove();
        }
    }

    /// The descriptors that a process needs to remove the name.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.name.iter().map(output::NameInFolder::folder).collect()
    }

    /// From now on another process removes the name.
    pub fn remove_by(&mut self, remover: Remover) {
        self.remover = Some(remover);
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        match &self.remover {
            _ if !self.has_name => {}
            Some(remover) => remover.remove(),
            None => self.remove_name(),
        }
    }
}

/// Refuses a path with a file that is not a socket.
///
/// # Errors
/// [`PlaceError::NoSocket`].
pub fn refuse_other_file(name: &output::NameInFolder) -> Result<(), PlaceError> {
    let is_socket = |found: &Stat| FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    match name.stat() {
        Ok(found) if !is_socket(&found) => Err(PlaceError::NoSocket(name.path().to_owned())),
        _ => Ok(()),
    }
}

/// Whether a process listens at `path`.
pub fn is_answered(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
