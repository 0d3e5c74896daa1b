//! Debian's packages without an installation: fetched, and unpacked into a folder.
//!
//! Real applications come from there, for benches and tests: an installation would change the
//! machine and start services. Leaves out the dependencies of a package, so callers list them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::network::run;
use crate::peers::find_program;
use crate::{BenchError, BenchResult};

/// The tools that fetch and unpack packages, and their Debian packages.
const TOOLS: [(&str, &str); 2] = [("apt-get", "apt"), ("dpkg-deb", "dpkg")];

/// Fetches `packages` into `folder`, and unpacks them below the returned folder `packages` there.
///
/// # Errors
/// The tools are missing, or a package cannot be fetched or unpacked.
pub fn unpack(folder: &Path, packages: &[&str]) -> BenchResult<PathBuf> {
    for (program, package) in TOOLS {
        find_program(program).ok_or(BenchError::Missing { program, package })?;
    }
    let fetch = || run(Command::new("apt-get").args(["-q", "download"]).args(packages).current_dir(folder));
    if fetch().is_err() {
        // The package lists may be missing or out of date.
        run(Command::new("apt-get").args(["-q", "update"]))?;
        fetch()?;
    }
    let unpacked = folder.join("packages");
    for package in packages_in(folder)? {
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
    }
    Ok(unpacked)
}

/// The packages in `folder`, by name: a package comes before the packages that add to it, so a
/// package that links to folders of others comes first.
fn packages_in(folder: &Path) -> BenchResult<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(BenchError::path("list", folder))?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect();
    files.sort();
    Ok(files)
}
