//! The table of invariants in `docs/runtime.md` names tests: each must exist.

use std::path::Path;

use crate::error::{Error, Result};
use crate::source::{files_below, has_extension, read};

const HEADING: &str = "## Invariants\n";

/// The errors in the table of the repository at `root`.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let page = read(&root.join("docs/runtime.md"))?;
    let names = names(&page);
    if names.is_empty() {
        return Err(Error::form("docs/runtime.md", "no table of invariants"));
    }
    let mut sources = String::new();
    for path in files_below(&root.join("crates"), |path| has_extension(path, &["rs"]))? {
        sources.push_str(&read(&path)?);
    }
    let is_missing = |name: &&str| !sources.contains(&format!("fn {name}("));
    let missing = names.into_iter().filter(is_missing);
    Ok(missing.map(|name| format!("docs/runtime.md: there is no test called {name}")).collect())
}

/// The code-marked names in the table's last column.
fn names(page: &str) -> Vec<&str> {
    let Some((_, section)) = page.split_once(HEADING) else { return Vec::new() };
    let rows = section.split("\n## ").next().unwrap_or(section).lines();
    let cells = rows.filter_map(|row| row.strip_prefix("| I")?.rsplit('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_the_last_column_only() {
        let page = "## Invariants\n\n`no`\n\n| | rule | checked by |\n| I1 | `no` | `one`, `two`, and more |\n\n## `no`\n";
        assert_eq!(names(page), ["one", "two"]);
    }
}
