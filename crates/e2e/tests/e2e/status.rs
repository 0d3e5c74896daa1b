//! The control socket: the status agrees with the server's work, a reload is answered, and other
//! users have no access.

use crate::support::{ExpectedContent, Io, TestServer, TestSite, noise, on_usual, until, vermeil};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

on_usual!(
    status_counts_connections_and_requests,
    a_busy_core_is_seen,
    a_reload_is_answered,
    the_socket_is_private_and_goes_with_the_server,
    the_only_server_is_found_by_itself,
    a_place_that_is_taken_is_refused,
    silent_client_of_the_control_socket_delays_no_other,
);

/// A server whose control socket is beside its folder.
fn controlled(io: Io, site: &TestSite) -> (TestServer, PathBuf) {
    let control = site.outside("control");
    let server = TestServer::start(io, site, &["--control", control.to_str().unwrap()]);
    (server, control)
}

fn ask(command: &str, control: &Path, args: &[&str]) -> Output {
    vermeil(&[command, "--control", control.to_str().unwrap()]).args(args).output().unwrap()
}

#[track_caller]
fn status(control: &Path) -> Value {
    let output = ask("status", control, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn status_counts_connections_and_requests(io: Io) {
    let site = TestSite::new();
    site.write("page", &noise(1, 10_000));
    let (server, control) = controlled(io, &site);
    let mut clients = [server.client(), server.client(), server.client()];
    for client in &mut clients {
        (0..5).for_each(|_| assert_eq!(client.get("/page").status, 200));
        assert_eq!(client.get("/none").status, 404);
    }
    // An invalid request is answered and counted.
    let mut nonsense = server.client();
    nonsense.send(b"nonsense\r\n\r\n");
    assert_eq!(nonsense.read(ExpectedContent::Follows).status, 400);
    drop(nonsense);
    until("its connection is closed", || {
        (status(&control)["instances"][0]["connections"] == 3).then_some(())
    });
    let status = status(&control);
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&status["pid"], &status["state"]), (&server.pid().into(), &"serving".into()));
    assert_eq!(status["listening"], serde_json::json!([server.addr().to_string()]));
    assert_eq!((&status["configuration"], &status["reloads"]), (&Value::Null, &0.into()));
    assert!(status["imbalance"].as_f64().is_none_or(|times| times >= 1.0), "{status}");
    let instance = &status["instances"][0];
    assert_eq!((&instance["requests"], &instance["connections"]), (&19.into(), &3.into()));
    let sum = |field: &str| -> u64 {
        instance["cores"].as_array().unwrap().iter().map(|core| core[field].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("requests"), sum("connections")), (19, 3));
    // A core sends connections away while the machine holds the core up.
    assert!(sum("accepted") == 4 && sum("sent_away") <= 3, "{instance}");
    assert!((1..=3).contains(&sum("sampled")) && sum("sampled_here") <= sum("sampled"), "{instance}");
    assert!(sum("looked_up") >= 2 && sum("looked_up") < 18, "most were hits: {instance}");
    assert!(instance["cores"].as_array().unwrap().iter().all(|core| core["answered"] == true));
    // The page, and the site's own page for missing files, which is missing. The missing file was
    // not asked for often enough.
    assert_eq!(
        (&instance["cache"]["content_bytes"], &instance["cache"]["paths"]),
        (&10_000.into(), &2.into())
    );
    assert_eq!((&instance["hosts"]["hosts"], &instance["hosts"]["open"]), (&1.into(), &1.into()));
    assert!(instance["memory"]["resident_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(instance["memory"]["page_table_bytes"].as_u64().unwrap() > 0);
    assert_eq!((&instance["log"]["target"], &instance["php"]), (&"off".into(), &Value::Null));
    let text = ask("status", &control, &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    for words in [
        &format!("pid {}: serving, up ", server.pid()),
        "requests: 19, 0 answers cut",
        "accepted: 4 ",
        "page tables",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    server.stops_clean();
}

fn a_busy_core_is_seen(io: Io) {
    let site = TestSite::new();
    let (server, control) = controlled(io, &site);
    let idle = status(&control);
    let busy = |status: &Value| -> f64 {
        let cores = status["instances"][0]["cores"].as_array().unwrap();
        cores.iter().map(|core| core["busy"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    assert!(busy(&idle) < 0.5, "{idle}");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                (0..50).for_each(|_| client.ask("GET", "/", &[]));
                (0..50).for_each(|_| drop(client.read(crate::support::ExpectedContent::Follows)));
            }
        });
        until("a core is busy", || (busy(&status(&control)) > 0.05).then_some(()));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    server.stops_clean();
}

fn a_reload_is_answered(io: Io) {
    let site = TestSite::new();
    let file = site.configure(io, "[[host]]\nroot = \"site\"\n");
    let control = site.outside("control");
    let with_control = |text: &str| {
        let text = fs::read_to_string(&file).unwrap().replace("io = ", &format!("{text}\nio = "));
        fs::write(&file, text).unwrap();
    };
    with_control("control = \"control\"");
    let server = TestServer::of_file(&file);
    let output = ask("reload", &control, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.starts_with(b"reloaded: "), "{output:?}");
    server.says("vermeil: reloaded: ");
    assert_eq!(status(&control)["reloads"], 1);
    with_control("cors = 1");
    let output = ask("reload", &control, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("vermeil.toml:2:1: cors: there is no such key; did you mean `cores`?"), "{said}");
    server.says("the configuration stays as it is");
    assert_eq!((status(&control)["reloads"].as_u64(), server.get("/").status), (Some(1), 200));
    server.stops_clean();

    let (server, control) = controlled(io, &site);
    let output = ask("reload", &control, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("it was started from a command line"));
    server.stops_clean();
}

fn the_socket_is_private_and_goes_with_the_server(io: Io) {
    let site = TestSite::new();
    let (server, control) = controlled(io, &site);
    server.says(&format!("vermeil: control: {}\n", control.display()));
    assert_eq!(fs::metadata(&control).unwrap().permissions().mode() & 0o777, 0o600);
    server.stops_clean();
    assert!(!control.exists());
    let output = ask("status", &control, &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");

    let off = TestServer::start(io, &site, &["--control", "off"]);
    off.says("vermeil: control: off\n");
    off.stops_clean();
}

/// With a folder for sockets of this test's own.
fn the_only_server_is_found_by_itself(io: Io) {
    let site = TestSite::new();
    let runtime = site.outside("runtime");
    fs::create_dir(&runtime).unwrap();
    let with_runtime = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    };
    let ask = || {
        let mut command = vermeil(&["status", "--json"]);
        with_runtime(&mut command);
        command.output().unwrap()
    };
    assert_eq!(ask().status.code(), Some(3), "there is none");
    let env = format!("XDG_RUNTIME_DIR={}", runtime.display());
    let first = TestServer::start_under(&["env", &env], io, &site, &[]);
    let found: Value = serde_json::from_slice(&ask().stdout).unwrap();
    assert_eq!(found["pid"], first.pid());
    let folder = fs::metadata(runtime.join("vermeil")).unwrap();
    assert_eq!(folder.mode() & 0o777, 0o700);
    let second = TestServer::start_under(&["env", &env], io, &site, &[]);
    let several = ask();
    let said = String::from_utf8(several.stderr).unwrap();
    assert_eq!(several.status.code(), Some(3), "{said}");
    assert!(
        said.contains("several servers run") && said.contains(&format!("{}.sock", second.pid())),
        "{said}"
    );
    first.stops_clean();
    let found: Value = serde_json::from_slice(&ask().stdout).unwrap();
    assert_eq!(found["pid"], second.pid());
    second.stops_clean();
    // The server does not trust or use a folder in which other users may write.
    fs::set_permissions(runtime.join("vermeil"), fs::Permissions::from_mode(0o777)).unwrap();
    let third = TestServer::start_under(&["env", &env], io, &site, &[]);
    third.says("is another user's folder, or other users may write there");
    assert_eq!(third.get("/").status, 200);
    assert_eq!(ask().status.code(), Some(3));
    third.stops_clean();
}

fn a_place_that_is_taken_is_refused(io: Io) {
    let site = TestSite::new();
    let (server, control) = controlled(io, &site);
    let site_root = site.root();
    let start = || {
        let args = ["serve", "--listen", "127.0.0.1:0", "--control", control.to_str().unwrap()];
        vermeil(&args).arg(&site_root).output().unwrap()
    };
    let output = start();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("another server has the control socket"), "{said}");
    server.stops_clean();
    // A leftover socket of a killed server does not prevent a start.
    drop(UnixListener::bind(&control).unwrap());
    let (server, _) = controlled(io, &site);
    assert_eq!(status(&control)["pid"], server.pid());
    server.stops_clean();
}

fn silent_client_of_the_control_socket_delays_no_other(io: Io) {
    let site = TestSite::new();
    let (server, control) = controlled(io, &site);
    let mut nonsense = UnixStream::connect(&control).unwrap();
    nonsense.write_all(b"make me a sandwich\n").unwrap();
    let mut answer = String::new();
    nonsense.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("unknown request"), "{answer}");
    let mut endless = UnixStream::connect(&control).unwrap();
    endless.write_all(&[b'x'; 4096]).unwrap();
    drop(UnixStream::connect(&control).unwrap());
    let silent = UnixStream::connect(&control).unwrap();
    assert_eq!(status(&control)["state"], "serving");
    // The silent client was connected all the time: its connection is still open.
    silent.set_nonblocking(true).unwrap();
    let error = (&silent).read(&mut [0]).expect_err("nothing was said, and nothing was closed");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    drop((endless, silent));
    server.stops_clean();
}
