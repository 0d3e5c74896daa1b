//! Pools of hosts: each pool runs as its own user, starts with the first request, stops when idle,
//! and stays within a bound.

use super::{installed, site, whole, writable, write};
use crate::support::{ExpectedContent, Io, TestClient, TestServer, TestSite, on_usual, until};
use rustix::process::geteuid;
use std::{fs, path::Path};

on_usual! {
    each_host_has_its_user,
    php_fpm_does_as_well,
    idle_pool_stops_and_starts_again,
    idle_pool_stops_beside_talkative_pool,
    script_works_on_after_its_client_has_left,
    script_works_on_after_its_answer,
    pool_with_long_work_serves_on_while_another_waits,
    more_pools_than_may_run_take_turns,
    a_pool_that_is_killed_is_started_by_the_next_request,
    requests_beyond_bound_wait_and_get_an_error,
    each_pool_has_files_sent_out_of_its_own_folders,
}

/// Users that a Debian system has, by name and number.
const USERS: [(&str, u32); 2] = [("nobody", 65_534), ("daemon", 1)];

const STATUS: &str = "[[host.route]]\nprefix = \"/status\"\naction = \"status\"\n";

fn is_there() -> bool {
    let is_there = installed("php-cgi").is_some();
    if !is_there {
        eprintln!("SKIPPED: no php-cgi on this machine");
    }
    is_there
}

/// Hosts `a` and `b` with pools of their own: `keys` of each, and `top` before the hosts.
fn serve(io: Io, site: &TestSite, top: &str, keys: [&str; 2]) -> TestServer {
    let hosts = ["a", "b"].iter().zip(keys).map(|(name, keys)| {
        format!("[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\n[host.php]\n{keys}\n{STATUS}")
    });
    TestServer::configured(io, site, &format!("{top}\n{}", hosts.collect::<String>()))
}

/// An answer of `host`, which must be 200.
#[track_caller]
fn of(server: &TestServer, host: &str, target: &str) -> String {
    let mut client = server.client();
    let (head, body) = whole_of(&mut client, host, target);
    assert!(
        head.starts_with("HTTP/1.1 200 "),
        "{host}{target}: {head}{}\n{server:?}",
        String::from_utf8_lossy(&body)
    );
    String::from_utf8(body).expect("UTF-8")
}

fn whole_of(client: &mut TestClient, host: &str, target: &str) -> (String, Vec<u8>) {
    let target = format!("http://{host}{target}");
    whole(client, "GET", &target, &[], b"")
}

fn is_gone(pid: &str) -> bool {
    !Path::new(&format!("/proc/{pid}/cmdline")).exists()
}

/// Waits until the status page, which may be a second old, has `text`.
#[track_caller]
fn status_has(server: &TestServer, text: &str) {
    until(text, || of(server, "a", "/status").contains(text).then_some(()));
}

fn each_host_has_its_user(io: Io) {
    if !is_there() {
        return;
    }
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser may start pools of other users");
    }
    let site = site();
    write(&site, "who.php", "echo posix_getuid(), ' ', posix_getgid(), ' ', getmypid();");
    let keys = USERS.map(|(name, _)| format!("user = \"{name}\"\nchildren = 2"));
    // The server itself is a third user: the server can use sockets that neither host's user can
    // use.
    let server = serve(io, &site, "user = \"www-data\"", [&keys[0], &keys[1]]);
    let mut pids = Vec::new();
    for (host, (_, uid)) in ["a", "b"].iter().zip(USERS) {
        let said = of(&server, host, "/who.php");
        let words: Vec<_> = said.split(' ').collect();
        assert_eq!(words[0], uid.to_string(), "{host}: {said}");
        assert_ne!(words[1], "0");
        pids.push(words[2].to_owned());
    }
    status_has(&server, "php pools of hosts: 2 of 2 running");
    status_has(&server, "  daemon (b): running, started once; 0 of 2 children busy");
    server.stops_clean();
    pids.iter().for_each(|pid| assert!(is_gone(pid)));
}

fn php_fpm_does_as_well(io: Io) {
    let (true, Some(fpm)) = (geteuid().is_root(), installed("php-fpm")) else {
        return eprintln!("SKIPPED: no php-fpm on this machine, or not the superuser");
    };
    let site = site();
    write(&site, "who.php", "echo posix_getuid(), ' ', PHP_SAPI;");
    let keys = USERS.map(|(name, _)| format!("user = \"{name}\"\nchildren = 1\nidle_stop = \"200ms\""));
    let top = format!("user = \"www-data\"\n[php]\nsource = {fpm:?}");
    let server = serve(io, &site, &top, [&keys[0], &keys[1]]);
    for _ in 0..2 {
        for (host, (_, uid)) in ["a", "b"].iter().zip(USERS) {
            assert_eq!(of(&server, host, "/who.php"), format!("{uid} fpm-fcgi"));
        }
        status_has(&server, "php pools of hosts: 0 of 2 running");
    }
    server.stops_clean();
}

