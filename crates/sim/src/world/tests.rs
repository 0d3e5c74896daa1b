use super::*;
use crate::machine::profile;
use crate::workload::workload;

fn options(policy: &str) -> Options {
    Options::new(policy.parse().unwrap())
}

fn short(policy: &str) -> Options {
    Options { run_ns: Some(20_000_000), ..options(policy) }
}

#[test]
fn one_seed_is_one_run() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    for policy in ["none", "libasync", "mely", "ncopy", "adaptive"] {
        let run = |seed| simulate(&machine, &web, &Options { seed, ..short(policy) });
        let (first, second) = (run(7), run(7));
        assert_eq!((first.hash, first.answered), (second.hash, second.answered), "{policy}");
        assert!(first.posted > 100, "{policy} posted {}", first.posted);
        assert_ne!(first.hash, run(8).hash, "{policy}");
    }
}

#[test]
fn a_workload_that_ends_runs_everything() {
    let (machine, roots) = (profile("xeon5100-2x2").unwrap(), workload("sqrt-pipeline").unwrap());
    for policy in ["none", "libasync", "mely", "adaptive"] {
        let results = simulate(&machine, &roots, &options(policy));
        assert_eq!((results.events(), results.queued_at_end), (64_000, 0), "{policy}");
        assert_eq!((results.answered, results.requests_live_at_end), (4_000, 0), "{policy}");
    }
}

#[test]
fn times_of_a_core_add_up() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    let results = simulate(&machine, &web, &short("adaptive"));
    for core in &results.cores {
        assert!(core.busy_ns + core.idle_ns <= results.counted_ns + 100_000, "{core:?}");
    }
}

#[test]
fn checked_runs_break_no_rule() {
    let (machine, web) = (profile("xeon-2x4-l2pairs").unwrap(), workload("web").unwrap());
    for policy in ["none", "libasync", "mely", "ncopy", "adaptive", "placed:round-robin"] {
        let options = Options { drain_ns: 1_000_000_000, audit_every: Some(50), ..short(policy) };
        let options = Options { run_ns: Some(5_000_000), ..options };
        let (results, checker) = simulate_watched(&machine, &web, &options, crate::Checker::default());
        assert!(results.events() > 1_000, "{policy}");
        assert_eq!(checker.verdict(&results), None, "{policy}");
    }
}
