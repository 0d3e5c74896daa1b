//! Gives new unix sockets their paths, all or none.
//!
//! A new socket listens under a temporary name until the caller publishes it. So a caller that
//! still has steps that can fail leaves the former sockets and their modes as they are. The caller
//! keeps the published names once the server serves; otherwise they are undone. Tested below and
//! through the binary (`crates/e2e/tests/e2e/unix.rs`).

use super::{
    ListenError, refused_unix,
    unix::{Refusal, SeenFile, change_rights, file_named, try_remove},
};
use rustix::io::Errno;
use std::{io, path::Path};
use vermeil_address::{SocketFile, UnixAddr};
use vermeil_io::output::{FileOwner, NameInFolder};
use vermeil_log::operator_log::log_line;

/// A socket that listens under a temporary name.
#[derive(Debug)]
pub(super) struct PendingName {
    /// The address as bound.
    pub(super) addr: UnixAddr,
    pub(super) temporary: NameInFolder,
    pub(super) name: NameInFolder,
    pub(super) file: SocketFile,
    /// The file at the path when no server listened there.
    pub(super) seen: Option<SeenFile>,
}

/// The mode and the owner of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileRights {
    pub(super) mode: u32,
    /// `None`: as made.
    pub(super) owner: Option<FileOwner>,
}

/// The rights that the file of an inherited socket gets.
#[derive(Debug)]
pub(super) struct PendingRights {
    /// The address as bound, with the new mode.
    pub(super) addr: UnixAddr,
    pub(super) file: SocketFile,
    pub(super) new: FileRights,
    pub(super) former: FileRights,
}

/// The changes to the names of unix sockets that listen already. Dropping this value removes the
/// temporary names, so nothing has changed.
#[must_use = "a dropped socket has no path"]
#[derive(Debug, Default)]
pub struct Unpublished {
    names: Vec<PendingName>,
    rights: Vec<PendingRights>,
    /// The owner of the sockets' files, if that is another user than this process.
    owner: Option<FileOwner>,
}

impl Unpublished {
    pub(super) fn add_name(&mut self, name: PendingName) {
        self.names.push(name);
    }

    pub(super) fn of(owner: Option<FileOwner>) -> Self {
        Self { names: Vec::new(), rights: Vec::new(), owner }
    }

    pub(super) fn owner(&self) -> Option<FileOwner> {
        self.owner
    }

    pub(super) fn add_rights(&mut self, rights: PendingRights) {
        self.rights.push(rights);
    }

    /// Gives the sockets their paths and the inherited files their rights, all or none.
    ///
    /// # Errors
    /// Another process has taken a path meanwhile, or the system refuses. Then all paths lead to
    /// their former files.
    pub fn publish(self) -> Result<Published, ListenError> {
        for (at, pending) in self.names.iter().enumerate() {
            if let Err(refusal) = pending.publish() {
                self.names[..at].iter().rev().for_each(PendingName::undo);
                return Err(refused_unix(pending.addr, refusal));
            }
        }
        for (at, pending) in self.rights.iter().enumerate() {
            if let Err(refusal) = change_rights(pending.addr, pending.new, pending.file) {
                self.rights[..at].iter().rev().for_each(PendingRights::undo);
                self.names.iter().rev().for_each(PendingName::undo);
                return Err(refused_unix(pending.addr, refusal));
            }
        }
        let mut published = Published::default();
        published.sockets.extend(self.names.iter().map(|pending| pending.addr));
        let mut pending = self;
        published.rights.append(&mut pending.rights);
        Ok(published)
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        // After an exchange the temporary name leads to the former socket. After a rename there is
        // no such name.
        for PendingName { temporary, .. } in &self.names {
            let _ = temporary.remove();
        }
    }
}

impl PendingName {
    fn publish(&self) -> Result<(), Refusal> {
        let Self { temporary, name, .. } = self;
        match (file_named(name), self.seen.as_ref().map(|seen| seen.file)) {
            (None, _) => match temporary.rename_new(name) {
                Err(error) if is(&error, Errno::EXIST) => Err(Refusal::Taken(None)),
                Err(error) if is_unknown_call(&error) => Ok(temporary.rename(name)?),
                renamed => Ok(renamed?),
            },
            (Some(found), Some(seen)) if found == seen => self.replace(seen),
            _ => Err(Refusal::Taken(None)),
        }
    }

    /// Takes the place of the file `seen`, which gets the temporary name.
    fn replace(&self, seen: SocketFile) -> Result<(), Refusal> {
        let Self { temporary, name, .. } = self;
        match temporary.exchange(name) {
            // Without the exchange the former file is lost, and `undo` cannot bring it back.
            Err(error) if is_unknown_call(&error) => return Ok(temporary.rename(name)?),
            exchanged => exchanged?,
        }
        if file_named(temporary) == Some(seen) {
            return Ok(());
        }
        // Another process has replaced the file between the look and the exchange.
        temporary.exchange(name)?;
        Err(Refusal::Taken(None))
    }

