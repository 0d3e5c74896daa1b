//! The server's private folder: spooled content, and what a pool of our own needs. Made at the start, removed at the
//! end.
//!
//! ```text
//! vermeil-1a2b…/          0711: its name cannot be guessed, and others may pass through
//! ├─ spool/               0700: content without a name
//! └─ php/                 0700, of the pool's user: its socket and configuration
//! ```
//!
//! A server that is killed leaves it behind, as anything in a folder for temporary files. Tested below.

use rustix::fs::{Gid, Mode, Uid, chown, mkdir};
use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher,
    io,
    path::{Path, PathBuf},
};

/// A private folder.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    /// Who the server will be when it uses it, if it is not what it is now.
    server: Option<(u32, u32)>,
}

impl Workspace {
    /// Makes one below `parent`, for a server that will be `server`.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn create(parent: &Path, server: Option<(u32, u32)>) -> io::Result<Self> {
        let path = parent.join(format!("vermeil-{:016x}", RandomState::new().hash_one(0)));
        mkdir(&path, Mode::from_raw_mode(0o711))?;
        let workspace = Self { path, server };
        // Whatever mask we were started with.
        rustix::fs::chmod(&workspace.path, Mode::from_raw_mode(0o711))?;
        mkdir(workspace.spool(), Mode::RWXU)?;
        workspace.give_to_server(&workspace.spool())?;
        workspace.give_to_server(&workspace.path)?;
        Ok(workspace)
    }

    /// Where temporary files of services belong, or of everybody.
    pub(crate) fn parent() -> PathBuf {
        // One folder, for a service of systemd with `RuntimeDirectory=`.
        let runtime = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        runtime.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(std::env::temp_dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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

    /// Makes a folder in it that belongs to user `owner`, and that group `passing` may pass through.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn folder_passed_by(&self, name: &str, owner: u32, passing: u32) -> io::Result<PathBuf> {
        let path = self.folder(name, Some((owner, passing)))?;
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o710))?;
        Ok(path)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed is in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.path);
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
        let php = workspace.folder("php", None).expect("made");
        fs::write(php.join("x"), "y").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(workspace.path()), mode(&workspace.spool()), mode(&php)), (0o711, 0o700, 0o700));
        drop(workspace);
        assert_eq!(fs::read_dir(parent.path()).expect("listed").count(), 0);
    }
}
