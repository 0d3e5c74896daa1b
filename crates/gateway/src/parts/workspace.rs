//! The server's private folder, which the server's own pools need. Made at the start, removed at
//! the end.
//!
//! ```text
//! vermeil-1a2b…/          0711: its name cannot be guessed, and others may pass through
//! ├─ pools/               0700: the sockets of pools
//! └─ configurations/      0711: the configurations of php-fpm
//! ```
//!
//! The process that makes the folder owns everything in it, until [`PrivateWorkspace::give_away`]
//! gives all of it to the server's user at once. So the superuser never changes a file where that
//! user could have put a link. Only the server's user reaches the sockets. A pool inherits its
//! listening socket and needs no path to it.
//!
//! A killed server leaves its folder behind. So each server locks its folder for its lifetime, and
//! a starting server removes unlocked folders of its own user. Tested below, and through the binary
//! (`crates/e2e/tests/e2e/php/operation.rs`).

use rustix::{
    fs::{
        Access, AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, Uid, access, chownat, fchown, flock, fstat,
        open,
    },
    process::geteuid,
};
use std::{
    collections::hash_map::RandomState,
    env,
    ffi::OsStr,
    fs,
    hash::BuildHasher,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};
use vermeil_io::output::{FileOwner, NameInFolder, make_folder};
use vermeil_log::operator_log::log_line;
use vermeil_spawn::Remover;

/// A private folder.
#[derive(Debug)]
pub struct PrivateWorkspace {
    path: PathBuf,
    /// Removes the folder once this process no longer may.
    remover: Option<Remover>,
    /// The locked folder. The kernel releases the lock when the process ends in any way.
    folder: OwnedFd,
    /// The subfolders.
    within: [OwnedFd; 2],
    /// The user that the server becomes, if that is a different user.
    server: Option<FileOwner>,
}

/// The parent of the private folder, and the environment variable that names the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The environment variable that names another folder.
    pub variable: &'static str,
}

/// The path of a private folder, and the user that starts programs. The keeper has a copy.
#[derive(Clone, Debug)]
pub struct RunDirs {
    path: PathBuf,
    starter: u32,
}

