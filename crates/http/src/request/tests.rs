//! Captured fields, and limits that are exact to the byte. Verdicts are in the corpus
//! (`tests/corpus/`).

use super::*;
use crate::{
    Validators, Verdict,
    negotiate::{Choice, EncodingSet, choose},
};

fn complete<'a>(input: &'a [u8], limits: &ConnectionLimits) -> Request<'a> {
    match parse(input, limits) {
        ParsedPart::Complete { request, consumed } => {
            assert_eq!(consumed, input.len());
            request
        }
        other => panic!("{other:?} for {}", input.escape_ascii()),
    }
}

fn rejection(input: &[u8], limits: &ConnectionLimits) -> Rejection {
    match parse(input, limits) {
        ParsedPart::Rejected(rejection) => rejection,
        other => panic!("{other:?} for {}", input.escape_ascii()),
    }
}

#[test]
fn known_fields_are_captured_in_any_case() {
    let input = b"GET / HTTP/1.1\r\nHOST: h\r\nrange: bytes=0-\r\nReferer: r\r\nIF-MATCH: a\r\nIf-Range: b\r\n\
        User-Agent: u\r\nIf-None-Match: c\r\nACCEPT-encoding: gzip\r\nIf-Modified-Since: d\r\nIf-Unmodified-Since: e\r\n\
        X-Other: x\r\n\r\n";
    let request = complete(input, &ConnectionLimits::default());
    let expected = Preconditions {
        if_match: Some(ListField::Line(b"a")),
        if_none_match: Some(ListField::Line(b"c")),
        if_modified_since: Some(b"d"),
        if_unmodified_since: Some(b"e"),
        if_range: Some(b"b"),
    };
    assert_eq!(request.preconditions, expected);
    assert_eq!(request.range, Some(&b"bytes=0-"[..]));
    assert_eq!(request.referer, Some(&b"r"[..]));
    assert_eq!(request.user_agent, Some(&b"u"[..]));
    assert_eq!(request.accept_encoding, Some(ListField::Line(b"gzip")));
    assert_eq!(request.fields.count(), 11);
    assert_eq!(request.fields.last(), Some((&b"X-Other"[..], &b"x"[..])));
}

#[test]
fn names_that_only_look_known_are_not_captured() {
    let input =
        b"GET / HTTP/1.1\r\nHost: h\r\nRangf: 1\r\nIf-Mates: 1\r\nUser_Agent: 1\r\nAccept-Encodind: 1\r\n\
        \x52ANGE-: 1\r\n\r\n";
    let request = complete(input, &ConnectionLimits::default());
    assert_eq!(request.preconditions, Preconditions::default());
    assert_eq!((request.range, request.user_agent, request.accept_encoding), (None, None, None));
}

#[test]
fn of_a_repeated_field_the_first_line_counts() {
    let input = b"GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nRange: bytes=5-6\r\nIf-Range: \"a\"\r\nIf-Range: \"b\"\r\n\r\n";
    let request = complete(input, &ConnectionLimits::default());
    assert_eq!(request.range, Some(&b"bytes=0-1"[..]));
    assert_eq!(request.preconditions.if_range, Some(&b"\"a\""[..]));
}

/// Regression: only the first line of a list counted, so a second line with the right tag had no
/// effect.
#[test]
fn of_a_repeated_list_all_lines_count() {
    let input = b"GET / HTTP/1.1\r\nIf-Match: *\r\nIf-None-Match: a\r\nHost: h\r\nIF-NONE-MATCH:\r\nIf-None-Matched: x\r\n\
        if-none-match: b, c\r\nAccept-Encoding: gzip\r\nAccept-Encoding: br\r\n\r\n";
    let request = complete(input, &ConnectionLimits::default());
    let lines =
        |list: Option<ListField<'static>>| list.into_iter().flat_map(ListField::lines).collect::<Vec<_>>();
    assert_eq!(lines(request.preconditions.if_match), [b"*"]);
    assert_eq!(lines(request.preconditions.if_none_match), [&b"a"[..], b"", b"b, c"]);
    assert_eq!(lines(request.accept_encoding), [&b"gzip"[..], b"br"]);
    assert_eq!(choose(request.accept_encoding, EncodingSet::NONE.with(Choice::Br)), Choice::Br);
    let validators = Validators { etag: b"\"b\"", last_modified: None };
    for (lines, expected) in [
        (&b"If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n"[..], Verdict::NotModified),
        (b"If-None-Match: \"a\"\r\nIf-None-Match: \"c\"\r\n", Verdict::Proceed),
        (b"If-Match: \"a\"\r\nIf-Match: \"b\"\r\n", Verdict::Proceed),
        (b"If-Match: \"a\"\r\nIf-Match: \"c\"\r\n", Verdict::PreconditionFailed),
    ] {
        let head = [b"GET / HTTP/1.1\r\nHost: h\r\n", lines, b"\r\n"].concat();
        let request = complete(&head, &ConnectionLimits::default());
        assert_eq!(request.preconditions.evaluate(&validators), expected, "{}", lines.escape_ascii());
    }
}

