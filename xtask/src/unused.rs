//! Public functions that no production code calls: their advice reaches no user, and their tests
//! show nothing about the product.
//!
//! Reads names, not types: a name counts as called if it stands anywhere in production code but in
//! its own definition or in a `use`. Tests, fixtures and models are no production code; examples
//! are. The runtime is published, so its functions are for other programs.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::Result;
use crate::source::{code_only, files_below, has_extension, read};

/// Functions that stay, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("with_descriptor", "the tests of the spawner wait for the end of a process by its descriptor"),
    ("reference_page", "the command line re-exports both pages under other names, for `cargo xtask docs`"),
    ("pull", "one of the four published ways to redistribute handlers, which a model compares"),
];

/// The findings.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut defined: HashMap<String, String> = HashMap::new();
    let mut called = HashSet::new();
    for folder in ["crates", "xtask"] {
        for path in files_below(&root.join(folder), |path| has_extension(path, &["rs"]))? {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if is_test(&name) {
                continue;
            }
            let code = production_code(&read(&path)?);
            for line in code.lines() {
                let function = public_function(line).filter(|_| !name.starts_with("crates/runtime/"));
                called.extend(words(line).filter(|word| Some(*word) != function).map(str::to_owned));
                if let Some(function) = function {
                    defined.entry(function.to_owned()).or_insert_with(|| name.clone());
                }
            }
        }
    }
    let is_allowed = |function: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == function);
    let unused = defined.iter().filter(|(function, _)| !called.contains(*function) && !is_allowed(function));
    let mut findings: Vec<String> = unused
        .map(|(function, file)| {
            format!("{file}: no production code calls the public function {function}; call it or remove it")
        })
        .collect();
    findings.sort();
    Ok(findings)
}

fn is_test(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    parts[..parts.len() - 1].iter().any(|folder| matches!(*folder, "tests" | "benches" | "model"))
        || matches!(parts.last(), Some(&("tests.rs" | "fixture.rs" | "model.rs")))
}

/// Without comments, literals, imports, and the tests at the end of the file.
fn production_code(rust: &str) -> String {
    let code = code_only(rust);
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    let mut kept = String::with_capacity(end);
    let mut is_import = false;
    for line in code[..end].lines() {
        let text = line.trim_start();
        is_import |= ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .any(|start| text.starts_with(start));
        if !is_import {
            kept.push_str(line);
            kept.push('\n');
        }
        is_import &= !text.trim_end().ends_with(';');
    }
    kept
}

/// The name of the public function that `line` defines.
fn public_function(line: &str) -> Option<&str> {
    let (qualifiers, rest) = line.trim_start().strip_prefix("pub ")?.split_once("fn ")?;
    let is_plain = qualifiers.split_whitespace().all(|word| matches!(word, "const" | "async" | "unsafe"));
    words(rest).next().filter(|_| is_plain)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_and_imports_are_not_calls() {
        let code = production_code(
            "use a::{\n    one,\n};\n/// one\npub const fn one() {}\npub fn two() { \"one\"; }\n#[cfg(test)]\nmod tests {\n one();\n}\n",
        );
        let functions: Vec<_> = code.lines().filter_map(public_function).collect();
        assert_eq!(functions, ["one", "two"]);
        assert_eq!(code.lines().filter(|line| words(line).any(|word| word == "one")).count(), 1);
        assert_eq!(public_function("pub(crate) fn three() {}"), None);
        assert!(
            is_test("crates/a/tests/b.rs")
                && is_test("crates/a/src/tests.rs")
                && !is_test("crates/a/src/b.rs")
        );
    }
}
