//! `cargo xtask test`: what continuous integration runs, on a clean clone and a bare machine.
//!
//! Installs what the tests need, runs the steps of `check`, the tests of the manifests, the model checks and the smoke size of every bench, and ends
//! with the line `N passed, N failed`: tests of cargo's harness, model checks among them, and one for each smoke bench.
//! Any other step that fails counts as one failed.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::bench::{self, Name};
use crate::error::{Error, Result};
use crate::steps::{self, Steps, Tally};
use crate::workspace::{Workspace, cargo};
use crate::{bpf, check, dokuwiki, numa, packages};

/// How many times a model's thread may be switched away from while it could go on. Two finds nearly all bugs that are
/// found at all (CHESS, OSDI 2008); three takes seconds here, four takes minutes.
const LOOM_MAX_PREEMPTIONS: &str = "3";

/// What is to be tested.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Instead of everything: one of these by itself
    what: Option<What>,
    /// Of `kill`: how long it takes.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
}

/// What is tested by itself.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// On an emulated machine with four memory nodes.
    Numa,
    /// Kills everything that runs programs at random, under load, for minutes.
    Kill,
    /// A wiki in PHP, used through a real browser.
    Dokuwiki,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    match args.what {
        Some(What::Numa) => numa::run(),
        Some(What::Kill) => kill(args.minutes),
        Some(What::Dokuwiki) => dokuwiki::run(),
        None => everything(),
    }
}

fn everything() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run("packages", packages::install);
    check::run_steps(&mut steps, &workspace.root);
    steps.run("kernel programs", bpf::check);
    steps.run_tests("manifests", |tally| manifests(&workspace, tally));
    steps.run_tests("models (loom)", |tally| models(&workspace, Checker::Loom, tally));
    steps.run_tests("models (shuttle)", |tally| models(&workspace, Checker::Shuttle, tally));
    steps.run_tests("canaries", |tally| canaries(&workspace, tally));
    for name in Name::ALL {
        steps.run_tests(name.smoke_step(), |tally| {
            bench::smoke(name, &[])?;
            tally.passed += 1;
            Ok(())
        });
    }
    println!("\n{}", steps.table());
    let result = steps.result();
    if let Err(error) = &result {
        println!("{error}\n");
    }
    let Tally { passed, failed } = steps.tally();
    println!("{passed} passed, {failed} failed");
    result.map_err(|_said_above| Error::Reported)
}

/// The tests that kill at random, which take seconds among the others, for minutes.
fn kill(minutes: u64) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut command = cargo();
    command.args(["test", "--package", "vermeil-cli", "--test", "e2e", "kills::"]);
    // One after the other: two tests, on two drivers.
    command.args(["--", "--nocapture", "--test-threads=1"]).current_dir(&workspace.root);
    command.env("VERMEIL_KILL_SECONDS", (minutes * 60 / 4).to_string());
    steps::run_command(&mut command)
}

/// The manifests of `deploy`, compared with what Kubernetes says its objects are.
fn manifests(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let folder = workspace.root.join("deploy/check");
    let mut command = cargo();
    command.args(["test", "--locked"]).current_dir(&folder);
    command.env("CARGO_TARGET_DIR", workspace.target.join("deploy"));
    steps::run_tests(&mut command, tally, &mut io::stdout())?;
    if tally.passed == 0 { Err(Error::form(folder.display(), "no test ran")) } else { Ok(()) }
}

/// Whose atomics the production files of `queue` are built with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checker {
    /// Every interleaving and memory order of small scenarios.
    Loom,
    /// Schedules drawn at random, of larger ones.
    Shuttle,
}

impl Checker {
    fn name(self) -> &'static str {
        match self {
            Self::Loom => "loom",
            Self::Shuttle => "shuttle",
        }
    }
}

/// The model checks, built apart because the flag changes all crates.
fn models(workspace: &Workspace, checker: Checker, tally: &mut Tally) -> Result<()> {
    steps::run_tests(&mut models_command(workspace, checker), tally, &mut io::stdout())?;
    if tally.passed == 0 { Err(Error::form("vermeil-queue", "no model ran")) } else { Ok(()) }
}

fn models_command(workspace: &Workspace, checker: Checker) -> Command {
    let mut command = cargo();
    command.args(["test", "--package", "vermeil-queue", "--release", "--lib"]);
    command.current_dir(&workspace.root);
    let name = checker.name();
    command.env("CARGO_TARGET_DIR", workspace.target.join(name));
    command.env("RUSTFLAGS", format!("--cfg {name}")).env("LOOM_MAX_PREEMPTIONS", LOOM_MAX_PREEMPTIONS);
    // They run for seconds: what linking everything together would win is less than it takes.
    command.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")]);
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    command
}

