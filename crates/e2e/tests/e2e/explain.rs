//! `vermeil check --explain URL`.

use crate::{
    support::{Io, TestSite, vermeil},
    tls::TestCertificate,
};
use std::{fs, path::Path};

fn explained(file: &Path, url: &str) -> (Option<i32>, String) {
    let output = vermeil(&["check", file.to_str().unwrap(), "--explain", url]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The explanation of `url`, which has all `lines`.
#[track_caller]
fn explanation_has(file: &Path, url: &str, lines: &[&str]) -> String {
    let (code, said) = explained(file, url);
    assert_eq!(code, Some(0), "{said}");
    for line in lines {
        assert!(said.contains(line), "{url}: {line} is not in:\n{said}");
    }
    said
}

#[test]
fn explanation_names_host_route_and_file() {
    let site = TestSite::new();
    site.write("about.html", b"about");
    site.write("folder/a.txt", b"a");
    site.write("page/index.html", b"page");
    site.write("app.php", b"<?php");
    fs::create_dir(site.outside("docs")).unwrap();
    fs::write(site.outside("docs/a.txt"), "a").unwrap();
    let file = site.configure(
        Io::Epoll,
        r#"
        [[host]]
        names = ["a.example"]
        root = "site"
        php = true
        try = ["{path}", "{path}.html", "/app.php"]
        [[host.route]]
        prefix = "/secret"
        action = "deny"
        [[host.route]]
        path = "/post"
        methods = ["POST"]
        action = "answer"
        body = "x"
        [[host.route]]
        pattern = "^/s/(.*)$"
        action = "rewrite"
        to = "/{1}"
        [[host.route]]
        prefix = "/limited"
        action = "files"
        access.allow = ["10.0.0.0/8"]
        access.rate = { requests = 1 }
        [[host.route]]
        prefix = "/docs"
        action = "files"
        root = "docs"
        [[host.route]]
        prefix = "/old"
        action = "redirect"
        to = "/new{rest}"
        [[host.route]]
        path = "/page/index.html"
        action = "deny"
        "#,
    );
    let root = site.root().display().to_string();
    for (url, lines) in [
        (
            "http://a.example/secret/x",
            vec!["host: a.example", "path: /secret/x", "route 1 (/secret*): matches", "answer: 403 by deny"],
        ),
        (
            "http://a.example/limited/x",
            vec!["access: the client's network (else 403), the client's rate (else 429)"],
        ),
        ("http://a.example/old/x?y", vec!["answer: 301 to /new/x"]),
        (
            "/about.html",
            vec![&*format!("answer: the file {root}/about.html (text/html; charset=utf-8, 5 bytes)")],
        ),
        (
            "/about",
            vec![
                "is not there",
                "try {path}.html: /about.html",
                &*format!("answer: the file {root}/about.html"),
            ],
        ),
        ("/folder", vec!["answer: 301 to /folder/"]),
        ("/folder/", vec!["answer: the listing of"]),
        ("/page/", vec!["answer: refused by the route /page/index.html, which covers the index page"]),
        ("/any/path", vec!["try /app.php: /app.php", &*format!("answer: PHP: {root}/app.php")]),
        ("/about%2Ehtml/a%2Fb", vec!["passed over: a path with an encoded slash", "try /app.php: /app.php"]),
        (
            "/s/about.html",
            vec![
                "route 3 (~^/s/(.*)$): matches",
                "rewritten: /about.html; later routes apply",
                "answer: the file",
            ],
        ),
        ("/docs/a.txt", vec!["route 5 (/docs*): matches", "docs/a.txt (text/plain"]),
        ("/post", vec!["route 2 (/post): covers the path, but a condition does not hold", "answer: PHP"]),
        ("/a%00", vec!["path: refused: 400"]),
    ] {
        explanation_has(&file, url, &lines);
    }
    let (code, said) = explained(&file, "no url");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("\"no url\" is no URL of a request; write one such as http://example.org/path?query"),
        "{said}"
    );
}

#[test]
fn explanation_agrees_with_the_server() {
    let site = TestSite::new();
    site.write("app.php", b"<?php");
    site.write("closed/front.html", b"closed");
    site.write("front.html", b"front");
    fs::create_dir(site.outside("docs")).unwrap();
    let file = site.configure(
        Io::Epoll,
        r#"
        [[host]]
        root = "site"
        php = true
        try = ["{path}", "/closed/front.html", "/front.html"]
        [[host.route]]
        prefix = "/closed"
        action = "deny"
        [[host.route]]
        prefix = "/office"
        from = ["192.0.2.0/24"]
        action = "files"
        [[host.route]]
        pattern = "^/to(.*)$"
        action = "rewrite"
        to = "/x/{1}"
        [[host.route]]
        pattern = "^/all(.*)$"
        action = "rewrite"
        to = "/{1}"
        [[host.route]]
        prefix = "/docs"
        action = "files"
        root = "docs"
        "#,
    );
    for (url, lines, missing) in [
        ("/docs", vec!["answer: 301 to /docs/, because the path is the folder of the route"], "listing"),
        ("/docs/", vec!["answer: the listing of"], "301"),
        (
            "/nothing",
            vec!["try /closed/front.html", "passed over: a route", "front.html (text/html"],
            "closed/front.html (",
        ),
        ("/to../closed", vec!["answer: 404, because the rewritten path would have a dot segment"], "403"),
        ("/all/closed/x", vec!["route 1 (/closed*): holds for the rewritten path too", "answer: 403"], "try"),
        (
            "/all/office/x",
            vec!["route 2 (/office*): holds for the rewritten path too; 404 for clients outside of from"],
            "403",
        ),
    ] {
        let said = explanation_has(&file, url, &lines);
        assert!(!said.contains(missing), "{url}: {missing} is in:\n{said}");
    }
}

#[test]
fn explanation_knows_listeners_and_https() {
    let site = TestSite::new();
    site.write("index.html", b"page");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let file = site.outside("explained.toml");
    let text = r#"
        [[listener]]
        address = "127.0.0.1:8080"
        [[listener]]
        address = "127.0.0.1:8444"
        tls = true
        [[listener]]
        address = "127.0.0.1:443"
        tls = true
        [[host]]
        root = "site"
        default = true
        [[host]]
        names = ["a.example"]
        root = "site"
        listen = ["127.0.0.1:8080", "127.0.0.1:8444"]
        https = "redirect"
        certificate = "a.crt"
        key = "a.key"
        [[host]]
        names = ["b.example"]
        root = "site"
        listen = ["127.0.0.1:443"]
    "#;
    fs::write(&file, text).unwrap();
    for (url, lines) in [
        (
            "http://a.example/x?y",
            [
                "listener: 127.0.0.1:8080 (assumed)",
                "answer: 301 to https://a.example:8444/x?y, because the host",
            ],
        ),
        ("http://a.example/.well-known/acme-challenge/x", ["host: a.example", "answer: 404"]),
        ("https://a.example:8444/", ["listener: 127.0.0.1:8444 (assumed)", "host: a.example (by its name"]),
        ("https://b.example/", ["listener: 127.0.0.1:443 (assumed)", "host: b.example (by its name"]),
        ("http://b.example/", ["listener: 127.0.0.1:8080 (assumed)", "host: the default"]),
    ] {
        explanation_has(&file, url, &lines);
    }
}

#[test]
fn explanation_knows_the_path_behind_a_program() {
    let site = TestSite::new();
    site.write("index.php", b"<?php");
    site.write("closed.php", b"<?php");
    site.write("a/b.txt", b"text");
    let file = site.configure(
        Io::Epoll,
        r#"
        [[host]]
        root = "site"
        php = true
        [[host.route]]
        path = "/closed.php"
        action = "deny"
        [[host.route]]
        prefix = "/fixed"
        action = "answer"
        body = "x"
        "#,
    );
    let root = site.root().display().to_string();
    for (url, line) in [
        ("/index.php/2024/x", format!("answer: PHP: {root}/index.php")),
        ("/closed.php/x", "answer: refused by the route /closed.php".to_owned()),
        ("/none.php/x", "answer: 404".to_owned()),
        ("/a%2Fb.txt", "answer: 404".to_owned()),
        ("/fixed/a%2Fb", "answer: 404, because the path has an encoded slash".to_owned()),
    ] {
        explanation_has(&file, url, &[&line]);
    }
}
