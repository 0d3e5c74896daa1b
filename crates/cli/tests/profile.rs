//! `vermeil profile` and `vermeil scale` through the binary: a busy child's hot function is found,
//! files of other kinds are refused with a cure, a folder of runs is compared.
//!
//! Where the kernel does not let this user sample, each test says so and ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn vermeil(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vermeil")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a simulation, which is all cpu time; `None` if the kernel does not permit it.
fn recorded(path: &Path) -> Option<Output> {
    let binary = env!("CARGO_BIN_EXE_vermeil");
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
    assert!(path.join("cpus-1/run-01.prof").exists());
}
