//! Fields of the access log that the client does not send: the duration, the name of the request,
//! the end; and lines by a template.

use crate::support::{Io, PATIENCE, TestServer, TestSite, on_usual, until, vermeil};
use serde_json::Value;
use std::fs;
use std::os::unix::{fs::PermissionsExt as _, net::UnixDatagram};

on_usual!(
    template_gives_each_field_of_a_line,
    json_line_has_duration_and_end,
    line_has_time_of_program,
    line_has_name_of_user,
    wrong_format_is_refused,
    daemon_gets_each_line,
    wrong_target_is_refused,
);

/// A host with CGI.
fn host() -> String {
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    format!("[[host]]\nroot = \"site\"\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n{user}")
}

/// A server whose log has this format, and the lines of its log once there are `count`.
fn lines(site: &TestSite, server: &TestServer, count: usize) -> Vec<String> {
    let log = site.outside("access.log");
    let lines = until("the lines are there", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() >= count).then(|| text.lines().map(str::to_owned).collect())
    });
    server.stops_clean();
    lines
}

fn logging(io: Io, site: &TestSite, format: &str) -> TestServer {
    logging_to(io, site, site.outside("access.log").to_str().expect("UTF-8"), format)
}

fn logging_to(io: Io, site: &TestSite, target: &str, format: &str) -> TestServer {
    let file = site.configure(io, &host());
    let text = fs::read_to_string(&file).unwrap();
    let log = format!("log = {target:?}\nlog_format = {format:?}");
    fs::write(&file, text.replace("log = \"off\"", &log)).unwrap();
    TestServer::of_file(&file)
}

fn template_gives_each_field_of_a_line(io: Io) {
    let site = TestSite::new();
    site.write("page", b"12345");
    let format = "{client}|{host}|{request}|{status}|{body_bytes}|{referer}|{request_id}|{duration_s}|{program_s}|{end}";
    let server = logging(io, &site, format);
    let mut client = server.client();
    assert_eq!(client.get_with("/page", &["Referer: http://a.example/|"]).status, 200);
    assert_eq!(client.get("/none").status, 404);
    let lines = lines(&site, &server, 2);
    let fields: Vec<&str> = lines[0].split('|').collect();
    let [client, host, request, status, bytes, referer, empty, id, duration, program, end] = fields[..]
    else {
        panic!("{lines:?}");
    };
    assert_eq!([client, request, status, bytes], ["127.0.0.1", "GET /page HTTP/1.1", "200", "5"]);
    assert!(!host.is_empty() && referer == "http://a.example/" && empty.is_empty(), "{lines:?}");
    assert!(id.len() == 16 && u64::from_str_radix(id, 16).is_ok(), "{id}");
    assert!(duration.parse::<f64>().is_ok_and(|seconds| seconds > 0.0 && seconds < 10.0), "{duration}");
    assert_eq!([program, end], ["-", "complete"]);
    assert_ne!(lines[1].split('|').nth(6), Some(id), "each request has a name of its own");
}

fn json_line_has_duration_and_end(io: Io) {
    let site = TestSite::new();
    site.write("large", &vec![b'x'; 64 << 20]);
    let server = logging(io, &site, "json");
    let mut client = server.client();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_readable();
    drop(client);
    let lines = lines(&site, &server, 1);
    let line: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!((&line["status"], &line["end"]), (&200.into(), &"aborted".into()), "{line}");
    assert!(line["body_bytes"].as_u64().expect("a number") < 64 << 20, "{line}");
    assert!(line["duration_s"].as_f64().expect("a number") > 0.0, "{line}");
    assert_eq!(line["program_s"], Value::Null);
}

