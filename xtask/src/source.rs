//! The project's files: lists them, and strips Rust code of comments and literals.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Every file below `folder` that `wanted` accepts, sorted; without hidden and built files.
pub(crate) fn files_below(folder: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::path("read", &folder))?.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let hidden = name.to_string_lossy().starts_with('.') || name == "target";
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !hidden => folders.push(path),
                Ok(kind) if kind.is_file() && wanted(&path) => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Whether `path` has one of the extensions.
pub(crate) fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|extension| extensions.iter().any(|&one| extension == one))
}

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::path("read", path))
}

/// Whether `word` occurs in `text` with no letter, digit or underscore beside it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

/// Whether the file at this path inside a source folder holds tests.
pub(crate) fn is_test_file(inside: &Path) -> bool {
    inside.iter().any(|part| part == "tests" || part == "tests.rs" || part == "bin")
}

/// The code of a file without comments, literals and the tests at its end.
pub(crate) fn production(rust: &str) -> String {
    let code = code_only(rust);
    // `mod tests;` near the top of a file names a file of tests, and the production code follows.
    let starts = code.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    let mut inline =
        starts.filter(|&at| code[at..].find(['{', ';']).is_some_and(|end| code[at + end..].starts_with('{')));
    code[..inline.next().unwrap_or(code.len())].to_owned()
}

/// `rust` without comments and without the contents of string, byte and character literals; lines
/// keep their numbers.
pub(crate) fn code_only(rust: &str) -> String {
    let mut code = String::with_capacity(rust.len());
    let mut rest = rust;
    while let Some(first) = rest.chars().next() {
        let skipped = literal_or_comment(rest, code.chars().next_back());
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// The number of bytes of a comment or literal at the start of `rest`; 0 if there is neither.
fn literal_or_comment(rest: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        block_comment(rest)
    } else if rest.starts_with('"') {
        quoted(rest, '"')
    } else if rest.starts_with('\'') {
        character(rest)
    } else if !in_word
        && ["r\"", "r#", "br\"", "br#", "cr\"", "cr#"].iter().any(|start| rest.starts_with(start))
    {
        raw_string(rest)
    } else {
        0
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// A character literal, distinguished from a lifetime by the closing quote.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    let inside = chars.next().map(|(_, c)| c);
    match (inside, chars.next()) {
        (Some('\\'), _) => quoted(rest, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

fn raw_string(rest: &str) -> usize {
    let Some(start) = rest.find(['"', '#']) else { return 0 };
    let hashes = rest[start..].bytes().take_while(|&byte| byte == b'#').count();
    let open = start + hashes;
    // `r#name` is an identifier.
    if rest.as_bytes().get(open) != Some(&b'"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        for hidden in [
            "// word",
            "/* a /* word */ word */",
            "\"word \\\" word\"",
            "r#\"word \" word\"#",
            "b\"word\"",
            "/// word",
            "br\"word\"",
        ] {
            let code = code_only(&format!("a {hidden}\nb"));
            assert!(!code.contains("word"), "{hidden}: {code}");
            assert!(code.starts_with("a ") && code.ends_with("\nb"), "{hidden}: {code}");
        }
    }

    #[test]
    fn code_stays() {
        for code in ["fn f<'a>(x: &'a str) {}", "let r#type = 1;", "let x = y / z;", "'a: loop { break 'a; }"]
        {
            assert_eq!(code_only(code), code);
        }
    }

    #[test]
    fn quotes_in_character_literals_open_nothing() {
        assert_eq!(code_only(r#"('"', '\'', 'x') word"#), "(   ,     ,    ) word");
    }

    #[test]
    fn words_end_where_names_end() {
        assert!(has_word("a mark: b", "mark"));
        assert!(!has_word("bookmark marks _mark", "mark"));
    }
}
