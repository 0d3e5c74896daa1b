//! Virtual hosts through the binary: every name gets its own folder only, few folders are open, and
//! a missing folder affects its own host alone.

use crate::support::{ExpectedContent, Io, Response, TestClient, TestServer, TestSite, on_usual};
use std::fmt::Write as _;
use std::fs;

on_usual!(
    each_name_gets_its_own_files,
    unknown_name_gets_default_host_or_421,
    missing_folder_affects_own_host_only,
    many_hosts_are_served_with_few_folders_open,
    closed_folders_answer_like_open_folders,
    a_change_in_any_host_is_seen_at_once,
);

/// A site with folders `a`, `b`, …, whose index pages name the folder.
fn folders(names: &[&str]) -> TestSite {
    let site = TestSite::new();
    for name in names {
        fs::create_dir(site.outside(name)).unwrap();
        fs::write(site.outside(name).join("index.html"), name).unwrap();
    }
    site
}

#[track_caller]
fn get(client: &mut TestClient, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read(ExpectedContent::Follows)
}

const THREE: &str = r#"
[[host]]
names = ["a.example", "www.a.example"]
root = "a"
[[host]]
names = ["*.b.example"]
root = "b"
[[host]]
root = "c"
default = true
"#;

fn each_name_gets_its_own_files(io: Io) {
    let site = folders(&["a", "b", "c"]);
    let server = TestServer::configured(io, &site, THREE);
    server.says("serving 3 hosts at http://");
    let client = &mut server.client();
    for (host, folder) in [
        ("a.example", "a"),
        ("A.Example.:80", "a"),
        ("www.a.example", "a"),
        ("x.b.example", "b"),
        ("x.y.B.EXAMPLE:8080", "b"),
        ("b.example", "c"),
        ("x.a.example", "c"),
        ("192.0.2.1", "c"),
        ("[::1]:80", "c"),
    ] {
        assert_eq!(get(client, host, "/").text(), folder, "{host}");
        // The host of an absolute target counts, whatever the `Host` field has (RFC 9112 §3.2.2).
        client.send(format!("GET http://{host}/ HTTP/1.1\r\nHost: other.example\r\n\r\n"));
        assert_eq!(client.read(ExpectedContent::Follows).text(), folder, "{host}");
    }
    let mut old = server.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.read(ExpectedContent::Follows).text(), "c");
    server.stops_clean();
}

fn unknown_name_gets_default_host_or_421(io: Io) {
    let site = folders(&["a", "b", "c"]);
    let server = TestServer::configured(io, &site, &format!("{THREE}[hosts]\nunknown = \"refuse\"\n"));
    let client = &mut server.client();
    assert_eq!(get(client, "nobody.example", "/").status, 421);
    assert_eq!(get(client, "a.example", "/").text(), "a", "the connection goes on");
    let mut old = server.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.read(ExpectedContent::Follows).status, 421);
    server.stops_clean();
}

fn missing_folder_affects_own_host_only(io: Io) {
    let site = folders(&["a", "b", "c"]);
    fs::remove_dir_all(site.outside("a")).unwrap();
    let server = TestServer::configured(io, &site, THREE);
    let client = &mut server.client();
    assert_eq!(get(client, "a.example", "/").status, 404);
    server.says(&format!("serving the folder {}: there is no such folder", site.outside("a").display()));
    assert_eq!(get(client, "x.b.example", "/").text(), "b");
    fs::create_dir(site.outside("a")).unwrap();
    fs::write(site.outside("a/index.html"), "here").unwrap();
    assert_eq!(get(client, "a.example", "/").text(), "here");
    server.stops_clean();
}

fn many_hosts_are_served_with_few_folders_open(io: Io) {
    let names: Vec<String> = (0..60).map(|i| format!("h{i}")).collect();
    let site = folders(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut text = String::from("[hosts]\nopen_max = 8\n");
    for name in &names {
        writeln!(text, "[[host]]\nnames = [\"{name}.example\"]\nroot = \"{name}\"").unwrap();
    }
    let server = TestServer::configured(io, &site, &text);
    let around = site.outside("");
    let open = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten();
        let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        targets.filter(|target| target.starts_with(&around) && target.is_dir()).count()
    };
    let client = &mut server.client();
    for _ in 0..3 {
        for name in &names {
            assert_eq!(get(client, &format!("{name}.example"), "/").text(), name);
            assert_eq!(get(client, &format!("{name}.example"), "/none").status, 404);
        }
        // Descriptors that were marked for closing by the last request are closed with the next
        // request.
        assert!(open() <= 9, "{} are open", open());
    }
    server.stops_clean();
}

fn closed_folders_answer_like_open_folders(io: Io) {
    let names: Vec<String> = (0..20).map(|i| format!("h{i}")).collect();
    let site = folders(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut text = String::from("[hosts]\nopen_max = 1\n");
    for name in &names {
        fs::create_dir(site.outside(&format!("{name}/list"))).unwrap();
        fs::write(site.outside(&format!("{name}/front.html")), format!("front {name}")).unwrap();
        fs::write(site.outside(&format!("{name}/404.html")), format!("missing {name}")).unwrap();
        let (host, tried) = (format!("{name}.example"), format!("try.{name}.example"));
        writeln!(text, "[[host]]\nnames = [\"{host}\"]\nroot = \"{name}\"").unwrap();
        writeln!(
            text,
            "[[host]]\nnames = [\"{tried}\"]\nroot = \"{name}\"\ntry = [\"{{path}}\", \"/front.html\"]"
        )
        .unwrap();
    }
    writeln!(text, "[[host]]\nnames = [\"gone.example\"]\nroot = \"gone\"").unwrap();
    let server = TestServer::configured(io, &site, &text);
    let client = &mut server.client();
    for name in &names {
        let host = format!("{name}.example");
        let missing = get(client, &host, "/none");
        assert_eq!((missing.status, missing.text()), (404, &*format!("missing {name}")));
        assert_eq!(get(client, &host, "/.hidden").text(), format!("missing {name}"));
        assert_eq!(get(client, &host, "/list").status, 301);
        assert_eq!(get(client, &host, "/none/").status, 404);
        assert_eq!(get(client, &host, "/").text(), name);
        assert_eq!(get(client, &format!("try.{host}"), "/none").text(), format!("front {name}"));
    }
    assert_eq!(get(client, "gone.example", "/none").status, 404);
    server.says(&format!("serving the folder {}: there is no such folder", site.outside("gone").display()));
    server.stops_clean();
}

fn a_change_in_any_host_is_seen_at_once(io: Io) {
    let site = folders(&["a", "b", "c"]);
    let server = TestServer::configured(io, &site, THREE);
    let client = &mut server.client();
    for round in 0..20 {
        for (host, folder) in [("a.example", "a"), ("x.b.example", "b"), ("other", "c")] {
            let content = format!("{folder}{round}");
            fs::write(site.outside(folder).join("page"), &content).unwrap();
            assert_eq!(get(client, host, "/page").text(), content);
            assert_eq!(get(client, host, "/page").text(), content);
        }
    }
    server.stops_clean();
}
