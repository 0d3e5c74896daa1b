//! PHP: the system's real php-fpm and php-cgi, started by the server or by the test, on both
//! drivers.
//!
//! This file has the helpers of all PHP tests: finding PHP, sites that PHP's user may read, and
//! reading an answer with any framing. Where PHP is not installed the tests report a skip and pass.

mod apache;
mod application;
mod boundaries;
mod children;
mod content;
mod crashes;
mod instances;
mod load;
mod operation;
mod pool_values;
mod pools;
mod reload;
mod routing;
mod running;

use crate::support::{ConnectionEnd, Io, TestClient, TestServer, TestSite, dechunked};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The path of `name`, such as `php-fpm`, of any version.
fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin"].into_iter().flat_map(|folder| fs::read_dir(folder).ok());
    let files = folders.flatten().flatten().map(|file| file.path());
    let is_it = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    };
    files.filter(is_it).max()
}

/// Whether there is a php-fpm; reports a skip if there is none.
pub(crate) fn is_installed() -> bool {
    let is_there = installed("php-fpm").is_some();
    if !is_there {
        eprintln!("SKIPPED: no php-fpm on this machine");
    }
    is_there
}

/// Runs `test` with the program, or reports that the program is missing.
fn with(name: &str, test: impl FnOnce(&Path)) {
    match installed(name) {
        Some(program) => test(&program),
        None => eprintln!("SKIPPED: no {name} on this machine"),
    }
}

/// A site that the user of PHP can read too.
pub(crate) fn site() -> TestSite {
    let site = TestSite::new();
    let around = site.outside("");
    fs::set_permissions(around, fs::Permissions::from_mode(0o755)).expect("ours");
    site
}

/// A folder that PHP may write in.
fn writable(site: &TestSite, name: &str) -> PathBuf {
    let folder = site.outside(name);
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
    folder
}

/// A server with a pool of its own.
fn serve(io: Io, site: &TestSite, args: &[&str]) -> Option<TestServer> {
    is_installed().then(|| TestServer::start(io, site, &[&["--php"], args].concat()))
}

fn write(site: &TestSite, name: &str, code: &str) {
    site.write(name, format!("<?php {code}").as_bytes());
}

/// An answer on a connection of its own: the head, and the content without the framing.
#[track_caller]
fn whole(
    client: &mut TestClient,
    method: &str,
    target: &str,
    fields: &[&str],
    content: &[u8],
) -> (String, Vec<u8>) {
    client.ask(method, target, &[fields, &["Connection: close"]].concat());
    client.send(content);
    assert_eq!(client.read_to_end(), ConnectionEnd::Closed);
    let received = client.received();
    let end = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(received[..end].to_vec()).expect("ASCII");
    let body = &received[end..];
    if head.contains("Transfer-Encoding: chunked\r\n") {
        let (content, length) = dechunked(body).expect("every chunk");
        assert_eq!(length, body.len(), "nothing behind the end");
        return (head, content);
    }
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    (head, body.to_vec())
}
