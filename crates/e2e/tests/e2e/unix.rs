//! Listeners on unix sockets, for a proxy on the same machine.

use crate::support::{Io, TestClient, TestProcess, TestServer, TestSite, noise, on_both, until, vermeil};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

on_both!(
    unix_listener_serves_and_has_its_mode,
    client_that_reads_nothing_is_closed,
    client_that_has_sent_all_gets_its_answer,
    takeover_loses_no_connection,
    reload_adds_changes_and_removes_unix_listener,
    instances_share_unix_listener,
    refused_reload_keeps_unix_listener,
    refused_reload_of_instances_keeps_unix_listener,
    failed_takeover_keeps_mode_of_unix_listener,
    leaving_server_serves_unix_clients,
    drain_keeps_host_of_unix_listener,
    new_mode_keeps_host_of_connections,
);

const HOST: &str = "[[host]]\nroot = \"site\"\n";

/// A host that answers at the unix listener only.
const BOUND: &str =
    "[[host]]\nnames = [\"unix.example\"]\nroot = \"site/other\"\nlisten = [\"unix:v.sock\"]\n";

/// A configuration's table.
fn listener(path: &str, more: &str) -> String {
    format!("[[listener]]\naddress = \"unix:{path}\"\n{more}")
}

fn try_connect(path: &Path) -> std::io::Result<UnixStream> {
    let client = UnixStream::connect(path)?;
    client.set_read_timeout(Some(crate::support::PATIENCE))?;
    Ok(client)
}

