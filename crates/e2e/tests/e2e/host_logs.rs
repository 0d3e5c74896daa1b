//! Log files of single hosts.

use crate::support::{Io, TestServer, TestSite, on_usual, until_or, vermeil};
use rustix::process::{Signal, geteuid};
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
};

on_usual!(
    host_log_has_requests_of_its_host,
    open_logs_of_hosts_stay_bounded,
    reload_changes_logs_of_hosts,
    log_in_force_outlives_change_of_file,
    unwritable_log_of_host_is_reported,
    host_log_is_rotated,
    server_opens_host_logs_after_giving_up_rights,
    wrong_host_log_is_refused,
);

/// A configuration with these hosts, each with its log, and a common log. The default host has no
/// log of its own.
fn configuration(io: Io, site: &TestSite, top: &str, hosts: &[(&str, &str)]) -> PathBuf {
    fs::create_dir_all(site.outside("logs")).expect("a folder");
    let mut text = "[[host]]\nroot = \"site\"\n".to_owned();
    for (name, log) in hosts {
        let _ = write!(text, "[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\nlog = \"{log}\"\n");
    }
    let file = site.configure(io, &text);
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text.replacen("log = \"off\"\n", top, 1)).expect("written");
    file
}

fn ask(server: &TestServer, host: &str, path: &str) {
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read(crate::support::ExpectedContent::Follows);
}

/// The requests in a log, once there are `count`.
#[track_caller]
fn requests(site: &TestSite, server: &TestServer, log: &str, count: usize) -> Vec<String> {
    let read = || {
        let text = fs::read_to_string(site.outside(log)).unwrap_or_default();
        let path = |line: &str| Some(line.split_once("\"GET ")?.1.split_once(' ')?.0.to_owned());
        let lines: Vec<_> = text.lines().filter_map(path).collect();
        (lines.len() >= count).then_some(lines)
    };
    until_or(read, || format!("{log} has {count} lines: {server:?}"))
}

const COMMON: &str = "log = \"logs/common\"\n";

fn host_log_has_requests_of_its_host(io: Io) {
    let site = TestSite::new();
    let hosts = [("a.example", "logs/a"), ("b.example", "off"), ("c.example", "logs/a")];
    let server = TestServer::of_file(&configuration(io, &site, COMMON, &hosts));
    for host in ["a.example", "b.example", "c.example", "d.example"] {
        ask(&server, host, &format!("/{host}"));
    }
    let mut client = server.client();
    client.send("GET /bad HTTP/1.1\r\n\r\n");
    client.read(crate::support::ExpectedContent::Follows);
    // Each core writes its own lines together, so lines of different cores have no order.
    let mut common = requests(&site, &server, "logs/common", 2);
    common.sort();
    assert_eq!(common, ["/bad", "/d.example"]);
    let mut of_hosts = requests(&site, &server, "logs/a", 2);
    of_hosts.sort();
    assert_eq!(of_hosts, ["/a.example", "/c.example"]);
    let line = fs::read_to_string(site.outside("logs/a")).expect("there");
    assert!(line.starts_with("127.0.0.1 - - ["), "the combined format: {line}");
    server.stops_clean();
    server.says(" 0 log records dropped");
}

fn open_logs_of_hosts_stay_bounded(io: Io) {
    let site = TestSite::new();
    let names: Vec<_> = (0..40).map(|number| format!("h{number}.example")).collect();
    let logs: Vec<_> = (0..40).map(|number| format!("logs/h{number}")).collect();
    let hosts: Vec<_> = names.iter().map(String::as_str).zip(logs.iter().map(String::as_str)).collect();
    let file = configuration(io, &site, "log = \"off\"\n", &hosts);
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text + "[log_files]\nopen_max = 4\n").expect("written");
    let server = TestServer::of_file(&file);
    let open = || {
        let folder = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("our own process");
        let logs = site.outside("logs");
        let targets = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(&logs)).count()
    };
    for round in 1..=2 {
        for name in &names {
            ask(&server, name, "/");
        }
        for log in &logs {
            requests(&site, &server, log, round);
        }
        let open = open();
        assert!((1..=4).contains(&open), "{open} logs are open");
    }
    server.stops_clean();
    server.says(" 0 log records dropped");
}

fn reload_changes_logs_of_hosts(io: Io) {
    let site = TestSite::new();
    let file = configuration(io, &site, "log = \"off\"\n", &[("a.example", "off")]);
    let server = TestServer::of_file(&file);
    ask(&server, "a.example", "/nowhere");
    for (reload, log) in ["logs/one", "logs/two"].into_iter().enumerate() {
        let former = if reload == 0 { "off" } else { "logs/one" };
        let text = fs::read_to_string(&file).expect("there");
        let changed = text.replace(
            &format!("root = \"site\"\nlog = \"{former}\""),
            &format!("root = \"site\"\nlog = \"{log}\""),
        );
        assert_ne!(text, changed);
        fs::write(&file, changed).expect("written");
        server.signal(Signal::HUP);
        let reloads = || (server.stderr().matches("reloaded: ").count() > reload).then_some(());
        until_or(reloads, || format!("the server reloads: {server:?}"));
        ask(&server, "a.example", &format!("/{reload}"));
        assert_eq!(requests(&site, &server, log, 1), [format!("/{reload}")]);
    }
    // A rename from outside, and the signal.
    fs::rename(site.outside("logs/two"), site.outside("logs/two.old")).expect("renamed");
    server.signal(Signal::HUP);
    until_or(|| (server.stderr().matches("reloaded: ").count() > 2).then_some(()), || format!("{server:?}"));
    ask(&server, "a.example", "/later");
    assert_eq!(requests(&site, &server, "logs/two", 1), ["/later"]);
    server.stops_clean();
}

