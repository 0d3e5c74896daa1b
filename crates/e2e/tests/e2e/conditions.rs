//! Conditional requests: the verdicts of `vermeil-http` with the validators of real files.

use crate::support::{Io, TestClient, TestServer, TestSite, noise, on_usual, until};

on_usual!(
    if_none_match_knows_lists_weak_tags_and_the_asterisk,
    if_modified_since_compares_dates,
    if_match_and_if_unmodified_since_protect,
    if_range_gives_a_part_of_the_same_only,
    a_date_never_joins_parts_of_two_contents,
    a_date_continues_no_answer_that_varies,
);

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

/// One file for each way to send: copied after the head, gathered, sent from the page cache.
const FILES: [(&str, usize); 3] = [("/small.txt", 1000), ("/mid.bin", 60_000), ("/large.bin", 3_000_000)];

fn served(io: Io) -> (TestSite, TestServer) {
    let site = TestSite::new();
    for (name, len) in FILES {
        site.write(&name[1..], &noise(len as u64, len));
        site.age(&name[1..]);
    }
    let server = TestServer::start(io, &site, &[]);
    // A larger file has a weak tag while its last change is recent.
    for (name, _) in FILES {
        until("the tag is strong", || server.get(name).field("etag").starts_with('"').then_some(()));
    }
    (site, server)
}

/// Checks statuses, and that the connection is in step after each.
#[track_caller]
fn check(client: &mut TestClient, target: &str, cases: &[(&[&str], u16)]) {
    for (fields, status) in cases {
        let response = client.get_with(target, fields);
        assert_eq!(response.status, *status, "{target} {fields:?}");
        if *status == 304 {
            assert_eq!(response.field("last-modified"), DATE);
            assert!(response.get("etag").is_some() && response.get("content-type").is_none());
        }
    }
}

fn if_none_match_knows_lists_weak_tags_and_the_asterisk(io: Io) {
    let (_site, server) = served(io);
    let mut client = server.client();
    for (target, _) in FILES {
        let tag = client.get(target).field("etag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"'), "a strong tag: {tag}");
        let is = format!("If-None-Match: {tag}");
        let weak = format!("If-None-Match: W/{tag}");
        let list = format!("If-None-Match: \"x\", W/\"a,b\" ,{tag}");
        let cases: [(&[&str], u16); 9] = [
            (&[&is], 304),
            // The lines of a list form a single list (RFC 9110 §5.3).
            (&["If-None-Match: \"x\"", &is], 304),
            (&[&weak], 304),
            (&[&list], 304),
            (&["If-None-Match: *"], 304),
            (&["If-None-Match: \"x\""], 200),
            (&["If-None-Match: \"x\", \"y\""], 200),
            // The date is ignored when there are tags.
            (&["If-None-Match: \"x\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], 200),
            (&[&is, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"], 304),
        ];
        check(&mut client, target, &cases);
        assert_eq!(client.request("HEAD", target, &[&is]).status, 304);
    }
    server.stops_clean();
}

fn if_modified_since_compares_dates(io: Io) {
    let (_site, server) = served(io);
    let mut client = server.client();
    for (target, _) in FILES {
        assert_eq!(client.get(target).field("last-modified"), DATE);
        let field = |date: &str| format!("If-Modified-Since: {date}");
        let cases: [(&[&str], u16); 6] = [
            (&[&field(DATE)], 304),
            // The date of newer content: a change back to the present content is a change.
            (&[&field(AFTER)], 200),
            (&[&field(BEFORE)], 200),
            (&[&field("Sunday, 06-Nov-94 08:49:37 GMT")], 304),
            (&[&field("Sun Nov  6 08:49:37 1994")], 304),
            (&[&field("yesterday")], 200),
        ];
        check(&mut client, target, &cases);
    }
    server.stops_clean();
}

fn if_match_and_if_unmodified_since_protect(io: Io) {
    let (_site, server) = served(io);
    let mut client = server.client();
    for (target, _) in FILES {
        let tag = client.get(target).field("etag").to_owned();
        let cases: [(&[&str], u16); 9] = [
            (&[&format!("If-Match: {tag}")], 200),
            (&["If-Match: \"x\"", &format!("If-Match: {tag}")], 200),
            (&[&format!("If-Match: \"x\", {tag}")], 200),
            (&["If-Match: *"], 200),
            (&["If-Match: \"x\""], 412),
            // A weak tag is never strongly the same.
            (&[&format!("If-Match: W/{tag}")], 412),
            (&[&format!("If-Unmodified-Since: {DATE}")], 200),
            (&[&format!("If-Unmodified-Since: {BEFORE}")], 412),
            (&[&format!("If-Match: {tag}"), &format!("If-Unmodified-Since: {BEFORE}")], 200),
        ];
        check(&mut client, target, &cases);
    }
    server.stops_clean();
}

fn if_range_gives_a_part_of_the_same_only(io: Io) {
    let (_site, server) = served(io);
    let mut client = server.client();
    for (target, len) in FILES {
        let content = noise(len as u64, len);
        let tag = client.get(target).field("etag").to_owned();
        for (condition, status) in [
            (format!("If-Range: {tag}"), 206),
            (format!("If-Range: {DATE}"), 206),
            (format!("If-Range: W/{tag}"), 200),
            ("If-Range: \"x\"".to_owned(), 200),
            (format!("If-Range: {AFTER}"), 200),
            (format!("If-Range: {BEFORE}"), 200),
        ] {
            let response = client.get_with(target, &["Range: bytes=10-19", &condition]);
            assert_eq!(response.status, status, "{target} {condition}");
            let expected = if status == 206 { &content[10..20] } else { &content };
            assert!(response.body == expected, "{target} {condition}");
        }
    }
    server.stops_clean();
}

/// Regression: the date of a copy in another coding let a range of the file continue the copy.
fn a_date_continues_no_answer_that_varies(io: Io) {
    let site = TestSite::new();
    for name in ["plain.txt", "coded.txt", "coded.txt.gz"] {
        site.write(name, &noise(3, 1000));
        site.age(name);
    }
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    for (target, by_date) in [("/plain.txt", 206), ("/coded.txt", 200)] {
        until("the tag is strong", || server.get(target).field("etag").starts_with('"').then_some(()));
        let whole = client.get(target);
        assert_eq!(whole.field("last-modified"), DATE);
        for (validator, status) in [(whole.field("etag"), 206), (DATE, by_date)] {
            let condition = format!("If-Range: {validator}");
            let response = client.get_with(target, &["Range: bytes=10-19", &condition]);
            assert_eq!(response.status, status, "{target} {condition}");
        }
    }
    server.stops_clean();
}

/// Regression: a file that was written twice in a second had one date for both contents, and
/// `If-Range` gave the second half of the other content.
fn a_date_never_joins_parts_of_two_contents(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    for content in ["aaaaaaaaaa", "bbbbbbbbbb"] {
        site.write("page.txt", content.as_bytes());
        let response = client.get("/page.txt");
        assert_eq!((response.text(), response.get("last-modified")), (content, None));
        let date = format!("If-Range: {}", response.field("date"));
        assert_eq!(client.get_with("/page.txt", &["Range: bytes=5-", &date]).status, 200);
    }
    server.stops_clean();
}
