//! How connections end: the client gets its last answer whole, or can tell that a part is missing.

use crate::support::{ConnectionEnd, Io, TestServer, TestSite, noise, on_both};
use std::time::{Duration, Instant};

on_both! {
    late_bytes_do_not_cut_last_answer,
    slow_reader_gets_last_answer_whole,
    refused_expectation_ends_connection,
}

/// The content behind the first head in `received`.
#[track_caller]
fn content(received: &[u8]) -> &[u8] {
    let head = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &received[head + 4..]
}

/// Regression: the server closed the socket when the kernel had the answer. A byte of the client,
/// for example an empty line behind its content (RFC 9112, section 2.2), then reset the connection.
fn late_bytes_do_not_cut_last_answer(io: Io) {
    let site = TestSite::new();
    let file = noise(1, 600_000);
    site.write("file", &file);
    let server = TestServer::start(io, &site, &[]);
    for (request, late) in [
        ("GET /file HTTP/1.0\r\n\r\n", "\r\n"),
        ("GET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "\r\n"),
        ("GET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ] {
        let mut client = server.narrow_client();
        client.send(request);
        client.wait_readable();
        client.send(late);
        let end = client.read_to_end();
        let bytes = content(client.received()).len();
        assert_eq!((end, bytes), (ConnectionEnd::Closed, file.len()), "{late:?} behind {request:?}");
    }
    server.stops_clean();
}

/// The time of the close (2 s) begins anew as long as the client takes the answer.
fn slow_reader_gets_last_answer_whole(io: Io) {
    let site = TestSite::new();
    let file = noise(2, 2 << 20);
    site.write("file", &file);
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.narrow_client();
    client.send("GET /file HTTP/1.0\r\n\r\n");
    client.wait_readable();
    client.send("\r\n");
    let (begin, mut wanted) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(5) {
        wanted += 2048;
        client.receive_at_least(wanted);
        // The pace of the client, some 200 KB/s.
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(wanted < file.len(), "the client was to be slow");
    client.send("\r\n");
    assert_eq!(client.read_to_end(), ConnectionEnd::Closed);
    assert!(content(client.received()) == file);
    server.stops_clean();
}

/// Regression: the server waited for content that the client rightly never sent.
fn refused_expectation_ends_connection(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--body-timeout", "1h"]);
    // The answer about a file in the cache is ready at once.
    assert_eq!(server.get("/").status, 200);
    for fields in [&["Connection: close"][..], &[]] {
        let mut client = server.client();
        let fields = [fields, &["Expect: 100-continue", "Content-Length: 3"]].concat();
        let refused = client.request("POST", "/", &fields);
        assert_eq!((refused.status, refused.closes()), (405, true), "{fields:?}");
        client.ends_silently();
    }
    server.stops_clean();
}
