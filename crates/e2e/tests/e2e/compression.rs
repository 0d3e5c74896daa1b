//! The key `compress`: files and answers of programs in each coding, with tags, conditions, ranges
//! and bounds.

use crate::support::{ExpectedContent, Io, Response, TestServer, TestSite, noise, on_usual, until, until_or};
use rustix::process::Signal;
use std::{fs, io::Read as _, os::unix::fs::PermissionsExt as _, process::Command};

on_usual!(
    each_coding_decodes_to_the_file,
    weights_of_client_choose_coding,
    types_sizes_and_rules_leave_files_alone,
    precompressed_sibling_has_precedence,
    tags_and_conditions_tell_codings_apart,
    ranges_are_of_the_file_as_it_is,
    changed_file_is_compressed_again,
    cache_of_compressed_files_is_bounded,
    content_that_slow_client_receives_is_bounded,
    programs_are_compressed,
    program_fields_forbid_compression,
    route_of_answering_path_decides,
    each_event_of_a_stream_arrives_at_once,
    answers_beyond_bounds_go_as_they_are,
    reload_changes_bounds_and_rules,
    truncated_program_answer_stays_incomplete,
    many_clients_get_one_compression,
    file_with_weak_tag_is_compressed_once,
    php_answers_are_compressed,
    curl_decodes_every_coding,
);

/// The names of the codings.
const NAMES: [&str; 3] = ["gzip", "br", "zstd"];

/// A text of `len` bytes that compresses about as well as a page.
fn page(seed: u64, len: usize) -> Vec<u8> {
    let words = noise(seed, len / 3 + 8);
    let mut text = Vec::with_capacity(len + 16);
    for word in words {
        text.extend_from_slice(format!("<p>word{}</p>\n", word % 50).as_bytes());
        if text.len() >= len {
            break;
        }
    }
    text.truncate(len);
    text
}

fn decoded(response: &Response) -> Vec<u8> {
    let (coded, mut out) = (&response.body[..], Vec::new());
    match response.get("content-encoding") {
        None => out.extend_from_slice(coded),
        Some("gzip") => {
            flate2::read::GzDecoder::new(coded).read_to_end(&mut out).expect("gzip");
        }
        Some("br") => {
            brotli::Decompressor::new(coded, 4096).read_to_end(&mut out).expect("brotli");
        }
        Some("zstd") => {
            let decoder = zstd::stream::read::Decoder::new(coded);
            decoder.and_then(|mut decoder| decoder.read_to_end(&mut out)).expect("zstd");
        }
        Some(other) => panic!("unknown coding {other}"),
    }
    out
}

/// A server for `site` with these keys of its host.
#[track_caller]
fn serve(io: Io, site: &TestSite, keys: &str) -> TestServer {
    TestServer::configured(io, site, &format!("[[host]]\nroot = \"site\"\n{keys}\n"))
}

/// A server with CGI below `/cgi-bin/`.
#[track_caller]
fn serve_programs(io: Io, site: &TestSite, keys: &str) -> TestServer {
    TestServer::configured(io, site, &programs(keys))
}

/// The configuration of a host with these keys and CGI below `/cgi-bin/`.
fn programs(keys: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    format!(
        "[[host]]\nroot = \"site\"\n{keys}\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n{user}"
    )
}

