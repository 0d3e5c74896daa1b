//! Goldens of the line format, and a strict parser: every line parses back to its record.

use super::super::record::{LINE_BYTES_MAX, LogRecord, LoggedClient, decode, encode};
use super::*;
use proptest::prelude::*;
use std::net::IpAddr;
use vermeil_address::{Client, UNIX};

fn client(addr: &str) -> Client {
    addr.parse::<IpAddr>().unwrap().into()
}

fn at_http(client: Client) -> LoggedClient {
    LoggedClient { client, default_port: 80 }
}

fn line(record: &LogRecord<'_>) -> String {
    let mut batch = Vec::new();
    encode(&mut batch, record, None);
    let mut out = Vec::new();
    LineWriter::new().write(&mut out, &decode(&batch).unwrap().record);
    String::from_utf8(out).expect("lines are ASCII")
}

fn example<'a>() -> LogRecord<'a> {
    LogRecord {
        peer: at_http(client("127.0.0.1")),
        unix_seconds: 971_186_136,
        host: None,
        request_line: b"GET /apache_pb.gif HTTP/1.0",
        status: 200,
        body_bytes: 2326,
        referer: Some(b"http://www.example.com/start.html"),
        user_agent: Some(b"Mozilla/4.08 [en] (Win98; I ;Nav)"),
        ..LogRecord::EMPTY
    }
}

#[test]
fn the_example_of_the_format() {
    assert_eq!(
        line(&example()),
        "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /apache_pb.gif HTTP/1.0\" 200 2326 \
         \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I ;Nav)\"\n"
    );
}