    fn undo(&self) {
        let Self { temporary, name, .. } = self;
        if file_named(name) != Some(self.file) {
            return;
        }
        let undone = match file_named(temporary) {
            Some(_) => temporary.exchange(name),
            None => name.remove(),
        };
        if let Err(error) = undone {
            say_stale(name.path(), &error);
        }
    }
}

impl PendingRights {
    fn undo(&self) {
        let Err(Refusal::Io(error)) = change_rights(self.addr, self.former, self.file) else { return };
        // Another process may have replaced or removed the file, and then the rights are not ours.
        if !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::NotFound) {
            let (path, cure) = (self.addr.path().display(), self.cure());
            log_line(format_args!("cannot give {path} its former rights again: {error}; run {cure}"));
        }
    }

    /// The commands that give the file its former rights.
    fn cure(&self) -> String {
        let (path, FileRights { mode, owner }) = (self.addr.path().display(), self.former);
        let chmod = format!("chmod {mode:04o} {path}");
        match owner.filter(|_| owner != self.new.owner) {
            Some(FileOwner { uid, gid }) => format!("chown {uid}:{gid} {path} && {chmod}"),
            None => chmod,
        }
    }
}

/// Logs that a path leads to a socket without a listener. This happens when the process has dropped
/// its rights over the folder.
fn say_stale(path: &Path, error: &io::Error) {
    let path = path.display();
    log_line(format_args!(
        "cannot undo the change of {path}: {error}; remove {path}, or start the server again, which replaces the file"
    ));
}

/// Names and rights that were published by a server that does not serve yet. Dropping this value
/// removes the new sockets' files and restores the rights, because no process listens there. If the
/// process has dropped its rights over a folder or file, a line names the path and the cure.
#[must_use = "a dropped name is removed"]
#[derive(Debug, Default)]
pub struct Published {
    sockets: Vec<UnixAddr>,
    rights: Vec<PendingRights>,
}

impl Published {
    /// Leaves all names and rights as published. Returns the new sockets, as bound.
    pub fn keep(mut self) -> Vec<UnixAddr> {
        self.rights.clear();
        std::mem::take(&mut self.sockets)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.rights.iter().rev().for_each(PendingRights::undo);
        for addr in &self.sockets {
            // A folder that is gone has no file to remove.
            if let Err(error) = try_remove(*addr)
                && error.kind() != io::ErrorKind::NotFound
            {
                say_stale(addr.path(), &error);
            }
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

/// Whether the kernel or the file system lacks `renameat2(2)` with flags.
fn is_unknown_call(error: &io::Error) -> bool {
    is(error, Errno::INVAL) || is(error, Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::super::{ListenError, listen_on};
    use super::*;
    use crate::{balance::Balancing, listening::Listening};
    use std::{
        fs,
        os::unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
    };
    use vermeil_address::ListenAddr;
    use vermeil_settings::Balance;
    use vermeil_topology::CpuId;

    fn addr(path: &Path) -> ListenAddr {
        ListenAddr::Unix(UnixAddr::new(path).expect("a short path"))
    }

    fn listen(
        addrs: &[ListenAddr],
        ours: &[ListenAddr],
    ) -> Result<(Vec<Listening>, Unpublished), ListenError> {
        let balancing = Balancing::choose(Balance::Local, &[CpuId(0)]);
        listen_on(addrs, &[CpuId(0)], &balancing, ours, None, |_| None)
    }

    /// A socket that listens at `path`, with its address as bound.
    fn serving(path: &Path) -> (Listening, ListenAddr) {
        let (mut listening, names) = listen(&[addr(path)], &[]).expect("a free path");
        names.publish().expect("a free path").keep();
        let listening = listening.remove(0);
        let bound = listening.addr;
        (listening, bound)
    }

    fn inode(path: &Path) -> Option<u64> {
        fs::symlink_metadata(path).ok().map(|found| found.ino())
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("there").permissions().mode() & 0o7777
    }

    #[track_caller]
    fn assert_tidy(folder: &Path) {
        let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".vermeil")).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn failing_address_leaves_former_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("absent/b"));
        let (_listening, bound) = serving(&path);
        let before = inode(&path);
        let error = listen(&[addr(&path), addr(&other)], &[bound]).map(drop).expect_err("no folder");
        assert!(error.to_string().contains("there is no such folder"), "{error}");
        assert_eq!(inode(&path), before);
        UnixStream::connect(&path).expect("the former socket listens");
        assert_tidy(folder.path());
    }

    #[test]
    fn dropped_names_leave_former_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let (_listening, bound) = serving(&path);
        let before = inode(&path);
        drop(listen(&[addr(&path), addr(&other)], &[bound]).expect("both can listen"));
        assert_eq!((inode(&path), inode(&other)), (before, None));
        UnixStream::connect(&path).expect("the former socket listens");
        assert_tidy(folder.path());
    }

