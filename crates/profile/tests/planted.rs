//! Planted faults: the function that does not scale ranks first; without a fault none of the
//! planted functions is listed. Runs on one and two cpus; skipped where there is one, or no right
//! to sample.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use vermeil_profile::gain::CostComparison;
use vermeil_profile::scale::{ScalePlan, Scaling, scale};
use vermeil_profile::{ProfileError, verdict};

fn scaled(fault: &str, repetitions: u32, seconds: &str) -> Option<Scaling> {
    let here = std::env::current_exe().unwrap();
    let planted: PathBuf = here.parent().unwrap().parent().unwrap().join("examples/planted");
    let folder = tempfile::tempdir().unwrap();
    let plan = ScalePlan {
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
        Err(
            error @ (ProfileError::NoRight { .. } | ProfileError::NoEvents(_) | ProfileError::Cpus { .. }),
        ) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn comparison(scaling: &Scaling) -> &CostComparison {
    &scaling.comparisons[0].1
}

/// On a busy machine two threads seldom run at the same time, so a fault that needs both does not
/// show. The gates notice that, and only runs that pass them are evidence.
fn fault_ranks_first(fault: &str, needs_both_cpus: bool) {
    let Some(scaling) = scaled(fault, 5, "0.4") else { return };
    let text = verdict::scaling_text(&scaling);
    if needs_both_cpus && scaling.repetitions.iter().any(|run| !run.is_good()) {
        eprintln!("skipped: the machine is busy\n{text}");
        return;
    }
    let first = &comparison(&scaling).gains[0];
    assert!(first.function.contains(&format!("planted_{fault}")), "{text}");
    assert!(first.gain.mean > 0.02, "{text}");
    let (owner, _share) = first.owner.as_ref().expect("the excess has an owner");
    assert!(owner.contains("handle_request"), "{text}");
}

#[test]
fn contended_counter_ranks_first() {
    fault_ranks_first("counter", true);
}

#[test]
fn spin_lock_ranks_first() {
    fault_ranks_first("lock", true);
}

#[test]
fn false_sharing_ranks_first() {
    fault_ranks_first("sharing", true);
}

#[test]
fn growing_scan_ranks_first() {
    fault_ranks_first("scan", false);
}

#[test]
fn program_without_fault_lists_no_function_of_its_own() {
    let Some(scaling) = scaled("none", 5, "0.4") else { return };
    let text = verdict::scaling_text(&scaling);
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
