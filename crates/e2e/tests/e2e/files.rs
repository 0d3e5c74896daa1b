//! The files of a folder: which files are served, with which types, and which files are refused.

use crate::support::{Io, Response, TestServer, TestSite, noise, on_both, on_usual};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::PermissionsExt;

on_both! {
    site_has_own_not_found_page,
    special_file_does_not_hang_server,
}

on_usual! {
    text_types_have_a_charset,
    folders_have_an_index_a_listing_or_a_redirect,
    listings_escape_names,
    listings_are_sorted_with_sizes_and_dates,
    accepting_client_gets_precompressed_sibling,
    nothing_outside_is_reachable,
    option_decides_about_links,
    dotfiles_are_hidden,
    unreadable_file_is_forbidden,
}

fn text_types_have_a_charset(io: Io) {
    let site = TestSite::new();
    let types = [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.png", "image/png"),
        ("a.wasm", "application/wasm"),
        ("a.unknown-to-all", "application/octet-stream"),
    ];
    for (name, _) in types {
        site.write(name, name.as_bytes());
    }
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    for (name, media_type) in types {
        let response = client.get(&format!("/{name}"));
        assert_eq!((response.text(), response.field("content-type")), (name, media_type));
    }
    server.stops_clean();
}

fn folders_have_an_index_a_listing_or_a_redirect(io: Io) {
    let site = TestSite::new();
    site.write("docs/index.html", b"docs");
    site.write("bare/file.txt", b"x");
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    assert_eq!(client.get("/").text(), "<!doctype html>home\n");
    assert_eq!(client.get("/docs/").text(), "docs");
    for (target, location) in
        [("/docs", "/docs/"), ("/docs?a=b&c=%20", "/docs/?a=b&c=%20"), ("//docs?", "/docs/?")]
    {
        let response = client.get(target);
        assert_eq!((response.status, response.field("location")), (301, location), "{target}");
    }
    let listing = client.get("/bare/");
    assert_eq!(listing.field("content-type"), "text/html; charset=utf-8");
    assert!(listing.text().contains("href=\"file.txt\">file.txt<"), "{}", listing.text());
    assert!(client.request("HEAD", "/bare/", &[]).has_head_of(&listing));
    server.stops_clean();
    let server = TestServer::start(io, &site, &["--no-listing"]);
    assert_eq!(server.get("/bare/").status, 403);
    assert_eq!(server.get("/docs/").text(), "docs");
    server.stops_clean();
}

