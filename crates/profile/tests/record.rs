//! Recordings of real processes: a busy child's hot function is found, strangers stay out, files
//! that end early are read.
//!
//! Where the kernel does not permit sampling, each test says so and ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vermeil_profile::{
    HardwareSet, ProfileError, ReadOptions, RecordOptions, Recorded, StackProfile, Stacks, Subject, record,
    report,
};

/// The example with planted faults, which cargo builds with the tests.
fn planted() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples/planted")
}

fn options(subject: Subject, output: &Path) -> RecordOptions {
    RecordOptions {
        subject,
        hz: 997,
        duration: Some(Duration::from_secs(30)),
        output: output.to_owned(),
        hardware: HardwareSet::Ipc,
        stacks: Stacks::Tables,
        waits: false,
    }
}

fn command(words: &[&str]) -> Subject {
    Subject::Command(
        std::iter::once(planted().into_os_string()).chain(words.iter().map(Into::into)).collect(),
    )
}

/// Records; `None` if the kernel does not permit it.
fn recorded(options: &RecordOptions) -> Option<Recorded> {
    match record(options, &AtomicBool::new(false)) {
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

/// Ends a child when the test ends.
struct StoppedChild(Child);

impl Drop for StoppedChild {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

#[test]
fn hot_function_of_command_ranks_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(recorded) = recorded(&options(command(&["none", "1", "0.5"]), &path)) else { return };
    assert!(recorded.shortened.is_none(), "{recorded:?}");
    assert!(recorded.status.unwrap().success());
    let profile = read(&path);
    assert_eq!(profile.cut, None);
    let first = profile.costs()[0];
    assert!(profile.function(first.function).name.contains("useful_work"), "{}", text(&profile));
    assert!(profile.samples.iter().all(|sample| sample.pid == profile.origin.pid), "a stranger was recorded");
}

/// The example has no frame pointers, so its callers are found by unwind tables alone.
#[test]
fn callers_are_found_without_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&options(command(&["none", "1", "0.5"]), &path)) else { return };
    let profile = read(&path);
    let callers = report::callers_of(&profile, "useful_work", None);
    let (owner, weight) = callers.owners[0];
    let owner = profile.function(owner.expect("the stack has a frame of the program"));
    assert!(owner.name.contains("handle_request"), "{owner:?}\n{}", text(&profile));
    assert!(weight as f64 > 0.95 * callers.weight as f64, "{:?}", callers.owners);
    let whole = report::folded(&profile);
    assert!(whole.contains("main;") || whole.contains("_start"), "{whole}");
}

/// The kernel copies more of each stack, once stacks did not fit into the first copies.
#[test]
fn deep_stack_keeps_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&options(command(&["deep", "1", "1"]), &path)) else { return };
    let profile = read(&path);
    let callers = report::callers_of(&profile, "planted_deep", None);
    let (owner, weight) = callers.owners[0];
    let owner = profile.function(owner.expect("the stack has a frame of the program"));
    assert!(owner.name.contains("handle_request"), "{owner:?}\n{}", text(&profile));
    assert!(weight as f64 > 0.5 * callers.weight as f64, "{:?}", callers.owners);
}

fn text(profile: &StackProfile) -> String {
    let outermost = Vec::new();
    report::text(
        profile,
        &report::TextOptions { top: 10, callers_of: None, owner_module: None, outermost, colors: false },
    )
}

