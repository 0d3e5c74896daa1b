//! The errors of a configuration: every problem with its file, line, column, key and cure.
//!
//! Collects problems during the whole read, so one run reports all. Tested in `tests.rs`, message
//! by message.

use super::{
    problems::Problem,
    sources::{ConfigText, SourceText},
};
use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// Problems reported for a file; further problems are only counted. The limit bounds the report of
/// a file in which every line is wrong.
const PROBLEMS_TOLD: usize = 50;

/// Characters shown of a line. The limit bounds the report of a file that has a line of a megabyte.
const LINE_SHOWN_MAX: usize = 120;

/// A text without a closing quotation mark on its line. No other problem of the line, or of the
/// list around the line, is reported, because such problems are consequences.
pub(super) const UNCLOSED: &str = "this text has no quotation mark at its end; write one";

/// A configuration with errors. Shown as a block per problem, in the order of the file; the first
/// line of each begins with `FILE:LINE:COLUMN:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    located: Vec<Located>,
    total: usize,
}

/// A problem with the line and the excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Located {
    /// The included file; `None` for the file of the configuration.
    file: Option<PathBuf>,
    /// `None` for a problem of a file as a whole.
    place: Option<FilePosition>,
    key: String,
    what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FilePosition {
    /// Both from 1, the column in characters.
    line: usize,
    column: usize,
    /// The text of the line, without the line end.
    text: String,
    /// Characters to be marked.
    width: usize,
}

impl ConfigError {
    /// `file` as a whole cannot be used.
    pub(super) fn whole(file: &Path, what: String) -> Self {
        let located = vec![Located { file: None, place: None, key: String::new(), what }];
        Self { file: file.to_owned(), located, total: 1 }
    }

    /// The problems of the configuration `text` of `file`.
    pub(super) fn new(file: &Path, text: &ConfigText, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.at.start);
        problems.dedup();
        if let Some(unclosed) = problems.iter().find(|problem| problem.what == UNCLOSED).cloned() {
            let SourceText { text, start, .. } = text.source(unclosed.at.start);
            let line = text[..floor(text, unclosed.at.start - start)].rfind('\n').map_or(0, |end| end + 1);
            let after = text[line..].find('\n').map_or(text.len(), |length| line + length);
            // A list continues after the line, so the parser takes everything that follows for
            // items.
            let value = text[line..after].split_once('=').map(|(_, value)| value.trim_start());
            let end = if value.is_none_or(|value| value.starts_with('[')) { text.len() } else { after };
            problems.retain(|problem| {
                !(start + line..=start + end).contains(&problem.at.start) || *problem == unclosed
            });
        }
        let total = problems.len();
        problems.truncate(PROBLEMS_TOLD);
        let locate = |Problem { at, key, what }: Problem| {
            let source = text.source(at.start);
            let local = at.start - source.start..at.end.max(at.start) - source.start;
            let is_there = source.file.is_none_or(|file| file.text.is_ok());
            Located {
                file: source.file.map(|file| file.path.clone()),
                place: is_there.then(|| FilePosition::new(source.text, local)),
                key,
                what,
            }
        };
        Self { file: file.to_owned(), located: problems.into_iter().map(locate).collect(), total }
    }

    /// The same problems, behind those of included files that were left out before.
    pub(super) fn after(self, left_out: Vec<Self>) -> Self {
        let Self { file, located, total } = self;
        let total = total + left_out.iter().map(Self::total).sum::<usize>();
        let before = left_out.into_iter().flat_map(|error| error.located);
        Self { file, located: before.chain(located).collect(), total }
    }

    /// The problems without the excerpts, a line each.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.plain_lines().map(|line| visible(&line))
    }

    fn plain_lines(&self) -> impl Iterator<Item = String> {
        let located = self.located.iter().map(|Located { file, place, key, what }| {
            let file = file.as_ref().unwrap_or(&self.file).display();
            let place = place.as_ref().map_or_else(String::new, |at| format!("{}:{}:", at.line, at.column));
            let key = if key.is_empty() { String::new() } else { format!(" {key}:") };
            format!("{file}:{place}{key} {what}")
        });
        located.chain(self.more())
    }

    /// The line about the problems that are only counted, if there are any.
    fn more(&self) -> Option<String> {
        let more = self.total - self.located.len();
        (more > 0).then(|| format!("{}: {more} more problems", self.file.display()))
    }

    /// Writes each problem as a block.
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (index, Located { file, place, key, what }) in self.located.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", file.as_ref().unwrap_or(&self.file).display())?;
            if let Some(FilePosition { line, column, .. }) = place {
                write!(f, "{line}:{column}:")?;
            }
            if !key.is_empty() {
                write!(f, " {key}:")?;
            }
            write!(f, " {what}")?;
            if let Some(place) = place {
                place.excerpt(f)?;
            }
        }
        match self.more() {
            None => Ok(()),
            Some(more) => write!(f, "\n{more}"),
        }
    }

    /// Whether the file could not be read at all.
    pub fn is_unreadable(&self) -> bool {
        self.located.iter().all(|located| located.place.is_none())
    }

    /// How many problems there are.
    pub fn total(&self) -> usize {
        self.total
    }
}

impl FilePosition {
    fn new(text: &str, at: Range<usize>) -> Self {
        let start = floor(text, at.start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let rest = &text[line_start..];
        let line = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end_matches('\r');
        let end = floor(text, at.end.max(at.start)).min(line_start + line.len()).max(start);
        let column = text[line_start..start].chars().count() + 1;
        Self {
            line: before.matches('\n').count() + 1,
            column,
            text: line.chars().take(LINE_SHOWN_MAX).collect(),
            width: text[start..end].chars().count().max(1),
        }
    }

    /// The line, with marks below the wrong part.
    fn excerpt(&self, f: &mut impl fmt::Write) -> fmt::Result {
        if self.column > LINE_SHOWN_MAX || self.text.trim().is_empty() {
            return Ok(());
        }
        let gutter = self.line.to_string();
        let indent = " ".repeat(gutter.len());
        let lead: String =
            self.text.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let marks = "^".repeat(self.width.min(LINE_SHOWN_MAX + 1 - self.column));
        write!(f, "\n  {indent} |\n  {gutter} | {}\n  {indent} | {lead}{marks}", self.text)
    }
}

/// `text` with a mark for each control character, because such a character would command the
/// terminal of the reader.
fn visible(text: &str) -> String {
    let shown =
        |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// The last boundary of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text)?;
        f.write_str(&visible(&text))
    }
}

impl std::error::Error for ConfigError {}
