//! A folder to serve, made for one test and removed with the test.

use super::Io;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The folder, inside an outer folder, so that files can stand outside of the served folder.
pub(crate) struct TestSite {
    around: TempDir,
}

impl TestSite {
    /// With an `index.html`.
    pub(crate) fn new() -> Self {
        let around = TempDir::new().expect("a temporary folder");
        fs::create_dir(around.path().join("site")).expect("a folder in it");
        let site = Self { around };
        site.write("index.html", b"<!doctype html>home\n");
        site
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.around.path().join("site")
    }

    /// A path beside the served folder.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    /// Writes `vermeil.toml` beside the folder: `text`, after a driver, no log and a free address.
    pub(crate) fn configure(&self, io: Io, text: &str) -> PathBuf {
        let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
        // Keys of the whole come before all tables.
        let (top, tables) = text.split_at(text.find('[').unwrap_or(text.len()));
        let text = format!("io = \"{}\"\nlog = \"off\"\n{top}{listener}{tables}", io.name());
        let file = self.outside("vermeil.toml");
        fs::write(&file, text).expect("a file");
        file
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file in place, with its parent folders.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a name below the folder")).expect("folders");
        fs::write(path, bytes).expect("a file");
    }

    /// Writes a temporary file and renames the file over `name`.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        let new = self.outside("new");
        fs::write(&new, bytes).expect("a file");
        fs::rename(new, self.path(name)).expect("renamed");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("removed");
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.path(name)).expect("a link");
    }

    /// Sets a file's time of modification to the date of RFC 9110's examples, Sun, 06 Nov 1994
    /// 08:49:37 GMT.
    pub(crate) fn age(&self, name: &str) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        fs::File::options()
            .write(true)
            .open(self.path(name))
            .and_then(|file| file.set_modified(time))
            .expect("aged");
    }
}

/// `len` bytes that differ from place to place and from `seed` to `seed`: any shift or mixture
/// shows.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
