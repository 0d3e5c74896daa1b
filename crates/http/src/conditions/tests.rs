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
        let list = Some(ListField::Line(value.as_bytes()));
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
        // A change back to older content: a copy of the newer is not current.
        ("modified", LATER, Proceed),
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
        // Dates before 1970 are dates.
        ("unmodified", "Wed, 31 Dec 1969 23:59:59 GMT", PreconditionFailed),
        ("unmodified", "Wed, 01 Jan 1000 00:00:00 GMT", PreconditionFailed),
        ("unmodified", "Wed Dec 31 23:59:59 1969", PreconditionFailed),
        ("modified", "Wed, 31 Dec 1969 23:59:59 GMT", Proceed),
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
        // If-Match hides If-Unmodified-Since, whatever the result.
        (&[("match", "\"v1\""), ("unmodified", EARLIER)], Proceed),
        (&[("match", "\"v2\""), ("unmodified", LATER)], PreconditionFailed),
        // If-None-Match hides If-Modified-Since.
        (&[("none-match", "\"v2\""), ("modified", SAME)], Proceed),
        (&[("none-match", "\"v1\""), ("modified", EARLIER)], NotModified),
        (&[("none-match", "junk"), ("modified", SAME)], Proceed),
        // The first pair comes before the second.
        (&[("match", "\"v2\""), ("none-match", "\"v1\"")], PreconditionFailed),
        (&[("match", "\"v1\""), ("none-match", "\"v1\"")], NotModified),
        (&[("unmodified", EARLIER), ("modified", SAME)], PreconditionFailed),
        (&[("unmodified", LATER), ("modified", SAME)], NotModified),
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
        ("modified", SAME, Verdict::Proceed),
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

#[test]
fn dates_before_1970_are_negative() {
    for (text, seconds) in [
        ("Wed, 31 Dec 1969 23:59:59 GMT", Some(-1)),
        ("Wed Dec 31 23:59:59 1969", Some(-1)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Mon, 01 Jan 1900 00:00:00 GMT", Some(-2_208_988_800)),
        ("Wed, 32 Dec 1969 23:59:59 GMT", None),
        ("1969", None),
        ("0000 1969", None),
    ] {
        assert_eq!(parse_date(text.as_bytes()), seconds, "{text}");
    }
}

#[test]
fn weak_tag_matches_in_weak_comparison_only() {
    let weak = Validators { etag: b"W/\"v1\"", last_modified: None };
    for (name, value, expected) in [
        ("none-match", "W/\"v1\"", Verdict::NotModified),
        ("none-match", "\"v1\"", Verdict::NotModified),
        ("none-match", "\"v2\", W/\"v1\"", Verdict::NotModified),
        ("none-match", "\"v2\"", Verdict::Proceed),
        ("match", "W/\"v1\"", Verdict::PreconditionFailed),
        ("match", "\"v1\"", Verdict::PreconditionFailed),
        ("match", "*", Verdict::Proceed),
    ] {
        assert_eq!(conditions(&[(name, value)]).evaluate(&weak), expected, "{name}: {value}");
    }
    for tag in ["W/\"v1\"", "\"v1\""] {
        assert!(!conditions(&[("range", tag)]).range_applies(&weak), "{tag}");
    }
}
