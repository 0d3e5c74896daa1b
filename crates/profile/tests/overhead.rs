//! The cost of a recording for the subject, in interleaved windows of one run, beside the cost of
//! `perf record` at the same rate, which is the floor; and the cost of counts of work for a server.
//!
//! Ignored in the usual run, because a minute of rounds says more than a second, and a busy machine
//! says nothing: `cargo test -p vermeil-profile costs -- --ignored --nocapture`.
//! The subject computes, or two threads hand each other a turn, the worst case for waits. A window
//! begins when the recorder has sampled for a moment, so the start of a recorder costs nothing.

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use vermeil_io::WorkPage;
use vermeil_profile::statistics::Estimate;
use vermeil_profile::{HardwareSet, ProfileError, RecordOptions, Stacks, Subject, record};

const ROUNDS: usize = 24;
/// The time in which the cost of a unit of work is measured. Short, because the middle of many
/// pairs leaves out the moments in which other programs run.
const WINDOW: Duration = Duration::from_millis(200);
/// From the first bytes of a recorder's file, or the end of a recorder, to a window.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest wait for a recorder or for the subject.
const PATIENCE: Duration = Duration::from_secs(20);
/// The greatest cost for the subject at the default rate. On a virtual machine the interrupt of the
/// timer alone takes 1.5 %.
const SHARE_MAX: f64 = 0.02;
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
const PERF_FRAMES: NamedRecorder = ("perf record -g", CostedRecorder::Perf(&["-g"]));
const PERF_DUMPS: NamedRecorder =
    ("perf record, 16 KiB", CostedRecorder::Perf(&["--call-graph", "dwarf,16384"]));

/// Waits until a recorder's file has bytes and the recorder has sampled for a moment. `false` if
/// the recorder has ended before.
fn samples(output: &Path, mut has_ended: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    // The events are opened before the header of the file is written.
    while !std::fs::metadata(output).is_ok_and(|found| found.len() > 0) {
        if has_ended() || Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(SETTLE);
    true
}

/// A line of the subject's meter.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: f64,
    work: f64,
    cpu_ns: f64,
}

impl Reading {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["at_ns", at_ns, "work", work, "cpu_ns", cpu_ns] = words[..] else { return None };
        Some(Self { at_ns: at_ns.parse().ok()?, work: work.parse().ok()?, cpu_ns: cpu_ns.parse().ok()? })
    }
}

/// The cpu time of a window.
#[derive(Clone, Copy)]
struct WindowCost {
    /// The cpu time of the subject for a unit of work, with the interrupts in it.
    unit_ns: f64,
    /// The cpu time of the recorder for each nanosecond.
    recorder: f64,
}

