//! The list of system calls (`crates/ops/src/sandbox/calls.txt`) compared with the calls of
//! running servers, as recorded by `strace`.
//!
//! A call outside the list fails the test. A listed call that no server makes also fails the test,
//! unless the list has a reason.

use super::site;
use crate::support::{Io, TestServer, TestSite, noise, until, vermeil};
use rustix::process::{Signal, geteuid};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

const LIST: &str = include_str!("../../../../ops/src/sandbox/calls.txt");

/// The call that marks a confined process. Calls count from the first such call on.
const ENTERED: &str = "seccomp(SECCOMP_SET_MODE_FILTER";

/// Refused on purpose, because the arguments are in memory; the C library then makes threads by
/// `clone`.
const REFUSED: &str = "clone3";

#[test]
fn list_has_the_calls_of_a_running_server_and_no_others() {
    if Command::new("strace").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: no strace on this machine");
    }
    let traces = tempfile::tempdir().unwrap();
    let mut seen = BTreeMap::new();
    for io in [Io::Epoll, Io::Uring] {
        io.if_there(|io| {
            for (name, run) in RUNS {
                let folder = traces.path().join(format!("{name}-{}", io.name()));
                fs::create_dir(&folder).unwrap();
                run(io, &folder);
                seen.extend(calls_in(&folder));
            }
        });
    }
    if seen.is_empty() {
        return eprintln!("SKIPPED: strace may trace nothing, or this kernel has no seccomp");
    }
    let words = |line: &'static str| line.split_ascii_whitespace().next();
    let listed: BTreeSet<&str> =
        LIST.lines().filter(|line| !line.starts_with('#')).filter_map(words).collect();
    let refused: Vec<_> = (seen.iter())
        .filter(|(name, line)| !listed.contains(name.as_str()) || line.contains("= -1 ENOSYS"))
        .filter(|(name, _)| name.as_str() != REFUSED)
        .collect();
    assert!(refused.is_empty(), "the server makes calls that the list refuses: {refused:#?}");
    let has_reason = |name: &str| LIST.lines().any(|line| words(line) == Some(name) && line.contains('#'));
    let useless: Vec<_> =
        listed.iter().filter(|name| !seen.contains_key(**name) && !has_reason(name)).collect();
    assert!(useless.is_empty(), "no server makes these calls, and no reason stands beside them: {useless:?}");
    let stale: Vec<_> = listed.iter().filter(|name| seen.contains_key(**name) && has_reason(name)).collect();
    println!("seen, although the list has a reason why they may not be: {stale:?}");
}

/// Runs a server on a driver, with its folder.
type RunServer = fn(Io, &Path);

/// The servers that run under `strace`.
const RUNS: [(&str, RunServer); 4] = [
    ("programs", serve_programs),
    ("folder", serve_folder),
    ("overlay", serve_overlay),
    ("instances", serve_instances),
];

/// The command before the server's: the tracer is no parent of the server, so signals go to the
/// server.
fn strace(folder: &Path) -> Vec<String> {
    let output = folder.join("t").to_str().unwrap().to_owned();
    ["strace", "-D", "-ff", "-s", "0", "-o", &output].map(str::to_owned).to_vec()
}

fn under<T>(folder: &Path, start: impl FnOnce(&[&str]) -> T) -> T {
    let command = strace(folder);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    start(&command)
}