/// Regression: the kernel's code in the memory of processes had no name, and such samples had no
/// caller.
#[test]
fn clock_of_kernel_in_process_has_name_and_caller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&options(command(&["clock", "1", "0.5"]), &path)) else { return };
    let profile = read(&path);
    let of_kernel = |function: &vermeil_profile::Function| function.module == "[vdso]";
    if !profile.functions.iter().any(of_kernel) {
        return eprintln!("skipped: this machine's clock needs a system call");
    }
    let named =
        |function: &vermeil_profile::Function| of_kernel(function) && function.name == "clock_gettime";
    assert!(profile.functions.iter().any(named), "{}", text(&profile));
    let callers = report::callers_of(&profile, "clock_gettime", None);
    let (owner, weight) = callers.owners[0];
    let owner = profile.function(owner.expect("the stack has a frame of the program"));
    assert!(owner.name.contains("planted_clock"), "{owner:?}\n{}", text(&profile));
    assert!(weight as f64 > 0.9 * callers.weight as f64, "{:?}", callers.owners);
}

/// Records a process for a moment and expects the name and the caller of the hot function.
fn expect_names(child: &StoppedChild, path: &Path) {
    let mut options = options(Subject::Process(child.0.id() as i32), path);
    options.duration = Some(Duration::from_millis(500));
    let Some(_) = recorded(&options) else { return };
    let profile = read(path);
    let first = profile.costs()[0];
    assert_eq!(profile.function(first.function).name, "planted::useful_work", "{}", text(&profile));
    let callers = report::callers_of(&profile, "useful_work", Some("prog"));
    let owner = callers.owners[0].0.map(|owner| profile.function(owner));
    assert!(owner.is_some_and(|owner| owner.name.contains("handle_request")), "{}", text(&profile));
}

/// Waits until a child runs a program of this name.
fn wait_for_program(child: &StoppedChild, name: &str) {
    let link = format!("/proc/{}/exe", child.0.id());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let is_there = || fs::read_link(&link).is_ok_and(|path| path.ends_with(name));
    while !is_there() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
}

/// Regression: a server whose file an upgrade had replaced had no names at all.
#[test]
fn program_keeps_names_although_its_file_was_replaced() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only the superuser can open a file that has no name any more");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("prog");
    fs::copy(planted(), &program).unwrap();
    let child = Command::new(&program).args(["none", "1", "60"]).stdout(Stdio::null()).spawn();
    let child = StoppedChild(child.unwrap());
    wait_for_program(&child, "prog");
    fs::remove_file(&program).unwrap();
    fs::copy("/bin/true", &program).unwrap();
    expect_names(&child, &folder.path().join("r.prof"));
}

/// Regression: functions of a program in a container had the names of the file at the same path
/// outside, or none.
#[test]
fn program_in_other_mounts_has_names_of_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("prog");
    fs::copy("/bin/true", &program).unwrap();
    let script = "mount --bind \"$0\" \"$1\" && exec \"$1\" none 1 60";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).args([&planted(), &program]).stdout(Stdio::null());
    let child = StoppedChild(command.spawn().unwrap());
    wait_for_program(&child, "prog");
    if !fs::read_link(format!("/proc/{}/exe", child.0.id())).is_ok_and(|path| path.ends_with("prog")) {
        return eprintln!("skipped: this user may make no mount namespace");
    }
    expect_names(&child, &folder.path().join("r.prof"));
}

#[test]
fn samples_have_color_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&options(command(&["none", "2", "0.5"]), &path)) else { return };
    let profile = read(&path);
    let count = |wanted: u64| profile.samples.iter().filter(|sample| sample.color == wanted).count();
    let (first, second) = (count(1), count(2));
    // On a busy machine one of the threads has few samples.
    assert!(first > 0 && second > 0, "{first} and {second} of {} samples", profile.samples.len());
    // Samples before the threads run have none.
    assert!(first + second > profile.samples.len() * 3 / 4, "{:?}", [first, second, count(0)]);
}