fn idle_pool_stops_and_starts_again(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    write(&site, "pid.php", "echo getmypid();");
    let keys = "children = 1\nidle_stop = \"200ms\"";
    let server = serve(io, &site, "", [keys, "children = 2"]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        // Many clients ask at once, in any state of the pool.
        let answers: Vec<String> = std::thread::scope(|scope| {
            let ask = || of(&server, "a", "/pid.php");
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|asked| asked.join().expect("answered")).collect()
        });
        let last = answers.last().expect("eight").clone();
        until("the pool has ended", || is_gone(&last).then_some(()));
        status_has(&server, "the server's user (a): stopped, started");
        seen.extend(answers);
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= 3, "another one each time: {seen:?}");
    server.stops_clean();
    server.says("php: 24 requests, 0 refused, 0 given up");
}

/// Regression: each wake-up of the supervising thread postponed the end of idle pools.
fn idle_pool_stops_beside_talkative_pool(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    let folder = writable(&site, "signals");
    let go = folder.join("go");
    // Standard error of the process, so that the supervising thread reads the words.
    let code = format!(
        "while (!file_exists('{}')) {{ clearstatcache(); file_put_contents('php://stderr', \"word\\n\"); usleep(1000); }} \
         echo 'done';",
        go.display()
    );
    write(&site, "talk.php", &code);
    write(&site, "pid.php", "echo getmypid();");
    let server = serve(io, &site, "", ["children = 1\nidle_stop = \"200ms\"", "children = 2"]);
    let mut talkative = server.client();
    talkative.ask("GET", "http://b/talk.php", &[]);
    server.says(": word");
    let pid = of(&server, "a", "/pid.php");
    until("the idle pool has ended", || is_gone(&pid).then_some(()));
    assert!(!talkative.is_readable(), "the other pool still talks");
    fs::write(go, "").expect("a file");
    assert_eq!(talkative.read(ExpectedContent::Follows).text(), "done");
    server.stops_clean();
}

/// Regression: the pool was killed after its idle time, or at once for another pool.
fn script_works_on_after_its_client_has_left(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    let folder = writable(&site, "signals");
    let (began, done) = (folder.join("began"), folder.join("done"));
    let code = format!(
        "ignore_user_abort(true); touch('{}'); sleep(2); touch('{}');",
        began.display(),
        done.display()
    );
    write(&site, "work.php", &code);
    write(&site, "x.php", "echo 'x';");
    for top in ["", "[php]\npools_max = 1"] {
        let server = serve(io, &site, top, ["children = 1\nidle_stop = \"200ms\"", "children = 2"]);
        let mut client = server.client();
        client.ask("GET", "http://a/work.php", &[]);
        until("the script runs", || began.exists().then_some(()));
        drop(client);
        if top.is_empty() {
            until("the script has ended", || done.exists().then_some(()));
            status_has(&server, "the server's user (a): stopped, started");
        } else {
            assert_eq!(of(&server, "b", "/x.php"), "x");
            assert!(done.exists(), "the other pool waits for the script");
        }
        server.stops_clean();
        for file in [&began, &done] {
            fs::remove_file(file).expect("the file");
        }
    }
}

/// Regression: the pool was killed after its idle time.
fn script_works_on_after_its_answer(io: Io) {
    let Some(fpm) = installed("php-fpm") else {
        return eprintln!("SKIPPED: no php-fpm on this machine");
    };
    let site = site();
    let done = writable(&site, "signals").join("done");
    let code = format!("echo 'x'; fastcgi_finish_request(); sleep(2); touch('{}');", done.display());
    write(&site, "work.php", &code);
    let top = format!("[php]\nsource = {fpm:?}");
    let server = serve(io, &site, &top, ["children = 1\nidle_stop = \"200ms\"", "children = 2"]);
    assert_eq!(of(&server, "a", "/work.php"), "x");
    until("the script has ended", || done.exists().then_some(()));
    status_has(&server, "the server's user (a): stopped, started");
    server.stops_clean();
}

/// Regression: after its turn the pool with the script served no requests, for the sake of a pool
/// that could not start.
fn pool_with_long_work_serves_on_while_another_waits(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    let folder = writable(&site, "signals");
    let (began, go) = (folder.join("began"), folder.join("go"));
    let code = format!(
        "ignore_user_abort(true); touch('{}'); \
         while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }}",
        began.display(),
        go.display()
    );
    write(&site, "work.php", &code);
    write(&site, "x.php", "echo 'x';");
    let top = "[php]\npools_max = 1\n[programs]\nqueue_timeout = \"3s\"";
    let server = serve(io, &site, top, ["children = 2", "children = 1"]);
    let mut client = server.client();
    client.ask("GET", "http://a/work.php", &[]);
    until("the script runs", || began.exists().then_some(()));
    drop(client);
    // Together longer than a turn of 5 s.
    for _ in 0..3 {
        let (head, _) = whole_of(&mut server.client(), "b", "/x.php");
        assert!(head.starts_with("HTTP/1.1 503 "), "the script works: {head}");
        assert_eq!(of(&server, "a", "/x.php"), "x");
    }
    fs::write(go, "").expect("a file");
    until("there is room", || {
        let (head, _) = whole_of(&mut server.client(), "b", "/x.php");
        head.starts_with("HTTP/1.1 200 ").then_some(())
    });
    server.stops_clean();
}

