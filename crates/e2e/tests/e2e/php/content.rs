//! Content in both directions: whole, streamed, too long, none.

use super::{serve, site, whole, writable, write};
use crate::support::{ConnectionEnd, ExpectedContent, Io, noise, on_both, until};
use std::fs;

on_both! {
    long_fields_arrive_or_are_431,
    phpinfo_comes_whole,
    ten_megabytes_are_posted,
    expectations_are_met_and_the_connection_goes_on,
    answer_before_upload_is_sent,
    too_long_content_is_refused,
    answer_is_streamed_as_written,
    an_answer_waits_for_its_client,
    head_has_no_content,
}

/// Regression: PHP closed the connection when a record ended within a field.
fn long_fields_arrive_or_are_431(io: Io) {
    let site = site();
    write(&site, "fields.php", "echo strlen($_SERVER['HTTP_A']), ' ', strlen($_SERVER['HTTP_B']);");
    let Some(server) = serve(io, &site, &["--header-bytes", "256K"]) else { return };
    let field = |name: &str, bytes: usize| format!("{name}: {}", "x".repeat(bytes));
    let mut client = server.client();
    for (a, b) in [(40_000, 40_000), (60_000, 5_000), (5_000, 65_000)] {
        let response = client.get_with("/fields.php", &[&field("A", a), &field("B", b)]);
        assert_eq!((response.status, response.text()), (200, &*format!("{a} {b}")));
    }
    let response = client.get_with("/fields.php", &[&field("A", 70_000)]);
    assert_eq!(response.status, 431);
    assert_eq!(server.get("/fields.php").status, 200, "the pool goes on");
    server.stops_clean();
}

fn phpinfo_comes_whole(io: Io) {
    let site = site();
    write(&site, "info.php", "phpinfo();");
    let Some(server) = serve(io, &site, &[]) else { return };
    let (head, body) = whole(&mut server.client(), "GET", "/info.php", &[], b"");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("FPM/FastCGI") && text.trim_end().ends_with("</html>"));
    // HTTP/1.0 has no chunks: the end is that of the connection.
    let mut old = server.client();
    old.send("GET /info.php HTTP/1.0\r\n\r\n");
    assert_eq!(old.read_to_end(), ConnectionEnd::Closed);
    let whole = String::from_utf8_lossy(old.received()).into_owned();
    assert!(whole.contains("Connection: close\r\n") && whole.trim_end().ends_with("</html>"));
    assert!(!whole.contains("Transfer-Encoding"));
}

fn ten_megabytes_are_posted(io: Io) {
    let site = site();
    write(&site, "sum.php", "$x = file_get_contents('php://input'); echo strlen($x), ' ', md5($x);");
    write(&site, "back.php", "echo file_get_contents('php://input');");
    let Some(server) = serve(io, &site, &[]) else { return };
    let content = noise(7, 10 << 20);
    let length = format!("Content-Length: {}", content.len());
    let (_, back) = whole(&mut server.client(), "POST", "/back.php", &[&length], &content);
    assert!(back == content, "it comes back as it went");
    // The same in chunks: PHP gets a length that the client did not send.
    let mut client = server.client();
    client.ask("POST", "/sum.php", &["Transfer-Encoding: chunked"]);
    for chunk in content.chunks(65_537) {
        client.send(format!("{:x}\r\n", chunk.len()));
        client.send(chunk);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    let sum = client.read(ExpectedContent::Follows);
    assert!(sum.text().starts_with("10485760 "), "{}", sum.text());
    assert_eq!(client.get("/sum.php").text(), "0 d41d8cd98f00b204e9800998ecf8427e", "the connection goes on");
    server.stops_clean();
}

fn expectations_are_met_and_the_connection_goes_on(io: Io) {
    let site = site();
    write(&site, "echo.php", "echo file_get_contents('php://input');");
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    client.ask("POST", "/echo.php", &["Expect: 100-continue", "Content-Length: 5"]);
    client.receive_at_least(25);
    assert_eq!(client.received(), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.discard();
    client.send("hello");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "hello");
    // A client that does not wait gets no `100 Continue`.
    client.send("POST /echo.php HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nyes");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "yes");
    assert_eq!(client.get("/echo.php").text(), "");
    // The server answers at once for a missing program, and the connection ends.
    let mut client = server.client();
    client.ask("POST", "/missing.php", &["Expect: 100-continue", "Content-Length: 5"]);
    let refused = client.read(ExpectedContent::Follows);
    assert!(refused.closes() && refused.status == 404, "{refused:?}");
}

