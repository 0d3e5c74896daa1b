//! Answers of programs that are corrected, reported or refused, and clients that close their
//! sending side.

use super::{get, kill, mode, script, serve, site, spawner};
use crate::support::{ConnectionEnd, ExpectedContent, Io, TestClient, TestSite, on_both, on_usual, until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::Write as _,
    process::Command,
    time::{Duration, Instant},
};

on_both! {
    cut_answer_without_length_is_reset,
    stop_resets_answer_without_length,
    killed_program_cuts_answer_despite_late_news,
    death_of_young_spawner_cuts_answer,
    long_content_is_refused_before_its_upload,
    half_closed_client_gets_its_answer,
}

on_usual! {
    answer_that_ends_in_drain_says_close,
    odd_answers_pass_and_are_logged,
    each_bad_head_is_logged_with_request,
    cookie_beside_local_redirect_reaches_client,
}

/// Regression: answers that other servers accept were 502 here, or parts were lost without a
/// notice.
fn odd_answers_pass_and_are_logged(io: Io) {
    let site = site();
    let answers = [
        ("untyped", "X-Foo: 1\\n\\nbody", 200, ""),
        ("empty", "\\nbody", 200, ""),
        (
            "cgitb",
            "<!--: spam\\nContent-Type: text/html\\n\\nbody",
            200,
            "\"<!--: spam\" of its head has no valid name",
        ),
        ("space", "Content-Type : a/b\\n\\nbody", 200, ""),
        ("crcrlf", "Content-Type: a/b\\r\\r\\n\\r\\r\\nbody", 200, ""),
        ("twice", "Status: 404\\nStatus: 403\\n\\nbody", 403, "Status stands in its head twice"),
        ("length", "Content-Length: many\\n\\nbody", 200, "Content-Length \"many\" is not a decimal number"),
        ("more", "Content-Length: 4\\n\\nbody and more", 200, "more content than its Content-Length"),
        (
            "upgrade",
            "Upgrade: h2c\\nContent-Type: a/b\\n\\nbody",
            200,
            "the field Upgrade is not for clients",
        ),
    ];
    for (name, answer, ..) in answers {
        script(&site, &format!("cgi-bin/{name}"), &format!("printf '{answer}'"));
    }
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for (name, _, status, told) in answers {
        let response = get(&mut client, &format!("/cgi-bin/{name}"));
        assert_eq!((response.status, response.text()), (status, "body"), "{name}");
        if !told.is_empty() {
            server.says(&format!(": test: GET /cgi-bin/{name}: "));
            server.says(told);
        }
    }
    assert_eq!(get(&mut client, "/index.html").status, 200, "on the same connection");
    server.stops_clean();
}

fn each_bad_head_is_logged_with_request(io: Io) {
    let site = site();
    let faults = [
        ("name", "hello world\\n\\n", "a line of its head is not a name, a colon and a value"),
        ("folded", "Content-Type: a/b\\n folded\\n\\n", "a line of its head starts with white space"),
        ("line", "HTTP/1.1 200 OK\\n\\n", "its head begins with a status line"),
        ("value", "X: a\\rb\\n\\n", "a value in its head holds a control character"),
        (
            "lengths",
            "Content-Length: 1\\nContent-Length: 2\\n\\n",
            "Content-Length, X-Sendfile or X-Accel-Redirect stands in its head twice",
        ),
        ("status", "Status: OK\\n\\n", "Status is not a number from 200 to 599 and a reason"),
        ("location", "Location:\\n\\n", "Location is empty, or no path that this server can answer"),
        ("coding", "Transfer-Encoding: chunked\\n\\n", "Transfer-Encoding is not the program"),
        ("short", "Content-Type: a/b\\n", "it ended before its head did"),
    ];
    for (name, head, _) in faults {
        script(&site, &format!("cgi-bin/{name}"), &format!("printf '{head}'"));
    }
    script(&site, "cgi-bin/long", "printf 'X: '; head -c 70000 /dev/zero | tr '\\0' x; printf '\\n\\n'");
    script(&site, "cgi-bin/many", "seq -f 'X-%g: y' 201; echo");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    let bounds =
        [("long", "", "its head is longer than 64 KiB"), ("many", "", "its head has more than 200 fields")];
    for (name, _, reason) in faults.into_iter().chain(bounds) {
        assert_eq!(get(&mut client, &format!("/cgi-bin/{name}")).status, 502, "{name}");
        server.says(&format!(": test: GET /cgi-bin/{name}: {reason}"));
    }
    assert!(
        server.stderr().contains("vermeil: cgi ") && !server.stderr().contains("vermeil: php "),
        "{server:?}"
    );
    server.stops_clean();
}

