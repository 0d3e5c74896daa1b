//! Rotation of log files by the server itself.

use crate::support::{Io, TestServer, TestSite, on_usual, until_or, vermeil};
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::PathBuf,
};

on_usual!(
    full_log_is_rotated_without_loss,
    log_is_rotated_at_new_period,
    instances_rotate_one_log_once,
    lock_of_reader_gives_notice,
    server_rotates_after_giving_up_rights,
    folder_without_rights_is_refused,
    wrong_rotation_is_refused,
);

/// The user of the server where the superuser starts the server.
const NOBODY: u32 = 65_534;

/// A configuration with a log in the folder `logs`, and with these keys at the top.
fn configuration(io: Io, site: &TestSite, top: &str, rotation: &str) -> PathBuf {
    fs::create_dir_all(site.outside("logs")).expect("a folder");
    let file = site.configure(io, "[[host]]\nroot = \"site\"\n");
    let text = fs::read_to_string(&file).expect("there");
    let log = format!("log = \"logs/log\"\nlog_format = \"{{request}}\"\n{top}");
    let text = text.replace("log = \"off\"\n", &log);
    fs::write(&file, format!("{text}[log_files]\n{rotation}")).expect("written");
    file
}

fn rotated(site: &TestSite, number: usize) -> PathBuf {
    site.outside(&format!("logs/log.{number}"))
}

/// Asks for numbered paths until there are `files` rotated files. Returns the count of requests.
fn ask_until_rotated(site: &TestSite, server: &TestServer, files: usize) -> usize {
    let mut asked = 0;
    until_or(
        || {
            // A connection of its own, so that each instance gets requests.
            server.get(&format!("/{asked}"));
            asked += 1;
            rotated(site, files).exists().then_some(())
        },
        || format!("there are {files} rotated files: {server:?}"),
    );
    asked
}

/// The numbers of the requests in all files, the oldest file first.
fn numbers(site: &TestSite) -> Vec<usize> {
    let mut texts = vec![fs::read_to_string(site.outside("logs/log")).expect("there")];
    texts.extend((1..).map_while(|number| fs::read_to_string(rotated(site, number)).ok()));
    assert!(texts[1..].iter().all(|text| !text.is_empty()), "no empty file is rotated: {texts:?}");
    let text: String = texts.into_iter().rev().collect();
    let number = |line: &str| line.strip_prefix("GET /")?.strip_suffix(" HTTP/1.1")?.parse().ok();
    text.lines().map(|line| number(line).unwrap_or_else(|| panic!("a torn line: {line:?}"))).collect()
}

fn full_log_is_rotated_without_loss(io: Io) {
    let site = TestSite::new();
    let file = configuration(io, &site, "cores = 1\n", "rotate_bytes = \"1K\"\n");
    let server = TestServer::of_file(&file);
    let asked = ask_until_rotated(&site, &server, 2);
    server.stops_clean();
    assert_eq!(numbers(&site), (0..asked).collect::<Vec<_>>());
    assert!(server.stderr().contains(" 0 log records dropped"), "{server:?}");
}

/// Regression: the server said nothing while a reader of the log held a lock, and never rotated.
fn lock_of_reader_gives_notice(io: Io) {
    let site = TestSite::new();
    let file = configuration(io, &site, "cores = 1\n", "rotate_bytes = \"1K\"\n");
    let server = TestServer::of_file(&file);
    let reader = fs::File::open(site.outside("logs/log")).expect("there");
    flock(&reader, FlockOperation::LockShared).expect("locked");
    let mut asked = 0;
    let words = "another process holds a lock on the file (flock); stop it";
    until_or(
        || {
            server.get(&format!("/{asked}"));
            asked += 1;
            server.stderr().contains(words).then_some(())
        },
        || format!("{words}: {server:?}"),
    );
    assert!(!rotated(&site, 1).exists());
    drop(reader);
    until_or(
        || {
            server.get(&format!("/{asked}"));
            asked += 1;
            rotated(&site, 1).exists().then_some(())
        },
        || format!("the log is rotated: {server:?}"),
    );
    server.stops_clean();
    assert_eq!(numbers(&site), (0..asked).collect::<Vec<_>>());
}

