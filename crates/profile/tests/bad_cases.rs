//! Recordings under bad conditions: many threads, programs without symbols or unwind tables, a full
//! disk, a process that ends. Nothing that was recorded is lost, and the report says what is
//! missing.
//!
//! Where the kernel does not permit sampling, or a tool is missing, the test says so and ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vermeil_profile::{
    HardwareSet, ProfileError, ReadOptions, RecordOptions, Recorded, StackProfile, Stacks, Subject, record,
    report,
};

/// Threads of the largest test, and the part of the system's threads that the test may take.
const THREADS_MAX: u64 = 20_000;
const THREADS_SHARE: u64 = 4;

fn planted() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples/planted")
}

/// Records a program; `None` if the kernel does not permit it.
fn recorded(program: &Path, words: [&str; 3], output: &Path) -> Option<Recorded> {
    let words = words.map(Into::into);
    record_subject(Subject::Command([&[program.into()][..], &words].concat()), output)
}

fn record_subject(subject: Subject, output: &Path) -> Option<Recorded> {
    let options = RecordOptions {
        subject,
        hz: 997,
        duration: Some(Duration::from_secs(60)),
        output: output.to_owned(),
        hardware: HardwareSet::Ipc,
        stacks: Stacks::Tables,
        waits: false,
    };
    match record(&options, &AtomicBool::new(false)) {
        Ok(recorded) => Some(recorded),
        Err(error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_))) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn read(path: &Path) -> StackProfile {
    StackProfile::read(path, ReadOptions::default()).unwrap()
}

fn text(profile: &StackProfile) -> String {
    let outermost = Vec::new();
    report::text(
        profile,
        &report::TextOptions { top: 10, callers_of: None, owner_module: None, outermost, colors: false },
    )
}

/// A copy of the program, changed by a tool of binutils; `None` without the tool.
fn changed(folder: &Path, tool: &str, words: &[&str]) -> Option<PathBuf> {
    let copy = folder.join("changed");
    fs::copy(planted(), &copy).unwrap();
    let changed = Command::new(tool).args(words).arg(&copy).status();
    if !changed.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("skipped: {tool}: {changed:?}");
        return None;
    }
    Some(copy)
}

#[test]
fn many_threads_are_recorded() {
    let limit = fs::read_to_string("/proc/sys/kernel/threads-max").unwrap();
    let threads = THREADS_MAX.min(limit.trim().parse::<u64>().unwrap() / THREADS_SHARE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(recorded) = recorded(&planted(), ["none", &threads.to_string(), "0.3"], &path) else { return };
    if !recorded.status.unwrap().success() {
        eprintln!("skipped: this user may not start {threads} threads");
        return;
    }
    let profile = read(&path);
    assert_eq!(profile.cut, None);
    let lost = profile.lost > 0;
    assert_eq!(text(&profile).contains("DOUBTFUL"), lost || profile.throttled > 0, "{}", text(&profile));
    // Most of the time goes to the starts of threads, so the list of the text may lack the
    // function.
    let has_work = profile.functions.iter().any(|function| function.name.contains("useful_work"));
    assert!(has_work, "{}", text(&profile));
    let seen: std::collections::HashSet<i32> = profile.samples.iter().map(|sample| sample.tid).collect();
    assert!(seen.len() > 50, "{} threads were sampled, {} samples", seen.len(), profile.samples.len());
}

#[test]
fn stripped_program_counts_for_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = changed(folder.path(), "strip", &[]) else { return };
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&program, ["none", "1", "0.3"], &path) else { return };
    let profile = read(&path);
    // On a busy machine the start takes most of the time, so the program need not rank first.
    let is_of_program = |function: &&vermeil_profile::Function| function.module == "changed";
    let names: Vec<&str> =
        profile.functions.iter().filter(is_of_program).map(|function| &*function.name).collect();
    assert_eq!(names, ["[no name in changed]"], "{}", text(&profile));
}

