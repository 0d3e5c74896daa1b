//! A signal or an error stops `scale`: its programs end, and the block in progress leaves no
//! recording. After a signal the blocks before are compared. The end of the load ends a recording.
//! Skipped where there is one cpu, or no right to sample.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_profile::scale::{Load, ScalePlan, ScaledPart, Scaling, scale};
use vermeil_profile::{ProfileError, verdict};

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that says where it runs, and then runs for longer than any test.
const HANGS: &str = "echo $$ >> $0/pids; exec sleep 100000";

/// Work in two runs, then a program that hangs. The loop lasts for some samples.
const HANGS_IN_SECOND_BLOCK: &str = "echo >> $0/started; if [ $(wc -l < $0/started) -gt 2 ]; then \
     echo $$ >> $0/pids; exec sleep 100000; fi; \
     i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo work $i";

/// Work in three runs, then a program without work.
const FAILS_IN_SECOND_BLOCK: &str = "echo >> $0/started; \
     i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; \
     if [ $(wc -l < $0/started) -gt 3 ]; then exit; fi; echo work $i";

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

fn shell(script: &str, folder: &Path) -> Vec<std::ffi::OsString> {
    ["sh".into(), "-c".into(), script.into(), folder.into()].into()
}

fn plan(folder: &Path, script: &str) -> ScalePlan {
    ScalePlan {
        part: ScaledPart::Cpus,
        counts: vec![1, 2],
        repetitions: 3,
        command: shell(script, folder),
        load: None,
        work: "work".to_owned(),
        hz: 997,
        folder: folder.join("runs"),
        seed: 1,
    }
}

/// The recordings of a plan, in the order of their names.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let folders = ["cpus-1", "cpus-2"].map(|name| folder.join("runs").join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Runs a plan, and stops the plan while its program hangs and is recorded. `prepare` runs
/// meanwhile. `None` if the machine does not permit the plan.
fn stopped(
    plan: &ScalePlan,
    folder: &Path,
    blocks_before: usize,
    prepare: impl FnOnce() + Send,
) -> Option<Result<Scaling, ProfileError>> {
    let (stop, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            let is_recorded = || {
                let has_begun = folder.join("pids").exists() && recordings(folder).len() > 2 * blocks_before;
                has_begun || is_over.load(Ordering::Relaxed)
            };
            prepare();
            until("the hanging program is recorded", is_recorded);
            stop.store(true, Ordering::Relaxed);
        });
        let result = scale(plan, &stop, &mut |_| {});
        is_over.store(true, Ordering::Relaxed);
        result
    });
    permitted(result)
}

/// `None` if the machine does not permit the plan.
fn permitted(result: Result<Scaling, ProfileError>) -> Option<Result<Scaling, ProfileError>> {
    match result {
        Err(
            error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_) | ProfileError::Cpus { .. }),
        ) => {
            eprintln!("skipped: {error}");
            None
        }
        result => Some(result),
    }
}

fn assert_programs_have_ended(folder: &Path) {
    for pid in fs::read_to_string(folder.join("pids")).unwrap().lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "process {pid} is still there");
    }
}

/// Regression: the plan waited for the program without end, and the recording up to the signal had
/// the work of a whole run.
#[test]
fn stopped_batch_ends_and_leaves_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), HANGS);
    let Some(result) = stopped(&plan, folder.path(), 0, || {}) else { return };
    assert!(matches!(result, Err(ProfileError::Stopped)), "{result:?}");
    assert_programs_have_ended(folder.path());
    assert_eq!(recordings(folder.path()), Vec::<PathBuf>::new());
}

