//! The architecture page read as a rule: its table of crates is compared with what cargo and the
//! sources say.
//!
//! Members and table rows are the same set; every dependency between our crates, of any kind, is a
//! name under "may import"; unsafe code stands only in crates with "yes". The page is the input, so
//! it cannot drift. The other rules of the text and the house are reported together with these:
//! overlong files and leftovers (`leftovers.rs`), lock-free files without a page (`protocols.rs`),
//! import cycles between modules (`modules.rs`), long functions and wide structs (`shapes.rs`),
//! paths that do not exist (`named_paths.rs`), types that share a name (`type_names.rs`),
//! measured tables without a commit (`measured.rs`), crates that are built twice (`features.rs`)
//! and the language (`prose.rs`).

use std::path::Path;

use crate::error::{Error, Result};
use crate::source::{code_only, files_below, has_extension, has_word, read};
use crate::workspace::{CargoPackage, Workspace};
use crate::{
    features, guesses, invariants, leftovers, measured, modules, named_paths, prose, protocols, shapes,
    type_names, unused,
};

/// Checks the workspace.
///
/// # Errors
/// Every finding, when there are any.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let page = read(&workspace.root.join("docs/architecture.md"))?;
    let rules = parse_table(&page)?;
    let mut findings = unlisted(&workspace, &rules);
    for package in &workspace.packages {
        if let Some(rule) = rules.iter().find(|rule| rule.package == package.name) {
            findings.extend(forbidden_imports(&workspace, package, rule));
            if !rule.may_be_unsafe {
                findings.extend(forbidden_unsafe(&workspace, package)?);
            }
        }
    }
    findings.extend(leftovers::find(&workspace.root, &page)?);
    findings.extend(invariants::find(&workspace.root)?);
    findings.extend(protocols::find(&workspace.root)?);
    findings.extend(modules::find(&workspace.root, &page)?);
    findings.extend(shapes::find(&workspace.root, &page)?);
    findings.extend(guesses::find(&workspace.root)?);
    findings.extend(named_paths::find(&workspace.root)?);
    findings.extend(measured::find(&workspace.root)?);
    findings.extend(prose::find(&workspace.root)?);
    findings.extend(unused::find(&workspace.root)?);
    findings.extend(type_names::find(&workspace.root)?);
    findings.extend(features::find(&workspace.root)?);
    Error::unless_empty(findings)
}

/// The table's row of a crate.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    package: String,
    folder: String,
    imports: AllowedImports,
    may_be_unsafe: bool,
}

/// The allowed imports of a crate.
#[derive(Debug, PartialEq, Eq)]
enum AllowedImports {
    All,
    /// The last parts of the folders' names.
    Only(Vec<String>),
}

/// Reads the table of crates: crate, folder, description, may import, unsafe, must never.
fn parse_table(page: &str) -> Result<Vec<Rule>> {
    let malformed =
        |line: &str| Error::form("docs/architecture.md", format!("not a row of the crate table: {line}"));
    let mut rules = Vec::new();
    for line in page.lines().skip_while(|line| !line.starts_with("| crate | folder |")).skip(2) {
        let Some(row) = line.strip_prefix('|') else { break };
        let cells: Vec<&str> = row
            .trim_end()
            .trim_end_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        let [package, folder, _what, imports, unsafe_code, _never] = cells[..] else {
            return Err(malformed(line));
        };
        let imports = match imports {
            "all" => AllowedImports::All,
            "–" => AllowedImports::Only(Vec::new()),
            names => AllowedImports::Only(names.split(',').map(|name| name.trim().into()).collect()),
        };
        let may_be_unsafe = match unsafe_code {
            "yes" => true,
            "no" => false,
            _ => return Err(malformed(line)),
        };
        rules.push(Rule { package: package.into(), folder: folder.into(), imports, may_be_unsafe });
    }
    if rules.is_empty() { Err(Error::form("docs/architecture.md", "no crate table")) } else { Ok(rules) }
}

fn unlisted(workspace: &Workspace, rules: &[Rule]) -> Vec<String> {
    let is_rule_of = |rule: &Rule, package: &CargoPackage| {
        rule.package == package.name && rule.folder == workspace.folder_of(package)
    };
    let missing =
        workspace.packages.iter().filter(|package| !rules.iter().any(|rule| is_rule_of(rule, package)));
    let gone =
        rules.iter().filter(|rule| !workspace.packages.iter().any(|package| is_rule_of(rule, package)));
    let missing = missing.map(|package| {
        format!(
            "{} in {} is not in the table of docs/architecture.md",
            package.name,
            workspace.folder_of(package)
        )
    });
    let gone = gone.map(|rule| {
        format!(
            "docs/architecture.md lists {} in {}, which is no member of the workspace",
            rule.package, rule.folder
        )
    });
    missing.chain(gone).collect()
}

