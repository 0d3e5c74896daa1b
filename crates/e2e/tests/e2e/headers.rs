//! The keys `headers`, `add_headers`, `cache_control`, `types` and `etag`: fields of answers.

use crate::{
    support::{ExpectedContent, Io, TestServer, TestSite, on_usual},
    tls::{self, TestCertificate, secure_addr, trusting},
};
use rustix::process::Signal;
use rustls::{ClientConfig, version::TLS13};
use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

on_usual!(
    host_and_route_set_fields_of_every_answer,
    field_of_host_replaces_order_to_use_https,
    field_of_program_replaces_order_to_use_https,
    program_fields_are_replaced_and_removed,
    media_type_decides_about_caching,
    file_without_tag_is_compared_by_date,
    answer_under_way_keeps_its_rules_over_a_reload,
);

const SECURE: &str = "headers = { Strict-Transport-Security = \"max-age=31536000\", X-Content-Type-Options = \"nosniff\", \
                      Content-Security-Policy = \"default-src 'self'\", Server = false, Cache-Control = \"max-age=60\" }\n";

fn host_and_route_set_fields_of_every_answer(io: Io) {
    let site = TestSite::new();
    site.write("files/a.zip", b"zip");
    site.write("big.bin", &vec![b'x'; 300 * 1024]);
    site.write("list/a.txt", b"a");
    let text = format!(
        "[[host]]\nroot = \"site\"\n{SECURE}add_headers = {{ Link = \"</a.css>; rel=preload\" }}\n\
         [[host.route]]\nprefix = \"/files\"\naction = \"files\"\n\
         headers = {{ Content-Disposition = \"attachment\", Access-Control-Allow-Origin = \"*\", x-content-type-options = false }}\n\
         [[host.route]]\nprefix = \"/old\"\naction = \"redirect\"\nto = \"/\"\n"
    );
    let server = TestServer::configured(io, &site, &text);
    let mut client = server.client();
    let home = client.get("/");
    let tag = format!("If-None-Match: {}", home.field("etag"));
    let answers = [
        (200, home),
        (304, client.get_with("/", &[&tag])),
        (206, client.get_with("/", &["Range: bytes=0-1"])),
        (206, client.get_with("/", &["Range: bytes=0-1,4-5"])),
        (416, client.get_with("/", &["Range: bytes=900-"])),
        (404, client.get("/missing")),
        (301, client.get("/old/x")),
        (301, client.get("/list")),
        (200, client.get("/list/")),
        (200, client.get("/big.bin")),
        (200, client.request("HEAD", "/big.bin", &[])),
        (405, client.request("POST", "/", &[])),
        (204, client.request("OPTIONS", "/", &[])),
        (400, client.get("/a%00")),
    ];
    for (status, answer) in answers {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.field("strict-transport-security"), "max-age=31536000");
        assert_eq!(answer.field("x-content-type-options"), "nosniff");
        assert_eq!(answer.field("content-security-policy"), "default-src 'self'");
        assert_eq!(answer.field("link"), "</a.css>; rel=preload");
        assert_eq!(answer.get("server"), None);
        let caching = (status < 400).then_some("max-age=60");
        assert_eq!(answer.get("cache-control"), caching, "{status}");
    }
    let zip = client.get("/files/a.zip");
    assert_eq!(zip.text(), "zip");
    assert_eq!(zip.field("content-disposition"), "attachment");
    assert_eq!(zip.field("access-control-allow-origin"), "*");
    assert_eq!(zip.get("x-content-type-options"), None);
    assert_eq!(zip.field("strict-transport-security"), "max-age=31536000");
    let missing = client.get("/files/none");
    assert_eq!((missing.status, missing.get("content-disposition")), (404, Some("attachment")));
    // Several answers in one piece of output: each head is edited on its own.
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    for status in [200, 404, 200] {
        let answer = client.read(ExpectedContent::Follows);
        assert_eq!((answer.status, answer.field("x-content-type-options")), (status, "nosniff"));
    }
    server.stops_clean();
}

/// Regression: the line of the server came before the line of the host, and browsers obey the first
/// line alone (RFC 6797, section 8.1).
fn field_of_host_replaces_order_to_use_https(io: Io) {
    let site = TestSite::new();
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let text = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\n\
                root = \"site\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\nhttps = \"only\"\n\
                headers = { Strict-Transport-Security = \"max-age=60\" }\n";
    let server = TestServer::configured(io, &site, text);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    for target in ["/", "/none"] {
        assert_eq!(orders_to_use_https(&server, &config, target), ["max-age=60"], "{target}");
    }
    server.stops_clean();
}

/// The values of `Strict-Transport-Security` in the answer of `a.example`.
fn orders_to_use_https(server: &TestServer, config: &Arc<ClientConfig>, target: &str) -> Vec<String> {
    let mut client = tls::client(secure_addr(server), config, "a.example");
    let answer = tls::get(&mut client, target);
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    let orders = answer.lines().filter_map(|line| line.strip_prefix("strict-transport-security: "));
    orders.map(str::to_owned).collect()
}

