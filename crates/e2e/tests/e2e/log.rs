//! The access log and the messages on standard error.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, noise, on_usual, until};
use rustix::process::Signal;
use std::fs;

on_usual!(
    each_answer_has_a_line,
    client_cannot_forge_log_line,
    a_file_is_opened_anew_on_sighup,
    off_writes_nothing,
    each_request_has_one_line_after_any_end,
    refused_request_keeps_its_fields,
);

/// The part of a line after the time; checks the rest.
#[track_caller]
fn without_time(line: &str) -> &str {
    let rest = line.strip_prefix("127.0.0.1 - - [").unwrap_or_else(|| panic!("{line:?}"));
    let (time, rest) = rest.split_once("] ").unwrap_or_else(|| panic!("{line:?}"));
    assert!(time.len() == 26 && time.ends_with(" +0000"), "{line:?}");
    rest
}

fn each_answer_has_a_line(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", b"0123456789");
    site.write("large.bin", &noise(1, 200_000));
    site.write("folder/x", b"");
    let server = TestServer::start(io, &site, &["--log", "-"]);
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
    let bad = client.read(ExpectedContent::Follows).body.len();
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

fn client_cannot_forge_log_line(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--log", "-"]);
    let mut client = server.client();
    client.get_with("/\"%0a\\", &["User-Agent: a\" 200 1 \"\\\tb\u{e9}"]);
    client.send("GET /\r127.0.0.1 forged HTTP/1.1\r\n\r\n");
    client.read(ExpectedContent::Follows);
    server.stops_clean();
    let log = server.stdout();
    let lines: Vec<_> = log.lines().map(without_time).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].starts_with(r#""GET /\x22%0a\x5C HTTP/1.1" 404 "#), "{log}");
    assert!(lines[0].ends_with(r#" "a\x22 200 1 \x22\x5C\x09b\xC3\xA9""#), "{log}");
    assert!(lines[1].contains("\" 400 "), "{log}");
}

fn a_file_is_opened_anew_on_sighup(io: Io) {
    let site = TestSite::new();
    let (log, old) = (site.outside("access.log"), site.outside("access.log.1"));
    let server = TestServer::start(io, &site, &["--log", log.to_str().unwrap()]);
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
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--log", "off"]);
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
    assert_eq!(server.stdout(), "");
}

/// A site whose programs another user may run, and a server for the site.
fn with_programs(io: Io, args: &[&str]) -> (TestSite, TestServer, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let site = TestSite::new();
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    let ran = site.outside("ran");
    fs::create_dir(&ran).expect("a folder");
    // Marks that the program runs, then waits for ever.
    let wait = format!("#!/bin/sh\n: > {0}/$QUERY_STRING\nsleep 1000\n", ran.display());
    let begun = format!(
        "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nbegun'\n: > {0}/$QUERY_STRING\n\
         while :; do sleep 0.05; echo more; done\n",
        ran.display()
    );
    let now = "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nnow'\n";
    site.write("large.bin", &noise(1, 20_000_000));
    for (name, text) in [("wait", &*wait), ("begun", &*begun), ("now", now), ("bad", "#!/bin/sh\necho bad\n")]
    {
        site.write(&format!("cgi-bin/{name}"), text.as_bytes());
        open(&site.path(&format!("cgi-bin/{name}")), 0o755);
    }
    for folder in [site.outside(""), site.root(), site.path("cgi-bin")] {
        open(&folder, 0o755);
    }
    open(&ran, 0o777);
    let mut all = vec!["--log", "-", "--cgi", "/cgi-bin/"];
    if rustix::process::geteuid().is_root() {
        all.extend(["--cgi-user", "nobody"]);
    }
    all.extend(args);
    let server = TestServer::start(io, &site, &all);
    (site, server, ran)
}

/// Regression: the programs of clients that left had run, but the log had no line for their
/// requests.
fn each_request_has_one_line_after_any_end(io: Io) {
    let limits = ["--cgi-timeout", "100s", "--body-timeout", "500ms", "--drain-timeout", "100ms"];
    let (_site, server, ran) = with_programs(io, &limits);
    let runs = |name: &str| until("the program runs", || ran.join(name).exists().then_some(()));
    let line = |words: &str| {
        until(words, || server.stdout().contains(words).then_some(()));
    };
    // The client leaves at each stage: while the program is silent, amid the answer, amid the
    // request's content, amid the head, amid a file.
    let mut silent = server.client();
    silent.ask("GET", "/cgi-bin/wait?silent", &[]);
    runs("silent");
    drop(silent);
    line("\"GET /cgi-bin/wait?silent HTTP/1.1\" 499 - ");
    let mut amid = server.client();
    amid.ask("GET", "/cgi-bin/begun?amid", &[]);
    runs("amid");
    amid.receive_at_least(20);
    drop(amid);
    line("\"GET /cgi-bin/begun?amid HTTP/1.1\" 200 ");
    let mut content = server.client();
    content.send("POST /cgi-bin/now?content HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1");
    drop(content);
    line("\"POST /cgi-bin/now?content HTTP/1.1\" 499 - ");
    let mut head = server.client();
    head.send("GET /head HTTP/1.1\r\nUser-Agent: half\r\nHost");
    drop(head);
    line("\"GET /head HTTP/1.1\" 499 - \"-\" \"half\"");
    let mut file = server.narrow_client();
    file.ask("GET", "/large.bin?left", &[]);
    file.receive_at_least(1);
    drop(file);
    line("\"GET /large.bin?left HTTP/1.1\" 200 ");
    // A half-closed client, a late client, and a bad answer.
    let mut half = server.client();
    half.ask("GET", "/cgi-bin/now?half", &[]);
    half.finish();
    assert_eq!(half.read_to_end(), super::support::ConnectionEnd::Closed);
    line("\"GET /cgi-bin/now?half HTTP/1.1\" 200 3 ");
    let mut late = server.client();
    late.send("POST /cgi-bin/now?late HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1");
    assert_eq!(late.read(ExpectedContent::Follows).status, 408);
    line("\"POST /cgi-bin/now?late HTTP/1.1\" 408 ");
    assert_eq!(server.get("/cgi-bin/bad").status, 502);
    // A client that asks for nothing has no line.
    drop(server.client());
    // The server cuts the remaining requests when the server stops.
    let mut cut = server.client();
    cut.ask("GET", "/cgi-bin/wait?cut", &[]);
    runs("cut");
    let mut begun = server.client();
    begun.ask("GET", "/cgi-bin/begun?cut-amid", &[]);
    begun.receive_at_least(20);
    // Something was cut.
    assert_eq!(server.stop(), Some(4));
    server.says("vermeil: stopped: 10 requests");
    let log = server.stdout();
    assert_eq!(log.lines().count(), 10, "{log}");
    assert!(log.contains("\"GET /cgi-bin/wait?cut HTTP/1.1\" 503 - "), "{log}");
    assert!(log.contains("\"GET /cgi-bin/begun?cut-amid HTTP/1.1\" 200 "), "{log}");
}

/// Regression: the line had neither field, and no notice named the limit.
fn refused_request_keeps_its_fields(io: Io) {
    let limits =
        ["--header-bytes", "2K", "--header-count", "5", "--body-bytes", "10", "--request-line-bytes", "200"];
    let fields = "Host: test\r\nReferer: http://from/\r\nUser-Agent: test/1\r\n";
    let long = format!("X: {}\r\n", "x".repeat(3000));
    let many = "X: y\r\n".repeat(6);
    for (line, more, status, notice) in [
        (
            "GET /index.html",
            &*long,
            431,
            "the head of the request has more than 2048 bytes; that limit is changed by --header-bytes, or header_bytes in [limits] (431)",
        ),
        ("GET /index.html", &*many, 431, "more than 5 fields; that limit is changed by --header-count"),
        (
            "GET /index.html",
            "Content-Length: 100000000\r\n",
            413,
            "GET /index.html: the content of the request has more than 67108864 bytes; that limit is changed by --programs-body-bytes, or body_bytes in [programs] (413)",
        ),
        (
            "POST /cgi-bin/now",
            "Content-Length: 100000000\r\n",
            413,
            "more than 67108864 bytes; that limit is changed by --programs-body-bytes (413)",
        ),
    ] {
        // Each kind of notice has its own rate limit.
        let (_site, server, _ran) = with_programs(io, &limits);
        let mut client = server.client();
        client.send(format!("{line} HTTP/1.1\r\n{fields}{more}\r\n"));
        assert_eq!(client.read(ExpectedContent::Follows).status, status, "{line}");
        server.says(notice);
        server.stops_clean();
        let log = server.stdout();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains(&format!("\"{line} HTTP/1.1\" {status} ")), "{log}");
        assert!(log.trim_end().ends_with("\"http://from/\" \"test/1\""), "{log}");
    }
}
