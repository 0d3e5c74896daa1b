//! The files of modules, also of processes that see other files under the same names: in a
//! container, below another root, or with a file that was replaced since the process began.
//!
//! Such a file is held open from the first sample on, so the names are found when the process has
//! gone. Leaves out the content of files (`unwind`, `symbols`). Tested in `tests/record.rs`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use crate::event::Map;
use crate::format::Module;

/// Files that are held open. The files of further modules are looked for by their own paths.
const OPEN_MAX: usize = 256;
/// The end of the path of a map whose file is no longer in its folder.
const DELETED: &str = " (deleted)";

/// Where and when the processes of a recording run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessesRun {
    /// On this machine, now.
    Now,
    /// On this machine, in its present boot. The processes may have ended.
    Before,
    /// On another machine, or in an earlier boot of this machine.
    Elsewhere,
}

/// The files of the modules of a recording.
pub(crate) struct ModuleFiles {
    processes: ProcessesRun,
    places: HashMap<Module, PathBuf>,
    /// Held open, because places name their descriptors.
    opened: Vec<File>,
}

impl ModuleFiles {
    pub(crate) fn new(processes: ProcessesRun) -> Self {
        Self { processes, places: HashMap::new(), opened: Vec::new() }
    }

    /// Whether the files of this machine count as the recorded files, also without a build-id.
    pub(crate) fn are_here(&self) -> bool {
        self.processes != ProcessesRun::Elsewhere
    }

    /// Whether the file with build-id `found` is the file of a map. An empty build-id is none.
    pub(crate) fn is_recorded(&self, map: &Map, found: &[u8]) -> bool {
        match map.build_id.as_deref() {
            None | Some([]) => self.are_here(),
            Some(recorded) => recorded == found,
        }
    }

    /// The path under which this process can read the file of a map of process `pid`.
    pub(crate) fn place(&mut self, pid: i32, map: &Map) -> &Path {
        let module = Module::of(map);
        if !self.places.contains_key(&module) {
            let place = self.find(pid, map);
            self.places.insert(module.clone(), place);
        }
        &self.places[&module]
    }

    /// The known path of a module, else the recorded path.
    pub(crate) fn known(&self, module: &Module) -> PathBuf {
        self.places.get(module).cloned().unwrap_or_else(|| PathBuf::from(&module.path))
    }

    fn find(&mut self, pid: i32, map: &Map) -> PathBuf {
        let own = PathBuf::from(&map.path);
        if self.processes != ProcessesRun::Now || self.opened.len() == OPEN_MAX {
            return own;
        }
        match seen_by(pid, map).map(File::open) {
            Some(Ok(file)) => {
                let place = format!("/proc/self/fd/{}", file.as_raw_fd());
                self.opened.push(file);
                place.into()
            }
            Some(Err(_)) | None => own,
        }
    }
}

/// The path of a map's file as process `pid` sees the file, if that is another than the map's own.
pub(crate) fn seen_by(pid: i32, map: &Map) -> Option<PathBuf> {
    if !map.path.starts_with('/') {
        return None;
    }
    if map.path.ends_with(DELETED) {
        let end = map.start.saturating_add(map.length);
        return Some(format!("/proc/{pid}/map_files/{:x}-{end:x}", map.start).into());
    }
    is_elsewhere(pid).then(|| format!("/proc/{pid}/root{}", map.path).into())
}

/// Whether a process has other mounts or another root than this process.
fn is_elsewhere(pid: i32) -> bool {
    let link = |of: &str, name: &str| fs::read_link(format!("/proc/{of}/{name}"));
    let of = pid.to_string();
    let differs = |name| match (link(&of, name), link("self", name)) {
        (Ok(its), Ok(own)) => its != own,
        // A process that has gone, or of another user.
        _ => false,
    };
    differs("ns/mnt") || differs("root")
}
