//! The served folder, in a place that every server may read.
//!
//! Names have common extensions, so that a server sends its usual content type. The content is
//! letters, so that no server compresses the content unasked and a wrong byte count is noticed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{BenchError, BenchResult};

/// A temporary folder with the served files; removed when dropped.
#[derive(Debug)]
pub struct BenchSite {
    folder: TempDir,
}

impl BenchSite {
    /// Makes the folder and fills it with `files`: name and size in bytes.
    pub fn new(files: &[(&str, usize)]) -> BenchResult<Self> {
        let folder = tempfile::Builder::new()
            .prefix("vermeil-bench-")
            .tempdir()
            .map_err(BenchError::path("make a folder in", &std::env::temp_dir()))?;
        open_to_all(folder.path())?;
        let site = Self { folder };
        let root = site.root();
        fs::create_dir(&root).map_err(BenchError::path("create", &root))?;
        open_to_all(&root)?;
        for (name, bytes) in files {
            let path = root.join(name);
            let letters: Vec<u8> = (b'a'..=b'z').cycle().take(*bytes).collect();
            fs::write(&path, letters).map_err(BenchError::path("write", &path))?;
        }
        Ok(site)
    }

    /// The folder to serve.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// A new folder for a server's configuration, log and state.
    pub fn state_folder(&self, name: &str) -> BenchResult<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).map_err(BenchError::path("create", &path))?;
        open_to_all(&path)?;
        Ok(path)
    }
}

/// Peers started by root switch to another user, and this user must be able to read along the whole
/// path.
fn open_to_all(folder: &Path) -> BenchResult<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
        .map_err(BenchError::path("open to all", folder))
}
