//! The text of a program is never sent, and an index page that is a program goes to the program.

use crate::support::{Io, TestServer, TestSite, noise, on_usual, vermeil};
use std::{fs, os::unix::fs::PermissionsExt as _};

on_usual!(
    source_of_a_program_is_never_sent,
    index_page_that_is_cgi_runs,
    send_folder_keeps_the_text_of_programs,
    suffix_route_guards_every_case,
    index_page_that_is_php_runs,
    absent_pool_is_named_with_its_address,
);

const SECRET: &str = "SECRET";

/// A site whose programs other users may run.
fn site() -> TestSite {
    let site = TestSite::new();
    for folder in [site.outside(""), site.root()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    site
}

fn script(site: &TestSite, name: &str, lines: &str) {
    site.write(name, format!("#!/bin/sh\n# {SECRET}\n{lines}\n").as_bytes());
    for path in [site.path(name), site.path(name).parent().expect("in a folder").to_owned()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

/// A configuration with one host; CGI programs run as an ordinary user.
fn configured(io: Io, site: &TestSite, host: &str) -> TestServer {
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    TestServer::configured(io, site, &format!("{user}[[host]]\nroot = \"site\"\n{host}"))
}

fn source_of_a_program_is_never_sent(io: Io) {
    let site = site();
    let source = format!("<?php /* {SECRET} */").into_bytes();
    let large = [&source[..], &noise(1, 200_000)].concat();
    for name in ["x.php", "x.PHP", "x.phtml", "x.phar", "x.php7", "x.phps", "x.php.gz", "x.php~", "y.cgi"] {
        site.write(name, &source);
    }
    site.write("large.php", &large);
    site.link("text.txt", "x.php");
    site.link("large.txt", "large.php");
    site.link("404.html", "x.php");
    site.link("index.html.gz", "x.php");
    let server = TestServer::start(io, &site, &[]);
    let mut client = server.client();
    let targets = [
        "/x.php",
        "/x.PHP",
        "/x.%50HP",
        "/x.phtml",
        "/x.phar",
        "/x.php7",
        "/x.phps",
        "/x.php.gz",
        "/x.php~",
        "/y.cgi",
        "/large.php",
        "/text.txt",
        "/large.txt",
    ];
    for target in targets {
        for fields in
            [&[][..], &["Range: bytes=0-40"], &["Range: bytes=0-4,6-40"], &["Accept-Encoding: gzip"]]
        {
            let response = client.request("GET", target, fields);
            assert_eq!(response.status, 403, "{target} {fields:?}");
            assert!(!response.text().contains(SECRET), "{target} {fields:?}");
        }
        assert_eq!(client.request("HEAD", target, &[]).status, 403, "{target}");
    }
    let missing = client.get("/missing");
    assert!(missing.status == 404 && !missing.text().contains(SECRET), "{missing:?}");
    let home = client.request("GET", "/", &["Accept-Encoding: gzip"]);
    assert_eq!(home.text(), "<!doctype html>home\n");
    server.stops_clean();
}

fn index_page_that_is_cgi_runs(io: Io) {
    let site = site();
    site.remove("index.html");
    // With a length, so that the length frames the answer, however late the program ends.
    let show = "out=\"$REQUEST_METHOD $SCRIPT_NAME $PATH_INFO|$(cat)\"\n\
                printf 'Content-Type: text/plain\\nContent-Length: %s\\n\\n%s' ${#out} \"$out\"";
    script(&site, "index.cgi", show);
    script(&site, "deep/index.cgi", show);
    script(&site, "cgi-bin/index.cgi", show);
    let routes = "index = [\"index.html\", \"index.cgi\"]\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
                  [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n";
    let server = configured(io, &site, routes);
    for (target, script) in [
        ("/", "/index.cgi"),
        ("/?q", "/index.cgi"),
        ("/deep/", "/deep/index.cgi"),
        ("/cgi-bin/", "/cgi-bin/index.cgi"),
    ] {
        let response = server.get(target);
        assert_eq!((response.status, response.text()), (200, &*format!("GET {script} |")), "{target}");
        let mut client = server.client();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"));
        let response = client.read(crate::support::ExpectedContent::Follows);
        assert_eq!((response.status, response.text()), (200, &*format!("POST {script} |body")), "{target}");
    }
    // Names in capitals are the same names.
    script(&site, "RUN.CGI", show);
    assert_eq!(server.get("/RUN.CGI").text(), "GET /RUN.CGI |");
    server.stops_clean();
}

fn send_folder_keeps_the_text_of_programs(io: Io) {
    let site = site();
    script(&site, "cgi-bin/tool", "exit 1");
    script(
        &site,
        "cgi-bin/send",
        "echo \"X-Accel-Redirect: $QUERY_STRING\"; echo Content-Type: text/plain; echo",
    );
    site.write("x.php", SECRET.as_bytes());
    site.write("plain.txt", b"plain");
    site.link("tool.txt", "cgi-bin/tool");
    let keys = format!(
        "[host.cgi]\nsend = [\"/all={}\"]\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n",
        site.root().display()
    );
    let server = configured(io, &site, &keys);
    for (target, status) in
        [("/all/plain.txt", 200), ("/all/x.php", 404), ("/all/cgi-bin/tool", 404), ("/all/tool.txt", 404)]
    {
        let response = server.get(&format!("/cgi-bin/send?{target}"));
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains(SECRET), "{target}");
    }
    server.stops_clean();
}

fn suffix_route_guards_every_case(io: Io) {
    let site = site();
    site.write("uploads/EVIL.PHP", SECRET.as_bytes());
    let guard =
        "[[host.route]]\nprefix = \"/uploads\"\nsuffix = \".php\"\naction = \"redirect\"\nto = \"/denied\"\n";
    let server = configured(io, &site, guard);
    for target in ["/uploads/evil.php", "/uploads/EVIL.PHP", "/uploads/EVIL.%50hp/x", "/uploads//EVIL.PHP"] {
        assert_eq!(server.get(target).status, 301, "{target}");
    }
    server.stops_clean();
}

fn index_page_that_is_php_runs(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = site();
    site.remove("index.html");
    for name in ["index.php", "deep/app.php", "uploads/index.php", "page/index.php"] {
        site.write(
            name,
            b"<?php /* SECRET */ echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'];",
        );
    }
    site.write("page/index.html", b"page");
    let keys = "php = true\nindex = [\"index.html\", \"index.php\", \"app.php\"]\n[[host.route]]\nprefix = \"/uploads\"\n\
                suffix = \".php\"\naction = \"redirect\"\nto = \"/denied\"\n";
    let server = configured(io, &site, keys);
    let mut client = server.client();
    for (target, script) in [("/", "/index.php"), ("/?q", "/index.php"), ("/deep/", "/deep/app.php")] {
        assert_eq!(client.get(target).text(), format!("GET {script}"), "{target}");
        assert_eq!(client.request("POST", target, &[]).text(), format!("POST {script}"), "{target}");
    }
    assert_eq!(client.get("/page/").text(), "page");
    assert_eq!(client.request("POST", "/page/", &[]).text(), "POST /page/index.php");
    for method in ["GET", "POST"] {
        let guarded = client.request(method, "/uploads/", &[]);
        assert_eq!((guarded.status, guarded.field("location")), (301, "/denied"), "{method}");
    }
    server.stops_clean();
}

#[test]
fn check_refuses_an_index_page_that_nothing_runs() {
    let site = TestSite::new();
    for (keys, is_fine) in [
        ("index = [\"index.php\"]\n", false),
        ("index = [\"index.html\", \"index.CGI\"]\n", false),
        ("index = [\"x.phtml\"]\nphp = true\n", false),
        ("index = [\"index.cgi\"]\n[[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\n", true),
        ("index = [\"index.php\"]\n[[host.route]]\nprefix = \"/app\"\naction = \"cgi\"\n", true),
    ] {
        let file = site.configure(Io::Epoll, &format!("[[host]]\nroot = \"site\"\n{keys}"));
        let output = vermeil(&["check", file.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(!said.contains("nothing runs this program here"), is_fine, "{keys}: {said}");
        assert!(is_fine || output.status.code() == Some(2), "{keys}: {said}");
    }
}

#[test]
fn check_warns_of_a_program_that_nothing_runs() {
    let site = TestSite::new();
    site.write("index.php", b"<?php");
    let file = site.configure(Io::Epoll, "[[host]]\nroot = \"site\"\n");
    let output = vermeil(&["check", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("nothing runs ") && said.contains("write php = true"), "{said}");
}

/// Regression: the notice had no address.
fn absent_pool_is_named_with_its_address(io: Io) {
    let site = site();
    site.write("a.php", b"<?php");
    let text = "[php]\nsource = \"unix:/nonexistent/php.sock\"\n[[host]]\nroot = \"site\"\nphp = true\n";
    let server = TestServer::of_file(&site.configure(io, text));
    assert_eq!(server.get("/a.php").status, 502);
    server.says("it does not answer at unix:/nonexistent/php.sock: No such file or directory (os error 2); start the pool");
    server.stops_clean();
}
