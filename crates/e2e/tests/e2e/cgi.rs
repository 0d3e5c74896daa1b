//! CGI with real programs: shell scripts, C, and PHP's own parsing of the variables.

mod after;
mod answers;
mod floods;
mod scripts;

use crate::support::{
    ConnectionEnd, ExpectedContent, Io, PATIENCE, Response, TestClient, TestServer, TestSite, noise, on_both,
    on_usual, until,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

on_both! {
    answer_before_upload_is_sent,
}

on_usual! {
    documents,
    every_variable,
    paths_and_queries,
    contents_arrive,
    contents_that_do_not_come_are_408,
    answers_stream_and_large_ones_arrive,
    redirects,
    bad_answers,
    file_without_program_is_refused,
    programs_are_never_sent_as_files,
    suffixes_name_programs_anywhere,
    error_output_is_logged_with_its_request,
    late_programs_are_killed,
    program_goes_on_after_its_answer,
    a_client_that_goes_takes_the_whole_group_along,
    a_host_has_its_bounds,
    programs_that_are_refused_take_no_place,
    whole_answers_of_nph_programs,
    a_spawner_killed_under_load_loses_no_request,
    without_spawner_files_are_still_served,
    nothing_is_left_when_the_server_stops,
    c_and_php,
    files_are_sent_from_allowed_folders,
}

/// A site whose programs another user may run.
fn site() -> TestSite {
    let site = TestSite::new();
    let root = site.root();
    for folder in [root.parent().expect("around it"), &root] {
        mode(folder, 0o755);
    }
    site
}

fn mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

fn script(site: &TestSite, name: &str, lines: &str) {
    site.write(name, format!("#!/bin/sh\n{lines}\n").as_bytes());
    mode(&site.path(name), 0o755);
    mode(site.path(name).parent().expect("in a folder"), 0o755);
}

/// A server with CGI below `/cgi-bin/`.
#[track_caller]
fn serve(io: Io, site: &TestSite, args: &[&str]) -> TestServer {
    let mut all = vec!["--cgi", "/cgi-bin/"];
    if rustix::process::geteuid().is_root() {
        all.extend(["--cgi-user", "nobody"]);
    }
    all.extend(args);
    TestServer::start(io, site, &all)
}

pub(crate) fn runs(number: u32) -> bool {
    let pid = Pid::from_raw(number.cast_signed()).expect("a number above zero");
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

pub(crate) fn kill(number: u32) {
    let pid = Pid::from_raw(number.cast_signed()).expect("a number above zero");
    kill_process(pid, Signal::KILL).expect("it runs");
}

pub(crate) fn children(number: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// The keeper of a server's spawner.
#[track_caller]
pub(crate) fn keeper(server: &TestServer) -> u32 {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_keeper = |pid: &u32| name(pid).trim() == "vermeil-keeper";
    until("the server has a keeper", || children(server.pid()).into_iter().find(is_keeper))
}

#[track_caller]
pub(crate) fn spawner(server: &TestServer) -> u32 {
    let keeper = keeper(server);
    until("the keeper has a spawner", || children(keeper).into_iter().next())
}

#[track_caller]
fn get(client: &mut TestClient, target: &str) -> Response {
    request(client, "GET", target)
}

#[track_caller]
fn request(client: &mut TestClient, method: &str, target: &str) -> Response {
    client.ask(method, target, &[]);
    client.read(ExpectedContent::Follows)
}

/// Regression: the upload threw the ready answer away, and each later answer of the connection came
/// for the wrong request.
fn answer_before_upload_is_sent(io: Io) {
    let site = site();
    site.write("small.txt", b"small");
    let echo = "out=$(cat)\nprintf 'Content-Type: text/x\\nContent-Length: %s\\n\\n%s' ${#out} \"$out\"";
    script(&site, "cgi-bin/echo", echo);
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    // The look-ups do not wait any more, so they send nothing.
    assert_eq!(get(&mut client, "/small.txt").text(), "small");
    assert_eq!(request(&mut client, "POST", "/cgi-bin/echo").text(), "");
    let pipeline = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n\
                    POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
    client.send(pipeline);
    assert_eq!(client.read(ExpectedContent::Follows).text(), "small");
    client.send("hello");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "hello");
    // A client that leaves amid its upload gets the answer before.
    client.send(format!("{pipeline}he"));
    client.finish();
    assert_eq!(client.read(ExpectedContent::Follows).text(), "small");
    client.read_to_end();
    server.stops_clean();
}

fn documents(io: Io) {
    let site = site();
    let hello = "printf 'Content-Type: text/x\\r\\nX-A: 1\\r\\nContent-Length: 5\\r\\n\\r\\nhello'";
    script(&site, "cgi-bin/hello", hello);
    script(&site, "cgi-bin/gone", "printf 'Status: 410 Gone for good\\nContent-Type: text/x\\n\\nno'");
    script(&site, "cgi-bin/none", "printf 'Status: 204\\n\\n'");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    let hello = get(&mut client, "/cgi-bin/hello");
    assert_eq!((hello.status, hello.text()), (200, "hello"));
    assert_eq!((hello.field("content-type"), hello.field("x-a")), ("text/x", "1"));
    assert_eq!(hello.field("content-length"), "5");
    let head = client.request("HEAD", "/cgi-bin/hello", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let gone = get(&mut client, "/cgi-bin/gone");
    assert_eq!((gone.status, gone.text()), (410, "no"));
    assert_eq!(get(&mut client, "/cgi-bin/none").status, 204);
    client.send("GET /cgi-bin/hello HTTP/1.1\r\nHost: h\r\n\r\nGET /index.html HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "hello");
    assert_eq!(client.read(ExpectedContent::Follows).status, 200, "a file behind it, on the same connection");
    server.stops_clean();
}

/// The environment that a program reports.
fn variables(response: &Response) -> Vec<(String, String)> {
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    response.text().lines().filter_map(pair).collect()
}

fn every_variable(io: Io) {
    let site = site();
    script(&site, "cgi-bin/env", "echo Content-Type: text/plain; echo; env | sort");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    client.send(
        "POST /cgi-bin/env/more%20path?a=b&c HTTP/1.1\r\nHost: example.org:8080\r\nContent-Type: text/x\r\n\
         Content-Length: 3\r\nX-Some-Thing: 1\r\nX_Some_Thing: 2\r\nProxy: evil\r\nCookie: a=1\r\n\r\nabc",
    );
    let response = client.read(ExpectedContent::Follows);
    let root = site.root().canonicalize().expect("it is there");
    let root = root.to_str().expect("text");
    let found = variables(&response);
    let of = |name: &str| found.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let port = server.addr().port().to_string();
    for (name, value) in [
        ("CONTENT_LENGTH", "3"),
        ("CONTENT_TYPE", "text/x"),
        ("DOCUMENT_ROOT", root),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_HOST", "example.org:8080"),
        ("HTTP_X_SOME_THING", "1"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PATH_INFO", "/more path"),
        ("PATH_TRANSLATED", &format!("{root}/more path")),
        ("QUERY_STRING", "a=b&c"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/cgi-bin/env/more%20path?a=b&c"),
        ("SCRIPT_FILENAME", &format!("{root}/cgi-bin/env")),
        ("SCRIPT_NAME", "/cgi-bin/env"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", &port),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
    ] {
        assert_eq!(of(name), Some(value), "{name} in {found:?}");
    }
    assert!(of("UNIQUE_ID").is_some_and(|id| id.len() == 16) && of("SERVER_SOFTWARE").is_some());
    assert_eq!(of("HTTP_PROXY"), None);
    assert_eq!(of("CARGO"), None, "nothing of the server's own");
    let cwd = get(&mut server.client(), "/cgi-bin/env");
    let pwd = variables(&cwd).into_iter().find(|(name, _)| name == "PWD").expect("the shell says it").1;
    assert_eq!(pwd, format!("{root}/cgi-bin"));
    assert!(!cwd.text().contains("CONTENT_LENGTH"));
}

fn paths_and_queries(io: Io) {
    let site = site();
    let show = "echo Content-Type: text/plain; echo; echo \"$SCRIPT_NAME|$PATH_INFO|$QUERY_STRING\"";
    script(&site, "cgi-bin/show", show);
    script(&site, "cgi-bin/sub/deep", show);
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for (target, expected) in [
        ("/cgi-bin/show", "/cgi-bin/show||"),
        ("/cgi-bin/show?x=%20y", "/cgi-bin/show||x=%20y"),
        ("/cgi-bin/show/", "/cgi-bin/show|/|"),
        ("/cgi-bin/show/a/b%2Fc/..?q", "/cgi-bin/show|/a/b/|q"),
        ("/cgi-bin/show/used_%2Fusr?q", "/cgi-bin/show|/used_/usr|q"),
        ("/cgi-bin/show/caf\u{e9}?q=\u{e9}", "/cgi-bin/show|/caf\u{e9}|q=%C3%A9"),
        ("/cgi-bin/sub/deep/x.y", "/cgi-bin/sub/deep|/x.y|"),
        ("/cgi-bin/./sub//deep", "/cgi-bin/sub/deep||"),
    ] {
        let response = get(&mut client, target);
        assert_eq!((response.status, response.text().trim_end()), (200, expected), "{target}");
    }
    // No name of a file holds a slash.
    for target in ["/cgi-bin/show%2Fx", "/cgi-bin%2Fshow", "/cgi-bin/sub%2Fdeep", "/cgi-bin/x%2F../show"] {
        assert_eq!(get(&mut client, target).status, 404, "{target}");
    }
}

fn contents_arrive(io: Io) {
    let site = site();
    script(&site, "cgi-bin/echo", "echo Content-Type: x/y; echo; cat");
    script(&site, "cgi-bin/deaf", "echo Content-Type: x/y; echo; echo deaf");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    for bytes in [0, 1, 1000, 65_536, 65_537, 3_000_000] {
        let content = noise(bytes as u64, bytes);
        client.send(format!("POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"));
        client.send(&content);
        let response = client.read(ExpectedContent::Follows).body;
        assert!(response == content, "{bytes} bytes: {} came back", response.len());
    }
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "abcdefg", "counted for the program");
    client.send("POST /cgi-bin/deaf HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");
    client.send(noise(1, 200_000));
    assert_eq!(
        client.read(ExpectedContent::Follows).text(),
        "deaf\n",
        "what it does not read holds nobody up"
    );
    assert_eq!(get(&mut client, "/index.html").status, 200);
}

/// Regression: the body timeout did not apply to programs. A client could be silent for 30 s, and
/// for ever if the client sent a single byte before that.
fn contents_that_do_not_come_are_408(io: Io) {
    let site = site();
    script(&site, "cgi-bin/echo", "echo Content-Type: x/y; echo; cat");
    let server = serve(io, &site, &["--body-timeout", "300ms"]);
    let head = "POST /cgi-bin/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n1";
    let mut silent = server.client();
    silent.send(head);
    assert_eq!(silent.read(ExpectedContent::Follows).status, 408);
    let mut dripping = server.client();
    dripping.send(head);
    until("a byte now and then is not enough", || {
        // A tenth of the least rate. The connection may be closed at any time.
        std::thread::sleep(Duration::from_millis(20));
        let _ = dripping.try_send("1");
        dripping.is_readable().then_some(())
    });
    assert_eq!(dripping.read(ExpectedContent::Follows).status, 408);
    assert_eq!(get(&mut server.client(), "/index.html").status, 200);
}

fn answers_stream_and_large_ones_arrive(io: Io) {
    let site = site();
    site.write("big", &noise(7, 5_000_000));
    script(&site, "cgi-bin/big", "echo Content-Type: x/y; echo; cat ../big");
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    mode(&fifo, 0o666);
    let slow =
        format!("echo Content-Type: x/y; echo; echo first; read line < {}; echo second", fifo.display());
    script(&site, "cgi-bin/slow", &slow);
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/big", &[]);
    assert!(client.read(ExpectedContent::Follows).body == noise(7, 5_000_000));
    client.ask("GET", "/cgi-bin/slow", &[]);
    until("the first line is here before the second is written", || {
        client.receive_at_least(client.received().len() + 1);
        String::from_utf8_lossy(client.received()).contains("first\n").then_some(())
    });
    fs::write(&fifo, "go\n").expect("somebody reads it");
    assert_eq!(client.read(ExpectedContent::Follows).body, b"first\nsecond\n");
}

fn redirects(io: Io) {
    let site = site();
    site.write("page.txt", b"a file\n");
    script(&site, "cgi-bin/file", "printf 'Location: /page.txt\\n\\n'");
    script(&site, "cgi-bin/other", "printf 'Location: /cgi-bin/show?from=other\\n\\n'");
    script(&site, "cgi-bin/show", "echo Content-Type: x/y; echo; echo \"$QUERY_STRING $REQUEST_METHOD\"");
    script(&site, "cgi-bin/away", "printf 'Location: http://example.org/x\\n\\n'");
    script(
        &site,
        "cgi-bin/moved",
        "printf 'Status: 301 Moved\\nLocation: /y\\nContent-Type: a/b\\n\\nthere'",
    );
    script(&site, "cgi-bin/loop", "printf 'Location: /cgi-bin/loop\\n\\n'");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    assert_eq!(get(&mut client, "/cgi-bin/file").text(), "a file\n");
    assert_eq!(get(&mut client, "/cgi-bin/other").text(), "from=other GET\n");
    client.send("POST /cgi-bin/other HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nxy");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "from=other GET\n");
    let away = get(&mut client, "/cgi-bin/away");
    assert_eq!((away.status, away.field("location")), (302, "http://example.org/x"));
    let moved = get(&mut client, "/cgi-bin/moved");
    assert_eq!((moved.status, moved.field("location"), moved.text()), (301, "/y", "there"));
    assert_eq!(get(&mut client, "/cgi-bin/loop").status, 502);
    server.says(": test: GET /cgi-bin/loop: it redirects within this server again and again (502)");
    assert!(!server.stderr().contains("vermeil: php"), "{server:?}");
    assert_eq!(get(&mut client, "/page.txt").status, 200);
}

fn bad_answers(io: Io) {
    let site = site();
    for (name, lines) in [
        ("silent", "exit 0"),
        ("fails", "exit 3"),
        ("dies", "kill -SEGV $$"),
        ("text", "echo hello, world; echo; echo text"),
        ("injects", "printf 'Content-Type: a/b\\nX: y\\rSet-Cookie: z\\n\\n'"),
        ("status", "printf 'Status: 99 What\\n\\n'"),
        ("framing", "printf 'Content-Type: a/b\\nTransfer-Encoding: chunked\\n\\n0\\r\\n\\r\\n'"),
    ] {
        script(&site, &format!("cgi-bin/{name}"), lines);
    }
    script(&site, "cgi-bin/short", "printf 'Content-Type: a/b\\nContent-Length: 10\\n\\nshort'");
    script(
        &site,
        "cgi-bin/whole",
        "printf 'Content-Type: a/b\\nContent-Length: 5\\n\\nwhole'; kill -SEGV $$",
    );
    let server = serve(io, &site, &[]);
    for (name, reason) in [
        ("silent", "it ended before its head did"),
        ("fails", "it ended with code 3"),
        ("dies", "signal 11"),
        ("text", "a name, a colon and a value"),
        ("injects", "control character"),
        ("status", "Status is not a number"),
        ("framing", "Transfer-Encoding is not"),
    ] {
        let server = serve(io, &site, &[]);
        let mut client = server.client();
        assert_eq!(get(&mut client, &format!("/cgi-bin/{name}")).status, 502, "{name}");
        server.says(reason);
        server.says(&format!("GET /cgi-bin/{name}"));
        assert_eq!(get(&mut client, "/index.html").status, 200, "the connection goes on");
    }
    let mut client = server.client();
    assert_eq!(get(&mut client, "/cgi-bin/whole").text(), "whole", "nothing was left to say");
    client.ask("GET", "/cgi-bin/short", &[]);
    assert!(client.try_read(ExpectedContent::Follows).is_err(), "cut, so that a part is not taken for all");
}

fn file_without_program_is_refused(io: Io) {
    let site = site();
    for name in ["hello", "sub/hello", "open", "open-folder/hello", "plain"] {
        script(&site, &format!("cgi-bin/{name}"), "echo Content-Type: a/b; echo; echo ran");
    }
    mode(&site.path("cgi-bin/open"), 0o777);
    mode(&site.path("cgi-bin/open-folder"), 0o777);
    mode(&site.path("cgi-bin/plain"), 0o644);
    symlink("hello", site.path("cgi-bin/link")).expect("a link");
    symlink("/bin", site.path("cgi-bin/bin")).expect("a link");
    site.write("cgi-bin/.hidden", b"");
    site.write("cgi-bin/nonsense", b"no program");
    mode(&site.path("cgi-bin/nonsense"), 0o755);
    for (target, status, reason) in [
        ("/cgi-bin/missing", 404, ""),
        ("/cgi-bin/", 404, ""),
        ("/cgi-bin/sub", 404, ""),
        ("/cgi-bin/sub/", 404, ""),
        ("/cgi-bin/.hidden", 404, ""),
        ("/cgi-bin/link", 404, "GET /cgi-bin/link: /cgi-bin/link is a symbolic link"),
        ("/cgi-bin/bin/sh", 404, "/cgi-bin/bin is a symbolic link"),
        ("/cgi-bin/../../../bin/sh", 404, ""),
        ("/cgi-bin/open", 403, "chmod go-w"),
        ("/cgi-bin/open-folder/hello", 403, "chmod go-w"),
        ("/cgi-bin/plain", 403, "chmod +x"),
        ("/cgi-bin/nonsense", 502, "begin a script with #!"),
    ] {
        let server = serve(io, &site, &[]);
        let response = get(&mut server.client(), target);
        // Dot segments that lead out of the site are a bad request.
        let expected = if target.contains("..") {
            response.status == 400 || response.status == 404
        } else {
            response.status == status
        };
        assert!(expected, "{target}: {response:?}");
        server.says(reason);
    }
    let server = serve(io, &site, &[]);
    let refused = request(&mut server.client(), "TRACE", "/cgi-bin/hello");
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
    );
    for method in ["TRACE", "POST", "OPTIONS"] {
        assert_eq!(request(&mut server.client(), method, "/cgi-bin/missing").status, 404, "{method}");
    }
    assert_eq!(request(&mut server.client(), "PURGE", "/cgi-bin/hello").text(), "ran\n");
}

fn programs_are_never_sent_as_files(io: Io) {
    let site = site();
    script(&site, "cgi-bin/hello", "echo Content-Type: a/b; echo; echo ran");
    let server = serve(io, &site, &[]);
    for target in [
        "/cgi-bin/hello",
        "//cgi-bin/hello",
        "/./cgi-bin/hello",
        "/x/../cgi-bin/hello",
        "/%63gi-bin/hello",
        "/cgi-bin%2Fhello",
        "/cgi-bin/hello/",
        "/cgi-bin//hello",
        "/CGI-BIN/hello",
    ] {
        let mut client = server.client();
        for fields in [&[][..], &["Range: bytes=0-9"], &["If-None-Match: \"x\""]] {
            client.ask("GET", target, fields);
            let response = client.read(ExpectedContent::Follows);
            assert!(!response.text().contains("#!/bin/sh"), "{target}: {response:?}");
        }
    }
    assert!(!get(&mut server.client(), "/").text().contains("cgi-bin/hello"));
    assert_ne!(get(&mut server.client(), "/cgi-bin/").status, 200, "no listing of programs");
}

fn suffixes_name_programs_anywhere(io: Io) {
    let site = site();
    let show = "echo Content-Type: a/b; echo; echo \"$SCRIPT_NAME|$PATH_INFO\"";
    script(&site, "app/run.cgi", show);
    script(&site, "top.cgi", show);
    site.write("app/file.txt", b"text");
    site.write("dir.cgi/file.txt", b"text");
    let server = serve(io, &site, &["--cgi", ".cgi"]);
    let mut client = server.client();
    assert_eq!(get(&mut client, "/top.cgi").text(), "/top.cgi|\n");
    assert_eq!(get(&mut client, "/app/run.cgi/more").text(), "/app/run.cgi|/more\n");
    assert_eq!(get(&mut client, "/app/file.txt").text(), "text");
    assert_eq!(get(&mut client, "/app/file.txt/x.cgi").status, 404);
    assert_eq!(get(&mut client, "/dir.cgi/file.txt").status, 404);
}

fn error_output_is_logged_with_its_request(io: Io) {
    let site = site();
    script(
        &site,
        "cgi-bin/warns",
        "echo Content-Type: a/b; echo; echo \"$UNIQUE_ID\"; echo 'a warning' >&2; echo 'another' >&2",
    );
    let server = serve(io, &site, &[]);
    let id = get(&mut server.client(), "/cgi-bin/warns").text().trim().to_owned();
    assert_eq!(id.len(), 16);
    server.says(&format!("vermeil: cgi {id}: a warning\n"));
    server.says(&format!("vermeil: cgi {id}: another\n"));
}

/// Prints the process numbers of the program and of two generations of children, waits for ever,
/// and holds the output open.
const FAMILY: &str = "sh -c 'sleep 1000 & echo $!; wait' & echo $!; echo $$;";

/// The numbers in a file that a family writes.
fn family(path: &std::path::Path) -> Vec<u32> {
    until("the family has said its numbers", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        (text.lines().count() == 3)
            .then(|| text.lines().map(|line| line.parse().expect("a number")).collect())
    })
}

/// A program that writes the numbers of its family to the given file.
fn write_family(site: &TestSite, name: &str, before: &str) -> std::path::PathBuf {
    let numbers = site.outside("numbers");
    fs::write(&numbers, "").expect("a file");
    mode(&numbers, 0o666);
    script(site, name, &format!("{before}\n{{ {FAMILY} }} >> {}\nwait", numbers.display()));
    numbers
}

/// Regression: a client that left with the whole answer had the program killed.
fn program_goes_on_after_its_answer(io: Io) {
    let site = site();
    let folder = site.outside("work");
    fs::create_dir(&folder).expect("a folder");
    mode(&folder, 0o777);
    let work = folder.display();
    script(
        &site,
        "cgi-bin/x",
        &format!(
            "printf 'Content-Type: text/plain\\nContent-Length: 2\\n\\nok'
             while [ ! -e {work}/go ]; do sleep 0.01; done
             echo 'after the answer' >&2
             touch {work}/done"
        ),
    );
    let log = site.outside("log");
    let server = serve(io, &site, &["--log", log.to_str().expect("UTF-8")]);
    assert_eq!(server.get("/cgi-bin/x").text(), "ok");
    let logged = || fs::read_to_string(&log).is_ok_and(|text| text.contains(" 200 2 ")).then_some(());
    until("the client has left, which ends the request", logged);
    fs::write(folder.join("go"), "").expect("a file");
    until("the program has ended its work", || folder.join("done").exists().then_some(()));
    server.says(": after the answer\n");
    server.stops_clean();
}

fn late_programs_are_killed(io: Io) {
    let site = site();
    let numbers = write_family(&site, "cgi-bin/late", "");
    script(&site, "cgi-bin/begun", "echo Content-Type: a/b; echo; echo begun; sleep 1000");
    let server = serve(io, &site, &["--cgi-timeout", "700ms"]);
    assert_eq!(get(&mut server.client(), "/cgi-bin/late").status, 504);
    server.says("/cgi-bin/late: it ran for longer than 0.7 s; that limit is changed by --cgi-timeout (504)");
    let family = family(&numbers);
    until("all are dead", || (!family.iter().any(|number| runs(*number))).then_some(()));
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/begun", &[]);
    assert_ne!(client.read_to_end(), ConnectionEnd::Reset);
    assert!(!client.received().ends_with(b"0\r\n\r\n"), "cut: {}", client.received().escape_ascii());
    server.stops_clean();
}

fn a_client_that_goes_takes_the_whole_group_along(io: Io) {
    let site = site();
    let numbers = write_family(&site, "cgi-bin/wait", "");
    let server = serve(io, &site, &[]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/wait", &[]);
    let family = family(&numbers);
    assert!(family.iter().all(|number| runs(*number)));
    drop(client);
    until("all are dead", || (!family.iter().any(|number| runs(*number))).then_some(()));
    assert_eq!(get(&mut server.client(), "/index.html").status, 200);
    server.stops_clean();
}

fn a_host_has_its_bounds(io: Io) {
    let site = site();
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    mode(&fifo, 0o666);
    let wait = format!("read line < {}; echo Content-Type: a/b; echo; echo done", fifo.display());
    script(&site, "cgi-bin/wait", &wait);
    let server = serve(io, &site, &["--cgi-max", "2", "--cgi-queue", "3"]);
    let mut clients: Vec<TestClient> = (0..6).map(|_| server.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/cgi-bin/wait", &[]);
    }
    // Two requests run and three wait; the test cannot know which request was the sixth.
    let refused = until("one is refused", || clients.iter().position(TestClient::is_readable));
    let refusal = clients.swap_remove(refused).read(ExpectedContent::Follows);
    assert_eq!((refusal.status, refusal.field("retry-after")), (503, "1"));
    server.says("3 requests wait for it already; that limit is changed by --cgi-queue");
    for client in &mut clients {
        let deadline = Instant::now() + PATIENCE;
        while !client.is_readable() && Instant::now() < deadline {
            // One program reads each line; the next line goes to a program that has none yet.
            let file = fs::File::options().write(true).read(true).open(&fifo).expect("a pipe");
            std::io::Write::write_all(&mut &file, b"go\n").expect("written");
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        assert_eq!(client.read(ExpectedContent::Follows).text(), "done\n");
    }
    server.stops_clean();
}

/// Regression: a program that failed to start never gave its place back. After as many failures as
/// there are places, no program started.
fn programs_that_are_refused_take_no_place(io: Io) {
    let site = site();
    script(&site, "cgi-bin/hello", "echo Content-Type: text/plain; echo; echo hello");
    script(&site, "cgi-bin/open", "echo Content-Type: text/plain; echo");
    mode(&site.path("cgi-bin/open"), 0o777);
    let server = serve(io, &site, &["--cgi-max", "2"]);
    for _ in 0..5 {
        assert_eq!(get(&mut server.client(), "/cgi-bin/open").status, 403);
    }
    assert_eq!(get(&mut server.client(), "/cgi-bin/hello").text(), "hello\n");
    server.stops_clean();
}

fn whole_answers_of_nph_programs(io: Io) {
    let site = site();
    let whole = "printf 'HTTP/1.1 203 As it is\\r\\nX: y\\r\\n\\r\\nwhole'";
    script(&site, "cgi-bin/nph-whole", whole);
    script(&site, "cgi-bin/nph-silent", "exit 0");
    let server = serve(io, &site, &["--cgi-nph"]);
    let mut client = server.client();
    client.ask("GET", "/cgi-bin/nph-whole", &[]);
    assert_eq!(client.read_to_end(), ConnectionEnd::Closed);
    assert_eq!(client.received(), b"HTTP/1.1 203 As it is\r\nX: y\r\n\r\nwhole");
    assert_eq!(get(&mut server.client(), "/cgi-bin/nph-silent").status, 502);
    let server = serve(io, &site, &[]);
    assert_eq!(get(&mut server.client(), "/cgi-bin/nph-whole").status, 502, "only where it is allowed");
}

fn a_spawner_killed_under_load_loses_no_request(io: Io) {
    let site = site();
    // In one write: if an answer of unknown length had begun, the server would cut the answer, so
    // that the client does not take the answer for complete.
    script(&site, "cgi-bin/hello", "printf 'Content-Type: a/b\\nContent-Length: 6\\n\\nhello\\n'");
    let server = serve(io, &site, &[]);
    let first = spawner(&server);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut statuses = Vec::new();
                    while statuses.len() < 60 {
                        // A connection that is cut within an answer would be a request without an
                        // answer.
                        let mut client = server.client();
                        statuses.push(get(&mut client, "/cgi-bin/hello").status);
                    }
                    statuses
                })
            })
            .collect();
        for _ in 0..3 {
            kill(spawner(&server));
            std::thread::park_timeout(std::time::Duration::from_millis(150));
        }
        clients.into_iter().flat_map(|client| client.join().expect("every answer is whole")).collect()
    });
    assert_eq!(statuses.len(), 240);
    assert!(statuses.iter().all(|status| matches!(status, 200 | 502 | 503)), "{statuses:?}");
    assert!(statuses.contains(&200));
    until("it runs programs again", || {
        (get(&mut server.client(), "/cgi-bin/hello").status == 200).then_some(())
    });
    assert_ne!(spawner(&server), first);
    server.stops_clean();
}

