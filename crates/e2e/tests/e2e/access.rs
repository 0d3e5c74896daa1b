//! The table `access` of hosts and routes: networks, users with passwords, rates.

use crate::support::{ExpectedContent, Io, Response, TestClient, TestServer, TestSite, on_usual};
use rustix::process::{Signal, geteuid};
use std::{fs, os::unix::fs::PermissionsExt as _};

on_usual! {
    networks_are_let_in_or_denied,
    password_opens_host_and_route,
    program_gets_user_and_no_password,
    program_behind_checked_path_gets_no_password,
    index_page_has_its_own_guard,
    index_file_has_rules_of_its_own_path,
    index_page_of_cgi_folder_has_its_own_guard,
    path_behind_program_leads_past_no_rule,
    rewrite_and_redirect_lead_past_no_guard,
    program_is_counted_once,
    rewrite_meets_the_guards_of_both_routes,
    log_shows_only_users_that_were_asked_for,
    reload_reads_the_users_again,
    flood_of_wrong_passwords_leaves_files_served,
    client_over_its_rate_waits_or_gets_429,
    rate_counts_by_field,
    rewritten_request_is_counted_once,
    hosts_count_apart,
}

/// The password of each user is `right`.
const USERS: &str = include_str!("../../../routing/src/access/htpasswd/users");

/// Each request names its client.
const TOP: &str = "[proxies]\nfrom = [\"127.0.0.1\"]\n";

/// `NAME:right` and `NAME:wrong` in base 64.
const RIGHT: &str = "Authorization: Basic YmNyeXB0OnJpZ2h0";
const WRONG: &str = "Authorization: Basic YmNyeXB0Ondyb25n";
const OTHERS: [&str; 3] = [
    "Authorization: Basic c2hhNTEyOnJpZ2h0",
    "Authorization: basic c2hhMjU2OnJpZ2h0",
    "Authorization: Basic YXJnb24yOnJpZ2h0",
];
/// `stranger:right`
const STRANGER: &str = "Authorization: Basic c3RyYW5nZXI6cmlnaHQ=";

fn site() -> TestSite {
    let site = TestSite::new();
    site.write("page", b"page");
    site.write("open/page", b"open");
    fs::write(site.outside("users"), USERS).expect("ours");
    site.write(
        "cgi-bin/who",
        b"#!/bin/sh\nout=\"$AUTH_TYPE $REMOTE_USER ${HTTP_AUTHORIZATION:-none} $(cat)\"\n\
          printf 'Content-Type: text/plain\\nContent-Length: %d\\n\\n%s' ${#out} \"$out\"\n",
    );
    for path in [site.outside(""), site.root(), site.path("cgi-bin"), site.path("cgi-bin/who")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    site
}

fn serve(io: Io, site: &TestSite, host: &str) -> TestServer {
    let user = if geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    TestServer::configured(io, site, &format!("{TOP}{user}[[host]]\nroot = \"site\"\n{host}"))
}

fn status(client: &mut TestClient, target: &str, of: &str) -> u16 {
    client.get_with(target, &[&format!("X-Forwarded-For: {of}")]).status
}

fn networks_are_let_in_or_denied(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "[host.access]\nallow = [\"10.0.0.0/8\", \"2001:db8::/32\"]\ndeny = [\"10.1.0.0/16\"]\n\
         [[host.route]]\nprefix = \"/open\"\naction = \"files\"\naccess.allow = [\"0.0.0.0/0\"]\n",
    );
    let mut client = server.client();
    for (target, of, expected) in [
        ("/page", "10.2.0.1", 200),
        ("/page", "2001:db8::7", 200),
        ("/page", "10.1.0.1", 403),
        ("/page", "192.0.2.1", 403),
        ("/missing", "192.0.2.1", 403),
        ("/%70age", "192.0.2.1", 403),
        ("/open/page", "192.0.2.1", 200),
        ("/open/../page", "192.0.2.1", 403),
        // No rules can be found for a path that cannot be decoded, so nothing answers it.
        ("/open/%00", "192.0.2.1", 400),
        ("/%zz/../page", "10.2.0.1", 400),
        // The route keeps the networks that its host denies.
        ("/open/page", "10.1.0.1", 403),
    ] {
        assert_eq!(status(&mut client, target, of), expected, "{target} of {of}");
    }
    server.stops_clean();
}

