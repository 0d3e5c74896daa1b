//! The table of RFC 9110 §13.2.2, the comparison of tags, and `If-Range`.

use super::*;

const ETAG: &[u8] = b"\"v1\"";
/// Sun, 06 Nov 1994 08:49:37 GMT
const MODIFIED: i64 = 784_111_777;
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

/// Conditions out of `Name: value` lines.
fn conditions<'a>(lines: &[(&str, &'a str)]) -> Preconditions<'a> {
    let mut conditions = Preconditions::default();
    for (name, value) in lines {
        let list = Some(List::Line(value.as_bytes()));
        let value = Some(value.as_bytes());
        match *name {
            "match" => conditions.if_match = list,
            "none-match" => conditions.if_none_match = list,
            "modified" => conditions.if_modified_since = value,
            "unmodified" => conditions.if_unmodified_since = value,
            "range" => conditions.if_range = value,
            _ => panic!("{name}"),
        }
    }
    conditions
}

fn evaluate(lines: &[(&str, &str)]) -> Verdict {
    conditions(lines).evaluate(&Validators { etag: ETAG, last_modified: Some(&HttpDate::new(MODIFIED)) })
}

#[test]
fn single_conditions() {
    use Verdict::*;
    let table: &[(&str, &str, Verdict)] = &[
        ("match", "\"v1\"", Proceed),
        ("match", "*", Proceed),
        ("match", "\"v2\"", PreconditionFailed),
        ("match", "W/\"v1\"", PreconditionFailed),
        ("match", "\"v2\", \"v1\"", Proceed),
        ("match", "v1", PreconditionFailed),
        ("match", "", PreconditionFailed),
        ("none-match", "\"v1\"", NotModified),
        ("none-match", "*", NotModified),
        ("none-match", "W/\"v1\"", NotModified),
        ("none-match", "\"v2\"", Proceed),
        ("none-match", "\"v2\", W/\"v1\"", NotModified),
        ("none-match", " \t,\"v2\" ,, \"v1\",", NotModified),
        ("none-match", "\"a,b\",\"v1\"", NotModified),
        ("none-match", "\"a\"\"v1\"", Proceed),
        ("none-match", "\"\"", Proceed),
        ("none-match", "v1", Proceed),
        ("none-match", "w/\"v1\"", Proceed),
        ("none-match", "\"v1", Proceed),
        ("none-match", "\"v1\"x", Proceed),
        ("none-match", "\"V1\"", Proceed),
        ("modified", SAME, NotModified),
        ("modified", LATER, NotModified),
        ("modified", EARLIER, Proceed),
        ("modified", "Sunday, 06-Nov-94 08:49:37 GMT", NotModified),
        ("modified", "Sun Nov  6 08:49:37 1994", NotModified),
        ("modified", "yesterday", Proceed),
        ("modified", "", Proceed),
        ("modified", "784111777", Proceed),
        ("unmodified", SAME, Proceed),
        ("unmodified", LATER, Proceed),
        ("unmodified", EARLIER, PreconditionFailed),
        ("unmodified", "yesterday", Proceed),
        ("range", "\"v2\"", Proceed),
    ];
    for &(name, value, expected) in table {
        assert_eq!(evaluate(&[(name, value)]), expected, "{name}: {value}");
    }
}

#[test]
fn precedence() {
    use Verdict::*;
    let table: &[(&[(&str, &str)], Verdict)] = &[
        (&[], Proceed),
        // If-Match hides If-Unmodified-Since, whichever way it goes.
        (&[("match", "\"v1\""), ("unmodified", EARLIER)], Proceed),
        (&[("match", "\"v2\""), ("unmodified", LATER)], PreconditionFailed),
        // If-None-Match hides If-Modified-Since.
        (&[("none-match", "\"v2\""), ("modified", LATER)], Proceed),
        (&[("none-match", "\"v1\""), ("modified", EARLIER)], NotModified),
        (&[("none-match", "junk"), ("modified", LATER)], Proceed),
        // The first pair comes before the second.
        (&[("match", "\"v2\""), ("none-match", "\"v1\"")], PreconditionFailed),
        (&[("match", "\"v1\""), ("none-match", "\"v1\"")], NotModified),
        (&[("unmodified", EARLIER), ("modified", LATER)], PreconditionFailed),
        (&[("unmodified", LATER), ("modified", LATER)], NotModified),
        (&[("match", "*"), ("none-match", "*")], NotModified),
    ];
    for (lines, expected) in table {
        assert_eq!(evaluate(lines), *expected, "{lines:?}");
    }
}

#[test]
fn if_range() {
    let table = [
        ("\"v1\"", true),
        ("\"v2\"", false),
        ("W/\"v1\"", false),
        (SAME, true),
        (EARLIER, false),
        (LATER, false),
        ("Sun Nov  6 08:49:37 1994", true),
        ("v1", false),
        ("*", false),
        ("", false),
    ];
    let current = Validators { etag: ETAG, last_modified: Some(&HttpDate::new(MODIFIED)) };
    for (value, expected) in table {
        assert_eq!(conditions(&[("range", value)]).range_applies(&current), expected, "{value}");
    }
    assert!(conditions(&[]).range_applies(&current));
}

#[test]
fn dates_are_ignored_where_none_is_sent() {
    let undated = Validators { etag: ETAG, last_modified: None };
    for (name, value, expected) in [
        ("modified", LATER, Verdict::Proceed),
        ("unmodified", EARLIER, Verdict::Proceed),
        ("none-match", "\"v1\"", Verdict::NotModified),
    ] {
        assert_eq!(conditions(&[(name, value)]).evaluate(&undated), expected, "{name}: {value}");
    }
    assert!(!conditions(&[("range", SAME)]).range_applies(&undated));
    assert!(conditions(&[("range", "\"v1\"")]).range_applies(&undated));
}

#[test]
fn a_long_list_of_tags_is_read_once() {
    let list = "\"x\",".repeat(8000) + "\"v1\"";
    assert_eq!(evaluate(&[("none-match", &list)]), Verdict::NotModified);
    let commas = ",".repeat(32_000);
    assert_eq!(evaluate(&[("none-match", &commas)]), Verdict::Proceed);
}
