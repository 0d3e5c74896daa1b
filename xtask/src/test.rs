//! `cargo xtask test`: the run of continuous integration, on a clean clone and a bare machine.
//!
//! Installs the tests' requirements, runs the steps of `check`, the tests of whole programs, the
//! tests of the manifests, the model checks and the smoke size of some benches, checks that the
//! fuzz targets compile, and ends with the line `N passed, N failed`: tests of cargo's harness,
//! including model checks, and one for each smoke bench. Any other failed step counts as one
//! failure.
//!
//! `--all` adds the tests that are ignored otherwise, the smoke size of every bench, real
//! applications, and `cargo xtask conformance tls`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use vermeil_bench::peers::vermeil::VermeilIo;
use vermeil_bench::serve::plan::ServedBy;

use crate::bench::{self, BenchName};
use crate::conformance::tls;
use crate::error::{Error, Result};
use crate::steps::{self, Steps, TestTally};
use crate::workspace::{Workspace, cargo};
use crate::{apps, bpf, check, fuzz, numa, packages};

/// Maximum number of preemptions of a model's threads. Two preemptions find nearly all bugs that
/// are found at all (CHESS, OSDI 2008) and take seconds here.
const LOOM_MAX_PREEMPTIONS: &str = "2";

/// The same for the canaries, which stop at the first failure, and for the long run: three
/// preemptions take half a minute, four take minutes.
const LOOM_MAX_PREEMPTIONS_LONG: &str = "3";

/// The benches of the short run: those of the parts that change most. The others take minutes.
const SHORT_BENCHES: [BenchName; 7] = [
    BenchName::Serve,
    BenchName::Runtime,
    BenchName::Tail,
    BenchName::Hosts,
    BenchName::Mechanisms,
    BenchName::Sim,
    BenchName::Load,
];

/// The servers of `bench serve` in the short run: ours, a peer and the least possible work.
const SHORT_SERVERS: [ServedBy; 3] =
    [ServedBy::Vermeil(VermeilIo::Uring), ServedBy::Nginx, ServedBy::Floor(VermeilIo::Uring)];

/// The arguments of `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Instead of everything: a single test from this list
    what: Option<TestKind>,
    /// Of `kill`: the duration.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Also the long tests: every end-to-end test on both I/O drivers, every bench, conformance
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Only the step of this name, for example `canaries`
    #[arg(long, value_name = "STEP", conflicts_with = "what")]
    only: Option<String>,
}

/// The separate tests.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TestKind {
    /// On an emulated machine with four memory nodes.
    Numa,
    /// Kills every process of programs at random, under load, for minutes.
    Kill,
}

/// Runs the command.
pub(crate) fn run(args: TestArgs) -> Result<()> {
    match args.what {
        Some(TestKind::Numa) => numa::run(),
        Some(TestKind::Kill) => kill(args.minutes),
        None => everything(args.only, args.all),
    }
}

fn everything(only: Option<String>, all: bool) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::only(only);
    steps.run("packages", packages::install);
    check::run_steps(&mut steps, &workspace.root);
    let root = &workspace.root;
    steps.run_tests("tests of programs", |tally| {
        // The tests of the pages start the examples.
        let mut examples = cargo();
        examples.args(["build", "--workspace", "--examples"]).current_dir(root);
        steps::run_command(&mut examples)?;
        let ignored: &[&str] = if all { &["--", "--include-ignored"] } else { &[] };
        check::tests(root, &[&["--test", "*"], ignored].concat(), tally)
    });
    steps.run_tests("examples of the documentation", |tally| check::tests(root, &["--doc"], tally));
    steps.run("kernel programs", bpf::check);
    steps.run("fuzz targets", fuzz::check);
    steps.run_tests("manifests", |tally| manifests(&workspace, tally));
    let preemptions = if all { LOOM_MAX_PREEMPTIONS_LONG } else { LOOM_MAX_PREEMPTIONS };
    steps.run_tests("models (loom)", |tally| models(&workspace, ModelChecker::Loom, preemptions, tally));
    steps
        .run_tests("models (shuttle)", |tally| models(&workspace, ModelChecker::Shuttle, preemptions, tally));
    steps.run_tests("canaries", |tally| canaries(&workspace, tally));
    if all {
        steps.run_tests("applications", apps::run_all);
        steps.run_tests("conformance tls", tls::all);
    }
    let (benches, servers): (&[BenchName], &[ServedBy]) =
        if all { (&BenchName::ALL, &[]) } else { (&SHORT_BENCHES, &SHORT_SERVERS) };
    for &name in benches {
        steps.run_tests(name.smoke_step(), |tally| {
            bench::smoke(name, servers)?;
            tally.passed += 1;
            Ok(())
        });
    }
    println!("\n{}", steps.table());
    let result = steps.result();
    if let Err(error) = &result {
        println!("{error}\n");
    }
    let TestTally { passed, failed, .. } = steps.tally();
    println!("{passed} passed, {failed} failed");
    result.map_err(|_said_above| Error::Reported)
}