#[track_caller]
fn connect(path: &Path) -> UnixStream {
    try_connect(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The whole answer to a request for `target`, on a connection of its own.
#[track_caller]
fn get_of(path: &Path, host: &str, target: &str) -> String {
    let mut client = connect(path);
    write!(client, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[track_caller]
fn get(path: &Path, target: &str) -> String {
    get_of(path, "test", target)
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").permissions().mode() & 0o7777
}

fn inode_of(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("there").ino()
}

/// No temporary name is left in the folder.
#[track_caller]
fn assert_tidy(site: &TestSite) {
    let names = fs::read_dir(site.outside("")).expect("a folder").map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".vermeil")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The status of a command, and its words.
fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = vermeil(args).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn unix_listener_serves_and_has_its_mode(io: Io) {
    let site = TestSite::new();
    site.write("other/page", b"of the other host");
    let (path, log) = (site.outside("v.sock"), site.outside("log"));
    let text = format!(
        "control = \"control\"\n{}{HOST}{}{}",
        listener("v.sock", "mode = \"0640\"\n"),
        "[[host.route]]\nprefix = \"/tcp\"\naction = \"ready\"\nfrom = [\"0.0.0.0/0\", \"::/0\"]\n\
         [[host.route]]\nprefix = \"/unix\"\naction = \"ready\"\nfrom = [\"unix\"]\n",
        "[[host]]\nnames = [\"unix.example\"]\nroot = \"site/other\"\nlisten = [\"unix:v.sock\"]\n",
    );
    let file = site.configure(io, &text);
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("log = \"off\"", "log = \"log\"\nlog_format = \"combined\"");
    fs::write(&file, text.replace("[[host]]\nroot", "[limits]\nclient_connections_max = 1\n[[host]]\nroot"))
        .unwrap();
    let server = TestServer::of_file(&file);
    server.says(&format!(" at unix:{}\n", path.display()));
    assert_eq!(mode_of(&path), 0o640);
    assert_tidy(&site);

    // Bounds of client addresses do not apply.
    let _others = [connect(&path), connect(&path)];
    assert!(get(&path, "/").ends_with("\r\n\r\n<!doctype html>home\n"));
    assert!(get(&path, "/tcp").starts_with("HTTP/1.1 404 "));
    assert!(get(&path, "/unix").starts_with("HTTP/1.1 200 "));
    assert!(get_of(&path, "unix.example", "/page").ends_with("of the other host"));
    assert_eq!(server.get("/unix").status, 404);
    let line = "unix: - - [";
    until("the log has the requests", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        (log.lines().filter(|written| written.starts_with(line)).count() == 4).then_some(())
    });

    let status =
        vermeil(&["status", "--control", site.outside("control").to_str().unwrap()]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains(&format!(", unix:{}\n", path.display())), "{status}");
    server.stops_clean();
    assert!(!path.exists(), "the server removes its socket");
}

#[test]
fn command_line_serves_unix_listener_alone() {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let listen = format!("unix:{}", path.display());
    let server = TestProcess::spawn(vermeil(&[
        "serve",
        site.root().to_str().unwrap(),
        "--log",
        "off",
        "--listen",
        &listen,
    ]));
    until("the socket is there", || path.exists().then_some(()));
    assert!(get(&path, "/").contains("home"));
    assert_eq!(mode_of(&path), 0o666);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0), "{}", server.stderr());
    assert!(!path.exists());
}

#[test]
fn restart_replaces_stale_socket() {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let file = site.configure(Io::Epoll, &format!("control = \"off\"\n{}{HOST}", listener("v.sock", "")));
    let first = TestServer::of_file(&file);
    first.signal(Signal::KILL);
    first.wait();
    assert!(path.exists(), "nothing removes it");
    let second = TestServer::of_file(&file);
    assert!(get(&path, "/").contains("home"));
    second.stops_clean();
}

#[test]
fn living_server_keeps_its_socket() {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let file = site.configure(Io::Epoll, &format!("control = \"off\"\n{}{HOST}", listener("v.sock", "")));
    let first = TestServer::of_file(&file);
    let inode = inode_of(&path);
    let (code, said) = run(&["serve", "--config", file.to_str().unwrap()]);
    let expected = format!(
        "cannot listen on unix:{}: the address is in use by vermeil-tested (pid {}); stop it or choose another",
        path.display(),
        first.pid()
    );
    assert!(code != Some(0) && said.contains(&expected), "{said}");
    let (code, said) = run(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(0), "the configuration is right: {said}");
    assert_eq!(inode_of(&path), inode);
    assert!(get(&path, "/").contains("home"));
}

#[test]
fn place_that_holds_no_socket_is_refused() {
    let site = TestSite::new();
    site.write("file", b"kept");
    site.link("link", "file");
    for (place, why) in [
        ("site/file", "a file that is no socket is there; remove it, or name another path"),
        ("site/link", "a file that is no socket is there; remove it, or name another path"),
        ("site", "a file that is no socket is there; remove it, or name another path"),
        ("absent/v.sock", "there is no such folder; make it, or name another place"),
    ] {
        let file = site.configure(Io::Epoll, &format!("{}{HOST}", listener(place, "")));
        for command in [&["serve", "--config"][..], &["check"]] {
            let (code, said) = run(&[command, &[file.to_str().unwrap()]].concat());
            assert!(code != Some(0) && said.contains(why) && said.contains(place), "{place}: {said}");
        }
    }
    assert_eq!(fs::read(site.path("file")).unwrap(), b"kept");
}

#[test]
fn server_leaves_socket_of_its_successor() {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let server = TestServer::configured(Io::Epoll, &site, &format!("{}{HOST}", listener("v.sock", "")));
    let other = site.outside("other.sock");
    let _next = UnixListener::bind(&other).unwrap();
    fs::rename(&other, &path).unwrap();
    server.stops_clean();
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
}

fn client_that_reads_nothing_is_closed(io: Io) {
    let site = TestSite::new();
    site.write("large", &noise(1, 8 << 20));
    let path = site.outside("v.sock");
    let text = format!("[timeouts]\nwrite = \"200ms\"\n{}{HOST}", listener("v.sock", ""));
    let file = site.configure(io, &text);
    let log = site.outside("log");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("log = \"off\"", "log = \"log\"")).unwrap();
    let server = TestServer::of_file(&file);
    let mut client = connect(&path);
    write!(client, "GET /large HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    until("the server gives the client up", || {
        fs::read_to_string(&log).unwrap_or_default().contains("GET /large").then_some(())
    });
    let mut received = Vec::new();
    // The rest may come with an error.
    let _ = client.read_to_end(&mut received);
    assert!(received.len() < 8 << 20, "{} bytes", received.len());
    let whole = get(&path, "/large");
    assert!(whole.len() > 1 << 20 && whole.starts_with("HTTP/1.1 200 "));
    server.stops_clean();
}