fn without_spawner_files_are_still_served(io: Io) {
    let site = site();
    script(&site, "cgi-bin/hello", "echo Content-Type: a/b; echo; echo hello");
    let server = serve(io, &site, &[]);
    let (keeper, spawner) = (keeper(&server), spawner(&server));
    kill(keeper);
    assert_eq!(
        get(&mut server.client(), "/cgi-bin/hello").text(),
        "hello\n",
        "the spawner goes on without its keeper"
    );
    kill(spawner);
    let refused = until("programs are refused", || {
        let response = get(&mut server.client(), "/cgi-bin/hello");
        (response.status == 503).then_some(response)
    });
    assert_eq!(refused.field("retry-after"), "1");
    server.says("the spawner and its keeper are gone; restart the server");
    assert_eq!(get(&mut server.client(), "/index.html").status, 200);
    server.stops_clean();
}

fn nothing_is_left_when_the_server_stops(io: Io) {
    let site = site();
    let numbers =
        write_family(&site, "cgi-bin/stays", "echo Content-Type: a/b; echo; echo answered; exec >&- 2>&-");
    let server = serve(io, &site, &[]);
    let mut processes = vec![keeper(&server), spawner(&server)];
    assert_eq!(get(&mut server.client(), "/cgi-bin/stays").text(), "answered\n");
    let family = family(&numbers);
    assert!(family.iter().all(|number| runs(*number)), "it goes on within its time");
    processes.extend(family);
    server.stops_clean();
    assert!(!processes.iter().any(|number| runs(*number)), "{processes:?}");
}

