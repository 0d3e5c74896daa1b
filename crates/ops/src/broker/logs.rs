//! The logs that the configuration names, and the rotations that the broker has carried out.
//!
//! A captured server must reach no other file, and must not remove the old logs by rotating without
//! end. So the broker rotates a log of the configuration only if that is due, and at most once in
//! half of [`ROTATION_GAP`]. Tested below.

use super::path_of;
use std::{
    collections::{HashMap, HashSet},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};
use vermeil_config::ServeOptions;
use vermeil_log::{LogFileId, ROTATION_GAP, Rotation, rotate};

/// The logs of the configuration.
pub(super) struct ConfiguredLogs {
    present: HashSet<PathBuf>,
    /// Those of the configuration before, because the server writes a log until the new one is
    /// open.
    former: HashSet<PathBuf>,
    pub(super) rotation: Option<Rotation>,
    /// When the broker last rotated a log.
    rotated: HashMap<PathBuf, SystemTime>,
}

impl ConfiguredLogs {
    pub(super) fn of(options: &ServeOptions) -> Self {
        Self {
            present: logs(options).map(Path::to_owned).collect(),
            former: HashSet::new(),
            rotation: options.log.rotation,
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

    /// Takes the logs of another configuration, as [listed](Self::listed).
    pub(super) fn learn(&mut self, list: &[u8], rotation: Option<Rotation>) {
        let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        self.former = std::mem::replace(&mut self.present, paths.map(path_of).collect());
        self.rotation = rotation;
        let (present, former) = (&self.present, &self.former);
        self.rotated.retain(|path, _| present.contains(path) || former.contains(path));
    }

    pub(super) fn have(&self, path: &Path) -> bool {
        self.present.contains(path) || self.former.contains(path)
    }

    /// Rotates a log that the configuration names. False if another process has rotated the log.
    pub(super) fn rotate(&mut self, path: &Path, file: LogFileId, rotation: Rotation) -> io::Result<bool> {
        let now = SystemTime::now();
        let before = self.rotated.get(path);
        if before
            .is_some_and(|before| now.duration_since(*before).is_ok_and(|since| since < ROTATION_GAP / 2))
        {
            return Err(io::Error::other("it was rotated a moment ago"));
        }
        let is_new_period = rotation.every.is_some()
            && before.is_none_or(|before| rotation.period(now) > rotation.period(*before));
        if !is_new_period && !rotation.is_full(std::fs::metadata(path)?.len()) {
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
            present: HashSet::from([log.to_owned()]),
            former: HashSet::new(),
            rotation: Some(rotation),
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

    #[test]
    fn logs_of_former_configuration_stay_known_once() {
        let (old, new) = (Path::new("/old"), Path::new("/new"));
        let mut logs = configured(old, Rotation { bytes: None, every: None, kept: 1 });
        logs.learn(b"/new\0", None);
        assert!(logs.have(old) && logs.have(new));
        logs.learn(b"/new\0/newer\0", None);
        assert!(!logs.have(old) && logs.have(new) && logs.have(Path::new("/newer")));
    }
}
