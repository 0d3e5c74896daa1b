//! The status names the requests that children are in, and has the times of programs.

use super::{installed, site, whole, write};
use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual, until, vermeil};
use rustix::{fs::OFlags, process::geteuid};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    process::Command,
};

on_usual! {
    status_names_requests_of_children,
    metrics_have_times_of_programs,
}

/// A script that waits until the FIFO beside the site is opened.
const HOLD: &str = "fopen($_SERVER['DOCUMENT_ROOT'] . '/../hold', 'r'); echo 'done';";

const HOST: &str = "control = \"control\"\n[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n";

fn is_there() -> bool {
    let is_there = installed("php-cgi").is_some();
    if !is_there {
        eprintln!("SKIPPED: no php-cgi on this machine");
    }
    is_there
}

fn status(site: &TestSite, form: &str) -> String {
    let control = site.outside("control");
    let args: &[&str] = if form.is_empty() { &[] } else { &[form] };
    let output = vermeil(&["status", "--control"]).arg(control).args(args).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn status_names_requests_of_children(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    write(&site, "hold.php", HOLD);
    write(&site, "quick.php", "echo 'quick';");
    let fifo = site.outside("hold");
    assert!(Command::new("mkfifo").arg("-m666").arg(&fifo).status().expect("mkfifo").success());
    let server = TestServer::configured(io, &site, &format!("{HOST}[host.php]\nchildren = 2\n"));
    let long = format!("/hold.php/{}", "x".repeat(400));
    let mut held = ["/hold.php?password=secret", &long].map(|target| {
        let mut client = server.client();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 2\r\n\r\nab"));
        client
    });
    let pool = until("both children are busy", || {
        let status: Value = serde_json::from_str(&status(&site, "--json")).expect("JSON");
        let pool = status["instances"][0]["php_pools_used"][0]["pool"].clone();
        (pool["running"].as_array().is_some_and(|running| running.len() == 2)).then_some(pool)
    });
    for running in pool["running"].as_array().expect("two") {
        assert_eq!((&running["method"], &running["host"]), (&"POST".into(), &"a.example:80".into()));
        assert!(running["running_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{running}");
        let path = running["path"].as_str().expect("text");
        assert!(path == "/hold.php" || path.len() == 240 && long.starts_with(path), "{path}");
    }
    let text = status(&site, "");
    assert!(text.contains(" ms: POST a.example:80/hold.php\n"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    // A script that waits for the FIFO goes on. Without such a script the open fails.
    until("both scripts have ended", || {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        drop(fs::File::options().write(true).custom_flags(flags).open(&fifo));
        let ended = held.iter().filter(|client| client.is_readable()).count();
        (ended == 2).then_some(())
    });
    for client in &mut held {
        assert_eq!(client.read(ExpectedContent::Follows).text(), "done");
    }
    let text = status(&site, "");
    assert!(!text.contains("hold.php"), "{text}");
    assert!(text.contains("    waited: 50 % within "), "{text}");
    server.stops_clean();
}

fn metrics_have_times_of_programs(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    write(&site, "quick.php", "echo 'quick';");
    site.write("cgi-bin/a", b"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nquick'\n");
    for path in ["cgi-bin", "cgi-bin/a"] {
        fs::set_permissions(site.path(path), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let user = if geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let route = "[host.php]\nchildren = 1\n[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let server = TestServer::configured(io, &site, &format!("{HOST}{route}{user}"));
    for (target, times) in [("/quick.php", 3), ("/cgi-bin/a", 2)] {
        for _ in 0..times {
            let (head, body) = whole(&mut server.client(), "GET", target, &[], b"");
            assert_eq!(body, b"quick", "{head}");
        }
    }
    let metrics = status(&site, "--metrics");
    let value = |name: &str| -> f64 {
        let mut lines = metrics.lines().filter(|line| line.starts_with(name));
        lines
            .next()
            .and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    for (name, count) in [
        ("vermeil_php_wait_seconds", 3.0),
        ("vermeil_php_service_seconds", 3.0),
        ("vermeil_cgi_wait_seconds", 2.0),
        ("vermeil_cgi_run_seconds", 2.0),
    ] {
        assert_eq!(value(&format!("{name}_count{{")), count, "{name}: {metrics}");
        assert!(value(&format!("{name}_sum{{")) > 0.0, "{name}: {metrics}");
        let buckets = metrics.lines().filter(|line| line.starts_with(&format!("{name}_bucket{{")));
        assert_eq!(buckets.count(), 14, "{name}: {metrics}");
    }
    server.stops_clean();
}
