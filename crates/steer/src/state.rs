//! The file with the former state, from which a machine is restored even if a process was killed in
//! between.
//!
//! Contains the file's form, and ensures that the file is on the disk before any change: written
//! aside, synced, renamed, and the folder synced. One file per network namespace, because cards'
//! names are per namespace; void after a boot, because settings are. A process that changes
//! settings holds a lock beside the file. Leaves out the changes (`apply.rs`). Tested there and
//! here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use vermeil_io::output::{self, NameInFolder, Output};

use crate::{InterruptOwner, Setting, SteerError};

/// The default folder of the file; a boot deletes the folder, as a boot resets settings.
///
/// A folder of its own: `/run/vermeil` may belong to the user of a service, whose programs could
/// otherwise write what the superuser restores, and systemd removes it with the service.
pub const STATE_FOLDER: &str = "/run/vermeil-steer";

/// The form of the file; another form is refused.
const VERSION: u32 = 1;

/// The progress of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandPhase {
    /// Settings are being changed. Found without the lock held: the process was killed.
    Applying,
    /// All changes were made.
    Applied,
    /// Settings are being restored.
    Undoing,
}

/// A setting and its former value, raw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The setting.
    pub setting: Setting,
    /// The former value; `None` if the setting did not exist, because a queue of additional
    /// channels disappears with the channels.
    pub before: Option<String>,
    /// The planned value, canonical; `None` if the setting was saved because the number of its
    /// card's queues changes.
    pub planned: Option<String>,
    /// The owner, for an interrupt; also `None` in files of earlier versions.
    #[serde(default)]
    pub owner: Option<InterruptOwner>,
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteerState {
    version: u32,
    boot: String,
    /// The progress.
    pub phase: CommandPhase,
    /// The time at which the changes are undone unless confirmed, on the clock of [`now`].
    pub confirm_by: Option<Duration>,
    /// The former values.
    pub saved: Vec<Saved>,
    /// The indices of the cards, to find renamed cards.
    #[serde(default)]
    pub cards: BTreeMap<String, u32>,
}

/// Time since the boot, including sleep: the clock of deadlines.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The folder of the state file.
#[derive(Debug, Clone)]
pub struct StateStore {
    folder: PathBuf,
    file: PathBuf,
    boot: String,
}

/// Held while settings are changed.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

