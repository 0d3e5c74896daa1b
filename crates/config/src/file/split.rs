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
    pub(super) hosts: Vec<HostRun<'t>>,
}

/// A run of hosts, parsed on its own.
pub(super) struct HostRun<'t> {
    /// The start of the run in the document, in bytes.
    pub(super) start: usize,
    /// The hosts, with other tables between them blanked out.
    pub(super) text: Cow<'t, str>,
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
    // The pieces of each run. A run has several pieces if other tables stand between its hosts and
    // tables below the last host.
    let mut runs: Vec<Vec<Range<usize>>> = Vec::new();
    let mut in_hosts = false;
    let mut hosts_in_run = 0;
    for (at, header) in headers(text) {
        match header {
            TableHeader::Host if in_hosts && hosts_in_run < HOSTS_AT_ONCE => hosts_in_run += 1,
            TableHeader::Host => {
                end_run(&mut runs, in_hosts, at);
                runs.push(std::iter::once(at..text.len()).collect());
                (in_hosts, hosts_in_run) = (true, 1);
            }
            TableHeader::BelowHost => {
                if let Some(run) = runs.last_mut().filter(|_| !in_hosts) {
                    run.push(at..text.len());
                    in_hosts = true;
                }
            }
            TableHeader::Other => {
                end_run(&mut runs, in_hosts, at);
                in_hosts = false;
            }
        }
    }
    let pieces: Vec<_> = runs.iter().flatten().cloned().collect();
    let rest = blanked(text, 0..text.len(), &pieces);
    DocumentParts { rest, hosts: runs.iter().map(|pieces| host_run(text, pieces)).collect() }
}

fn end_run(runs: &mut [Vec<Range<usize>>], in_hosts: bool, at: usize) {
    if in_hosts && let Some(piece) = runs.last_mut().and_then(|run| run.last_mut()) {
        piece.end = at;
    }
}

/// The run of the pieces of `text`. A run has at least one piece.
fn host_run<'t>(text: &'t str, pieces: &[Range<usize>]) -> HostRun<'t> {
    let (start, end) = (pieces[0].start, pieces[pieces.len() - 1].end);
    let gaps: Vec<_> = pieces.windows(2).map(|pair| pair[0].end..pair[1].start).collect();
    HostRun { start, text: blanked(text, start..end, &gaps) }
}

/// The part `within` of `text`, with `ranges` of the text blanked out.
fn blanked<'t>(text: &'t str, within: Range<usize>, ranges: &[Range<usize>]) -> Cow<'t, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(&text[within]);
    }
    let mut rest = String::with_capacity(within.len());
    let mut at = within.start;
    for range in ranges {
        rest.push_str(&text[at..range.start]);
        rest.extend(std::iter::repeat_n(' ', range.len()));
        at = range.end;
    }
    rest.push_str(&text[at..within.end]);
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

    fn parts(text: &str) -> (String, Vec<String>) {
        let DocumentParts { rest, hosts } = split(text);
        assert_eq!(rest.len(), text.len());
        let words = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        (words, hosts.into_iter().map(|run| run.text.into_owned()).collect())
    }

    #[test]
    fn hosts_are_taken_out() {
        let text = "io = 'auto'\n[[host]]\nroot='a'\n[[host.route]]\nx=1\n[limits]\ny=2\n [[ host ]] # last\nroot='b'\n";
        let (rest, hosts) = parts(text);
        assert_eq!(rest, "io = 'auto' [limits] y=2");
        assert_eq!(hosts, ["[[host]]\nroot='a'\n[[host.route]]\nx=1\n", "[[ host ]] # last\nroot='b'\n"]);
    }

    #[test]
    fn table_of_a_host_behind_another_table_joins_its_host() {
        let text =
            "[[host]]\nroot='a'\n[tls]\ny=2\n[[host.route]]\nx=1\n[[host]]\nroot='b'\n[limits]\n[host.php]\n";
        let DocumentParts { rest, hosts } = split(text);
        assert_eq!(rest.split_whitespace().collect::<Vec<_>>(), ["[tls]", "y=2", "[limits]"]);
        let gaps = [" ".repeat("[tls]\ny=2\n".len()), " ".repeat("[limits]\n".len())];
        let run = &hosts[0];
        let expected = text.replace("[tls]\ny=2\n", &gaps[0]).replace("[limits]\n", &gaps[1]);
        assert_eq!((hosts.len(), run.start, &*run.text), (1, 0, &*expected));
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
            assert_eq!(parts(text).1, Vec::<String>::new(), "{text}");
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
