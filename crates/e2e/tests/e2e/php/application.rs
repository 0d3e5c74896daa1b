//! FastCGI applications other than PHP, with behaviour that PHP does not have: the test itself
//! speaks a few lines of FastCGI.

use super::{
    reload::{TAKEN, reload},
    site, writable, write,
};
use crate::support::{Io, TestServer, on_usual, until};
use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::mpsc,
    thread,
    time::Duration,
};

on_usual! {
    unread_content_blocks_no_later_request,
    reload_to_another_application_loses_no_count,
    end_of_output_ends_answer,
    held_output_is_sent_after_application_dies,
    parts_are_sent_together_unless_flushed,
    each_bad_head_is_logged_with_request,
    half_closed_client_gets_its_answer,
    request_of_each_client_that_leaves_has_one_line,
}

const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// A request's content that no socket holds.
const MUCH: usize = 8 << 20;

/// Regression: the server kept a connection whose last request was not completely sent. The next
/// request found a send under way, and its task panicked.
fn unread_content_blocks_no_later_request(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    thread::spawn(move || {
        let mut first = listener.accept().expect("the server connects").0;
        let id = read_until(&mut first, PARAMS).expect("a request");
        answer(&mut first, id, "unread").expect("there is room");
        // The rest stays in the socket until the server closes the connection. On a busy machine
        // the next connection may be too old for the last request.
        for other in listener.incoming() {
            let mut other = other.expect("the server connects again");
            while let Ok(id) = read_until(&mut other, STDIN) {
                answer(&mut other, id, "read").expect("there is room");
            }
        }
        drop(first);
    });
    let server = TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display())]);
    let mut client = server.client();
    client.ask("POST", "/x.php", &[&format!("Content-Length: {MUCH}")]);
    client.send(vec![b'x'; MUCH]);
    assert_eq!(client.read(crate::support::ExpectedContent::Follows).text(), "unread");
    for _ in 0..3 {
        assert_eq!(client.get("/x.php").text(), "read");
    }
    server.stops_clean();
}

/// Regression: the summary lacked the requests to the first application, and its connections could
/// be taken for those of the second.
fn reload_to_another_application_loses_no_count(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let folder = writable(&site, "run");
    let file = |name: &str| {
        let socket = folder.join(name).display().to_string();
        format!("[[host]]\nroot = \"site\"\nphp = true\n[php]\nsource = \"unix:{socket}\"\nchildren = 8\n")
    };
    for name in ["a", "b"] {
        let listener = UnixListener::bind(folder.join(name)).expect("a socket");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut server = stream.expect("the server connects");
                while let Ok(id) = read_until(&mut server, STDIN) {
                    answer(&mut server, id, name).expect("there is room");
                }
            }
        });
    }
    let server = TestServer::configured(io, &site, &file("a"));
    assert_eq!(server.get("/x.php").text(), "a");
    reload(&server, &site, io, &file("b"), TAKEN);
    for _ in 0..2 {
        assert_eq!(server.get("/x.php").text(), "b");
    }
    server.stops_clean();
    server.says("php: 3 requests, 0 refused, 0 given up, ");
}

/// Regression: the answer waited for the end of the request, and was cut or became a 502 without
/// that end.
fn end_of_output_ends_answer(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (go, told) = mpsc::channel::<()>();
    thread::spawn(move || {
        let output = b"Content-Type: text/plain\r\n\r\nwhole";
        for is_closing in [true, false] {
            let mut server = listener.accept().expect("the server connects").0;
            let id = read_until(&mut server, STDIN).expect("a request");
            let answer = [record(STDOUT, id, output), record(STDOUT, id, b"")].concat();
            server.write_all(&answer).expect("there is room");
            if !is_closing {
                // The application works on, and ends the request later.
                told.recv().expect("the client has the answer");
                let _ = server.write_all(&record(END, id, &[0; 8]));
            }
        }
    });
    let server = TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display())]);
    for _ in 0..2 {
        let answer = server.get("/x.php");
        assert_eq!((answer.status, answer.text()), (200, "whole"));
    }
    go.send(()).expect("it waits");
    server.stops_clean();
}

