//! Problems of a configuration, each with its place, and hints for unknown words.
//!
//! Leaves out the report (`report.rs`). Tested in `tests.rs`.

use super::describe::{TableDoc, ValueKind, heading};
use std::ops::Range;

/// Keys listed if no key is similar. The limit bounds the message, and the reference has all keys.
const KNOWN_LISTED_MAX: usize = 24;

/// Tables named for a key in the wrong table. A key of more tables is too common for a hint.
const HOMES_NAMED_MAX: usize = 4;

/// A problem at a place of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Bytes from the start of the file.
    pub(super) at: Range<usize>,
    /// The key with its tables, for example `host.root`; empty without a key.
    pub(super) key: String,
    /// The problem and the cure.
    pub(super) what: String,
}

/// The problems found so far.
#[derive(Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, at: &Range<usize>, key: &str, what: impl Into<String>) {
        self.0.push(Problem { at: at.clone(), key: key.to_owned(), what: what.into() });
    }
}

/// The hint for a key that stands in the wrong table: the tables of `tables` that have the key.
/// `None` for a key that no table has, and for a key of many tables.
pub(super) fn home(key: &str, tables: &[TableDoc]) -> Option<String> {
    let of_table = |table: &TableDoc| {
        let found = table.keys.iter().find(|known| known.key == key)?;
        let own = heading(&table.heading, key, &found.kind);
        Some(match (&found.kind, table.heading.as_str()) {
            (ValueKind::Table | ValueKind::FlagOrTable, _) => own,
            (ValueKind::List(of), _) if **of == ValueKind::Table => own,
            (_, "") => format!("`{key}` at the top of the file, before all tables"),
            (_, heading) => format!("`{key}` in {heading}"),
        })
    };
    let homes: Vec<String> = tables.iter().filter_map(of_table).collect();
    (1..=HOMES_NAMED_MAX).contains(&homes.len()).then(|| format!("write {}", homes.join(" or ")))
}

/// The hint for a word that is not in `known`.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.len() > KNOWN_LISTED_MAX => "the reference has all that are".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The entry of `known` that is most similar to `word`, if similar enough.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let distance = |other: &&str| strsim::damerau_levenshtein(&word, other);
    let near = known.iter().copied().min_by_key(distance)?;
    // A third of the letters may be wrong. With half of them, a word of four letters would have a
    // hint that shares two letters with it.
    (distance(&near) * 3 <= near.len().max(word.len())).then_some(near)
}
