//! Opens a file with the rights of the superuser, so that another user's link leads to no file of a
//! third user.
//!
//! Certificates of ACME clients are often symbolic links, so links are followed. But a user who may
//! write in a folder on the way could plant a link to a secret file. The owner of each link that is
//! neither the superuser nor this process's user must therefore also own the file. The path is
//! walked name by name with open folders, so nothing changes between the judgement and the opening.

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, fstat, open, openat, readlinkat},
    process::geteuid,
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path},
};

/// Symbolic links on a path, as in the kernel (path_resolution(7)).
const LINKS_MAX: u32 = 40;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a regular file for reading.
///
/// # Errors
/// The system refuses, the file is no regular file, or a link of another user leads to a file that
/// this user does not own.
pub(super) fn open_trusted(path: &Path) -> io::Result<File> {
    let (place, link_owners) = walk(path)?;
    let about = fstat(&place)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    if let Some(owner) = link_owners.into_iter().find(|owner| *owner != about.st_uid) {
        return Err(io::Error::other(format!(
            "a symbolic link of user {owner} leads to a file of user {}; give the link to root, \
             or name the file itself",
            about.st_uid
        )));
    }
    // The place itself, not its name, is opened.
    let name = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    Ok(open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// The file at `path`, and the owners of the links on the way that are not trusted by themselves.
fn walk(path: &Path) -> io::Result<(OwnedFd, Vec<u32>)> {
    let own = geteuid().as_raw();
    let mut names: VecDeque<OsString> = steps(path).collect();
    // A path that begins at the root returns there with its first step.
    let mut place = openat(CWD, ".", LOOK, Mode::empty())?;
    let (mut owners, mut links) = (Vec::new(), 0);
    while let Some(name) = names.pop_front() {
        if name == "/" {
            place = openat(CWD, "/", LOOK, Mode::empty())?;
            continue;
        }
        let next = openat(&place, &name, LOOK, Mode::empty())?;
        let about = fstat(&next)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            place = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(rustix::io::Errno::LOOP.into());
        }
        if about.st_uid != 0 && about.st_uid != own {
            owners.push(about.st_uid);
        }
        let target = readlinkat(&next, "", Vec::new())?;
        for step in steps(Path::new(OsStr::from_bytes(target.as_bytes()))).rev() {
            names.push_front(step);
        }
    }
    Ok((place, owners))
}

/// The names of a path in their order, with "/" for a return to the root and ".." as it is.
fn steps(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::Read as _,
        os::unix::fs::{lchown, symlink},
    };

    const STRANGER: u32 = 65_534;

    fn read(path: &Path) -> Result<String, String> {
        let mut text = String::new();
        let mut file = open_trusted(path).map_err(|error| error.to_string())?;
        file.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn own_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("archive")).unwrap();
        fs::create_dir_all(folder.path().join("live/site")).unwrap();
        fs::write(folder.path().join("archive/key1.pem"), "key").unwrap();
        symlink("../../archive/key1.pem", folder.path().join("live/site/key.pem")).unwrap();
        symlink(folder.path().join("live"), folder.path().join("now")).unwrap();
        assert_eq!(read(&folder.path().join("now/site/key.pem")).as_deref(), Ok("key"));
    }

    #[test]
    fn link_of_stranger_leads_only_to_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, own) = (folder.path().join("secret"), folder.path().join("own"));
        fs::write(&secret, "secret").unwrap();
        fs::write(&own, "own").unwrap();
        let links = [("to-secret", &secret), ("to-own", &own)];
        for (name, target) in links {
            symlink(target, folder.path().join(name)).unwrap();
            if lchown(folder.path().join(name), Some(STRANGER), None).is_err() {
                eprintln!("skipped: only the superuser gives links away");
                return;
            }
        }
        std::os::unix::fs::chown(&own, Some(STRANGER), None).unwrap();
        let refused = read(&folder.path().join("to-secret")).unwrap_err();
        assert!(refused.contains("symbolic link of user 65534"), "{refused}");
        assert_eq!(read(&folder.path().join("to-own")).as_deref(), Ok("own"));
    }

    #[test]
    fn pipes_and_loops_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        assert!(read(&folder.path().join("a")).unwrap_err().contains("symbolic link"));
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(&pipe), Err("it is no regular file".to_owned()));
        assert_eq!(read(folder.path()), Err("it is no regular file".to_owned()));
    }
}