fn password_opens_host_and_route(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "[host.access]\nusers = \"users\"\nrealm = \"Members\"\n\
         [[host.route]]\nprefix = \"/open\"\naction = \"files\"\naccess.users = \"off\"\n",
    );
    let mut client = server.client();
    for fields in [&[][..], &[WRONG], &[STRANGER], &["Authorization: Bearer x"], &[RIGHT, RIGHT]] {
        let response = client.get_with("/page", fields);
        assert_eq!(response.status, 401, "{fields:?}");
        assert_eq!(response.field("www-authenticate"), "Basic realm=\"Members\", charset=\"UTF-8\"");
    }
    for right in [[RIGHT; 2].as_slice(), &OTHERS].concat() {
        let response = client.get_with("/page", &[right]);
        assert_eq!((response.status, response.text()), (200, "page"), "{right}");
    }
    // Remembered, and pipelined.
    for _ in 0..3 {
        client.ask("GET", "/page", &[RIGHT]);
    }
    for _ in 0..3 {
        assert_eq!(client.read(ExpectedContent::Follows).status, 200);
    }
    assert_eq!(client.get("/missing").status, 401);
    assert_eq!(client.get_with("/missing", &[RIGHT]).status, 404);
    assert_eq!(client.get("/open/page").text(), "open");
    assert_eq!(client.request("HEAD", "/page", &[]).status, 401);
    server.stops_clean();
}

const CGI: &str = "[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";

fn post(client: &mut TestClient, target: &str, fields: &str) -> Response {
    client.send(format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n{fields}\r\nhello"));
    client.read(ExpectedContent::Follows)
}

fn program_gets_user_and_no_password(io: Io) {
    let site = site();
    let server = serve(io, &site, &format!("[host.access]\nusers = \"users\"\n{CGI}"));
    let mut client = server.client();
    assert_eq!(post(&mut client, "/cgi-bin/who", "").status, 401);
    for _ in 0..2 {
        let response = post(&mut client, "/cgi-bin/who", &format!("{RIGHT}\r\n"));
        assert_eq!((response.status, response.text()), (200, "Basic bcrypt none hello"));
    }
    assert_eq!(post(&mut client, "/cgi-bin/who", &format!("{WRONG}\r\n")).status, 401);
    // A client that waits for permission sends its content after the password is checked.
    let mut client = server.client();
    client.send(format!(
        "POST /cgi-bin/who HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n{}\r\nExpect: 100-continue\r\n\r\n",
        OTHERS[0]
    ));
    client.receive_at_least(b"HTTP/1.1 100 Continue\r\n\r\n".len());
    assert!(client.received().starts_with(b"HTTP/1.1 100 "), "{}", client.received().escape_ascii());
    client.discard();
    client.send("hello");
    assert_eq!(client.read(ExpectedContent::Follows).text(), "Basic sha512 none hello");
    server.stops_clean();

    // Without users the program checks passwords itself.
    let server = serve(io, &site, CGI);
    let mut client = server.client();
    let response = post(&mut client, "/cgi-bin/who", &format!("{RIGHT}\r\n"));
    assert_eq!(response.text(), "  Basic YmNyeXB0OnJpZ2h0 hello");
    server.stops_clean();
}

/// Regression: a rewrite or a redirect within the server led from a path with users to a program
/// without. The program got the password, and no user.
fn program_behind_checked_path_gets_no_password(io: Io) {
    let site = site();
    site.write("private/lead", b"#!/bin/sh\nprintf 'Location: /cgi-bin/who\\n\\n'\n");
    fs::set_permissions(site.path("private/lead"), fs::Permissions::from_mode(0o755)).expect("ours");
    let server = serve(
        io,
        &site,
        &format!(
            "[[host.route]]\npath = \"/short\"\naction = \"rewrite\"\nto = \"/cgi-bin/who\"\naccess.users = \"users\"\n\
             [[host.route]]\nprefix = \"/private\"\naction = \"cgi\"\naccess.users = \"users\"\n{CGI}"
        ),
    );
    let mut client = server.client();
    for target in ["/short", "/private/lead"] {
        assert_eq!(client.get(target).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[WRONG]).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[RIGHT]).text(), "Basic bcrypt none ", "{target}");
    }
    // The program's own path asks for no password.
    assert_eq!(client.get_with("/cgi-bin/who", &[RIGHT]).text(), "  Basic YmNyeXB0OnJpZ2h0 ");
    server.stops_clean();
}

