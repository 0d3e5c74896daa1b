use super::*;
use crate::options::{InjectedFault, PlantedBug};

/// Seeds of every test run; `vermeil sim swarm --seeds N` runs more.
const SEEDS: u64 = 200;

#[test]
fn two_hundred_seeds_break_no_rule() {
    let mut events = 0;
    for seed in 0..SEEDS {
        let case = SwarmCase::draw(seed);
        let outcome = case.run();
        events += outcome.events;
        if let Some(violation) = outcome.violation {
            let smallest = case.minimise(violation.invariant);
            panic!(
                "{violation}\nreplay: vermeil sim swarm --seed {seed}\n\nminimised: {}",
                smallest.describe()
            );
        }
    }
    assert!(events > 1_000 * SEEDS, "the seeds run only {events} events");
}

#[test]
fn a_seed_draws_one_case() {
    assert_eq!(SwarmCase::draw(5).describe(), SwarmCase::draw(5).describe());
    assert_ne!(SwarmCase::draw(5).describe(), SwarmCase::draw(6).describe());
}

/// A rule that every case breaks with `drain_ns` 1, in place of a bug. The smaller case must still
/// break the rule, and contain little else.
#[test]
fn a_case_is_made_smaller_while_it_still_fails() {
    let mut case = SwarmCase::draw(3);
    case.options.faults = vec![InjectedFault::LateWakes { times: 2 }, InjectedFault::StaleHints { by_us: 3 }];
    // No request has time to finish.
    case.options.drain_ns = 1;
    let violation = case.run().violation.expect("not everything has run at the end");
    let smallest = case.minimise(violation.invariant);
    assert!(smallest.options.faults.is_empty(), "{}", smallest.describe());
    assert!(smallest.workload.handler.len() <= case.workload.handler.len());
    assert_eq!(smallest.run().violation.unwrap().invariant, violation.invariant);
}

/// Requests that have not finished break a rule only at the end of a run.
#[test]
fn run_cut_short_breaks_no_rule() {
    let mut case = SwarmCase::draw(3);
    case.options.drain_ns = 1;
    let whole = case.run();
    assert!(whole.violation.is_some());
    let cut = case.run_within(whole.moments / 2);
    assert_eq!((cut.violation, cut.moments <= whole.moments / 2 + 1), (None, true));
}

/// One pinned producer for many clients. Each request is a piece of work for any core.
const PINNED: &str = r#"
name = "pinned"
about = "pinned producer"
run_ms = 60
[[handler]]
name = "receive"
cycles = 3000
color = "queue"
next = [{ to = "work" }]
[[handler]]
name = "work"
cycles = 900000
color = "request"
reply = true
[[source]]
load = { closed = { clients = 400 } }
entry = "receive"
queues = 1
"#;

/// The broken rule of a run of a workload with a planted bug and faults.
fn broken(workload: &str, planted: Option<PlantedBug>, faults: &[InjectedFault]) -> Option<&'static str> {
    let machine = profile("xeon-2x4-l2pairs").unwrap();
    let program = CompiledProgram::from_toml(workload).unwrap();
    let faults = faults.to_vec();
    let options = SimOptions { planted, faults, ..SimOptions::new(vermeil_sched::Policy::Adaptive) };
    let checker = InvariantChecker::of(&machine, &program, &options);
    let (results, checker) = simulate_watched(&machine, &program, &options, checker);
    checker.verdict(&results).map(|violation| violation.invariant)
}

/// Canary: without a planted bug, the check could pass because the check looks at nothing.
#[test]
fn a_core_that_sleeps_beside_work_is_noticed() {
    assert_eq!(broken(PINNED, None, &[]), None);
    assert_eq!(broken(PINNED, Some(PlantedBug::SleepsBesideWork), &[]), Some("I11"));
}

/// Short requests on cores that sleep in between.
const IDLE: &str = r#"
name = "idle"
about = "clients that mostly think"
run_ms = 60
[[handler]]
name = "work"
cycles = 20000
color = "client"
reply = true
[[source]]
load = { closed = { clients = 16, think_us = 20000 } }
entry = "work"
"#;

/// Seed 2369: colors waited for a core that was woken for them and then paused before it ran any.
/// No other core can know.
#[test]
fn color_waits_for_paused_core_between_events() {
    let pause = InjectedFault::Pause { core: 1, at_us: 10_000, for_us: 20_000 };
    assert_eq!(broken(IDLE, None, &[pause]), None);
}

/// One color with events to the end of the run. The other cores sleep.
const ONE_COLOR: &str = r#"
name = "one-color"
about = "burst to one color"
run_ms = 60
[[handler]]
name = "work"
cycles = 20000
color = "serial"
reply = true
[[source]]
load = { start = { count = 10000 } }
entry = "work"
"#;

/// Seed 226: the core of a color paused in an event of the color, whose next event waited.
#[test]
fn color_waits_for_end_of_its_paused_event() {
    for core in 0..8 {
        let pause = InjectedFault::Pause { core, at_us: 10_000, for_us: 20_000 };
        assert_eq!(broken(ONE_COLOR, None, &[pause]), None, "core {core}");
    }
}

/// The pinned producer's core pauses behind a running event, which other cores see. The rest of the
/// run is too short for a wait that breaks the rule.
#[test]
fn pause_behind_running_event_excuses_no_wait() {
    let pause = InjectedFault::Pause { core: 0, at_us: 1_000, for_us: 54_000 };
    assert_eq!(broken(PINNED, None, &[pause]), None);
    assert_eq!(broken(PINNED, Some(PlantedBug::SleepsBesideWork), &[pause]), Some("I11"));
}
