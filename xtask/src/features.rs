//! The features of the crates that xtask is made of, compared with those of the tests.
//!
//! A test may turn on a feature of a crate that xtask also needs. If xtask lacks that feature,
//! cargo builds the crate and all its dependents twice: once for xtask and once for the tests.
//! Therefore `xtask/Cargo.toml` names these features. Tested below.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::steps;
use crate::workspace::cargo;

/// The features of each crate. Cargo resolves the crates of build scripts and macros apart, so a
/// crate may have several sets.
type FeatureSets = BTreeMap<String, Vec<String>>;

/// Compares the crates of xtask with those of the tests, for this machine.
///
/// # Errors
/// Cargo could not resolve the workspace.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let xtask = tree(root, &["--package", "xtask", "--edges", "normal,build"])?;
    let tests = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
    Ok(differences(&parse(&xtask), &parse(&tests)))
}

fn tree(root: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = cargo();
    command.args(["tree", "--prefix", "none", "--format", "{p}|{f}"]).args(arguments).current_dir(root);
    let output = command.output().map_err(Error::path("run", Path::new("cargo")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        Err(steps::failure(&command, output.status))
    }
}

/// Reads lines such as `syn v3.0.9|derive,full`.
fn parse(tree: &str) -> FeatureSets {
    let mut sets = FeatureSets::new();
    for line in tree.lines() {
        // Cargo marks the second mention of a crate.
        let line = line.trim_end_matches(" (*)");
        let Some((package, features)) = line.split_once('|') else { continue };
        let of_package = sets.entry(package.to_owned()).or_default();
        if !of_package.iter().any(|known| known == features) {
            of_package.push(features.to_owned());
        }
    }
    sets
}

fn differences(xtask: &FeatureSets, tests: &FeatureSets) -> Vec<String> {
    let mut findings = Vec::new();
    for (package, sets) in xtask {
        let Some(of_tests) = tests.get(package) else { continue };
        for features in sets.iter().filter(|features| !of_tests.contains(features)) {
            findings.push(format!(
                "xtask/Cargo.toml: {package} is built once for xtask with the features \"{features}\", and once more for \
                 the tests with \"{}\"; name the missing features",
                of_tests.join("\" and \"")
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_that_tests_add_is_found() {
        let xtask = parse("xtask v0.1.0 (/x)|\nsyn v3.0.9|derive\nlibc v0.2.1|std\nlibc v0.2.1|std (*)\n");
        let same = parse("syn v3.0.9|derive\nredis v1.8.1|aio\nlibc v0.2.1|extra\nlibc v0.2.1|std (*)\n");
        assert_eq!(differences(&xtask, &same), Vec::<String>::new());
        let more = parse("syn v3.0.9|derive,visit\nlibc v0.2.1|std\n");
        let found = differences(&xtask, &more);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("syn v3.0.9") && found[0].contains("\"derive,visit\""), "{found:?}");
    }
}