/// The cpu time of a thread so far, in nanoseconds.
fn thread_cpu_ns(pid: u32, tid: i32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// A subject that runs until the end of the test, with the readings of its meter.
struct MeteredSubject {
    child: Child,
    readings: Arc<Mutex<Vec<Reading>>>,
}

impl MeteredSubject {
    fn start(words: [&str; 2]) -> Self {
        let here = std::env::current_exe().unwrap();
        let planted: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/planted");
        let mut command = Command::new(planted);
        command.args(words).args(["3600", "meter"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let readings: Arc<Mutex<Vec<Reading>>> = Arc::default();
        let (lines, kept) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&readings));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().extend(Reading::parse(&line));
            }
        });
        Self { child, readings }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The cost of a window from now on, under a recorder with this cpu time.
    fn window(&self, recorder_ns: impl Fn() -> f64) -> WindowCost {
        let last = || self.readings.lock().unwrap().last().copied();
        let next = |earliest_ns: f64| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                if let Some(reading) = last().filter(|reading| reading.at_ns >= earliest_ns) {
                    return reading;
                }
                assert!(Instant::now() < deadline, "the subject shows no work");
                thread::sleep(Duration::from_millis(5));
            }
        };
        let first = next(nanoseconds(ClockId::Monotonic) as f64);
        let (began, began_ns) = (recorder_ns(), nanoseconds(ClockId::Monotonic));
        thread::sleep(WINDOW);
        let end = next(first.at_ns + WINDOW.as_nanos() as f64);
        let passed_ns = nanoseconds(ClockId::Monotonic) - began_ns;
        WindowCost {
            unit_ns: (end.cpu_ns - first.cpu_ns) / (end.work - first.work),
            recorder: (recorder_ns() - began) / passed_ns as f64,
        }
    }

    /// The same without a recorder.
    fn bare_window(&self) -> WindowCost {
        thread::sleep(SETTLE);
        self.window(|| 0.0)
    }

    /// The same under a recorder; `None` without perf.
    fn recorded_window(
        &self,
        recorder: CostedRecorder,
        output: &Path,
    ) -> Result<Option<WindowCost>, ProfileError> {
        let _absent = std::fs::remove_file(output);
        match recorder {
            CostedRecorder::Perf(words) => Ok(self.window_under_perf(words, output)),
            CostedRecorder::Own { stacks, waits } => {
                let options = own_options(self.pid(), stacks, waits, None, output);
                let stop = AtomicBool::new(false);
                let tid = AtomicI32::new(0);
                let recorder_ns = || thread_cpu_ns(std::process::id(), tid.load(Ordering::Relaxed));
                thread::scope(|scope| {
                    let recording = scope.spawn(|| {
                        tid.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                        record(&options, &stop)
                    });
                    let is_over = || recording.is_finished();
                    let window = samples(output, is_over).then(|| self.window(recorder_ns));
                    stop.store(true, Ordering::Relaxed);
                    recording.join().expect("a recording does not panic").map(|_recorded| window)
                })
            }
        }
    }

    fn window_under_perf(&self, words: &[&str], output: &Path) -> Option<WindowCost> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "--no-buildid", "-e", "cpu-clock", "-F", "997"]).args(words);
        let mut perf = command.arg("-o").arg(output).stderr(Stdio::null()).spawn().ok()?;
        let pid = perf.id();
        let is_over = || !matches!(perf.try_wait(), Ok(None));
        let recorder_ns = || thread_cpu_ns(pid, pid as i32);
        let window = samples(output, is_over).then(|| self.window(recorder_ns));
        let _gone = kill_process(Pid::from_child(&perf), Signal::INT);
        perf.wait().unwrap();
        window
    }
}

fn own_options(
    pid: i32,
    stacks: Stacks,
    waits: bool,
    duration: Option<Duration>,
    output: &Path,
) -> RecordOptions {
    RecordOptions {
        subject: Subject::Process(pid),
        hz: 997,
        duration,
        output: output.to_owned(),
        hardware: HardwareSet::Ipc,
        stacks,
        waits,
    }
}

impl Drop for MeteredSubject {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The costs of a recorder in one round, against the windows before and after.
#[derive(Clone, Copy)]
struct RoundCost {
    /// The share of the cpu time of a unit of work.
    subject: f64,
    /// The cpu time of the recorder, as a share of one cpu.
    recorder: f64,
}

/// The costs of each recorder in all rounds.
fn costs(subject: [&str; 2], recorders: &[NamedRecorder]) -> Result<Vec<Vec<RoundCost>>, ProfileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    let mut costs = vec![Vec::new(); recorders.len()];
    let subject = MeteredSubject::start(subject);
    let mut before = subject.bare_window();
    for round in 0..ROUNDS {
        for place in 0..recorders.len() {
            // Each round begins with another recorder.
            let index = (place + round) % recorders.len();
            let recorded = subject.recorded_window(recorders[index].1, &path)?;
            let after = subject.bare_window();
            costs[index].extend(recorded.map(|recorded| RoundCost {
                subject: 2.0 * recorded.unit_ns / (before.unit_ns + after.unit_ns) - 1.0,
                recorder: recorded.recorder,
            }));
            before = after;
        }
    }
    Ok(costs)
}

