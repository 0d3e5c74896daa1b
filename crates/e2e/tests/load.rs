//! `vermeil load` through its binary, against `vermeil serve`: every result form, a verified file
//! set, a refused run, Ctrl-C.
//!
//! `vermeil-load` tests the counts with planted servers; this file tests the way from the command
//! line and back.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn vermeil(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vermeil-tested"));
    command.args(words).stdin(Stdio::null());
    command
}

fn output(words: &[&str]) -> Output {
    vermeil(words).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A server of a folder; ends when dropped.
struct ServedFolder {
    child: Child,
    url: String,
}

impl ServedFolder {
    fn start(root: &Path) -> Self {
        let root = root.to_str().expect("a path of text");
        Self::run(&["serve", "--listen", "127.0.0.1:0", "--log", "off", root])
    }

    fn run(words: &[&str]) -> Self {
        let mut child = vermeil(words).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (mut said, mut line) = (String::new(), String::new());
        let url = loop {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "the server ended: {said}");
            said += &line;
            if let Some(at) = line.find("http://127.0.0.1:") {
                break line[at..].split_whitespace().next().expect("a URL").to_owned();
            }
        };
        // A thread drains the rest of the output, so that the server never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, url }
    }
}

impl ServedFolder {
    /// Ends the server in good order, so that its log is whole.
    fn stop(&mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("the server runs");
        assert!(self.child.wait().expect("a status").success());
    }

    /// Address and port.
    fn addr(&self) -> String {
        self.url.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }
}

impl Drop for ServedFolder {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[test]
fn a_run_comes_back_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), "content").unwrap();
    let served = ServedFolder::start(folder.path());
    let url = format!("{}page", served.url);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let forms = [path("run.json"), path("run.html"), path("run.csv"), path("run.txt")];
    let run = output(&[
        "load",
        &url,
        "-c",
        "4",
        "-n",
        "500",
        "--json",
        &forms[0],
        "--html",
        &forms[1],
        "--csv",
        &forms[2],
        "--openmetrics",
        &forms[3],
    ]);
    assert!(matches!(run.status.code(), Some(0 | 5)), "{run:?}");
    assert!(stdout(&run).contains("500 good") && stdout(&run).contains("2xx 500"), "{}", stdout(&run));
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&forms[0]).unwrap()).unwrap();
    assert_eq!((json["good"].as_u64(), json["failed"].as_u64()), (Some(500), Some(0)));
    assert_eq!(json["content_bytes"].as_u64(), Some(500 * 7));
    assert!(fs::read_to_string(&forms[1]).unwrap().contains("<svg"));
    assert!(fs::read_to_string(&forms[2]).unwrap().starts_with("begins_s,"));
    assert!(fs::read_to_string(&forms[3]).unwrap().contains("vermeil_load_good_total 500\n"));
    let beside = path("both.html");
    assert!(output(&["load", "report", &forms[0], &forms[0], "--html", &beside]).status.success());
    assert!(fs::read_to_string(&beside).unwrap().contains("2 runs of vermeil load"));
    let page = vermeil(&["load", "report", &forms[0], "--html", "-"]).current_dir(folder.path()).output();
    assert!(stdout(&page.expect("the binary runs")).contains("<svg"));
    assert!(!folder.path().join("-").exists(), "- is standard output");
}

