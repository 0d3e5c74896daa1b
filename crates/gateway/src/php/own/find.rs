//! Finds PHP by the usual names in the usual folders.
//!
//! Distributions add the version to the name, and some install several versions. The plain name
//! wins, then the newest version.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Searched after `PATH`, because the `PATH` of ordinary users lacks the first two.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin"];

/// The kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PhpKind {
    Fpm,
    Cgi,
}

/// A program that runs PHP over FastCGI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FoundPhp {
    pub kind: PhpKind,
    /// With links followed.
    pub program: PathBuf,
}

impl FoundPhp {
    /// The program at `path`, recognised by name.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let program = fs::canonicalize(path).ok().filter(|program| is_program(program))?;
        // Read the name before links are followed, because the link's name tells the kind.
        let name = path.file_name()?.to_str()?;
        let kind = match (name.contains("fpm"), name.contains("cgi")) {
            (true, false) => PhpKind::Fpm,
            (false, true) => PhpKind::Cgi,
            _ => return None,
        };
        Some(Self { kind, program })
    }
}

/// Searches `PATH` and the usual folders: php-fpm anywhere wins over php-cgi anywhere.
pub(crate) fn find() -> Option<FoundPhp> {
    find_in(&folders(), [PhpKind::Fpm, PhpKind::Cgi])
}

/// Like [`find`], but prefers php-cgi, because php-cgi takes an existing listening socket.
pub(crate) fn find_cgi() -> Option<FoundPhp> {
    find_in(&folders(), [PhpKind::Cgi, PhpKind::Fpm])
}

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(FOLDERS.map(PathBuf::from)).collect()
}

/// Searches `folders` for the first of `kinds`.
pub(super) fn find_in(folders: &[PathBuf], kinds: [PhpKind; 2]) -> Option<FoundPhp> {
    kinds.into_iter().find_map(|kind| {
        let name = match kind {
            PhpKind::Fpm => "php-fpm",
            PhpKind::Cgi => "php-cgi",
        };
        let program = best(folders, name)?;
        Some(FoundPhp { kind, program })
    })
}

fn best(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let versioned = files.filter_map(|file| {
        let version = version(file.file_name().to_str()?, name)?;
        // With links followed, because the spawner refuses a path that another user could redirect.
        let program = fs::canonicalize(file.path()).ok()?;
        is_program(&program).then_some((version, program))
    });
    versioned.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, program)| program)
}

/// The version behind `name` in `file`; the plain name ranks highest. `None` for other files.
fn version(file: &str, name: &str) -> Option<Vec<u32>> {
    let rest = file.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(vec![u32::MAX]);
    }
    rest.strip_prefix('-').unwrap_or(rest).split('.').map(|number| number.parse().ok()).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
