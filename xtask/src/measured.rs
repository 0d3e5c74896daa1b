//! Tables of measurements: the page must say which commit was measured.
//!
//! A table with a right-aligned column is a table of numbers. Between the heading of its section
//! and the table, a line says "Measured at commit HASH", or the table of a bench has a row
//! `| commit | HASH |`. A section with tables of the simulator names the command that prints the
//! tables instead. Each hash, wherever it stands, must be hexadecimal, so the hash of a changed
//! working tree (`-dirty`) is a finding. Tested below.

use std::path::Path;

use crate::error::Result;
use crate::source::{files_below, has_extension, read};

/// How a line names a commit: in a sentence, and in the table of a bench.
const MARKS: [&str; 2] = ["Measured at commit ", "| commit | "];
/// The command whose tables need no commit, because a test compares the tables with a run.
const SIMULATION: &str = "`vermeil sim reproduce";

/// Looks at every page in `docs` below `root`.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for page in files_below(&root.join("docs"), |path| has_extension(path, &["md"]))? {
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        findings.extend(of_page(&read(&page)?).map(|finding| format!("{name}:{finding}")));
    }
    Ok(findings)
}

fn of_page(text: &str) -> impl Iterator<Item = String> {
    let mut has_origin = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let number = index + 1;
        if line.starts_with("## ") {
            has_origin = false;
        }
        has_origin |= line.contains(SIMULATION);
        if let Some((_, rest)) = MARKS.iter().find_map(|mark| line.split_once(mark)) {
            has_origin = true;
            let hash = rest.split([' ', '|', ':', ';', ',']).next().unwrap_or_default();
            let hash = hash.trim_end_matches('.');
            return (!is_commit(hash))
                .then(|| format!("{number}: `{hash}` is no commit: measure a clean commit"));
        }
        let is_of_numbers = line.starts_with("| --") && line.contains("---:");
        (is_of_numbers && !has_origin)
            .then(|| format!("{number}: name the commit above the table: \"{}HASH\"", MARKS[0]))
    })
}

fn is_commit(hash: &str) -> bool {
    (8..=40).contains(&hash.len()) && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| a | b |\n| --- | ---: |\n| c | 1 |\n";

    #[test]
    fn table_of_numbers_needs_a_commit_in_its_section() {
        let found = |above: &str| of_page(&format!("{above}\n{TABLE}")).count();
        assert_eq!(found("## Numbers"), 1);
        assert_eq!(found("Measured at commit 0123456789ab:"), 0);
        assert_eq!(found("| commit | 0123456789ab |"), 0);
        assert_eq!(found("`vermeil sim reproduce x` prints it"), 0);
        assert_eq!(found("Measured at commit 0123456789ab.\n## Numbers"), 1);
        assert_eq!(of_page("| a | b |\n| --- | --- |\n").count(), 0);
    }

    #[test]
    fn changed_working_tree_is_no_commit() {
        for hash in ["0123456789ab-dirty", "unknown", "abc", ""] {
            assert_eq!(of_page(&format!("| commit | {hash} |\n{TABLE}")).count(), 1, "{hash}");
        }
        assert_eq!(of_page("Measured at commit 0123456789ab. More text").count(), 0);
    }
}