#[test]
fn files_are_written_served_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    let written = output(&["load", "files", "webstone", root.to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    let served = ServedFolder::start(&root);
    let run = output(&["load", "webstone", &served.url, "-c", "4", "-n", "300", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&run)).expect("a record");
    assert_eq!((json["good"].as_u64(), json["failed"].as_u64()), (Some(300), Some(0)), "{json}");
    let changed = root.join("webstone/dir0000000000/class1_0");
    let mut bytes = fs::read(&changed).unwrap();
    bytes[4_000] ^= 1;
    fs::write(&changed, bytes).unwrap();
    let run = output(&["load", "webstone", &served.url, "-c", "4", "-n", "300", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&run)).expect("a record");
    assert_eq!(json["faults"][0][0].as_str(), Some("wrong_bytes"), "{json}");
    assert_eq!((json["valid"].as_bool(), run.status.code()), (Some(false), Some(5)));
}

#[test]
fn unusable_target_is_refused_with_reason() {
    let folder = tempfile::tempdir().unwrap();
    let served = ServedFolder::start(folder.path());
    let cases: [(&[&str], i32, &str); 7] = [
        (&["load", "localhost:80"], 2, "neither a URL nor a workload"),
        (&["load", &served.url, "--agents", "a:1,b:1,a:1"], 2, "--agents a:1: it is named twice"),
        (&["load", &served.url, "--agents", "127.0.0.1"], 2, "write NAME:PORT"),
        (&["load", &served.url, "--agents", &served.addr()], 3, "the program at this address is no agent"),
        (&["load", "support", &served.url], 3, "vermeil load files support"),
        (&["load", "https://127.0.0.1:1/", "--ca", "/nonexistent"], 3, "--ca /nonexistent"),
        (&["load", &served.url, "--json", "/nonexistent/run.json"], 3, "cannot write /nonexistent/run.json"),
    ];
    for (words, code, said) in cases {
        let run = output(words);
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(code) && stderr.contains(said), "{words:?}: {run:?}");
    }
    let refused = output(&["load", "http://127.0.0.1:1/", "-n", "3", "-c", "1"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(stdout(&refused).contains("3 connection refused"), "{}", stdout(&refused));
    let search = ["load", "http://127.0.0.1:1/", "--find-max", "-d", "1s", "--users-from", "2"];
    let refused = output(&search);
    assert_eq!(refused.status.code(), Some(5));
    assert!(stdout(&refused).contains("INVALID      not one good answer"), "{}", stdout(&refused));
}

/// A busy machine may make a run doubtful, which has a code of its own, so a case repeats until its
/// run is valid.
#[test]
fn valid_run_that_misses_its_targets_ends_with_6() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), "content").unwrap();
    // A page that is judged by its rate, and no rate is as high as the first.
    let workload = folder.path().join("shop.toml");
    let page = "[[page]]\nname = \"home\"\npath = \"/page\"\njudge = \"rate\"\n";
    fs::write(&workload, format!("name = \"shop\"\n{page}")).unwrap();
    let served = ServedFolder::start(folder.path());
    let workload = workload.to_str().unwrap();
    let run = ["load", workload, &served.url, "-c", "2", "-n", "200", "--json", "-"];
    let held = ["--good-rate", "0", "--tolerable-rate", "0"];
    let cases: [(&[&str], i32); 3] = [
        (&["--good-rate", "18446744073709551615"], 6),
        (&[&held[..], &["--fail-if", "good<1000000"]].concat(), 6),
        (&[&held[..], &["--fail-if", "failed>0"]].concat(), 0),
    ];
    for (targets, code) in cases {
        let valid = (0..100).find_map(|_| {
            let output = output(&[&run[..], targets].concat());
            let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("a record");
            let is_valid = json["valid"].as_bool().expect("a verdict");
            assert_eq!(output.status.code() == Some(5), !is_valid, "{targets:?}: {json}");
            is_valid.then_some(output.status.code())
        });
        assert_eq!(valid, Some(Some(code)), "{targets:?}");
    }
}

#[test]
fn an_interrupt_ends_a_run_with_its_results() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), "content").unwrap();
    let served = ServedFolder::start(folder.path());
    // Ends by itself if no signal comes, so that a failure does not hang.
    let child = vermeil(&["load", &format!("{}page", served.url), "-c", "2", "-d", "20s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    // The ears are there once the cores have their threads.
    let threads = format!("/proc/{}/task", child.id());
    let begun = || fs::read_dir(&threads).is_ok_and(|tasks| tasks.count() > 1);
    while !begun() {
        std::thread::yield_now();
    }
    kill_process(pid, Signal::INT).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(5), "{run:?}");
    assert!(stdout(&run).contains("ended early"), "{}", stdout(&run));
}

/// The log is written by the server itself, so a change of either side's format fails here.
#[test]
fn server_log_replays_as_the_requests_sent() {
    let requests: [(&str, &[u8], bool); 8] = [
        ("GET", b"/plain?x=1&y", false),
        ("HEAD", b"/plain", false),
        ("GET", b"/old", true),
        ("HEAD", b"/old", true),
        ("POST", b"/form", false),
        ("GET", b"/%22quoted%22", false),
        ("GET", b"/double\"quote", false),
        ("GET", b"/back\\slash\\x41", false),
    ];
    for format in ["combined", "vhost_combined"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("www")).unwrap();
        fs::write(
            path("vermeil.toml"),
            format!(
                "cores = 1\nlog = \"access.log\"\nlog_format = \"{format}\"\n\
                 [[listener]]\naddress = \"127.0.0.1:0\"\n[[host]]\nroot = \"www\"\n"
            ),
        )
        .unwrap();
        let mut served = ServedFolder::run(&["serve", "--config", path("vermeil.toml").to_str().unwrap()]);
        for (method, target, is_old) in requests {
            let mut stream = TcpStream::connect(served.addr()).expect("the server listens");
            let version = if is_old { "1.0" } else { "1.1" };
            let host = "Host: [::1]:8080\r\nUser-Agent: a \"quoted\" [agent] \\\r\n";
            let head = [
                format!("{method} ").as_bytes(),
                target,
                format!(" HTTP/{version}\r\n{host}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
            ]
            .concat();
            stream.write_all(&head).expect("the server reads");
            assert!(stream.read_to_end(&mut Vec::new()).expect("the server answers and closes") > 0);
        }
        served.stop();
        let log = fs::read(path("access.log")).unwrap();
        let replay = vermeil_load::replay(&log, 1.0, vermeil_load::Protocol::Http1).unwrap();
        let text = String::from_utf8_lossy(&log);
        assert_eq!((replay.order.len(), replay.skipped), (requests.len(), 0), "{format}: {text}");
        let mut read: Vec<_> = replay
            .requests
            .iter()
            .map(|request| (request.method.as_str(), request.target.as_slice(), request.is_old))
            .collect();
        let mut sent = requests.to_vec();
        read.sort_unstable();
        sent.sort_unstable();
        assert_eq!(read, sent, "{format}: {text}");
    }
}
