//! Outputs of programs and their verdicts, whole and cut at every byte.

use crate::fixed_cases;
use crate::gateway::{BadHead, HeadLimits, HeadReader, Oddity, ProgramAnswer};
use proptest::prelude::*;

type HeadVerdict = Result<Option<(ProgramAnswer, usize)>, BadHead>;

fn read(output: &[u8]) -> HeadVerdict {
    HeadReader::new(HeadLimits::default()).read(output)
}

/// The verdict when the output comes in pieces of `step` bytes.
fn read_in(output: &[u8], step: usize) -> HeadVerdict {
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut end = 0;
    while end < output.len() {
        end = (end + step).min(output.len());
        match reader.read(&output[..end]) {
            Ok(None) => {}
            verdict => return verdict,
        }
    }
    Ok(None)
}

/// A single line for each answer: kind, status, reason, length, fields.
fn shown(output: &str) -> String {
    let verdict = read(output.as_bytes());
    for step in 1..4 {
        assert_eq!(read_in(output.as_bytes(), step), verdict, "{output:?} by {step}");
    }
    let (answer, consumed) = match verdict {
        Err(bad) => return format!("{bad:?}"),
        Ok(None) => return "more".into(),
        Ok(Some(found)) => found,
    };
    assert_eq!(&output[consumed..], "body", "the head ends where the body starts");
    let (kind, head) = match &answer {
        ProgramAnswer::LocalRedirect(path) => {
            return format!("local {}{}", path.escape_ascii(), told(output));
        }
        ProgramAnswer::Document(head) => (String::new(), head),
        ProgramAnswer::AccelRedirect(head, path) => (format!("accel {} ", path.escape_ascii()), head),
        ProgramAnswer::SendFile(head, path) => (format!("sendfile {} ", path.escape_ascii()), head),
    };
    let unbuffered = if head.is_unbuffered { "unbuffered " } else { "" };
    let length = head.content_length.map_or(String::new(), |length| format!(" [{length}]"));
    let lines = String::from_utf8_lossy(&head.lines).replace("\r\n", ";");
    let shown = format!("{kind}{unbuffered}{} {}{length} {lines}", head.status, head.reason.escape_ascii());
    format!("{}{}", shown.trim_end(), told(output))
}

/// The oddities of an answer that passes.
fn told(output: &str) -> String {
    let mut reader = HeadReader::new(HeadLimits::default());
    reader.read(output.as_bytes()).expect("read before");
    let short = |oddity: &Oddity| match oddity {
        Oddity::Name(line) => format!("; no name {}", line.escape_ascii()),
        Oddity::NotForClients(name) => format!("; not for clients {}", name.escape_ascii()),
        Oddity::Repeated(name) => format!("; twice {name}"),
        Oddity::Length(value) => format!("; length {}", value.escape_ascii()),
        Oddity::LengthOfNothing(status) => format!("; length of {status}"),
        Oddity::Excess => unreachable!("a head has no content"),
        Oddity::BesideFile(name) => format!("; no {name}"),
    };
    reader.oddities().iter().map(short).collect()
}