fn forbidden_imports(workspace: &Workspace, package: &CargoPackage, rule: &Rule) -> Vec<String> {
    let AllowedImports::Only(allowed) = &rule.imports else { return Vec::new() };
    let folder_name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ours =
        package.dependencies.iter().filter_map(|dependency| Some((dependency, dependency.path.as_deref()?)));
    let inside = ours.filter(|(_, path)| path.starts_with(&workspace.root));
    let forbidden = inside.filter(|(_, path)| !allowed.contains(&folder_name(path)));
    forbidden
        .map(|(dependency, path)| {
            format!(
                "{} imports {}: docs/architecture.md does not list {} under \"may import\" of {}",
                package.name,
                dependency.name,
                folder_name(path),
                package.name
            )
        })
        .collect()
}

fn forbidden_unsafe(workspace: &Workspace, package: &CargoPackage) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let shown = |path: &Path| path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string();
    let manifest = read(&package.manifest_path)?;
    if !manifest.contains("[lints]\nworkspace = true") {
        findings.push(format!("{} does not take the workspace's lints", shown(&package.manifest_path)));
    }
    let folder = package.manifest_path.parent().unwrap_or(&workspace.root);
    for path in files_below(folder, |path| has_extension(path, &["rs"]))? {
        if is_unsafe(&read(&path)?) {
            findings.push(format!(
                "{} has unsafe code; docs/architecture.md says {} has none",
                shown(&path),
                package.name
            ));
        }
    }
    Ok(findings)
}

fn is_unsafe(rust: &str) -> bool {
    let code: String = code_only(rust).split_whitespace().collect::<Vec<_>>().join(" ");
    has_word(&code, "unsafe")
        || ["allow(unsafe_code", "expect(unsafe_code", "warn(unsafe_code"]
            .iter()
            .any(|lint| code.contains(lint))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::Dependency;

    const PAGE: &str = "text\n\n| crate | folder | what it is | may import | unsafe | must never |\n\
        | --- | --- | --- | --- | --- | --- |\n\
        | `v-a` | `crates/a` | a | – | yes | know |\n\
        | `v-b` | `crates/b` | b | a | no | know |\n\
        | `v-c` | `crates/c` | c | all | no | know |\n\nmore | text\n";

    fn package(name: &str, imports: &[&str]) -> CargoPackage {
        let root = PathBuf::from("/w/crates");
        let dependency =
            |import: &&str| Dependency { name: format!("v-{import}"), path: Some(root.join(import)) };
        CargoPackage {
            name: format!("v-{name}"),
            manifest_path: root.join(name).join("Cargo.toml"),
            dependencies: imports.iter().map(dependency).collect(),
        }
    }

    fn workspace(packages: Vec<CargoPackage>) -> Workspace {
        Workspace { root: "/w".into(), target: "/w/target".into(), packages }
    }

    #[test]
    fn the_table_is_read() {
        let rules = parse_table(PAGE).expect("a table");
        let imports: Vec<&AllowedImports> = rules.iter().map(|rule| &rule.imports).collect();
        assert_eq!(
            imports,
            [&AllowedImports::Only(vec![]), &AllowedImports::Only(vec!["a".into()]), &AllowedImports::All]
        );
        assert_eq!(rules.iter().map(|rule| rule.may_be_unsafe).collect::<Vec<_>>(), [true, false, false]);
        assert!(parse_table("no table").is_err());
        assert!(parse_table(&PAGE.replace("| no |", "| maybe |")).is_err());
    }

    #[test]
    fn table_and_members_are_the_same_set() {
        let rules = parse_table(PAGE).expect("a table");
        let all = ["a", "b", "c"].map(|name| package(name, &[]));
        assert_eq!(unlisted(&workspace(all.into()), &rules), Vec::<String>::new());
        let found =
            unlisted(&workspace(vec![package("a", &[]), package("b", &[]), package("d", &[])]), &rules);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("v-d in crates/d is not in the table"));
        assert!(found[1].contains("lists v-c"));
    }

    #[test]
    fn only_listed_imports_of_any_kind_pass() {
        let rules = parse_table(PAGE).expect("a table");
        let check = |name: &str, imports: &[&str], rule: usize| {
            let package = package(name, imports);
            forbidden_imports(&workspace(Vec::new()), &package, &rules[rule]).len()
        };
        assert_eq!(check("a", &["b"], 0), 1);
        assert_eq!(check("b", &["a"], 1), 0);
        assert_eq!(check("b", &["a", "c"], 1), 1);
        assert_eq!(check("c", &["a", "b"], 2), 0);
    }

    #[test]
    fn unsafe_is_seen_in_code_and_not_in_words_about_it() {
        for rust in [
            "unsafe { x() }",
            "unsafe fn f() {}",
            "unsafe impl Send for X {}",
            "#![allow(unsafe_code)]",
            "#[allow(unsafe_code)]",
        ] {
            assert!(is_unsafe(rust), "{rust}");
        }
        for rust in ["// unsafe", "let x = \"unsafe\";", "#![forbid(unsafe_code)]", "fn unsafe_looking() {}"]
        {
            assert!(!is_unsafe(rust), "{rust}");
        }
    }

    #[test]
    fn this_workspace_keeps_its_rules() {
        if let Err(error) = run() {
            panic!("{error}");
        }
    }
}
