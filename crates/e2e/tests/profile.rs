//! `vermeil profile` and `vermeil scale` through the binary: a busy child's hot function is found,
//! files of other kinds are refused with a cure, a folder of runs is compared.
//!
//! Where the kernel does not let this user sample, each test says so and ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn vermeil(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vermeil-tested")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a simulation, which is all cpu time; `None` if the kernel does not permit it.
fn recorded(path: &Path) -> Option<Output> {
    let binary = env!("CARGO_BIN_EXE_vermeil-tested");
    let path = path.to_str().unwrap();
    let words = ["profile", "record", "-o", path, "--", binary, "sim", "run", "web", "--time", "2s"];
    let output = vermeil(&words);
    let errors = text(&output.stderr);
    if errors.contains("cannot sample") {
        eprintln!("skipped: {errors}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(output)
}

#[test]
fn recording_of_simulation_names_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(output) = recorded(&path) else { return };
    let told = text(&output.stderr);
    assert!(told.contains("samples in") && told.contains("997 Hz"), "{told}");
    let path = path.to_str().unwrap();
    let report = text(&vermeil(&["profile", "report", path]).stdout);
    assert!(report.contains("vermeil_sim::") || report.contains("vermeil_sched::"), "{report}");
    assert!(report.contains("counters for each second"), "{report}");
    let none = text(&vermeil(&["profile", "report", path, "--callers-of", "no_such_function"]).stdout);
    assert!(none.contains("no function with \"no_such_function\""), "{none}");
    for (form, begins) in [("json", "{"), ("firefox", "{"), ("html", "<!doctype html>"), ("csv", "seconds,")]
    {
        let output = vermeil(&["profile", "report", path, "--form", form]);
        assert!(text(&output.stdout).starts_with(begins), "{form}: {}", text(&output.stderr));
    }
    assert!(vermeil(&["profile", "report", path, "--form", "pprof"]).stdout.starts_with(&[0x1f, 0x8b]));
    let output = vermeil(&["profile", "report", path, "--colors", "--form", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--colors and --form json exclude each other"));
    let output = vermeil(&["profile", "report", path, "--window", "1000s..2000s"]);
    let errors = text(&output.stderr);
    assert!(errors.contains("no samples in the window 1000s..2000s, and the recording lasts"), "{errors}");
    // The same work at the same cost: nothing is lost, and one pair of runs is said to be one.
    let compared = text(&vermeil(&["profile", "compare", path, path, "--work", "5,5"]).stdout);
    assert!(compared.contains("efficiency 100.0 %") && compared.contains("ONE PAIR"), "{compared}");
}

#[test]
fn foreign_file_is_refused_with_cure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    fs::write(&path, b"PERFILE2xxxxxxxxxxxxxxxx").unwrap();
    let output = vermeil(&["profile", "report", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let errors = text(&output.stderr);
    assert!(errors.contains("perf.data") && errors.contains("vermeil profile import"), "{errors}");
}

#[test]
fn missing_process_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let output = vermeil(&["profile", "record", "--pid", "2147483647", "-o", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("process 2147483647: no such process"), "{}", text(&output.stderr));
}

#[test]
fn scale_reports_work_that_output_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs");
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo units $i";
    let words = [
        "scale",
        "--cores",
        "1",
        "--reps",
        "1",
        "--folder",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = vermeil(&words);
    let errors = text(&output.stderr);
    if errors.contains("cannot sample") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert!(errors.contains("no work named \"work\"") && errors.contains("units 60000"), "{errors}");
    let with_work: Vec<&str> = [&words[..5], &["--work", "units"], &words[5..]].concat();
    let output = vermeil(&with_work);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    assert!(report.contains("4 are needed"), "{report}");
    assert!(report.contains("one number: nothing is compared here"), "{report}");
    assert!(path.join("cpus-1/run-01.prof").exists());
    let again = vermeil(&with_work);
    let errors = text(&again.stderr);
    assert!(errors.contains("holds recordings of an earlier run") && errors.contains("--folder"), "{errors}");
}

#[test]
fn scale_refuses_more_nodes_than_there_are() {
    let output = vermeil(&["scale", "--nodes", "1,500", "--reps", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("500 memory nodes wanted and the machine has") && errors.contains("vermeil topo")
    );
    let twice = vermeil(&["scale", "--cores", "1,1", "--", "true"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("1 is there twice"), "{}", text(&twice.stderr));
    let both = vermeil(&["scale", "--nodes", "1", "--cores", "1", "--", "true"]);
    assert!(text(&both.stderr).contains("cannot be used with"), "{}", text(&both.stderr));
}

/// Another user has fewer rights than root. The recording has the user's own part, or the message
/// names the setting.
#[test]
fn user_without_rights_is_told_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let open_to_all = |path: &Path| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    };
    let binary = folder.path().join("vermeil");
    fs::copy(env!("CARGO_BIN_EXE_vermeil-tested"), &binary).unwrap();
    [folder.path(), &binary].into_iter().for_each(open_to_all);
    let path = folder.path().join("r.prof");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
    command.args(["profile", "record", "-o"]).arg(&path).arg("--").arg(&binary);
    let output = command.args(["sim", "run", "web", "--time", "1s"]).output();
    let Some(output) = output.ok().filter(|output| !text(&output.stderr).contains("setpriv:")) else {
        eprintln!("skipped: the test cannot become another user");
        return;
    };
    let errors = text(&output.stderr);
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let said = errors.contains("the kernel's part is missing") || errors.contains("cannot sample");
    assert_eq!(said, paranoid.trim().parse::<i32>().is_ok_and(|level| level >= 2), "{errors}");
    if !said || errors.contains("the kernel's part is missing") {
        let report = text(&vermeil(&["profile", "report", path.to_str().unwrap()]).stdout);
        assert!(report.contains("vermeil_sim::") || report.contains("vermeil_sched::"), "{report}");
        assert!(!said || report.contains("kernel not recorded"), "{report}");
    }
}

/// Ends a server when the test ends.
struct StoppedServer(Child);

impl Drop for StoppedServer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// Starts a server of `folder`; returns it and its address.
fn serve(folder: &Path, control: &Path) -> (StoppedServer, String) {
    fs::write(folder.join("index.html"), "hello").unwrap();
    let (folder, control) = (folder.to_str().unwrap(), control.to_str().unwrap());
    let words = ["serve", folder, "--listen", "127.0.0.1:0", "--log", "off", "--control", control];
    let mut command = Command::new(env!("CARGO_BIN_EXE_vermeil-tested"));
    // One connection carries all requests of the test.
    command.args(words).args(["--requests-per-connection", "1000000000"]);
    let mut server = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let messages = BufReader::new(server.stderr.take().unwrap());
    let server = StoppedServer(server);
    let mut lines = messages.lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.split_once("http://")?.1.trim_end_matches('/').to_owned()));
    thread::spawn(move || lines.for_each(drop));
    (server, address.expect("the server names its address"))
}

#[test]
fn recording_over_control_socket_counts_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (control, path) = (folder.path().join("control.sock"), folder.path().join("r.prof"));
    let (_server, address) = serve(folder.path(), &control);
    let is_over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = TcpStream::connect(&address).unwrap();
            let mut answer = [0; 4096];
            while !is_over.load(Ordering::Relaxed) {
                client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                assert!(client.read(&mut answer).unwrap() > 0, "the server closed the connection");
            }
        });
        let (control, path) = (control.to_str().unwrap(), path.to_str().unwrap());
        let words = ["profile", "record", "--control", control, "--duration", "1s", "-o", path];
        let output = vermeil(&words);
        is_over.store(true, Ordering::Relaxed);
        output
    });
    let errors = text(&output.stderr);
    if errors.contains("cannot sample") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert!(output.status.success(), "{errors}");
    let path = path.to_str().unwrap();
    let report = text(&vermeil(&["profile", "report", path]).stdout);
    assert!(report.contains(" requests, cpu") || report.contains(" requests, cycles"), "{report}");
    assert!(report.contains(" of one  function") && report.contains("  bytes of bodies "), "{report}");
    // The part of the io driver and the part of the connections are told apart.
    let parts = vermeil(&["profile", "report", path, "--outermost", "Core::io,vermeil_server::"]).stdout;
    let parts = text(&parts);
    assert!(parts.contains("Core::io") && parts.contains("request_loop::serve"), "{parts}");
    let json = vermeil(&["profile", "report", path, "--form", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["work"]["unit"], "requests");
    let units = json["work"]["units"].as_f64().unwrap();
    assert!(units > 1.0, "{}", json["work"]);
    // The counts have the time of each tick, so a window has work of its own.
    let window = vermeil(&["profile", "report", path, "--window", "200ms..700ms", "--form", "json"]).stdout;
    let window: serde_json::Value = serde_json::from_slice(&window).unwrap();
    let in_window = window["work"]["units"].as_f64().unwrap();
    assert!(in_window > 0.0 && in_window < units, "{in_window} of {units}");
    let csv = text(&vermeil(&["profile", "report", path, "--form", "csv"]).stdout);
    assert!(csv.contains("\"requests cpu ") && csv.contains("\"events cpu "), "{csv}");
}