fn more_pools_than_may_run_take_turns(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    write(&site, "pid.php", "echo getmypid();");
    // Only one pool at once, and no pool stops for being idle.
    let server = serve(io, &site, "[php]\npools_max = 1", ["children = 1", "children = 2"]);
    let mut before = of(&server, "a", "/pid.php");
    for host in ["b", "a", "b"] {
        let now = of(&server, host, "/pid.php");
        assert_ne!(now, before);
        until("the other has made room", || is_gone(&before).then_some(()));
        before = now;
    }
    // Both hosts at once, for a while: each host gets its turns, and no request is lost.
    std::thread::scope(|scope| {
        for host in ["a", "b"] {
            let server = &server;
            scope.spawn(move || (0..20).for_each(|_| drop(of(server, host, "/pid.php"))));
        }
    });
    server.stops_clean();
    server.says("php: 44 requests, 0 refused, 0 given up, 0 repeated, 0 failed");
}

fn a_pool_that_is_killed_is_started_by_the_next_request(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    write(&site, "pids.php", "echo posix_getppid(), ' ', getmypid();");
    let server = serve(io, &site, "", ["children = 1", "children = 2"]);
    let pids = of(&server, "a", "/pids.php");
    let (parent, child) = pids.split_once(' ').expect("two numbers");
    let pid = rustix::process::Pid::from_raw(parent.parse().expect("a number")).expect("above zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ours");
    server.says("was ended by signal 9; the next request starts it again");
    // The child is killed with its master, but a moment later. Until then the child may take a
    // request and lose it.
    until("its child is gone", || is_gone(child).then_some(()));
    assert_ne!(of(&server, "a", "/pids.php").split_once(' ').map(|(parent, _)| parent), Some(parent));
    server.stops_clean();
}

fn requests_beyond_bound_wait_and_get_an_error(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    let folder = writable(&site, "signals");
    let (began, go) = (folder.join("began"), folder.join("go"));
    let code = format!(
        "touch('{}'); while (!file_exists('{}')) {{ clearstatcache(); usleep(1000); }} echo 'done';",
        began.display(),
        go.display()
    );
    write(&site, "wait.php", &code);
    write(&site, "x.php", "echo 'x';");
    let top = "[php]\npools_max = 1\n[programs]\nqueue_timeout = \"300ms\"";
    let server = serve(io, &site, top, ["children = 1", "children = 2"]);
    // On a slow machine the first request may wait for the pool's start.
    let mut busy = until("it runs", || {
        let mut client = server.client();
        client.ask("GET", "http://a/wait.php", &[]);
        until("it began, or was told", || (began.exists() || client.is_readable()).then_some(()));
        began.exists().then_some(client)
    });
    let (head, _) = whole_of(&mut server.client(), "b", "/x.php");
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("Retry-After: 1"), "{head}");
    fs::write(go, "").expect("a file");
    assert_eq!(busy.read(ExpectedContent::Follows).text(), "done");
    until("there is room", || {
        let (head, _) = whole_of(&mut server.client(), "b", "/x.php");
        head.starts_with("HTTP/1.1 200 ").then_some(())
    });
    server.stops_clean();
}

fn each_pool_has_files_sent_out_of_its_own_folders(io: Io) {
    if !is_there() {
        return;
    }
    let site = site();
    for name in ["shared", "own"] {
        fs::create_dir(site.outside(name)).expect("a folder");
        fs::write(site.outside(name).join("file"), name).expect("a file");
    }
    write(&site, "send.php", "header('X-Accel-Redirect: ' . $_GET['f']);");
    let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    let php_cgi = installed("php-cgi").expect("it is there");
    let top = format!(
        "[php]\nsource = {php_cgi:?}\nsend = [\"/shared=shared\"]\n[[host]]\nnames = [\"c\"]\nroot = \"site\"\nphp = true"
    );
    let server = serve(io, &site, &top, [&format!("{user}send = [\"/own=own\"]"), user]);
    for (host, target, expected) in [
        ("a", "own", Some("own")),
        ("a", "shared", None),
        ("b", "own", None),
        ("b", "shared", None),
        ("c", "own", None),
        ("c", "shared", Some("shared")),
    ] {
        let (head, body) = whole_of(&mut server.client(), host, &format!("/send.php?f=/{target}/file"));
        assert_eq!(head.starts_with("HTTP/1.1 200 "), expected.is_some(), "{host} {target}: {head}");
        assert!(expected.is_none_or(|expected| body == expected.as_bytes()), "{host} {target}");
    }
    server.says("(send in its [host.php])");
    server.stops_clean();
}