fn index_page_has_its_own_guard(io: Io) {
    let site = site();
    site.remove("index.html");
    fs::copy(site.path("cgi-bin/who"), site.path("index.cgi")).expect("ours");
    site.write("secret.html", b"secret");
    let server = serve(
        io,
        &site,
        "index = [\"index.cgi\"]\ntry = [\"{path}\", \"{path}.html\"]\n\
         [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\naccess.users = \"users\"\n\
         [[host.route]]\nsuffix = \".html\"\naction = \"files\"\naccess.users = \"users\"\n",
    );
    let mut client = server.client();
    assert_eq!(client.get("/index.cgi").status, 401);
    for target in ["/", "/.", "/%2e", "/x/.."] {
        assert_eq!(client.get(target).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[WRONG]).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[RIGHT]).status, 200, "{target}");
        assert_eq!(post(&mut client, target, "").status, 401, "{target}");
    }
    assert_eq!(client.get("/secret.html").status, 401);
    assert_eq!(client.get("/secret").status, 401);
    assert_eq!(client.get_with("/secret", &[RIGHT]).text(), "secret");
    server.stops_clean();
}

/// Regression: a folder sent its index page although a route denied the page, or asked for a
/// password. After a rewrite to the folder, an `access` of a route before the rewrite did not hold.
fn index_file_has_rules_of_its_own_path(io: Io) {
    let site = site();
    for folder in ["", "denied/", "secret/", "hidden/", "open/", "near/"] {
        let page = format!("{folder}index.html");
        site.write(&page, page.as_bytes());
    }
    site.write("folder/alias/index.html", b"alias");
    let server = serve(
        io,
        &site,
        "try = [\"{path}\", \"/secret/\"]\n\
         [[host.route]]\npath = \"/index.html\"\naction = \"redirect\"\nto = \"/\"\n\
         [[host.route]]\npath = \"/other/alias/index.html\"\naction = \"deny\"\n\
         [[host.route]]\nprefix = \"/other\"\naction = \"files\"\nroot = \"site/folder\"\n\
         [[host.route]]\npath = \"/denied/index.html\"\naction = \"deny\"\n\
         [[host.route]]\npath = \"/hidden/index.html\"\nfrom = [\"192.0.2.1\"]\naction = \"files\"\n\
         [[host.route]]\npattern = \"^/secret/.*html$\"\naction = \"files\"\naccess.users = \"users\"\n\
         [[host.route]]\npath = \"/near/index.html\"\naction = \"files\"\naccess.deny = [\"10.0.0.0/8\"]\n\
         [[host.route]]\npattern = \"^/to/(.*)$\"\naction = \"rewrite\"\nto = \"/{1}\"\n",
    );
    let mut client = server.client();
    // More than the requests that the server answers without its cache.
    for _ in 0..6 {
        for (target, expected) in [
            ("/", 200),
            ("/index.html", 301),
            ("/open/", 200),
            ("/denied/", 403),
            ("/hidden/", 404),
            ("/secret/", 401),
            ("/other/alias/", 403),
            ("/near/", 403),
            // By `try`.
            ("/missing", 401),
            // By a rewrite.
            ("/to/open/", 200),
            ("/to/denied/", 403),
            ("/to/hidden/", 404),
            ("/to/secret/", 401),
            ("/to/near/", 403),
            ("/to/missing", 401),
        ] {
            assert_eq!(status(&mut client, target, "10.2.0.1"), expected, "{target}");
        }
    }
    for target in ["/hidden/", "/near/", "/to/hidden/", "/to/near/"] {
        assert_eq!(status(&mut client, target, "192.0.2.1"), 200, "{target}");
    }
    for target in ["/secret/", "/missing", "/to/secret/", "/to/missing"] {
        assert_eq!(client.get_with(target, &[RIGHT]).text(), "secret/index.html", "{target}");
    }
    server.stops_clean();
}