impl StateStore {
    /// The state of the network namespace that `root` (normally `/`) shows, kept in `folder`.
    pub fn new(folder: &Path, root: &Path) -> StateStore {
        let namespace = fs::metadata(root.join("proc/self/ns/net")).map(|namespace| namespace.ino());
        let name = namespace.map_or("steer.json".to_owned(), |number| format!("steer-{number}.json"));
        let boot = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default();
        StateStore { folder: folder.to_owned(), file: folder.join(name), boot: boot.trim().to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the verdict on a card.
    pub(crate) fn compared_path(&self, nic: &str) -> PathBuf {
        self.file.with_extension(format!("{nic}.compared"))
    }

    /// The id of this boot: data of another boot is void.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Waits until no other process changes settings.
    pub(crate) fn lock(&self) -> Result<StateLock, SteerError> {
        let path = self.file.with_extension("lock");
        let open = || -> io::Result<File> {
            output::make_folders(&self.folder)?;
            // No other user may open the file, because a lock of that user would keep all waiting.
            let file = Output::append().mode(0o600).open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        Ok(StateLock { _file: open().map_err(|source| self.trouble("lock", source))? })
    }

    /// The saved state; `None` if there is none, or if the state is of an earlier boot.
    ///
    /// # Errors
    /// [`SteerError::State`] if the file cannot be read or parsed.
    pub fn load(&self) -> Result<Option<SteerState>, SteerError> {
        let text = read_own(&self.file).map_err(|source| self.trouble("read", source))?;
        let Some(text) = text else { return Ok(None) };
        let invalid = |why: String| self.trouble("read", io::Error::new(io::ErrorKind::InvalidData, why));
        let state: SteerState = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if state.version != VERSION {
            return Err(invalid(format!("it has form {}, this program knows {VERSION}", state.version)));
        }
        // A name becomes part of a path.
        let is_name = |nic: &&str| !nic.contains('/') && !["", ".", ".."].contains(nic);
        if let Some(nic) =
            state.saved.iter().filter_map(|saved| saved.setting.nic()).find(|nic| !is_name(nic))
        {
            return Err(invalid(format!("{nic:?} is no name of a card")));
        }
        Ok((state.boot == self.boot).then_some(state))
    }

    pub(crate) fn begin(
        &self,
        confirm_by: Option<Duration>,
        saved: Vec<Saved>,
        cards: BTreeMap<String, u32>,
    ) -> SteerState {
        SteerState {
            version: VERSION,
            boot: self.boot.clone(),
            phase: CommandPhase::Applying,
            confirm_by,
            saved,
            cards,
        }
    }

    /// Saves the state; on the disk on return.
    pub(crate) fn save(&self, state: &SteerState) -> Result<(), SteerError> {
        let aside = self.file.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = Output::replace().open(&aside)?;
            file.write_all(serde_json::to_string_pretty(state).map_err(io::Error::other)?.as_bytes())?;
            file.sync_all()?;
            let (aside, to) = (NameInFolder::find(&aside)?, NameInFolder::find(&self.file)?);
            aside.rename(&to)?;
            to.sync_folder()
        };
        write().map_err(|source| self.trouble("write", source))
    }

    pub(crate) fn remove(&self) -> Result<(), SteerError> {
        match NameInFolder::find(&self.file).and_then(|file| file.remove()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.trouble("remove", error)),
            _ => Ok(()),
        }
    }

    fn trouble(&self, doing: &'static str, source: io::Error) -> SteerError {
        SteerError::State { doing, path: self.file.clone(), source }
    }
}

/// Reads a file that only this user and the superuser can have made; `None` if there is no file.
/// What the file says is written to the kernel's files.
pub(crate) fn read_own(path: &Path) -> io::Result<Option<String>> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let opened = File::options().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let refuse = |what: &str, owner: u32| {
        let why = format!(
            "{what} belongs to user {owner}, or other users may write it, so its content is not trusted"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    };
    let is_own = |state: &fs::Metadata| [0, geteuid().as_raw()].contains(&state.uid());
    let state = file.metadata()?;
    if !is_own(&state) || state.mode() & OTHERS_WRITE != 0 {
        return refuse("the file", state.uid());
    }
    let folder = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    // In a sticky folder nobody else replaces the file.
    if !is_own(&folder) || folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0 {
        return refuse("its folder", folder.uid());
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    #[test]
    fn a_state_survives_and_one_of_an_earlier_boot_does_not() {
        let tree = Tree::of("veth");
        let folder = tempfile::tempdir().unwrap();
        tree.write("proc/sys/kernel/random/boot_id", "one");
        let store = StateStore::new(&folder.path().join("deep/er"), tree.path());
        assert_eq!(store.load().unwrap(), None);
        let _lock = store.lock().unwrap();
        let saved =
            Saved { setting: Setting::FlowTable, before: Some("0".into()), planned: None, owner: None };
        let state = store.begin(Some(Duration::from_secs(7)), vec![saved], BTreeMap::new());
        store.save(&state).unwrap();
        assert_eq!(store.load().unwrap(), Some(state));
        tree.write("proc/sys/kernel/random/boot_id", "two");
        assert_eq!(StateStore::new(store.folder(), tree.path()).load().unwrap(), None);
        store.remove().unwrap();
        store.remove().unwrap();
        assert_eq!(store.load().unwrap(), None);
    }

    /// Regression: the folder could belong to the user of the service. That user then chose the
    /// files that the superuser writes.
    #[test]
    fn state_that_another_user_could_have_written_is_refused() {
        let (tree, folder) = (Tree::of("veth"), tempfile::tempdir().unwrap());
        let store = StateStore::new(folder.path(), tree.path());
        let _lock = store.lock().unwrap();
        let file = folder.path().join("steer.json");
        let refused = |why: &str| {
            let error = store.load().unwrap_err().to_string();
            assert!(error.contains(why) && error.ends_with("choose another folder with --state"), "{error}");
        };
        let save = |nic: &str| {
            let setting = Setting::Rps { nic: nic.into(), queue: 0 };
            let saved = Saved { setting, before: Some("0".into()), planned: None, owner: None };
            store.save(&store.begin(None, vec![saved], BTreeMap::new())).unwrap();
        };
        save("eth0");
        assert!(store.load().unwrap().is_some());
        let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        allow(&file, 0o664);
        refused("the file");
        allow(&file, 0o644);
        allow(folder.path(), 0o777);
        refused("its folder");
        allow(folder.path(), 0o1777);
        assert!(store.load().unwrap().is_some(), "nobody else replaces a file in a sticky folder");
        allow(folder.path(), 0o700);
        save("../../../run/x");
        refused("no name of a card");
        save("eth0");
        fs::rename(&file, folder.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &file).unwrap();
        assert!(store.load().is_err(), "a link");
        fs::rename(folder.path().join("elsewhere"), &file).unwrap();
        if geteuid().is_root() {
            chown(&file, Some(65_534), None).unwrap();
            refused("the file belongs to user 65534");
            chown(&file, Some(0), None).unwrap();
            chown(folder.path(), Some(65_534), None).unwrap();
            refused("its folder belongs to user 65534");
        }
    }

    #[test]
    fn a_state_that_makes_no_sense_is_not_taken_for_none() {
        let (tree, folder) = (Tree::of("veth"), tempfile::tempdir().unwrap());
        let store = StateStore::new(folder.path(), tree.path());
        fs::write(folder.path().join("steer.json"), "{").unwrap();
        let error = store.load().unwrap_err().to_string();
        assert!(error.contains("steer.json") && error.contains("cannot read"), "{error}");
    }
}
