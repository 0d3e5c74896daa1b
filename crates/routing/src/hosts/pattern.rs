//! Patterns of paths and values: regular expressions of bounded size, which take time in proportion
//! to the text. Tested below.

use regex::bytes::{Captures, Regex, RegexBuilder};
use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

/// Longest pattern, in bytes. Each request compares its path with the patterns, so a longer list
/// belongs into routes of their own, which are found by name.
const PATTERN_BYTES_MAX: usize = 1000;

/// Memory of a compiled pattern, in bytes: a tenth of the default of the crate `regex`, because
/// many hosts may have patterns of their own.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression. Two patterns with the same text are equal.
#[derive(Clone)]
pub struct TextPattern {
    text: Box<str>,
    regex: Regex,
}

/// Why a text is no [`TextPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Too long.
    #[error("the pattern has more than {PATTERN_BYTES_MAX} bytes; write several routes")]
    Long,
    /// A small text may stand for a large pattern, such as `a{1000}{1000}`.
    #[error("the pattern needs more memory than {COMPILED_BYTES_MAX} bytes; make its repetitions smaller")]
    Large,
    /// The syntax is wrong.
    #[error("{0}")]
    Syntax(String),
}

impl TextPattern {
    /// Whether the pattern is found in `text`.
    pub fn is_found_in(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// The parts of `text` in the groups of the pattern.
    pub fn captures<'t>(&self, text: &'t [u8]) -> Option<Captures<'t>> {
        self.regex.captures(text)
    }

    /// Number of groups, the whole match included.
    pub fn groups(&self) -> usize {
        self.regex.captures_len()
    }
}

impl FromStr for TextPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::Long);
        }
        // Any byte is a character, so that no encoded byte gets around a pattern.
        let built = RegexBuilder::new(text)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build();
        match built {
            Ok(regex) => Ok(Self { text: text.into(), regex }),
            Err(regex::Error::CompiledTooBig(_)) => Err(PatternError::Large),
            Err(error) => {
                // The last line has the reason; the lines before show the place.
                let why = error.to_string();
                let last = why.lines().last().unwrap_or_default();
                Err(PatternError::Syntax(last.trim_start_matches("error: ").to_owned()))
            }
        }
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TextPattern {}

impl Hash for TextPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextPattern").field(&self.text).finish()
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pattern_is_refused_with_reason() {
        let pattern: TextPattern = "^/a/([0-9]+)$".parse().unwrap();
        assert!(pattern.is_found_in(b"/a/12") && !pattern.is_found_in(b"/a/12/"));
        let any: TextPattern = "^/a/.*[.]bak$".parse().unwrap();
        assert!(any.is_found_in(b"/a/\nx.bak") && any.is_found_in(b"/a/\xff.bak"));
        assert_eq!((pattern.groups(), pattern.to_string()), (2, "^/a/([0-9]+)$".to_owned()));
        assert_eq!("x".repeat(PATTERN_BYTES_MAX + 1).parse::<TextPattern>(), Err(PatternError::Long));
        assert_eq!("((a{100}){100}){100}".parse::<TextPattern>(), Err(PatternError::Large));
        let syntax = "a(".parse::<TextPattern>().unwrap_err().to_string();
        assert_eq!(syntax, "unclosed group");
    }
}