/// Right after a send, output waits for more output. The next event may be the application's death.
fn held_output_is_sent_after_application_dies(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (go, told) = mpsc::channel();
    thread::spawn(move || {
        let mut server = listener.accept().expect("the server connects").0;
        let id = read_until(&mut server, PARAMS).expect("a request");
        server
            .write_all(&record(STDOUT, id, b"Content-Type: text/plain\r\n\r\nfirst"))
            .expect("there is room");
        told.recv().expect("the client has it");
        server.write_all(&record(STDOUT, id, b"second")).expect("there is room");
    });
    let server = TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display())]);
    let mut client = server.client();
    client.ask("GET", "/x.php", &[]);
    until("the first part", || {
        client.receive_at_least(client.received().len() + 1);
        client.received().ends_with(b"\r\n5\r\nfirst\r\n").then_some(())
    });
    go.send(()).expect("it waits");
    client.read_to_end();
    assert!(client.received().ends_with(b"6\r\nsecond\r\n"), "what there is, and no end");
    server.stops_clean();
}

/// The longest pause of a busy machine is unknown, so the test repeats each case until the result
/// is right.
fn parts_are_sent_together_unless_flushed(io: Io) {
    const PAUSE: Duration = Duration::from_millis(2);
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (tell, told) = mpsc::channel::<&str>();
    thread::spawn(move || {
        for field in told {
            let mut server = listener.accept().expect("the server connects").0;
            let id = read_until(&mut server, STDIN).expect("a request");
            let first = format!("{field}Content-Type: text/plain\r\n\r\nfirst");
            server.write_all(&record(STDOUT, id, first.as_bytes())).expect("there is room");
            thread::sleep(PAUSE);
            let rest = [record(STDOUT, id, b"second"), record(END, id, &[0; 8])].concat();
            server.write_all(&rest).expect("there is room");
        }
    });
    let server = TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display())]);
    for (field, lines) in [
        ("", "content-length: 11\r\n"),
        ("X-Accel-Buffering: no\r\n", "\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"),
    ] {
        until(lines, || {
            tell.send(field).expect("it waits");
            let mut client = server.client();
            client.ask("GET", "/x.php", &["Connection: close"]);
            client.read_to_end();
            let received = String::from_utf8_lossy(client.received()).to_lowercase();
            received.contains(lines).then_some(())
        });
    }
    server.stops_clean();
}

/// Reads records up to the end of a stream; returns the request's number.
fn read_until(from: &mut UnixStream, stream: u8) -> io::Result<[u8; 2]> {
    loop {
        let mut header = [0; 8];
        from.read_exact(&mut header)?;
        let content = usize::from(u16::from_be_bytes([header[4], header[5]]));
        from.read_exact(&mut vec![0; content + usize::from(header[6])])?;
        if header[1] == stream && content == 0 {
            return Ok([header[2], header[3]]);
        }
    }
}

fn answer(to: &mut UnixStream, id: [u8; 2], text: &str) -> io::Result<()> {
    let output = format!("Content-Type: text/plain\r\n\r\n{text}");
    to.write_all(&[record(STDOUT, id, output.as_bytes()), record(END, id, &[0; 8])].concat())
}

fn record(kind: u8, id: [u8; 2], content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    [&[1, kind, id[0], id[1], high, low, 0, 0], content].concat()
}

