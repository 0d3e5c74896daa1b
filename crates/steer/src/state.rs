//! What was before: the file from which a machine is brought back, whoever was killed in between.
//!
//! Owns the file's form, and that it is on the disk before anything is changed: written aside, synced, renamed, and the
//! folder synced. One file per network namespace, since cards' names are; void after a boot, since settings are. A lock
//! beside it is held by whoever changes settings. Leaves out changing them (`apply.rs`). Tested there and here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use vermeil_io::output::{self, Output, Place};

use crate::{Error, Owner, Setting};

/// Where the file stands unless told otherwise: gone with a boot, as settings are.
pub const STATE_FOLDER: &str = "/run/vermeil";

/// The form of the file; another one is refused.
const VERSION: u32 = 1;

/// How far things have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Settings are being changed. Found without the lock held: whoever did it was killed.
    Applying,
    /// All changes were made.
    Applied,
    /// Settings are being brought back.
    Undoing,
}

/// One setting and its value before, raw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// What was set.
    pub setting: Setting,
    /// Its value before; `None` if it did not exist: a queue that came with more channels goes with them.
    pub before: Option<String>,
    /// The canonical value planned for it; `None` if it was saved since its card's queues changed.
    pub planned: Option<String>,
    /// Whose it is, if it is an interrupt's; `None` too in files of earlier versions.
    #[serde(default)]
    pub owner: Option<Owner>,
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    boot: String,
    /// How far things have come.
    pub phase: Phase,
    /// When the changes are taken back unless confirmed, on the clock of [`now`].
    pub confirm_by: Option<Duration>,
    /// What was.
    pub saved: Vec<Saved>,
    /// The numbers of their cards, by which those are found that were given other names meanwhile.
    #[serde(default)]
    pub cards: BTreeMap<String, u32>,
}

/// Time since the boot, also while asleep: the clock of deadlines.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The folder of the state file.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    file: PathBuf,
    boot: String,
}

/// Held while settings are changed.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Store {
    /// The state of the network namespace that `root` (normally `/`) shows, kept in `folder`.
    pub fn new(folder: &Path, root: &Path) -> Store {
        let namespace = fs::metadata(root.join("proc/self/ns/net")).map(|namespace| namespace.ino());
        let name = namespace.map_or("steer.json".to_owned(), |number| format!("steer-{number}.json"));
        let boot = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default();
        Store { folder: folder.to_owned(), file: folder.join(name), boot: boot.trim().to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the verdict on a card is remembered.
    pub(crate) fn compared_path(&self, nic: &str) -> PathBuf {
        self.file.with_extension(format!("{nic}.compared"))
    }

    /// Which boot this is: what is remembered of another is void.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Waits until nobody else changes settings.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = self.file.with_extension("lock");
        let open = || -> io::Result<File> {
            output::make_folders(&self.folder)?;
            let file = Output::append().mode(0o644).open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        Ok(Lock { _file: open().map_err(|source| self.trouble("lock", source))? })
    }

    /// What is saved; `None` if nothing is, or if it is of an earlier boot.
    ///
    /// # Errors
    /// [`Error::State`] if the file cannot be read or understood.
    pub fn load(&self) -> Result<Option<State>, Error> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| self.trouble("read", source))?,
        };
        let invalid = |why: String| self.trouble("read", io::Error::new(io::ErrorKind::InvalidData, why));
        let state: State = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if state.version != VERSION {
            return Err(invalid(format!("it has form {}, this program knows {VERSION}", state.version)));
        }
        Ok((state.boot == self.boot).then_some(state))
    }

    pub(crate) fn begin(
        &self,
        confirm_by: Option<Duration>,
        saved: Vec<Saved>,
        cards: BTreeMap<String, u32>,
    ) -> State {
        State { version: VERSION, boot: self.boot.clone(), phase: Phase::Applying, confirm_by, saved, cards }
    }

    /// On the disk when it returns.
    pub(crate) fn save(&self, state: &State) -> Result<(), Error> {
        let aside = self.file.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = Output::replace().open(&aside)?;
            file.write_all(serde_json::to_string_pretty(state).map_err(io::Error::other)?.as_bytes())?;
            file.sync_all()?;
            let (aside, to) = (Place::find(&aside)?, Place::find(&self.file)?);
            aside.rename(&to)?;
            to.sync_folder()
        };
        write().map_err(|source| self.trouble("write", source))
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        match Place::find(&self.file).and_then(|file| file.remove()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.trouble("remove", error)),
            _ => Ok(()),
        }
    }

    fn trouble(&self, doing: &'static str, source: io::Error) -> Error {
        Error::State { doing, path: self.file.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn a_state_survives_and_one_of_an_earlier_boot_does_not() {
        let tree = Tree::of("veth");
        let folder = tempfile::tempdir().unwrap();
        tree.write("proc/sys/kernel/random/boot_id", "one");
        let store = Store::new(&folder.path().join("deep/er"), tree.path());
        assert_eq!(store.load().unwrap(), None);
        let _lock = store.lock().unwrap();
        let saved =
            Saved { setting: Setting::FlowTable, before: Some("0".into()), planned: None, owner: None };
        let state = store.begin(Some(Duration::from_secs(7)), vec![saved], BTreeMap::new());
        store.save(&state).unwrap();
        assert_eq!(store.load().unwrap(), Some(state));
        tree.write("proc/sys/kernel/random/boot_id", "two");
        assert_eq!(Store::new(store.folder(), tree.path()).load().unwrap(), None);
        store.remove().unwrap();
        store.remove().unwrap();
        assert_eq!(store.load().unwrap(), None);
    }

    #[test]
    fn a_state_that_makes_no_sense_is_not_taken_for_none() {
        let (tree, folder) = (Tree::of("veth"), tempfile::tempdir().unwrap());
        let store = Store::new(folder.path(), tree.path());
        fs::write(folder.path().join("steer.json"), "{").unwrap();
        let error = store.load().unwrap_err().to_string();
        assert!(error.contains("steer.json") && error.contains("cannot read"), "{error}");
    }
}
