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
    sync::{Arc, Mutex},
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

/// The open folder of a site. The path of the site may lead to another folder later, for example
/// where a deployment turns a link to the next release.
#[derive(Debug)]
pub(super) struct SiteFolder(Mutex<Arc<File>>);

impl SiteFolder {
    pub(super) fn new(folder: File) -> Self {
        Self(Mutex::new(Arc::new(folder)))
    }

    /// The folder that was opened last.
    pub(super) fn now(&self) -> Arc<File> {
        self.0.lock().expect("nothing panics under this lock").clone()
    }

    /// Opens the folder at `root`. Keeps the folder before if there is none. May block.
    pub(super) fn follow(&self, root: &[u8]) {
        if let Ok(folder) = File::open(OsStr::from_bytes(root)) {
            *self.0.lock().expect("nothing panics under this lock") = Arc::new(folder);
        }
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
    use std::{fs, os::unix::fs::symlink};

    fn look(root: &tempfile::TempDir, path: &str, suffix: Option<&str>) -> Looked {
        let root = File::open(root.path()).expect("a folder");
        ProgramLookup { root: &root, path: path.as_bytes(), names_max: path.len(), suffix }
            .now(LookupWait::Yes)
    }

    fn found(script: &str, path_info: &str) -> Looked {
        Looked::Found(FoundProgram { script: script.into(), path_info: path_info.into() })
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
