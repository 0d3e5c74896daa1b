//! Methods, bodies, persistence and pipelining.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, noise, on_both, on_usual};

on_both! {
    a_body_is_read_and_the_connection_kept,
    a_body_over_the_limit_is_refused_and_the_connection_closed,
    a_chunked_body_over_the_limit_closes_the_connection,
    expect_100_gets_final_answer_and_close,
    pipelined_requests_are_answered_in_order,
    bad_method_is_refused_in_two_pieces,
}

on_usual! {
    refused_head_request_gets_no_content,
    head_is_get_without_the_content,
    options_answer_names_allowed_methods,
    other_methods_are_refused_by_name,
    http_1_0_closes_unless_asked_to_keep,
    close_is_honoured,
    last_answer_announces_close,
    target_is_judged_before_method,
    raw_utf8_target_is_served_as_escaped,
    later_minor_version_is_answered_as_1_1,
}

fn target_is_judged_before_method(io: Io) {
    let site = TestSite::new();
    site.write("file.txt", b"x");
    site.write("folder/index.html", b"x");
    site.write("listed/x", b"x");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nnames = [\"test\"]\nroot = \"site\"\n\
         [[host.route]]\nprefix = \"/status\"\naction = \"status\"\n\
         [[host.route]]\nprefix = \"/old\"\naction = \"redirect\"\nto = \"/new{rest}\"\n",
    );
    let mut client = server.client();
    for (target, read, written, options) in [
        ("/missing", 404, 404, 404),
        ("/missing/", 404, 404, 404),
        ("/file.txt/x", 404, 404, 404),
        ("/.hidden", 404, 404, 404),
        ("/a%2Fb", 404, 404, 404),
        ("/%zz", 400, 400, 400),
        ("/file.txt", 200, 405, 204),
        ("/folder", 301, 308, 308),
        ("/folder/", 200, 405, 204),
        ("/listed/", 200, 405, 204),
        ("/status", 200, 405, 204),
        ("/old/x", 301, 301, 301),
    ] {
        for (method, status) in [("GET", read), ("POST", written), ("DELETE", written), ("OPTIONS", options)]
        {
            assert_eq!(client.request(method, target, &[]).status, status, "{method} {target}");
        }
        // Conditions are checked after the target and the method.
        let refused = client.request("POST", target, &["If-Match: \"x\""]);
        assert_eq!(refused.status, written, "{target}");
    }
    server.stops_clean();
}

