//! The constants whose value has no reason, counted against a ceiling.
//!
//! A comment of a tuning constant names the bench that measured the value, the fact that the value
//! follows from, or the limit that the value sets. A constant without such a reason carries the
//! word that [`WORD`] holds, and is a debt. Tested below.

use std::path::Path;

use crate::error::Result;
use crate::source::{files_below, has_extension, read};

/// The mark of a value without a reason, also within a sentence behind an article.
const WORD: &str = concat!("Gu", "ess");

/// The allowed number of marks. Lower the number when fewer are left.
const GUESSES_MAX: usize = 18;

/// Compares the marks in the crates below `root` with [`GUESSES_MAX`].
///
/// # Errors
/// A file cannot be read.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut places = Vec::new();
    for folder in ["crates", "xtask"] {
        for path in files_below(&root.join(folder), |path| has_extension(path, &["rs"]))? {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            places.extend(marks(&file, &read(&path)?));
        }
    }
    Ok(judge(&places, GUESSES_MAX))
}

/// The lines of `text` with a mark.
fn marks<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let within = format!(" a {}", WORD.to_lowercase());
    let has_mark = move |line: &str| {
        let comment = line.split_once("//").map(|(_, comment)| comment);
        comment.is_some_and(|text| text.contains(WORD) || text.to_lowercase().contains(&within))
    };
    let lines = text.lines().zip(1..).filter(move |(line, _)| has_mark(line));
    lines.map(move |(_, number)| format!("{file}:{number}"))
}

fn judge(places: &[String], ceiling: usize) -> Vec<String> {
    if places.len() <= ceiling {
        return Vec::new();
    }
    let (is, places) = (places.len(), places.join(", "));
    vec![format!(
        "{is} constants are guesses, {ceiling} are allowed: measure one and name the bench, or name the fact that its \
         value follows from: {places}"
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_comment_counts_and_code_does_not() {
        let lower = WORD.to_lowercase();
        let text = format!("/// {WORD}: some.\nconst A: u8 = 1; // Default 8, a {lower}.\nlet {WORD} = 2;\n");
        assert_eq!(marks("a.rs", &text).collect::<Vec<_>>(), ["a.rs:1", "a.rs:2"]);
    }

    #[test]
    fn guess_above_ceiling_is_refused() {
        let places = ["a.rs:1".to_owned(), "b.rs:2".to_owned()];
        assert!(judge(&places, 2).is_empty());
        let found = judge(&places, 1).concat();
        assert!(found.contains("2 constants") && found.contains("b.rs:2"), "{found}");
    }
}
