//! Routes by path, pattern and conditions, with each action, and the pages of errors.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual, vermeil};
use std::{fs, os::unix::fs::PermissionsExt as _};

on_usual!(
    first_matching_route_decides,
    conditions_that_fail_pass_the_route_over,
    redirect_names_scheme_and_host_of_the_request,
    rewrite_keeps_the_address_for_programs,
    program_behind_a_rewrite_gets_its_content,
    rewritten_path_passes_no_guard,
    folder_of_a_route_is_served_below_its_prefix,
    folder_of_a_route_sends_no_program,
    every_error_has_its_page,
    program_errors_have_pages_if_asked,
);

/// The table that names a user for programs, if a server needs one.
fn cgi_user() -> &'static str {
    if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" }
}

fn first_matching_route_decides(io: Io) {
    let site = TestSite::new();
    site.write("secret/a.txt", b"secret");
    site.write("a.bak", b"backup");
    site.write("new/7.html", b"seven");
    site.write("robots.txt", b"a file");
    let server = TestServer::configured(
        io,
        &site,
        r#"
        [[host]]
        root = "site"
        [[host.route]]
        path = "/robots.txt"
        action = "answer"
        body = "User-agent: *\nDisallow: /\n"
        [[host.route]]
        path = "/health"
        action = "answer"
        code = 204
        [[host.route]]
        path = "/gone"
        action = "deny"
        code = 410
        [[host.route]]
        prefix = "/secret"
        action = "deny"
        [[host.route]]
        pattern = "(?i)\\.(bak|old)$"
        action = "deny"
        code = 404
        [[host.route]]
        pattern = "^/user/([0-9]+)/(.*)$"
        action = "redirect"
        to = "/new/{1}.html?tail={2}"
        code = 302
        [[host.route]]
        pattern = "^/short/([0-9]+)$"
        action = "rewrite"
        to = "/new/{1}.html"
        [[host.route]]
        path = "/json"
        action = "answer"
        code = 200
        content_type = "application/json"
        body = "{}"
        "#,
    );
    let mut client = server.client();
    let robots = client.get("/robots.txt");
    assert_eq!((robots.status, robots.text()), (200, "User-agent: *\nDisallow: /\n"));
    assert_eq!(robots.field("content-type"), "text/plain; charset=utf-8");
    assert_eq!(client.request("HEAD", "/robots.txt", &[]).field("content-length"), "26");
    assert_eq!(client.get("/robots.txt/x").status, 404);
    assert_eq!(client.get("/%72obots.txt").text(), robots.text(), "no spelling gets around a route");
    assert_eq!(client.get("/health").status, 204);
    assert_eq!(client.get("/gone").status, 410);
    for path in ["/secret", "/secret/a.txt", "/secret/../secret/a.txt", "//secret/a.txt", "/%73ecret/a.txt"] {
        assert_eq!(client.get(path).status, 403, "{path}");
    }
    for path in ["/a.bak", "/a.BAK", "/x/y.old"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    let user = client.get("/user/42/caf%C3%A9%0D%0Ax");
    assert_eq!((user.status, user.field("location")), (302, "/new/42.html?tail=caf%C3%A9%0D%0Ax"));
    let short = client.get("/short/7");
    assert_eq!((short.status, short.text()), (200, "seven"));
    let tag = format!("If-None-Match: {}", short.field("etag"));
    assert_eq!(client.get_with("/short/7", &[&tag]).status, 304);
    assert_eq!(client.get("/short/8").status, 404);
    let json = client.get("/json");
    assert_eq!((json.field("content-type"), json.text()), ("application/json", "{}"));
    server.stops_clean();
}

fn redirect_names_scheme_and_host_of_the_request(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", b"file");
    let server = TestServer::configured(
        io,
        &site,
        r#"
        [proxies]
        from = ["127.0.0.1", "::1"]
        [[host]]
        root = "site"
        [[host.route]]
        prefix = "/port"
        action = "redirect"
        to = "{scheme}://{name}:8443{rest}{query}"
        [[host.route]]
        prefix = "/same"
        action = "redirect"
        to = "{scheme}://{host}{rest}"
        [[host.route]]
        prefix = "/as"
        action = "rewrite"
        to = "/again?scheme={scheme}&name={name}"
        [[host.route]]
        path = "/again"
        action = "redirect"
        to = "/seen{query}"
        "#,
    );
    let mut client = server.client();
    for (host, target, forwarded, location) in [
        ("a.example", "/port/x?q=1", "http", "http://a.example:8443/x?q=1"),
        ("a.example:80", "/port/x", "https", "https://a.example:8443/x"),
        ("[2001:db8::1]:80", "/port", "https", "https://[2001:db8::1]:8443/"),
        ("[2001:db8::1]", "/port/%0D%0Ax", "https", "https://[2001:db8::1]:8443/%0D%0Ax"),
        ("[2001:db8::1]:80", "/same/x", "http", "http://[2001:db8::1]:80/x"),
        ("a.example:80", "/as/x", "https", "/seen?scheme=https&name=a.example"),
    ] {
        let fields = [format!("Host: {host}"), format!("X-Forwarded-Proto: {forwarded}")];
        let head = format!("GET {target} HTTP/1.1\r\n{}\r\n\r\n", fields.join("\r\n"));
        client.send(head.as_bytes());
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!((answer.status, answer.field("location")), (301, location), "{host} {target}");
    }
    server.stops_clean();
}

fn conditions_that_fail_pass_the_route_over(io: Io) {
    let site = TestSite::new();
    site.write("a.txt", b"file");
    let server = TestServer::configured(
        io,
        &site,
        r#"
        [[host]]
        root = "site"
        [[host.route]]
        path = "/a.txt"
        methods = ["POST", "PUT"]
        action = "answer"
        body = "changed"
        [[host.route]]
        fields = ["User-Agent~(?i)badbot"]
        action = "deny"
        [[host.route]]
        query = ["debug=1", "!token"]
        action = "deny"
        code = 404
        [[host.route]]
        clients = ["192.0.2.0/24"]
        action = "deny"
        code = 410
        [[host.route]]
        clients = ["127.0.0.0/8"]
        query = ["who"]
        action = "answer"
        body = "near"
        "#,
    );
    let mut client = server.client();
    assert_eq!(client.get("/a.txt").text(), "file");
    assert_eq!(client.request("HEAD", "/a.txt", &[]).status, 200);
    client.send("POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    let changed = client.read(ExpectedContent::Follows);
    assert_eq!((changed.status, changed.text()), (200, "changed"));
    assert_eq!(client.get_with("/a.txt", &["User-Agent: BadBot/1"]).status, 403);
    assert_eq!(client.get_with("/a.txt", &["User-Agent: good"]).status, 200);
    assert_eq!(client.get("/a.txt?debug=1").status, 404);
    assert_eq!(client.get("/a.txt?debug=1&token=x").status, 200);
    assert_eq!(client.get("/a.txt?debug=2").status, 200);
    assert_eq!(client.get("/a.txt?who").text(), "near");
    server.stops_clean();
}

fn rewrite_keeps_the_address_for_programs(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.write(
        "index.php",
        b"<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ',\n\
          $_SERVER['QUERY_STRING'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', file_get_contents('php://input');",
    );
    let server = TestServer::configured(
        io,
        &site,
        r#"
        [[host]]
        root = "site"
        php = true
        [[host.route]]
        pattern = "^/wiki/(.+)$"
        action = "rewrite"
        to = "/index.php?title={1}"
        [[host.route]]
        prefix = "/app"
        action = "rewrite"
        to = "/index.php{rest}{query}"
        [[host.route]]
        path = "/loop"
        action = "rewrite"
        to = "/loop"
        "#,
    );
    let mut client = server.client();
    let page = client.get("/wiki/Main%20Page?x=1");
    assert_eq!(
        (page.status, page.text()),
        (200, "GET /wiki/Main%20Page?x=1 /index.php title=Main%20Page - ")
    );
    client.send("POST /app/save?y=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    let saved = client.read(ExpectedContent::Follows);
    assert_eq!((saved.status, saved.text()), (200, "POST /app/save?y=2 /index.php y=2 /save hello"));
    assert_eq!(client.get("/loop").status, 404, "only later routes are tried");
    server.stops_clean();
}

/// Regression: the connection was closed before the program had read the content.
fn program_behind_a_rewrite_gets_its_content(io: Io) {
    let site = TestSite::new();
    site.write("cgi-bin/echo", b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec cat\n");
    site.write("folder/index.run", b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec cat\n");
    for name in ["", "cgi-bin", "cgi-bin/echo", "folder", "folder/index.run"] {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    fs::set_permissions(site.outside(""), fs::Permissions::from_mode(0o755)).expect("ours");
    let user = cgi_user();
    for (limits, is_last) in [("", false), ("[limits]\nrequests_per_connection = 1\n", true)] {
        let server = TestServer::configured(
            io,
            &site,
            &format!(
                "{limits}{user}[[host]]\nroot = \"site\"\nindex = [\"index.run\"]\n\
                 try = [\"{{path}}\", \"/cgi-bin/echo\"]\n\
                 [[host.route]]\npath = \"/again\"\naction = \"rewrite\"\nto = \"/cgi-bin/echo\"\n\
                 [[host.route]]\npath = \"/none\"\naction = \"rewrite\"\nto = \"/no/such/path\"\n\
                 [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
                 [[host.route]]\nsuffix = \".run\"\naction = \"cgi\"\n"
            ),
        );
        for path in ["/again", "/none", "/missing", "/cgi-bin/echo", "/folder/"] {
            for fields in ["", "Connection: close\r\n"] {
                let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n{fields}");
                let mut client = server.client();
                client.send(format!("{head}\r\nhello"));
                let answer = client.read(ExpectedContent::Follows);
                assert_eq!((answer.status, answer.text()), (200, "hello"), "{path} {fields}");
                assert_eq!(answer.closes(), is_last || !fields.is_empty(), "{path} {fields}");

                let mut client = server.client();
                client.send(format!("{head}Expect: 100-continue\r\n\r\n"));
                client.receive_at_least(25);
                assert_eq!(client.received(), b"HTTP/1.1 100 Continue\r\n\r\n", "{path} {fields}");
                client.discard();
                client.send("hello");
                let answer = client.read(ExpectedContent::Follows);
                assert_eq!((answer.status, answer.text()), (200, "hello"), "{path} {fields}");
                if is_last || !fields.is_empty() {
                    client.ends_silently();
                } else {
                    client.send(format!("{head}\r\nagain"));
                    assert_eq!(client.read(ExpectedContent::Follows).text(), "again", "{path}");
                }
            }
        }
        server.stops_clean();
    }
}

fn rewritten_path_passes_no_guard(io: Io) {
    let site = TestSite::new();
    for name in ["private/x", "denied/x", "denied/open/x", "public/x", "public/x..y"] {
        site.write(name, name.as_bytes());
    }
    let server = TestServer::configured(
        io,
        &site,
        r#"
        [[host]]
        root = "site"
        [[host.route]]
        prefix = "/private"
        from = ["192.0.2.0/24"]
        action = "files"
        [[host.route]]
        prefix = "/denied/open"
        action = "files"
        [[host.route]]
        prefix = "/denied"
        action = "deny"
        [[host.route]]
        pattern = "^/files(.*)$"
        action = "rewrite"
        to = "/public/{1}"
        [[host.route]]
        pattern = "^/any(.*)$"
        action = "rewrite"
        to = "/./{1}"
        [[host.route]]
        pattern = "^/all(.*)$"
        action = "rewrite"
        to = "/{1}"
        [[host.route]]
        prefix = "/public/later"
        action = "deny"
        "#,
    );
    let mut client = server.client();
    for (path, status) in [
        ("/files/x", 200),
        ("/files/x..y", 200),
        ("/files../private/x", 404),
        ("/files..", 404),
        ("/files./x", 404),
        ("/files%2E%2E/private/x", 404),
        ("/files%252e%252e/private/x", 404),
        ("/any/x", 404),
        ("/all/public/x", 200),
        ("/all/private/x", 404),
        ("/allprivate/x", 404),
        ("/all/denied/x", 403),
        ("/all/denied/open/x", 200),
        ("/files/later", 403),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    server.stops_clean();
}

fn folder_of_a_route_is_served_below_its_prefix(io: Io) {
    let site = TestSite::new();
    let docs = site.outside("docs");
    fs::create_dir_all(docs.join("sub")).unwrap();
    fs::write(docs.join("a.txt"), "alias").unwrap();
    fs::write(docs.join("index.html"), "front").unwrap();
    fs::write(docs.join("x.php"), "<?php SECRET").unwrap();
    fs::write(site.outside("near.txt"), "outside").unwrap();
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\n[[host.route]]\nprefix = \"/docs\"\naction = \"files\"\nroot = \"docs\"\n\
         headers = { X-From = \"docs\" }\n[[host.route]]\nprefix = \"/none\"\naction = \"files\"\nroot = \"missing\"\n",
    );
    let mut client = server.client();
    let file = client.get("/docs/a.txt");
    assert_eq!((file.status, file.text(), file.field("x-from")), (200, "alias", "docs"));
    assert_eq!(client.get_with("/docs/a.txt", &["Range: bytes=1-2"]).text(), "li");
    assert_eq!(client.get("/docs/").text(), "front");
    for (path, location) in [("/docs", "/docs/"), ("/docs?x=1", "/docs/?x=1"), ("/docs/sub", "/docs/sub/")] {
        let folder = client.get(path);
        assert_eq!((folder.status, folder.field("location")), (301, location));
    }
    let upload = client.request("POST", "/docs", &["Content-Length: 0"]);
    assert_eq!((upload.status, upload.field("location")), (308, "/docs/"), "the client sends it again");
    assert_eq!(client.get("/docs/sub/").status, 200);
    assert_eq!(client.get("/docs/x.php").status, 403);
    for path in ["/docs/../near.txt", "/docs/..%2fnear.txt", "/docs/%2e%2e/near.txt", "/docs/none"] {
        assert!(matches!(client.get(path).status, 400 | 404), "{path}");
    }
    assert_eq!(client.get("/none/a").status, 404);
    assert_eq!(client.get("/").text(), "<!doctype html>home\n");
    server.stops_clean();
}

/// Regression: the folder of a route sent the text of files that a later route gives to CGI.
fn folder_of_a_route_sends_no_program(io: Io) {
    let site = TestSite::new();
    let shared = site.outside("shared");
    fs::create_dir_all(shared.join("sub.pl")).unwrap();
    for name in ["db.pl", "DB.PL", "db.pl.bak", "x.run", "x.php", "a.txt", "sub.pl/a.txt"] {
        fs::write(shared.join(name), "SECRET").unwrap();
    }
    let server = TestServer::configured(
        io,
        &site,
        &format!(
            "{}[[host]]\nroot = \"site\"\n\
         [[host.route]]\nprefix = \"/scripts\"\naction = \"files\"\nroot = \"shared\"\n\
         [[host.route]]\nsuffix = \".pl\"\naction = \"cgi\"\n\
         [[host.route]]\nprefix = \"/run\"\nsuffix = \".run\"\naction = \"cgi\"\n",
            cgi_user()
        ),
    );
    let mut client = server.client();
    for name in ["db.pl", "DB.PL", "db.pl.bak", "x.run", "x.php", "sub.pl/a.txt"] {
        assert_eq!(client.get(&format!("/scripts/{name}")).status, 403, "{name}");
    }
    assert_eq!(client.get("/scripts/a.txt").text(), "SECRET");
    server.stops_clean();
}

fn every_error_has_its_page(io: Io) {
    let site = TestSite::new();
    site.write("errors/404.html", b"<p>not here");
    site.write("errors/4xx.html", b"<p>refused");
    site.write("404.html", b"the old page");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\nheaders = { X-Own = \"yes\" }\n\
         error_pages = { 404 = \"/errors/404.html\", 4xx = \"/errors/4xx.html\", 503 = \"/missing.html\" }\n\
         [[host.route]]\nprefix = \"/private\"\naction = \"deny\"\n\
         [[host.route]]\nprefix = \"/busy\"\naction = \"deny\"\ncode = 503\n",
    );
    let mut client = server.client();
    for (path, status, text) in
        [("/none", 404, "<p>not here"), ("/private/x", 403, "<p>refused"), ("/a%00", 400, "<p>refused")]
    {
        let answer = client.get(path);
        assert_eq!((answer.status, answer.text()), (status, text), "{path}");
        assert_eq!(answer.field("content-type"), "text/html; charset=utf-8");
        assert_eq!(answer.field("x-own"), "yes");
        assert_eq!((answer.get("etag"), answer.get("last-modified")), (None, None));
    }
    let head = client.request("HEAD", "/none", &[]);
    assert_eq!((head.status, head.field("content-length")), (404, "11"));
    let method = client.request("POST", "/", &[]);
    assert_eq!(
        (method.status, method.text(), method.field("allow")),
        (405, "<p>refused", "GET, HEAD, OPTIONS")
    );
    let range = client.get_with("/", &["Range: bytes=900-"]);
    assert_eq!((range.status, range.field("content-range")), (416, "bytes */20"));
    let busy = client.get("/busy");
    assert_eq!(busy.status, 503);
    assert!(busy.text().contains("503 Service Unavailable"), "a missing page leaves the server's own");
    assert_eq!(client.get("/errors/404.html").status, 200);
    server.stops_clean();
}

fn program_errors_have_pages_if_asked(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.write("trouble.html", b"<p>our trouble");
    site.write("a.php", b"<?php http_response_code((int) $_GET['s']); echo 'of the program';");
    site.write("long.php", b"<?php http_response_code(500); echo str_repeat('trouble ', 1000000);");
    site.write(
        "login.php",
        b"<?php http_response_code(401); header('WWW-Authenticate: Basic realm=\"x\"'); echo 'of the program';",
    );
    for (keys, text) in [("", "of the program"), ("error_pages_of_programs = true\n", "<p>our trouble")] {
        let server = TestServer::configured(
            io,
            &site,
            &format!(
                "[[host]]\nroot = \"site\"\nphp = true\nerror_pages = {{ 401 = \"/trouble.html\", 5xx = \"/trouble.html\" }}\n{keys}"
            ),
        );
        let mut client = server.client();
        let failed = client.get("/a.php?s=500");
        assert_eq!((failed.status, failed.text()), (500, text));
        let login = client.get("/login.php");
        assert_eq!((login.status, login.text()), (401, text));
        assert_eq!(login.field("www-authenticate"), "Basic realm=\"x\"", "a client cannot do without");
        let long = client.get("/long.php");
        assert_eq!((long.status, long.text() == text), (500, !keys.is_empty()));
        let missing = client.get("/a.php?s=404");
        assert_eq!((missing.status, missing.text()), (404, "of the program"));
        assert_eq!(client.get("/a.php?s=200").text(), "of the program");
        server.stops_clean();
    }
}

#[test]
fn check_names_the_routes() {
    let site = TestSite::new();
    let file = site.configure(
        Io::Epoll,
        "[[host]]\nroot = \"site\"\n[[host.route]]\npath = \"/a\"\naction = \"deny\"\n\
         [[host.route]]\npattern = \"^/b\"\naction = \"rewrite\"\nto = \"/c\"\n",
    );
    let output = vermeil(&["check", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("; /a: 403; ~^/b: as /c"), "{said}");
}
