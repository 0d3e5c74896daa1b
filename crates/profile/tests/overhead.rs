//! The cost of a recording for the subject, in interleaved rounds of runs, beside the cost of
//! `perf record` at the same rate, which is the floor; and the cost of counts of work for a server.
//!
//! Ignored in the usual run, because a minute of rounds says more than a second, and a busy machine
//! says nothing: `cargo test -p vermeil-profile costs -- --ignored --nocapture`.
//! The subject computes, or two threads hand each other a turn, the worst case for waits.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use vermeil_io::WorkPage;
use vermeil_profile::statistics::Estimate;
use vermeil_profile::{HardwareSet, ProfileError, RecordOptions, Stacks, Subject, record};

const ROUNDS: usize = 30;
/// The greatest cost for the subject at the default rate. On a virtual machine the interrupt of the
/// timer alone takes about 2 %.
const SHARE_MAX: f64 = 0.05;
/// The same for a subject that does nothing but switch threads.
const RELAY_SHARE_MAX: f64 = 0.5;

/// A recorder of the subject.
#[derive(Clone, Copy)]
enum CostedRecorder {
    Own {
        stacks: Stacks,
        waits: bool,
    },
    /// `perf record` at the same rate with these words, on all cpus as our own.
    Perf(&'static [&'static str]),
}

/// A recorder with the name of the row.
type NamedRecorder = (&'static str, CostedRecorder);

const TABLES: NamedRecorder = ("tables", CostedRecorder::Own { stacks: Stacks::Tables, waits: false });
const FRAMES: NamedRecorder = ("frames", CostedRecorder::Own { stacks: Stacks::Frames, waits: false });
const WAITS: NamedRecorder =
    ("tables and waits", CostedRecorder::Own { stacks: Stacks::Tables, waits: true });
const PERF: NamedRecorder = ("perf record", CostedRecorder::Perf(&[]));
const PERF_FRAMES: NamedRecorder = ("perf record -g", CostedRecorder::Perf(&["-g"]));
const PERF_DUMPS: NamedRecorder =
    ("perf record, 16 KiB", CostedRecorder::Perf(&["--call-graph", "dwarf,16384"]));

/// Starts perf and waits until perf samples; `None` where perf is not installed or not permitted.
fn start_perf(words: &[&str], output: &Path) -> Option<Child> {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-a", "-e", "cpu-clock", "-F", "997"]).args(words);
    let mut perf = command.arg("-o").arg(output).stderr(Stdio::null()).spawn().ok()?;
    // perf opens the events first, and then writes the header of the file.
    let begins = || std::fs::metadata(output).is_ok_and(|found| found.len() > 0);
    while perf.try_wait().ok()?.is_none() {
        if begins() {
            return Some(perf);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// The cpu time of a unit of work under a recorder; `None` without perf.
fn unit_ns(
    subject: [&str; 2],
    recorder: Option<CostedRecorder>,
    output: &Path,
) -> Result<Option<f64>, ProfileError> {
    let here = std::env::current_exe().unwrap();
    let planted: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/planted");
    let perf = match recorder {
        Some(CostedRecorder::Perf(words)) => {
            let _absent = std::fs::remove_file(output);
            let Some(perf) = start_perf(words, output) else { return Ok(None) };
            Some(perf)
        }
        _ => None,
    };
    let child = Command::new(planted).args(subject).arg("0.5").stdout(Stdio::piped()).spawn().unwrap();
    if let Some(CostedRecorder::Own { stacks, waits }) = recorder {
        let options = RecordOptions {
            subject: Subject::Process(child.id() as i32),
            hz: 997,
            duration: None,
            output: output.to_owned(),
            hardware: HardwareSet::Ipc,
            stacks,
            waits,
        };
        if let Err(error) = record(&options, &AtomicBool::new(false)) {
            let _ended = child.wait_with_output();
            return Err(error);
        }
    }
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    if let Some(mut perf) = perf {
        kill_process(Pid::from_child(&perf), Signal::INT).unwrap();
        perf.wait().unwrap();
    }
    let number = |name: &str| -> f64 {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).unwrap().parse().unwrap()
    };
    Ok(Some(number("cpu_ns") / number("work")))
}

/// Cpu time of this thread.
fn thread_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The cost of each recorder for the subject, against the runs before and after without a recorder.
fn costs(subject: [&str; 2], recorders: &[NamedRecorder]) -> Result<Vec<Option<Estimate>>, ProfileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); recorders.len()];
    let bare = || Ok(unit_ns(subject, None, &path)?.expect("no recorder can be missing"));
    let mut before: f64 = bare()?;
    for round in 0..ROUNDS {
        for place in 0..recorders.len() {
            // Each round begins with another recorder.
            let index = (place + round) % recorders.len();
            let recorded = unit_ns(subject, Some(recorders[index].1), &path)?;
            let after = bare()?;
            costs[index].extend(recorded.map(|recorded| 2.0 * recorded / (before + after) - 1.0));
            before = after;
        }
    }
    Ok(costs.iter().map(|costs| Estimate::of_repetitions(costs)).collect())
}