fn each_bad_head_is_logged_with_request(io: Io) {
    let heads: [(&str, &str, u16, &str); 9] = [
        ("name", "hello world\n\n", 502, "a line of its head is not a name, a colon and a value"),
        ("folded", "Content-Type: a/b\n folded\n\n", 502, "a line of its head starts with white space"),
        ("value", "X: a\rb\n\n", 502, "a value in its head holds a control character"),
        ("status", "Status: OK\n\n", 502, "Status is not a number from 200 to 599 and a reason"),
        ("coding", "Transfer-Encoding: chunked\n\n", 502, "Transfer-Encoding is not the program"),
        ("short", "Content-Type: a/b\n", 502, "it ended before its head did"),
        ("loop", "Location: /loop.php\n\n", 502, "it redirects within this server again and again"),
        ("odd", "<!--: spam\n\n", 200, "\"<!--: spam\" of its head has no valid name"),
        ("file", "X-Accel-Redirect: /90%.txt\n\n", 502, "/90%.txt has a % without two hexadecimal digits"),
    ];
    let site = site();
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (tell, told) = mpsc::channel::<&str>();
    thread::spawn(move || {
        let mut head = "";
        for stream in listener.incoming() {
            let mut server = stream.expect("the server connects");
            // A redirect comes again and again.
            let Ok(id) = read_until(&mut server, STDIN) else { continue };
            head = told.try_recv().unwrap_or(head);
            let all = [record(STDOUT, id, head.as_bytes()), record(END, id, &[0; 8])].concat();
            server.write_all(&all).expect("there is room");
        }
    });
    for (name, ..) in heads {
        write(&site, &format!("{name}.php"), "");
    }
    let server =
        TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display()), "--php-children", "1"]);
    for (name, head, status, notice) in heads {
        tell.send(head).expect("it listens");
        assert_eq!(server.get(&format!("/{name}.php")).status, status, "{name}");
        server.says(&format!(": test: GET /{name}.php: "));
        server.says(notice);
    }
    assert!(!server.stderr().contains("vermeil: cgi "), "{server:?}");
    server.stops_clean();
}

/// Regression: the server took a client that closed its sending side for a client that had left.
fn half_closed_client_gets_its_answer(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (go, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut server = stream.expect("the server connects");
            let Ok(id) = read_until(&mut server, STDIN) else { continue };
            if told.recv().is_err() {
                return;
            }
            answer(&mut server, id, "late").expect("there is room");
        }
    });
    let server =
        TestServer::start(io, &site, &[&format!("--php=unix:{}", socket.display()), "--php-children", "1"]);
    let (mut first, mut waits) = (server.client(), server.client());
    for client in [&mut first, &mut waits] {
        client.ask("GET", "/x.php", &[]);
        client.finish();
    }
    for client in [&mut first, &mut waits] {
        // The first byte of the answer is sent ahead, to see whether the client is there.
        client.receive_at_least(1);
        assert_eq!(client.received(), b"H");
    }
    for _ in 0..2 {
        go.send(()).expect("it waits");
    }
    for client in [&mut first, &mut waits] {
        assert_eq!(client.read(crate::support::ExpectedContent::Follows).text(), "late");
        client.ends_silently();
    }
    server.stops_clean();
}

fn request_of_each_client_that_leaves_has_one_line(io: Io) {
    let site = site();
    write(&site, "x.php", "");
    let socket = writable(&site, "run").join("php.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        for (index, stream) in listener.incoming().enumerate() {
            let mut server = stream.expect("the server connects");
            let Ok(id) = read_until(&mut server, PARAMS) else { continue };
            if index == 1 {
                let begun = record(STDOUT, id, b"Content-Type: text/plain\r\n\r\nbegun");
                server.write_all(&begun).expect("there is room");
            }
            held.push(server);
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    let php = format!("--php=unix:{}", socket.display());
    let server = TestServer::start(io, &site, &["--log", "-", &php]);
    let line = |words: &str| {
        until(words, || server.stdout().contains(words).then_some(()));
    };
    let mut silent = server.client();
    silent.ask("GET", "/x.php?silent", &[]);
    told.recv().expect("the application runs");
    drop(silent);
    line("\"GET /x.php?silent HTTP/1.1\" 499 - ");
    let mut amid = server.client();
    amid.ask("GET", "/x.php?amid", &[]);
    until("a part", || {
        amid.receive_at_least(amid.received().len() + 1);
        amid.received().ends_with(b"begun\r\n").then_some(())
    });
    drop(amid);
    line("\"GET /x.php?amid HTTP/1.1\" 200 ");
    let mut content = server.client();
    content.send("POST /x.php?content HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1");
    drop(content);
    line("\"POST /x.php?content HTTP/1.1\" 499 - ");
    server.stops_clean();
    assert_eq!(server.stdout().lines().count(), 3, "{}", server.stdout());
}
