//! Conditions that keep a server from starting, and conditions that must not. `vermeil check` and
//! `vermeil serve` agree, the folder of a service is used, and the limits of a login do not prevent
//! a start.

mod rights;

use crate::support::{Io, TestProcess, TestSite, until, vermeil};
use rustix::process::{Resource, Signal, geteuid, getrlimit};
use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

/// A batch that takes long enough for samples, and says how much work it did.
const BATCH: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo work 1";

/// The soft limit of descriptors of a login.
const LOGIN: u64 = 1024;

/// Whether a server starts to serve, and its output; the server is ended.
fn starts(mut command: Command) -> (bool, String) {
    command.env_remove("RUNTIME_DIRECTORY");
    let process = TestProcess::spawn(command);
    until("the server serves or has ended", || {
        (process.has_ended() || process.stderr().contains("\nvermeil: cores:")).then_some(())
    });
    let serves = !process.has_ended();
    if serves {
        process.signal(Signal::TERM);
    }
    process.wait();
    (serves, process.stderr())
}

#[test]
fn check_and_serve_agree_on_each_configuration() {
    let is_root = geteuid().is_root();
    let host = "[[host]]\nroot = \"site\"\n";
    let cgi = "[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let cases = [
        ("plain", String::new(), host.to_owned(), true),
        ("log in a missing folder", "log = \"gone/log\"\n".to_owned(), host.to_owned(), false),
        ("log that is a folder", "log = \"site\"\n".to_owned(), host.to_owned(), false),
        ("control socket in a missing folder", "control = \"gone/x\"\n".to_owned(), host.to_owned(), false),
        ("CGI as who starts the server", String::new(), format!("{host}{cgi}"), !is_root),
        ("missing root", String::new(), "[[host]]\nroot = \"gone\"\n".to_owned(), false),
        (
            "missing PHP",
            String::new(),
            format!("[php]\nsource = \"/nonexistent\"\n{host}php = true\n"),
            false,
        ),
        (
            "unknown user of PHP",
            String::new(),
            format!("[php]\nuser = \"no such user\"\n{host}php = true\n"),
            false,
        ),
        (
            "missing folder to send from",
            String::new(),
            format!("[php]\nsend = [\"gone\"]\n{host}php = true\n"),
            false,
        ),
        (
            "missing folder for bodies",
            String::new(),
            format!("[programs]\nspool_folder = \"gone\"\n{host}php = true\n"),
            false,
        ),
        ("PHP without a temporary folder", "#".to_owned(), format!("{host}php = true\n"), false),
        (
            "log through a link of another user",
            "log = \"theirs/log\"\n".to_owned(),
            host.to_owned(),
            !is_root,
        ),
    ];
    for (case, top, tables, expected) in cases {
        let site = TestSite::new();
        fs::set_permissions(site.outside("."), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(site.outside("theirs")).unwrap();
        fs::write(site.outside("target"), "").unwrap();
        symlink(site.outside("target"), site.outside("theirs/log")).unwrap();
        if is_root {
            std::os::unix::fs::chown(site.outside("theirs"), Some(65_534), None).unwrap();
        }
        let tmp = if top == "#" { Path::new("/nonexistent").to_owned() } else { std::env::temp_dir() };
        let file = site.outside("case.toml");
        let log = if top.contains("log =") { "" } else { "log = \"off\"\n" };
        let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
        fs::write(&file, format!("{log}{top}\n{listener}{tables}")).unwrap();
        let file = file.to_str().unwrap();
        let mut check = vermeil(&["check", file]);
        let mut serve = vermeil(&["serve", "--config", file]);
        for command in [&mut check, &mut serve] {
            command.env("TMPDIR", &tmp).env_remove("RUNTIME_DIRECTORY");
        }
        let checked = check.output().unwrap();
        let (serves, said) = starts(serve);
        let words = String::from_utf8_lossy(&checked.stderr);
        if case.contains("PHP") && words.contains("neither php-fpm nor php-cgi") {
            continue;
        }
        assert_eq!(checked.status.success(), serves, "{case}: check said: {words}serve said: {said}");
        assert_eq!(serves, expected, "{case}: {said}");
    }
}