fn expect_little_cost(subject: [&str; 2], recorders: &[NamedRecorder], share_max: f64) {
    let costs = match costs(subject, recorders) {
        Ok(costs) => costs,
        Err(error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_))) => {
            return eprintln!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    for ((name, recorder), cost) in recorders.iter().zip(costs) {
        let Some(cost) = cost else {
            eprintln!("{}: {name}: skipped, perf is missing", subject[0]);
            continue;
        };
        let [mean, low, high] = [cost.mean, cost.low, cost.high].map(|share| 100.0 * share);
        eprintln!("{}: {name}: {mean:.2} % [{low:.2} to {high:.2} %] for the subject", subject[0]);
        let is_own = matches!(recorder, CostedRecorder::Own { .. });
        assert!(!is_own || cost.low <= share_max, "{name}: {cost:?}");
    }
}

#[test]
#[ignore = "takes three minutes, and a quiet machine"]
fn recording_costs_its_subject_as_little_as_perf() {
    expect_little_cost(["none", "1"], &[TABLES, FRAMES, PERF, PERF_FRAMES, PERF_DUMPS], SHARE_MAX);
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn recording_of_waits_costs_its_subject_little() {
    expect_little_cost(["none", "1"], &[WAITS], SHARE_MAX);
    expect_little_cost(["relay", "2"], &[TABLES, WAITS], RELAY_SHARE_MAX);
}

/// The counts on the path of a request: the request, a body and a turn of the event loop, while a
/// thread reads the counts as often as a recorder.
#[test]
#[ignore = "takes two seconds, and a quiet machine"]
fn counting_work_costs_nanoseconds() {
    const REQUESTS: u64 = 10_000_000;
    let page = WorkPage::create(&[0]);
    let core = &page.cores()[0];
    let is_over = AtomicBool::new(false);
    let costs: Vec<f64> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                black_box(core.counts());
                thread::sleep(Duration::from_millis(10));
            }
        });
        let request_ns = |is_counted: bool| {
            let began = thread_ns();
            for number in 0..REQUESTS {
                if black_box(is_counted) {
                    core.count_request();
                    core.count_body(4096);
                    core.show_loop(number, number, 0);
                }
            }
            (thread_ns() - began) as f64 / REQUESTS as f64
        };
        let costs = (0..ROUNDS).map(|_| -request_ns(false) + request_ns(true)).collect();
        is_over.store(true, Ordering::Relaxed);
        costs
    });
    assert_eq!(core.requests(), REQUESTS * ROUNDS as u64);
    let Estimate { mean, low, high, .. } = Estimate::of_repetitions(&costs).unwrap();
    eprintln!("the counts of a request: {mean:.2} ns [{low:.2} to {high:.2} ns]");
}