fn c_and_php(io: Io) {
    let site = site();
    fs::create_dir(site.path("cgi-bin")).expect("a folder");
    mode(&site.path("cgi-bin"), 0o755);
    let source = site.outside("hello.c");
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"Content-Type: text/plain\\n\\nhello from C\"); }",
    )
    .expect("written");
    let compiled = Command::new("cc").arg("-o").arg(site.path("cgi-bin/hello")).arg(&source).status();
    let server = serve(io, &site, &[]);
    if compiled.is_ok_and(|status| status.success()) {
        assert_eq!(get(&mut server.client(), "/cgi-bin/hello").text(), "hello from C\n");
    } else {
        eprintln!("SKIPPED: no C compiler");
    }
    if Command::new("php-cgi").arg("-v").output().is_err() {
        eprintln!("SKIPPED: no php-cgi");
        return;
    }
    let info = "#!/usr/bin/env -S REDIRECT_STATUS=200 php-cgi\n<?php\nsetcookie('a', '1');\nsetcookie('b', '2');\n\
                echo $_SERVER['SCRIPT_NAME'], '|', $_GET['x'], '|', file_get_contents('php://input'), \"\\n\";\nphpinfo();\n";
    site.write("cgi-bin/info.php", info.as_bytes());
    mode(&site.path("cgi-bin/info.php"), 0o755);
    let mut client = server.client();
    client.send("POST /cgi-bin/info.php?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    let response = client.read(ExpectedContent::Follows);
    assert_eq!(response.status, 200);
    let cookies: Vec<_> = response.fields.iter().filter(|(name, _)| name == "set-cookie").collect();
    assert_eq!(cookies.len(), 2, "both of them: {cookies:?}");
    let text = String::from_utf8_lossy(&response.body);
    assert!(
        text.starts_with("/cgi-bin/info.php|1|body\n") && text.contains("CGI/FastCGI"),
        "{}",
        &text[..200]
    );
}