impl PrivateWorkspace {
    /// Makes a folder below `parent`, for a server that becomes `server`.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn create(parent: &Path, server: Option<FileOwner>) -> io::Result<Self> {
        remove_left_over(parent, server);
        let name = format!("{PREFIX}{:016x}", RandomState::new().hash_one(0));
        // Until the folder is locked, its name does not match the pattern that other servers
        // remove.
        let path = parent.join(&name);
        let (named, unlocked) =
            (NameInFolder::find(&path)?, NameInFolder::find(&parent.join(format!(".{name}")))?);
        let folder = unlocked.make_folder(0o711, None)?;
        let filled = Self::fill(&folder).and_then(|within| {
            flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
            unlocked.rename(&named)?;
            Ok(within)
        });
        match filled {
            Ok(within) => Ok(Self { path, remover: None, folder, within, server }),
            Err(error) => {
                let _ = fs::remove_dir_all(unlocked.path());
                Err(error)
            }
        }
    }

    fn fill(folder: &OwnedFd) -> io::Result<[OwnedFd; 2]> {
        let make = |name: &str, mode| make_folder(folder.as_fd(), OsStr::new(name), mode, None);
        Ok([make("pools", 0o700)?, make("configurations", 0o711)?])
    }

    /// Gives the folder and its content to the user that the server becomes. Afterwards only that
    /// user may make files in the folder.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn give_away(&self) -> io::Result<()> {
        let Some(FileOwner { uid, gid }) = self.server.filter(|_| geteuid().is_root()) else { return Ok(()) };
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        for folder in &self.within {
            for entry in Dir::read_from(folder)? {
                let entry = entry?;
                if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    chownat(folder, entry.file_name(), uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
            fchown(folder, uid, gid)?;
        }
        Ok(fchown(&self.folder, uid, gid)?)
    }

    /// The folder for temporary files of services, or of all programs.
    pub fn parent() -> ParentFolder {
        // A service manager names a folder, for example systemd with `RuntimeDirectory=`.
        let runtime = env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        // An unprivileged instance may not have write access, and programs of other users must be
        // able to pass through.
        let is_fit = |path: &PathBuf| {
            let is_writable = access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok();
            path.is_absolute() && path.is_dir() && is_writable && (!geteuid().is_root() || all_may_pass(path))
        };
        match runtime.filter(is_fit) {
            Some(folder) => ParentFolder { folder, variable: "RUNTIME_DIRECTORY" },
            None => ParentFolder { folder: env::temp_dir(), variable: "TMPDIR" },
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on another process removes the folder.
    pub fn remove_by(&mut self, remover: Remover) {
        self.remover = Some(remover);
    }

    /// The location of the folder, for programs that this process starts with its present user.
    pub fn run_dirs(&self) -> RunDirs {
        RunDirs { path: self.path.clone(), starter: geteuid().as_raw() }
    }
}

impl RunDirs {
    /// The folders that a server of this process would have, before they are made.
    pub fn planned() -> Self {
        Self { path: PrivateWorkspace::parent().folder, starter: geteuid().as_raw() }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the superuser starts the programs, so that programs can run as other users.
    pub fn have_all_users(&self) -> bool {
        self.starter == 0
    }

    /// The socket of the pool `number`.
    pub fn socket(&self, number: usize) -> PathBuf {
        self.path.join(format!("pools/{number}.sock"))
    }

    /// The configuration of the pool `number`.
    pub fn configuration(&self, number: usize) -> PathBuf {
        self.path.join(format!("configurations/{number}.conf"))
    }
}

/// The prefix of private folders' names. Sixteen digits follow.
const PREFIX: &str = "vermeil-";

fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Whether every user may pass through `path` and all folders above.
fn all_may_pass(path: &Path) -> bool {
    let may_pass = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0);
    path.ancestors().all(may_pass)
}

/// Removes the folders in `parent` that killed servers of this user, or of the future user, have
/// left behind.
fn remove_left_over(parent: &Path, server: Option<FileOwner>) {
    let ours = geteuid().as_raw();
    let removed = fs::read_dir(parent).into_iter().flatten().flatten().filter(|entry| {
        let path = entry.path();
        let is_named =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|digits| {
                digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            });
        // Keeps the lock until the folder is removed, so that two starting servers do not both
        // remove it.
        let Some(folder) = is_named.then(|| open_folder(&path).ok()).flatten() else { return false };
        let Ok(found) = fstat(&folder) else { return false };
        let is_ours = found.st_uid == ours || server.is_some_and(|server| found.st_uid == server.uid);
        is_ours
            && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && fs::remove_dir_all(&path).is_ok()
    });
    match removed.count() {
        0 => {}
        1 => log_line(format_args!(
            "removed a private folder that a killed server had left in {}",
            parent.display()
        )),
        count => log_line(format_args!(
            "removed {count} private folders that killed servers had left in {}",
            parent.display()
        )),
    }
}

impl Drop for PrivateWorkspace {
    fn drop(&mut self) {
        match &self.remover {
            Some(remover) => remover.remove(),
            // A failure leaves only a folder among temporary files.
            None => drop(fs::remove_dir_all(self.path())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folder_is_private_and_goes_with_its_content() {
        let parent = tempfile::tempdir().expect("a folder");
        let workspace = PrivateWorkspace::create(parent.path(), None).expect("made");
        let pools = workspace.path().join("pools");
        fs::write(pools.join("x"), "y").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(workspace.path()), mode(&pools)), (0o711, 0o700));
        drop(workspace);
        assert_eq!(fs::read_dir(parent.path()).expect("listed").count(), 0);
    }

    #[test]
    fn server_user_gets_whole_folder_at_once() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only the superuser gives files away");
        }
        let parent = tempfile::tempdir().expect("a folder");
        let owner = FileOwner { uid: 65_534, gid: 65_534 };
        let workspace = PrivateWorkspace::create(parent.path(), Some(owner)).expect("made");
        let run_dirs = workspace.run_dirs();
        fs::write(run_dirs.configuration(0), "").expect("written");
        let secret = parent.path().join("secret");
        fs::write(&secret, "").expect("written");
        std::os::unix::fs::symlink(&secret, run_dirs.socket(0)).expect("linked");
        let owner_of = |path: &Path| fs::symlink_metadata(path).expect("there").uid();
        assert_eq!(owner_of(run_dirs.path()), 0);
        workspace.give_away().expect("given");
        let given = [run_dirs.path().to_owned(), run_dirs.configuration(0), run_dirs.socket(0)];
        assert!(given.iter().all(|path| owner_of(path) == owner.uid));
        assert_eq!(owner_of(&secret), 0);
    }

    #[test]
    fn leftovers_are_removed_and_other_files_kept() {
        let parent = tempfile::tempdir().expect("a folder");
        let at = |name: &str| parent.path().join(name);
        let living = PrivateWorkspace::create(parent.path(), None).expect("made");
        let names = ["vermeil-00112233445566aa", "vermeil-short", "vermeil-00112233445566xx", "other"];
        for name in names {
            fs::create_dir_all(at(name).join("pools")).expect("made");
        }
        std::os::unix::fs::symlink("other", at("vermeil-00112233445566bb")).expect("made");
        let second = PrivateWorkspace::create(parent.path(), None).expect("made");
        assert!(!at(names[0]).exists(), "nobody holds it");
        assert!(names[1..].iter().all(|name| at(name).join("pools").exists()));
        assert!(at("vermeil-00112233445566bb").is_symlink());
        assert!(living.path().join("pools").exists() && second.path().join("pools").exists());
    }
}
