//! An application unpacked from Debian's packages, in a temporary folder that all users may enter.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use vermeil_bench::debian;

use crate::error::{Error, Result};
use crate::steps::run_command;

/// The unpacked packages of an application; removed with the value.
pub(super) struct UnpackedApp {
    // Holds the packages.
    _folder: TempDir,
    packages: PathBuf,
}

impl UnpackedApp {
    /// Fetches and unpacks `packages`.
    pub(super) fn fetch(name: &str, packages: &[&str]) -> Result<Self> {
        let folder = open_folder(name)?;
        let packages = debian::unpack(folder.path(), packages)?;
        Ok(Self { _folder: folder, packages })
    }

    /// The root of the unpacked packages.
    pub(super) fn packages(&self) -> &Path {
        &self.packages
    }
}

/// A temporary folder that every user may enter, because the programs of sites have other users.
pub(super) fn open_folder(name: &str) -> Result<TempDir> {
    let prefix = format!("vermeil-{name}-");
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir();
    let folder = folder.map_err(Error::path("make a folder in", &std::env::temp_dir()))?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))
        .map_err(Error::path("open to all", folder.path()))?;
    Ok(folder)
}

/// Runs a script of the shell with arguments, which stops at the first failed command.
pub(super) fn run_script(script: &str, arguments: &[&Path]) -> Result<()> {
    run_command(Command::new("sh").args(["-e", "-c", script, "sh"]).args(arguments))
}