fn raw_utf8_target_is_served_as_escaped(io: Io) {
    let site = TestSite::new();
    site.write("caf\u{e9}.txt", b"utf8");
    site.write("d\u{e9}p\u{f4}t/index.html", b"folder");
    let server = TestServer::start(io, &site, &["--log", "-"]);
    let mut client = server.client();
    assert_eq!(client.get("/caf\u{e9}.txt").text(), "utf8");
    assert_eq!(client.get("/caf%C3%A9.txt?q=\u{e9}").text(), "utf8");
    let moved = client.get("/d\u{e9}p\u{f4}t?q=\u{e9}");
    assert_eq!((moved.status, moved.field("location")), (301, "/d%C3%A9p%C3%B4t/?q=%C3%A9"));
    // A control byte stays refused.
    client.send("GET /\u{7f} HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 400);
    server.stops_clean();
    assert!(server.stdout().contains(r#""GET /caf\xC3\xA9.txt HTTP/1.1" 200"#), "{}", server.stdout());
}

fn later_minor_version_is_answered_as_1_1(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    for version in ["1.2", "1.9"] {
        client.send(format!("GET /small.txt HTTP/{version}\r\nHost: h\r\n\r\n"));
        let response = client.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.closes()), (200, false), "{version}");
    }
    for version in ["0.9", "2.0", "3.1"] {
        let mut client = server.client();
        client.send(format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"));
        assert_eq!(client.read(ExpectedContent::Follows).status, 505, "{version}");
    }
    server.stops_clean();
}

/// Regression: the server did not read the second piece before the header timeout.
fn bad_method_is_refused_in_two_pieces(io: Io) {
    let (_site, server) = served(io, &["--header-timeout", "1h"]);
    for (first, second) in [("GJJJJJJJJJJJJJJJJJJJJJJJJJJJJJ", "\0"), ("GET /aaaaaaaaaaaaaaaaaaaaa", "\u{7}")]
    {
        let mut client = server.client();
        // The answer to the preceding request shows that the server has read the first piece alone.
        client.send(format!("GET /missing HTTP/1.1\r\nHost: h\r\n\r\n{first}"));
        assert_eq!(client.read(ExpectedContent::Follows).status, 404);
        client.send(second);
        assert_eq!(client.read(ExpectedContent::Follows).status, 400, "{first}");
    }
    server.stops_clean();
}

fn served(io: Io, args: &[&str]) -> (TestSite, TestServer) {
    let site = TestSite::new();
    site.write("small.txt", &noise(1, 1000));
    site.write("mid.bin", &noise(2, 60_000));
    site.write("large.bin", &noise(3, 3_000_000));
    let server = TestServer::start(io, &site, args);
    (site, server)
}

fn head_is_get_without_the_content(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    for target in ["/", "/small.txt", "/mid.bin", "/large.bin", "/missing", "/index.html?a=b"] {
        let get = client.get(target);
        let head = client.request("HEAD", target, &[]);
        assert!(head.has_head_of(&get), "{target}: {head:?}");
        assert_eq!(get.field("content-length"), get.body.len().to_string());
    }
    assert_eq!(client.get("/large.bin").body, noise(3, 3_000_000));
    server.stops_clean();
}

fn options_answer_names_allowed_methods(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    assert_eq!(client.request("OPTIONS", "/missing", &[]).status, 404);
    for target in ["*", "/small.txt"] {
        let response = client.request("OPTIONS", target, &[]);
        assert_eq!((response.status, response.field("allow")), (204, "GET, HEAD, OPTIONS"));
    }
    server.stops_clean();
}

fn other_methods_are_refused_by_name(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW", "get"] {
        let response = client.request(method, "/small.txt", &[]);
        assert_eq!((response.status, response.field("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
        assert!(!response.closes());
    }
    assert_eq!(client.get("/small.txt").status, 200);
    server.stops_clean();
}

fn a_body_is_read_and_the_connection_kept(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    let body = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20_000);
    let framed = [
        format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x};a=b\r\n{body}\r\n0\r\nX: y\r\n\r\n", body.len()),
    ];
    for framed in framed {
        client.send(format!("POST /small.txt HTTP/1.1\r\nHost: h\r\n{framed}"));
        assert_eq!(client.read(ExpectedContent::Follows).status, 405);
        client.send(format!("GET /small.txt HTTP/1.1\r\nHost: h\r\n{framed}"));
        assert_eq!(client.read(ExpectedContent::Follows).body, noise(1, 1000));
        assert_eq!(client.get("/mid.bin").body, noise(2, 60_000));
    }
    server.stops_clean();
}

fn a_body_over_the_limit_is_refused_and_the_connection_closed(io: Io) {
    let (_site, server) = served(io, &["--body-bytes", "1000"]);
    let mut client = server.client();
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    client.send([b'x'; 1000]);
    assert!(!client.read(ExpectedContent::Follows).closes());
    client.send("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    // The server reads on for a while so that no reset overtakes its answer.
    client.send([b'x'; 1001]);
    let response = client.read(ExpectedContent::Follows);
    assert_eq!((response.status, response.closes()), (413, true));
    client.ends_silently();
    server.says(
        "GET /: the content of the request has more than 1000 bytes; that limit is changed by --body-bytes",
    );
    // The target and the method are judged before the content.
    for (request, status) in [("PUT /", 405), ("PUT /missing", 404)] {
        let mut client = server.client();
        client.send(format!("{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n"));
        let response = client.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.closes()), (status, true), "{request}");
        client.ends_silently();
    }
    server.stops_clean();
}

fn a_chunked_body_over_the_limit_closes_the_connection(io: Io) {
    let (_site, server) = served(io, &["--body-bytes", "1000"]);
    let mut client = server.client();
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    // A request has a single answer, which was sent before the content was read.
    assert_eq!(client.read(ExpectedContent::Follows).status, 405);
    client.ends_silently();
    server.stops_clean();
}

fn expect_100_gets_final_answer_and_close(io: Io) {
    let (_site, server) = served(io, &[]);
    for (method, status) in [("PUT", 405), ("GET", 200)] {
        let mut client = server.client();
        client.send(format!(
            "{method} /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        ));
        let response = client.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.closes()), (status, true));
        client.ends_silently();
    }
    let response = server.client().get_with("/", &["Expect: tea"]);
    assert_eq!((response.status, response.closes()), (417, true));
    server.stops_clean();
}

fn http_1_0_closes_unless_asked_to_keep(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    for _ in 0..2 {
        client.send("GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.read(ExpectedContent::Follows);
        assert_eq!(response.field("connection"), "keep-alive");
        assert_eq!(response.body, noise(1, 1000));
    }
    for target in ["/small.txt", "/mid.bin", "/large.bin"] {
        let mut client = server.client();
        client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert!(client.read(ExpectedContent::Follows).closes(), "{target}");
        client.ends_silently();
    }
    server.stops_clean();
}

fn close_is_honoured(io: Io) {
    let (_site, server) = served(io, &[]);
    for target in ["/small.txt", "/mid.bin", "/large.bin", "/missing", "/deep/"] {
        let mut client = server.client();
        // The server does not answer data after the last request.
        let further = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n{further}"));
        assert!(client.read(ExpectedContent::Follows).closes(), "{target}");
        client.ends_silently();
    }
    server.stops_clean();
}

fn pipelined_requests_are_answered_in_order(io: Io) {
    let (site, server) = served(io, &[]);
    let mut expected = Vec::new();
    let mut requests = String::new();
    for index in 0..20u64 {
        let (name, len) = match index % 4 {
            0 => (format!("a{index}.txt"), 900),
            1 => (format!("b{index}.bin"), 50_000),
            2 if index == 10 => ("large.bin".to_owned(), 3_000_000),
            _ => (format!("missing{index}"), 0),
        };
        let bytes = noise(if index == 10 { 3 } else { 100 + index }, len);
        if len > 0 {
            site.write(&name, &bytes);
        }
        requests.push_str(&format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        expected.push(bytes);
    }
    let mut client = server.client();
    for _ in 0..3 {
        client.send(&requests);
        for (index, expected) in expected.iter().enumerate() {
            let response = client.read(ExpectedContent::Follows);
            match expected.len() {
                0 => assert_eq!(response.status, 404, "request {index}"),
                _ => assert!(response.status == 200 && response.body == *expected, "request {index}"),
            }
        }
    }
    server.stops_clean();
}

fn last_answer_announces_close(io: Io) {
    let (_site, server) = served(io, &["--requests-per-connection", "3"]);
    let mut client = server.client();
    for index in 1..=3 {
        client.ask("GET", "/small.txt", &[]);
        assert_eq!(client.read(ExpectedContent::Follows).closes(), index == 3);
    }
    client.ends_silently();
    server.stops_clean();
}

/// Regression: the pages of refusals followed their heads (RFC 9110, section 9.3.2).
fn refused_head_request_gets_no_content(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &["--header-timeout", "300ms"]);
    for (request, status) in [
        ("HEAD / HTTP/1.1\r\n\r\n", 400),
        ("\r\nHEAD / HTTP/1.1\r\nHost: h\r\nbad name: x\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\r\nHost: h\r\nExpect: foo\r\n\r\n", 417),
        ("HEAD / HTTP/1.1\r\nHost: h\r\n", 408),
    ] {
        let mut client = server.client();
        client.send(request);
        let refused = client.read(ExpectedContent::Omitted);
        assert_eq!((refused.status, refused.closes()), (status, true), "{request:?}");
        client.ends_silently();
    }
    server.stops_clean();
}
