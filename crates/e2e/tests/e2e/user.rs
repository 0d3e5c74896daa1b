//! `--user`: a server started by the superuser serves as another user, in all its processes. Where
//! the tests do not run as the superuser, the tests report a skip and pass, because only the
//! superuser may change users.

use crate::support::{ExpectedContent, Io, TestProcess, TestServer, TestSite, on_usual, until, vermeil};
use rustix::process::{Signal, geteuid};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

on_usual!(
    every_process_becomes_the_user,
    every_instance_does_and_so_does_the_supervisor,
    the_superuser_is_warned,
    folder_that_the_user_may_not_enter_is_reported,
    unix_listener_belongs_to_the_user,
    unix_listener_of_reload_belongs_to_the_user,
    reload_gives_no_program_the_servers_user,
);

/// The user that every system has, by name and number.
const NOBODY: (&str, u32) = ("nobody", 65_534);

fn may_change_users() -> bool {
    let may = geteuid().is_root();
    if !may {
        eprintln!("SKIPPED: only the superuser may become other users");
    }
    may
}

/// A folder that every user may enter, with a file that only the superuser may read.
fn site() -> TestSite {
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), fs::Permissions::from_mode(0o755)).unwrap();
    site.write("secret", b"secret");
    fs::set_permissions(site.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    site
}

/// The processes of a server, itself first.
fn processes(server: &TestServer) -> Vec<u32> {
    let mut found = vec![server.pid()];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        }
        at += 1;
    }
    found
}

