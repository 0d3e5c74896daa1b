//! Import cycles between the top-level modules of a crate, compared with a table that only shrinks.
//!
//! A module imports another one when its production code names `crate::OTHER`, a path through
//! `super` to the crate's root, or an item that `lib.rs` re-exports from the other module. Modules
//! that import each other in a circle cannot be understood one by one. The table "Import cycles
//! that are left" in docs/architecture.md names for each crate the size of its largest circle.
//! Tested below.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::{files_below, has_extension, is_test_file, production, read};

/// The first words of the table's head.
const TABLE: &str = "| crate | modules in the largest cycle |";

/// Which modules each module imports.
type ModuleImports = BTreeMap<String, BTreeSet<String>>;

/// Compares the crates below `root` with the table in `page`.
///
/// # Errors
/// A file cannot be read, or a row of the table is malformed.
pub(crate) fn find(root: &Path, page: &str) -> Result<Vec<String>> {
    let allowed = parse_table(page)?;
    let mut findings = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join("xtask")];
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(Error::path("read", &crates))?;
    folders.extend(entries.flatten().map(|entry| entry.path()));
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join("src").is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cycle = largest_cycle(&imports_of(&folder.join("src"))?);
        findings.extend(compare(&name, &cycle, allowed.get(&name).copied().unwrap_or(0)));
    }
    Ok(findings)
}

fn compare(name: &str, cycle: &[String], allowed: usize) -> Option<String> {
    if cycle.len() > allowed {
        let modules = cycle.join(", ");
        Some(format!(
            "{name}: {} modules import each other in a cycle, {allowed} are allowed: {modules}",
            cycle.len()
        ))
    } else if cycle.len() < allowed {
        let is = cycle.len();
        Some(format!(
            "docs/architecture.md: the largest cycle of {name} fell to {is}: lower {allowed} in the table"
        ))
    } else {
        None
    }
}

fn parse_table(page: &str) -> Result<BTreeMap<String, usize>> {
    let rows = page.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
    let mut table = BTreeMap::new();
    for line in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(name), Some(Ok(size))) = (cells.first(), cells.get(1).map(|size| size.parse())) else {
            return Err(Error::form("docs/architecture.md", format!("not a row of import cycles: {line}")));
        };
        table.insert(name.trim_matches('`').to_owned(), size);
    }
    Ok(table)
}

/// The imports between the top-level modules of the crate whose sources are in `source`.
fn imports_of(source: &Path) -> Result<ModuleImports> {
    let mut files = Vec::new();
    for path in files_below(source, |path| has_extension(path, &["rs"]))? {
        let inside = path.strip_prefix(source).unwrap_or(&path).to_owned();
        if !is_test_file(&inside) {
            files.push((inside, production(&read(&path)?)));
        }
    }
    Ok(imports_between(&files))
}

/// `files` are paths from the crate's source folder and their production code.
fn imports_between(files: &[(PathBuf, String)]) -> ModuleImports {
    let module_of = |path: &Path| {
        let first = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        first.strip_suffix(".rs").unwrap_or(&first).to_owned()
    };
    let is_root = |name: &str| matches!(name, "lib" | "main");
    let mut imports: ModuleImports = files
        .iter()
        .map(|(path, _)| module_of(path))
        .filter(|name| !is_root(name))
        .map(|name| (name, BTreeSet::new()))
        .collect();
    let roots = files.iter().filter(|(path, _)| is_root(&module_of(path)));
    let exports: BTreeMap<String, String> = roots.flat_map(|(_, code)| exports(code, &imports)).collect();
    for (path, code) in files {
        let module = module_of(path);
        if is_root(&module) {
            continue;
        }
        let mut named = root_paths(code, "crate");
        let is_folder = path.file_name().is_some_and(|name| name == "mod.rs");
        let depth = path.iter().count() - usize::from(is_folder);
        named.extend(root_paths(code, &vec!["super"; depth].join("::")));
        for name in named {
            let target = exports.get(&name).unwrap_or(&name);
            if *target != module && imports.contains_key(target) {
                imports.entry(module.clone()).or_default().insert(target.clone());
            }
        }
    }
    imports
}