fn listings_escape_names(io: Io) {
    let site = TestSite::new();
    site.write("l/<b>&\"'.txt", b"found");
    site.write("l/a b#c?d%e.txt", b"found");
    site.write("l/.hidden", b"");
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    let listing = client.get("/l/");
    let text = listing.text();
    assert!(text.contains("&lt;b&gt;&amp;&quot;&#39;.txt") && !text.contains("<b>"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
    let links: Vec<_> = text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!((links.len(), links[0]), (3, "../"), "{links:?}");
    for link in &links[1..] {
        assert_eq!(client.get(&format!("/l/{link}")).text(), "found", "{link}");
    }
    server.stops_clean();
}

fn listings_are_sorted_with_sizes_and_dates(io: Io) {
    let site = TestSite::new();
    for (name, len) in [("l/file10.txt", 10), ("l/file9.txt", 2048), ("l/zoo/x", 0), ("l/a.txt", 0)] {
        site.write(name, &noise(1, len));
    }
    site.age("l/file9.txt");
    let server = TestServer::start(io, &site, &[]);
    let listing = server.get("/l/");
    let rows: Vec<_> = listing.text().split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 4, "{}", listing.text());
    for (row, name) in rows.iter().zip(["zoo/", "a.txt", "file9.txt", "file10.txt"]) {
        assert!(row.contains(&format!(">{name}</a>")), "{row}");
    }
    assert!(rows[2].contains("2.00 KiB") && rows[2].contains("06 Nov 1994 08:49"), "{}", rows[2]);
    assert!(listing.text().contains("name=\"viewport\""), "readable on a phone");
    server.stops_clean();
}

fn site_has_own_not_found_page(io: Io) {
    let site = TestSite::new();
    let server = TestServer::start(io, &site, &[]);
    let plain = server.get("/missing");
    assert_eq!((plain.status, plain.field("content-type")), (404, "text/html; charset=utf-8"));
    server.stops_clean();
    for page in [b"<p>lost".to_vec(), noise(1, 200_000)] {
        site.write("404.html", &page);
        let server = TestServer::start(io, &site, &[]);
        let mut client = server.client();
        for target in ["/missing", "/a/b/c", "/index.html/x", "/%2f"] {
            let own = client.get(target);
            assert_eq!((own.status, own.get("etag")), (404, None), "{target}");
            assert!(target == "/%2f" || own.body == page, "{target}");
        }
        // A condition or a range applies to the requested file, which does not exist.
        let own = client.get_with("/missing", &["If-None-Match: *", "Range: bytes=0-1"]);
        assert!(own.status == 404 && own.body == page);
        server.stops_clean();
    }
}

fn accepting_client_gets_precompressed_sibling(io: Io) {
    let site = TestSite::new();
    for (name, content) in
        [("p.html", "plain"), ("p.html.br", "br"), ("p.html.zst", "zst"), ("p.html.gz", "gz")]
    {
        site.write(name, content.as_bytes());
    }
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    let mut tags = Vec::new();
    for (accept, content, encoding) in [
        ("identity", "plain", None),
        ("gzip", "gz", Some("gzip")),
        ("gzip, zstd;q=0.5, br;q=0", "gz", Some("gzip")),
        ("br", "br", Some("br")),
        ("zstd", "zst", Some("zstd")),
        ("deflate", "plain", None),
    ] {
        let response = client.get_with("/p.html", &[&format!("Accept-Encoding: {accept}")]);
        assert_eq!((response.text(), response.get("content-encoding")), (content, encoding), "{accept}");
        assert_eq!(response.field("vary").to_ascii_lowercase(), "accept-encoding");
        assert_eq!(response.field("content-type"), "text/html; charset=utf-8");
        tags.push((content, response.field("etag").to_owned()));
        let tag = response.field("etag");
        let fields = [format!("Accept-Encoding: {accept}"), format!("If-None-Match: {tag}")];
        let unchanged = client.get_with("/p.html", &[&fields[0], &fields[1]]);
        assert_eq!((unchanged.status, unchanged.field("etag")), (304, tag));
        assert!(unchanged.get("vary").is_some());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "one tag for each variant: {tags:?}");
    assert_eq!(client.get("/p.html").text(), "plain");
    server.stops_clean();
}

fn nothing_outside_is_reachable(io: Io) {
    let site = TestSite::new();
    fs::write(site.outside("secret"), "content outside").unwrap();
    fs::create_dir(site.outside("folder")).unwrap();
    fs::write(site.outside("folder/secret"), "content outside").unwrap();
    site.write("sub/file", b"x");
    site.link("up", "../secret");
    site.link("absolute", site.outside("secret"));
    site.link("folder", "../folder");
    site.link("sub/twice", "../../secret");
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    for target in [
        "/../secret",
        "/sub/../../secret",
        "/%2e%2e/secret",
        "/%2E./secret",
        "/sub/%2e%2e/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/..%5csecret",
        "/%252e%252e/secret",
        "/..%00/secret",
        "/index.html%00.txt",
        "/%c0%ae%c0%ae/secret",
        "/....//secret",
        "//../secret",
        "/./../secret",
        "/up",
        "/absolute",
        "/folder/secret",
        "/folder/",
        "/sub/twice",
        "/sub/../up",
        "http://h/../secret",
        "/proc/self/environ",
        "/etc/passwd",
    ] {
        let response = client.get(target);
        assert!(matches!(response.status, 400 | 403 | 404), "{target}: {}", response.status);
        assert!(!String::from_utf8_lossy(&response.body).contains("content outside"), "{target}");
        if response.closes() {
            client = server.client();
        }
    }
    assert_eq!(client.get("/sub/../index.html").status, 200);
    server.stops_clean();
}

/// The answer to a link is the file if `follows`, else a refusal.
#[track_caller]
fn check_link(response: &Response, follows: bool, which: &str) {
    let is_right = if follows { response.status == 200 } else { matches!(response.status, 403 | 404) };
    assert!(is_right, "{which}: {response:?}");
}

fn option_decides_about_links(io: Io) {
    let site = TestSite::new();
    fs::write(site.outside("secret"), "secret").unwrap();
    site.write("sub/file", b"inside");
    site.link("within", "sub/file");
    site.link("sub/within", "../index.html");
    site.link("folder", "sub");
    site.link("out", "../secret");
    site.link("loop", "loop");
    for (which, within, out) in [("within", true, false), ("all", true, true), ("none", false, false)] {
        let server = TestServer::start(io, &site, &["--follow-symlinks", which]);
        let mut client = server.client();
        for target in ["/within", "/sub/within", "/folder/file"] {
            check_link(&client.get(target), within, which);
        }
        let response = client.get("/out");
        check_link(&response, out, which);
        assert_eq!(response.text() == "secret", out, "{which}: {response:?}");
        assert!(matches!(client.get("/loop").status, 403 | 404), "{which}");
        assert_eq!(client.get("/sub/file").text(), "inside");
        server.stops_clean();
    }
}

fn dotfiles_are_hidden(io: Io) {
    let site = TestSite::new();
    for name in [
        ".env",
        ".git/config",
        "sub/.htpasswd",
        "sub/.well-known/x",
        ".well-known/security.txt",
        ".well-known/.x",
    ] {
        site.write(name, b"content");
    }
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    for target in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/.git",
        "/sub/.htpasswd",
        "/sub/.well-known/x",
        "/.well-known/.x",
    ] {
        assert!(matches!(client.get(target).status, 403 | 404), "{target}");
    }
    assert_eq!(client.get("/.well-known/security.txt").text(), "content");
    server.stops_clean();
}

