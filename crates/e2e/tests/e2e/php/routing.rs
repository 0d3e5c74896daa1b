//! The requests that go to PHP, PHP's variables for them, and the files that PHP may have sent.

use super::{is_installed, serve, site, write};
use crate::support::{ExpectedContent, Io, TestServer, noise, on_usual};
use std::fs;

on_usual! {
    programs_run_and_are_never_sent,
    only_a_regular_file_with_the_name_is_a_program,
    a_folder_without_a_page_is_answered_by_its_program,
    path_behind_program_leads_past_no_rule,
    programs_get_request_variables,
    files_are_sent_from_allowed_folders,
}

fn programs_run_and_are_never_sent(io: Io) {
    let site = site();
    write(&site, "hello.php", "echo 'hello';");
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    for target in [
        "/hello.php",
        "/hello%2Ephp",
        "/hello.ph%70",
        "/./a/../hello.php",
        "/hello.php?x=.css",
        "//hello.php",
    ] {
        let response = client.get(target);
        assert_eq!((response.status, response.text()), (200, "hello"), "{target}");
        assert_eq!(response.field("content-length"), "5");
        assert!(response.field("content-type").starts_with("text/html"));
    }
    for target in ["/hello.PHP", "/hello.php.txt", "/missing.php", "/hello.php%00.css", "/hello.php%2Fx"] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {response:?}");
        assert!(!response.text().contains("<?php"));
    }
    assert_eq!(client.get("/index.html").text(), "<!doctype html>home\n");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        assert_eq!(client.request(method, "/hello.php", &[]).text(), "hello", "{method}");
    }
    // Regression: PHP answered TRACE for its index page, and the 405 of a script left POST out.
    write(&site, "folder/index.php", "echo 'hello';");
    for target in ["/hello.php", "/hello.php/x", "/folder/"] {
        let refused = client.request("TRACE", target, &[]);
        assert_eq!(refused.status, 405, "{target}");
        assert!(refused.field("allow").contains("POST"), "{target}: {refused:?}");
    }
    assert_eq!(client.request("POST", "/index.html", &[]).status, 405);
    for method in ["POST", "PUT", "OPTIONS", "TRACE"] {
        for target in ["/missing.php", "/missing", "/missing/"] {
            assert_eq!(client.request(method, target, &[]).status, 404, "{method} {target}");
        }
    }
    write(&site, "untyped.php", "header_remove('Content-Type'); ini_set('default_mimetype', ''); echo 'x';");
    assert_eq!(client.get("/untyped.php").text(), "x");
    write(&site, "uri.php", "echo $_SERVER['REQUEST_URI'], '|', $_GET['q'];");
    assert_eq!(client.get("/uri.php/caf\u{e9}?q=\u{e9}").text(), "/uri.php/caf%C3%A9?q=%C3%A9|\u{e9}");
    server.stops_clean();
}

fn only_a_regular_file_with_the_name_is_a_program(io: Io) {
    let site = site();
    site.write("image.jpg", b"<?php echo 'harm';");
    write(&site, "app.php", "echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? 'none';");
    write(&site, "folder.php/inner.php", "echo 'inner ', $_SERVER['PATH_INFO'] ?? 'none';");
    write(&site, ".hidden/x.php", "echo 'harm';");
    fs::write(site.outside("out.php"), "<?php echo 'harm';").expect("a file");
    site.link("out.php", site.outside("out.php"));
    let Some(server) = serve(io, &site, &["--no-listing"]) else { return };
    let mut client = server.client();
    for (target, status, text) in [
        ("/app.php", 200, "/app.php|none"),
        ("/app.php/", 200, "/app.php|/"),
        ("/app.php/a%20b/c.jpg", 200, "/app.php|/a b/c.jpg"),
        ("/app.php/x.php/y", 200, "/app.php|/x.php/y"),
        ("/app.php/used_%2Fusr", 200, "/app.php|/used_/usr"),
        ("/app.p%68p/a%2f..%2Fb", 200, "/app.php|/b"),
        ("/folder.php%2Finner.php", 404, ""),
        ("/x%2F../app.php", 404, ""),
        ("/folder.php/inner.php/z", 200, "inner /z"),
        ("/image.jpg/x.php", 404, ""),
        ("/image.jpg/.php", 404, ""),
        ("/image.jpg%00.php", 400, ""),
        ("/.hidden/x.php", 404, ""),
        ("/out.php", 403, ""),
        ("/folder.php", 301, ""),
        ("/../../etc/x.php", 404, ""),
    ] {
        let response = client.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(text.is_empty() || response.text() == text, "{target}: {}", response.text());
        assert!(!response.text().contains("harm"), "{target}");
    }
    // A removed program is gone at once, and a new program is there at once.
    site.remove("app.php");
    assert_eq!(client.get("/app.php").status, 404);
    write(&site, "app.php", "echo 'again';");
    assert_eq!(client.get("/app.php").text(), "again");
}

fn a_folder_without_a_page_is_answered_by_its_program(io: Io) {
    let site = site();
    write(&site, "index.php", "echo 'never';");
    write(&site, "blog/index.php", "echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_METHOD'];");
    site.write("plain/x.txt", b"x");
    for args in [&[][..], &["--no-listing"]] {
        let Some(server) = serve(io, &site, args) else { return };
        let mut client = server.client();
        assert_eq!(client.get("/").text(), "<!doctype html>home\n", "a page comes first");
        assert_eq!(client.get("/blog/?x").text(), "/blog/index.php GET");
        assert_eq!(client.request("POST", "/blog/", &[]).text(), "/blog/index.php POST");
        // Regression: such a folder was 403, because the path as received has no slash at its end.
        for target in ["/blog/.", "/blog/%2e", "/blog/x/..", "/blog/x.php/.."] {
            for method in ["GET", "POST"] {
                let expected = format!("/blog/index.php {method}");
                assert_eq!(client.request(method, target, &[]).text(), expected, "{target}");
            }
        }
        assert_eq!(client.get("/blog").field("location"), "/blog/");
        let plain = client.get("/plain/");
        assert_eq!(plain.status, if args.is_empty() { 200 } else { 403 });
        assert_eq!(client.request("POST", "/plain/", &[]).status, 405);
    }
}