fn line_has_name_of_user(io: Io) {
    let site = TestSite::new();
    site.write("page", b"page");
    // The password is "right".
    let users = include_str!("../../../routing/src/access/htpasswd/users");
    fs::write(site.outside("users"), users).unwrap();
    let file = site.configure(io, "[[host]]\nroot = \"site\"\naccess.users = \"users\"\n");
    let text = fs::read_to_string(&file).unwrap();
    let log = format!("log = {:?}\nlog_format = \"combined\"", site.outside("access.log"));
    fs::write(&file, text.replace("log = \"off\"", &log)).unwrap();
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    let right = "Authorization: Basic YmNyeXB0OnJpZ2h0";
    assert_eq!(client.get_with("/page", &[right]).status, 200);
    assert_eq!(client.get("/page").status, 401);
    let lines = lines(&site, &server, 2);
    assert!(lines[0].starts_with("127.0.0.1 - bcrypt ["), "{lines:?}");
    assert!(lines[1].starts_with("127.0.0.1 - - ["), "{lines:?}");
}

fn wrong_format_is_refused(io: Io) {
    let site = TestSite::new();
    for (format, message) in [
        ("combind", "write `combined`, `vhost_combined`, `json`, or a text with fields"),
        ("{clinet}", "there is no field {clinet}; did you mean {client}?"),
        ("{client", "a brace has no counterpart"),
    ] {
        let file = site.configure(io, &host());
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("log_format = {format:?}\n{text}")).unwrap();
        let output = vermeil(&["check", "--config", file.to_str().unwrap()]).output().expect("it runs");
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message) && said.contains("vermeil.toml:1:14"), "{format}: {said}");
    }
}

fn line_has_time_of_program(io: Io) {
    let site = TestSite::new();
    site.write("cgi-bin/program", b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$UNIQUE_ID\"\n");
    fs::set_permissions(site.path("cgi-bin/program"), fs::Permissions::from_mode(0o755)).unwrap();
    let server = logging(io, &site, "{status} {request_id} {program_s} {duration_s}");
    let answer = server.get("/cgi-bin/program");
    assert_eq!(answer.status, 200, "{}", server.stderr());
    let id = answer.text().to_owned();
    let lines = lines(&site, &server, 1);
    let [status, request_id, program, duration] = lines[0].split(' ').collect::<Vec<_>>()[..] else {
        panic!("{lines:?}");
    };
    assert_eq!((status, request_id), ("200", &*id), "the program and the log name the request alike");
    let [program, duration] = [program, duration].map(|text| text.parse::<f64>().expect("seconds"));
    assert!(0.0 < program && program <= duration, "{lines:?}");
}

/// The messages of a daemon that keeps logs.
fn messages(daemon: &UnixDatagram, count: usize) -> Vec<String> {
    daemon.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut message = [0; 4096];
    let mut next = || {
        let length = daemon.recv(&mut message).expect("a message comes in time");
        String::from_utf8(message[..length].to_vec()).expect("text")
    };
    (0..count).map(|_| next()).collect()
}

fn daemon_gets_each_line(io: Io) {
    for (protocol, begin, end) in [
        ("syslog", "<30>vermeil[", " HTTP/1.1 200"),
        ("journald", "MESSAGE=", " HTTP/1.1 200\nPRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=vermeil\n"),
    ] {
        let site = TestSite::new();
        site.write("page", b"12345");
        let socket = site.outside("daemon");
        let target = format!("{protocol}:{}", socket.display());
        let server = logging_to(io, &site, &target, "{request} {status}");
        // The daemon starts later than the server.
        assert_eq!(server.get("/page").status, 200);
        server.says(&format!("cannot write the access log in {protocol}"));
        let daemon = UnixDatagram::bind(&socket).expect("a socket");
        assert_eq!(server.get("/page").status, 200);
        for message in messages(&daemon, 2) {
            assert!(message.starts_with(begin) && message.ends_with(end), "{message:?}");
            assert!(message.contains("GET /page"), "{message:?}");
        }
        server.stops_clean();
    }
}

fn wrong_target_is_refused(io: Io) {
    let site = TestSite::new();
    for target in ["syslog:relative", "journald:"] {
        let file = site.configure(io, &host());
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("log = \"off\"", &format!("log = {target:?}"))).unwrap();
        let output = vermeil(&["check", "--config", file.to_str().unwrap()]).output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(target) && said.contains("`syslog:/PATH` or `journald:/PATH`"), "{said}");
    }
}
