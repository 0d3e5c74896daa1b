//! The logs that the configuration names, and the rotations that the broker has carried out.
//!
//! A captured server must reach no other file, and must not remove the old logs by rotating without
//! end. So the broker rotates a log of the configuration only if that is due, and at most once in
//! half of [`ROTATION_GAP`]. Tested below.

use super::path_of;
use rustix::{fs::stat, io::Errno};
use std::{
    collections::{HashMap, HashSet},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};
use vermeil_config::ServeOptions;
use vermeil_log::{LogFileId, ROTATION_GAP, Rotation, rotate};

/// The logs of the configuration, and those that the configuration named since the start: the
/// server goes on with the configuration before if it refuses a new one, and the broker does not
/// hear of that.
pub(super) struct ConfiguredLogs {
    named: HashSet<PathBuf>,
    /// The rotations, each once.
    rotations: Vec<Rotation>,
    /// When the broker last rotated a log.
    rotated: HashMap<PathBuf, SystemTime>,
}

impl ConfiguredLogs {
    pub(super) fn of(options: &ServeOptions) -> Self {
        Self {
            named: logs(options).map(Path::to_owned).collect(),
            rotations: options.log.rotation.into_iter().collect(),
            rotated: HashMap::new(),
        }
    }

    /// The paths of all logs, each with a zero byte behind it.
    pub(super) fn listed(options: &ServeOptions) -> Vec<u8> {
        let mut list = Vec::new();
        for log in logs(options) {
            list.extend_from_slice(log.as_os_str().as_bytes());
            list.push(0);
        }
        list
    }

    /// Adds the logs of another configuration, as [listed](Self::listed).
    pub(super) fn learn(&mut self, list: &[u8], rotation: Option<Rotation>) {
        let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        self.named.extend(paths.map(path_of));
        let new = rotation.filter(|rotation| !self.rotations.contains(rotation));
        self.rotations.extend(new);
    }

    pub(super) fn have(&self, path: &Path) -> bool {
        self.named.contains(path)
    }

    pub(super) fn have_rotation(&self, rotation: Rotation) -> bool {
        self.rotations.contains(&rotation)
    }

    /// Rotates a log that the configuration names. False if another process has rotated the log.
    pub(super) fn rotate(&mut self, path: &Path, file: LogFileId, rotation: Rotation) -> io::Result<bool> {
        // Another instance, or another server during a take-over, may have rotated the log. Its new
        // file says nothing about the old one.
        let found = match stat(path) {
            Ok(found) if LogFileId::of(&found) == file => found,
            Ok(_) | Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let now = SystemTime::now();
        let before = self.rotated.get(path);
        if before
            .is_some_and(|before| now.duration_since(*before).is_ok_and(|since| since < ROTATION_GAP / 2))
        {
            return Err(io::Error::other("it was rotated a moment ago"));
        }
        let is_new_period = rotation.every.is_some()
            && before.is_none_or(|before| rotation.period(now) > rotation.period(*before));
        if !is_new_period && !rotation.is_full(found.st_size.unsigned_abs()) {
            return Err(io::Error::other("it is not large enough for a rotation"));
        }
        let is_rotated = rotate(path, file, rotation.kept)?;
        // After an attempt in vain the next one may follow, because the other process may fail.
        if is_rotated {
            self.rotated.insert(path.to_owned(), now);
        }
        Ok(is_rotated)
    }
}

/// The paths of all logs.
fn logs(options: &ServeOptions) -> impl Iterator<Item = &Path> {
    options.log.file().into_iter().chain(options.hosts.log_files())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn configured(log: &Path, rotation: Rotation) -> ConfiguredLogs {
        ConfiguredLogs {
            named: HashSet::from([log.to_owned()]),
            rotations: vec![rotation],
            rotated: HashMap::new(),
        }
    }

    fn id(path: &Path) -> LogFileId {
        LogFileId::of(&rustix::fs::stat(path).expect("there"))
    }

    #[test]
    fn broker_rotates_due_logs_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let rotation = Rotation { bytes: Some(10), every: Some(Duration::from_secs(1 << 40)), kept: 3 };
        let mut logs = configured(&log, rotation);
        std::fs::write(&log, "short").expect("written");
        assert!(logs.rotate(&log, id(&log), rotation).expect("the first of its period"));
        std::fs::write(&log, "a long line").expect("written");
        let error = logs.rotate(&log, id(&log), rotation).expect_err("too soon").to_string();
        assert!(error.contains("a moment ago"), "{error}");
        logs.rotated.insert(log.clone(), SystemTime::now() - 2 * ROTATION_GAP);
        assert!(logs.rotate(&log, id(&log), rotation).expect("it is full"));
        logs.rotated.insert(log.clone(), SystemTime::now() - 2 * ROTATION_GAP);
        std::fs::write(&log, "short").expect("written");
        let error = logs.rotate(&log, id(&log), rotation).expect_err("it is short").to_string();
        assert!(error.contains("not large enough"), "{error}");
    }

    /// Regression: a server said that it could not rotate the log which its neighbour had rotated.
    #[test]
    fn log_that_another_process_rotated_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let rotation = Rotation { bytes: Some(10), every: None, kept: 3 };
        let mut logs = configured(&log, rotation);
        std::fs::write(&log, "a long line").expect("written");
        let old = id(&log);
        assert!(rotate(&log, old, 3).expect("by another process"));
        assert!(!logs.rotate(&log, old, rotation).expect("the path names the new file"));
        std::fs::remove_file(&log).expect("removed");
        assert!(!logs.rotate(&log, old, rotation).expect("the path names no file"));
        assert!(!folder.path().join("log.2").exists());
    }

    /// Regression: after two reloads that the server refused, the broker knew neither the logs nor
    /// the rotation in force.
    #[test]
    fn named_logs_and_rotations_stay_known() {
        let old = Path::new("/old");
        let rotation = |kept| Rotation { bytes: Some(10), every: None, kept };
        let mut logs = configured(old, rotation(1));
        logs.learn(b"/new\0", None);
        logs.learn(b"/new\0/newer\0", Some(rotation(2)));
        assert!([old, Path::new("/new"), Path::new("/newer")].iter().all(|path| logs.have(path)));
        assert!(!logs.have(Path::new("/other")));
        assert!(logs.have_rotation(rotation(1)) && logs.have_rotation(rotation(2)));
        assert!(!logs.have_rotation(rotation(3)));
    }
}
