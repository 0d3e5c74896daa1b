//! Planted faults: the function that does not scale ranks first and its caller is named; without a
//! fault nothing is listed. Runs on one and two cpus; skipped where there is one, or no right to sample.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use vermeil_profile::gain::Comparison;
use vermeil_profile::scale::{Plan, Scaling, scale};
use vermeil_profile::{Error, report};

fn scaled(fault: &str, repetitions: u32, seconds: &str) -> Option<Scaling> {
    let here = std::env::current_exe().unwrap();
    let planted: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/planted");
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        cpus: vec![1, 2],
        repetitions,
        command: [planted.to_str().unwrap(), fault, "{count}", seconds].map(Into::into).to_vec(),
        load: None,
        work: "work".to_owned(),
        hz: 1_999,
        folder: folder.path().to_owned(),
        seed: 1,
    };
    match scale(&plan, &AtomicBool::new(false), &mut |_| {}) {
        Ok(scaling) => Some(scaling),
        Err(error @ (Error::NoRight { .. } | Error::NoEvents(_) | Error::Cpus { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn comparison(scaling: &Scaling) -> &Comparison {
    &scaling.comparisons[0].1
}

fn fault_ranks_first(fault: &str) {
    let Some(scaling) = scaled(fault, 5, "0.4") else { return };
    let text = report::scaling_text(&scaling);
    let first = &comparison(&scaling).gains[0];
    assert!(first.function.contains(&format!("planted_{fault}")), "{text}");
    if first.listed {
        let (owner, share) = first.owner.as_ref().expect("the stack has a caller");
        // Without frame pointers the caller's frame may be skipped, but not the function above it.
        assert!(owner.contains("handle_request") || owner.contains("planted"), "{owner} {share}\n{text}");
    }
    assert!(first.gain.mean > 0.02, "{text}");
}

#[test]
fn contended_counter_ranks_first() {
    fault_ranks_first("counter");
}

#[test]
fn spin_lock_ranks_first() {
    fault_ranks_first("lock");
}

#[test]
fn false_sharing_ranks_first() {
    fault_ranks_first("sharing");
}

#[test]
fn growing_scan_ranks_first() {
    fault_ranks_first("scan");
}

#[test]
fn program_without_fault_lists_no_function_of_its_own() {
    let Some(scaling) = scaled("none", 5, "0.4") else { return };
    let text = report::scaling_text(&scaling);
    let listed: Vec<&str> = comparison(&scaling)
        .gains
        .iter()
        .filter(|gain| gain.listed && gain.gain.mean > 0.0 && gain.function.contains("planted_"))
        .map(|gain| gain.function.as_str())
        .collect();
    assert!(listed.is_empty(), "{text}");
    let all: f64 = comparison(&scaling).gains.iter().map(|gain| gain.gain.mean).sum();
    assert!((all - comparison(&scaling).loss.mean).abs() < 1e-9, "{text}");
    assert!(scaling.law.as_ref().is_err_and(|why| why.contains("4 are needed")), "{text}");
}
