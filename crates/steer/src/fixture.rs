//! Recorded machines for tests: a folder that looks like `/` to the readers of this crate, from a
//! text in `testdata`.
//!
//! A line is `path = value`, `path -> target` (a symbolic link) or `path/` (an empty folder); a
//! line that begins with `|` continues the value before; `#` begins a comment.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use vermeil_topology::{Machine, sysfs};

use crate::{CardNetwork, RecordedCard, read};

pub(crate) struct Tree(TempDir);

impl Tree {
    /// Writes out `testdata/NAME.tree`.
    pub(crate) fn of(name: &str) -> Tree {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/{name}.tree"));
        let tree = Tree(TempDir::new().expect("a temporary folder"));
        let mut last = String::new();
        for line in fs::read_to_string(path).expect("a recorded tree").lines() {
            if line.starts_with('#') {
                continue;
            } else if let Some(more) = line.trim_start().strip_prefix('|') {
                let so_far = fs::read_to_string(tree.path().join(&last)).expect("a value before");
                tree.write(&last, &format!("{so_far}\n{}", more.trim()));
            } else if let Some((path, value)) = line.split_once(" = ") {
                tree.write(path, value);
                last = path.to_owned();
            } else if let Some((path, target)) = line.split_once(" -> ") {
                let path = tree.made(path);
                symlink(target, path).expect("a link");
            } else {
                fs::create_dir_all(tree.path().join(line)).expect("a folder");
            }
        }
        tree
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn kernel(&self) -> RecordedCard {
        RecordedCard::new(self.path())
    }

    pub(crate) fn network(&self) -> CardNetwork {
        read(self.path(), &self.kernel()).expect("a recorded network")
    }

    pub(crate) fn machine(&self) -> Machine {
        sysfs::read(self.path()).expect("a recorded machine")
    }

    pub(crate) fn write(&self, path: &str, value: &str) {
        fs::write(self.made(path), value).expect("a file");
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.path().join(path)).expect("a file to remove");
    }

    fn made(&self, path: &str) -> std::path::PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a file stands in a folder")).expect("a folder");
        path
    }

    /// Every file with its text, for a comparison.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
                let kind = entry.file_type().expect("a type");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let name = entry.path().strip_prefix(self.path()).expect("below").display().to_string();
                    all.insert(name, fs::read_to_string(entry.path()).expect("a text"));
                }
            }
        }
        all
    }
}