/// The tests with random kills, which take seconds in the usual run, for minutes.
fn kill(minutes: u64) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut command = cargo();
    command.args(["test", "--package", "vermeil-e2e", "--test", "e2e", "kills::"]);
    // In sequence: two tests, on two drivers.
    command.args(["--", "--nocapture", "--test-threads=1"]).current_dir(&workspace.root);
    command.env("VERMEIL_KILL_SECONDS", (minutes * 60 / 4).to_string());
    steps::run_command(&mut command)
}

/// The manifests of `deploy`, compared with the schemas of Kubernetes.
fn manifests(workspace: &Workspace, tally: &mut TestTally) -> Result<()> {
    let folder = workspace.root.join("deploy/check");
    let mut command = cargo();
    command.args(["test", "--locked"]).current_dir(&folder);
    command.env("CARGO_TARGET_DIR", workspace.target.join("deploy"));
    steps::run_tests(&mut command, tally, &mut io::stdout())?;
    if tally.passed == 0 { Err(Error::form(folder.display(), "no test ran")) } else { Ok(()) }
}

/// The atomics with which the production files of `queue` are built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelChecker {
    /// Every interleaving and memory order of small scenarios.
    Loom,
    /// Random schedules of larger scenarios.
    Shuttle,
}

impl ModelChecker {
    fn name(self) -> &'static str {
        match self {
            Self::Loom => "loom",
            Self::Shuttle => "shuttle",
        }
    }
}

/// The model checks, in a separate build because the flag changes all crates.
fn models(
    workspace: &Workspace,
    checker: ModelChecker,
    preemptions: &str,
    tally: &mut TestTally,
) -> Result<()> {
    let mut command = models_command(workspace, checker);
    command.env("LOOM_MAX_PREEMPTIONS", preemptions);
    steps::run_tests(&mut command, tally, &mut io::stdout())?;
    if tally.passed == 0 { Err(Error::form("vermeil-queue", "no model ran")) } else { Ok(()) }
}

fn models_command(workspace: &Workspace, checker: ModelChecker) -> Command {
    let mut command = cargo();
    command.args(["test", "--package", "vermeil-queue", "--release", "--lib"]);
    command.current_dir(&workspace.root);
    let name = checker.name();
    command.env("CARGO_TARGET_DIR", workspace.target.join(name));
    command.env("RUSTFLAGS", format!("--cfg {name}"));
    // The models run for seconds, so link-time optimisation would cost more than it gains.
    command.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")]);
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    command
}

