//! Finds the file of a path that is the program, and the rest of the path for `PATH_INFO`.
//!
//! The search looks up the path's names one by one below the site's folder, without following
//! links, until a name is a file. The spawner checks again which program would run and whether it
//! may. A name that begins with a dot is never a program. Tested below.

use crate::parts::FoundProgram;
use rustix::{
    fs::{FileType, OFlags, ResolveFlags, fstat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use vermeil_files::ends_with;

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Found(FoundProgram),
    /// There is no program.
    Nothing,
    /// Part of the path is not in the kernel's caches, so the caller must repeat the lookup on a
    /// thread that may block.
    MustWait,
    /// This part of the path is a symbolic link.
    Link(Vec<u8>),
    /// The system refuses the lookup.
    Refused(Errno),
}

/// Whether the lookup may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupWait {
    Yes,
    No,
}

/// How long a folder counts as the folder of its path. Files follow their folder as often
/// (`recheck_ms` of `crates/files`).
pub(super) const FOLDER_FRESH_MS: u64 = 1000;

/// The open folder of a site. The path of the site may lead to another folder later, for example
/// where a deployment turns a link to the next release.
#[derive(Debug)]
pub(super) struct SiteFolder {
    folder: Mutex<Arc<File>>,
    /// Milliseconds on the server's clock when the folder was opened again. Relaxed, because a
    /// second open does no harm.
    followed_ms: AtomicU64,
}

impl SiteFolder {
    pub(super) fn new(folder: File) -> Self {
        Self { folder: Mutex::new(Arc::new(folder)), followed_ms: AtomicU64::new(0) }
    }

    /// The folder that was opened last.
    pub(super) fn now(&self) -> Arc<File> {
        self.folder.lock().expect("nothing panics under this lock").clone()
    }

    /// Whether the folder was opened again lately.
    pub(super) fn is_fresh(&self, now_ms: u64) -> bool {
        let followed_ms = self.followed_ms.load(Ordering::Relaxed);
        followed_ms > 0 && now_ms < followed_ms.saturating_add(FOLDER_FRESH_MS)
    }

    /// Opens the folder at `root`, unless it is fresh. Keeps the folder before if there is none.
    /// May block.
    pub(super) fn follow(&self, root: &[u8], now_ms: u64) {
        if self.is_fresh(now_ms) {
            return;
        }
        if let Ok(folder) = File::open(OsStr::from_bytes(root)) {
            *self.folder.lock().expect("nothing panics under this lock") = Arc::new(folder);
        }
        self.followed_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// A path to look up.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramLookup<'a> {
    pub root: &'a File,
    /// Decoded, without dot segments and empty segments; starts with a slash.
    pub path: &'a [u8],
    /// Length of the part that may name the program and its folders. Slashes after this part were
    /// percent-encoded.
    pub names_max: usize,
    /// The suffix that makes a name a program, if the route has one. Compared without regard to
    /// case.
    pub suffix: Option<&'a str>,
}

impl ProgramLookup<'_> {
    /// Looks for the first file of the path.
    pub(super) fn now(&self, wait: LookupWait) -> Looked {
        self.whole().unwrap_or_else(|| self.on_the_way(wait))
    }

    /// The program, if the whole path names the program. That is nearly always so, and then all
    /// names before the last are folders.
    fn whole(&self) -> Option<Looked> {
        let has_hidden = self.path.windows(2).any(|pair| pair == b"/.");
        let name = self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if has_hidden || name.is_empty() || !self.may_be(name) || self.names_max < self.path.len() {
            return None;
        }
        let is_file = self.kind(&self.path[1..], LookupWait::No) == Ok(FileType::RegularFile);
        is_file.then(|| Looked::Found(FoundProgram { script: self.path.into(), path_info: Vec::new() }))
    }

