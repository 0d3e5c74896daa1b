//! The access log and the words on standard error, as they leave the process.

use crate::support::{Content, Io, Server, Site, noise, on_both, until};
use rustix::process::Signal;
use std::fs;

on_both!(
    each_answer_has_a_line,
    what_a_client_sends_cannot_forge_a_line,
    a_file_is_opened_anew_on_sighup,
    off_writes_nothing,
);

/// The part of a line behind the time; checks the rest.
#[track_caller]
fn without_time(line: &str) -> &str {
    let rest = line.strip_prefix("127.0.0.1 - - [").unwrap_or_else(|| panic!("{line:?}"));
    let (time, rest) = rest.split_once("] ").unwrap_or_else(|| panic!("{line:?}"));
    assert!(time.len() == 26 && time.ends_with(" +0000"), "{line:?}");
    rest
}

fn each_answer_has_a_line(io: Io) {
    let site = Site::new();
    site.write("a.txt", b"0123456789");
    site.write("large.bin", &noise(1, 200_000));
    site.write("folder/x", b"");
    let server = Server::start(io, &site, &["--log", "-"]);
    let mut client = server.client();
    let tag = client.get("/a.txt").field("etag").to_owned();
    client.get_with("/a.txt", &["Referer: http://from/", "User-Agent: test/1"]);
    client.request("HEAD", "/a.txt", &[]);
    client.get_with("/a.txt", &[&format!("If-None-Match: {tag}")]);
    client.get_with("/a.txt", &["Range: bytes=2-4"]);
    client.get("/large.bin?q");
    client.get("/folder");
    let listed = client.get("/folder/").body.len();
    let missing = client.get("/missing").body.len();
    let refused = client.request("PUT", "/a.txt", &[]).body.len();
    client.request("OPTIONS", "*", &[]);
    client.send("GET / HTTP/1.1\r\n\r\n");
    let bad = client.read(Content::Follows).body.len();
    client.ends_silently();
    server.stops_clean();
    let expected = [
        "\"GET /a.txt HTTP/1.1\" 200 10 \"-\" \"-\"".to_owned(),
        "\"GET /a.txt HTTP/1.1\" 200 10 \"http://from/\" \"test/1\"".to_owned(),
        "\"HEAD /a.txt HTTP/1.1\" 200 - \"-\" \"-\"".to_owned(),
        "\"GET /a.txt HTTP/1.1\" 304 - \"-\" \"-\"".to_owned(),
        "\"GET /a.txt HTTP/1.1\" 206 3 \"-\" \"-\"".to_owned(),
        "\"GET /large.bin?q HTTP/1.1\" 200 200000 \"-\" \"-\"".to_owned(),
        "\"GET /folder HTTP/1.1\" 301 ".to_owned(),
        format!("\"GET /folder/ HTTP/1.1\" 200 {listed} "),
        format!("\"GET /missing HTTP/1.1\" 404 {missing} "),
        format!("\"PUT /a.txt HTTP/1.1\" 405 {refused} "),
        "\"OPTIONS * HTTP/1.1\" 204 - ".to_owned(),
        format!("\"GET / HTTP/1.1\" 400 {bad} "),
    ];
    until("all lines are there", || (server.stdout().lines().count() >= expected.len()).then_some(()));
    let log = server.stdout();
    let lines: Vec<_> = log.lines().map(without_time).collect();
    assert_eq!(lines.len(), expected.len(), "{log}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected.as_str()), "{line:?} is not {expected:?}");
    }
    assert!(server.stderr().contains("vermeil: stopped: 12 requests, 0 answers cut"), "{server:?}");
    assert!(server.stderr().contains(" 0 log records dropped"), "{server:?}");
}

fn what_a_client_sends_cannot_forge_a_line(io: Io) {
    let site = Site::new();
    let server = Server::start(io, &site, &["--log", "-"]);
    let mut client = server.client();
    client.get_with("/\"%0a\\", &["User-Agent: a\" 200 1 \"\\\tb\u{e9}"]);
    client.send("GET /\r127.0.0.1 forged HTTP/1.1\r\n\r\n");
    client.read(Content::Follows);
    server.stops_clean();
    let log = server.stdout();
    let lines: Vec<_> = log.lines().map(without_time).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].starts_with(r#""GET /\x22%0a\x5C HTTP/1.1" 404 "#), "{log}");
    assert!(lines[0].ends_with(r#" "a\x22 200 1 \x22\x5C\x09b\xC3\xA9""#), "{log}");
    assert!(lines[1].contains("\" 400 "), "{log}");
}

fn a_file_is_opened_anew_on_sighup(io: Io) {
    let site = Site::new();
    let (log, old) = (site.outside("access.log"), site.outside("access.log.1"));
    let server = Server::start(io, &site, &["--log", log.to_str().unwrap()]);
    let mut client = server.client();
    let has = |path: &std::path::Path, words: &str| {
        until(words, || fs::read_to_string(path).ok()?.contains(words).then_some(()));
    };
    client.get("/first");
    has(&log, "GET /first ");
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    until("the file is there again", || log.exists().then_some(()));
    client.get("/second");
    has(&log, "GET /second ");
    server.signal(Signal::USR1);
    client.get("/third");
    has(&log, "GET /third ");
    server.stops_clean();
    let text = [fs::read_to_string(&old).unwrap(), fs::read_to_string(&log).unwrap()].concat();
    assert_eq!(text.lines().map(without_time).count(), 3, "{text}");
    assert!(!fs::read_to_string(&old).unwrap().contains("/second"));
}

fn off_writes_nothing(io: Io) {
    let site = Site::new();
    let server = Server::start(io, &site, &["--log", "off"]);
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
    assert_eq!(server.stdout(), "");
}
