//! Methods, bodies, persistence and pipelining.

use crate::support::{Content, Io, Server, Site, noise, on_both};

on_both!(
    head_is_get_without_the_content,
    options_names_what_is_allowed,
    other_methods_are_refused_by_name,
    a_body_is_read_and_the_connection_kept,
    a_body_over_the_limit_is_refused_and_the_connection_closed,
    a_chunked_body_over_the_limit_closes_the_connection,
    who_expects_100_gets_the_final_answer_and_the_end,
    http_1_0_closes_unless_asked_to_keep,
    close_is_honoured,
    pipelined_requests_are_answered_in_order,
    the_last_request_of_a_connection_says_so,
);

fn served(io: Io, args: &[&str]) -> (Site, Server) {
    let site = Site::new();
    site.write("small.txt", &noise(1, 1000));
    site.write("mid.bin", &noise(2, 60_000));
    site.write("large.bin", &noise(3, 3_000_000));
    let server = Server::start(io, &site, args);
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

fn options_names_what_is_allowed(io: Io) {
    let (_site, server) = served(io, &[]);
    let mut client = server.client();
    for target in ["*", "/small.txt", "/missing"] {
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
        assert_eq!(client.read(Content::Follows).status, 405);
        client.send(format!("GET /small.txt HTTP/1.1\r\nHost: h\r\n{framed}"));
        assert_eq!(client.read(Content::Follows).body, noise(1, 1000));
        assert_eq!(client.get("/mid.bin").body, noise(2, 60_000));
    }
    server.stops_clean();
}

fn a_body_over_the_limit_is_refused_and_the_connection_closed(io: Io) {
    let (_site, server) = served(io, &["--body-bytes", "1000"]);
    let mut client = server.client();
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    client.send([b'x'; 1000]);
    assert!(!client.read(Content::Follows).closes());
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    // The server reads on for a while so that no reset overtakes its answer.
    client.send([b'x'; 1001]);
    let response = client.read(Content::Follows);
    assert_eq!((response.status, response.closes()), (413, true));
    client.ends_silently();
    server.stops_clean();
}

fn a_chunked_body_over_the_limit_closes_the_connection(io: Io) {
    let (_site, server) = served(io, &["--body-bytes", "1000"]);
    let mut client = server.client();
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    // One request has one answer: it was given before its content was read.
    assert_eq!(client.read(Content::Follows).status, 405);
    client.ends_silently();
    server.stops_clean();
}

fn who_expects_100_gets_the_final_answer_and_the_end(io: Io) {
    let (_site, server) = served(io, &[]);
    for (method, status) in [("PUT", 405), ("GET", 200)] {
        let mut client = server.client();
        client.send(format!(
            "{method} /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        ));
        let response = client.read(Content::Follows);
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
        let response = client.read(Content::Follows);
        assert_eq!(response.field("connection"), "keep-alive");
        assert_eq!(response.body, noise(1, 1000));
    }
    for target in ["/small.txt", "/mid.bin", "/large.bin"] {
        let mut client = server.client();
        client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert!(client.read(Content::Follows).closes(), "{target}");
        client.ends_silently();
    }
    server.stops_clean();
}

fn close_is_honoured(io: Io) {
    let (_site, server) = served(io, &[]);
    for target in ["/small.txt", "/mid.bin", "/large.bin", "/missing", "/deep/"] {
        let mut client = server.client();
        // What follows the last request is not answered.
        let further = "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n{further}"));
        assert!(client.read(Content::Follows).closes(), "{target}");
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
            let response = client.read(Content::Follows);
            match expected.len() {
                0 => assert_eq!(response.status, 404, "request {index}"),
                _ => assert!(response.status == 200 && response.body == *expected, "request {index}"),
            }
        }
    }
    server.stops_clean();
}

fn the_last_request_of_a_connection_says_so(io: Io) {
    let (_site, server) = served(io, &["--requests-per-connection", "3"]);
    let mut client = server.client();
    for index in 1..=3 {
        client.ask("GET", "/small.txt", &[]);
        assert_eq!(client.read(Content::Follows).closes(), index == 3);
    }
    client.ends_silently();
    server.stops_clean();
}
