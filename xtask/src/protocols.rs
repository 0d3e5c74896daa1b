//! The pages beside lock-free files: every file of `crates/queue` with atomics has a page, and
//! every file that a page names exists.
//!
//! A page belongs to the files in its first line. People judge the contents of a page. Tested
//! below.

use std::path::Path;

use crate::error::Result;
use crate::source::{code_only, files_below, has_extension, read};

/// The crate that owns the lock-free protocols.
const OWNER: &str = "crates/queue/src";

/// Files of that crate with atomics and without a protocol: re-exports, or tests.
const WITHOUT: [&str; 2] = ["sync.rs", "shuttle_tests.rs"];

/// The errors in the pages beside the sources of the project at `root`.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let is_page = |path: &Path| has_extension(path, &["md"]) && is_at_top(path);
    let pages = files_below(&root.join("crates"), is_page)?;
    let names: Vec<_> = pages.iter().map(|page| name(page)).collect();
    let (mut findings, mut titles) = (Vec::new(), String::new());
    for page in &pages {
        let text = read(page)?;
        if page.starts_with(root.join(OWNER)) {
            titles += text.lines().next().unwrap_or_default();
        }
        let shown = page.strip_prefix(root).unwrap_or(page).display();
        let missing = named_pages(&text).filter(|named| !names.iter().any(|name| name == named));
        findings.extend(missing.map(|missing| format!("{shown} names {missing}, which is not there")));
    }
    for file in files_below(&root.join(OWNER), |path| has_extension(path, &["rs"]) && is_at_top(path))? {
        let name = name(&file);
        if has_atomics(&read(&file)?)
            && !WITHOUT.contains(&name.as_str())
            && !titles.contains(&format!("`{name}`"))
        {
            findings.push(format!("{OWNER}/{name} has atomics and no page: say beside it why it is right"));
        }
    }
    Ok(findings)
}

fn is_at_top(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("src"))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn has_atomics(rust: &str) -> bool {
    let production = rust.split("#[cfg(test)]").next().unwrap_or_default();
    let code = code_only(production);
    ["AtomicBool", "AtomicU", "AtomicI", "AtomicPtr"].iter().any(|atomic| code.contains(atomic))
}

/// Pages that are named like `this.md`, without a folder.
fn named_pages(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".md") && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_of_tests_and_comments_need_no_page() {
        assert!(has_atomics("struct A(AtomicU32);"));
        assert!(!has_atomics("// an AtomicU32\nfn a() {}"));
        assert!(!has_atomics("fn a() {}\n#[cfg(test)]\nmod tests { struct A(AtomicU32); }"));
    }

    #[test]
    fn pages_are_named_without_a_folder() {
        let text = "As in `color.md`, not `a.rs`; the rest in `docs/runtime.md`.";
        assert_eq!(named_pages(text).collect::<Vec<_>>(), ["color.md"]);
    }
}
