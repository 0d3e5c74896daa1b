//! Things that a change must not leave behind: marks of unfinished work in code or documentation,
//! and overlong files.
//!
//! A file over the bound may be on the list of exceptions in docs/architecture.md, with a reason.
//! An unnecessary exception is a finding too, so that the list only shrinks.

use std::path::Path;

use crate::error::Result;
use crate::source::{files_below, has_extension, has_word, read};

/// Maximum number of lines of a source file; a longer file has a second subject.
const FILE_LINES_MAX: usize = 800;
/// The heading of the list of exceptions.
const EXCEPTIONS_HEADING: &str = "## Files over 800 lines";

/// The marks; spelled in two parts, so that this file contains none.
const MARKS: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Checks every source file and page below `root`; `architecture` is the page with the exceptions.
pub(crate) fn find(root: &Path, architecture: &str) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let exceptions = exceptions(architecture);
    let mut used = Vec::new();
    for path in files_below(root, |path| has_extension(path, &["rs", "md", "toml", "sh"]))? {
        let text = read(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        findings.extend(marks(&name, &text));
        let lines = text.lines().count();
        if has_extension(&path, &["rs"]) && lines > FILE_LINES_MAX {
            if exceptions.contains(&name.as_str()) {
                used.push(name);
            } else {
                findings.push(format!("{name} has {lines} lines, over {FILE_LINES_MAX}: look for the seam"));
            }
        }
    }
    let unused = exceptions.into_iter().filter(|exception| !used.iter().any(|name| name == exception));
    findings
        .extend(unused.map(|name| format!("docs/architecture.md: the exception for {name} is not needed")));
    Ok(findings)
}

fn marks(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS {
            let is_there = if mark.ends_with('!') { line.contains(mark) } else { has_word(line, mark) };
            if is_there {
                findings.push(format!("{name}:{}: {mark} is left over", index + 1));
            }
        }
    }
    findings
}

/// The files named first in each item of the list under the heading.
fn exceptions(architecture: &str) -> Vec<&str> {
    let Some((_, section)) = architecture.split_once(EXCEPTIONS_HEADING) else { return Vec::new() };
    let section = section.split("\n## ").next().unwrap_or(section);
    section.lines().filter_map(|line| line.trim().strip_prefix("- `")?.split('`').next()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_mark_is_found_with_its_line_and_parts_of_words_are_not() {
        let text = format!("fine\nlet x = {}();\n// mktemp {}\n", MARKS[0], "X".repeat(6));
        assert_eq!(marks("a.rs", &text), [format!("a.rs:2: {} is left over", MARKS[0])]);
    }

    #[test]
    fn an_overlong_file_needs_an_exception_and_an_exception_a_file() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("long.rs"), "\n".repeat(FILE_LINES_MAX + 1)).expect("written");
        fs::write(root.path().join("short.rs"), "\n").expect("written");
        let find = |page: &str| find(root.path(), page).expect("readable");
        assert_eq!(find("").len(), 1);
        assert_eq!(find("## Files over 800 lines\n\n- `long.rs`: one table\n").len(), 0);
        let found =
            find("## Files over 800 lines\n\n- `long.rs`: one table\n- `short.rs`: was long\n\n## Next\n");
        assert_eq!(found, ["docs/architecture.md: the exception for short.rs is not needed"]);
    }
}
