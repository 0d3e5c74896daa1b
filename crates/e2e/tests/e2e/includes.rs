//! Configuration files of hosts that the main file includes.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual, until};
use rustix::process::Signal;
use std::fs;

on_usual!(included_files_come_and_go, instances_read_included_files);

/// Reloads the server; waits until the server has printed `words`.
fn reload(server: &TestServer, words: &str) {
    server.signal(Signal::HUP);
    until("it has reloaded", || server.stderr().contains(words).then_some(()));
}

fn site_with_includes() -> TestSite {
    let site = TestSite::new();
    fs::create_dir(site.outside("sites")).unwrap();
    for name in ["a", "b"] {
        fs::create_dir(site.outside(name)).unwrap();
        fs::write(site.outside(name).join("index.html"), name).unwrap();
        let text = format!("[[host]]\nnames = [\"{name}.test\"]\nroot = \"{name}\"\n");
        fs::write(site.outside("sites").join(name), text).unwrap();
    }
    site
}

fn page_of(server: &TestServer, host: &str) -> String {
    let mut client = server.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read(ExpectedContent::Follows).text().to_owned()
}

const INCLUDES: &str = "include = \"sites/*\"\nskip_unfit_includes = true\n[[host]]\nroot = \"site\"\n";

fn included_files_come_and_go(io: Io) {
    let site = site_with_includes();
    let server = TestServer::configured(io, &site, INCLUDES);
    assert_eq!((page_of(&server, "a.test"), page_of(&server, "b.test")), ("a".into(), "b".into()));
    fs::write(site.outside("sites/a"), "[[host]]\nrot = 1\n").unwrap();
    fs::remove_file(site.outside("sites/b")).unwrap();
    fs::write(site.outside("sites/c"), "[[host]]\nnames = [\"c.test\"]\nroot = \"b\"\n").unwrap();
    reload(&server, "reloaded: 2 hosts");
    server.says("sites/a:2:1: host.rot: there is no such key; did you mean `root`? (left out)");
    assert_eq!(page_of(&server, "c.test"), "b");
    for gone in ["a.test", "b.test"] {
        assert_eq!(page_of(&server, gone), "<!doctype html>home\n", "{gone}");
    }
    server.stops_clean();
}

fn instances_read_included_files(io: Io) {
    let site = site_with_includes();
    let text = format!("instances = 2\n{INCLUDES}");
    let server = TestServer::configured(io, &site, &text);
    for _ in 0..8 {
        assert_eq!((page_of(&server, "a.test"), page_of(&server, "b.test")), ("a".into(), "b".into()));
    }
    fs::write(site.outside("sites/c"), "[[host]]\nnames = [\"c.test\"]\nroot = \"b\"\n").unwrap();
    reload(&server, "reloaded: 4 hosts");
    for _ in 0..8 {
        assert_eq!(page_of(&server, "c.test"), "b");
    }
    server.stops_clean();
}
