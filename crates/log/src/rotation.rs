//! The rotation of a log file: when it is due, and the renames.
//!
//! `access.log` becomes `access.log.1`, `access.log.1` becomes `access.log.2`, and so on; the file
//! with the highest kept number is removed. Several processes may write the same file: the
//! instances of a server, and two servers during a take-over. The process that rotates holds a lock
//! on the file, and rotates only while the path names the file that the process writes. So the
//! processes rotate a file once, and every process finds the new file by its next look
//! (`named.rs`). No record is lost or repeated, because each line is in the file that was open when
//! the line was written.
//!
//! All names are looked up in the open folder, and no rename follows a link, so a user that plants
//! links in the folder moves only these links. Leaves out the files of a sandboxed server, because
//! the broker renames for such a server (`broker/process.rs`). Tested below, and through the binary
//! (`crates/e2e/tests/e2e/log_rotation.rs`).

use rustix::{
    fs::{
        AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, flock, fstat,
        openat, statat,
    },
    io::Errno,
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use vermeil_io::output::{NameInFolder, Output};

/// The shortest time between two rotations of a file: twice the time in which another process
/// notices a renamed file (`MOVE_CHECK` in `named.rs`). So a process never writes to a file that
/// two rotations have moved.
pub const ROTATION_GAP: Duration = Duration::from_secs(2);

/// Interval and number of attempts to lock a file for its rotation. Every user that may read the
/// log may lock it too, so a rotation never waits without end. A rotation takes a few renames, and
/// the thread that writes the log waits meanwhile.
const LOCK_TRIES: (Duration, u32) = (Duration::from_millis(5), 10);

/// When log files are rotated, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// A file that has reached this size is rotated before the next batch of lines.
    pub bytes: Option<u64>,
    /// A file is rotated before the first line of a new period. Periods begin at multiples of this
    /// time since 1970-01-01 UTC: 24 hours are a day, one hour is a full hour.
    pub every: Option<Duration>,
    /// The number of rotated files that stay, at least one.
    pub kept: u32,
}

/// The file that a process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFileId {
    device: u64,
    inode: u64,
}

impl LogFileId {
    /// The identity of the file that `found` describes.
    pub fn of(found: &Stat) -> Self {
        Self { device: found.st_dev, inode: found.st_ino }
    }
}

impl Rotation {
    /// The period of a moment.
    pub fn period(&self, at: SystemTime) -> Option<u64> {
        let every = self.every?.as_millis().max(1);
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Some(u64::try_from(since / every).unwrap_or(u64::MAX))
    }

    /// Whether a file of this size is large enough.
    pub fn is_full(&self, bytes: u64) -> bool {
        self.bytes.is_some_and(|most| bytes >= most)
    }
}

/// Renames the log at `path` and the rotated files before it, and makes a new empty file with the
/// owner and the mode of the old file. Returns false, and does nothing, if the path does not name
/// `file` any more, because another process has rotated the file.
///
/// The superuser rotates only a file that the superuser would open as a log ([`Output`]), because
/// the new file gets the owner of the old file. So a planted hard link gives no file away.
///
/// # Errors
/// The system's error, or another process holds a lock on the file. The log keeps its name then,
/// unless only the new file could not be made.
pub fn rotate(path: &Path, file: LogFileId, kept: u32) -> io::Result<bool> {
    // Only the superuser must not follow links of other users, and `find` looks at each link then.
    let path = if geteuid().is_root() { path.to_owned() } else { fs::canonicalize(path)? };
    let log = NameInFolder::find(&path)?;
    let open = match Output::append().open_found(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        open => open?,
    };
    let found = fstat(&open)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || LogFileId::of(&found) != file {
        return Ok(false);
    }
    let is_locked = lock(&open)?;
    if LogFileId::of(&log.stat()?) != file {
        return Ok(false);
    }
    if !is_locked {
        let why =
            "another process holds a lock on the file (flock); stop it, for example a reader of the log";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
    }
    shift(&log, kept)?;
    log.rename(&numbered(&log, 1)?)?;
    make_anew(&log, &found)?;
    Ok(true)
}

/// Takes the lock of a rotation. Returns false if another process still holds the lock after
/// [`LOCK_TRIES`]. A process that rotates has made its renames by then.
fn lock(open: &File) -> io::Result<bool> {
    let (pause, attempts) = LOCK_TRIES;
    for _ in 0..attempts {
        match flock(open, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(pause),
            locked => return locked.map(|()| true).map_err(io::Error::from),
        }
    }
    Ok(false)
}

/// Frees the number 1: raises the numbers of the rotated files below the first free number.
fn shift(log: &NameInFolder, kept: u32) -> io::Result<()> {
    let mut free = kept;
    for number in 1..=kept {
        let name = numbered(log, number)?;
        match statat(name.folder(), name.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                free = number;
                break;
            }
            found if number == kept => found.map_err(io::Error::from).and_then(|_| name.remove())?,
            found => drop(found?),
        }
    }
    (1..free).rev().try_for_each(|number| numbered(log, number)?.rename(&numbered(log, number + 1)?))
}

/// The name of a rotated file, in the same folder.
fn numbered(log: &NameInFolder, number: u32) -> io::Result<NameInFolder> {
    let mut name = OsString::from(log.name());
    name.push(format!(".{number}"));
    let path = log.path().with_file_name(&name);
    Ok(NameInFolder::within(log.folder().try_clone_to_owned()?, &name, &path))
}