/// Regression: a stopped plan reported nothing, however many blocks were complete.
#[test]
fn complete_blocks_of_stopped_plan_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), HANGS_IN_SECOND_BLOCK);
    let Some(result) = stopped(&plan, folder.path(), 1, || {}) else { return };
    let scaling = result.unwrap();
    assert_eq!((scaling.stopped_in, scaling.repetitions.len(), scaling.comparisons.len()), (Some(2), 2, 1));
    let text = verdict::scaling_text(&scaling);
    assert!(text.contains("ENDED EARLY: a signal stopped block 2"), "{text}");
    assert_programs_have_ended(folder.path());
    let kept = recordings(folder.path());
    assert!(kept.len() == 2 && kept.iter().all(|path| path.ends_with("run-01.prof")), "{kept:?}");
    // A further plan would mix its recordings with these.
    let error = scale(&plan, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("holds recordings of an earlier run") && error.contains("--folder"), "{error}");
}

/// Regression: a recording under load went on after the signal, and then the plan waited for the
/// load.
#[test]
fn stopped_load_and_its_server_end() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let ready: SocketAddr = free.expect("a port");
    let load = Load {
        command: shell(HANGS, folder.path()),
        ready,
        warm_up: Duration::ZERO,
        settle_max: Duration::ZERO,
        duration: Duration::from_secs(100_000),
    };
    let plan = ScalePlan { load: Some(load), ..plan(folder.path(), HANGS) };
    // The test accepts connections in place of the program.
    let accept = || {
        until("the server has begun", || folder.path().join("pids").exists());
        let listener = TcpListener::bind(ready).expect("the port is free");
        thread::spawn(move || listener.incoming().for_each(drop));
    };
    let Some(result) = stopped(&plan, folder.path(), 0, accept) else { return };
    assert!(matches!(result, Err(ProfileError::Stopped)), "{result:?}");
    assert_eq!(fs::read_to_string(folder.path().join("pids")).unwrap().lines().count(), 2);
    assert_programs_have_ended(folder.path());
    assert_eq!(recordings(folder.path()), Vec::<PathBuf>::new());
}

/// Regression: a recording that the end of the load cut short passed as a whole recording.
#[test]
fn load_that_ends_in_recording_fails_gate() {
    const SERVES: &str = "echo $$ >> $0/pids; while :; do :; done";
    /// Ends a second after the recording began.
    const LOADS: &str = "while [ ! -s $0/runs/cpus-1/run-01.prof ]; do sleep 0.1; done; sleep 1; echo work 7";
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let ready: SocketAddr = free.expect("a port");
    let load = Load {
        command: shell(LOADS, folder.path()),
        ready,
        warm_up: Duration::ZERO,
        settle_max: Duration::ZERO,
        duration: PATIENCE,
    };
    let counts = vec![1];
    let plan = ScalePlan { counts, repetitions: 1, load: Some(load), ..plan(folder.path(), SERVES) };
    let pids = folder.path().join("pids");
    // Accepts connections in place of the program.
    thread::spawn(move || {
        until("the server has begun", || pids.exists());
        let listener = TcpListener::bind(ready).expect("the port is free");
        listener.incoming().for_each(drop);
    });
    let Some(result) = permitted(scale(&plan, &AtomicBool::new(false), &mut |_| {})) else { return };
    let scaling = result.unwrap();
    let gates = &scaling.repetitions[0].gates;
    let gate = gates.iter().find(|gate| gate.name == "recording lasted its time").expect("a gate");
    assert!(!gate.holds && gate.found.contains("s of 60.0 s"), "{gate:?}");
    assert_programs_have_ended(folder.path());
}

/// Regression: an error in a block left the other recordings of the block, without a partner.
#[test]
fn failed_block_leaves_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), FAILS_IN_SECOND_BLOCK);
    let Some(result) = permitted(scale(&plan, &AtomicBool::new(false), &mut |_| {})) else { return };
    let error = result.unwrap_err().to_string();
    let runs = plan.folder.display().to_string();
    assert!(error.starts_with("block 2: no work named") && error.contains(&runs), "{error}");
    let kept = recordings(folder.path());
    assert!(kept.len() == 2 && kept.iter().all(|path| path.ends_with("run-01.prof")), "{kept:?}");
}