fn special_file_does_not_hang_server(io: Io) {
    let site = TestSite::new();
    mknodat(CWD, site.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let server = TestServer::start(io, &site, &["--cores", "1"]);
    let mut client = server.client();
    for target in ["/fifo", "/socket", "/fifo/", "/fifo/x"] {
        assert!(matches!(client.get(target).status, 403 | 404), "{target}");
    }
    assert_eq!(client.get("/").status, 200);
    server.stops_clean();
}

fn unreadable_file_is_forbidden(io: Io) {
    if rustix::process::geteuid().is_root() {
        return unreadable_file_is_forbidden_to_other_user(io);
    }
    let site = TestSite::new();
    may_not_read(&site);
    check_forbidden(&TestServer::start(io, &site, &[]));
}

fn may_not_read(site: &TestSite) {
    site.write("closed.txt", b"x");
    site.write("closed/file.txt", b"x");
    fs::set_permissions(site.path("closed.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(site.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
}

fn check_forbidden(server: &TestServer) {
    let mut client = server.client();
    for target in ["/closed.txt", "/closed/", "/closed/file.txt"] {
        assert!(matches!(client.get(target).status, 403 | 404), "{target}");
    }
    assert_eq!(client.get("/").status, 200);
    server.stops_clean();
}

/// Root can read all files, so the server runs without root's rights, if `setpriv` can remove the
/// rights.
fn unreadable_file_is_forbidden_to_other_user(io: Io) {
    let setpriv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let can = std::process::Command::new(setpriv[0])
        .args(&setpriv[1..])
        .args([env!("CARGO_BIN_EXE_vermeil-tested"), "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: root reads everything, and setpriv cannot run the binary as somebody else");
        return;
    }
    let site = TestSite::new();
    may_not_read(&site);
    fs::set_permissions(site.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    check_forbidden(&TestServer::start_under(&setpriv, io, &site, &[]));
}