/// Makes the new file like the old file, so that the readers of the log can read on. Another
/// process may have made the file meanwhile.
fn make_anew(log: &NameInFolder, old: &Stat) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = match openat(log.folder(), log.name(), flags, Mode::from_raw_mode(0o600)) {
        Err(Errno::EXIST) => return Ok(()),
        new => new?,
    };
    // Only the superuser may give a file away. Any other process keeps its own user and group.
    let _ = fchown(&new, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
    fchmod(&new, Mode::from_raw_mode(old.st_mode & 0o666))?;
    drop(File::from(new));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::fs::{PermissionsExt as _, chown},
        path::PathBuf,
    };
    use tempfile::TempDir;

    /// The user that plants links.
    const NOBODY: u32 = 65_534;

    struct RotatedLog {
        folder: TempDir,
    }

    impl RotatedLog {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().expect("a folder") }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.at(name), text).expect("written");
        }

        fn rotate(&self, kept: u32) -> io::Result<bool> {
            let file = File::open(self.at("log")).expect("there");
            rotate(&self.at("log"), LogFileId::of(&fstat(&file).expect("open")), kept)
        }

        /// The rotated files, by number from 1, with their texts.
        fn texts(&self) -> Vec<String> {
            let numbers = (1..).map(|number| fs::read_to_string(self.at(&format!("log.{number}"))));
            numbers.map_while(Result::ok).collect()
        }
    }

    #[test]
    fn rotation_keeps_newest_files() {
        let log = RotatedLog::new();
        for text in ["a", "b", "c", "d"] {
            log.write("log", text);
            assert!(log.rotate(2).expect("rotated"));
            assert_eq!(fs::read_to_string(log.at("log")).expect("a new file"), "");
        }
        assert_eq!(log.texts(), ["d", "c"]);
    }

    #[test]
    fn rotation_fills_first_gap() {
        let log = RotatedLog::new();
        for (name, text) in [("log", "new"), ("log.1", "one"), ("log.3", "three")] {
            log.write(name, text);
        }
        assert!(log.rotate(5).expect("rotated"));
        assert_eq!(log.texts(), ["new", "one", "three"]);
    }

    #[test]
    fn file_of_other_process_is_not_rotated() {
        let log = RotatedLog::new();
        log.write("log", "old");
        let old = LogFileId::of(&fstat(File::open(log.at("log")).expect("open")).expect("open"));
        assert!(log.rotate(3).expect("rotated"));
        assert!(!rotate(&log.at("log"), old, 3).expect("the path names another file"));
        let held = File::open(log.at("log")).expect("open");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("locked");
        let error = log.rotate(3).expect_err("another process holds the lock").to_string();
        assert!(error.starts_with("another process holds a lock on the file (flock)"), "{error}");
        assert_eq!(log.texts(), ["old"]);
        drop(held);
        log.write("log", "new");
        assert!(log.rotate(3).expect("rotated"));
        assert_eq!(log.texts(), ["new", "old"]);
    }

    #[test]
    fn new_file_keeps_mode() {
        let log = RotatedLog::new();
        log.write("log", "old");
        fs::set_permissions(log.at("log"), fs::Permissions::from_mode(0o664)).expect("ours");
        assert!(log.rotate(1).expect("rotated"));
        assert_eq!(fs::metadata(log.at("log")).expect("there").permissions().mode() & 0o777, 0o664);
    }

    #[test]
    fn planted_links_are_moved_not_followed() {
        let log = RotatedLog::new();
        log.write("log", "new");
        log.write("secret", "secret");
        for name in ["log.1", "log.2"] {
            std::os::unix::fs::symlink(log.at("secret"), log.at(name)).expect("linked");
        }
        assert!(log.rotate(2).expect("rotated"));
        assert_eq!(fs::read_to_string(log.at("secret")).expect("there"), "secret");
        assert_eq!(fs::read_to_string(log.at("log.1")).expect("there"), "new");
        assert!(fs::symlink_metadata(log.at("log.2")).expect("there").is_symlink());
    }

    #[test]
    fn planted_hard_link_is_not_rotated() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only the superuser's rights can be abused");
        }
        let log = RotatedLog::new();
        fs::create_dir(log.at("theirs")).expect("made");
        chown(log.at("theirs"), Some(NOBODY), Some(NOBODY)).expect("given");
        log.write("secret", "secret");
        let planted = log.at("theirs/log");
        fs::hard_link(log.at("secret"), &planted).expect("linked");
        let file = LogFileId::of(&rustix::fs::stat(&planted).expect("there"));
        let error = rotate(&planted, file, 3).expect_err("a hard link").to_string();
        assert!(error.contains("hard links"), "{error}");
        fs::remove_file(&planted).expect("removed");
        std::os::unix::fs::symlink(log.at("secret"), &planted).expect("linked");
        let error = rotate(&planted, file, 3).expect_err("a symbolic link").to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read_dir(log.at("theirs")).expect("there").count(), 1);
    }

    #[test]
    fn periods_begin_at_multiples() {
        let rotation = |every| Rotation { bytes: None, every: Some(Duration::from_secs(every)), kept: 1 };
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let day = rotation(86_400);
        assert_eq!(day.period(at(86_399)), Some(0));
        assert_eq!(day.period(at(86_400)), Some(1));
        assert_eq!(rotation(3600).period(at(7199)), Some(1));
        assert!(!day.is_full(u64::MAX));
    }
}
