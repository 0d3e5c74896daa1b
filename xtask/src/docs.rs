//! `cargo xtask docs`: the man pages, shell completions and the reference of the configuration,
//! generated from the definitions of options and keys.
//!
//! The files are committed, because a package can then be made without building. `--check` compares
//! the files with the present definitions. Knows the destinations, but not the contents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::workspace::Workspace;

/// Writes files into an existing folder and returns their paths.
type Generate = fn(&Path) -> io::Result<Vec<PathBuf>>;

/// The generators, and their folders below `docs`.
const GENERATED: [(&str, Generate); 2] =
    [("man", vermeil_cli::man_pages), ("completions", vermeil_cli::completions)];

/// A page and its generator.
type GeneratedPage = (&'static str, fn() -> String);

/// The generated single pages of `docs`.
const PAGES: [GeneratedPage; 3] = [
    ("configuration.md", vermeil_cli::configuration_page),
    ("status.md", vermeil_cli::status_page),
    ("vermeil.schema.json", vermeil_cli::configuration_schema),
];

/// The arguments of `docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct DocsArgs {
    /// Write nothing; fail when a committed file differs.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DocsArgs) -> Result<()> {
    if args.check { check() } else { write() }
}

/// Compares the committed files with newly generated files.
pub(crate) fn check() -> Result<()> {
    let docs = Workspace::load()?.root.join("docs");
    let mut findings = Vec::new();
    for (name, generate) in GENERATED {
        let wanted = in_temporary_folder(generate)?;
        findings.extend(differences(name, &wanted, &contents(&docs.join(name))?));
    }
    for (name, page) in PAGES {
        // A missing page counts as different.
        if fs::read_to_string(docs.join(name)).ok() != Some(page()) {
            findings.push(format!("docs/{name} is not what the definitions say"));
        }
    }
    if !findings.is_empty() {
        findings.push("write them anew with `cargo xtask docs`".into());
    }
    Error::unless_empty(findings)
}

fn write() -> Result<()> {
    let docs = Workspace::load()?.root.join("docs");
    for (name, generate) in GENERATED {
        let folder = docs.join(name);
        let wanted = in_temporary_folder(generate)?;
        fs::create_dir_all(&folder).map_err(Error::path("create", &folder))?;
        for stale in contents(&folder)?.keys().filter(|file| !wanted.contains_key(*file)) {
            let path = folder.join(stale);
            fs::remove_file(&path).map_err(Error::path("remove", &path))?;
            println!("removed {}", path.display());
        }
        for (file, bytes) in wanted {
            let path = folder.join(file);
            fs::write(&path, bytes).map_err(Error::path("write", &path))?;
            println!("wrote {}", path.display());
        }
    }
    for (name, page) in PAGES {
        let path = docs.join(name);
        fs::write(&path, page()).map_err(Error::path("write", &path))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

type Files = BTreeMap<OsString, Vec<u8>>;

fn in_temporary_folder(generate: Generate) -> Result<Files> {
    let folder = tempfile::tempdir().map_err(Error::path("make a folder in", &std::env::temp_dir()))?;
    generate(folder.path()).map_err(Error::path("write into", folder.path()))?;
    contents(folder.path())
}

/// The files of a folder; none if the folder does not exist.
fn contents(folder: &Path) -> Result<Files> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::new()),
        Err(error) => return Err(Error::path("read", folder)(error)),
    };
    let mut files = Files::new();
    for entry in entries.flatten() {
        let path = entry.path();
        files.insert(entry.file_name(), fs::read(&path).map_err(Error::path("read", &path))?);
    }
    Ok(files)
}

fn differences(name: &str, wanted: &Files, committed: &Files) -> Vec<String> {
    let show = |file: &OsString| format!("docs/{name}/{}", file.display());
    let wrong = wanted.iter().filter_map(|(file, bytes)| match committed.get(file) {
        None => Some(format!("{} is missing", show(file))),
        Some(other) if other != bytes => Some(format!("{} is not what the definitions say", show(file))),
        Some(_) => None,
    });
    let stale = committed.keys().filter(|file| !wanted.contains_key(*file));
    wrong.chain(stale.map(|file| format!("{} is no longer generated", show(file)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[(&str, &str)]) -> Files {
        names.iter().map(|(name, text)| (OsString::from(name), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn missing_changed_and_stale_files_are_found() {
        let wanted = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let committed = files(&[("a", "1"), ("b", "x"), ("d", "4")]);
        let expected = [
            "docs/man/b is not what the definitions say",
            "docs/man/c is missing",
            "docs/man/d is no longer generated",
        ];
        assert_eq!(differences("man", &wanted, &committed), expected);
        assert!(differences("man", &wanted, &wanted).is_empty());
    }

    #[test]
    fn generating_twice_gives_the_same_files() {
        for (name, generate) in GENERATED {
            let once = in_temporary_folder(generate).expect("generated");
            assert!(!once.is_empty(), "{name}");
            assert_eq!(once, in_temporary_folder(generate).expect("generated"), "{name}");
        }
    }
}