fn index_page_of_cgi_folder_has_its_own_guard(io: Io) {
    let site = site();
    fs::copy(site.path("cgi-bin/who"), site.path("cgi-bin/index.cgi")).expect("ours");
    let server = serve(
        io,
        &site,
        &format!(
            "index = [\"index.cgi\"]\n\
             [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\naccess.users = \"users\"\n{CGI}"
        ),
    );
    let mut client = server.client();
    for target in ["/cgi-bin/index.cgi", "/cgi-bin/"] {
        assert_eq!(client.get(target).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[RIGHT]).text(), "Basic bcrypt none ", "{target}");
    }
    assert_eq!(client.get("/cgi-bin/who").status, 200);
    server.stops_clean();
}

fn path_behind_program_leads_past_no_rule(io: Io) {
    let site = site();
    for name in ["closed", "open"] {
        fs::copy(site.path("cgi-bin/who"), site.path("cgi-bin").join(name)).expect("ours");
    }
    let server = serve(
        io,
        &site,
        &format!(
            "[[host.route]]\npath = \"/cgi-bin/closed\"\naction = \"deny\"\n\
             [[host.route]]\npath = \"/cgi-bin/open\"\naction = \"redirect\"\nto = \"/\"\n\
             [[host.route]]\nprefix = \"/cgi-bin/closed/part\"\naction = \"cgi\"\n{CGI}"
        ),
    );
    let mut client = server.client();
    for behind in ["", "/", "/x", "/x%2Fy"] {
        assert_eq!(client.get(&format!("/cgi-bin/closed{behind}")).status, 403, "{behind}");
    }
    // A route that refuses nothing is for its own path only.
    assert_eq!(client.get("/cgi-bin/open").status, 301);
    assert_eq!(client.get("/cgi-bin/open/x").status, 200);
    // A route that names a part behind the program decides about this part.
    assert_eq!(client.get("/cgi-bin/closed/part/x").status, 200);
    server.stops_clean();
}

fn program_is_counted_once(io: Io) {
    let site = site();
    fs::copy(site.path("cgi-bin/who"), site.path("index.cgi")).expect("ours");
    site.remove("index.html");
    let server = serve(
        io,
        &site,
        "index = [\"index.cgi\"]\ntry = [\"{path}\", \"/cgi-bin/front.cgi\"]\n\
         [[host.route]]\nsuffix = \".cgi\"\naction = \"cgi\"\naccess.rate = { requests = 1, per = \"1h\" }\n",
    );
    fs::copy(site.path("cgi-bin/who"), site.path("cgi-bin/front.cgi")).expect("ours");
    let mut client = server.client();
    for (target, of) in [("/", "192.0.2.1"), ("/index.cgi/x", "192.0.2.2"), ("/any", "192.0.2.3")] {
        assert_eq!(status(&mut client, target, of), 200, "{target}");
        assert_eq!(status(&mut client, target, of), 429, "{target}");
    }
    server.stops_clean();
}

fn rewrite_meets_the_guards_of_both_routes(io: Io) {
    let site = site();
    site.write("admin/page.html", b"page");
    let server = serve(
        io,
        &site,
        "[[host.route]]\nprefix = \"/admin\"\naction = \"files\"\naccess.users = \"users\"\n\
         [[host.route]]\npattern = \"^/app/(.*)$\"\naction = \"rewrite\"\nto = \"/{1}\"\n\
         [[host.route]]\nsuffix = \".html\"\naction = \"files\"\naccess.deny = [\"192.0.2.0/24\"]\n",
    );
    let mut client = server.client();
    for target in ["/admin/page.html", "/app/admin/page.html"] {
        assert_eq!(client.get(target).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[RIGHT]).text(), "page", "{target}");
    }
    let of_denied = ["X-Forwarded-For: 192.0.2.1", RIGHT];
    assert_eq!(client.get_with("/app/admin/page.html", &of_denied).status, 403);
    server.stops_clean();
}

