//! Wrong values of every key, from the definitions of the keys: a key without a refusal fails the
//! test. The messages are in `every_key.txt`, for reading and for comparison.

use super::super::describe::{KeyDoc, TableDoc, ValueKind};
use super::super::values::Size;
use super::*;
use std::fmt::Write as _;

/// The messages for the wrong values.
const MESSAGES: &str = include_str!("every_key.txt");

#[test]
fn wrong_values_of_each_key_are_refused() {
    let tables = described_tables();
    let mut messages = String::new();
    for table in &tables {
        for key in &table.keys {
            for value in wrong_values(key) {
                let place = format!("{}.{}", table.heading.trim_matches(['[', ']']), key.key);
                let place = place.trim_start_matches('.');
                let text = format!("{}{} = {value}\n", headers(table, &tables), key.key);
                let line = text.lines().count();
                let found = problems(&text).into_iter().find_map(|problem| {
                    let (at, what) = problem.split_once(&format!(": {place}"))?;
                    assert!(at.starts_with(&format!("v.toml:{line}:")), "{text}{problem}");
                    Some(what.trim_start_matches(": ").to_owned())
                });
                let what = found.unwrap_or_else(|| panic!("not refused:\n{text}{:?}", problems(&text)));
                let _infallible = writeln!(messages, "{place} = {value}: {what}");
            }
        }
    }
    // The committed file is the expectation; a test that wrote the file could not fail.
    assert!(messages == MESSAGES, "every_key.txt should be:\n{messages}");
}

/// The lines that begin a table, with the tables around it.
fn headers(table: &TableDoc, tables: &[TableDoc]) -> String {
    let path = table.heading.trim_matches(['[', ']']);
    let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
    let prefixes = ends.map(|end| &path[..end]).filter(|prefix| !prefix.is_empty());
    let known = prefixes.filter_map(|prefix| {
        tables.iter().map(|table| &table.heading).find(|heading| heading.trim_matches(['[', ']']) == prefix)
    });
    known.map(|heading| format!("{heading}\n")).collect()
}

/// Values of a wrong kind, a word that is no choice, and numbers next to the bounds.
fn wrong_values(key: &KeyDoc) -> Vec<String> {
    let quoted = |text: &str| format!("\"{text}\"");
    let mut values = vec![match &key.kind {
        ValueKind::Flag => quoted("yes"),
        ValueKind::Number => quoted("many"),
        ValueKind::FlagOrTable
        | ValueKind::Table
        | ValueKind::Map(_)
        | ValueKind::DottedMap
        | ValueKind::List(_)
        | ValueKind::OneOrMore(_) => "7".to_owned(),
        _ => "true".to_owned(),
    }];
    values.extend(match &key.kind {
        ValueKind::Words(_) => Some(quoted("wrong")),
        ValueKind::Size | ValueKind::Time | ValueKind::Address => Some(quoted("1x")),
        ValueKind::Number => Some("-1".to_owned()),
        _ => None,
    });
    let Some((least, most)) = &key.bounds else { return values };
    let amount = |text: &String| match &key.kind {
        ValueKind::Size => text.parse::<Size>().ok().map(|size| size.bytes),
        _ => text.parse().ok(),
    };
    values.extend(amount(least).and_then(|least: u64| least.checked_sub(1)).map(|below| below.to_string()));
    values.extend(amount(most).and_then(|most: u64| most.checked_add(1)).map(|above| above.to_string()));
    values
}