/// Prints the costs of recorders. The subject keeps as many cpus busy as it has threads, so the
/// recorder takes its own cpu time from the subject at worst.
fn expect_little_cost(subject: [&str; 2], recorders: &[NamedRecorder], share_max: f64) {
    let costs = match costs(subject, recorders) {
        Ok(costs) => costs,
        Err(error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_))) => {
            return eprintln!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    let [kind, threads] = subject;
    let cpus: f64 = threads.parse().expect("the threads of a subject are a number");
    let mut too_much: Vec<&str> = Vec::new();
    for ((name, recorder), costs) in recorders.iter().zip(costs) {
        let of = |share: &dyn Fn(&RoundCost) -> f64| Estimate::of_middle(costs.iter().map(share).collect());
        let subject = of(&|cost| cost.subject);
        let all = of(&|cost| cost.subject + cost.recorder / cpus);
        let (Some(subject), Some(own), Some(all)) = (subject, of(&|cost| cost.recorder), all) else {
            eprintln!("{kind} {threads}: {name}: skipped, perf is missing");
            continue;
        };
        let text = |cost: &Estimate| {
            let [mean, low, high] = [cost.mean, cost.low, cost.high].map(|share| 100.0 * share);
            format!("{mean:.2} % [{low:.2} to {high:.2}]")
        };
        eprintln!(
            "{kind} {threads}: {name}: subject {}, recorder {} of a cpu, together {} of the cpus, {} pairs",
            text(&subject),
            text(&own),
            text(&all),
            costs.len()
        );
        let is_own = matches!(recorder, CostedRecorder::Own { .. });
        too_much.extend((is_own && subject.low > share_max).then_some(name));
    }
    assert!(too_much.is_empty(), "more than {share_max} of the subject: {too_much:?}");
}

#[test]
#[ignore = "takes a minute and a half, and a quiet machine"]
fn recording_costs_its_subject_as_little_as_perf() {
    expect_little_cost(["none", "1"], &[TABLES, FRAMES, PERF_FRAMES, PERF_DUMPS], SHARE_MAX);
}

/// A subject that keeps two cpus busy, so that the recorder takes its own cpu time from the
/// subject.
#[test]
#[ignore = "takes a minute, and a quiet machine with two cpus"]
fn recording_costs_busy_machine_as_little_as_perf() {
    expect_little_cost(["none", "2"], &[TABLES, FRAMES, PERF_FRAMES], SHARE_MAX);
}

#[test]
#[ignore = "takes a minute, and a quiet machine"]
fn recording_of_waits_costs_its_subject_little() {
    expect_little_cost(["none", "1"], &[WAITS], SHARE_MAX);
    expect_little_cost(["relay", "2"], &[TABLES, WAITS], RELAY_SHARE_MAX);
}

/// The cpu time that the recorder itself takes, without the interrupts of the samples.
#[test]
#[ignore = "takes ten seconds"]
fn recorder_takes_little_cpu_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.prof");
    for subject in [["none", "1"], ["none", "2"], ["deep", "2"]] {
        for (name, recorder) in [TABLES, FRAMES] {
            let metered = MeteredSubject::start(subject);
            let CostedRecorder::Own { stacks, waits } = recorder else { continue };
            let options = own_options(metered.pid(), stacks, waits, Some(Duration::from_secs(2)), &path);
            let summary = match record(&options, &AtomicBool::new(false)) {
                Ok(recorded) => recorded.summary,
                Err(error) => return eprintln!("skipped: {error}"),
            };
            let share = 100.0 * summary.own_cpu.as_secs_f64() / summary.duration.as_secs_f64();
            let each_us = summary.own_cpu.as_secs_f64() * 1e6 / summary.samples as f64;
            let samples = summary.samples;
            eprintln!("{subject:?}: {name}: {share:.3} % of a cpu, {samples} samples, {each_us:.2} us each");
        }
    }
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
            let began = nanoseconds(ClockId::ThreadCPUTime);
            for number in 0..REQUESTS {
                if black_box(is_counted) {
                    core.count_request();
                    core.count_body(4096);
                    core.show_loop(number, number, 0);
                }
            }
            (nanoseconds(ClockId::ThreadCPUTime) - began) as f64 / REQUESTS as f64
        };
        let costs = (0..ROUNDS).map(|_| -request_ns(false) + request_ns(true)).collect();
        is_over.store(true, Ordering::Relaxed);
        costs
    });
    assert_eq!(core.requests(), REQUESTS * ROUNDS as u64);
    let Estimate { mean, low, high, .. } = Estimate::of_repetitions(&costs).unwrap();
    eprintln!("the counts of a request: {mean:.2} ns [{low:.2} to {high:.2} ns]");
}