/// A bug that `crates/queue/src/canary.rs` can plant, who shall notice it, and the model that shall: by itself, in milliseconds.
const CANARIES: [(&str, Checker, &str); 30] = [
    ("announce-without-fence", Checker::Loom, "model::parking::no_wake_up_is_lost"),
    ("wake-without-fence", Checker::Loom, "model::parking::no_wake_up_is_lost"),
    ("second-token", Checker::Loom, "model::color::three_producers_one_event_each"),
    ("take-in-two-steps", Checker::Loom, "model::color::two_producers_run_what_they_are_given"),
    ("own-overtakes", Checker::Loom, "model::color::nothing_that_was_seen_is_passed"),
    ("newest-first", Checker::Loom, "model::color::two_producers_run_what_they_are_given"),
    ("relaxed-count", Checker::Loom, "model::color::two_producers_run_what_they_are_given"),
    ("clear-after-run", Checker::Loom, "model::repeat::a_post_during_the_run_is_not_lost"),
    ("take-kept-in-two-steps", Checker::Loom, "model::kept::a_kept_token_is_taken_once"),
    ("relaxed-outcome", Checker::Loom, "model::outcome::who_asks_gets_it_or_is_woken"),
    ("count-come-first", Checker::Loom, "model::tally::who_waits_for_the_end_is_not_told_too_early"),
    ("goes-unseen", Checker::Loom, "model::tally::who_waits_for_fewer_is_not_missed"),
    ("begin-search-without-fence", Checker::Loom, "model::lookout::who_finds_a_search_begun_is_found_by_it"),
    (
        "end-search-without-fence",
        Checker::Loom,
        "model::lookout::what_is_queued_during_a_search_is_found_or_wakes_another",
    ),
    ("overwrite-without-fence", Checker::Loom, "model::ring::what_is_read_from_a_ring_is_whole"),
    ("move-after-lock", Checker::Loom, "model::handover::entries_go_with_the_color_that_is_stolen"),
    ("queue-entry-without-look", Checker::Loom, "model::handover::entries_go_with_the_color_that_is_stolen"),
    (
        "steal-without-move",
        Checker::Loom,
        "model::handover::a_color_that_is_stolen_runs_everything_once_and_in_order",
    ),
    ("look-for-wish-before-lock", Checker::Loom, "model::handover::a_color_that_waits_is_placed_at_once"),
    ("take-wish-in-two-steps", Checker::Loom, "model::handover::the_last_wish_counts"),
    ("ask-for-end-before-lock", Checker::Loom, "model::handover::nothing_is_left_in_a_queue_after_the_end"),
    ("meetings-without-order", Checker::Loom, "model::meeting::meetings_have_one_order"),
    ("count-before-arrival", Checker::Loom, "model::meeting::who_comes_last_has_all_colors_alone"),
    // Those that show without weak memory, in what the larger scenarios run.
    ("second-token", Checker::Shuttle, "throng::posts_steals_moves_and_sleep"),
    ("take-in-two-steps", Checker::Shuttle, "throng::posts_steals_moves_and_sleep"),
    ("newest-first", Checker::Shuttle, "throng::posts_steals_moves_and_sleep"),
    ("steal-without-move", Checker::Shuttle, "throng::posts_steals_moves_and_sleep"),
    ("move-after-lock", Checker::Shuttle, "throng::entries_among_steals_and_sleep"),
    ("queue-entry-without-look", Checker::Shuttle, "throng::entries_among_steals_and_sleep"),
    ("meetings-without-order", Checker::Shuttle, "throng::meetings_among_events"),
];

/// A model once more with each planted bug: it must fail.
fn canaries(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    for (bug, checker, model) in CANARIES {
        let mut command = models_command(workspace, checker);
        command.env("VERMEIL_CANARY", bug).args(["--", "--exact", model]);
        let output = command.output().map_err(Error::path("start", Path::new("cargo")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        // A bug may end the whole process, so its end counts and not the tests' verdicts.
        if !said.lines().any(|line| line == "running 1 test") {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(Error::form(
                model,
                format!("did not run with {bug} planted; is it still there? {why}"),
            ));
        }
        if output.status.success() {
            return Err(Error::form(
                bug,
                format!("planted, and {} did not notice it: {model}", checker.name()),
            ));
        }
        println!("{bug}: noticed by {}, {model}", checker.name());
        tally.passed += 1;
    }
    Ok(())
}
