//! Problems of a configuration, each with its place, and hints for unknown words.
//!
//! Leaves out the report (`report.rs`). Tested in `tests.rs`.

use std::ops::Range;

/// Keys listed if no key is similar. The limit bounds the message, and the reference has all keys.
const KNOWN_LISTED_MAX: usize = 24;

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

/// The hint for a word that is not in `known`.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.len() > KNOWN_LISTED_MAX => "the reference has all that are".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The entry of `known` that is most similar to `word`, if similar enough.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let distance = |other: &&str| strsim::damerau_levenshtein(&word, other);
    let near = known.iter().copied().min_by_key(distance)?;
    // A third of the letters may be wrong. With half of them, a word of four letters would have a
    // hint that shares two letters with it.
    (distance(&near) * 3 <= near.len().max(word.len())).then_some(near)
}