fn log_is_rotated_at_new_period(io: Io) {
    let site = TestSite::new();
    let file = configuration(io, &site, "cores = 1\n", "rotate_every = \"2s\"\nkept = 3\n");
    let server = TestServer::of_file(&file);
    let asked = ask_until_rotated(&site, &server, 1);
    server.stops_clean();
    assert_eq!(numbers(&site), (0..asked).collect::<Vec<_>>());
}

fn instances_rotate_one_log_once(io: Io) {
    let site = TestSite::new();
    let top = "cores = 2\ninstances = 2\n";
    let file = configuration(io, &site, top, "rotate_bytes = \"1K\"\n");
    let server = TestServer::of_file(&file);
    let asked = ask_until_rotated(&site, &server, 2);
    server.stop();
    let mut numbers = numbers(&site);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..asked).collect::<Vec<_>>());
}

fn server_rotates_after_giving_up_rights(io: Io) {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser becomes another user");
    }
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), fs::Permissions::from_mode(0o755)).expect("ours");
    let top = "cores = 1\nuser = \"nobody:nogroup\"\n";
    let file = configuration(io, &site, top, "rotate_bytes = \"1K\"\n");
    chown(site.outside("logs"), Some(NOBODY), Some(NOBODY)).expect("given");
    let secret = site.outside("secret");
    fs::write(&secret, "secret").expect("written");
    // The user of the server plants links where the rotated files will be.
    symlink(&secret, rotated(&site, 1)).expect("linked");
    symlink(&secret, rotated(&site, 2)).expect("linked");
    let server = TestServer::of_file(&file);
    let asked = ask_until_rotated(&site, &server, 3);
    server.stops_clean();
    assert_eq!(fs::read_to_string(&secret).expect("there"), "secret");
    assert!(asked > 0 && fs::symlink_metadata(rotated(&site, 3)).expect("there").is_symlink());
}

fn folder_without_rights_is_refused(io: Io) {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser becomes another user");
    }
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), fs::Permissions::from_mode(0o755)).expect("ours");
    let top = "user = \"nobody:nogroup\"\n";
    let file = configuration(io, &site, top, "rotate_every = \"24h\"\n");
    let output = vermeil(&["serve", "--config", file.to_str().expect("UTF-8")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot rotate the access log") && said.contains("give the folder"), "{said}");
}

fn wrong_rotation_is_refused(io: Io) {
    for (rotation, message) in [
        ("rotate_bytes = 10\n", "10 is not from 1K to 1T"),
        ("rotate_every = \"1s\"\n", "1s is too short, because a file is rotated every 2s at most"),
        ("kept = 5\n", "nothing is rotated; write rotate_bytes or rotate_every too"),
        ("kept = 0\nrotate_bytes = \"1M\"\n", "0 is not from 1 to 1000"),
        ("open_max = 0\n", "0 is not from 1 to 4096"),
        ("rotate = \"1M\"\n", "there is no such key; known here: rotate_bytes, rotate_every, kept, open_max"),
    ] {
        let site = TestSite::new();
        let file = configuration(io, &site, "", rotation);
        let output =
            vermeil(&["check", "--config", file.to_str().expect("UTF-8")]).output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message) && said.contains("log_files."), "{rotation}: {said}");
    }
    let site = TestSite::new();
    let file = configuration(io, &site, "", "rotate_bytes = \"1M\"\n");
    let text = fs::read_to_string(&file).expect("there").replace("\"logs/log\"", "\"syslog\"");
    fs::write(&file, text).expect("written");
    let output = vermeil(&["check", "--config", file.to_str().expect("UTF-8")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("log_files: no log is a file, because log = \"syslog\""), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}
