//! The cost of a recording for its subject and for the machine, in interleaved pairs of runs.
//!
//! Ignored in the usual run, because a minute of pairs says more than a second, and a busy machine
//! says nothing: `cargo test -p vermeil-profile recording_costs -- --ignored --nocapture`.
//! The subject computes, or two threads hand each other a turn, the worst case for waits.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::time::{ClockId, clock_gettime};
use vermeil_profile::statistics::Estimate;
use vermeil_profile::{HardwareSet, ProfileError, RecordOptions, Stacks, Subject, record};

const PAIRS: usize = 30;
/// The greatest cost for the subject at the default rate. On a virtual machine the interrupt of the
/// timer alone takes about 2 %.
const SHARE_MAX: f64 = 0.05;
/// The same for a subject that does nothing but switch threads.
const RELAY_SHARE_MAX: f64 = 0.5;

/// A run of the subject.
struct SubjectRun {
    /// Cpu time of a unit of work, in nanoseconds.
    unit_ns: f64,
    /// Cpu time of the recorder, as a share of the subject's.
    recorder: f64,
}

/// What is recorded of which subject.
#[derive(Clone, Copy)]
struct CostCase {
    name: &'static str,
    /// The fault and the threads of the planted program.
    subject: [&'static str; 2],
    stacks: Stacks,
    waits: bool,
    /// The greatest cost for the subject that passes.
    share_max: f64,
}

fn run(case: &CostCase, is_recorded: bool, output: &Path) -> Result<SubjectRun, ProfileError> {
    let here = std::env::current_exe().unwrap();
    let planted: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/planted");
    let mut command = Command::new(planted);
    let child = command.args(case.subject).arg("0.5").stdout(Stdio::piped()).spawn().unwrap();
    let began = thread_ns();
    if is_recorded {
        let options = RecordOptions {
            subject: Subject::Process(child.id() as i32),
            hz: 997,
            duration: None,
            output: output.to_owned(),
            hardware: HardwareSet::Ipc,
            stacks: case.stacks,
            waits: case.waits,
        };
        if let Err(error) = record(&options, &AtomicBool::new(false)) {
            let _ended = child.wait_with_output();
            return Err(error);
        }
    }
    let recorder_ns = thread_ns() - began;
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let number = |name: &str| -> f64 {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).unwrap().parse().unwrap()
    };
    let cpu_ns = number("cpu_ns");
    Ok(SubjectRun { unit_ns: cpu_ns / number("work"), recorder: recorder_ns as f64 / cpu_ns })
}

/// Cpu time of this thread, which records.
fn thread_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The cost of a recording for the subject, and the recorder's share, over all pairs.
fn measured(case: &CostCase, output: &Path) -> Result<(Estimate, f64), ProfileError> {
    let (mut costs, mut recorder) = (Vec::new(), 0.0);
    for pair in 0..PAIRS {
        // Each order equally often, because the second run of a pair may find warmer caches.
        let is_first = pair % 2 == 1;
        let (first, second) = (run(case, is_first, output)?, run(case, !is_first, output)?);
        let (recorded, bare) = if is_first { (first, second) } else { (second, first) };
        costs.push(recorded.unit_ns / bare.unit_ns - 1.0);
        recorder += recorded.recorder / PAIRS as f64;
    }
    Ok((Estimate::of_repetitions(&costs).unwrap(), recorder))
}

#[test]
#[ignore = "takes two minutes, and a quiet machine"]
fn recording_costs_its_subject_little() {
    let folder = tempfile::tempdir().unwrap();
    let compute = ["none", "1"];
    let relay = ["relay", "2"];
    let case = |name, subject, stacks, waits, share_max| CostCase { name, subject, stacks, waits, share_max };
    for case in [
        case("tables", compute, Stacks::Tables, false, SHARE_MAX),
        case("frames", compute, Stacks::Frames, false, SHARE_MAX),
        case("tables and waits", compute, Stacks::Tables, true, SHARE_MAX),
        case("relay, tables", relay, Stacks::Tables, false, RELAY_SHARE_MAX),
        case("relay, tables and waits", relay, Stacks::Tables, true, RELAY_SHARE_MAX),
    ] {
        // The recorder starts threads and reads names; a thread of its own has a clock of its own.
        let (name, path) = (case.name, folder.path().join("r.prof"));
        let measured = thread::spawn(move || measured(&case, &path)).join().unwrap();
        let (cost, recorder) = match measured {
            Ok(measured) => measured,
            Err(error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_))) => {
                return eprintln!("skipped: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        eprintln!(
            "{name}: {:.2} % [{:.2} to {:.2} %] for the subject in {PAIRS} pairs; recorder {:.2} % of one cpu",
            100.0 * cost.mean,
            100.0 * cost.low,
            100.0 * cost.high,
            100.0 * recorder
        );
        assert!(cost.low <= case.share_max, "{name}: {cost:?}");
    }
}
