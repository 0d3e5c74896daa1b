//! Waits of real processes: the time of each thread is accounted for, and the code in which threads
//! block is named.
//!
//! Where the kernel does not permit the recording, each test says so and ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vermeil_profile::{
    HardwareSet, ProfileError, ReadOptions, RecordOptions, StackProfile, Stacks, Subject, record, report,
};

fn planted() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("examples/planted")
}

/// Records with waits; `None` if the kernel does not permit it.
fn recorded(subject: Subject, output: &Path, hz: u32, duration: Duration) -> Option<StackProfile> {
    let options = RecordOptions {
        subject,
        hz,
        duration: Some(duration),
        output: output.to_owned(),
        hardware: HardwareSet::Ipc,
        stacks: Stacks::Tables,
        waits: true,
    };
    match record(&options, &AtomicBool::new(false)) {
        Ok(recorded) => match recorded.summary.waits_missing {
            Some(why) => {
                eprintln!("skipped: {why}");
                None
            }
            None => Some(StackProfile::read(output, ReadOptions::default()).unwrap()),
        },
        Err(error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_))) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn command(words: &[&str]) -> Subject {
    let program = std::iter::once(planted().into_os_string());
    Subject::Command(program.chain(words.iter().map(Into::into)).collect())
}

fn text(profile: &StackProfile) -> String {
    let outermost = Vec::new();
    report::text(
        profile,
        &report::TextOptions { top: 30, callers_of: None, owner_module: None, outermost, colors: false },
    )
}

/// The nanoseconds that each thread waited, whatever the reason.
fn by_thread(profile: &StackProfile) -> BTreeMap<i32, u64> {
    let mut sums = BTreeMap::new();
    for ((_, tid, _), waits) in &profile.waiting.threads {
        *sums.entry(*tid).or_default() += waits.blocked_ns + waits.ready_ns;
    }
    sums
}

#[test]
fn code_that_waits_for_lock_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let subject = command(&["mutex", "3", "0.6"]);
    let Some(profile) = recorded(subject, &path, 997, Duration::from_secs(30)) else { return };
    let text = text(&profile);
    assert!(text.contains("planted_mutex") && text.contains("futex"), "{text}");
    assert!(text.contains("nanosleep"), "the holder of the lock sleeps\n{text}");
    let waited = by_thread(&profile);
    assert_eq!(waited.len(), 4, "three workers and the thread that waits for these\n{text}");
    // No thread waits longer than the recording takes, and these hardly do anything else.
    for (tid, ns) in &waited {
        assert!(*ns <= profile.duration_ns, "{tid}: {ns} of {} ns\n{text}", profile.duration_ns);
        assert!(*ns >= 300_000_000, "{tid}: {ns} ns\n{text}");
    }
    // The stacks add up to the exact sums.
    let of_stacks: u64 = profile.waiting.blocked.iter().map(|wait| wait.ns).sum();
    let sums = profile.waiting.blocked_ns();
    assert!(of_stacks.abs_diff(sums) <= sums / 100, "{of_stacks} {sums}\n{text}");
}

#[test]
fn stacks_are_estimated_at_low_rate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    // About a thousand waits each second, and ten stacks for each cpu.
    let subject = command(&["mutex", "2", "1.5"]);
    let Some(profile) = recorded(subject, &path, 10, Duration::from_secs(30)) else { return };
    let waits: u64 = profile.waiting.threads.values().map(|waits| waits.blocked).sum();
    let stacks = profile.waiting.blocked.len() as u64;
    assert!(stacks < waits / 2, "{stacks} stacks of {waits} waits\n{}", text(&profile));
    let of_stacks: u64 = profile.waiting.blocked.iter().map(|wait| wait.ns).sum();
    let sums = profile.waiting.blocked_ns();
    assert!(of_stacks.abs_diff(sums) <= sums / 100, "{of_stacks} {sums}\n{}", text(&profile));
}

/// Ends a child when the test ends.
struct WaitingChild(Child);

impl Drop for WaitingChild {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

#[test]
fn thread_that_waits_all_the_time_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map(WaitingChild);
    let child = child.as_mut().unwrap();
    let pid = child.0.id() as i32;
    let wait = format!("/proc/{pid}/stat");
    // The program reads its input at last.
    while !std::fs::read_to_string(&wait).unwrap().contains("(cat) S") {
        std::thread::yield_now();
    }
    let subject = Subject::Process(pid);
    let Some(profile) = recorded(subject, &path, 997, Duration::from_millis(300)) else { return };
    assert!(profile.samples.is_empty());
    let text = text(&profile);
    assert!(text.contains("[waiting since before the recording]"), "{text}");
    let waited = by_thread(&profile)[&pid];
    assert!(waited > profile.duration_ns / 2 && waited <= profile.duration_ns, "{text}");
    // Without its waits the recording would be empty.
    let instead = profile.of_waits(&path).unwrap();
    assert_eq!(instead.samples.len(), 1);
}