/// Regression: only PHP could send such files.
fn files_are_sent_from_allowed_folders(io: Io) {
    let site = site();
    let store = site.outside("store");
    fs::create_dir(&store).expect("a folder");
    fs::write(store.join("file"), "stored").expect("a file");
    script(
        &site,
        "cgi-bin/send",
        "echo \"X-Accel-Redirect: $QUERY_STRING\"; echo Content-Type: text/plain; echo",
    );
    let server = serve(io, &site, &["--cgi-send", &format!("/store={}", store.display())]);
    let sent = server.get("/cgi-bin/send?/store/file");
    assert_eq!((sent.status, sent.text()), (200, "stored"));
    assert_eq!(server.get("/cgi-bin/send?/etc/passwd").status, 502);
    server.says("X-Accel-Redirect: /etc/passwd is in no folder that files may be sent from (--cgi-send)");
    assert_eq!(server.get("/cgi-bin/send?/store/90%25.txt").status, 404, "the program writes it as it is");
    assert_eq!(server.get("/cgi-bin/send?/store/90%.txt").status, 502);
    server.says("X-Accel-Redirect: /store/90%.txt has a % without two hexadecimal digits");
    assert_eq!(server.get("/cgi-bin/send?/store/missing").status, 404);
    server.says("X-Accel-Redirect: /store/missing: there is no such file (404)");
    server.stops_clean();
}
