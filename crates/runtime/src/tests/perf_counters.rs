//! The hardware counters on real cores: their description, the exclusion of interrupted runs, and
//! the use of cache misses in the costs.

use super::{PATIENCE, eventually, four_cores};
use crate::{
    CoreIndex, Exclusion, Handle, Observe, Pinning, Place, Policy, Runtime, Spec,
    core::{Core, current},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil_io::{CountedEvent, pin_current_thread, preemptions};
use vermeil_sched::HandlerIndex;

/// Runs a question on the first core.
fn ask<R: Send + 'static>(handle: &Handle, question: impl FnOnce(&Core) -> R + Send + 'static) -> R {
    let asked = async move { current(question).expect("tasks run on cores") };
    handle.spawn_on(&handle.color_at(&Place::Core(CoreIndex(0))), asked).wait().expect("the core answers")
}

#[test]
fn placements_name_the_counted_quantity() {
    for (policy, says) in [(Policy::Mely, false), (Policy::Trial, true), (Policy::Adaptive, true)] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        assert_eq!(handle.placements().perf_counters, None, "{policy}: nothing is placed yet");
        let alone = handle.handler(Spec::new("alone").exclusion(Exclusion::Handler), |()| ());
        alone.send(()).expect("below the bound");
        if says {
            eventually("a round is held", || handle.placements().perf_counters.is_some());
        }
        match handle.placements().perf_counters {
            Some(said) => assert!(
                said.starts_with("cache misses: not measurable here (")
                    || said.starts_with("cache misses: counted ("),
                "{policy}: {said}"
            ),
            None => assert!(!says),
        }
        runtime.shutdown(PATIENCE);
    }
}

type AskedCounters = Box<dyn FnOnce(&Core) -> Option<f32> + Send>;

/// Uses page faults, which every machine counts if this thread may count at all.
#[test]
fn learner_receives_misses_of_runs() {
    let cpu = vermeil_io::current_affinity()[0];
    // Two cores, because a single core has nothing to place and no rounds. One core runs all
    // events.
    let builder = Runtime::builder()
        .cpus([cpu, cpu])
        .pinning(Pinning::Shared)
        .policy(Policy::Adaptive)
        .observe(Observe::All);
    let runtime = builder.counted(CountedEvent::PageFaults).build().expect("a runtime starts");
    let handle = runtime.handle();
    let runs = Arc::new(AtomicU64::new(0));
    let _placed = handle.handler(Spec::new("placed").exclusion(Exclusion::Handler), |()| ());
    let touches = Spec::new("touches").exclusion(Exclusion::Handler).place(Place::Core(CoreIndex(0)));
    let touches = handle.handler(touches, {
        let runs = runs.clone();
        move |()| {
            let mut fresh = vec![0u8; 64 << 20];
            fresh.chunks_mut(4096).for_each(|page| page[0] = 1);
            std::hint::black_box(&fresh);
            runs.fetch_add(1, Ordering::Relaxed);
        }
    });
    eventually("a round is held", || handle.placements().perf_counters.is_some());
    let said = handle.placements().perf_counters.expect("it was said");
    if said.starts_with("page faults: not measurable here (") {
        runtime.shutdown(PATIENCE);
        return eprintln!("skipped: {said}");
    }
    let learned = |of: AskedCounters| {
        let before = runs.load(Ordering::Relaxed);
        touches.send(()).expect("below the bound");
        eventually("it has run", || runs.load(Ordering::Relaxed) > before);
        ask(&handle, of).is_some_and(|faults| faults >= 16.0)
    };
    let handler = touches.index();
    eventually("the thieves' costs have it", || {
        learned(Box::new(move |core| core.measures.learner.borrow().costs().misses(handler)?.warm()))
    });
    eventually("the monitor's costs have it", || {
        learned(Box::new(|core| {
            let answer = core.measures.counting.borrow_mut().window.answer(u64::MAX, 0, 0);
            answer.costs.misses(HandlerIndex(1))?.warm()
        }))
    });
    runtime.shutdown(PATIENCE);
}

/// An event in five loses its cpu to a busy thread for some milliseconds. The other events take a
/// microsecond, and so do all events in the learned cost.
#[test]
fn a_run_that_lost_its_cpu_teaches_nothing() {
    let cpu = vermeil_io::current_affinity()[0];
    let builder = Runtime::builder().cpus([cpu]).policy(Policy::Adaptive).observe(Observe::All);
    let runtime = builder.build().expect("a runtime starts");
    let handle = runtime.handle();
    let (over, runs, color) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)), handle.color());
    let short = handle.handler("short", {
        let runs = runs.clone();
        move |number: u64| {
            let (before, start) = (preemptions(), Instant::now());
            while number % 5 == 4 && (preemptions() == before || start.elapsed() < Duration::from_millis(2)) {
                std::thread::yield_now();
            }
            runs.fetch_add(1, Ordering::Relaxed);
        }
    });
    let handler = short.index();
    let expects_ns = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_current_thread(cpu).expect("the cpu is ours");
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        (0..100).for_each(|number| short.post(&color, number).expect("below the bound"));
        eventually("all have run", || runs.load(Ordering::Relaxed) == 100);
        over.store(true, Ordering::Relaxed);
        ask(&handle, move |core| core.measures.learner.borrow().expects_ns(handler))
    });
    assert!((1..50_000).contains(&expects_ns), "{expects_ns} ns");
    runtime.shutdown(PATIENCE);
}
