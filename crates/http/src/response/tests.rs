//! Heads, dates and pages, byte for byte.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const NOW: i64 = 784_111_777;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("heads are ASCII here")
}

#[test]
fn a_head_in_full() {
    let now = HttpDate::new(NOW);
    let head = written(|out| {
        HeadWriter::new(out, Status::Ok)
            .date(&now)
            .last_modified(&now)
            .lines(b"Content-Type: text/html\r\nETag: \"a\"\r\n")
            .field("Vary", b"Accept-Encoding")
            .content_length(u64::MAX)
            .connection(Version::Http11, Persistence::KeepAlive)
            .finish();
    });
    let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Type: text/html\r\nETag: \"a\"\r\nVary: Accept-Encoding\r\nContent-Length: 18446744073709551615\r\n\r\n";
    assert_eq!(head, expected);
}

#[test]
fn unexpected_request_parts_close_connection() {
    let head = |version, persistence| {
        written(|out| HeadWriter::new(out, Status::NoContent).connection(version, persistence).finish())
    };
    let line = "HTTP/1.1 204 No Content\r\n";
    assert_eq!(head(Version::Http11, Persistence::KeepAlive), format!("{line}\r\n"));
    assert_eq!(head(Version::Http11, Persistence::Close), format!("{line}Connection: close\r\n\r\n"));
    assert_eq!(
        head(Version::Http10, Persistence::KeepAlive),
        format!("{line}Connection: keep-alive\r\n\r\n")
    );
    assert_eq!(head(Version::Http10, Persistence::Close), format!("{line}Connection: close\r\n\r\n"));
}

#[test]
#[should_panic(expected = "line end in the value of Location")]
fn a_line_end_in_a_value_is_a_bug() {
    HeadWriter::new(&mut Vec::new(), Status::Found).field("Location", b"/\r\nSet-Cookie: a=b").finish();
}

#[test]
fn statuses_are_ordered_and_distinct() {
    assert!(Status::ALL.windows(2).all(|pair| pair[0].code() < pair[1].code()));
    for status in Status::ALL {
        let line = written(|out| HeadWriter::new(out, *status).finish());
        assert_eq!(line, format!("HTTP/1.1 {} {}\r\n\r\n", status.code(), status.reason()));
    }
}

#[test]
fn dates_are_those_of_httpdate() {
    let mut seconds = 0;
    while seconds <= 253_402_300_799 {
        let expected = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        let date = HttpDate::new(seconds as i64);
        assert_eq!(std::str::from_utf8(date.as_bytes()), Ok(expected.as_str()));
        assert_eq!(date.seconds(), seconds as i64);
        seconds = seconds * 3 / 2 + 86_399;
    }
}

#[test]
fn dates_that_cannot_be_written_become_the_nearest() {
    assert_eq!(HttpDate::new(i64::MIN), HttpDate::new(0));
    assert_eq!(HttpDate::new(0).as_bytes(), b"Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(HttpDate::new(i64::MAX).as_bytes(), b"Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn an_error_page_and_its_head_alone() {
    let now = HttpDate::new(NOW);
    let mut page = ErrorPage {
        status: Status::MethodNotAllowed,
        detail: "no <b>POST</b> here",
        version: Version::Http11,
        persistence: Persistence::Close,
        content: PageContent::Sent,
        now: &now,
        lines: &[b"Allow: GET, HEAD\r\n", b""],
    };
    let mut sent = 0;
    let full = written(|out| sent = page.write(out));
    let (head, body) = full.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>405 Method Not Allowed</title>\n\
         <h1>405 Method Not Allowed</h1>\n<p>no &lt;b&gt;POST&lt;/b&gt; here.</p>\n"
    );
    assert!(
        head.contains(&format!(
            "\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\nConnection: close",
            body.len()
        ))
    );
    assert_eq!(sent, body.len() as u64);
    page.content = PageContent::Omitted;
    assert_eq!(written(|out| sent = page.write(out)), format!("{head}\r\n\r\n"));
    assert_eq!(sent, 0);
}

#[test]
fn html_is_escaped_and_made_utf8() {
    let mut out = Vec::new();
    html_escape(b"<a href=\"x\" id='y'>&\xff\xc3\xa9", &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\u{fffd}\u{e9}"
    );
}

#[test]
fn every_rejection_says_why() {
    let rejection = crate::Rejection::HostMissing;
    assert_eq!(rejection.to_string(), "request refused with 400: the Host field is missing");
}
