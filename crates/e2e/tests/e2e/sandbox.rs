//! The sandbox is the boundary of the process: every thread is inside, in every mode, as the start
//! line says. The list of system calls equals the server's calls.
//!
//! The test makes a thread run system calls from outside (`sandbox/enter.rs`), like an attacker
//! with code in the thread. Where the kernel lacks Landlock or seccomp, or `strace` is not
//! installed, the tests report a skip and pass.

mod calls;
mod degraded;
mod enter;

use crate::support::{Io, TestProcess, TestServer, TestSite, on_both, until};
use rustix::process::geteuid;
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path};

on_both!(
    every_thread_of_folder_server_is_confined,
    every_thread_is_confined_with_a_configuration,
    every_thread_is_confined_with_php,
    every_thread_is_confined_with_cgi,
    every_thread_of_every_instance_is_confined,
    reload_opens_log_and_address_from_inside,
);

const HOST: &str = "[[host]]\nroot = \"site\"\n";

fn site() -> TestSite {
    let site = TestSite::new();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // The server's user must be able to make a file here, so that only the sandbox refuses the
    // file.
    mode(&site.outside(""), 0o777);
    fs::create_dir(site.path("cgi-bin")).unwrap();
    site
}

/// The user that a server of the superuser becomes.
fn user() -> &'static str {
    if geteuid().is_root() { "user = \"nobody\"\n" } else { "" }
}

fn every_thread_of_folder_server_is_confined(io: Io) {
    let site = site();
    let server = TestServer::start(io, &site, &["--log", site.outside("access.log").to_str().unwrap()]);
    assert_confined(&server, &site, &[server.pid()]);
    server.stops_clean();
}

fn every_thread_is_confined_with_a_configuration(io: Io) {
    let site = site();
    let server = TestServer::configured(io, &site, &format!("control = \"control\"\n{}{HOST}", user()));
    assert_confined(&server, &site, &[server.pid()]);
    server.stops_clean();
}

fn every_thread_is_confined_with_php(io: Io) {
    if !crate::php::is_installed() {
        return;
    }
    let site = site();
    let server = TestServer::start(io, &site, &["--php"]);
    assert_confined(&server, &site, &[server.pid()]);
    server.stops_clean();
}

fn every_thread_is_confined_with_cgi(io: Io) {
    let site = site();
    let mut arguments = vec!["--cgi", "/cgi-bin/"];
    arguments.extend(if geteuid().is_root() { &["--cgi-user", "nobody"][..] } else { &[] });
    let server = TestServer::start(io, &site, &arguments);
    assert_confined(&server, &site, &[server.pid()]);
    server.stops_clean();
}

fn every_thread_of_every_instance_is_confined(io: Io) {
    let site = site();
    let server = TestServer::configured(io, &site, &format!("instances = 2\n{}{HOST}", user()));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
    // Instances are started by threads of the supervisor.
    assert_eq!(children, "");
    let mut instances = Vec::new();
    for thread in threads(server.pid()) {
        let children = fs::read_to_string(format!("/proc/{thread}/task/{thread}/children")).unwrap();
        instances.extend(children.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    assert_eq!(instances.len(), 2);
    assert_confined(&server, &site, &instances);
    server.stops_clean();
}

fn reload_opens_log_and_address_from_inside(io: Io) {
    let site = site();
    let file = site.configure(io, &format!("{}{HOST}", user()));
    let configure = |log: &str, address: &str| {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace("log = \"off\"", &format!("log = {:?}", site.outside(log)));
        fs::write(&file, format!("{text}[[listener]]\naddress = \"{address}\"\n")).unwrap();
    };
    let server = TestServer::of_file(&file);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure("second.log", &free.to_string());
    server.signal(rustix::process::Signal::HUP);
    server.says(&format!("vermeil: listening on {free} too\n"));
    let mut client = crate::support::TestClient::connect(free);
    assert_eq!(client.get("/").status, 200);
    let log = site.outside("second.log");
    let has_line = || fs::read_to_string(&log).unwrap_or_default().contains("GET / ").then_some(());
    until("the new log has the request", has_line);
    // Rotation: the file is opened again, in a folder that the server itself may not write
    // to.
    fs::rename(&log, site.outside("second.log.1")).unwrap();
    server.signal(rustix::process::Signal::USR1);
    until("the rotated log is there", || {
        assert_eq!(client.get("/").status, 200);
        has_line()
    });
    server.stops_clean();
}

/// The threads of a process.
fn threads(pid: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    listed.map(|thread| thread.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// A line of a thread's status; nothing once the thread has ended.
fn status(thread: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(':').trim().to_owned())
}

/// The lines about the sandbox, `count` of them, which the server writes after its address.
#[track_caller]
fn sandbox_lines(process: &TestProcess, count: usize) -> Vec<String> {
    until("each process describes its sandbox", || {
        let said = process.stderr();
        // The last line may lack its end yet.
        let whole = said.rsplit_once('\n')?.0;
        let lines: Vec<String> =
            whole.lines().filter(|line| line.contains("sandbox: ")).map(str::to_owned).collect();
        assert!(lines.len() <= count, "{said}");
        (lines.len() == count).then_some(lines)
    })
}

/// The claims of the start line hold for every thread of these processes, and no thread has a
/// partial sandbox.
#[track_caller]
fn assert_confined(process: &TestProcess, site: &TestSite, pids: &[u32]) {
    let lines = sandbox_lines(process, pids.len());
    for (line, &pid) in lines.iter().zip(pids) {
        let (has_landlock, has_filter) = (line.contains("(Landlock "), line.contains("(seccomp)"));
        let names: BTreeSet<_> =
            threads(pid).into_iter().filter_map(|thread| status(thread, "Name")).collect();
        assert!(names.contains("vermeil-0"), "{names:?}");
        let identity = status(pid, "Uid");
        for thread in threads(pid) {
            let Some(name) = status(thread, "Name") else { continue };
            let is = |line: &str| status(thread, line);
            assert_eq!(is("NoNewPrivs").as_deref(), Some("1"), "{name}");
            assert_eq!(is("Uid"), identity, "{name}");
            if has_filter {
                assert_eq!(is("Seccomp").as_deref(), Some("2"), "{name}: {line}");
            }
            if has_landlock && has_filter {
                assert_refused(thread, &name, &site.outside(&format!("made-by-{thread}")));
            } else {
                eprintln!("SKIPPED: this kernel gives no whole sandbox: {line}");
            }
        }
    }
}

/// A thread can make no file, start no program, load no program into the kernel and signal no other
/// process.
#[track_caller]
fn assert_refused(thread: u32, name: &str, file: &Path) {
    for (attempt, expected) in enter::attempts(file) {
        match enter::make(thread, &attempt) {
            enter::Made::Refused(error) => assert_eq!(error, expected, "{name}: {attempt:?}"),
            enter::Made::Succeeded(value) => panic!("{name}: {attempt:?} gave {value}"),
            enter::Made::NotPossible(why) => eprintln!("SKIPPED: thread {name} cannot be entered: {why}"),
        }
    }
    assert!(!file.exists(), "{name}");
}