#[test]
fn documents() {
    for (output, expected) in [
        ("Content-Type: text/html\n\nbody", "200 OK Content-Type: text/html;"),
        ("Content-type:text/html\r\n\r\nbody", "200 OK Content-type: text/html;"),
        ("Status: 404 Not Found\nContent-Type: a/b\n\nbody", "404 Not Found Content-Type: a/b;"),
        ("Status: 404\n\nbody", "404 Not Found"),
        ("Status: 404 \n\nbody", "404 Not Found"),
        ("Status: 299\n\nbody", "299"),
        ("status: 503 Back  soon\nRetry-After: 9\n\nbody", "503 Back  soon Retry-After: 9;"),
        ("Content-Type: a/b\nX-Accel-Buffering: No\n\nbody", "unbuffered 200 OK Content-Type: a/b;"),
        ("Content-Type: a/b\nX-Accel-Buffering: yes\n\nbody", "200 OK Content-Type: a/b;"),
        ("Content-Type: a/b\nContent-Length: 4\n\nbody", "200 OK [4] Content-Type: a/b;"),
        (
            "Content-Type: a/b\nSet-Cookie: a=1\nSet-Cookie: b=2\n\nbody",
            "200 OK Content-Type: a/b;Set-Cookie: a=1;Set-Cookie: b=2;",
        ),
        ("Content-Type: a/b\nX-Name: caf\u{e9}\n\nbody", "200 OK Content-Type: a/b;X-Name: caf\u{e9};"),
        ("Content-Type: a/b\nX-Empty:\n\nbody", "200 OK Content-Type: a/b;X-Empty: ;"),
        ("Content-Type: a/b\r\nMixed: yes\n\r\nbody", "200 OK Content-Type: a/b;Mixed: yes;"),
        // Harmless, and corrected without a notice.
        ("X-Powered-By: PHP\n\nbody", "200 OK X-Powered-By: PHP;"),
        ("\nbody", "200 OK"),
        ("\r\nbody", "200 OK"),
        ("Content-Type : a/b\n\nbody", "200 OK Content-Type: a/b;"),
        ("Content-Type: a/b\r\r\nX: y\r\r\n\r\r\nbody", "200 OK Content-Type: a/b;X: y;"),
        ("Content-Type: a/b\nContent-Type: a/b\n\nbody", "200 OK Content-Type: a/b;"),
        ("Status: 404\nStatus: 404 Not Found\n\nbody", "404 Not Found"),
        ("Status: 404Gone\n\nbody", "404 Gone"),
        ("Content-Type: a/b\nContent-Length: 4\nContent-Length: 4\n\nbody", "200 OK [4] Content-Type: a/b;"),
        ("Content-Type: a/b\nTransfer-Encoding: identity\n\nbody", "200 OK Content-Type: a/b;"),
        // Fields that belong to the server.
        ("Content-Type: a/b\nConnection: close\nDate: x\nServer: y\n\nbody", "200 OK Content-Type: a/b;"),
    ] {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

/// Regression: each of these outputs made a 502, or was lost without a notice.
#[test]
fn dropped_fields_are_reported() {
    for (output, expected) in [
        ("<!--: spam\nContent-Type: a/b\n\nbody", "200 OK Content-Type: a/b;; no name <!--: spam"),
        ("Content-Type: a/b\nKeep-Alive: z\n\nbody", "200 OK Content-Type: a/b;; not for clients Keep-Alive"),
        ("X-Accel-Charset: no\n\nbody", "200 OK; not for clients X-Accel-Charset"),
        ("X-LIGHTTPD-send-file: /a\n\nbody", "200 OK; not for clients X-LIGHTTPD-send-file"),
        ("Content-Type: a/b\nContent-Type: c/d\n\nbody", "200 OK Content-Type: c/d;; twice Content-Type"),
        ("Status: 404\nStatus: 410 Gone\n\nbody", "410 Gone; twice Status"),
        ("Content-Type: a/b\nContent-Length: -1\n\nbody", "200 OK Content-Type: a/b;; length -1"),
        ("Content-Type: a/b\nContent-Length:\n\nbody", "200 OK Content-Type: a/b;; length "),
        ("Content-Type: a/b\nContent-Length: 4, 4\n\nbody", "200 OK Content-Type: a/b;; length 4, 4"),
        ("Content-Length: 99999999999999999999\n\nbody", "200 OK; length 99999999999999999999"),
        ("Status: 204\nContent-Length: 4\n\nbody", "204 No Content [4]; length of 204"),
    ] {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

#[test]
fn redirects() {
    for (output, expected) in [
        ("Location: /other?x=1\n\nbody", "local /other?x=1"),
        ("Location: /other\nContent-Type: a/b\nContent-Length: 4\n\nbody", "local /other"),
        ("Location: /caf\u{e9} x\n\nbody", "local /caf\\xc3\\xa9 x"),
        // Data that is only for the client goes to the client.
        ("Location: /other\nSet-Cookie: a=b\n\nbody", "302 Found Set-Cookie: a=b;Location: /other;"),
        ("Set-Cookie: a=b\nLocation: /other\n\nbody", "302 Found Set-Cookie: a=b;Location: /other;"),
        (
            "Location: /other\nContent-Type: a/b\nX: y\n\nbody",
            "302 Found Content-Type: a/b;X: y;Location: /other;",
        ),
        ("Location: /other#part\n\nbody", "302 Found Location: /other#part;"),
        ("Location: http://host/path\n\nbody", "302 Found Location: http://host/path;"),
        ("Location: //host/path\n\nbody", "302 Found Location: //host/path;"),
        ("Location: other\n\nbody", "302 Found Location: other;"),
        ("Status: 301 Moved\nLocation: /other\n\nbody", "301 Moved Location: /other;"),
        (
            "Location: http://host/\nContent-Type: a/b\n\nbody",
            "302 Found Content-Type: a/b;Location: http://host/;",
        ),
        ("Location:\n\nbody", "Location"),
        ("Location: /a\nLocation: /b\n\nbody", "local /b; twice Location"),
    ] {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

#[test]
fn files_sent_by_the_server() {
    for (output, expected) in [
        (
            "X-Accel-Redirect: /files/a.zip\nContent-Type: a/b\n\nbody",
            "accel /files/a.zip 200 OK Content-Type: a/b;",
        ),
        ("X-Sendfile: /srv/files/a.zip\n\nbody", "sendfile /srv/files/a.zip 200 OK"),
        (
            "X-Sendfile: /a\nSet-Cookie: x\nETag: \"y\"\n\nbody",
            "sendfile /a 200 OK Set-Cookie: x;ETag: \"y\";",
        ),
        (
            "X-Sendfile: /a\nStatus: 403 No\nLocation: /x\nContent-Encoding: gzip\n\nbody",
            "sendfile /a 403 No Content-Encoding: gzip;; no Status; no Location; no Content-Encoding",
        ),
        ("x-sendfile: /a\nx-sendfile: /b\n\nbody", "Repeated"),
        ("X-Sendfile: /a\nX-Accel-Redirect: /b\n\nbody", "Repeated"),
    ] {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

#[test]
fn malformed_head_is_refused() {
    for (output, expected) in [
        ("", "more"),
        ("Content-Type: a/b\n", "more"),
        ("Content-Type: a/b", "more"),
        ("Hello, world\n\nbody", "FieldName"),
        ("HTTP/1.1 200 OK\nContent-Type: a/b\n\nbody", "StatusLine"),
        (" Content-Type: a/b\n\nbody", "LineFolding"),
        (": a/b\n\nbody", "FieldName"),
        ("Content-Type: a/b\n folded\n\nbody", "LineFolding"),
        ("Content-Type: a/b\n\tfolded: x\n\nbody", "LineFolding"),
        ("a\0b: x\n\nbody", "FieldName"),
        ("PHP Warning:  x in y on line 1\n\nbody", "FieldName"),
        // An attacker can smuggle a second field behind a carriage return that ends no line.
        ("Content-Type: a/b\rSet-Cookie: x\n\nbody", "FieldValue"),
        ("Content-Type: a\0b\n\nbody", "FieldValue"),
        ("Content-Type: a\x7fb\n\nbody", "FieldValue"),
        ("Content-Type: a/b\nContent-Length: 4\nContent-Length: 5\n\nbody", "Repeated"),
        ("Location:\n\nbody", "Location"),
        ("Content-Type: a/b\nTransfer-Encoding: chunked\n\nbody", "TransferCoding"),
        ("Status: OK\n\nbody", "Status"),
        ("Status: 20\n\nbody", "Status"),
        ("Status: 2000\n\nbody", "Status"),
        ("Status: 100 Continue\n\nbody", "Status"),
        ("Status: 600 x\n\nbody", "Status"),
        ("Status: +20\n\nbody", "Status"),
        ("Status:\n\nbody", "Status"),
    ] {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

#[test]
fn bounds_are_exact() {
    let limits = HeadLimits { bytes: 40, fields: 3 };
    let read = |output: &str| HeadReader::new(limits).read(output.as_bytes());
    let fill = |bytes: usize| {
        let start = "Content-Type: a/b\nX: ";
        format!("{start}{}\n\n", "x".repeat(bytes - start.len() - 2))
    };
    assert!(matches!(read(&fill(40)), Ok(Some((_, 40)))));
    assert_eq!(read(&fill(41)), Err(BadHead::TooLong));
    assert_eq!(read(&"x".repeat(39)), Ok(None));
    assert_eq!(read(&"x".repeat(40)), Err(BadHead::TooLong));
    assert!(matches!(read("Status: 200\na:\nb:\n\n"), Ok(Some(_))));
    assert_eq!(read("Status: 200\na:\nb:\nc:\n\n"), Err(BadHead::TooManyFields));
}

proptest! {
    #![proptest_config(fixed_cases(500))]

    #[test]
    fn the_verdict_does_not_depend_on_cuts_and_nothing_panics(
        lines in proptest::collection::vec("(Content-Type: a/b|Status: [0-9]{2,4} x|Location: /?[a-z]|X-[A-Z]: .{0,9}|.{0,12})(\r?\n|\r)", 0..6),
        end in "(\r?\n)?",
        step in 1usize..20,
    ) {
        let output = [lines.concat(), end, "body".into()].concat();
        let whole = read(output.as_bytes());
        prop_assert_eq!(&read_in(output.as_bytes(), step), &whole);
        if let Ok(Some((ProgramAnswer::Document(head), _))) = whole {
            let mut out = Vec::new();
            head.write(&mut out);
            // As many line ends as there are lines, and none elsewhere.
            let text = String::from_utf8_lossy(&out).replace("\r\n", "|");
            prop_assert!(!text.contains(['\r', '\n', '\0']), "{}", text);
        }
    }
}
