use super::*;
use crate::options::InjectedFault;

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