fn log_shows_only_users_that_were_asked_for(io: Io) {
    let site = site();
    site.write("closed/page", b"page");
    let file = site.configure(
        io,
        "[[host]]\nroot = \"site\"\n\
         try = [\"{path}\", \"/closed/page\"]\n\
         [[host.route]]\nprefix = \"/closed\"\naction = \"files\"\naccess.users = \"users\"\n",
    );
    let text = fs::read_to_string(&file).unwrap();
    let log = format!("log = {:?}\nlog_format = \"{{status}} {{user}}\"", site.outside("access.log"));
    fs::write(&file, text.replace("log = \"off\"", &log)).unwrap();
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    assert_eq!(client.get_with("/page", &[WRONG]).status, 200);
    assert_eq!(client.get_with("/closed/page", &[WRONG]).status, 401);
    assert_eq!(client.get_with("/closed/page", &[RIGHT]).status, 200);
    assert_eq!(client.get_with("/none", &[WRONG]).status, 401);
    assert_eq!(client.get_with("/none", &[RIGHT]).status, 200);
    drop(client);
    server.stops_clean();
    let lines = fs::read_to_string(site.outside("access.log")).unwrap();
    assert_eq!(lines, "200 -\n401 bcrypt\n200 bcrypt\n401 bcrypt\n200 bcrypt\n");
}

fn rewrite_and_redirect_lead_past_no_guard(io: Io) {
    let site = site();
    site.write("secret/page", b"secret");
    site.write("cgi-bin/lead", b"#!/bin/sh\nprintf 'Location: /secret/page\\n\\n'\n");
    fs::set_permissions(site.path("cgi-bin/lead"), fs::Permissions::from_mode(0o755)).expect("ours");
    let server = serve(
        io,
        &site,
        &format!(
            "[[host.route]]\nprefix = \"/secret\"\naction = \"files\"\naccess.users = \"users\"\n\
             [[host.route]]\nprefix = \"/short\"\naction = \"rewrite\"\nto = \"/secret{{rest}}\"\n\
             [[host.route]]\nprefix = \"/second\"\naction = \"rewrite\"\nto = \"/closed{{rest}}\"\n\
             {CGI}\
             [[host.route]]\nprefix = \"/closed\"\naction = \"files\"\naccess.users = \"users\"\n"
        ),
    );
    site.write("closed/page", b"closed");
    let mut client = server.client();
    for (target, content) in [
        ("/secret/page", "secret"),
        ("/short/page", "secret"),
        ("/second/page", "closed"),
        ("/cgi-bin/lead", "secret"),
        ("/secret//page", ""),
        ("/./secret/page", "secret"),
        ("/%73ecret/page", "secret"),
    ] {
        assert_eq!(client.get(target).status, 401, "{target}");
        assert_eq!(client.get_with(target, &[WRONG]).status, 401, "{target}");
        if !content.is_empty() {
            assert_eq!(client.get_with(target, &[RIGHT]).text(), content, "{target}");
        }
    }
    server.stops_clean();
}

fn reload_reads_the_users_again(io: Io) {
    let site = site();
    let server = serve(io, &site, "[host.access]\nusers = \"users\"\n");
    let mut client = server.client();
    assert_eq!(client.get_with("/page", &[RIGHT]).status, 200);
    fs::write(site.outside("users"), USERS.replace("bcrypt:", "renamed:")).expect("ours");
    server.signal(Signal::HUP);
    server.says("reloaded");
    assert_eq!(client.get_with("/page", &[RIGHT]).status, 401);
    fs::write(site.outside("users"), "bcrypt:secret\n").expect("ours");
    server.signal(Signal::HUP);
    server.says("hashes of this kind are guessed too quickly");
    assert_eq!(client.get_with("/page", &[OTHERS[0]]).status, 200);
    server.stops_clean();
}

fn flood_of_wrong_passwords_leaves_files_served(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "[[host.route]]\nprefix = \"/page\"\naction = \"files\"\naccess.users = \"users\"\n",
    );
    let mut flood: Vec<TestClient> = (0..100).map(|_| server.client()).collect();
    for client in &mut flood {
        client.ask("GET", "/page", &[WRONG]);
    }
    assert_eq!(server.client().get("/open/page").text(), "open");
    for client in &mut flood {
        let status = client.read(ExpectedContent::Follows).status;
        assert!(matches!(status, 401 | 503), "{status}");
    }
    assert_eq!(server.client().get_with("/page", &[RIGHT]).status, 200);
    server.stops_clean();
}

