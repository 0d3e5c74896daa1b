//! Pools come and go with the configuration while the server runs: with users new to the server,
//! for hosts that had no pool. No request is lost.

use super::{installed, site, whole, writable, write};
use crate::support::{ExpectedContent, Io, TestServer, TestSite, on_usual, until, vermeil};
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

on_usual! {
    a_pool_of_a_new_user_comes_and_goes,
    so_does_one_of_php_fpm,
    the_servers_own_php_comes_changes_and_goes,
    reload_removes_initial_pool,
    a_request_of_a_pool_that_goes_is_answered,
    every_instance_has_the_new_pools,
    the_first_other_user_takes_a_restart_unless_one_was_named,
}

/// Users that a Debian system has, by name and number.
const USERS: [(&str, u32); 2] = [("nobody", 65_534), ("daemon", 1)];

/// A host with `php` as the value of its table.
fn host(name: &str, php: &str) -> String {
    format!("[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\nphp = {php}\n")
}

/// Reports a skip if the program is missing.
fn is_there(program: &str) -> bool {
    let is_there = installed(program).is_some();
    if !is_there {
        eprintln!("SKIPPED: no {program} on this machine");
    }
    is_there
}

/// The keys for a user, where pools can have a user, and the user's number.
fn user(which: usize) -> (String, u32) {
    match geteuid().is_root() {
        true => (format!("user = \"{}\", ", USERS[which].0), USERS[which].1),
        false => (String::new(), geteuid().as_raw()),
    }
}

/// The server's own user: a third user, which may use no other user's folder.
fn top() -> &'static str {
    if geteuid().is_root() { "user = \"www-data\"\n" } else { "" }
}

/// Reloads the server with `text`; waits until the server has printed `words` once more.
#[track_caller]
pub(super) fn reload(server: &TestServer, site: &TestSite, io: Io, text: &str, words: &str) {
    let before = server.stderr().matches(words).count();
    site.configure(io, text);
    server.signal(Signal::HUP);
    until("it has answered the signal", || {
        let said = server.stderr();
        (said.matches(words).count() > before).then_some(())
    });
}

pub(super) const TAKEN: &str = "vermeil: reloaded: ";
const REFUSED: &str = "the configuration stays as it is, because the new one is refused";

/// Requests that wait for the first pool of a host that is running.
fn queued(server: &TestServer) -> u64 {
    let said = server.stderr();
    let control =
        said.lines().find_map(|line| line.strip_prefix("vermeil: control: ")).expect("a control socket");
    let output = vermeil(&["status", "--control", control, "--json"]).output().expect("the program starts");
    let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    status["instances"][0]["php_pools_used"][0]["pool"]["queue"].as_u64().expect("a pool of a host")
}

fn ask(server: &TestServer, host: &str, target: &str) -> (String, String) {
    let target = format!("http://{host}{target}");
    let (head, body) = whole(&mut server.client(), "GET", &target, &[], b"");
    (head, String::from_utf8(body).expect("UTF-8"))
}

/// An answer of `host`, which must be 200.
#[track_caller]
fn of(server: &TestServer, host: &str, target: &str) -> String {
    let (head, body) = ask(server, host, target);
    assert!(head.starts_with("HTTP/1.1 200 "), "{host}{target}: {head}{body}\n{server:?}");
    body
}

/// Without PHP, the text of a program is not sent either.
#[track_caller]
fn is_refused(server: &TestServer) {
    let (head, body) = ask(server, "a", "/who.php");
    assert!(head.starts_with("HTTP/1.1 403 ") && !body.contains("<?php"), "{head}{body}");
}

fn is_gone(pid: &str) -> bool {
    !Path::new(&format!("/proc/{pid}/cmdline")).exists()
}

#[track_caller]
fn goes(pid: &str) {
    until("it has ended", || is_gone(pid).then_some(()));
}

/// Stops the server, which must have answered all requests. Some requests may have been repeated,
/// because children end after a number of requests.
#[track_caller]
fn loses_nothing(server: &TestServer) {
    server.stops_clean();
    server.says(" 0 refused, 0 given up, ");
    server.says(" 0 failed; ");
}

/// Asks host `a` without a pause while `meanwhile` runs; everything must be answered.
fn under_load(server: &TestServer, meanwhile: impl FnOnce()) {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    of(server, "a", "/who.php");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(answered.into_inner() > 0);
}

fn come_and_go(io: Io, source: &str) {
    let site = site();
    write(&site, "who.php", "echo posix_getuid(), ' ', getmypid();");
    let ((first, _), (second, uid)) = (user(0), user(1));
    let php = format!("[php]\nsource = \"{source}\"\n");
    let one = format!("{}{}{php}", top(), host("a", &format!("{{ {first}children = 2 }}")));
    let two = format!("{one}{}", host("b", &format!("{{ {second}children = 1 }}")));
    let server = TestServer::configured(io, &site, &one);
    under_load(&server, || {
        for _ in 0..2 {
            reload(&server, &site, io, &two, TAKEN);
            let said = of(&server, "b", "/who.php");
            let (who, pid) = said.split_once(' ').expect("two numbers");
            assert_eq!(who, uid.to_string());
            for bad in
                [two.replace("children = 1", "user = \"no-such-user\""), two.replace(source, "/no/php-cgi")]
            {
                reload(&server, &site, io, &bad, REFUSED);
                assert_eq!(of(&server, "b", "/who.php"), said, "as it was");
            }
            reload(&server, &site, io, &one, TAKEN);
            goes(pid);
        }
    });
    loses_nothing(&server);
}