/// Regression: the answer had the program's line and the server's.
fn field_of_program_replaces_order_to_use_https(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.write("own.php", b"<?php header('strict-transport-security: max-age=9; includeSubDomains');");
    site.write("none.php", b"<?php header('X-Own: a');");
    let certificate = TestCertificate::new(&["a.example"]);
    certificate.write(&site, "a");
    let text = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n[[host]]\nroot = \"site\"\nphp = true\n\
                certificate = \"a.crt\"\nkey = \"a.key\"\nhttps = \"only\"\n";
    let server = TestServer::configured(io, &site, text);
    let config = Arc::new(trusting(&certificate, &[&TLS13]));
    for (target, order) in [("/own.php", "max-age=9; includesubdomains"), ("/none.php", "max-age=31536000")] {
        assert_eq!(orders_to_use_https(&server, &config, target), [order], "{target}");
    }
    server.stops_clean();
}

fn program_fields_are_replaced_and_removed(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    site.write(
        "a.php",
        b"<?php header('X-Frame-Options: ALLOWALL'); header('Cache-Control: private'); header('X-Own: stays');\n\
          if (isset($_GET['s'])) http_response_code((int) $_GET['s']); echo 'hello';",
    );
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\nphp = true\nheaders = { X-Frame-Options = \"DENY\", X-Powered-By = false, \
         Cache-Control = \"no-cache\" }\n",
    );
    let mut client = server.client();
    let answer = client.get("/a.php");
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    assert_eq!(answer.field("x-frame-options"), "DENY");
    assert_eq!(answer.field("x-own"), "stays");
    assert_eq!(answer.field("cache-control"), "no-cache");
    assert_eq!(answer.get("x-powered-by"), None);
    let failed = client.get("/a.php?s=500");
    assert_eq!((failed.status, failed.field("x-frame-options")), (500, "DENY"));
    assert_eq!(failed.field("cache-control"), "private", "a program's error keeps its own");
    server.stops_clean();
}

fn media_type_decides_about_caching(io: Io) {
    let site = TestSite::new();
    site.write("a.css", b"css");
    site.write("a.png", b"png");
    site.write("a.map", b"map");
    site.write("a.bin", b"bin");
    site.write("404.html", b"none");
    let server = TestServer::configured(
        io,
        &site,
        "[[host]]\nroot = \"site\"\ntypes = [\"map=application/json\"]\n\
         cache_control = { \"text/html\" = \"no-cache\", \"image/*\" = \"max-age=31536000, immutable\", \
         \"application/json\" = \"private\" }\n\
         [[host.route]]\nprefix = \"/a.png\"\naction = \"files\"\nheaders = { Cache-Control = \"no-store\" }\n",
    );
    let mut client = server.client();
    for (target, value) in [
        ("/", Some("no-cache")),
        ("/a.css", None),
        ("/a.map", Some("private")),
        ("/a.bin", None),
        ("/a.png", Some("no-store")),
        ("/none", None),
    ] {
        assert_eq!(client.get(target).get("cache-control"), value, "{target}");
    }
    assert_eq!(client.get("/a.map").field("content-type"), "application/json; charset=utf-8");
    let unchanged = client.get_with("/", &["If-None-Match: *"]);
    assert_eq!((unchanged.status, unchanged.field("cache-control")), (304, "no-cache"));
    let part = client.get_with("/", &["Range: bytes=0-1"]);
    assert_eq!((part.status, part.field("cache-control")), (206, "no-cache"));
    server.stops_clean();
}

fn file_without_tag_is_compared_by_date(io: Io) {
    let site = TestSite::new();
    site.age("index.html");
    let server = TestServer::configured(io, &site, "[[host]]\nroot = \"site\"\netag = false\n");
    let mut client = server.client();
    let home = client.get("/");
    assert_eq!((home.status, home.get("etag")), (200, None));
    let date = format!("If-Modified-Since: {}", home.field("last-modified"));
    let unchanged = client.get_with("/", &[&date]);
    assert_eq!((unchanged.status, unchanged.get("etag")), (304, None));
    server.stops_clean();
}

fn answer_under_way_keeps_its_rules_over_a_reload(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = crate::php::site();
    // The program runs as another user and makes a file.
    fs::set_permissions(site.root(), fs::Permissions::from_mode(0o777)).expect("ours");
    site.write(
        "slow.php",
        b"<?php touch(__DIR__ . '/begun'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); } echo 'done';",
    );
    let text = |value: &str| {
        format!("[[host]]\nroot = \"site\"\nphp = true\nheaders = {{ X-Which = \"{value}\" }}\n")
    };
    let server = TestServer::configured(io, &site, &text("first"));
    let mut client = server.client();
    client.ask("GET", "/slow.php", &[]);
    crate::support::until("the program runs", || site.path("begun").exists().then_some(()));
    site.configure(io, &text("second"));
    server.signal(Signal::HUP);
    crate::support::until("the reload", || (server.get("/").field("x-which") == "second").then_some(()));
    site.write("go", b"");
    let answer = client.read(ExpectedContent::Follows);
    assert_eq!((answer.text(), answer.field("x-which")), ("done", "first"));
    server.stops_clean();
}