    fn on_the_way(&self, wait: LookupWait) -> Looked {
        let ends = self.path.iter().enumerate().skip(1).filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        for end in ends.chain([self.path.len()]).take_while(|&end| end <= self.names_max) {
            let (script, path_info) = self.path.split_at(end);
            let name = script.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            if name.is_empty() || name.starts_with(b".") {
                return Looked::Nothing;
            }
            match self.kind(&script[1..], wait) {
                Ok(FileType::Directory) => {}
                Ok(FileType::RegularFile) if self.may_be(name) => {
                    return Looked::Found(FoundProgram {
                        script: script.into(),
                        path_info: path_info.into(),
                    });
                }
                Ok(FileType::Symlink) => return Looked::Link(script.to_vec()),
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP) => {
                    return Looked::Nothing;
                }
                Err(Errno::AGAIN) if wait == LookupWait::No => return Looked::MustWait,
                Err(error) => return Looked::Refused(error),
            }
        }
        Looked::Nothing
    }

    fn may_be(&self, name: &[u8]) -> bool {
        self.suffix.is_none_or(|suffix| name.len() > suffix.len() && ends_with(name, suffix.as_bytes()))
    }

    fn kind(&self, path: &[u8], wait: LookupWait) -> Result<FileType, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if wait == LookupWait::No {
            resolve |= ResolveFlags::CACHED;
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let found = vermeil_io::open(self.root.as_fd(), path, flags, resolve)?;
        Ok(FileType::from_raw_mode(fstat(found)?.st_mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
        path::Path,
    };

    fn look(root: &tempfile::TempDir, path: &str, suffix: Option<&str>) -> Looked {
        let root = File::open(root.path()).expect("a folder");
        ProgramLookup { root: &root, path: path.as_bytes(), names_max: path.len(), suffix }
            .now(LookupWait::Yes)
    }

    fn found(script: &str, path_info: &str) -> Looked {
        Looked::Found(FoundProgram { script: script.into(), path_info: path_info.into() })
    }

    /// Regression: each request for a missing program opened the folder again, on another thread.
    #[test]
    fn folder_is_opened_again_once_a_second() {
        let parent = tempfile::tempdir().expect("a folder");
        let [first, second, link] = ["first", "second", "link"].map(|name| parent.path().join(name));
        let file_of = |folder: &SiteFolder| fstat(folder.now()).expect("open").st_ino;
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        fs::create_dir(&first).expect("ours");
        fs::create_dir(&second).expect("ours");
        symlink(&first, &link).expect("ours");
        let folder = SiteFolder::new(File::open(&link).expect("there"));
        assert!(!folder.is_fresh(5));
        fs::remove_file(&link).expect("ours");
        symlink(&second, &link).expect("ours");
        folder.follow(link.as_os_str().as_bytes(), 5);
        assert_eq!(file_of(&folder), inode(&second));
        fs::remove_file(&link).expect("ours");
        symlink(&first, &link).expect("ours");
        assert!(folder.is_fresh(5 + FOLDER_FRESH_MS - 1));
        folder.follow(link.as_os_str().as_bytes(), 5 + FOLDER_FRESH_MS - 1);
        assert_eq!(file_of(&folder), inode(&second));
        folder.follow(link.as_os_str().as_bytes(), 5 + FOLDER_FRESH_MS);
        assert_eq!(file_of(&folder), inode(&first));
    }

    #[test]
    fn the_first_file_on_the_way_is_the_program() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("cgi-bin/sub")).expect("folders");
        for name in ["cgi-bin/hello", "cgi-bin/sub/deep.cgi", "cgi-bin/.hidden", "plain.txt"] {
            fs::write(root.path().join(name), "").expect("written");
        }
        symlink("hello", root.path().join("cgi-bin/link")).expect("a link");
        for (path, suffix, expected) in [
            ("/cgi-bin/hello", None, found("/cgi-bin/hello", "")),
            ("/cgi-bin/hello/", None, found("/cgi-bin/hello", "/")),
            ("/cgi-bin/hello/a/b.cgi", None, found("/cgi-bin/hello", "/a/b.cgi")),
            ("/cgi-bin/sub/deep.cgi/x", Some(".cgi"), found("/cgi-bin/sub/deep.cgi", "/x")),
            ("/cgi-bin/sub", None, Looked::Nothing),
            ("/cgi-bin/sub/", None, Looked::Nothing),
            ("/cgi-bin/", None, Looked::Nothing),
            ("/cgi-bin/missing", None, Looked::Nothing),
            ("/cgi-bin/link", None, Looked::Link(b"/cgi-bin/link".to_vec())),
            ("/cgi-bin/link/x", None, Looked::Link(b"/cgi-bin/link".to_vec())),
            ("/cgi-bin/.hidden", None, Looked::Nothing),
            ("/plain.txt/x.cgi", Some(".cgi"), Looked::Nothing),
            ("/", None, Looked::Nothing),
        ] {
            assert_eq!(look(&root, path, suffix), expected, "{path}");
        }
    }
}
