//! The server's private folder: spooled content, and what a pool of our own needs. Made at the start, removed at the
//! end.
//!
//! ```text
//! vermeil-1a2b…/          0711: its name cannot be guessed, and others may pass through
//! ├─ spool/               0700: content without a name
//! ├─ php/                 0700, of the pool's user: its socket and configuration
//! ├─ pools/               0700: sockets of hosts' pools that get theirs from us
//! ├─ configurations/      0711: those of hosts' pools that need one
//! └─ users/               0755, of who starts programs: a folder for each user whose pools make their own sockets
//! ```
//!
//! A server that is killed leaves it behind. So each server holds a lock on its folder for as long as it lives, and whoever
//! starts removes the folders of its own user on which there is none. Tested below, and through the binary
//! (`crates/cli/tests/e2e/php/operation.rs`).

use crate::voice::say;
use rustix::{
    fs::{FlockOperation, Gid, Mode, OFlags, Uid, chmod, chown, flock, fstat, mkdir, open, rename},
    process::geteuid,
};
use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// A private folder.
#[derive(Debug)]
pub(crate) struct Workspace {
    grounds: Grounds,
    /// The folder, locked; the kernel lets go of it when the process ends, however that happens.
    _lock: OwnedFd,
}

/// Where a private folder is, and whose. The keeper has a copy, by which it makes folders for the users of a new
/// configuration's pools.
#[derive(Clone, Debug)]
pub(crate) struct Grounds {
    path: PathBuf,
    /// Who the server will be when it uses it, if it is not what it was when it was made.
    server: Option<(u32, u32)>,
    /// Who starts programs: who the server was when the folder was made.
    starter: u32,
}

impl Workspace {
    /// Makes one below `parent`, for a server that will be `server`.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn create(parent: &Path, server: Option<(u32, u32)>) -> io::Result<Self> {
        remove_left_over(parent, server);
        let name = format!("{PREFIX}{:016x}", RandomState::new().hash_one(0));
        // It has no name that others look for until it is locked.
        let (path, unlocked) = (parent.join(&name), parent.join(format!(".{name}")));
        mkdir(&unlocked, Mode::from_raw_mode(0o711))?;
        let lock = open_folder(&unlocked)
            .and_then(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).map(|()| lock))
            .and_then(|lock| rename(&unlocked, &path).map(|()| lock));
        let lock = lock.inspect_err(|_| drop(fs::remove_dir(&unlocked)))?;
        let grounds = Grounds { path, server, starter: geteuid().as_raw() };
        let workspace = Self { grounds, _lock: lock };
        let grounds = workspace.grounds();
        // Whatever mask we were started with.
        chmod(&grounds.path, Mode::from_raw_mode(0o711))?;
        mkdir(grounds.spool(), Mode::RWXU)?;
        grounds.give_to_server(&grounds.spool())?;
        grounds.give_to_server(&grounds.path)?;
        Ok(workspace)
    }

    /// Where temporary files of services belong, or of everybody.
    pub(crate) fn parent() -> PathBuf {
        // One folder, for a service of systemd with `RuntimeDirectory=`.
        let runtime = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        runtime.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(std::env::temp_dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.grounds.path
    }

    /// Where it is, and whose.
    pub(crate) fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

impl Grounds {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the superuser starts the programs, who can start them as others.
    pub(crate) fn have_all_users(&self) -> bool {
        self.starter == 0
    }

    /// Who the server will be, if it is not what it is now.
    pub(crate) fn server(&self) -> Option<(u32, u32)> {
        self.server
    }

    /// Gives `path` to who the server will be.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn give_to_server(&self, path: &Path) -> io::Result<()> {
        match self.server {
            Some((uid, gid)) => Ok(chown(path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?),
            None => Ok(()),
        }
    }

    /// The folder for content without a name.
    pub(crate) fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }

    /// Makes a folder in it that belongs to `owner`, or to us.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn folder(&self, name: &str, owner: Option<(u32, u32)>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        mkdir(&path, Mode::RWXU)?;
        if let Some((uid, gid)) = owner {
            chown(&path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(path)
    }
}

/// How the names of private folders begin; sixteen digits follow.
const PREFIX: &str = "vermeil-";

fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Removes the folders in `parent` that servers of our user, or of the user that we will be, have left behind.
fn remove_left_over(parent: &Path, server: Option<(u32, u32)>) {
    let ours = geteuid().as_raw();
    let removed = fs::read_dir(parent).into_iter().flatten().flatten().filter(|entry| {
        let path = entry.path();
        let is_named =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|digits| {
                digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            });
        // Held until it is removed, so that two who start at once do not both.
        let Some(folder) = is_named.then(|| open_folder(&path).ok()).flatten() else { return false };
        let Ok(found) = fstat(&folder) else { return false };
        let is_ours = found.st_uid == ours || server.is_some_and(|(uid, _)| found.st_uid == uid);
        is_ours
            && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && fs::remove_dir_all(&path).is_ok()
    });
    match removed.count() {
        0 => {}
        1 => say(format_args!(
            "removed a private folder that a killed server had left in {}",
            parent.display()
        )),
        count => say(format_args!(
            "removed {count} private folders that killed servers had left in {}",
            parent.display()
        )),
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed is in a folder for temporary files.
        let _ = fs::remove_dir_all(self.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_private_and_goes_with_what_is_in_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::create(parent.path(), None).expect("made");
        let php = workspace.grounds().folder("php", None).expect("made");
        fs::write(php.join("x"), "y").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(workspace.path()), mode(&workspace.grounds().spool()), mode(&php)),
            (0o711, 0o700, 0o700)
        );
        drop(workspace);
        assert_eq!(fs::read_dir(parent.path()).expect("listed").count(), 0);
    }

    #[test]
    fn what_others_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().expect("a folder");
        let at = |name: &str| parent.path().join(name);
        let living = Workspace::create(parent.path(), None).expect("made");
        let names = ["vermeil-00112233445566aa", "vermeil-short", "vermeil-00112233445566xx", "other"];
        for name in names {
            fs::create_dir_all(at(name).join("spool")).expect("made");
        }
        std::os::unix::fs::symlink("other", at("vermeil-00112233445566bb")).expect("made");
        let second = Workspace::create(parent.path(), None).expect("made");
        assert!(!at(names[0]).exists(), "nobody holds it");
        assert!(names[1..].iter().all(|name| at(name).join("spool").exists()));
        assert!(at("vermeil-00112233445566bb").is_symlink());
        assert!(living.grounds().spool().exists() && second.grounds().spool().exists());
    }
}