/// The names that directly follow `prefix::` in `code`, also those of a group in braces.
fn root_paths(code: &str, prefix: &str) -> BTreeSet<String> {
    let start = format!("{prefix}::");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().next_back();
        // `super::super::x` holds `super::x`, which starts at another module.
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
            continue;
        }
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(heads(group)),
            None => names.extend(head(rest)),
        }
    }
    names
}

/// The first name of each item of a `use` group whose opening brace has been read.
fn heads(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut is_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && (c.is_alphabetic() || c == '_') => {
                names.extend(head(&group[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn head(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The items that a crate's root re-exports, with the module that each comes from.
fn exports(root: &str, modules: &ModuleImports) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in root.split(';') {
        let Some(at) = item.find("use ") else { continue };
        if !item[..at].trim_end().ends_with([')', 'b']) {
            continue;
        }
        let path = item[at + 4..].trim_start_matches("crate::").trim();
        let Some(module) = head(path).filter(|module| modules.contains_key(module)) else { continue };
        let names = path.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        found.extend(names.skip(1).map(|name| (name.to_owned(), module.clone())));
    }
    found
}

/// The largest set of modules of which each reaches each other; empty if there is no cycle.
fn largest_cycle(imports: &ModuleImports) -> Vec<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let cycles = imports.keys().map(|module| {
        let in_cycle = |other: &&&String| reached[**other].contains(module);
        reached[module].iter().filter(in_cycle).map(|other| (*other).clone()).collect::<Vec<_>>()
    });
    cycles.max_by_key(Vec::len).unwrap_or_default()
}

fn reachable<'a>(imports: &'a ModuleImports, from: &'a String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle_of(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, code)| (PathBuf::from(path), production(code))).collect();
        largest_cycle(&imports_between(&files))
    }

    #[test]
    fn layers_have_no_cycle() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "// crate::a")];
        assert_eq!(cycle_of(&files), Vec::<String>::new());
    }

    #[test]
    fn check_refuses_a_planted_cycle() {
        let files = [
            ("a.rs", "use crate::{b::{B, C}, x};"),
            ("b/mod.rs", "use super::c;"),
            ("c.rs", "fn f() { crate::a::g() }"),
        ];
        let cycle = cycle_of(&files);
        assert_eq!(cycle, ["a", "b", "c"]);
        let finding = compare("planted", &cycle, 0).expect("a cycle is a finding");
        assert!(
            finding.contains("3 modules import each other in a cycle, 0 are allowed: a, b, c"),
            "{finding}"
        );
    }

    #[test]
    fn a_re_export_leads_to_its_module() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::{A, B};"),
            ("a.rs", "use crate::b::C;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(cycle_of(&files), ["a", "b"]);
    }

    #[test]
    fn tests_may_import_all() {
        let files = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "fn f() {}\n#[cfg(test)]\nmod tests { use crate::a; }"),
            ("b/tests.rs", "use crate::a;"),
        ];
        let production =
            files.iter().filter(|(path, _)| !is_test_file(Path::new(path))).copied().collect::<Vec<_>>();
        assert_eq!(cycle_of(&production), Vec::<String>::new());
    }

    #[test]
    fn file_of_tests_named_at_the_top_hides_no_import() {
        let files = [("a.rs", "#[cfg(test)]\nmod tests;\nuse crate::b;"), ("b.rs", "use crate::a;")];
        assert_eq!(cycle_of(&files), ["a", "b"]);
    }

    #[test]
    fn super_in_a_nested_module_stays_inside() {
        let files = [("a/mod.rs", "mod b; mod c;"), ("a/b.rs", "use super::c;"), ("c.rs", "use crate::a;")];
        assert_eq!(cycle_of(&files), Vec::<String>::new());
    }

    #[test]
    fn table_must_follow_a_smaller_cycle() {
        let table =
            parse_table("| crate | modules in the largest cycle |\n| --- | --- |\n| `a` | 3 |\n").unwrap();
        assert_eq!(table["a"], 3);
        assert!(compare("a", &[], 3).unwrap().contains("fell to 0"));
    }
}