fn path_behind_program_leads_past_no_rule(io: Io) {
    let site = site();
    write(&site, "closed.php", "echo 'closed';");
    write(&site, "open.php", "echo 'open';");
    if !is_installed() {
        return;
    }
    let server = TestServer::configured(
        io,
        &site,
        "[php]\n[[host]]\nroot = \"site\"\nphp = true\n\
         [[host.route]]\npath = \"/closed.php\"\naction = \"deny\"\n\
         [[host.route]]\npattern = \"^/open.php$\"\naction = \"redirect\"\nto = \"/\"\n",
    );
    let mut client = server.client();
    for target in ["/closed.php", "/closed.php/", "/closed.php/x", "/closed.php/x%2Fy"] {
        assert_eq!(client.get(target).status, 403, "{target}");
    }
    // A route that refuses nothing is for its own path only.
    assert_eq!(client.get("/open.php").status, 301);
    assert_eq!(client.get("/open.php/x").text(), "open");
    server.stops_clean();
}

fn programs_get_request_variables(io: Io) {
    let site = site();
    write(&site, "vars.php", "echo json_encode([$_SERVER, $_GET, $_POST, $_COOKIE]);");
    let Some(server) = serve(io, &site, &[]) else { return };
    let mut client = server.client();
    let content = "a=1&b=%20";
    let fields = [
        "Cookie: c=1",
        "Cookie: d=2",
        "Proxy: http://harm",
        "X_Real_IP: harm",
        "X-Real-IP: 192.0.2.1",
        "Content-Type: application/x-www-form-urlencoded",
        &format!("Content-Length: {}", content.len()),
    ];
    client.ask("POST", "/vars.php/p%20i?q=1", &fields);
    client.send(content);
    let told = client.read(ExpectedContent::Follows);
    let text = told.text();
    let root = site.root().canonicalize().expect("there").display().to_string().replace('/', "\\/");
    for expected in [
        r#""REQUEST_METHOD":"POST""#,
        r#""REQUEST_URI":"\/vars.php\/p%20i?q=1""#,
        r#""PATH_INFO":"\/p i""#,
        r#""SCRIPT_NAME":"\/vars.php""#,
        r#""PHP_SELF":"\/vars.php\/p i""#,
        r#""QUERY_STRING":"q=1""#,
        r#""HTTP_COOKIE":"c=1; d=2""#,
        r#""HTTP_X_REAL_IP":"192.0.2.1""#,
        r#""GATEWAY_INTERFACE":"CGI\/1.1""#,
        r#""REMOTE_ADDR":"127.0.0.1""#,
        r#"{"q":"1"},{"a":"1","b":" "},{"c":"1","d":"2"}"#,
        &format!(r#""SCRIPT_FILENAME":"{root}\/vars.php""#),
        &format!(r#""DOCUMENT_ROOT":"{root}""#),
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("harm"), "{text}");
}

fn files_are_sent_from_allowed_folders(io: Io) {
    let site = site();
    let store = site.outside("store");
    fs::create_dir(&store).expect("a folder");
    fs::write(store.join("a b.txt"), noise(3, 100_000)).expect("a file");
    fs::write(site.outside("secret"), "harm").expect("a file");
    write(
        &site,
        "send.php",
        "header('X-Sendfile: ' . $_GET['f']); header('Content-Disposition: attachment'); header('Content-Type: x/y');",
    );
    write(&site, "accel.php", "header('X-Accel-Redirect: ' . $_GET['f']); header('Set-Cookie: a=b');");
    let allowed = format!("/store={}", store.display());
    let Some(server) = serve(io, &site, &["--php-send", &allowed]) else { return };
    let mut client = server.client();
    let target = format!("/send.php?f={}/a%20b.txt", store.display());
    let sent = client.get(&target);
    assert!(sent.body == noise(3, 100_000));
    assert_eq!((sent.field("content-type"), sent.field("content-disposition")), ("x/y", "attachment"));
    let etag = sent.field("etag").to_owned();
    let part = client.get_with(&target, &["Range: bytes=10-19"]);
    assert_eq!((part.status, &part.body[..]), (206, &noise(3, 100_000)[10..20]));
    let sent = client.get("/accel.php?f=/store/a%2520b.txt");
    assert!(sent.body == noise(3, 100_000) && sent.field("set-cookie") == "a=b", "{}", sent.status);
    assert_eq!(
        client.get_with("/accel.php?f=/store/a%2520b.txt", &[&format!("If-None-Match: {etag}")]).status,
        304
    );
    let outside = site.outside("secret").display().to_string();
    for (target, status) in [
        (format!("/send.php?f={outside}"), 502),
        (format!("/send.php?f={}/../secret", store.display()), 404),
        (format!("/send.php?f={}/missing", store.display()), 404),
        ("/accel.php?f=/etc/passwd".into(), 502),
        ("/accel.php?f=/store/../secret".into(), 502),
        ("/accel.php?f=/index.html".into(), 502),
    ] {
        let response = client.get(&target);
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains("harm"), "{target}");
    }
}