/// PHP and CGI, spooled content, reload, rotation, status, take-over.
fn serve_programs(io: Io, folder: &Path) {
    let site = site();
    let program = site.path("cgi-bin/program");
    fs::write(
        &program,
        "#!/bin/sh\ncat >/dev/null\necho Content-Type: text/plain; echo; echo $SERVER_NAME\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.write(
        "page.php",
        b"<?php echo strlen(file_get_contents('php://input')), \"\\n\"; error_log('said');",
    );
    site.write("large", &noise(1, 3_000_000));
    fs::set_permissions(site.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let has_php = crate::php::is_installed();
    let file = site.configure(io, &configuration(has_php));
    let log = site.outside("access.log");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("log = \"off\"", &format!("log = {log:?}"))).unwrap();
    let server = under(folder, |strace| TestServer::of_file_under(strace, &file, &[]));
    ask_for_all(&server, has_php);
    site.replace("large", &noise(2, 3_000_000));
    assert_eq!(server.get("/large").body.len(), 3_000_000);
    let control = site.outside("control");
    let told = |command: &str| {
        let output = vermeil(&[command, "--control", control.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    told("status");
    fs::rename(&log, site.outside("access.log.1")).unwrap();
    server.signal(Signal::USR1);
    until("the log is there again", || {
        server.get("/");
        log.exists().then_some(())
    });
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replace("access.log", "other.log");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::write(&file, format!("{changed}[[listener]]\naddress = \"{free}\"\n")).unwrap();
    told("reload");
    ask_for_all(&server, has_php);
    let next = under(folder, |strace| TestServer::of_file_under(strace, &file, &["--take-over"]));
    next.says("vermeil: took over from process ");
    assert_eq!(server.wait(), Some(0), "{server:?}");
    ask_for_all(&next, has_php);
    next.stops_clean();
    ended(folder, &[server.pid(), next.pid()]);
}

fn configuration(has_php: bool) -> String {
    let is_root = geteuid().is_root();
    let user = if is_root { "user = \"nobody\"\n" } else { "" };
    let cgi = if is_root { "[cgi]\nuser = \"www-data\"\n" } else { "" };
    let (php, of_host) = match (has_php, is_root) {
        (false, _) => ("", ""),
        (true, true) => ("[php]\nuser = \"www-data\"\n", "php = true\n"),
        (true, false) => ("[php]\n", "php = true\n"),
    };
    format!(
        "control = \"control\"\n{user}{php}{cgi}[[host]]\nroot = \"site\"\nlisting = true\n{of_host}\
         [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n"
    )
}

fn ask_for_all(server: &TestServer, has_php: bool) {
    let targets = ["/", "/large", "/cgi-bin/program"];
    targets.iter().for_each(|target| ask(server, target, 0));
    ask(server, "/cgi-bin/program", 10);
    ask(server, "/cgi-bin/program", 2_000_000);
    if has_php {
        ask(server, "/page.php", 10);
        ask(server, "/page.php", 2_000_000);
    }
}

/// Asks for `target`, with so many bytes of content, on a connection that ends with the answer.
fn ask(server: &TestServer, target: &str, bytes: usize) {
    let method = if bytes == 0 { "GET" } else { "POST" };
    let mut client = TcpStream::connect(server.addr()).unwrap();
    write!(client, "{method} {target} HTTP/1.0\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n").unwrap();
    client.write_all(&vec![b'x'; bytes]).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{target}: {server:?}");
}

/// A folder, with the log on standard output and a recording.
fn serve_folder(io: Io, folder: &Path) {
    let site = TestSite::new();
    site.write("small", b"small");
    let recording = site.outside("recording");
    let arguments = ["--log", "-", "--trace", recording.to_str().unwrap()];
    let server = under(folder, |strace| TestServer::start_under(strace, io, &site, &arguments));
    assert_eq!(server.get("/small").status, 200);
    site.write("small", b"other");
    assert_eq!(server.get("/small").body, b"other");
    server.stops_clean();
    ended(folder, &[server.pid()]);
}

/// Mounts the folder `$1`, and the empty `$2` below it, as overlayfs over `$1` itself, and becomes
/// the rest of the command.
const OVERLAY: &str = r#"mount -t overlay overlay -o "lowerdir=$1:$2" "$1" && shift 2 && exec "$@""#;

/// A folder on overlayfs, which cannot tell whether a read would wait. Regression: the list lacked
/// the call by which the kernel begins to read before a thread does.
fn serve_overlay(io: Io, folder: &Path) {
    let site = TestSite::new();
    site.write("small", b"small");
    let empty = site.outside("empty");
    fs::create_dir(&empty).unwrap();
    let (root, empty) = (site.root(), empty.to_str().unwrap());
    let root = root.to_str().unwrap();
    let mounted = ["unshare", "--mount", "sh", "-c", OVERLAY, "sh", root, empty];
    let may_mount = Command::new(mounted[0]).args(&mounted[1..]).arg("true").output();
    if !may_mount.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: overlayfs cannot be mounted here");
    }
    let server =
        under(folder, |strace| TestServer::start_under(&[&mounted[..], strace].concat(), io, &site, &[]));
    // The first look-up is left to a thread as a whole, because the name is not in memory.
    for _ in 0..3 {
        assert_eq!(server.get("/small").body, b"small");
    }
    server.stops_clean();
    ended(folder, &[server.pid()]);
    assert!(calls_in(folder).contains_key("fadvise64"), "no read was left to a thread");
}

fn serve_instances(io: Io, folder: &Path) {
    let site = site();
    let file = site.configure(io, "instances = 2\n[[host]]\nroot = \"site\"\nlisting = true\n");
    let server = under(folder, |strace| TestServer::of_file_under(strace, &file, &[]));
    assert_eq!(server.get("/").status, 200);
    server.signal(Signal::HUP);
    server.says("vermeil: reloaded: ");
    server.stops_clean();
    ended(folder, &[server.pid()]);
}

/// Waits until the tracer has written all of these processes.
fn ended(folder: &Path, pids: &[u32]) {
    for pid in pids {
        let trace = folder.join(format!("t.{pid}"));
        let has_ended = || fs::read_to_string(&trace).unwrap_or_default().contains("+++ exited");
        until("the tracer has seen the end", || has_ended().then_some(()));
    }
}

/// The calls of all confined threads: names, each with one line. The line shows a refused call if
/// there is any.
fn calls_in(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let texts: BTreeMap<PathBuf, String> = files
        .map(|path| (path.clone(), String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()))
        .collect();
    let mut calls = BTreeMap::new();
    let mut waiting: Vec<&str> =
        texts.values().filter_map(|text| Some(text.split_once(ENTERED)?.1)).collect();
    while let Some(text) = waiting.pop() {
        // The first line is the rest of the call that entered.
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('(') else { continue };
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                continue;
            }
            let kept = calls.entry(name.to_owned()).or_insert_with(|| line.to_owned());
            if line.contains("= -1 ENOSYS") {
                *kept = line.to_owned();
            }
            let thread = rest.rsplit_once(" = ").filter(|_| name == "clone" && rest.contains("CLONE_THREAD"));
            let path = thread.map(|(_, thread)| folder.join(format!("t.{}", thread.trim())));
            waiting.extend(path.and_then(|path| texts.get(&path)).map(String::as_str));
        }
    }
    calls
}