/// The binary as an ordinary user with the limits of a login.
fn of_a_login(arguments: &[&str]) -> Command {
    let script = format!("ulimit -Sn {LOGIN}; exec \"$0\" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_vermeil-tested")]).args(arguments);
    if geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command
}

#[test]
fn every_command_runs_with_the_limits_of_a_login() {
    if getrlimit(Resource::Nofile).maximum.is_some_and(|hard| hard < 10_000) {
        return eprintln!("SKIPPED: the hard limit of descriptors is small here");
    }
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), Permissions::from_mode(0o777)).unwrap();
    site.write("index.html", b"page");
    let file = site.configure(Io::Epoll, "[limits]\nconnections_max = 1000\n[[host]]\nroot = \"site\"\n");
    let text = fs::read_to_string(&file).unwrap();
    let control = site.outside("control");
    let control = control.to_str().unwrap();
    fs::write(&file, format!("control = \"{control}\"\n{text}")).unwrap();
    let file = file.to_str().unwrap();
    if !of_a_login(&["--version"]).output().unwrap().status.success() {
        return eprintln!("SKIPPED: an ordinary user cannot reach the binary here");
    }
    let server = TestProcess::spawn(of_a_login(&["serve", "--config", file]));
    until("the server serves", || {
        assert!(!server.has_ended(), "{}", server.stderr());
        server.stderr().contains("\nvermeil: control:").then_some(())
    });
    assert!(!server.stderr().contains("holding"), "{}", server.stderr());
    let said = server.stderr();
    let url = said.split(" at ").nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned();
    let [json, record, scale] = ["result.json", "result.prof", "scale"].map(|name| site.outside(name));
    for arguments in [
        vec!["check", file],
        vec!["status", "--control", control],
        vec!["reload", "--control", control],
        vec!["load", &url, "--duration", "200ms", "--json", json.to_str().unwrap()],
        vec!["topo"],
        vec!["steer"],
        vec!["sim", "machines"],
        vec!["sim", "workloads"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["profile", "record", "-o", record.to_str().unwrap(), "--", "true"],
        vec![
            "scale",
            "--cores",
            "1",
            "--reps",
            "1",
            "--folder",
            scale.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            BATCH,
        ],
    ] {
        let output = of_a_login(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // A run that cannot be trusted on a busy machine ends with 5.
        let ends = output.status.code();
        let is_refused = ends == Some(3) && said.contains("perf_event_paranoid");
        assert!(matches!(ends, Some(0 | 5)) || is_refused, "{arguments:?}: {:?} {said}", output.status);
        assert!(!said.contains("open files"), "{arguments:?}: {said}");
    }
    server.signal(Signal::TERM);
    server.wait();
}

#[test]
fn service_folder_of_the_superuser_is_used() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only the superuser becomes another user");
    }
    let site = TestSite::new();
    fs::set_permissions(site.outside("."), Permissions::from_mode(0o755)).unwrap();
    let file = site.configure(
        Io::Epoll,
        "user = \"nobody:nogroup\"\n[php]\nuser = \"nobody\"\n[[host]]\nroot = \"site\"\nphp = true\n",
    );
    for (mode, is_used) in [(0o755, true), (0o700, false)] {
        let folder = site.outside(&format!("run-{mode:o}"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let mut command = vermeil(&["serve", "--config", file.to_str().unwrap()]);
        command.env("RUNTIME_DIRECTORY", &folder).env_remove("TMPDIR");
        let process = TestProcess::spawn(command);
        until("the server serves or has ended", || {
            (process.has_ended() || process.stderr().contains("\nvermeil: cores:")).then_some(())
        });
        if process.stderr().contains("neither php-fpm nor php-cgi") {
            return eprintln!("SKIPPED: no PHP on this machine");
        }
        let said = process.stderr();
        assert!(!process.has_ended(), "{mode:o}: {said}");
        // Uploads are spooled to a disk, and the folder of a service is in memory.
        let is_bounded = said.contains("no writing of files but below");
        assert!(!is_bounded || said.contains(" and /var/tmp,"), "{mode:o}: {said}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), usize::from(is_used), "{mode:o}");
        process.signal(Signal::TERM);
        process.wait();
    }
}