fn a_pool_of_a_new_user_comes_and_goes(io: Io) {
    if is_there("php-cgi") {
        come_and_go(io, &installed("php-cgi").expect("it is there").display().to_string());
    }
}

fn so_does_one_of_php_fpm(io: Io) {
    if is_there("php-fpm") {
        come_and_go(io, &installed("php-fpm").expect("it is there").display().to_string());
    }
}

fn the_servers_own_php_comes_changes_and_goes(io: Io) {
    if !is_there("php-fpm") {
        return;
    }
    let site = site();
    write(&site, "who.php", "echo getmypid();");
    let without = host("a", "false");
    let with = |children: usize| format!("{}[php]\nchildren = {children}\n", host("a", "true"));
    let server = TestServer::configured(io, &site, &without);
    is_refused(&server);
    for _ in 0..2 {
        reload(&server, &site, io, &with(1), TAKEN);
        let first = of(&server, "a", "/who.php");
        under_load(&server, || {
            reload(&server, &site, io, &with(2), TAKEN);
            goes(&first);
        });
        let second = of(&server, "a", "/who.php");
        let bad = format!("{}[php]\nsource = \"127.0.0.1:9\"\n", host("a", "true"));
        reload(&server, &site, io, &bad, "PHP at 127.0.0.1:9 is beyond the sandbox");
        of(&server, "a", "/who.php");
        reload(&server, &site, io, &without, TAKEN);
        goes(&second);
        is_refused(&server);
    }
    loses_nothing(&server);
}

fn reload_removes_initial_pool(io: Io) {
    if !is_there("php-fpm") {
        return;
    }
    let site = site();
    write(&site, "who.php", "echo getmypid();");
    let with = |children: usize| format!("{}[php]\nchildren = {children}\n", host("a", "true"));
    let server = TestServer::configured(io, &site, &with(1));
    let first = of(&server, "a", "/who.php");
    reload(&server, &site, io, &format!("{}{}", with(1), host("b", "true")), TAKEN);
    assert_eq!(of(&server, "b", "/who.php"), first, "it goes on");
    under_load(&server, || {
        reload(&server, &site, io, &with(2), TAKEN);
        goes(&first);
    });
    loses_nothing(&server);
}

fn a_request_of_a_pool_that_goes_is_answered(io: Io) {
    if !is_there("php-cgi") {
        return;
    }
    let site = site();
    let folder = writable(&site, "signals");
    let (began, go) = (folder.join("began"), folder.join("go"));
    let code = format!(
        "touch('{}'); while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }} echo getmypid();",
        began.display(),
        go.display()
    );
    write(&site, "wait.php", &code);
    let with = format!("{}{}", host("a", "false"), host("b", "{ children = 1 }"));
    let server = TestServer::configured(io, &site, &with);
    let (mut served, mut waits) = (server.client(), server.client());
    served.ask("GET", "http://b/wait.php", &[]);
    until("it began", || began.exists().then_some(()));
    // Waits for the only child.
    waits.ask("GET", "http://b/wait.php", &[]);
    until("the second one waits", || (queued(&server) == 1).then_some(()));
    reload(&server, &site, io, &host("a", "false"), TAKEN);
    fs::write(go, "").expect("a file");
    let pid = served.read(ExpectedContent::Follows).text().to_owned();
    assert_eq!(waits.read(ExpectedContent::Follows).status, 200);
    goes(&pid);
    server.stops_clean();
    server.says("php: 2 requests, 0 refused, 0 given up, 0 repeated, 0 failed");
}

fn every_instance_has_the_new_pools(io: Io) {
    if !is_there("php-cgi") {
        return;
    }
    let site = site();
    write(&site, "who.php", "echo posix_getuid();");
    let ((first, _), (second, uid)) = (user(0), user(1));
    let top = format!("instances = 2\nbalance = \"hash\"\n{}", top());
    let one = format!("{top}{}", host("a", &format!("{{ {first}children = 1 }}")));
    let two = format!("{one}{}", host("b", &format!("{{ {second}children = 1 }}")));
    let server = TestServer::configured(io, &site, &one);
    reload(&server, &site, io, &two, TAKEN);
    // The kernel's hash chooses the instance of a connection: with twenty connections, both
    // instances get some.
    (0..20).for_each(|_| assert_eq!(of(&server, "b", "/who.php"), uid.to_string()));
    let bad = two.replace("children = 1", "user = \"no-such-user\"");
    reload(&server, &site, io, &bad, REFUSED);
    (0..20).for_each(|_| assert_eq!(of(&server, "b", "/who.php"), uid.to_string()));
    server.stops_clean();
}

fn the_first_other_user_takes_a_restart_unless_one_was_named(io: Io) {
    if !is_there("php-cgi") || !geteuid().is_root() {
        return;
    }
    let site = site();
    write(&site, "who.php", "echo posix_getuid();");
    let (other, uid) = user(1);
    let (without, with) = (host("a", "false"), host("a", &format!("{{ {other}children = 1 }}")));
    for named in ["", "[cgi]\nuser = \"nobody\"\n"] {
        let configuration = |host: &str| format!("{}{host}{named}", top());
        let server = TestServer::configured(io, &site, &configuration(&without));
        if named.is_empty() {
            reload(&server, &site, io, &configuration(&with), REFUSED);
            server.says("because none of its programs was another's when it started; start it again as root");
            is_refused(&server);
        } else {
            reload(&server, &site, io, &configuration(&with), TAKEN);
            assert_eq!(of(&server, "a", "/who.php"), uid.to_string());
        }
        server.stops_clean();
    }
}
