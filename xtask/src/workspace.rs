//! The workspace from the view of cargo: its folder, packages and dependencies; and a way to run
//! cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::{Error, Result};

/// The arguments of a build of the release: the profile and the packages.
pub(crate) const RELEASE: [&str; 5] = ["--release", "--package", "vermeil-bench", "--package", "vermeil-cli"];

/// The used part of the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// The repository's folder.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// cargo's output folder.
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// The members of the workspace.
    pub(crate) packages: Vec<CargoPackage>,
}

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct CargoPackage {
    /// The package's name.
    pub(crate) name: String,
    /// The package's Cargo.toml.
    pub(crate) manifest_path: PathBuf,
    /// All dependencies, of every kind.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency of a member.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The name of the dependency.
    pub(crate) name: String,
    /// The folder, if the dependency is a member of the workspace.
    pub(crate) path: Option<PathBuf>,
}

impl Workspace {
    /// Reads the workspace from cargo.
    pub(crate) fn load() -> Result<Self> {
        let mut command = cargo();
        // Offline, because only the members are needed, and reading them needs no registry.
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
    pub(crate) fn folder_of(&self, package: &CargoPackage) -> String {
        let folder = package.manifest_path.parent().unwrap_or(&self.root);
        folder.strip_prefix(&self.root).unwrap_or(folder).display().to_string()
    }
}

/// The cargo that runs this program, without cargo's variables of this package. Build scripts that
/// read these variables would rebuild their dependents whenever `cargo` and `cargo xtask`
/// alternate.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in names.filter(|name| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

/// The folder of this package: a compile-time constant, because `cargo xtask` may be called
/// anywhere in the workspace.
fn manifest_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