#[test]
fn user_is_one_word() {
    let record = LogRecord { user: Some(b"an n\"a\xff"), ..example() };
    let line = line(&record);
    assert!(line.starts_with(r#"127.0.0.1 - an\x20n\x22a\xFF [10/Oct"#), "{line}");
}

#[test]
fn absent_field_is_a_dash() {
    let nothing = LogRecord {
        peer: at_http(client("2001:db8::7")),
        unix_seconds: 0,
        host: None,
        request_line: b"",
        status: 408,
        body_bytes: 0,
        referer: None,
        user_agent: Some(b""),
        ..LogRecord::EMPTY
    };
    assert_eq!(line(&nothing), "2001:db8::7 - - [01/Jan/1970:00:00:00 +0000] \"-\" 408 - \"-\" \"\"\n");
}

#[test]
fn a_mapped_address_is_written_as_ipv4() {
    let record = LogRecord { peer: at_http(client("::ffff:192.0.2.1")), ..example() };
    assert!(line(&record).starts_with("192.0.2.1 - - ["));
}

#[test]
fn a_request_cannot_forge_a_line() {
    let forged = b"x\"\n127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /admin HTTP/1.1\" 200 1 \"-\" \"\\\x1b[2J\xc3\xa9\x7f";
    let record = LogRecord { user_agent: Some(forged), ..example() };
    let line = line(&record);
    assert_eq!(line.matches('\n').count(), 1);
    assert!(line.ends_with(
        r#" "x\x22\x0A127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \x22GET /admin HTTP/1.1\x22 200 1 \x22-\x22 \x22\x5C\x1B[2J\xC3\xA9\x7F"
"#
    ));
    assert_eq!(parse(&line).unwrap().agent.bytes, forged);
}

#[test]
fn a_cut_field_is_marked_so_that_no_request_can_write_the_mark() {
    let long = vec![b'a'; LINE_BYTES_MAX + 1];
    let cut = line(&LogRecord { request_line: &long, ..example() });
    assert!(cut.contains(r#"aaa\..." 200"#), "{cut}");
    let honest = line(&LogRecord { request_line: br"GET /\... HTTP/1.1", ..example() });
    assert!(honest.contains(r#""GET /\x5C... HTTP/1.1" 200"#), "{honest}");
}

#[test]
fn calendar() {
    for (seconds, text) in [
        (951_782_399, "28/Feb/2000:23:59:59 +0000"),
        (951_782_400, "29/Feb/2000:00:00:00 +0000"),
        (951_868_800, "01/Mar/2000:00:00:00 +0000"),
        (1_709_251_199, "29/Feb/2024:23:59:59 +0000"),
        (4_107_542_400, "01/Mar/2100:00:00:00 +0000"),
        (4_107_542_399, "28/Feb/2100:23:59:59 +0000"),
        (SECONDS_MAX, "31/Dec/9999:23:59:59 +0000"),
    ] {
        assert_eq!(time_text(seconds), text);
    }
}

#[test]
fn a_clock_gone_mad_still_writes_a_line() {
    let line = line(&LogRecord { unix_seconds: u64::MAX, ..example() });
    assert!(line.contains("[31/Dec/9999:23:59:59 +0000]"), "{line}");
}

/// A quoted field, unescaped.
#[derive(Debug, PartialEq)]
struct QuotedField {
    bytes: Vec<u8>,
    cut: bool,
}

#[derive(Debug, PartialEq)]
struct ParsedLine {
    peer: Client,
    unix_seconds: u64,
    request: QuotedField,
    status: u16,
    body_bytes: u64,
    referer: QuotedField,
    agent: QuotedField,
}

/// Parses a line strictly: rejects everything that the format does not allow.
fn parse(line: &str) -> Option<ParsedLine> {
    let (peer, rest) = line.strip_suffix('\n')?.split_once(" - - [")?;
    let (time, rest) = rest.split_once("] ")?;
    let (request, rest) = quoted(rest)?;
    let (status, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let (bytes, rest) = rest.split_once(' ')?;
    let (referer, rest) = quoted(rest)?;
    let (agent, rest) = quoted(rest.strip_prefix(' ')?)?;
    rest.is_empty().then_some(())?;
    let status = status.parse().ok()?;
    let body_bytes = if bytes == "-" { 0 } else { bytes.parse().ok()? };
    Some(ParsedLine {
        peer: if peer == UNIX { Client::Unix } else { peer.parse::<IpAddr>().ok()?.into() },
        unix_seconds: parse_time(time)?,
        request,
        status,
        body_bytes,
        referer,
        agent,
    })
}

fn quoted(text: &str) -> Option<(QuotedField, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut field = QuotedField { bytes: Vec::new(), cut: false };
    loop {
        let byte = *rest.as_bytes().first()?;
        rest = &rest[1..];
        match byte {
            b'"' => return Some((field, rest)),
            b'\\' if rest.starts_with("...\"") => {
                field.cut = true;
                rest = &rest[3..];
            }
            b'\\' => {
                let hex = rest.strip_prefix('x')?.get(..2)?;
                let escaped = u8::from_str_radix(hex, 16).ok()?;
                (!is_plain(escaped)).then_some(())?;
                field.bytes.push(escaped);
                rest = &rest[3..];
            }
            plain => {
                is_plain(plain).then_some(())?;
                field.bytes.push(plain);
            }
        }
    }
}

/// Counts days over years and months: slow and obvious, unlike the code under test.
fn parse_time(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    (text.len() == 26 && text.ends_with(" +0000")).then_some(())?;
    let month = MONTHS.iter().position(|&name| text.get(3..6) == Some(name))?;
    let year = number(7..11)?;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let month_days = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = (1970..year).map(|year| 365 + u64::from(leap(year))).sum::<u64>()
        + month_days[..month].iter().sum::<u64>()
        + number(0..2)?
        - 1;
    Some(((days * 24 + number(12..14)?) * 60 + number(15..17)?) * 60 + number(18..20)?)
}

fn field_of(bytes: &[u8]) -> QuotedField {
    QuotedField { bytes: bytes.to_vec(), cut: false }
}

proptest! {
    #[test]
    fn every_line_is_one_line_and_parses_back(
        peer: Option<IpAddr>,
        unix_seconds in 0..=SECONDS_MAX,
        status in 0..1000u16,
        body_bytes: u64,
        request in proptest::collection::vec(any::<u8>(), 1..200),
        referer in proptest::collection::vec(any::<u8>(), 0..200),
        agent in "\\PC*|(\"|\\\\|\\.|\r|\n)*",
    ) {
        let peer = peer.map_or(Client::Unix, Client::from);
        let line = line(&LogRecord {
            peer: at_http(peer), unix_seconds, status, body_bytes,
            host: None, request_line: &request, referer: Some(&referer), user_agent: Some(agent.as_bytes()),
            ..LogRecord::EMPTY
        });
        prop_assert_eq!(line.bytes().filter(|&byte| byte == b'\n').count(), 1);
        let agent = &agent.as_bytes()[..agent.len().min(super::super::USER_AGENT_BYTES_MAX)];
        let parsed = parse(&line);
        prop_assert!(parsed.is_some(), "{}", line);
        let mut parsed = parsed.unwrap();
        parsed.agent.cut = false;
        prop_assert_eq!(parsed, ParsedLine {
            peer, unix_seconds, status, body_bytes,
            request: field_of(&request), referer: field_of(&referer), agent: field_of(agent),
        });
    }
}
