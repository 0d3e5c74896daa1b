//! Cuts a document with very many hosts into parts that are parsed one after another.
//!
//! A parsed table of three keys takes a hundred times the memory of the resulting options.
//! Therefore runs of `[[host]]` tables are parsed separately and dropped, and a hundred thousand
//! hosts need no more memory than a thousand. Cuts are at table headers as the lexer finds them, so
//! a header inside a text does not count. Tested below, and whole files in `tests.rs`.

use std::{borrow::Cow, ops::Range};
use toml_parser::{
    Source,
    lexer::{Token, TokenKind},
};

/// Hosts per part: a parsed table takes about 2 KB, so a part takes about a megabyte, however many
/// hosts a file has.
const HOSTS_AT_ONCE: usize = 512;

/// A document in parts.
pub(super) struct DocumentParts<'t> {
    /// The document with the hosts blanked out, so byte positions stay the same.
    pub(super) rest: Cow<'t, str>,
    /// Runs of `[[host]]` tables, with the tables below them.
    pub(super) hosts: Vec<Range<usize>>,
}

/// The position of the lexer in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LexerState {
    Start,
    Inside,
}

/// The kind of a table header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableHeader {
    /// `[[host]]`
    Host,
    /// `[host.…]` or `[[host.…]]`
    BelowHost,
    Other,
}

/// Cuts `text`.
pub(super) fn split(text: &str) -> DocumentParts<'_> {
    let mut hosts: Vec<Range<usize>> = Vec::new();
    let mut in_hosts = false;
    let mut hosts_in_run = 0;
    for (at, header) in headers(text) {
        match header {
            TableHeader::Host if in_hosts && hosts_in_run < HOSTS_AT_ONCE => hosts_in_run += 1,
            TableHeader::Host => {
                end_run(&mut hosts, in_hosts, at);
                hosts.push(at..text.len());
                (in_hosts, hosts_in_run) = (true, 1);
            }
            TableHeader::BelowHost => {}
            TableHeader::Other => {
                end_run(&mut hosts, in_hosts, at);
                in_hosts = false;
            }
        }
    }
    DocumentParts { rest: blanked(text, &hosts), hosts }
}

fn end_run(hosts: &mut [Range<usize>], in_hosts: bool, at: usize) {
    if in_hosts && let Some(run) = hosts.last_mut() {
        run.end = at;
    }
}

fn blanked<'t>(text: &'t str, ranges: &[Range<usize>]) -> Cow<'t, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut rest = String::with_capacity(text.len());
    for range in ranges {
        rest.push_str(&text[rest.len()..range.start]);
        rest.extend(std::iter::repeat_n(' ', range.len()));
    }
    rest.push_str(&text[rest.len()..]);
    Cow::Owned(rest)
}

/// The starts of table headers, and their kinds.
fn headers(text: &str) -> impl Iterator<Item = (usize, TableHeader)> {
    let mut tokens = Source::new(text).lex().peekable();
    let (mut line, mut depth) = (LexerState::Start, 0_u32);
    std::iter::from_fn(move || {
        loop {
            let token = tokens.next()?;
            let opens_line = std::mem::replace(&mut line, LexerState::Inside) == LexerState::Start;
            match token.kind() {
                TokenKind::Newline => line = LexerState::Start,
                TokenKind::Whitespace if opens_line => line = LexerState::Start,
                TokenKind::LeftSquareBracket if opens_line && depth == 0 => {
                    let header = header(text, &mut tokens);
                    return Some((token.span().start(), header));
                }
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
                TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
        }
    })
}

/// Reads a header after its first bracket, up to the end of its line.
fn header(text: &str, tokens: &mut std::iter::Peekable<impl Iterator<Item = Token>>) -> TableHeader {
    let line_goes_on = |token: &Token| !matches!(token.kind(), TokenKind::Newline | TokenKind::Eof);
    let mut words = Vec::new();
    while let Some(token) = tokens.next_if(line_goes_on) {
        if !matches!(token.kind(), TokenKind::Whitespace | TokenKind::Comment) && words.len() < 4 {
            words.push(&text[token.span().start()..token.span().end()]);
        }
    }
    let is_host = |word: &str| matches!(word, "host" | "\"host\"" | "'host'");
    match words[..] {
        ["[", name, "]", ..] if is_host(name) => TableHeader::Host,
        ["[", name, ".", ..] | [name, ".", ..] if is_host(name) => TableHeader::BelowHost,
        _ => TableHeader::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Vec<&str>) {
        let DocumentParts { rest, hosts } = split(text);
        assert_eq!(rest.len(), text.len());
        let words = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        (words, hosts.into_iter().map(|range| &text[range]).collect())
    }

    #[test]
    fn hosts_are_taken_out() {
        let text = "io = 'auto'\n[[host]]\nroot='a'\n[[host.route]]\nx=1\n[limits]\ny=2\n [[ host ]] # last\nroot='b'\n";
        let (rest, hosts) = parts(text);
        assert_eq!(rest, "io = 'auto' [limits] y=2");
        assert_eq!(hosts, ["[[host]]\nroot='a'\n[[host.route]]\nx=1\n", "[[ host ]] # last\nroot='b'\n"]);
    }

    #[test]
    fn texts_and_lists_are_no_headers() {
        for text in [
            "a = \"\"\"\n[[host]]\n\"\"\"\n",
            "a = '''\n[[host]]\n'''\n",
            "a = [\n[[\"host\"]]\n]\n",
            "# [[host]]\n",
            "host = [{ root = 'a' }]\n",
            "[hosts]\nunknown = 'refuse'\n[[hosts]]\n[host-x]\n",
        ] {
            assert_eq!(parts(text).1, Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn long_runs_are_cut_at_a_host() {
        let text = "[[host]]\nroot='a'\n".repeat(HOSTS_AT_ONCE * 2 + 1);
        let (rest, hosts) = parts(&text);
        assert_eq!((rest.as_str(), hosts.len()), ("", 3));
        assert_eq!(hosts.concat(), text);
        assert!(hosts.iter().all(|run| run.starts_with("[[host]]")));
    }
}