fn client_that_has_sent_all_gets_its_answer(io: Io) {
    let site = TestSite::new();
    for folder in [site.outside(""), site.root()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // The program answers only when the file is there.
    let (go, begun) = (site.outside("go"), site.outside("begun"));
    let program = format!(
        "#!/bin/sh\ntouch {}\nuntil [ -e {} ]; do sleep 0.01; done\n\
         printf 'Content-Type: text/plain\\n\\n%s|%s|%s' \"$REMOTE_ADDR\" \"$SERVER_ADDR\" \"$SERVER_PORT\"\n",
        begun.display(),
        go.display()
    );
    site.write("cgi/run", program.as_bytes());
    for path in [site.path("cgi"), site.path("cgi/run")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(site.outside(""), fs::Permissions::from_mode(0o777)).unwrap();
    let path = site.outside("v.sock");
    let user = if rustix::process::geteuid().is_root() { "[cgi]\nuser = \"nobody\"\n" } else { "" };
    let route = "[[host.route]]\nprefix = \"/cgi\"\naction = \"cgi\"\n";
    let server = TestServer::configured(io, &site, &format!("{}{user}{HOST}{route}", listener("v.sock", "")));
    let mut client = connect(&path);
    write!(client, "GET /cgi/run HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    until("the program runs", || begun.exists().then_some(()));
    fs::write(&go, "").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The answer has chunks if the server sees the text before the end of the program.
    assert!(answer.contains(&format!("unix:|unix:{}|80", path.display())), "{answer}");
    server.stops_clean();
}

/// Connects and asks all the time while `change` runs; every attempt succeeds.
fn under_load(path: &Path, change: impl FnOnce(&dyn Fn())) {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = || {
        while !stop.load(Ordering::Relaxed) {
            assert!(get(path, "/").contains("home"));
            answered.fetch_add(1, Ordering::Relaxed);
            thread::park_timeout(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        let clients = [scope.spawn(ask), scope.spawn(ask)];
        let some_more = || {
            let before = answered.load(Ordering::Relaxed);
            until("some more are answered", || {
                let is_over = clients.iter().any(thread::ScopedJoinHandle::is_finished);
                (is_over || answered.load(Ordering::Relaxed) > before + 20).then_some(())
            });
        };
        change(&some_more);
        stop.store(true, Ordering::Relaxed);
    });
}

fn takeover_loses_no_connection(io: Io) {
    let site = TestSite::new();
    let (path, left) = (site.outside("v.sock"), site.outside("left.sock"));
    let configure = |cores: usize, more: &str| -> PathBuf {
        let top = format!("control = \"control\"\ncores = {cores}\n");
        site.configure(io, &format!("{top}{}{more}{HOST}", listener("v.sock", "")))
    };
    let first = TestServer::of_file(&configure(1, &listener("left.sock", "")));
    let inode = inode_of(&path);
    // The last server outlives the load.
    let mut kept = None;
    under_load(&path, |some_more| {
        some_more();
        let cores = thread::available_parallelism().map_or(1, usize::from).min(2);
        let next = TestServer::of_file_with(&configure(cores, ""), &["--take-over"]);
        next.says("vermeil: took over from process ");
        assert_eq!(first.wait(), Some(0), "{first:?}");
        some_more();
        assert_eq!(inode_of(&path), inode, "the same socket");
        until("the socket that is no longer wanted is removed", || (!left.exists()).then_some(()));
        let last = TestServer::of_file_with(&configure(1, ""), &["--take-over"]);
        last.says("vermeil: took over from process ");
        assert_eq!(next.wait(), Some(0), "{next:?}");
        some_more();
        kept = Some(last);
    });
    assert_eq!(inode_of(&path), inode);
    kept.expect("it serves").stops_clean();
    assert!(!path.exists(), "the last server removes the socket that it inherited");
}

fn reload_adds_changes_and_removes_unix_listener(io: Io) {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let configure =
        |listeners: &str| site.configure(io, &format!("control = \"control\"\n{listeners}{HOST}"));
    let server = TestServer::of_file(&configure(""));
    let reload = || {
        let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
    };
    configure(&listener("v.sock", ""));
    reload();
    server.says(&format!("listening on unix:{} too\n", path.display()));
    let mut lasting = connect(&path);
    write!(lasting, "GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert!(lasting.read(&mut [0; 4096]).unwrap() > 0);
    let before = inode_of(&path);
    under_load(&path, |some_more| {
        some_more();
        configure(&listener("v.sock", "mode = \"0600\"\n"));
        reload();
        some_more();
    });
    server.says(&format!("listening on unix:{} anew, with mode 0600\n", path.display()));
    assert_eq!(mode_of(&path), 0o600);
    assert_ne!(inode_of(&path), before);
    // A refused reload leaves the socket as it is.
    let wrong = "[[host]]\nroot = \"site\"\ncertificate = \"none.pem\"\nkey = \"none.key\"\n";
    configure(&format!("{}{wrong}", listener("v.sock", "mode = \"0640\"\n")));
    let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(mode_of(&path), 0o600);
    assert!(get(&path, "/").contains("home"));
    assert!(!server.stderr().contains("no longer listening"), "{server:?}");
    configure("");
    reload();
    server.says(&format!("no longer listening on unix:{}\n", path.display()));
    assert!(!path.exists());
    write!(lasting, "GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert!(lasting.read(&mut [0; 4096]).unwrap() > 0, "open connections go on");
    assert_tidy(&site);
    server.stops_clean();
}

fn instances_share_unix_listener(io: Io) {
    let site = TestSite::new();
    let (path, control) = (site.outside("v.sock"), site.outside("control"));
    let configure = |listeners: &str| {
        site.configure(io, &format!("instances = 2\ncontrol = \"control\"\n{listeners}{HOST}"))
    };
    let server = TestServer::of_file(&configure(&listener("v.sock", "")));
    for _ in 0..20 {
        assert!(get(&path, "/").contains("home"));
    }
    let reload = || {
        let (code, said) = run(&["reload", "--control", control.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
    };
    configure(&listener("w.sock", "mode = \"0600\"\n"));
    reload();
    let other = site.outside("w.sock");
    assert!(!path.exists() && mode_of(&other) == 0o600);
    assert!(get(&other, "/").contains("home"));
    let status = vermeil(&["status", "--control", control.to_str().unwrap()]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains(&format!("unix:{}\n", other.display())), "{status}");
    server.stops_clean();
    assert!(!other.exists());
    assert_tidy(&site);
}

/// Regression: the new socket had taken the place of the former one when the log refused the
/// configuration, so no process listened at the path.
fn refused_reload_keeps_unix_listener(io: Io) {
    let site = TestSite::new();
    let (path, new) = (site.outside("v.sock"), site.outside("new.sock"));
    let configure = |listeners: &str, log: &str| {
        let file = site.configure(io, &format!("control = \"control\"\n{listeners}{HOST}"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("log = \"off\"", &format!("log = \"{log}\""))).unwrap();
        file
    };
    let server = TestServer::of_file(&configure(&listener("v.sock", ""), "off"));
    let before = inode_of(&path);
    let listeners = format!("{}{}", listener("v.sock", "mode = \"0600\"\n"), listener("new.sock", ""));
    configure(&listeners, "absent/log");
    let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
    assert!(code != Some(0) && said.contains("absent/log"), "{said}");
    assert_eq!((inode_of(&path), mode_of(&path)), (before, 0o666));
    assert!(get(&path, "/").contains("home"));
    assert!(!new.exists());
    assert_tidy(&site);
    configure(&listeners, "off");
    let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(mode_of(&path), 0o600);
    assert!(get(&path, "/").contains("home") && get(&new, "/").contains("home"));
    assert_tidy(&site);
    server.stops_clean();
    assert!(!path.exists() && !new.exists());
}

/// Regression: the supervisor replaced the socket before an instance refused the configuration.
fn refused_reload_of_instances_keeps_unix_listener(io: Io) {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    let configure = |mode: &str, host: &str| {
        let listener = listener("v.sock", &format!("mode = \"{mode}\"\n"));
        site.configure(io, &format!("instances = 2\ncontrol = \"control\"\n{listener}{host}"))
    };
    let server = TestServer::of_file(&configure("0666", HOST));
    let before = inode_of(&path);
    configure("0600", "[[host]]\nroot = \"gone\"\n");
    let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
    assert!(code != Some(0) && said.contains("gone: there is no such folder"), "{said}");
    assert_eq!((inode_of(&path), mode_of(&path)), (before, 0o666));
    assert!(get(&path, "/").contains("home"));
    assert_tidy(&site);
    server.stops_clean();
}

/// Regression: the new server set the mode before it failed, and left its other socket behind.
fn failed_takeover_keeps_mode_of_unix_listener(io: Io) {
    let site = TestSite::new();
    let (path, new) = (site.outside("v.sock"), site.outside("new.sock"));
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let configure = |listeners: &str, host: &str| {
            site.configure(io, &format!("control = \"control\"\n{instances}{listeners}{host}"))
        };
        let server = TestServer::of_file(&configure(&listener("v.sock", ""), HOST));
        let before = inode_of(&path);
        let listeners = format!("{}{}", listener("v.sock", "mode = \"0600\"\n"), listener("new.sock", ""));
        let file = configure(&listeners, "[[host]]\nroot = \"gone\"\n");
        let (code, said) = run(&["serve", "--config", file.to_str().unwrap(), "--take-over"]);
        assert!(code != Some(0) && said.contains("gone: there is no such folder"), "{said}");
        assert_eq!((inode_of(&path), mode_of(&path)), (before, 0o666), "{instances}");
        assert!(!new.exists(), "{instances}");
        assert!(get(&path, "/").contains("home"));
        assert_tidy(&site);
        let next = TestServer::of_file_with(&configure(&listeners, HOST), &["--take-over"]);
        next.says("vermeil: took over from process ");
        assert_eq!(server.wait(), Some(0), "{server:?}");
        assert_eq!((inode_of(&path), mode_of(&path)), (before, 0o600), "{instances}");
        assert!(get(&path, "/").contains("home") && get(&new, "/").contains("home"));
        next.stops_clean();
        assert!(!path.exists() && !new.exists());
        assert_tidy(&site);
    }
}

/// Regression: the supervisor removed the file before the instances stopped accepting.
fn leaving_server_serves_unix_clients(io: Io) {
    let site = TestSite::new();
    let path = site.outside("v.sock");
    for instances in ["instances = \"one\"\n", "instances = 2\n"] {
        let start = |leave: &str| {
            let timeouts = format!("[timeouts]\nleave = \"{leave}\"\n");
            let text = format!("{instances}{timeouts}{}{HOST}", listener("v.sock", ""));
            let server = TestServer::of_file(&site.configure(io, &text));
            server.signal(Signal::TERM);
            server.says("no longer ready; draining in ");
            server
        };
        let server = start("1h");
        for _ in 0..20 {
            assert!(get(&path, "/").contains("home"));
        }
        server.signal(Signal::TERM);
        assert!(server.wait().is_some());
        assert!(!path.exists());
        // The time passes without a further signal.
        assert_eq!(start("300ms").wait(), Some(0));
        assert!(!path.exists());
    }
}

/// Regression: a draining core did not know the listeners of its connections.
fn drain_keeps_host_of_unix_listener(io: Io) {
    let site = TestSite::new();
    site.write("other/page", b"of the other host");
    let path = site.outside("v.sock");
    let text = format!("cores = 1\n{}{HOST}{BOUND}", listener("v.sock", ""));
    let server = TestServer::configured(io, &site, &text);
    let mut client = connect(&path);
    // The drain waits for the rest of the head.
    write!(client, "GET /page HTTP/1.1\r\n").unwrap();
    server.signal(Signal::TERM);
    server.says("vermeil: draining");
    until("nobody listens", || TestClient::try_connect(server.addr()).is_none().then_some(()));
    write!(client, "Host: unix.example\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("of the other host"), "{answer}");
    assert_eq!(server.wait(), Some(0), "{server:?}");
}

/// Regression: connections of the former socket got another host.
fn new_mode_keeps_host_of_connections(io: Io) {
    let site = TestSite::new();
    site.write("other/page", b"of the other host");
    let path = site.outside("v.sock");
    let configure = |mode: &str| {
        let listener = listener("v.sock", &format!("mode = \"{mode}\"\n"));
        site.configure(io, &format!("control = \"control\"\n{listener}{HOST}{BOUND}"))
    };
    let server = TestServer::of_file(&configure("0666"));
    let (mut silent, mut asking) = (connect(&path), connect(&path));
    let head = "GET /page HTTP/1.1\r\nHost: unix.example\r\n";
    let content = "of the other host";
    write!(asking, "{head}\r\n").unwrap();
    let mut received = String::new();
    until("the answer is there", || {
        let mut bytes = [0; 4096];
        let count = asking.read(&mut bytes).expect("an answer");
        assert!(count > 0, "closed behind: {received}");
        received.push_str(&String::from_utf8_lossy(&bytes[..count]));
        received.ends_with(content).then_some(())
    });
    configure("0600");
    let (code, said) = run(&["reload", "--control", site.outside("control").to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(mode_of(&path), 0o600);
    for client in [&mut silent, &mut asking] {
        write!(client, "{head}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(content), "{answer}");
    }
    assert!(get_of(&path, "unix.example", "/page").ends_with(content));
    server.stops_clean();
}