/// Regression: no user could log in, because the answer was the page without the cookie.
fn cookie_beside_local_redirect_reaches_client(io: Io) {
    let site = site();
    site.write("home.html", b"home");
    script(&site, "cgi-bin/login", "printf 'Set-Cookie: s=1\\nLocation: /home.html\\n\\n'");
    script(&site, "cgi-bin/plain", "printf 'Content-Type: text/html\\nLocation: /home.html\\n\\n'");
    let server = serve(io, &site, &[]);
    let login = get(&mut server.client(), "/cgi-bin/login");
    assert_eq!(
        (login.status, login.field("location"), login.field("set-cookie")),
        (302, "/home.html", "s=1")
    );
    let plain = get(&mut server.client(), "/cgi-bin/plain");
    assert_eq!((plain.status, plain.text()), (200, "home"));
    server.stops_clean();
}

/// Regression: the server took a client that closed its sending side for a client that had left.
fn half_closed_client_gets_its_answer(io: Io) {
    let site = site();
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    mode(&fifo, 0o666);
    let wait = format!("read line < {}; printf 'Content-Type: a/b\\n\\nlate'", fifo.display());
    script(&site, "cgi-bin/late", &wait);
    script(&site, "cgi-bin/nph-late", &format!("read line < {}; printf 'raw'", fifo.display()));
    script(&site, "cgi-bin/now", "printf 'Content-Type: a/b\\n\\nnow'");
    script(&site, "cgi-bin/bad", "echo hello");
    let server = serve(io, &site, &["--cgi-nph"]);
    let mut at_once = server.client();
    at_once.ask("GET", "/cgi-bin/now", &[]);
    at_once.finish();
    assert_eq!(at_once.read(ExpectedContent::Follows).text(), "now");
    let mut bad = server.client();
    bad.ask("GET", "/cgi-bin/bad", &[]);
    bad.finish();
    assert_eq!(bad.read(ExpectedContent::Follows).status, 502);
    // After a request that the server answers at once, and with a request after it.
    let mut several = server.client();
    several.send(
        "GET /index.html HTTP/1.1\r\nHost: h\r\n\r\nGET /cgi-bin/late HTTP/1.1\r\nHost: h\r\n\r\n\
         GET /index.html HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    several.finish();
    assert_eq!(several.read(ExpectedContent::Follows).status, 200);
    fs::write(&fifo, "go\n").expect("the program reads it");
    assert_eq!(several.read(ExpectedContent::Follows).text(), "late");
    assert_eq!(several.read(ExpectedContent::Follows).status, 200);
    several.ends_silently();
    let mut raw = server.client();
    raw.ask("GET", "/cgi-bin/nph-late", &[]);
    raw.finish();
    fs::write(&fifo, "go\n").expect("the program reads it");
    assert_eq!(raw.read_to_end(), ConnectionEnd::Closed);
    assert_eq!(raw.received(), b"raw");
    server.stops_clean();
}

/// Regression: the client was asked for its content by 100 Continue, and then refused.
fn long_content_is_refused_before_its_upload(io: Io) {
    let site = site();
    script(&site, "cgi-bin/echo", "echo Content-Type: a/b; echo; cat");
    let server = serve(io, &site, &["--programs-body-bytes", "100"]);
    let head = |bytes: usize| {
        format!(
            "POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {bytes}\r\n\r\n"
        )
    };
    let mut client = server.client();
    client.send(head(101));
    let refused = client.read(ExpectedContent::Follows);
    assert_eq!((refused.status, refused.closes()), (413, true));
    client.ends_silently();
    server.says("the content of the request has more than 100 bytes");
    let mut client = server.client();
    client.send(head(100));
    let asked = b"HTTP/1.1 100 Continue\r\n\r\n";
    client.receive_at_least(asked.len());
    assert_eq!(client.received(), asked);
    client.discard();
    client.send([b'x'; 100]);
    assert_eq!(client.read(ExpectedContent::Follows).body, [b'x'; 100]);
    server.stops_clean();
}

/// A FIFO that programs may read.
fn fifo(site: &TestSite) -> String {
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    mode(&fifo, 0o666);
    fifo.display().to_string()
}

/// Receives until the received bytes end with `end`.
fn receive_until(client: &mut TestClient, end: &[u8]) {
    while !client.received().ends_with(end) {
        client.receive_at_least(client.received().len() + 1);
    }
}

/// Regression: after 100 ms without news of the program's end, the answer counted as complete.
fn killed_program_cuts_answer_despite_late_news(io: Io) {
    let site = site();
    script(&site, "cgi-bin/begun", "echo Content-Type: a/b; echo; echo $$; exec sleep 1000");
    let server = serve(io, &site, &[]);
    let spawner = Pid::from_raw(spawner(&server).cast_signed()).expect("a number above zero");
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/begun", &[]);
    receive_until(&mut client, b"\n\r\n");
    let text = String::from_utf8_lossy(client.received()).into_owned();
    let program = text.lines().rfind(|line| !line.is_empty()).expect("the number of the program");
    kill_process(spawner, Signal::STOP).expect("it runs");
    kill(program.parse().expect("a number"));
    // The news is late by several times the pause between two spawners.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        assert!(!client.is_readable(), "the server knows nothing of the end yet");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    kill_process(spawner, Signal::CONT).expect("it runs");
    assert_eq!(client.read_to_end(), ConnectionEnd::Closed);
    assert!(!client.received().ends_with(b"0\r\n\r\n"), "{}", client.received().escape_ascii());
    server.stops_clean();
}

/// Regression: the keeper pauses after the death of a young spawner, and the news came only then.
fn death_of_young_spawner_cuts_answer(io: Io) {
    let site = site();
    script(&site, "cgi-bin/begun", "echo Content-Type: a/b; echo; echo begun; exec sleep 1000");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/begun", &[]);
    receive_until(&mut client, b"begun\n\r\n");
    kill(spawner(&server));
    assert_eq!(client.read_to_end(), ConnectionEnd::Closed);
    assert!(!client.received().ends_with(b"0\r\n\r\n"), "{}", client.received().escape_ascii());
    server.stops_clean();
}

/// Regression: only the beginning of a request decided whether its answer says so (RFC 9112,
/// section 9.6).
fn answer_that_ends_in_drain_says_close(io: Io) {
    let site = site();
    let fifo = fifo(&site);
    script(&site, "cgi-bin/works", &format!("read line < {fifo}; printf 'Content-Type: a/b\\n\\ndone'"));
    script(&site, "cgi-bin/fails", &format!("read line < {fifo}; exit 3"));
    for (name, status) in [("works", 200), ("fails", 502)] {
        let server = serve(io, &site, &[]);
        let mut client = server.client();
        client.ask("GET", &format!("/cgi-bin/{name}"), &[]);
        let mut pipe = fs::File::options().write(true).open(&fifo).expect("the program reads it");
        server.signal(Signal::TERM);
        until("the server drains", || TestClient::try_connect(server.addr()).is_none().then_some(()));
        pipe.write_all(b"go\n").expect("the program reads it");
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!((answer.status, answer.closes()), (status, true), "{name}");
        client.ends_silently();
        assert_eq!(server.wait(), Some(0));
    }
}

/// Regression: the orderly end of the connection made the first part a complete answer, for example
/// for a proxy.
fn cut_answer_without_length_is_reset(io: Io) {
    let site = site();
    let fifo = fifo(&site);
    let lines = format!("printf 'Content-Type: a/b\\n\\nfirst part\\n'; read line < {fifo}; kill -9 $$");
    script(&site, "cgi-bin/dies", &lines);
    let whole = lines.replace("Content-Type", "HTTP/1.1 200 OK\\r\\nContent-Type");
    script(&site, "cgi-bin/nph-dies", &whole);
    let server = serve(io, &site, &["--cgi-nph"]);
    for request in [
        "GET /cgi-bin/dies HTTP/1.0\r\n\r\n",
        "GET /cgi-bin/nph-dies HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /cgi-bin/nph-dies HTTP/1.0\r\n\r\n",
    ] {
        let mut client = server.client();
        client.send(request);
        receive_until(&mut client, b"first part\n");
        fs::write(&fifo, "go\n").expect("the program reads it");
        assert_eq!(client.read_to_end(), ConnectionEnd::Reset, "{request}");
        assert!(client.received().ends_with(b"first part\n"), "{request}");
    }
    server.stops_clean();
}

/// Regression: the end of a drain closed the connection, so the client took the part for the whole.
fn stop_resets_answer_without_length(io: Io) {
    let site = site();
    script(&site, "cgi-bin/x", "printf 'Content-Type: a/b\\n\\nfirst part\\n'; sleep 1000");
    script(&site, "cgi-bin/nph-x", "printf 'HTTP/1.1 200 OK\\r\\n\\r\\nfirst part\\n'; sleep 1000");
    let server = serve(io, &site, &["--cgi-nph", "--drain-timeout", "100ms"]);
    let requests = ["GET /cgi-bin/x HTTP/1.0\r\n\r\n", "GET /cgi-bin/nph-x HTTP/1.1\r\nHost: h\r\n\r\n"];
    let mut clients = requests.map(|request| {
        let mut client = server.client();
        client.send(request);
        receive_until(&mut client, b"first part\n");
        client
    });
    assert_eq!(server.stop(), Some(4), "connections were cut: {server:?}");
    let ends = clients.each_mut().map(TestClient::read_to_end);
    assert_eq!(ends, [ConnectionEnd::Reset, ConnectionEnd::Reset]);
}
