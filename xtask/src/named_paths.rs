//! Paths that comments and pages name: each file or folder must exist, and so must each page behind
//! a link.
//!
//! A path counts when it stands between backquotes and begins with a folder of the repository's
//! root. A path with a placeholder or a wildcard does not count. A Rust file may also be named
//! without its folder, and then some source file must have the name. Tested below.

use std::{collections::HashSet, path::Path};

use crate::error::Result;
use crate::source::{files_below, has_extension, read};

/// Folders of the root whose files are named in text.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "xtask/", "fuzz/", "deploy/"];

/// Folders that running the project makes, and a page in an example.
const NOT_IN_GIT: [&str; 2] = ["fuzz/failures", "docs/index.html"];

/// Looks at every comment and page below `root`.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let files = files_below(root, |path| has_extension(path, &["rs", "md"]))?;
    let names: HashSet<String> =
        files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect();
    for file in files {
        let is_page = has_extension(&file, &["md"]);
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let folder = file.parent().unwrap_or(root);
        for (index, line) in read(&file)?.lines().enumerate() {
            let is_text = is_page || line.trim_start().starts_with("//");
            let missing_paths = paths(line).filter(|path| is_text && !root.join(path).exists());
            let missing_names = rust_files(line).filter(|name| is_text && !names.contains(*name));
            let missing_links = links(line).filter(|link| is_page && !folder.join(link).exists());
            let number = index + 1;
            findings.extend(
                missing_paths
                    .chain(missing_names)
                    .chain(missing_links)
                    .map(|path| format!("{shown}:{number}: {path} does not exist")),
            );
        }
    }
    Ok(findings)
}

/// Paths between backquotes in `line`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| {
        FOLDERS.iter().any(|folder| text.starts_with(folder))
            && !NOT_IN_GIT.contains(text)
            && !text.contains([' ', '*', '{', '<', '…', ':', '#'])
            // `x/NAME.rs` stands for many files.
            && !text.split(['/', '.']).any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()))
    })
}

/// Names of Rust files between backquotes in `line`, without their folders.
fn rust_files(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted
        .filter(|text| text.ends_with(".rs") && !text.contains([' ', '*', '{', '<', '…', ':', '#']))
        .filter_map(|text| text.rsplit('/').next())
        .filter(|name| {
            name.len() > "a.rs".len() && !name.trim_end_matches(".rs").chars().all(|c| c.is_ascii_uppercase())
        })
}

/// Targets of Markdown links in `line` that are files of this repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '/']) && !target.contains(' '))
        .filter_map(|target| target.split('#').next())
        .filter(|target| target.contains('.') && !target.contains(['`', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_between_backquotes() {
        let line = "see `crates/http/src/lib.rs`, crates/x, `crates/*/src` and `docs/NAME.md`, `cargo test`";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["crates/http/src/lib.rs"]);
    }

    #[test]
    fn rust_files_are_named_with_and_without_folder() {
        let line = "`token.rs`, `a/b/color.rs`, `NAME.rs`, `a.rs`, x.rs and `mod y`";
        assert_eq!(rust_files(line).collect::<Vec<_>>(), ["token.rs", "color.rs"]);
    }

    #[test]
    fn links_lead_to_files() {
        let line = "[a](a.md#part), [b](https://example.org/b.md), [c](#c) and [d](../d.md)";
        assert_eq!(links(line).collect::<Vec<_>>(), ["a.md", "../d.md"]);
    }
}
