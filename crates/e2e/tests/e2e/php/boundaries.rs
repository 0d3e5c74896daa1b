//! The resources of the server and of other hosts that a host's program reaches: only resources of
//! the program's own user and group.
//!
//! Real programs try each resource. The programs run as a user of their own, with a group of their
//! own or with the server's group.

use super::{installed, site, write};
use crate::support::{Io, TestServer, TestSite, on_usual, until};
use rustix::process::geteuid;
use std::{
    fs,
    path::{Path, PathBuf},
};

on_usual! {
    program_of_one_host_reaches_nothing_of_others,
    cgi_user_equal_to_server_user_is_refused,
    programs_gain_privileges_only_where_allowed,
}

/// Tries one resource: prints `yes` if the program reaches the resource.
const PROBE: &str = r#"
    $at = $_GET["at"];
    $how = $_GET["how"];
    if ($how == "connect") { $got = @stream_socket_client("unix://$at", $code, $why, 2); }
    if ($how == "read") { $got = @file_get_contents($at, false, null, 0, 1); }
    if ($how == "write") { $got = @fopen($at, "r+"); }
    if ($how == "list") { $got = @scandir($at); }
    if ($how == "signal") { $got = posix_kill((int) $at, 0); }
    echo posix_geteuid(), " ", posix_getegid(), " ", $got === false ? "no" : "yes";
"#;

fn may_try() -> bool {
    if installed("php-fpm").is_none() || !geteuid().is_root() {
        eprintln!("SKIPPED: takes the superuser and php-fpm");
        return false;
    }
    true
}

/// The private folder, which the start names.
fn private_folder(server: &TestServer) -> PathBuf {
    let said = server.stderr();
    let is_it = |word: &&str| word.contains("/vermeil-") && !word.contains(".sock");
    let found = said.split([' ', ',', ';', '\n']).find(is_it);
    PathBuf::from(found.unwrap_or_else(|| panic!("no private folder in: {said}")))
}

fn ask(server: &TestServer, host: &str, how: &str, at: &str) -> String {
    let answer = server.get(&format!("http://{host}/probe.php?how={how}&at={at}"));
    assert_eq!(answer.status, 200, "{host}: {}\n{server:?}", answer.text());
    answer.text().to_owned()
}

fn program_of_one_host_reaches_nothing_of_others(io: Io) {
    if !may_try() {
        return;
    }
    let site = site();
    write(&site, "probe.php", PROBE);
    let folder = site.outside("log");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
    let text = "user = \"nobody:nogroup\"\ncontrol = \"control\"\n[php]\nuser = \"bin\"\n\
        [[host]]\nnames = [\"a\"]\nroot = \"site\"\n[host.php]\nuser = \"daemon:nogroup\"\n\
        [[host]]\nnames = [\"b\"]\nroot = \"site\"\n[host.php]\nuser = \"games\"\n\
        [[host]]\nnames = [\"c\"]\nroot = \"site\"\nphp = true\n";
    let file = site.configure(io, text);
    let log = folder.join("access.log");
    let named = format!("log = \"{}\"", log.display());
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("log = \"off\"", &named)).unwrap();
    let server = TestServer::of_file(&file);
    for host in ["a", "b", "c"] {
        assert!(ask(&server, host, "list", "/").ends_with("yes"), "the pools run");
    }
    let private = private_folder(&server);
    let pools = private.join("pools");
    let sockets: Vec<PathBuf> = fs::read_dir(&pools).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(sockets.len(), 3, "{sockets:?}");
    let pid = server.pid();
    let at = |path: &Path| path.display().to_string();
    let mut resources: Vec<(&str, String)> = sockets.iter().map(|socket| ("connect", at(socket))).collect();
    resources.extend([
        ("connect", at(&site.outside("control"))),
        ("list", at(&pools)),
        ("list", at(&private.join("configurations"))),
        ("write", at(&private.join("configurations/0.conf"))),
        ("write", at(&log)),
        ("signal", pid.to_string()),
        ("read", format!("/proc/{pid}/environ")),
        ("write", format!("/proc/{pid}/mem")),
        ("list", format!("/proc/{pid}/fd")),
    ]);
    // User and group of the program of each host: that of `a` is in the server's group.
    for (host, who) in [("a", "1 65534 "), ("b", "5 60 "), ("c", "2 2 ")] {
        for (how, resource) in &resources {
            let answer = ask(&server, host, how, resource);
            assert_eq!(answer, format!("{who}no"), "{host}: {how} {resource}");
        }
    }
    // The log is readable for the server's group, as its mode says.
    until("a line is in the log", || (fs::metadata(&log).unwrap().len() > 0).then_some(()));
    assert!(ask(&server, "a", "read", &at(&log)).ends_with("yes"));
    assert!(ask(&server, "b", "read", &at(&log)).ends_with("no"));
    server.stops_clean();
}

fn cgi_user_equal_to_server_user_is_refused(io: Io) {
    if !may_try() {
        return;
    }
    let host = "[[host]]\nnames = [\"a\"]\nroot = \"site\"\n";
    let route = "[[host.route]]\nprefix = \"/cgi-bin\"\naction = \"cgi\"\n";
    let pool = "[[host]]\nnames = [\"b\"]\nroot = \"site\"\n[host.php]\nuser = \"games\"\n";
    for (case, text, expected) in [
        ("host", format!("{host}[host.cgi]\nuser = \"nobody\"\n{route}"), "host.cgi.user"),
        ("all", format!("[cgi]\nuser = \"nobody\"\n{host}{route}"), "cgi.user"),
        ("none", format!("{host}{route}{pool}"), "beside the PHP pools of other users"),
    ] {
        let site = site();
        let file = site.configure(io, &format!("user = \"nobody:nogroup\"\n{text}"));
        let file = file.to_str().unwrap();
        for command in [vec!["check", file], vec!["serve", "--config", file]] {
            let output = crate::support::vermeil(&command).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
            assert!(!output.status.success(), "{case}: {command:?}: {said}");
            assert!(said.contains(expected) && said.contains("the server's own user"), "{case}: {said}");
        }
    }
}

fn programs_gain_privileges_only_where_allowed(io: Io) {
    if !may_try() {
        return;
    }
    let site: TestSite = site();
    write(
        &site,
        "status.php",
        "preg_match('/NoNewPrivs:\\s*(\\d)/', file_get_contents('/proc/self/status'), $m); echo $m[1];",
    );
    let hosts = ["no_new_privileges = false", ""]
        .iter()
        .zip(["a", "b"])
        .map(|(key, name)| format!("[[host]]\nnames = [\"{name}\"]\nroot = \"site\"\n[host.php]\n{key}\n"));
    let shared = "[[host]]\nnames = [\"c\"]\nroot = \"site\"\nphp = true\n";
    let text = format!(
        "user = \"nobody:nogroup\"\n[php]\nuser = \"bin\"\nno_new_privileges = false\n{}{shared}",
        hosts.collect::<String>()
    );
    let server = TestServer::configured(io, &site, &text);
    for (host, expected) in [("a", "0"), ("b", "1"), ("c", "0")] {
        let answer = server.get(&format!("http://{host}/status.php"));
        assert_eq!((answer.status, answer.text()), (200, expected), "{host}: {server:?}");
    }
    server.stops_clean();
}
