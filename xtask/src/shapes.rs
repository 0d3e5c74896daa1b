//! Long functions and wide structs, counted in each crate and compared with a table that only
//! shrinks.
//!
//! A function over [`LINES_MAX`] lines does several things, and a struct over [`FIELDS_MAX`] fields
//! has several jobs. The table "Long functions and wide structs that are left" in
//! docs/architecture.md names the numbers of each crate. Tests may be longer. Tested below.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::source::{files_below, has_extension, is_test_file, production, read};

/// Lines of a function, from its name to its closing brace.
const LINES_MAX: usize = 70;

/// Named fields of a struct.
const FIELDS_MAX: usize = 12;

/// Files with structs that have one field for each key of the configuration, or for each field of
/// the status. Users decide about their number, so these structs do not count.
const KEYS_OF_USERS: [&str; 2] = ["file/keys.rs", "status/records.rs"];

/// The first words of the table's head.
const TABLE: &str = "| crate | functions over 70 lines | structs over 12 fields |";

/// The functions and structs of a crate that are too large, each with its place and its size.
#[derive(Debug, Default, PartialEq, Eq)]
struct LargeItems {
    functions: Vec<String>,
    structs: Vec<String>,
}

/// Compares the crates below `root` with the table in `page`.
///
/// # Errors
/// A file cannot be read, or a row of the table is malformed.
pub(crate) fn find(root: &Path, page: &str) -> Result<Vec<String>> {
    let allowed = parse_table(page)?;
    let mut findings = Vec::new();
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(Error::path("read", &crates))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.push(root.join("xtask"));
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join("src").is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = folder.join("src");
        let mut found = LargeItems::default();
        for path in files_below(&source, |path| has_extension(path, &["rs"]))? {
            let inside = path.strip_prefix(&source).unwrap_or(&path);
            if !is_test_file(inside) {
                found.add(&inside.display().to_string(), &production(&read(&path)?));
            }
        }
        let (functions, structs) = allowed.get(&name).copied().unwrap_or_default();
        findings.extend(compare(&name, "functions over 70 lines", &found.functions, functions));
        findings.extend(compare(&name, "structs over 12 fields", &found.structs, structs));
    }
    Ok(findings)
}

fn compare(name: &str, kind: &str, found: &[String], allowed: usize) -> Option<String> {
    let is = found.len();
    if is > allowed {
        let places = found.join(", ");
        Some(format!("{name}: {is} {kind}, {allowed} are allowed: {places}"))
    } else if is < allowed {
        Some(format!("docs/architecture.md: {name} has {is} {kind}: lower {allowed} in the table"))
    } else {
        None
    }
}

fn parse_table(page: &str) -> Result<BTreeMap<String, (usize, usize)>> {
    let rows = page.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
    let mut table = BTreeMap::new();
    for line in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse().ok());
        let (Some(name), Some(functions), Some(structs)) = (cells.first(), number(1), number(2)) else {
            return Err(Error::form("docs/architecture.md", format!("not a row of large items: {line}")));
        };
        table.insert(name.trim_matches('`').to_owned(), (functions, structs));
    }
    Ok(table)
}

impl LargeItems {
    /// Adds the large items of `code`, which has no comments, literals and tests.
    fn add(&mut self, file: &str, code: &str) {
        for (name, rest) in items(code, "fn ") {
            if let Some((start, body)) = body(rest, '{') {
                let lines = rest[..start + body.len()].matches('\n').count() + 1;
                if lines > LINES_MAX {
                    self.functions.push(format!("{file} {name} ({lines})"));
                }
            }
        }
        for (name, rest) in items(code, "struct ") {
            if let Some((_, body)) = body(rest, '{') {
                let fields = fields(body);
                if fields > FIELDS_MAX && !KEYS_OF_USERS.contains(&file) {
                    self.structs.push(format!("{file} {name} ({fields})"));
                }
            }
        }
    }
}

/// The items that `keyword` begins: the name, and the code from the name on.
fn items<'a>(code: &'a str, keyword: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let starts = code.match_indices(keyword).map(|(at, keyword)| (at, at + keyword.len()));
    let is_word = |(at, _): &(usize, usize)| {
        !code[..*at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    };
    starts.filter(is_word).map(|(_, at)| {
        let rest = &code[at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (&rest[..end], rest)
    })
}

/// The block in braces that an item has, with the place of the block. `None` if the item ends
/// before, as a declaration or a tuple struct does.
fn body(rest: &str, open: char) -> Option<(usize, &str)> {
    let mut depth = 0_usize;
    let mut start = None;
    for (at, c) in rest.char_indices() {
        match c {
            ';' if depth == 0 => return None,
            c if c == open && depth == 0 => {
                start = Some(at);
                depth = 1;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(start) = start
            && depth == 0
        {
            return Some((start, &rest[start..=at]));
        }
    }
    None
}

/// The number of named fields in the body of a struct: the colons that are in no inner bracket and
/// in no path.
fn fields(body: &str) -> usize {
    let (mut depth, mut angles, mut count) = (0_usize, 0_usize, 0);
    let bytes = body.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'<' => angles += 1,
            b'>' if before != Some(b'-') => angles = angles.saturating_sub(1),
            b':' if depth == 1 && angles == 0 => {
                let is_path = before == Some(b':') || bytes.get(at + 1) == Some(&b':');
                count += usize::from(!is_path);
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(code: &str) -> LargeItems {
        let mut found = LargeItems::default();
        found.add("a.rs", code);
        found
    }

    #[test]
    fn check_counts_lines_of_functions() {
        let function = |lines: usize| format!("fn f(x: [u8; 2]) {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        assert_eq!(found_in(&function(70)), LargeItems::default());
        assert_eq!(found_in(&function(71)).functions, ["a.rs f (71)"]);
        assert_eq!(found_in("fn f(x: [u8; 2]);\n"), LargeItems::default());
    }

    #[test]
    fn check_counts_named_fields_of_structs() {
        let fields = |count: usize| "    a: Map<u8, fn(std::io::Error) -> u8>,\n".repeat(count);
        let of = |count: usize| found_in(&format!("struct S<T: Clone> {{\n{}}}\n", fields(count))).structs;
        assert_eq!(of(12), Vec::<String>::new());
        assert_eq!(of(13), ["a.rs S (13)"]);
        let mut keys = LargeItems::default();
        keys.add(KEYS_OF_USERS[0], &format!("struct S {{\n{}}}\n", fields(13)));
        assert_eq!(keys.structs.len(), 0);
        assert_eq!(found_in("struct S(u8);\nstruct T;\n"), LargeItems::default());
    }

    #[test]
    fn table_must_follow_smaller_numbers() {
        let page = format!("{TABLE}\n| --- | --- | --- |\n| `a` | 1 | 2 |\n");
        assert_eq!(parse_table(&page).unwrap()["a"], (1, 2));
        assert!(compare("a", "functions over 70 lines", &[], 1).unwrap().contains("lower 1"));
        let found = ["a.rs f (71)".to_owned(), "a.rs g (72)".to_owned()];
        let said = compare("a", "functions over 70 lines", &found, 1).unwrap();
        assert!(
            said.contains("2 functions over 70 lines, 1 are allowed: a.rs f (71), a.rs g (72)"),
            "{said}"
        );
    }
}
