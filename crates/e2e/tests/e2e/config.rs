//! `vermeil.toml` through the binary: the server serves as with the command line, `check` prints
//! the resulting settings, and an error message has its position.

use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_usual, vermeil};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

on_usual!(
    a_file_serves_like_a_command_line,
    limits_of_the_file_hold,
    a_bad_file_does_not_start,
    no_spelling_evades_redirecting_route,
    a_whole_host_moves_to_another,
    request_without_host_is_redirected_to_first_name,
    a_route_starts_programs_and_a_reload_brings_the_first,
);

fn a_file_serves_like_a_command_line(io: Io) {
    let site = TestSite::new();
    site.write("docs/a.txt", b"text");
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\n");
    let client = &mut server.client();
    assert_eq!(client.get("/").text(), "<!doctype html>home\n");
    assert_eq!(client.get("/docs/a.txt").text(), "text");
    assert_eq!(client.get("/docs").field("location"), "/docs/");
    assert!(client.get("/docs/").text().contains("a.txt"));
    assert_eq!(client.get("/none").status, 404);
    server.stops_clean();
}

fn limits_of_the_file_hold(io: Io) {
    let site = TestSite::new();
    site.write("docs/a.txt", b"text");
    let text =
        "[[host]]\nroot = \"site\"\nlisting = false\nindex = [\"a.txt\"]\n[limits]\nheader_count = 3\n";
    let server = TestServer::configured(io, &site, text);
    assert_eq!(server.get("/docs/").text(), "text");
    assert_eq!(server.get("/").status, 403);
    assert_eq!(server.client().get_with("/docs/", &["A: 1", "B: 2", "C: 3"]).status, 431);
    server.stops_clean();
}