/// The numbers of a line of a process's status: real, effective, saved, of files.
fn numbers(pid: u32, line: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
    found.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn every_process_becomes_the_user(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    fs::create_dir(site.path("cgi-bin")).unwrap();
    let log = site.outside("access.log");
    let arguments = ["--user", "nobody:nogroup", "--log", log.to_str().unwrap(), "--cgi", "/cgi-bin/"];
    let server = TestServer::start(io, &site, &arguments);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/secret").status, 403, "{server:?}");
    let pids = processes(&server);
    assert!(pids.len() > 2, "with the spawner and its keeper: {pids:?}");
    for pid in pids {
        assert_eq!(numbers(pid, "Uid:"), [NOBODY.1; 4]);
        assert_eq!(numbers(pid, "Gid:"), [NOBODY.1; 4]);
    }
    server.says("vermeil: user: nobody:nogroup\n");
    until("the log is written", || fs::read_to_string(&log).unwrap().contains("GET /secret").then_some(()));
    assert_eq!(fs::metadata(&log).unwrap().uid(), NOBODY.1);
    server.stops_clean();
}

fn every_instance_does_and_so_does_the_supervisor(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    let top = format!("instances = 2\nuser = {:?}\n", NOBODY.0);
    let server = TestServer::configured(io, &site, &format!("{top}[[host]]\nroot = \"site\"\n"));
    let pids = processes(&server);
    assert_eq!(
        pids.len(),
        9,
        "the supervisor, and each instance with its broker, keeper and spawner: {pids:?}"
    );
    for pid in &pids {
        assert_eq!(numbers(*pid, "Uid:"), [NOBODY.1; 4]);
    }
    // A supervisor without any privilege starts the replacement.
    let instance = rustix::process::Pid::from_raw(pids[1].cast_signed()).unwrap();
    rustix::process::kill_process(instance, Signal::KILL).unwrap();
    server.says(" serves again, after ");
    assert_eq!(server.get("/").status, 200);
    server.stops_clean();
}

fn the_superuser_is_warned(io: Io) {
    if !may_change_users() {
        return;
    }
    let server = TestServer::start(io, &TestSite::new(), &[]);
    server.says("vermeil: warning: serving as the superuser; --user NAME");
    server.stops_clean();
    // Regression: the check did not warn.
    let file = TestSite::new();
    let file = file.configure(io, "[[host]]\nroot = \"site\"\n");
    let check = vermeil(&["check", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(said.contains("warning: serving as the superuser; --user NAME"), "{said}");
}

/// Regression: neither the check nor the server said why each request of a host got 403.
fn folder_that_the_user_may_not_enter_is_reported(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    fs::create_dir(site.outside("shut")).unwrap();
    fs::set_permissions(site.outside("shut"), fs::Permissions::from_mode(0o700)).unwrap();
    let hosts = "[[host]]\nroot = \"site\"\n[[host]]\nnames = [\"shut.test\"]\nroot = \"shut\"\n";
    let file = site.configure(io, &format!("user = \"nobody:nogroup\"\n{hosts}"));
    let check = vermeil(&["check", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    let why = "/shut: user nobody:nogroup may not enter it, so clients get 403; run chgrp and chmod";
    assert!(said.contains(why) && said.contains(" host.root: shut.test: "), "{said}");
    let server = TestServer::of_file(&file);
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: shut.test\r\n\r\n");
    assert_eq!(client.read(ExpectedContent::Follows).status, 403);
    server.says("/shut: no permission to read it");
    server.stops_clean();
}

/// Regression: the socket belonged to the superuser, so no proxy could use a mode like 0660. A
/// refused right named a wrong cure, or none.
fn unix_listener_belongs_to_the_user(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    fs::create_dir(site.outside("run")).unwrap();
    let (path, control) = (site.outside("run/v.sock"), site.outside("run/control"));
    let host = "[[host]]\nroot = \"site\"\n";
    let configure = |mode: &str, more: &str, keys: &str| {
        let listener = format!("[[listener]]\naddress = \"unix:run/v.sock\"\nmode = \"{mode}\"\n{more}");
        let top = "user = \"nobody:nogroup\"\ncontrol = \"run/control\"\n";
        site.configure(io, &format!("{top}{listener}{host}{keys}"))
    };
    let rights = || {
        let found = fs::symlink_metadata(&path).unwrap();
        (found.uid(), found.gid(), found.permissions().mode() & 0o777)
    };
    let reload = || {
        let reload = vermeil(&["reload", "--control", control.to_str().unwrap()]).output().unwrap();
        (reload.status.code(), String::from_utf8_lossy(&reload.stderr).into_owned())
    };
    let server = TestServer::of_file(&configure("0660", "", ""));
    assert_eq!(rights(), (NOBODY.1, NOBODY.1, 0o660));
    let next = TestServer::of_file_with(&configure("0600", "", ""), &["--take-over"]);
    next.says("vermeil: took over from process ");
    assert_eq!(server.wait(), Some(0), "{server:?}");
    assert_eq!(rights(), (NOBODY.1, NOBODY.1, 0o600));
    assert_eq!(reload().0, Some(0));
    // The folder belongs to the superuser, so the server may not make another file.
    let cure =
        "Permission denied (os error 13); the server has given up this right (`user`): restart the server";
    let file = configure("0666", "", "");
    let (code, said) = reload();
    assert!(code == Some(2) && said.contains("v.sock: ") && said.contains(cure), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, said) = reload();
    assert!(
        code == Some(2) && said.contains("cannot read the configuration: ") && said.contains(cure),
        "{said}"
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let key = site.outside("key.pem");
    fs::write(&key, "").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let secure = "[[listener]]\naddress = \"127.0.0.2:0\"\ntls = true\n";
    configure("0600", secure, "certificate = \"key.pem\"\nkey = \"key.pem\"\n");
    let (code, said) = reload();
    assert!(code == Some(2) && said.contains("key.pem: ") && said.contains(cure), "{said}");
    configure("0600", "", "");
    assert_eq!(reload().0, Some(0));
    assert_eq!(rights(), (NOBODY.1, NOBODY.1, 0o600));
    next.stops_clean();
}

/// Regression: a supervisor that stays the superuser, for programs of other users, kept the socket
/// for the superuser.
fn unix_listener_of_reload_belongs_to_the_user(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    let text =
        "instances = 2\nuser = \"nobody:nogroup\"\n[cgi]\nuser = \"daemon\"\n[[host]]\nroot = \"site\"\n";
    let server = TestServer::configured(io, &site, text);
    let listener = "[[listener]]\naddress = \"unix:v.sock\"\nmode = \"0660\"\n";
    site.configure(io, &format!("{text}{listener}"));
    server.signal(Signal::HUP);
    server.says("vermeil: reloaded: ");
    let found = fs::symlink_metadata(site.outside("v.sock")).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.permissions().mode() & 0o777),
        (NOBODY.1, NOBODY.1, 0o660),
        "{server:?}"
    );
    server.stops_clean();
}

/// Regression: a reload compared the users of programs with the user in the file, which only a
/// restart changes, and programs of a host ran as the server.
fn reload_gives_no_program_the_servers_user(io: Io) {
    if !may_change_users() {
        return;
    }
    let site = site();
    let text = |server: &str, program: &str| {
        format!(
            "user = \"{server}\"\n[cgi]\nuser = \"games\"\n[[host]]\nroot = \"site\"\n[host.cgi]\nuser = \"{program}\"\n\
             [[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n"
        )
    };
    let server = TestServer::configured(io, &site, &text("nobody", "daemon"));
    site.configure(io, &text("daemon", "nobody"));
    server.signal(Signal::HUP);
    server.says("the configuration stays as it is");
    server.says("cannot run CGI programs as nobody: ");
    server.stops_clean();
}

#[test]
fn missing_or_forbidden_user_is_refused() {
    let unknown =
        TestProcess::spawn(vermeil(&["serve", "--user", "no-such-user", "--listen", "127.0.0.1:0"]));
    assert_eq!(unknown.wait(), Some(2));
    until("it has said why", || {
        unknown.stderr().contains("the system knows none of this name").then_some(())
    });
    if !may_change_users() {
        return;
    }
    let site = site();
    let binary = env!("CARGO_BIN_EXE_vermeil-tested");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "nobody", "--clear-groups", binary, "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--log", "off", "--user", "root"]).arg(site.root());
    let refused = TestProcess::spawn(command);
    let code = refused.wait();
    if code == Some(127) || code == Some(126) {
        eprintln!("SKIPPED: others may not enter the folder of {binary}");
        return;
    }
    assert_eq!(code, Some(3), "{}", refused.stderr());
    until("it has said why", || {
        refused.stderr().contains("cannot become user root: only the superuser may").then_some(())
    });
}