/// Counters come with samples, also behind the exchange of events for longer copies of stacks.
#[test]
fn counters_grow_from_tick_to_tick() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    for kind in ["relay", "deep"] {
        let Some(_) = recorded(&options(command(&[kind, "2", "0.7"]), &path)) else { return };
        let profile = read(&path);
        let series = profile.series.iter().enumerate();
        let columns: Vec<usize> =
            series.filter(|(_, series)| series.name == "context switches").map(|(at, _)| at).collect();
        let sums: Vec<u64> =
            profile.ticks.iter().map(|tick| columns.iter().map(|at| tick.values[*at]).sum()).collect();
        assert!(!columns.is_empty() && sums.is_sorted(), "{kind}: {sums:?}");
        if kind == "relay" {
            let steps = sums.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!(steps >= 5 && sums[sums.len() - 1] > sums[0] + 100, "{steps} steps, {sums:?}");
        }
    }
}

#[test]
fn running_process_is_recorded_until_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let child = Command::new(planted()).args(["counter", "2", "60"]).stdout(Stdio::null()).spawn().unwrap();
    let child = StoppedChild(child);
    let mut options = options(Subject::Process(child.0.id() as i32), &path);
    options.duration = Some(Duration::from_millis(700));
    let Some(recorded) = recorded(&options) else { return };
    assert!(recorded.status.is_none());
    let profile = read(&path);
    assert!(text(&profile).contains("planted_counter"), "{}", text(&profile));
    assert!(!profile.ticks.is_empty() && !profile.series.is_empty());
    // Names are there although the process still ran before the recording.
    let named = profile.functions.iter().filter(|function| function.is_named).count();
    assert!(named > 0, "{:?}", profile.functions);
}

#[test]
fn child_of_command_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let script = format!("'{}' none 1 0.5; true", planted().display());
    let words = ["sh", "-c", &script].map(Into::into).to_vec();
    let Some(_) = recorded(&options(Subject::Command(words), &path)) else { return };
    let profile = read(&path);
    assert!(text(&profile).contains("useful_work"), "{}", text(&profile));
}

/// Regression: the recording of a server that goes to the background ended at once, without a word.
#[test]
fn descendants_that_outlive_command_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let words = ["sh", "-c", "sleep 60 & exit 0"].map(Into::into).to_vec();
    let Some(recorded) = recorded(&options(Subject::Command(words), &path)) else { return };
    let [left] = recorded.descendants[..] else { panic!("{recorded:?}") };
    let kill = Command::new("kill").arg(left.to_string()).status();
    assert!(kill.unwrap().success());
}

#[test]
fn cut_recording_is_read_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let Some(_) = recorded(&options(command(&["none", "1", "0.4"]), &path)) else { return };
    let whole = read(&path).samples.len();
    let bytes = fs::read(&path).unwrap();
    // The share of the names behind the samples depends on the number of samples.
    let cut_to = |length: usize| {
        fs::write(&path, &bytes[..length]).unwrap();
        read(&path)
    };
    let mut profiles = (1..64).rev().map(|part| cut_to(bytes.len() * part / 64));
    let profile = profiles.find(|profile| profile.samples.len() < whole);
    let profile = profile.expect("a cut before the last sample");
    assert!(profile.cut.is_some());
    assert!(!profile.samples.is_empty());
    assert!(text(&profile).contains("INCOMPLETE"), "{}", text(&profile));
    // The names came last in the file, so they are looked up again.
    assert!(text(&profile).contains("useful_work"), "{}", text(&profile));
}

#[test]
fn full_disk_keeps_recorded_samples() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full");
        return;
    }
    match record(&options(command(&["none", "1", "0.3"]), Path::new("/dev/full")), &AtomicBool::new(false)) {
        Err(error) => assert!(error.to_string().contains("/dev/full"), "{error}"),
        Ok(recorded) => assert!(recorded.shortened.is_some(), "{recorded:?}"),
    }
}

#[test]
fn missing_process_and_command_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let failure =
        |subject| record(&options(subject, &path), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(failure(Subject::Process(i32::MAX)).contains("no such process"));
    let message = failure(Subject::Command(vec!["/nowhere/prog".into()]));
    assert!(message.contains("/nowhere/prog") || message.contains("cannot sample"), "{message}");
}