/// Regression: the log of a reload was first looked for in the file with its first line, and the
/// file was another by then.
fn log_in_force_outlives_change_of_file(io: Io) {
    let site = TestSite::new();
    let server =
        TestServer::of_file(&configuration(io, &site, "log = \"off\"\n", &[("a.example", "logs/one")]));
    let hosts = [("a.example", "logs/one"), ("b.example", "logs/two")];
    let file = configuration(io, &site, "log = \"off\"\n", &hosts);
    server.signal(Signal::HUP);
    until_or(|| server.stderr().contains("reloaded: ").then_some(()), || format!("{server:?}"));
    fs::write(&file, "[[host]]\nrot = 1\n").expect("written");
    ask(&server, "b.example", "/first");
    assert_eq!(requests(&site, &server, "logs/two", 1), ["/first"]);
    server.stops_clean();
}

fn unwritable_log_of_host_is_reported(io: Io) {
    let site = TestSite::new();
    let hosts = [("a.example", "missing/a"), ("b.example", "logs/b")];
    let file = configuration(io, &site, COMMON, &hosts);
    let output = vermeil(&["check", "--config", file.to_str().expect("UTF-8")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert!(said.contains("a.example: cannot write the access log in "), "{said}");
    let server = TestServer::of_file(&file);
    ask(&server, "a.example", "/lost");
    server.says("missing/a: No such file or directory (os error 2); its records are dropped");
    // Other logs go on.
    ask(&server, "b.example", "/kept");
    assert_eq!(requests(&site, &server, "logs/b", 1), ["/kept"]);
    fs::create_dir(site.outside("missing")).expect("made");
    let again = || {
        ask(&server, "a.example", "/again");
        site.outside("missing/a").exists().then_some(())
    };
    until_or(again, || format!("the log is written again: {server:?}"));
    assert_eq!(requests(&site, &server, "missing/a", 1)[0], "/again");
    server.stops_clean();
}

fn host_log_is_rotated(io: Io) {
    let site = TestSite::new();
    let file = configuration(io, &site, "log = \"off\"\ncores = 1\n", &[("a.example", "logs/a")]);
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text + "[log_files]\nrotate_bytes = \"1K\"\n").expect("written");
    let server = TestServer::of_file(&file);
    let mut asked = 0;
    let rotated = || {
        ask(&server, "a.example", &format!("/{asked}"));
        asked += 1;
        site.outside("logs/a.1").exists().then_some(())
    };
    until_or(rotated, || format!("the log of the host is rotated: {server:?}"));
    server.stops_clean();
    let mut all = requests(&site, &server, "logs/a.1", 1);
    all.extend(requests(&site, &server, "logs/a", 0));
    assert_eq!(all, (0..asked).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

fn server_opens_host_logs_after_giving_up_rights(io: Io) {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser becomes another user");
    }
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), fs::Permissions::from_mode(0o755)).expect("ours");
    let top = "log = \"off\"\nuser = \"nobody:nogroup\"\n";
    let file = configuration(io, &site, top, &[("a.example", "logs/a"), ("b.example", "secret/b")]);
    let nobody = 65_534;
    chown(site.outside("logs"), Some(nobody), Some(nobody)).expect("given");
    fs::create_dir(site.outside("secret")).expect("a folder of the superuser");
    let server = TestServer::of_file(&file);
    ask(&server, "b.example", "/");
    server.says("secret/b: Permission denied");
    ask(&server, "a.example", "/");
    assert_eq!(requests(&site, &server, "logs/a", 1), ["/"]);
    assert!(!site.outside("secret/b").exists());
    server.stops_clean();
}

fn wrong_host_log_is_refused(io: Io) {
    let long = "x".repeat(2000);
    for (hosts, rotation, message) in [
        (&[("a.example", "syslog")][..], "", "host.log: \"syslog\": the log of a host is a file, or \"off\""),
        (&[("a.example", "-")], "", "host.log: \"-\": the log of a host is a file"),
        (&[("a.example", "")], "", "a log is `off`, `-` for standard output"),
        (&[("a.example", &*long)], "", "a path of more than 512 bytes; choose a shorter one"),
        (
            &[("a.example", "logs/a"), ("b.example", "logs/a.2")],
            "[log_files]\nrotate_bytes = \"1M\"\n",
            "logs/a.2 is the name of a rotated file of ",
        ),
    ] {
        let site = TestSite::new();
        let file = configuration(io, &site, COMMON, hosts);
        let text = fs::read_to_string(&file).expect("there");
        fs::write(&file, text + rotation).expect("written");
        let output =
            vermeil(&["check", "--config", file.to_str().expect("UTF-8")]).output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message) && said.contains("vermeil.toml:"), "{message}: {said}");
    }
}