fn open_to_all(site: &TestSite) {
    let around = site.outside("");
    for folder in [around, site.root()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

fn script(site: &TestSite, name: &str, lines: &str) {
    site.write(name, format!("#!/bin/sh\n{lines}\n").as_bytes());
    let path = site.path(name);
    let folder = path.parent().expect("in a folder");
    for path in [&*path, folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

fn accept(codings: &str) -> String {
    format!("Accept-Encoding: {codings}")
}

/// Waits until the file has a strong tag. A file that has just changed has a weak tag, which
/// differs from request to request, and each request compresses the file anew.
#[track_caller]
fn until_settled(server: &TestServer, target: &str) {
    until("the tag is strong", || {
        (!server.client().get(target).field("etag").starts_with("W/")).then_some(())
    });
}

/// Whether the answer says once that it depends on the accepted codings.
fn varies(response: &Response) -> bool {
    response.get("vary") == Some("Accept-Encoding")
}

fn each_coding_decodes_to_the_file(io: Io) {
    let site = TestSite::new();
    // In memory, on disk, and one that is asked for once.
    let files = [("small.css", 2_000), ("medium.html", 60_000), ("large.js", 1_500_000)];
    for (seed, (name, len)) in files.into_iter().enumerate() {
        site.write(name, &page(seed as u64, len));
    }
    let server = serve(io, &site, "compress = true");
    let mut client = server.client();
    for (seed, (name, len)) in files.into_iter().enumerate() {
        let content = page(seed as u64, len);
        let target = format!("/{name}");
        until_settled(&server, &target);
        let plain = client.get(&target);
        assert!(plain.body == content && plain.get("content-encoding").is_none() && varies(&plain));
        for coding in NAMES {
            for _ in 0..3 {
                let coded = client.get_with(&target, &[&accept(coding)]);
                assert_eq!((coded.status, coded.field("content-encoding")), (200, coding));
                assert!(decoded(&coded) == content, "{name} {coding}");
                assert!(coded.body.len() < content.len() / 2, "{name} {coding}: {}", coded.body.len());
                assert!(varies(&coded) && coded.get("accept-ranges").is_none());
                assert_eq!(coded.field("content-type"), plain.field("content-type"));
                let head = client.request("HEAD", &target, &[&accept(coding)]);
                assert!(head.has_head_of(&coded), "{head:?} {:?}", coded.fields);
            }
        }
    }
    server.stops_clean();
}

fn weights_of_client_choose_coding(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", &page(1, 5_000));
    let server = serve(io, &site, "compress = true");
    let ordered = serve(io, &site, "compress = { codings = [\"gzip\", \"br\"] }");
    for (field, all, two) in [
        ("gzip, deflate, br, zstd", Some("zstd"), Some("gzip")),
        ("gzip, deflate, br", Some("br"), Some("gzip")),
        ("br;q=0.9, gzip;q=0.8", Some("br"), Some("br")),
        ("br;q=0.7, gzip;q=0.8, zstd;q=0.1", Some("gzip"), Some("gzip")),
        ("*", Some("zstd"), Some("gzip")),
        ("*;q=0.5, zstd;q=0", Some("br"), Some("gzip")),
        ("identity;q=0, *;q=0.1", Some("zstd"), Some("gzip")),
        ("identity, gzip;q=0.5", None, None),
        ("identity;q=0", None, None),
        ("*;q=0", None, None),
        ("deflate", None, None),
        ("gzip;q=0", None, None),
    ] {
        for (server, coding) in [(&server, all), (&ordered, two)] {
            let answer = server.client().get_with("/a.txt", &[&accept(field)]);
            assert_eq!((answer.status, answer.get("content-encoding")), (200, coding), "{field}");
            assert!(decoded(&answer) == page(1, 5_000) && varies(&answer));
        }
    }
}

fn types_sizes_and_rules_leave_files_alone(io: Io) {
    let site = TestSite::new();
    let content = page(2, 5_000);
    for name in
        ["a.txt", "a.png", "a.bin", "plain/a.txt", "fixed/a.txt", "own/a.bin", "own/a.png", "big/a.txt"]
    {
        site.write(name, &content);
    }
    site.write("short.txt", &content[..1023]);
    site.write("random.txt", &noise(9, 5_000));
    let server = serve(
        io,
        &site,
        "compress = true\ncache_control = { \"text/*\" = \"max-age=60\" }\n\
         [[host.route]]\nprefix = \"/plain\"\naction = \"files\"\ncompress = false\n\
         [[host.route]]\nprefix = \"/fixed\"\naction = \"files\"\nheaders = { Cache-Control = \"no-transform\" }\n\
         [[host.route]]\nprefix = \"/own\"\naction = \"files\"\ncompress = { types = [\"*\"], min_size = 0 }\n\
         [[host.route]]\nprefix = \"/big\"\naction = \"files\"\ncompress = { min_size = 5001 }",
    );
    let mut client = server.client();
    for (target, coding) in [
        ("/a.txt", Some("gzip")),
        ("/own/a.bin", Some("gzip")),
        ("/a.png", None),
        ("/a.bin", None),
        ("/own/a.png", None),
        ("/plain/a.txt", None),
        ("/fixed/a.txt", None),
        ("/big/a.txt", None),
        ("/short.txt", None),
    ] {
        let answer = client.get_with(target, &[&accept("gzip")]);
        assert_eq!((answer.status, answer.get("content-encoding")), (200, coding), "{target}");
        assert_eq!(varies(&answer), coding.is_some(), "{target}");
    }
    // Content that does not become shorter is sent as is, with the tag of the file.
    let random = client.get_with("/random.txt", &[&accept("gzip")]);
    assert!(random.body == noise(9, 5_000) && random.get("content-encoding").is_none() && varies(&random));
    let known = format!("If-None-Match: {}", random.field("etag"));
    assert_eq!(client.get_with("/random.txt", &[&accept("gzip"), &known]).status, 304);
    let transformed = serve(io, &site, "compress = true\ncache_control = { \"*\" = \"no-transform\" }");
    let answer = transformed.client().get_with("/a.txt", &[&accept("gzip")]);
    assert!(answer.get("content-encoding").is_none() && answer.get("vary").is_none());
    let off = serve(io, &site, "");
    let answer = off.client().get_with("/a.txt", &[&accept("gzip")]);
    assert!(answer.get("content-encoding").is_none() && answer.get("vary").is_none(), "off by default");
}

fn precompressed_sibling_has_precedence(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", &page(3, 5_000));
    site.write("a.txt.gz", b"made by the operator");
    let server = serve(io, &site, "compress = true");
    let mut client = server.client();
    let sibling = client.get_with("/a.txt", &[&accept("gzip, br, zstd")]);
    assert_eq!((sibling.text(), sibling.field("content-encoding")), ("made by the operator", "gzip"));
    assert!(varies(&sibling));
    let made = client.get_with("/a.txt", &[&accept("br")]);
    assert_eq!(made.field("content-encoding"), "br");
    assert!(decoded(&made) == page(3, 5_000) && varies(&made));
}

fn tags_and_conditions_tell_codings_apart(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", &page(4, 5_000));
    site.age("a.txt");
    let server = serve(io, &site, "compress = true");
    let mut client = server.client();
    let plain = client.get("/a.txt");
    let tags: Vec<_> =
        NAMES.map(|name| client.get_with("/a.txt", &[&accept(name)]).field("etag").to_owned()).into();
    assert!(!plain.field("etag").starts_with("W/"));
    for (index, (tag, name)) in tags.iter().zip(NAMES).enumerate() {
        assert!(tag.starts_with("W/\"") && tag.ends_with(&format!("-{name}\"")), "{tag}");
        assert!(!tags[index + 1..].contains(tag));
        let condition = format!("If-None-Match: {tag}");
        let unchanged = client.get_with("/a.txt", &[&accept(name), &condition]);
        assert_eq!((unchanged.status, unchanged.field("etag")), (304, tag.as_str()));
        assert!(varies(&unchanged) && unchanged.get("content-encoding").is_none());
        // The other representations are others.
        assert_eq!(client.get_with("/a.txt", &[&condition]).status, 200);
        let other = NAMES[(index + 1) % NAMES.len()];
        assert_eq!(client.get_with("/a.txt", &[&accept(other), &condition]).status, 200);
        // A weak tag never fulfils If-Match (RFC 9110, section 13.1.1).
        let exact = format!("If-Match: {tag}");
        assert_eq!(client.get_with("/a.txt", &[&accept(name), &exact]).status, 412);
    }
    let unchanged = client.get_with("/a.txt", &[&format!("If-None-Match: {}", plain.field("etag"))]);
    assert_eq!(unchanged.status, 304);
    assert!(varies(&unchanged));
    let date = format!("If-Modified-Since: {}", plain.field("last-modified"));
    assert_eq!(client.get_with("/a.txt", &[&accept("gzip"), &date]).status, 304);
    let untagged = serve(io, &site, "compress = true\netag = false");
    let answer = untagged.client().get_with("/a.txt", &[&accept("gzip")]);
    assert_eq!((answer.get("etag"), answer.field("content-encoding")), (None, "gzip"));
}

fn ranges_are_of_the_file_as_it_is(io: Io) {
    let site = TestSite::new();
    let content = page(5, 300_000);
    site.write("a.txt", &content);
    site.age("a.txt");
    let server = serve(io, &site, "compress = true");
    let mut client = server.client();
    let coded = client.get_with("/a.txt", &[&accept("gzip")]);
    let part = client.get_with("/a.txt", &[&accept("gzip"), "Range: bytes=1000-1999"]);
    assert_eq!((part.status, part.get("content-encoding")), (206, None));
    assert!(part.body == content[1000..2000] && varies(&part));
    let parts = client.get_with("/a.txt", &[&accept("gzip"), "Range: bytes=0-9,50-59"]);
    assert_eq!((parts.status, parts.get("content-encoding")), (206, None));
    assert!(varies(&parts));
    // A part of the coded content cannot be continued with a part of the file.
    for validator in ["etag", "last-modified"] {
        let continued = format!("If-Range: {}", coded.field(validator));
        let whole = client.get_with("/a.txt", &[&accept("gzip"), "Range: bytes=1000-", &continued]);
        assert_eq!((whole.status, whole.get("content-encoding")), (200, None), "{validator}");
        assert!(whole.body == content);
    }
    assert_eq!(client.get_with("/a.txt", &[&accept("gzip"), "Range: bytes=300000-"]).status, 416);
    let head = client.request("HEAD", "/a.txt", &[&accept("gzip"), "Range: bytes=0-9"]);
    assert_eq!((head.status, head.field("content-encoding")), (200, "gzip"));
}

fn changed_file_is_compressed_again(io: Io) {
    let site = TestSite::new();
    let server = {
        site.write("a.txt", &page(0, 50_000));
        serve(io, &site, "compress = true")
    };
    let mut client = server.client();
    let mut tag = String::new();
    for seed in 1..8 {
        match seed % 2 {
            0 => site.replace("a.txt", &page(seed, 50_000)),
            _ => site.write("a.txt", &page(seed, 50_000)),
        }
        for _ in 0..3 {
            let coded = client.get_with("/a.txt", &[&accept("br")]);
            assert_eq!(coded.field("content-encoding"), "br");
            assert!(decoded(&coded) == page(seed, 50_000), "old content after change {seed}");
            assert_ne!(coded.field("etag"), tag);
            if !tag.is_empty() {
                let old = format!("If-None-Match: {tag}");
                assert_eq!(client.get_with("/a.txt", &[&accept("br"), &old]).status, 200);
            }
        }
        tag = client.get_with("/a.txt", &[&accept("br")]).field("etag").to_owned();
    }
}

/// The status that the route `/status` of the server reports, in up to a second after a change.
fn status(server: &TestServer) -> String {
    server.client().get("/status").text().to_owned()
}

/// A count of the compression in the status.
fn count(server: &TestServer, name: &str) -> Option<u64> {
    let text = server.client().get("/status?json").text().to_owned();
    let rest = &text[text.find("\"compression\"").expect("compression in the status")..];
    let value = rest.split(&format!("\"{name}\":")).nth(1)?.trim_start();
    value[..value.find(|c: char| !c.is_ascii_digit()).expect("an end")].parse().ok()
}

/// Waits for counts of the compression in the status.
#[track_caller]
fn until_counts(server: &TestServer, counts: &[(&str, u64)]) {
    until_or(
        || counts.iter().all(|&(name, value)| count(server, name) == Some(value)).then_some(()),
        || format!("the status has {counts:?}: {}", status(server)),
    );
}

fn cache_of_compressed_files_is_bounded(io: Io) {
    let site = TestSite::new();
    for number in 0..40 {
        site.write(&format!("{number}.txt"), &page(number, 20_000));
        site.age(&format!("{number}.txt"));
    }
    let text = "[compression]\ncache_bytes = \"40K\"\n[[host]]\nroot = \"site\"\ncompress = { codings = [\"gzip\"] }\n\
                [[host.route]]\npath = \"/status\"\naction = \"status\"\n\
                [[host.route]]\npath = \"/metrics\"\naction = \"metrics\"\n";
    let server = TestServer::configured(io, &site, text);
    let mut client = server.client();
    for _ in 0..2 {
        for number in 0..40 {
            let target = format!("/{number}.txt");
            for _ in 0..2 {
                let coded = client.get_with(&target, &[&accept("gzip")]);
                assert!(decoded(&coded) == page(number, 20_000));
            }
        }
    }
    // The second request for a file finds its content, and the second round finds none.
    until_counts(&server, &[("files", 80), ("file_hits", 80), ("cache_bytes_max", 40 * 1024)]);
    assert!(count(&server, "cache_bytes").is_some_and(|bytes| bytes > 0 && bytes <= 40 * 1024));
    assert!(count(&server, "cache_files").is_some_and(|files| files < 40));
    assert!(status(&server).contains("compression: "), "{}", status(&server));
    let metrics = server.client().get("/metrics");
    for name in ["compressed_files_total", "compressed_hits_total", "compression_work_seconds_total"] {
        assert!(metrics.text().contains(&format!("vermeil_{name}")), "{name}: {}", metrics.text());
    }
    let none = TestServer::configured(io, &site, &text.replace("40K", "0"));
    for _ in 0..3 {
        assert!(decoded(&none.client().get_with("/0.txt", &[&accept("gzip")])) == page(0, 20_000));
    }
    until_counts(&none, &[("cache_files", 0), ("files", 3)]);
}

/// Contents outside of the cache, which slow clients still receive, are in the status and have a
/// bound. Above the bound, files go as they are, and contents in the cache stay compressed.
fn content_that_slow_client_receives_is_bounded(io: Io) {
    let site = TestSite::new();
    let words = noise(7, 12_000_000);
    let text: String = words.into_iter().map(|word| format!("{word:02x}")).collect();
    site.write("large.txt", text.as_bytes());
    site.age("large.txt");
    for name in ["kept.txt", "other.txt"] {
        site.write(name, &page(8, 20_000));
        site.age(name);
    }
    let text = "[compression]\ncache_bytes = \"40K\"\nsending_bytes = \"1M\"\nfile_bytes = \"64M\"\n\
                [[host]]\nroot = \"site\"\n\
                compress = { codings = [\"gzip\"] }\n[[host.route]]\npath = \"/status\"\naction = \"status\"\n";
    let server = TestServer::configured(io, &site, text);
    let coding = |target: &str| {
        let answer = server.client().get_with(target, &[&accept("gzip")]);
        assert!(decoded(&answer) == page(8, 20_000), "{target}");
        answer.get("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding("/kept.txt").as_deref(), Some("gzip"));
    let mut slow = server.client();
    slow.ask("GET", "/large.txt", &[&accept("gzip")]);
    slow.wait_readable();
    until_or(
        || count(&server, "content_bytes").is_some_and(|bytes| bytes > 1 << 20).then_some(()),
        || format!("the content counts: {}", status(&server)),
    );
    until_counts(&server, &[("cache_files", 1), ("files", 2)]);
    assert_eq!(coding("/kept.txt").as_deref(), Some("gzip"));
    assert_eq!(coding("/other.txt"), None);
    until_counts(&server, &[("files", 2), ("refused", 1)]);
    drop(slow);
    until("clients hold less", || coding("/other.txt"));
    until_counts(&server, &[("cache_files", 2), ("files", 3)]);
    server.stops_clean();
}

fn programs_are_compressed(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    site.write("page", &page(6, 9_000));
    site.write("long", &page(7, 900_000));
    let html = "echo 'Content-Type: text/html'; echo 'ETag: \"t\"'";
    script(&site, "cgi-bin/page", &format!("{html}; echo; cat ../page"));
    script(&site, "cgi-bin/long", &format!("{html}; echo; cat ../long"));
    script(&site, "cgi-bin/length", &format!("{html}; echo 'Content-Length: 900000'; echo; cat ../long"));
    script(&site, "cgi-bin/short", &format!("{html}; echo; echo short"));
    script(&site, "cgi-bin/excess", &format!("{html}; echo 'Content-Length: 5000'; echo; cat ../page"));
    script(&site, "cgi-bin/unmodified", "echo 'Status: 304 Not Modified'; echo 'ETag: \"t\"'; echo");
    let server = serve_programs(io, &site, "compress = true");
    let mut client = server.client();
    for coding in NAMES {
        let fields = &[&*accept(coding)];
        for (target, content) in [
            ("/cgi-bin/page", &page(6, 9_000)[..]),
            ("/cgi-bin/long", &page(7, 900_000)),
            ("/cgi-bin/length", &page(7, 900_000)),
            ("/cgi-bin/excess", &page(6, 9_000)[..5_000]),
        ] {
            client.ask("GET", target, fields);
            let answer = client.read(ExpectedContent::Follows);
            assert_eq!((answer.status, answer.field("content-encoding")), (200, coding), "{target}");
            assert!(decoded(&answer) == content, "{target} {coding}");
            assert!(answer.body.len() < content.len() / 2, "{target} {coding} {}", answer.body.len());
            assert_eq!((answer.field("etag"), varies(&answer)), ("W/\"t\"", true), "{target}");
        }
        let short = client.get_with("/cgi-bin/short", fields);
        assert_eq!((short.text(), short.get("content-encoding"), varies(&short)), ("short\n", None, true));
        assert_eq!(short.field("etag"), "\"t\"");
        let unmodified = client.get_with("/cgi-bin/unmodified", fields);
        assert_eq!((unmodified.status, varies(&unmodified)), (304, true));
    }
    let plain = client.get("/cgi-bin/length");
    assert!(plain.body == page(7, 900_000) && varies(&plain) && plain.field("etag") == "\"t\"");
    // Without chunks, the end of the connection ends the content.
    let mut old = server.client();
    old.send("GET /cgi-bin/long HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    old.read_to_end();
    let received = old.received().to_vec();
    let end = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(&received[end..]).read_to_end(&mut content).expect("gzip");
    assert!(content == page(7, 900_000));
    let mut head = server.client();
    head.send("HEAD /cgi-bin/length HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n");
    head.read_to_end();
    let head = String::from_utf8(head.received().to_vec()).expect("text");
    assert!(
        head.contains("Content-Encoding: br\r\n") && head.contains("Vary: Accept-Encoding\r\n"),
        "{head}"
    );
    assert!(!head.contains("Content-Length"), "{head}");
    server.stops_clean();
}

fn program_fields_forbid_compression(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    let body = page(8, 5_000);
    site.write("page", &body);
    for (name, fields) in [
        ("coded", "Content-Type: text/html\\nContent-Encoding: x-own"),
        ("fixed", "Content-Type: text/html\\nCache-Control: private, no-transform"),
        ("image", "Content-Type: image/png"),
        ("untyped", "X-A: b"),
        ("digest", "Content-Type: text/html\\nContent-Digest: sha-256=:x:"),
    ] {
        script(&site, &format!("cgi-bin/{name}"), &format!("printf '{fields}\\n\\n'; cat ../page"));
    }
    script(
        &site,
        "cgi-bin/part",
        "printf 'Status: 206 Partial Content\\nContent-Type: text/html\\nContent-Range: bytes 0-4999/9000\\n\\n'; cat ../page",
    );
    let server = serve_programs(io, &site, "compress = true");
    let mut client = server.client();
    for target in ["coded", "fixed", "image", "untyped", "digest", "part"] {
        client.ask("GET", &format!("/cgi-bin/{target}"), &[&accept("gzip, br, zstd")]);
        let answer = client.read(ExpectedContent::Follows);
        assert!(answer.body == body, "{target}");
        let expected = (target == "coded").then_some("x-own");
        assert_eq!((answer.get("content-encoding"), answer.get("vary")), (expected, None), "{target}");
    }
}

/// Regression: the rules of the route for an index page, or for a path of `try`, did not hold.
fn route_of_answering_path_decides(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    site.remove("index.html");
    for name in ["rows", "docs/index.html", "short.html", "open.txt", "secret.txt"] {
        site.write(name, &page(15, 9_000));
    }
    script(&site, "index.cgi", "echo 'Content-Type: text/html'; echo; cat rows");
    let text = "[[host]]\nroot = \"site\"\ncompress = true\nindex = [\"index.html\", \"index.cgi\"]\n\
                try = [\"{path}\", \"{path}.txt\", \"{path}.html\", \"/index.cgi\"]\n\
                [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\ncompress = false\nheaders = { X-Route = \"cgi\" }\n\
                [[host.route]]\nsuffix = \".html\"\naction = \"files\"\ncompress = false\nheaders = { X-Route = \"html\" }\n\
                [[host.route]]\nsuffix = \".txt\"\naction = \"files\"\nheaders = { X-Route = \"txt\" }\n\
                [[host.route]]\npath = \"/secret\"\naction = \"files\"\ncompress = false\n";
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let server = TestServer::configured(io, &site, &[text, user].concat());
    let mut client = server.client();
    for (method, target, route, coding) in [
        ("GET", "/index.cgi", "cgi", None),
        ("GET", "/index.cgi/x", "cgi", None),
        ("GET", "/", "cgi", None),
        ("POST", "/", "cgi", None),
        ("GET", "/login", "cgi", None),
        ("GET", "/docs/", "html", None),
        ("GET", "/short", "html", None),
        ("GET", "/open", "txt", Some("gzip")),
        // Two routes concern this answer, and the route for the path of the request forbids
        // compression.
        ("GET", "/secret", "txt", None),
    ] {
        let answer = client.request(method, target, &[&accept("gzip"), "Content-Length: 0"]);
        let is = (answer.status, answer.get("x-route"), answer.get("content-encoding"));
        assert_eq!(is, (200, Some(route), coding), "{method} {target}");
        assert!(decoded(&answer) == page(15, 9_000), "{method} {target}");
    }
    server.stops_clean();
}

fn each_event_of_a_stream_arrives_at_once(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).expect("ours");
    let lines = format!(
        "printf 'Content-Type: text/event-stream\\n\\ndata: first\\n\\n'; read line < {}; printf 'data: second\\n\\n'",
        fifo.display()
    );
    script(&site, "cgi-bin/events", &lines);
    let server = serve_programs(io, &site, "compress = true");
    for coding in NAMES {
        let mut client = server.client();
        client.ask("GET", "/cgi-bin/events", &[&accept(coding)]);
        until("the first event is decodable before the second is written", || {
            client.receive_at_least(client.received().len() + 1);
            let received = client.received();
            let end = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
            assert!(
                String::from_utf8_lossy(&received[..end])
                    .contains(&format!("Content-Encoding: {coding}\r\n"))
            );
            let coded = begun_chunks(&received[end..]);
            let mut first = [0; 13];
            let read = match coding {
                "gzip" => flate2::read::GzDecoder::new(&coded[..]).read_exact(&mut first),
                "br" => brotli::Decompressor::new(&coded[..], 4096).read_exact(&mut first),
                _ => {
                    zstd::stream::read::Decoder::new(&coded[..]).and_then(|mut it| it.read_exact(&mut first))
                }
            };
            read.ok().map(|()| assert_eq!(&first, b"data: first\n\n"))
        });
        fs::write(&fifo, "go\n").expect("somebody reads it");
        let whole = client.read(ExpectedContent::Follows);
        assert_eq!(decoded(&whole), b"data: first\n\ndata: second\n\n");
    }
}

fn answers_beyond_bounds_go_as_they_are(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    let fifo = site.outside("fifo");
    Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).expect("ours");
    let head = "printf 'Content-Type: text/html\\n\\n'";
    script(&site, "cgi-bin/waits", &format!("{head}; cat ../page; read line < {}", fifo.display()));
    script(&site, "cgi-bin/page", &format!("{head}; cat ../page"));
    site.write("page", &page(12, 5_000));
    site.write("fits.txt", &page(12, 10_000));
    site.write("large.txt", &page(12, 10_001));
    let bounds = "[compression]\nanswers_max = 1\nfile_bytes = 10000\n";
    let server = TestServer::configured(io, &site, &format!("{bounds}{}", programs("compress = true")));
    let coding = |target: &str| {
        let mut client = server.client();
        client.ask("GET", target, &[&accept("gzip")]);
        let answer = client.read(ExpectedContent::Follows);
        answer.get("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding("/fits.txt").as_deref(), Some("gzip"));
    assert_eq!(coding("/large.txt"), None);
    assert_eq!(coding("/cgi-bin/page").as_deref(), Some("gzip"));
    let mut waits = server.client();
    waits.ask("GET", "/cgi-bin/waits", &[&accept("gzip")]);
    until("the first answer is being compressed", || {
        waits.receive_at_least(1);
        String::from_utf8_lossy(waits.received()).contains("Content-Encoding: gzip").then_some(())
    });
    assert_eq!(coding("/cgi-bin/page"), None);
    fs::write(&fifo, "go\n").expect("the script reads it");
    assert!(decoded(&waits.read(ExpectedContent::Follows)) == page(12, 5_000));
    until("there is room again", || coding("/cgi-bin/page"));
}

fn reload_changes_bounds_and_rules(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", &page(13, 50_000));
    let text = |keys: &str, bounds: &str| format!("{bounds}[[host]]\nroot = \"site\"\n{keys}\n");
    let server = TestServer::configured(io, &site, &text("", ""));
    let coding = || {
        let answer = server.client().get_with("/a.txt", &[&accept("gzip, br")]);
        assert!(decoded(&answer) == page(13, 50_000));
        answer.get("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding(), None);
    for (keys, bounds, expected) in [
        ("compress = true", "", Some("br")),
        ("compress = { codings = [\"gzip\"] }", "", Some("gzip")),
        ("compress = true", "[compression]\nfile_bytes = 1000\n", None),
        ("compress = false", "", None),
    ] {
        site.configure(io, &text(keys, bounds));
        server.signal(Signal::HUP);
        until_or(
            || (coding().as_deref() == expected).then_some(()),
            || format!("{keys} {bounds} holds: {:?} instead of {expected:?}", coding()),
        );
    }
}

/// The content of the chunks that have arrived.
fn begun_chunks(mut chunks: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(line) = chunks.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&chunks[..line]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let Some(chunk) = chunks.get(line + 2..line + 2 + size) else { break };
        content.extend_from_slice(chunk);
        chunks = chunks.get(line + 4 + size..).unwrap_or_default();
    }
    content
}

fn truncated_program_answer_stays_incomplete(io: Io) {
    let site = TestSite::new();
    open_to_all(&site);
    site.write("long", &page(7, 200_000));
    let head = "printf 'Content-Type: text/html\\n";
    script(&site, "cgi-bin/less", &format!("{head}Content-Length: 900000\\n\\n'; cat ../long"));
    script(&site, "cgi-bin/killed", &format!("{head}\\n'; cat ../long; kill -9 $$"));
    let server = serve_programs(io, &site, "compress = true");
    for target in ["/cgi-bin/less", "/cgi-bin/killed"] {
        for coding in NAMES {
            let mut client = server.client();
            client.ask("GET", target, &[&accept(coding)]);
            client.read_to_end();
            let received = client.received();
            let end = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            if !head.starts_with("HTTP/1.1 200 ") {
                assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
                continue;
            }
            assert!(!received.ends_with(b"0\r\n\r\n"), "{target} {coding} passes for complete");
        }
    }
}

fn many_clients_get_one_compression(io: Io) {
    let site = TestSite::new();
    let content = page(10, 2_000_000);
    site.write("a.js", &content);
    site.age("a.js");
    let text = "[[host]]\nroot = \"site\"\ncompress = { codings = [\"br\"] }\n\
                [[host.route]]\npath = \"/status\"\naction = \"status\"\n";
    let server = TestServer::configured(io, &site, text);
    until_settled(&server, "/a.js");
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for client in &mut clients {
        client.ask("GET", "/a.js", &[&accept("br")]);
    }
    for client in &mut clients {
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!(answer.field("content-encoding"), "br");
        assert!(decoded(&answer) == content);
    }
    until_counts(&server, &[("files", 1)]);
}

/// Regression: each request for a large file with a weak tag compressed the file again.
fn file_with_weak_tag_is_compressed_once(io: Io) {
    // A name that begins with a dot is not served.
    let Ok(memory) = tempfile::Builder::new().prefix("memory").tempdir_in("/dev/shm") else {
        return eprintln!("SKIPPED: no /dev/shm");
    };
    let (site, content) = (TestSite::new(), page(17, 300_000));
    fs::write(memory.path().join("a.txt"), &content).expect("a file");
    site.link("a.txt", memory.path().join("a.txt"));
    let text = "[[host]]\nroot = \"site\"\nfollow_symlinks = \"all\"\ncompress = true\n\
                [[host.route]]\npath = \"/status\"\naction = \"status\"\n";
    let server = TestServer::configured(io, &site, text);
    let tag = || server.get("/a.txt").field("etag").to_owned();
    until("the tag is the same at each look", || (tag() == tag()).then_some(()));
    if !tag().starts_with("W/") {
        return eprintln!("SKIPPED: /dev/shm is on a disk");
    }
    for method in ["GET", "HEAD", "GET", "HEAD", "GET"] {
        let coded = server.client().request(method, "/a.txt", &[&accept("gzip")]);
        assert_eq!(coded.field("content-encoding"), "gzip");
        assert!(method == "HEAD" || decoded(&coded) == content);
    }
    until_counts(&server, &[("files", 1), ("file_hits", 4)]);
}

fn php_answers_are_compressed(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.write(
        "page.php",
        b"<?php header('ETag: \"p\"'); for ($i = 0; $i < 4000; $i++) echo \"<p>row $i</p>\\n\";",
    );
    site.write("own.php", b"<?php header('Content-Encoding: gzip'); echo gzencode(str_repeat('x', 5000));");
    let text = "[[host]]\nroot = \"site\"\nphp = true\ncompress = true\n";
    let server = TestServer::configured(io, &site, text);
    let mut client = server.client();
    let rows: String = (0..4000).map(|row| format!("<p>row {row}</p>\n")).collect();
    for coding in NAMES {
        client.ask("GET", "/page.php", &[&accept(coding)]);
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!((answer.status, answer.field("content-encoding")), (200, coding));
        assert!(decoded(&answer) == rows.as_bytes());
        assert_eq!((answer.field("etag"), answer.field("vary")), ("W/\"p\"", "Accept-Encoding"));
    }
    client.ask("GET", "/own.php", &[&accept("zstd, gzip")]);
    let own = client.read(ExpectedContent::Follows);
    assert_eq!((own.field("content-encoding"), decoded(&own)), ("gzip", vec![b'x'; 5000]));
}

fn curl_decodes_every_coding(io: Io) {
    let version = Command::new("curl").arg("--version").output();
    let Ok(version) = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()) else {
        return eprintln!("SKIPPED: no curl on this machine");
    };
    let site = TestSite::new();
    open_to_all(&site);
    site.write("a.html", &page(11, 100_000));
    script(&site, "cgi-bin/page", "echo Content-Type: text/html; echo; cat ../a.html");
    let server = serve_programs(io, &site, "compress = true");
    for (coding, feature) in [("gzip", "libz"), ("br", "brotli"), ("zstd", "zstd")] {
        if !version.contains(feature) {
            eprintln!("SKIPPED: this curl does not decode {coding}");
            continue;
        }
        for target in ["a.html", "cgi-bin/page"] {
            let url = format!("http://{}/{target}", server.addr());
            let output = Command::new("curl")
                .args([
                    "-sS",
                    "--compressed",
                    "-H",
                    &accept(coding),
                    "-w",
                    "%{stderr}%header{content-encoding}",
                    &url,
                ])
                .output()
                .expect("curl runs");
            assert_eq!(String::from_utf8_lossy(&output.stderr), coding, "{target}");
            assert!(output.stdout == page(11, 100_000), "{target} {coding}");
        }
    }
}
