//! Types that share a name: a reader cannot tell which of these types a line means.
//!
//! Reads declarations, not uses: structs, enums, unions and traits, and aliases outside of other
//! items. Declarations of a name in the same file count once, because they are alternatives for
//! different builds. A change that lowers the number of shared names lowers the ceiling.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::Result;
use crate::source::{code_only, files_below, has_extension, read};

/// The ceiling of names that several types share.
const SHARED_MAX: usize = 0;

/// Each declared name with its files.
type Declared = BTreeMap<String, BTreeSet<String>>;

/// The shared names, if there are more than the ceiling allows.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut declared = Declared::new();
    for folder in ["crates", "xtask"] {
        for path in files_below(&root.join(folder), |path| has_extension(path, &["rs"]))? {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            declare(&file, &code_only(&read(&path)?), &mut declared);
        }
    }
    Ok(shared(&declared, SHARED_MAX))
}

fn declare(file: &str, code: &str, declared: &mut Declared) {
    for name in code.lines().filter_map(declared_type) {
        declared.entry(name.to_owned()).or_default().insert(file.to_owned());
    }
}

/// The name of the type that `line` declares.
fn declared_type(line: &str) -> Option<&str> {
    let is_nested = line.starts_with(' ');
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    let keyword = words.next()?;
    let is_type = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        // A nested alias is a type of a trait.
        "type" => !is_nested,
        _ => false,
    };
    let name = words.next().filter(|_| is_type)?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    name[..end].starts_with(|c: char| c.is_ascii_uppercase()).then(|| &name[..end])
}

fn shared(declared: &Declared, ceiling: usize) -> Vec<String> {
    let shared: Vec<_> = declared.iter().filter(|(_, files)| files.len() > 1).collect();
    if shared.len() <= ceiling {
        return Vec::new();
    }
    let finding = |(name, files): &(&String, &BTreeSet<String>)| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("{}: these types share the name {name}; name each after its subject", files.join(", "))
    };
    shared.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_types_that_share_a_name() {
        let mut declared = Declared::new();
        declare("a.rs", "pub struct Place<T>(T);\npub(crate) enum Step {\n", &mut declared);
        declare("b.rs", "    pub(super) trait Place: Send {\n", &mut declared);
        let findings = shared(&declared, 0);
        assert_eq!(findings, ["a.rs, b.rs: these types share the name Place; name each after its subject"]);
        assert_eq!(shared(&declared, 1), [""; 0], "within the ceiling");
    }

    #[test]
    fn alternatives_and_associated_types_share_no_name() {
        let mut declared = Declared::new();
        declare("a.rs", "type Entered = u8;\ntype Entered = u16;\nstruct $name;\n", &mut declared);
        declare("b.rs", "    type Entered = u32;\n    let type_of = struct_of;\n", &mut declared);
        assert_eq!(declared.len(), 1);
        assert_eq!(shared(&declared, 0), [""; 0]);
    }
}
