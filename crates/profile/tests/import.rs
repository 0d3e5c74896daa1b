//! A file of `perf record` becomes a recording. Skipped where perf is not installed or not
//! permitted.

use std::fs;
use std::process::Command;

use vermeil_profile::{ReadOptions, StackProfile, import};

#[test]
fn perf_file_of_busy_program_is_imported() {
    let here = std::env::current_exe().unwrap();
    let planted = here.parent().unwrap().parent().unwrap().join("examples/planted");
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("perf.data"), folder.path().join("r.prof"));
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o"])
        .arg(&from)
        .arg("--")
        .arg(planted)
        .args(["none", "1", "0.4"])
        .output();
    if !perf.as_ref().is_ok_and(|perf| perf.status.success()) {
        eprintln!("skipped: perf does not record here: {perf:?}");
        return;
    }
    let imported = import(&from, &to, None).unwrap();
    assert!(imported.samples > 50 && imported.unread == 0, "{imported:?}");
    let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
    let first = profile.costs()[0];
    assert!(profile.function(first.function).name.contains("useful_work"), "{:?}", profile.functions);
    assert_eq!(profile.cut, None);
    assert_eq!(profile.origin.hz, 997);
}

#[test]
fn file_of_another_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("page.html");
    fs::write(&from, "<html>").unwrap();
    let message = import(&from, &folder.path().join("r.prof"), None).unwrap_err().to_string();
    assert!(message.contains("page.html") && message.contains("perf record"), "{message}");
}
