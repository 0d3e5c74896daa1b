//! The workspace as cargo sees it: where it is, its packages and what they depend on; and running cargo in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::{Error, Result};

/// What `cargo metadata` says, as far as it is used here.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// The repository's folder.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// The members of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// The package's name.
    pub(crate) name: String,
    /// Its Cargo.toml.
    pub(crate) manifest_path: PathBuf,
    /// Everything it depends on, of every kind.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency of a member.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package depended on.
    pub(crate) name: String,
    /// Its folder, when it is one of ours.
    pub(crate) path: Option<PathBuf>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        let mut command = cargo();
        // Offline: only the members are asked for, and looking at them needs no registry.
        command
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(manifest_folder());
        let output = command.output().map_err(Error::path("run", Path::new("cargo")))?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            return Err(Error::Command {
                command: format!("{command:?}"),
                status: output.status.to_string(),
            });
        }
        serde_json::from_slice(&output.stdout).map_err(|error| Error::form("cargo metadata", error))
    }

    /// The folder of `package` as written in the architecture page: from the root, with slashes.
    pub(crate) fn folder_of(&self, package: &Package) -> String {
        let folder = package.manifest_path.parent().unwrap_or(&self.root);
        folder.strip_prefix(&self.root).unwrap_or(folder).display().to_string()
    }
}

/// The cargo that runs us, without what it says to us of this package: build scripts that look at that would have what
/// depends on them built anew, each time that `cargo` and `cargo xtask` take turns.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in names.filter(|name| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

/// The folder of this package: known at compile time, because `cargo xtask` may be typed anywhere in the workspace.
fn manifest_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
