//! A file of `perf record` becomes a recording. Skipped where perf is not installed or not
//! permitted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vermeil_profile::{ReadOptions, StackProfile, import, report};

/// Lets perf record a program; `false` where perf is not installed or not permitted.
fn recorded_by_perf(to: &Path, program: &Path, words: &[&str]) -> bool {
    recorded_with(["-e", "cpu-clock", "-F", "997"], to, program, words)
}

/// The same with this event and its rate or period.
fn recorded_with(event: [&str; 4], to: &Path, program: &Path, words: &[&str]) -> bool {
    let perf = Command::new("perf")
        .args(["record", "-q", "-g"])
        .args(event)
        .arg("-o")
        .args([to, Path::new("--"), program])
        .args(words)
        .output();
    let is_done = perf.as_ref().is_ok_and(|perf| perf.status.success());
    if !is_done {
        eprintln!("skipped: perf does not record here: {perf:?}");
    }
    is_done
}

/// A program with functions that cost time.
fn planted() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples/planted")
}

const OPTIONS: report::TextOptions = report::TextOptions {
    top: 10,
    callers_of: None,
    owner_module: None,
    outermost: Vec::new(),
    colors: false,
};

/// Where the kernel hides addresses from a user, the list has zeros, and so has a copy of the list.
#[test]
fn hidden_addresses_of_kernel_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to, hidden] = ["perf.data", "r.prof", "kallsyms"].map(|name| folder.path().join(name));
    let words = ["if=/dev/zero", "of=/dev/null", "bs=64k", "count=50000"];
    if !recorded_by_perf(&from, Path::new("dd"), &words) {
        return;
    }
    let list = fs::read_to_string("/proc/kallsyms").unwrap();
    let zeros = list.lines().map(|line| format!("{:016} {}\n", 0, line.split_once(' ').unwrap().1));
    fs::write(&hidden, zeros.collect::<String>()).unwrap();
    import(&from, &to, Some(&hidden)).unwrap();
    let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
    let text = report::text(&profile, &OPTIONS);
    assert!(text.contains("no names of kernel functions: the copy of /proc/kallsyms has no"), "{text}");
    assert!(text.contains("[no name in the kernel]"), "no sample is left out\n{text}");
    assert!(report::json(&profile).contains("names of kernel functions"), "{text}");
    assert!(report::html(&profile, 10).contains("no names of kernel functions"));
    if list.lines().any(|line| !line.starts_with("0000000000000000")) {
        import(&from, &to, None).unwrap();
        let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
        let text = report::text(&profile, &OPTIONS);
        assert!(!text.contains("no name in the kernel") && !text.contains("no names of"), "{text}");
    }
}

#[test]
fn perf_file_of_busy_program_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("perf.data"), folder.path().join("r.prof"));
    if !recorded_by_perf(&from, &planted(), &["none", "1", "0.4"]) {
        return;
    }
    let imported = import(&from, &to, None).unwrap();
    assert!(imported.samples > 50 && imported.unread == 0, "{imported:?}");
    let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
    assert!(!report::text(&profile, &OPTIONS).contains("(process 0)"));
    let first = profile.costs()[0];
    assert!(profile.function(first.function).name.contains("useful_work"), "{:?}", profile.functions);
    assert_eq!(profile.cut, None);
    assert_eq!(profile.origin.hz, 997);
}

/// Regression: each sample weighed 1, because perf leaves a fixed period out of the samples, and a
/// file without a rate was said to have 0 Hz.
#[test]
fn samples_of_fixed_period_weigh_the_period() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("perf.data"), folder.path().join("r.prof"));
    for (event, period, rate) in [
        (["-e", "cpu-clock", "-c", "1000000"], 1_000_000, "1000 Hz on"),
        (["-e", "page-faults", "-c", "5"], 5, "one for each 5 events on"),
    ] {
        if !recorded_with(event, &from, &planted(), &["none", "1", "0.2"]) {
            return;
        }
        assert!(import(&from, &to, None).unwrap().samples > 0);
        let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
        assert!(profile.samples.iter().all(|sample| sample.weight == period), "{:?}", profile.samples);
        let text = report::text(&profile, &OPTIONS);
        assert!(text.contains(rate), "{text}");
    }
}

/// Regression: perf writes the processes that already run without a time. The recording began at
/// zero, so it seemed to last since the machine was started.
#[test]
fn recording_of_running_process_begins_with_its_first_sample() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("perf.data"), folder.path().join("r.prof"));
    let mut process = Command::new(planted()).args(["none", "1", "60"]).spawn().unwrap();
    let pid = process.id().to_string();
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", &pid, "-o"])
        .args([&from, Path::new("--"), Path::new("sleep"), Path::new("0.3")])
        .output();
    process.kill().unwrap();
    process.wait().unwrap();
    if !perf.as_ref().is_ok_and(|perf| perf.status.success()) {
        eprintln!("skipped: perf does not record here: {perf:?}");
        return;
    }
    import(&from, &to, None).unwrap();
    let profile = StackProfile::read(&to, ReadOptions::default()).unwrap();
    assert!(profile.origin.start_ns > 0);
    assert!(profile.duration_ns < 60_000_000_000, "{} ns", profile.duration_ns);
    let has_work = profile.functions.iter().any(|function| function.name.contains("useful_work"));
    assert!(has_work, "{:?}", profile.functions);
}

#[test]
fn import_does_not_write_over_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("web.prof");
    if !recorded_by_perf(&from, Path::new("true"), &[]) {
        return;
    }
    let before = fs::read(&from).unwrap();
    let message = import(&from, &from, None).unwrap_err().to_string();
    assert!(message.contains("web.prof") && message.contains("-o"), "{message}");
    assert_eq!(fs::read(&from).unwrap(), before);
}

#[test]
fn file_of_another_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("page.html");
    let pipe = [&b"PERFILE2"[..], &16u64.to_le_bytes(), &[0; 64]].concat();
    // Regression: each of these was "not a recording of `vermeil profile record`".
    for (content, said) in [
        (&b"<html>"[..], "not a file of `perf record`"),
        (b"", "the file is empty"),
        (b"\x89VMLPROF\0\0\0\0", "already; read it with `vermeil profile report`"),
        (&pipe, "for a pipe; record again into a file, with -o FILE"),
        (&b"PERFILE2"[..], "cut off or damaged"),
    ] {
        fs::write(&from, content).unwrap();
        let message = import(&from, &folder.path().join("r.prof"), None).unwrap_err().to_string();
        assert!(message.contains("page.html") && message.contains(said), "{message}");
    }
}

/// Regression: a compressed file became an empty recording, with success.
#[test]
fn compressed_or_cut_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["perf.data", "r.prof"].map(|name| folder.path().join(name));
    let refused = || import(&from, &to, None).unwrap_err().to_string();
    if !recorded_with(["-z", "-e", "cpu-clock", "-F997"], &from, &planted(), &["none", "1", "0.2"]) {
        return;
    }
    let message = refused();
    assert!(message.contains("record again without -z") && !to.exists(), "{message}");
    if !recorded_by_perf(&from, &planted(), &["none", "1", "0.2"]) {
        return;
    }
    let whole = fs::read(&from).unwrap();
    fs::write(&from, &whole[..whole.len() / 2]).unwrap();
    let message = refused();
    assert!(message.contains("cut off or damaged; record again") && !to.exists(), "{message}");
}