    #[test]
    fn path_taken_meanwhile_rolls_back_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let [kept, new, last] = ["a", "b", "c"].map(|name| folder.path().join(name));
        let (_listening, bound) = serving(&kept);
        let before = inode(&kept);
        let (_sockets, names) = listen(&[addr(&kept), addr(&new), addr(&last)], &[bound]).expect("all can");
        let _another = UnixListener::bind(&last).expect("a free path");
        let another = inode(&last);
        let error = names.publish().map(Published::keep).expect_err("the last is taken").to_string();
        assert!(error.contains("the address is in use"), "{error}");
        assert_eq!([&kept, &new, &last].map(|path| inode(path)), [before, None, another]);
        UnixStream::connect(&kept).expect("the former socket listens");
        assert_tidy(folder.path());
    }

    #[test]
    fn replaced_target_is_not_exchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let (_listening, bound) = serving(&path);
        let (_sockets, names) = listen(&[addr(&path)], &[bound]).expect("it can");
        let _another = UnixListener::bind(&other).expect("a free path");
        fs::rename(&other, &path).expect("renamed");
        let another = inode(&path);
        assert!(names.publish().map(Published::keep).is_err());
        assert_eq!(inode(&path), another);
        assert_tidy(folder.path());
    }

    #[test]
    fn published_socket_replaces_former_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let (former, bound) = serving(&path);
        let (sockets, names) = listen(&[addr(&path)], &[bound]).expect("it can");
        assert_eq!(names.publish().expect("nothing changed").keep(), [sockets[0].addr.unix().unwrap()]);
        drop(former);
        UnixStream::connect(&path).expect("the new socket listens");
        assert_tidy(folder.path());
    }

    #[test]
    fn names_of_failed_start_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let (_sockets, names) = listen(&[addr(&path)], &[]).expect("it can");
        let published = names.publish().expect("a free path");
        assert!(path.exists());
        drop(published);
        assert!(!path.exists());
        assert_tidy(folder.path());
    }

    #[test]
    fn other_server_keeps_path_of_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let (_listening, bound) = serving(&path);
        let _another = UnixListener::bind(&other).expect("a free path");
        fs::rename(&other, &path).expect("renamed");
        let error = listen(&[addr(&path)], &[bound]).map(drop).expect_err("another listens").to_string();
        assert!(error.contains("the address is in use"), "{error}");
        assert_tidy(folder.path());
    }

    #[test]
    fn inherited_mode_changes_with_publication() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let (listening, _) = serving(&path);
        let balancing = Balancing::choose(Balance::Local, &[CpuId(0)]);
        let asked = ListenAddr::Unix(UnixAddr::new(&path).expect("a short path").with_mode(0o600));
        let take_over = || {
            let inherited = |_| listening.try_clone().ok();
            listen_on(&[asked], &[CpuId(0)], &balancing, &[], None, inherited).expect("inherited").1
        };
        drop(take_over());
        assert_eq!(mode(&path), 0o666, "not published");
        let published = take_over().publish().expect("the file is there");
        assert_eq!(mode(&path), 0o600);
        drop(published);
        assert_eq!(mode(&path), 0o666, "published, and not kept");
        take_over().publish().expect("the file is there").keep();
        assert_eq!(mode(&path), 0o600);
        assert!(path.exists());
    }

    /// Regression: after a failed take-over by another user, the file belonged to that user, and
    /// the message named the mode only.
    #[test]
    fn cure_names_former_mode_and_owner() {
        let addr = UnixAddr::new(Path::new("/run/web")).expect("a short path");
        let owned = |uid, mode| FileRights { mode, owner: Some(FileOwner { uid, gid: uid }) };
        let cure = |former| {
            let file = SocketFile { dev: 1, ino: 1 };
            PendingRights { addr, file, new: owned(1001, 0o666), former }.cure()
        };
        assert_eq!(cure(owned(1002, 0o600)), "chown 1002:1002 /run/web && chmod 0600 /run/web");
        assert_eq!(cure(owned(1001, 0o600)), "chmod 0600 /run/web");
        assert_eq!(cure(FileRights { mode: 0o640, owner: None }), "chmod 0640 /run/web");
    }

    /// Regression: the socket of a server that becomes another user belonged to the superuser, so a
    /// mode without rights for all users shut every proxy out.
    #[test]
    fn new_and_inherited_file_get_owner() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("SKIPPED: only the superuser gives files away");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let balancing = Balancing::choose(Balance::Local, &[CpuId(0)]);
        let own = |uid, inherited: Option<&Listening>| {
            let inherited = |_| inherited.and_then(|listening| listening.try_clone().ok());
            let owner = Some(FileOwner { uid, gid: uid + 1 });
            listen_on(&[addr(&path)], &[CpuId(0)], &balancing, &[], owner, inherited).expect("it can")
        };
        let owner = || fs::symlink_metadata(&path).map(|found| (found.uid(), found.gid())).expect("there");
        let (sockets, names) = own(1001, None);
        names.publish().expect("a free path").keep();
        assert_eq!((owner(), mode(&path)), ((1001, 1002), 0o666));
        let published = own(2001, Some(&sockets[0])).1.publish().expect("the file is there");
        assert_eq!(owner(), (2001, 2002), "of another user that takes over");
        drop(published);
        assert_eq!(owner(), (1001, 1002), "the start failed");
    }
}