fn client_over_its_rate_waits_or_gets_429(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "access.rate = { requests = 1, per = \"1h\", burst = 2 }\n\
         [[host.route]]\nprefix = \"/open\"\naction = \"files\"\n\
         access.rate = { requests = 20, per = \"1s\", burst = 3, delayed = 3 }\n",
    );
    let mut client = server.client();
    for (of, expected) in [
        ("192.0.2.1", 200),
        ("192.0.2.1", 200),
        ("192.0.2.1", 200),
        ("192.0.2.1", 429),
        ("192.0.2.2", 200),
        ("2001:db8::1", 200),
        ("2001:db8::2", 200),
        ("2001:db8::3", 200),
        ("2001:db8::4", 429),
        ("2001:db8:0:1::1", 200),
    ] {
        assert_eq!(status(&mut client, "/page", of), expected, "{of}");
    }
    let refused = client.get_with("/page", &["X-Forwarded-For: 192.0.2.1"]);
    let wait: u64 = refused.field("retry-after").parse().expect("seconds");
    assert!((1..=3600).contains(&wait), "{wait}");
    server.says("192.0.2.1 asks more often than the rate in access allows (429)");
    // The route has its own rate, and its requests wait instead.
    for _ in 0..4 {
        assert_eq!(status(&mut client, "/open/page", "192.0.2.1"), 200);
    }
    server.stops_clean();
}

fn rate_counts_by_field(io: Io) {
    let site = site();
    let server = serve(io, &site, "access.rate = { requests = 1, per = \"1h\", by = \"field:X-Api-Key\" }\n");
    let mut client = server.client();
    for (fields, expected) in [
        (["X-Api-Key: a", "X-Forwarded-For: 192.0.2.1"], 200),
        (["X-Api-Key: a", "X-Forwarded-For: 192.0.2.2"], 429),
        (["x-api-key: b", "X-Forwarded-For: 192.0.2.1"], 200),
        (["X-Other: b", "X-Forwarded-For: 192.0.2.1"], 200),
        (["X-Other: b", "X-Forwarded-For: 192.0.2.1"], 429),
    ] {
        assert_eq!(client.get_with("/page", &fields).status, expected, "{fields:?}");
    }
    server.stops_clean();
}

/// Regression: the target of a rewrite has rules of its own, which have the rate of the host. The
/// request was counted for both.
fn rewritten_request_is_counted_once(io: Io) {
    let site = site();
    let server = serve(
        io,
        &site,
        "access.rate = { requests = 1, per = \"1h\" }\n\
         [[host.route]]\npath = \"/short\"\naction = \"rewrite\"\nto = \"/open/page\"\n\
         [[host.route]]\nprefix = \"/open\"\naction = \"files\"\naccess.deny = [\"203.0.113.0/24\"]\n\
         [[host.route]]\npath = \"/long\"\naction = \"rewrite\"\nto = \"/own/page\"\n\
         access.rate = { requests = 9, per = \"1h\", burst = 8 }\n\
         [[host.route]]\nprefix = \"/own\"\naction = \"files\"\naccess.rate = { requests = 2, per = \"1h\", burst = 1 }\n",
    );
    site.write("own/page", b"own");
    let mut client = server.client();
    for expected in [200, 429] {
        assert_eq!(status(&mut client, "/short", "192.0.2.1"), expected);
    }
    // The target has a rate of its own, which the rewrite does not lead past.
    for expected in [200, 200, 429] {
        assert_eq!(status(&mut client, "/long", "192.0.2.1"), expected);
    }
    server.stops_clean();
}

/// Regression: hosts with wildcards alone shared the counts of each client.
fn hosts_count_apart(io: Io) {
    let site = site();
    let host = "root = \"site\"\naccess.rate = { requests = 1, per = \"1h\" }\n";
    let hosts = ["*.a.example", "*.b.example", "b.example"]
        .map(|name| format!("[[host]]\nnames = [\"{name}\"]\n{host}"));
    let server = TestServer::configured(io, &site, &format!("{TOP}{}", hosts.concat()));
    for expected in [200, 429] {
        for name in ["x.a.example", "x.b.example", "b.example"] {
            let mut client = server.client();
            client.send(format!("GET /page HTTP/1.1\r\nHost: {name}\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"));
            assert_eq!(client.read(ExpectedContent::Follows).status, expected, "{name}");
        }
    }
    server.stops_clean();
}