/// A bug that `crates/queue/src/canary.rs` can plant, the checker and the model that must notice
/// the bug, in milliseconds.
const CANARIES: [(&str, ModelChecker, &str); 41] = [
    ("announce-without-fence", ModelChecker::Loom, "model::parking::parking_loses_no_wake_up"),
    ("wake-without-fence", ModelChecker::Loom, "model::parking::parking_loses_no_wake_up"),
    ("wake-without-fence", ModelChecker::Loom, "model::parking::sleeping_core_misses_no_changed_word"),
    ("second-token", ModelChecker::Loom, "model::color::three_producers_one_event_each"),
    ("take-in-two-steps", ModelChecker::Loom, "model::color::two_producers_run_the_posted_events"),
    ("own-post-overtakes", ModelChecker::Loom, "model::color::nothing_that_was_seen_is_passed"),
    ("newest-first", ModelChecker::Loom, "model::color::two_producers_run_the_posted_events"),
    ("relaxed-count", ModelChecker::Loom, "model::color::two_producers_run_the_posted_events"),
    ("clear-after-run", ModelChecker::Loom, "model::task_cell::a_post_during_the_run_is_not_lost"),
    ("take-lifo-slot-in-two-steps", ModelChecker::Loom, "model::lifo_slot::lifo_slot_gives_its_token_once"),
    ("relaxed-result", ModelChecker::Loom, "model::result_cell::reader_gets_the_result_or_a_wake_up"),
    (
        "count-entered-first",
        ModelChecker::Loom,
        "model::in_flight::drain_never_sees_zero_while_events_remain",
    ),
    ("leave-unseen", ModelChecker::Loom, "model::in_flight::leaving_event_wakes_the_waiter_for_room"),
    (
        "begin-search-without-fence",
        ModelChecker::Loom,
        "model::idle::searcher_finds_tokens_of_producers_that_skip_wakes",
    ),
    (
        "end-search-without-fence",
        ModelChecker::Loom,
        "model::idle::token_queued_during_search_is_found_or_wakes_a_core",
    ),
    ("overwrite-without-fence", ModelChecker::Loom, "model::trace_ring::ring_reader_sees_whole_records"),
    ("move-after-lock", ModelChecker::Loom, "model::migration::entries_move_with_the_stolen_color"),
    ("queue-entry-without-look", ModelChecker::Loom, "model::migration::entries_move_with_the_stolen_color"),
    (
        "steal-without-move",
        ModelChecker::Loom,
        "model::migration::stolen_color_runs_each_event_once_in_order",
    ),
    ("end-duty-without-fence", ModelChecker::Loom, "model::idle::watcher_that_runs_misses_no_token"),
    ("read-migration-before-lock", ModelChecker::Loom, "model::migration::queued_color_migrates_at_once"),
    (
        "take-migration-in-two-steps",
        ModelChecker::Loom,
        "model::migration::the_last_migration_request_counts",
    ),
    (
        "ask-for-end-before-lock",
        ModelChecker::Loom,
        "model::migration::nothing_is_left_in_a_queue_after_the_end",
    ),
    ("acquire-without-order", ModelChecker::Loom, "model::multi_acquire::acquisitions_have_one_order"),
    (
        "count-before-acquired",
        ModelChecker::Loom,
        "model::multi_acquire::last_acquired_color_runs_all_colors",
    ),
    ("ask-twice", ModelChecker::Loom, "model::attachment::old_core_is_asked_once"),
    ("take-askers-first", ModelChecker::Loom, "model::attachment::asking_task_gets_the_object_or_is_woken"),
    ("leave-address", ModelChecker::Loom, "model::attachment::object_is_used_by_one_core_at_a_time"),
    ("drop-during-move", ModelChecker::Loom, "model::attachment::drop_during_a_move_closes_once"),
    ("forget-own-waiter", ModelChecker::Loom, "model::attachment::task_that_waits_in_the_driver_is_woken"),
    ("wait-without-look", ModelChecker::Loom, "model::fair_semaphore::every_waiter_gets_the_permit_alone"),
    (
        "return-permit-in-two-steps",
        ModelChecker::Loom,
        "model::fair_semaphore::every_waiter_gets_the_permit_alone",
    ),
    ("relaxed-permit", ModelChecker::Loom, "model::fair_semaphore::every_waiter_gets_the_permit_alone"),
    ("leave-mark", ModelChecker::Loom, "model::fair_semaphore::waiter_that_leaves_loses_no_permit"),
    // Bugs that show without weak memory, in the larger scenarios.
    ("second-token", ModelChecker::Shuttle, "shuttle_tests::posts_steals_moves_and_sleep"),
    ("take-in-two-steps", ModelChecker::Shuttle, "shuttle_tests::posts_steals_moves_and_sleep"),
    ("newest-first", ModelChecker::Shuttle, "shuttle_tests::posts_steals_moves_and_sleep"),
    ("steal-without-move", ModelChecker::Shuttle, "shuttle_tests::posts_steals_moves_and_sleep"),
    ("move-after-lock", ModelChecker::Shuttle, "shuttle_tests::entries_among_steals_and_sleep"),
    ("queue-entry-without-look", ModelChecker::Shuttle, "shuttle_tests::entries_among_steals_and_sleep"),
    ("acquire-without-order", ModelChecker::Shuttle, "shuttle_tests::acquisitions_among_events"),
];

/// Runs each model with its planted bug: the model must fail.
///
/// The test programs are built already, so each canary starts a test program directly, as many in
/// parallel as there are cpus.
fn canaries(workspace: &Workspace, tally: &mut TestTally) -> Result<()> {
    let programs = [ModelChecker::Loom, ModelChecker::Shuttle]
        .map(|checker| test_program(workspace, checker).map(|program| (checker, program)));
    let [loom, shuttle] = programs;
    let programs = [loom?, shuttle?];
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        while let Some(&(bug, checker, model)) = CANARIES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (_, program) = programs.iter().find(|(of, _)| *of == checker).expect("both are built");
            let outcome = canary(program, bug, checker, model);
            outcomes.lock().expect("no canary panics").push(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().expect("no canary panics");
    tally.passed += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let missed: Vec<String> = outcomes.into_iter().filter_map(|it| Some(it.err()?.to_string())).collect();
    tally.failed += missed.len();
    Error::unless_empty(missed)
}

/// Runs `model` in `program` with `bug` planted.
fn canary(program: &Path, bug: &str, checker: ModelChecker, model: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.env("LOOM_MAX_PREEMPTIONS", LOOM_MAX_PREEMPTIONS_LONG);
    command.env("VERMEIL_CANARY", bug).args(["--exact", model]);
    let output = command.output().map_err(Error::path("start", program))?;
    let said = String::from_utf8_lossy(&output.stdout);
    // A bug may end the whole process, so the exit status counts and not the verdict of each test.
    if !said.lines().any(|line| line == "running 1 test") {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::form(
            model,
            format!("did not run with {bug} planted; does the model exist? {why}"),
        ));
    }
    if output.status.success() {
        let checker = checker.name();
        return Err(Error::form(bug, format!("planted, and {checker} did not notice it: {model}")));
    }
    println!("{bug}: noticed by {}, {model}", checker.name());
    Ok(())
}

/// The program with the models for `checker`; cargo builds the program if necessary.
fn test_program(workspace: &Workspace, checker: ModelChecker) -> Result<PathBuf> {
    let mut command = models_command(workspace, checker);
    command.args(["--no-run", "--message-format", "json"]).stderr(Stdio::inherit());
    let output = command.output().map_err(Error::path("start", Path::new("cargo")))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().ok_or_else(|| Error::form("vermeil-queue", "cargo built no test program"))
}