fn a_bad_file_does_not_start(io: Io) {
    let site = TestSite::new();
    let file = site.configure(io, "[[host]]\nrot = \"site\"\n[limits]\nheader_count = 0\n");
    let file = file.to_str().unwrap();
    for command in ["serve", "check"] {
        let output = vermeil(&[command, "--config", file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("{file}:6:1: host.rot: there is no such key; did you mean `root`?")),
            "{said}"
        );
        assert!(
            said.contains(&format!("{file}:8:16: limits.header_count: 0 is not from 1 to 10000")),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
    let missing = vermeil(&["check", "--config", "/nonexistent.toml"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(missing.stderr.ends_with(b"; name another with --config FILE\n"), "{missing:?}");
    let both = vermeil(&["serve", "--config", file, "--listen", "80"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "the file and the command line are not mixed: {both:?}");
}

/// Regression: the message told users to name the file with `--config`, which the users had done.
#[test]
fn binary_file_and_folder_are_refused_with_place() {
    let site = TestSite::new();
    let file = site.outside("latin1.toml");
    fs::write(&file, b"[[host]]\nroot = \"b\xfccher\"\n").unwrap();
    let folder = site.outside("");
    for command in ["serve", "check"] {
        for (path, code, expected) in [
            (&file, 2, ":2:10: this byte is no UTF-8; save the file as UTF-8\n"),
            (&folder, 3, ": cannot read the configuration: Is a directory (os error 21)\n"),
        ] {
            let output = vermeil(&[command, "--config", path.to_str().unwrap()]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{said}");
            assert!(said.contains(&format!("{}{expected}", path.display())), "{said}");
        }
    }
    let unnamed = vermeil(&["check"]).current_dir(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&unnamed.stderr);
    assert!(said.contains("; name another with --config FILE"), "{said}");
}

#[test]
fn check_prints_plan() {
    let site = TestSite::new();
    let text = "[[listener]]\naddress = \"127.0.0.2:0\"\n[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n\
                [[host]]\nnames = [\"b.example\"]\nroot = \"gone\"\n";
    let file = site.configure(Io::Epoll, text);
    let output = vermeil(&["check", "--config", file.to_str().unwrap()]).output().unwrap();
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{warned}");
    assert!(
        said.starts_with(&format!("{}: fine\nlisten: 127.0.0.1:0, 127.0.0.2:0\n", file.display())),
        "{said}"
    );
    assert!(said.contains("hosts: 2, names: 2; every other name: a.example\n"), "{said}");
    let warning = format!(
        ": host.root: b.example: cannot serve {}: there is no such folder\n",
        site.outside("gone").display()
    );
    assert!(warned.starts_with(&format!("vermeil: warning: {}:", file.display())), "{warned}");
    assert!(warned.contains(&warning), "{warned}");
}

#[test]
fn check_refuses_configurations_that_start_refuses() {
    let site = TestSite::new();
    let text = "log = \"gone/log\"\ncontrol = \"gone/control\"\n[php]\nsource = \"/nonexistent\"\n[[host]]\nroot = \"gone\"\nphp = true\n\
                [[host]]\nnames = [\"b.example\"]\nroot = \"site\"\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n\
                [host.cgi]\ndirectory = \"none\"\n[[host]]\nnames = [\"c.example\"]\nroot = \"gone too\"\n\
                [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let file = site.outside("refused.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let check = vermeil(&["check", file]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert_eq!((check.status.code(), &check.stdout[..]), (Some(3), &b""[..]), "{said}");
    let is_root = rustix::process::geteuid().is_root();
    let expected = [
        "warning: b.example: cannot run programs in ",
        ":12:10: host.route.prefix: b.example: there are no programs, because ",
        if is_root { "serving as the superuser; " } else { "" },
        ":6:8: host.root: cannot serve ",
        ":18:8: host.root: cannot serve ",
        "cannot start PHP: /nonexistent is no php-fpm or php-cgi that can be executed; name another, with ",
        "cannot write the access log ",
        "cannot make the control socket ",
        if is_root { "cannot run CGI programs of " } else { "" },
    ];
    let expected: Vec<_> = expected.into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, begins) in said.lines().zip(expected) {
        let place = format!("{file}{begins}");
        let words = if begins.starts_with(':') { &place } else { begins };
        let line = line.trim_start_matches("vermeil: ").trim_start_matches("warning: ");
        assert!(line.starts_with(words.trim_start_matches("warning: ")), "{line}");
    }
    let serve = vermeil(&["serve", "--config", file]).output().unwrap();
    assert_eq!(serve.status.code(), Some(3), "{serve:?}");
}

#[test]
fn check_refuses_missing_php_user() {
    let site = TestSite::new();
    let file = site.configure(Io::Epoll, "[[host]]\nroot = \"site\"\n[php]\nuser = \"no such user\"\n");
    let check = vermeil(&["check", "--config", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains(": php.user: "), "{said}");
}

fn no_spelling_evades_redirecting_route(io: Io) {
    let site = TestSite::new();
    site.write("old/page", b"old");
    site.write("old/kept/page", b"kept");
    let text = r#"
[[host]]
root = "site"
[[host.route]]
prefix = "/old/kept"
action = "files"
[[host.route]]
prefix = "/old"
action = "redirect"
to = "https://{host}/new{rest}{query}"
code = 308
"#;
    let server = TestServer::configured(io, &site, text);
    let client: &mut TestClient = &mut server.client();
    // Neither names a path that a route could take.
    assert_eq!(client.request("OPTIONS", "*", &[]).status, 204);
    assert_eq!(client.request("CONNECT", "test:80", &[]).status, 405);
    let client: &mut TestClient = &mut server.client();
    for target in ["/old/page?a=1", "/%6fld/page?a=1", "/x/../old//page?a=1", "//old/./page?a=1"] {
        let response = client.get(target);
        assert_eq!(
            (response.status, response.field("location")),
            (308, "https://test/new/page?a=1"),
            "{target}"
        );
    }
    assert_eq!(client.get("/old").field("location"), "https://test/new");
    assert_eq!(client.get("/old/kept/page").text(), "kept");
    assert_eq!(client.get("/older").status, 404);
    assert_eq!(client.get("/").status, 200);
    server.stops_clean();
}

/// `Host` may be missing in HTTP/1.0. Regression: the redirect's address had no host.
fn request_without_host_is_redirected_to_first_name(io: Io) {
    let site = TestSite::new();
    let routes = "[[host.route]]\naction = \"redirect\"\nto = \"https://{host}{path}\"\n";
    let hosts = ["names = [\"*.a.example\", \"a.example\", \"b.example\"]", "default = true"];
    for (host, status, location) in [(hosts[0], 301, Some("https://a.example/x")), (hosts[1], 400, None)] {
        let server = TestServer::configured(io, &site, &format!("[[host]]\n{host}\n{routes}"));
        let mut old = server.client();
        old.send("GET /x HTTP/1.0\r\n\r\n");
        let response = old.read(ExpectedContent::Follows);
        assert_eq!((response.status, response.get("location")), (status, location), "{host}");
        server.stops_clean();
    }
}

/// The prefix of a whole host ends in a slash. Regression: `{rest}` continued the name of the new
/// host, so `/.evil.example` led to another host.
fn a_whole_host_moves_to_another(io: Io) {
    let site = TestSite::new();
    let text = r#"
[[host]]
[[host.route]]
prefix = "/"
action = "redirect"
to = "https://new.example{rest}{query}"
"#;
    let server = TestServer::configured(io, &site, text);
    let client: &mut TestClient = &mut server.client();
    for (target, location) in [
        ("/", "https://new.example/"),
        ("/x?y", "https://new.example/x?y"),
        ("/.evil.example", "https://new.example/.evil.example"),
        ("/@evil.example", "https://new.example/%40evil.example"),
    ] {
        assert_eq!(client.get(target).field("location"), location, "{target}");
    }
    server.stops_clean();
}

/// As the superuser, the tests name a user for programs, because the server otherwise takes its own
/// user.
fn cgi_user() -> &'static str {
    if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" }
}

fn a_route_starts_programs_and_a_reload_brings_the_first(io: Io) {
    let site = TestSite::new();
    site.write(
        "cgi-bin/hello",
        b"#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: 9\\n\\nhello %s' \"$QUERY_STRING\"\n",
    );
    for path in [site.outside(""), site.root(), site.path("cgi-bin"), site.path("cgi-bin/hello")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let plain = "[[host]]\nroot = \"site\"\n";
    let route = "[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let server = TestServer::configured(io, &site, &format!("{plain}{route}{}", cgi_user()));
    assert_eq!(server.get("/cgi-bin/hello?you").text(), "hello you");
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();

    let server = TestServer::configured(io, &site, plain);
    site.configure(io, &format!("{plain}{route}{}", cgi_user()));
    server.signal(Signal::HUP);
    server.says("reloaded: ");
    assert_eq!(server.get("/cgi-bin/hello?too").text(), "hello too");
    server.stops_clean();
}