/// Records a server from its start for some time; returns the counters as CSV. `None` if the kernel
/// does not permit it.
fn recorded_from_start(folder: &Path, duration: &str) -> Option<String> {
    let [control, path] = ["control.sock", "r.prof"].map(|name| folder.join(name).display().to_string());
    let binary = env!("CARGO_BIN_EXE_vermeil-tested");
    let folder = folder.to_str().unwrap();
    let output = vermeil(
        &[
            &["profile", "record", "--duration", duration, "-o", &path, "--", binary, "serve", folder][..],
            &["--listen", "127.0.0.1:0", "--log", "off", "--control", &control],
        ]
        .concat(),
    );
    let errors = text(&output.stderr);
    if errors.contains("cannot sample") {
        eprintln!("skipped: {errors}");
        return None;
    }
    Some(text(&vermeil(&["profile", "report", &path, "--form", "csv"]).stdout))
}

#[test]
fn recording_of_started_server_counts_requests() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "hello").unwrap();
    // On a busy machine the server needs longer until it shows its work.
    for duration in ["2s", "4s", "8s", "16s"] {
        let Some(csv) = recorded_from_start(folder.path(), duration) else { return };
        let commas = |line: &str| line.matches(',').count();
        let columns = csv.lines().next().unwrap_or_default();
        // The counts begin during the recording, and each line has all columns.
        assert!(csv.lines().all(|line| commas(line) == commas(columns)), "{csv}");
        if columns.contains("\"requests cpu ") {
            return;
        }
    }
    panic!("no recording has the requests of the server");
}

#[test]
fn control_socket_without_server_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (control, path) = (folder.path().join("none.sock"), folder.path().join("r.prof"));
    let words = ["profile", "record", "--control", control.to_str().unwrap(), "-o", path.to_str().unwrap()];
    let output = vermeil(&words);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("none.sock"), "{}", text(&output.stderr));
    assert!(!path.exists());
}
