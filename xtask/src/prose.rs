//! Measures the language of comments and pages, and compares the counts with ceilings that only
//! fall.
//!
//! Section "Language" of CONTRIBUTING.md explains the rules. A count cannot see a riddle, but
//! riddles use the counted words: `who` for an actor, `what` for a subject, a pronoun without a
//! near noun. `xtask/prose.toml` holds the ceilings. A count above its ceiling fails the check. A
//! change that lowers a count lowers the ceiling. Tested below.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::source::{files_below, has_extension, read};

/// The file of the ceilings, from the repository's root.
const CEILINGS: &str = "xtask/prose.toml";

/// Columns that a comment line may have.
const COMMENT_COLUMNS_MAX: usize = 100;

/// The counts of a text, per 10,000 words except the last one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct ProseCounts {
    /// The words `who`, `whoever`, `whom`.
    who: u64,
    /// The words `what`, `whatever`.
    what: u64,
    /// The words `it`, `its`, `they`, `them`, `one`, `those`.
    pronouns: u64,
    /// The words `nobody`, `somebody`, `anybody`, `everybody`.
    nobody: u64,
    /// The words `because`, `e.g.`, `for example`, `note`. This count has a floor instead of a
    /// ceiling.
    because: u64,
    /// Comment lines with more than 100 columns, in the whole tree.
    wide_lines: u64,
}

/// Compares the tree at `root` with its ceilings.
///
/// # Errors
/// A file cannot be read, or the ceilings are malformed.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let ceilings =
        toml::from_str(&read(&root.join(CEILINGS))?).map_err(|error| Error::form(CEILINGS, error))?;
    let mut text = CountedText::default();
    for path in files_below(root, |path| has_extension(path, &["rs", "md"]))? {
        let is_page = has_extension(&path, &["md"]);
        for line in read(&path)?.lines() {
            if is_page { text.add_page_line(line) } else { text.add_code_line(line) }
        }
    }
    Ok(compare(text.counts(), ceilings))
}

/// Each count with its name, its value now and its bound.
fn compare(now: ProseCounts, bound: ProseCounts) -> Vec<String> {
    let ceilings = [
        ("who", now.who, bound.who),
        ("what", now.what, bound.what),
        ("pronouns", now.pronouns, bound.pronouns),
        ("nobody", now.nobody, bound.nobody),
        ("wide_lines", now.wide_lines, bound.wide_lines),
    ];
    let mut findings = Vec::new();
    for (name, count, ceiling) in ceilings {
        if count > ceiling {
            findings.push(format!(
                "{CEILINGS}: {name} is {count}, above its ceiling of {ceiling}: rewrite the new text (CONTRIBUTING.md, Language)"
            ));
        }
    }
    if now.because < bound.because {
        findings.push(format!(
            "{CEILINGS}: because is {}, below its floor of {}: name the reasons",
            now.because, bound.because
        ));
    }
    findings
}

/// A text whose words are counted.
#[derive(Debug, Default)]
struct CountedText {
    words: u64,
    counts: ProseCounts,
    last_word_was_for: bool,
}

impl CountedText {
    /// Adds a line of Rust, of which only a comment at the line's start counts.
    fn add_code_line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        let Some(comment) = trimmed.strip_prefix("//") else { return };
        if line.chars().count() > COMMENT_COLUMNS_MAX {
            self.counts.wide_lines += 1;
        }
        self.add(comment.trim_start_matches(['/', '!']));
    }

    /// Adds a line of a page, except the fences of code blocks and the rules of tables.
    fn add_page_line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if !trimmed.starts_with("```") && !trimmed.starts_with("|---") {
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        // Text between backquotes is code and counts as a single word.
        for (index, part) in line.split('`').enumerate() {
            if index % 2 == 1 {
                self.words += 1;
                continue;
            }
            self.counts.because += part.to_lowercase().matches("e.g.").count() as u64;
            let words = part.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
            words.filter(|word| !word.is_empty()).for_each(|word| self.add_word(word));
        }
    }

    fn add_word(&mut self, word: &str) {
        self.words += 1;
        let stem = word.split('\'').next().unwrap_or_default().to_ascii_lowercase();
        let follows_for = std::mem::replace(&mut self.last_word_was_for, stem == "for");
        let counts = &mut self.counts;
        match stem.as_str() {
            "who" | "whoever" | "whom" => counts.who += 1,
            "what" | "whatever" => counts.what += 1,
            "it" | "its" | "they" | "them" | "one" | "those" => counts.pronouns += 1,
            "nobody" | "somebody" | "anybody" | "everybody" => counts.nobody += 1,
            "because" | "note" => counts.because += 1,
            "example" if follows_for => counts.because += 1,
            _ => {}
        }
    }

    /// The counts per 10,000 words.
    fn counts(&self) -> ProseCounts {
        let rate = |count: u64| (count * 10_000 + self.words / 2) / self.words.max(1);
        ProseCounts {
            who: rate(self.counts.who),
            what: rate(self.counts.what),
            pronouns: rate(self.counts.pronouns),
            nobody: rate(self.counts.nobody),
            because: rate(self.counts.because),
            wide_lines: self.counts.wide_lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(code: &str) -> ProseCounts {
        let mut text = CountedText::default();
        code.lines().for_each(|line| text.add_code_line(line));
        ProseCounts { wide_lines: text.counts.wide_lines, ..text.counts }
    }

    #[test]
    fn counting_sees_comments_and_skips_code() {
        let counts = counts_of("/// Who has it, for example `what`?\nlet who = what; // them\n");
        assert_eq!(counts, ProseCounts { who: 1, pronouns: 1, because: 1, ..ProseCounts::default() });
    }

    #[test]
    fn counting_sees_wide_comment_lines() {
        let wide = format!("    // {}\n    let {} = 1;\n", "a".repeat(100), "b".repeat(100));
        assert_eq!(counts_of(&wide).wide_lines, 1);
    }

    #[test]
    fn check_refuses_a_count_above_its_ceiling() {
        let bound = ProseCounts { who: 10, because: 5, ..ProseCounts::default() };
        let findings = compare(ProseCounts { who: 11, because: 5, ..bound }, bound);
        assert!(findings[0].contains("who is 11, above its ceiling of 10"), "{findings:?}");
    }

    #[test]
    fn check_refuses_fewer_reasons() {
        let bound = ProseCounts { because: 5, ..ProseCounts::default() };
        assert_eq!(compare(ProseCounts { because: 4, ..bound }, bound).len(), 1);
    }
}