/// Regression: the upload threw the ready answer away, and each later answer of the connection came
/// for the wrong request.
fn answer_before_upload_is_sent(io: Io) {
    let site = site();
    site.write("small.txt", b"small");
    write(&site, "echo.php", "echo file_get_contents('php://input');");
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    // The look-ups do not wait any more, so they send nothing.
    assert_eq!(client.get("/small.txt").text(), "small");
    assert_eq!(client.get("/echo.php").text(), "");
    let pipeline = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n\
                    POST /echo.php HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
    client.send(pipeline);
    assert_eq!(client.read(ExpectedContent::Follows).text(), "small");
    client.send("hello");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "hello");
    assert_eq!(client.get("/small.txt").text(), "small");
    server.stops_clean();
}

fn too_long_content_is_refused(io: Io) {
    let site = site();
    write(&site, "x.php", "echo 'x';");
    let Some(server) = serve(io, &site, &["--programs-body-bytes", "100K", "--body-bytes", "1K"]) else {
        return;
    };
    let mut client = server.client();
    client.ask("POST", "/x.php", &["Content-Length: 102401"]);
    let refused = client.read(ExpectedContent::Follows);
    assert!(refused.status == 413 && refused.closes(), "{refused:?}");
    let mut client = server.client();
    client.ask("POST", "/x.php", &["Transfer-Encoding: chunked"]);
    client.send(format!("{:x}\r\n", 200_000));
    // The server may refuse the request before the server has taken the whole request.
    let _ = client.try_send(noise(1, 200_000));
    assert_eq!(client.read(ExpectedContent::Follows).status, 413);
    let mut client = server.client();
    client.ask("POST", "/x.php", &["Content-Length: 102400"]);
    client.send(noise(1, 102_400));
    assert_eq!(client.read(ExpectedContent::Follows).text(), "x");
}

fn answer_is_streamed_as_written(io: Io) {
    let site = site();
    let folder = writable(&site, "signals");
    let go = folder.join("go");
    let wait = format!("while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }}", go.display());
    for (name, field) in [("slow.php", ""), ("live.php", "header('X-Accel-Buffering: no');")] {
        let code = format!(
            "header('Content-Type: text/plain'); {field} echo 'first'; ob_flush(); flush(); {wait} echo 'second';"
        );
        write(&site, name, &code);
    }
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    for path in ["/slow.php", "/live.php"] {
        client.ask("GET", path, &[]);
        until("the first part", || {
            client.receive_at_least(client.received().len() + 1);
            client.received().ends_with(b"5\r\nfirst\r\n").then_some(())
        });
        fs::write(&go, "").expect("a file");
        until("the second", || {
            client.receive_at_least(client.received().len() + 1);
            client.received().ends_with(b"6\r\nsecond\r\n0\r\n\r\n").then_some(())
        });
        client.discard();
        fs::remove_file(&go).expect("the file");
    }
    assert_eq!(client.get("/index.html").status, 200, "the connection goes on");
}

fn an_answer_waits_for_its_client(io: Io) {
    let site = site();
    let done = writable(&site, "signals").join("done");
    let code = format!(
        "ini_set('output_buffering', 0); for ($i = 0; $i < 3200; $i++) {{ echo str_repeat(chr(65 + $i % 26), 65536); }} touch('{}');",
        done.display()
    );
    write(&site, "long.php", &code);
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.narrow_client();
    client.ask("GET", "/long.php", &["Connection: close"]);
    client.receive_at_least(1000);
    let memory = |name: &str| {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("KB")
    };
    // 200 MiB fit into no buffer on the way, so PHP has to wait.
    assert!(!done.exists(), "it waits for the client");
    let mut bytes = 0;
    while client.receive_and_drop(&mut bytes) {}
    assert!(bytes > 3200 * 65_536, "{bytes}");
    assert!(done.exists());
    assert!(memory("VmHWM") < 150 << 10, "{} KB", memory("VmHWM"));
}

fn head_has_no_content(io: Io) {
    let site = site();
    write(&site, "x.php", "header('X-Own: yes'); echo str_repeat('x', 100000);");
    write(&site, "none.php", "http_response_code(204);");
    write(&site, "length.php", "header('Content-Length: 3'); echo 'abc';");
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    client.ask("HEAD", "/x.php", &[]);
    until("a head", || {
        client.receive_at_least(client.received().len() + 1);
        client.received().ends_with(b"\r\n\r\n").then_some(())
    });
    let head = String::from_utf8_lossy(client.received()).into_owned();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("X-Own: yes\r\n"), "{head}");
    assert!(!head.contains("Content-Length: 0"), "{head}");
    client.discard();
    let none = client.get("/none.php");
    assert_eq!((none.status, none.body.len()), (204, 0));
    assert_eq!(client.request("HEAD", "/length.php", &[]).field("content-length"), "3");
    assert_eq!(client.get("/length.php").text(), "abc");
}