#[test]
fn targets_are_cut_into_their_parts() {
    type Row<'a> = (&'a [u8], TargetForm, &'a [u8], Option<&'a [u8]>);
    let cases: [Row; 8] = [
        (b"GET /a/b?c=d?e", TargetForm::Origin, b"/a/b", Some(b"c=d?e")),
        (b"GET /?", TargetForm::Origin, b"/", Some(b"")),
        (b"GET /", TargetForm::Origin, b"/", None),
        (b"GET http://x:1/p?q", TargetForm::Absolute, b"/p", Some(b"q")),
        (b"GET http://x", TargetForm::Absolute, b"/", None),
        (b"GET HTTPS://x?q", TargetForm::Absolute, b"/", Some(b"q")),
        (b"OPTIONS *", TargetForm::Asterisk, b"", None),
        (b"CONNECT x:1", TargetForm::Authority, b"", None),
    ];
    for (start, form, path, query) in cases {
        let input = [start, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        let target = complete(&input, &ConnectionLimits::default()).target;
        assert_eq!((target.form, target.path, target.query), (form, path, query), "{}", start.escape_ascii());
    }
}

#[test]
fn the_request_line_limit_is_exact() {
    let limits = ConnectionLimits { request_line_bytes: 20, ..ConnectionLimits::default() };
    let line = b"GET /12345 HTTP/1.1x";
    assert_eq!(line.len(), 20);
    complete(b"GET /123456 HTTP/1.1\r\nHost: h\r\n\r\n", &limits);
    complete(b"\r\n\r\nGET /123456 HTTP/1.1\r\nHost: h\r\n\r\n", &limits);
    let longer = b"GET /1234567 HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(rejection(longer, &limits), Rejection::RequestLineTooLong);
    assert_eq!(parse(&longer[..21], &limits), ParsedPart::Incomplete);
    assert_eq!(rejection(&longer[..22], &limits), Rejection::RequestLineTooLong);
    assert_eq!(rejection(b"GET /aaaaaaaaaaaaaaaaaaaaaaaaa", &limits), Rejection::RequestLineTooLong);
    assert_eq!(rejection(b"GET /a#aaaaaaaaaaaaaaaaaaaaaaa", &limits), Rejection::Target);
}

#[test]
fn the_limit_of_field_lines_is_exact() {
    let limits = ConnectionLimits { header_count: 2, ..ConnectionLimits::default() };
    complete(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n", &limits);
    assert_eq!(
        rejection(b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nC: d\r\n", &limits),
        Rejection::TooManyFields
    );
}

#[test]
fn the_head_limit_is_exact() {
    let input = b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    complete(input, &ConnectionLimits { header_bytes: input.len(), ..ConnectionLimits::default() });
    let limits = ConnectionLimits { header_bytes: input.len() - 1, ..ConnectionLimits::default() };
    assert_eq!(rejection(input, &limits), Rejection::HeadTooLong);
    assert_eq!(rejection(&input[..limits.header_bytes], &limits), Rejection::HeadTooLong);
    assert_eq!(parse(&input[..limits.header_bytes - 1], &limits), ParsedPart::Incomplete);
}

#[test]
fn an_error_behind_the_limit_is_not_seen_and_before_it_is() {
    let limits = ConnectionLimits { header_bytes: 40, ..ConnectionLimits::default() };
    let behind = b"GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaa\0\r\n\r\n";
    assert_eq!(rejection(behind, &limits), Rejection::HeadTooLong);
    let before = b"GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaa\0\r\n\r\n";
    assert_eq!(rejection(before, &limits), Rejection::FieldValue);
}

#[test]
fn a_request_over_the_default_limits_is_refused() {
    let limits = ConnectionLimits::default();
    let long_target = [b"GET /", vec![b'a'; 100_000].as_slice()].concat();
    assert_eq!(rejection(&long_target, &limits).status().code(), 414);
    let head = b"GET / HTTP/1.1\r\nHost: h\r\n".as_slice();
    let long_value = [head, b"X: ", vec![b'a'; 100_000].as_slice()].concat();
    assert_eq!(rejection(&long_value, &limits).status().code(), 431);
    let long_name = [head, vec![b'a'; 100_000].as_slice()].concat();
    assert_eq!(rejection(&long_name, &limits).status().code(), 431);
    let many = [head, b"A: b\r\n".repeat(1000).as_slice()].concat();
    assert_eq!(rejection(&many, &limits).status().code(), 431);
}

#[test]
fn fields_show_themselves_readably() {
    let request = complete(b"GET / HTTP/1.1\r\nHost: h\r\nA:\xff\r\n\r\n", &ConnectionLimits::default());
    assert_eq!(format!("{:?}", request.fields), r#"{"Host": "h", "A": "\\xff"}"#);
}