/// As docs/install.md says: the names stand apart, in a table of symbols without debug information.
#[test]
fn names_put_apart_are_found_by_link() {
    let folder = tempfile::tempdir().unwrap();
    let separate = folder.path().join("changed.debug");
    let apart = Command::new("objcopy").arg("--only-keep-debug").arg(planted()).arg(&separate).status();
    let plain = Command::new("strip").arg("--strip-debug").arg(&separate).status();
    let Some(program) = changed(folder.path(), "strip", &["--strip-all"]) else { return };
    assert!(apart.unwrap().success() && plain.unwrap().success());
    let words = ["--add-gnu-debuglink", separate.to_str().unwrap(), program.to_str().unwrap()];
    let linked = Command::new("objcopy").args(words).status();
    if !linked.is_ok_and(|status| status.success()) {
        eprintln!("skipped: objcopy is missing");
        return;
    }
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&program, ["none", "1", "0.3"], &path) else { return };
    let profile = read(&path);
    let first = profile.function(profile.costs()[0].function);
    assert_eq!(first.name, "planted::useful_work", "{}", text(&profile));
    assert!(profile.functions.iter().all(|function| !function.name.contains("no name in changed")));
}

/// Without unwind tables and frame pointers a stack ends at its first frame, which is still named.
#[test]
fn stack_without_unwind_tables_keeps_innermost_frame() {
    let folder = tempfile::tempdir().unwrap();
    let sections = ["--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"];
    let Some(program) = changed(folder.path(), "objcopy", &sections) else { return };
    let path = folder.path().join("r.prof");
    let Some(recorded) = recorded(&program, ["none", "1", "0.3"], &path) else { return };
    assert!(recorded.status.unwrap().success());
    let profile = read(&path);
    let first = profile.costs()[0];
    assert!(profile.function(first.function).name.contains("useful_work"), "{}", text(&profile));
    assert_eq!(profile.samples.len() as u64, recorded.summary.samples, "no sample is left out");
}

#[test]
fn recording_ends_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let child = Command::new(planted()).args(["none", "1", "0.5"]).stdout(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let recorded = record_subject(Subject::Process(child.id() as i32), &path);
    let _ended = child.wait().unwrap();
    let Some(recorded) = recorded else { return };
    assert!(recorded.shortened.is_none() && recorded.summary.duration < Duration::from_secs(60));
    let profile = read(&path);
    assert_eq!(profile.cut, None);
    // The file of a process that has gone still has its names.
    assert!(text(&profile).contains("useful_work"), "{}", text(&profile));
}

/// A small file system that is removed when the test ends.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let words = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(folder.path()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn disk_that_fills_keeps_samples_before() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this user may not mount a small file system");
        return;
    };
    let path = disk.0.path().join("r.prof");
    let Some(recorded) = recorded(&planted(), ["none", "2", "5"], &path) else { return };
    let error = recorded.shortened.expect("the disk is too small");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    let profile = read(&path);
    assert!(profile.samples.len() > 100, "{} samples were kept", profile.samples.len());
    assert!(text(&profile).contains("INCOMPLETE") && text(&profile).contains("useful_work"));
}

/// Runs one test of this program in a mount namespace in which the kernel's list of symbols has
/// zeros in place of addresses, as a user without rights sees the list.
fn run_with_hidden_symbols(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join("kallsyms");
    fs::write(&hidden, "0000000000000000 T _text\n0000000000000000 T schedule\n").unwrap();
    let script = "mount --bind \"$0\" /proc/kallsyms || exit 77; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&hidden).arg(std::env::current_exe().unwrap());
    let done = command.args(["--exact", test, "--nocapture"]).output();
    match done {
        Ok(done) if matches!(done.status.code(), Some(1 | 77)) && done.stdout.is_empty() => {
            eprintln!("skipped: no mount namespace: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(done) => assert!(done.status.success(), "{done:?}"),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

fn are_kernel_symbols_hidden() -> bool {
    let mut first = String::new();
    let file = fs::File::open("/proc/kallsyms").expect("every kernel has the file");
    BufReader::new(file).read_line(&mut first).unwrap();
    first.starts_with("0000000000000000 ")
}

#[test]
fn hidden_kernel_symbols_are_reported() {
    if !are_kernel_symbols_hidden() {
        return run_with_hidden_symbols("hidden_kernel_symbols_are_reported");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let words = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=50000"];
    let Some(recorded) = record_subject(Subject::Command(words.map(Into::into).into()), &path) else {
        return;
    };
    let profile = read(&path);
    if !profile.origin.kernel {
        return;
    }
    assert!(recorded.summary.kernel_symbols_hidden);
    let text = text(&profile);
    assert!(
        text.contains("no names of kernel functions: their addresses are hidden from this user"),
        "{text}"
    );
    assert!(text.contains("[no name in the kernel]"), "no sample is left out\n{text}");
}
