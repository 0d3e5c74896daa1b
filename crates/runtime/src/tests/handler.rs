//! Handlers: order and exclusion under many producers, bounds, counters, panics.

use super::{PATIENCE, eventually, runtime, runtime_with};
use crate::{Colored, CoreIndex, Handler, Limits, Place, Runtime, Spec};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

/// Ten threads post to eight colors. Each color sees each producer's events in order, and the state
/// needs no lock.
#[test]
fn color_runs_events_of_all_producers_in_order() {
    const PRODUCERS: usize = 10;
    const EVENTS: usize = 2000;
    let runtime = runtime();
    let handle = runtime.handle();
    let colors: Vec<_> = (0..8).map(|_| handle.color()).collect();
    let next: Arc<Vec<_>> = Arc::new(colors.iter().map(|c| Colored::new(c.id(), [0; PRODUCERS])).collect());
    let wrong = Arc::new(AtomicUsize::new(0));
    let check = handle.handler("check", {
        let (next, wrong) = (next.clone(), wrong.clone());
        move |(color, producer, number): (usize, usize, usize)| {
            next[color].with(|next| {
                wrong.fetch_add(usize::from(next[producer] != number), Ordering::Relaxed);
                next[producer] = number + 1;
            });
        }
    });
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let colors = &colors;
            scope.spawn(move || {
                for number in 0..EVENTS {
                    for (index, color) in colors.iter().enumerate() {
                        check.post(color, (index, producer, number)).expect("below the bound");
                    }
                }
            });
        }
    });
    let stopped = runtime.shutdown(super::PATIENCE);
    assert_eq!((stopped.tasks_cancelled, stopped.events_dropped), (0, 0));
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
    let snapshot = handle.snapshot();
    assert_eq!(snapshot.handlers[1].name, "check");
    assert_eq!(snapshot.handlers[1].runs, (PRODUCERS * EVENTS * colors.len()) as u64);
    assert!(snapshot.cores.iter().all(|core| core.events > 0), "both cores took part: {snapshot:?}");
}

#[test]
fn a_full_core_gives_the_event_back() {
    let runtime = runtime_with(Limits { events_per_core: 2, ..Limits::default() });
    let handle = runtime.handle();
    let color = handle.color();
    let (release, gate) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let block = handle.handler("block", move |()| {
        entered.send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
    });
    block.post(&color, ()).unwrap();
    inside.recv().unwrap();
    block.post(&color, ()).unwrap();
    block.post(&color, ()).unwrap();
    let full = block.post(&color, ()).unwrap_err();
    assert_eq!(full.to_string(), "the core's event queue is full (2 events): post again later");
    for _ in 0..3 {
        release.send(()).unwrap();
    }
    eventually("the queue empties", || handle.snapshot().cores.iter().all(|core| core.queued_events == 0));
    release.send(()).unwrap();
    block.post(&color, ()).expect("there is room again");
    runtime.shutdown(super::PATIENCE);
}

#[test]
fn a_panic_ends_its_event_and_nothing_else() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let survived = Arc::new(AtomicBool::new(false));
    let fragile = handle.handler("fragile", {
        let survived = survived.clone();
        move |fail: bool| {
            assert!(!fail, "planted");
            survived.store(true, Ordering::Relaxed);
        }
    });
    fragile.post(&color, true).unwrap();
    fragile.post(&color, false).unwrap();
    runtime.shutdown(super::PATIENCE);
    assert!(survived.load(Ordering::Relaxed));
    let snapshot = handle.snapshot();
    assert_eq!((snapshot.handlers[1].runs, snapshot.handlers[1].panics), (2, 1));
    assert_eq!(snapshot.cores.iter().map(|core| core.panics).sum::<u64>(), 1);
}

/// Regression: a handler's batch was cut to the turn's batch. Even with the shortest time limit, a
/// go runs an event.
#[test]
fn handler_bounds_size_and_time_of_batch() {
    let allowed = vermeil_io::current_affinity();
    let batched = [
        (Spec::new("many").batch(64), 1),
        (Spec::new("none").batch(0), 64),
        (Spec::new("for long").batch(64).batch_time(Duration::MAX), 1),
        (Spec::new("shortly").batch(64).batch_time(Duration::from_nanos(1)), 64),
        (Spec::new("for no time").batch(64).batch_time(Duration::ZERO), 64),
        (Spec::new("either").batch(16).batch_time(Duration::MAX), 4),
    ];
    for (spec, goes) in batched {
        let runtime = Runtime::builder().cpus([allowed[0]]).build().expect("a runtime starts");
        let handle = runtime.handle();
        let ran = Arc::new(AtomicUsize::new(0));
        let many = handle.handler(spec, {
            let ran = ran.clone();
            move |()| {
                ran.fetch_add(1, Ordering::Relaxed);
            }
        });
        let color = handle.color();
        let posts =
            handle.handler("posts", move |()| (0..64).for_each(|_| many.post(&color, ()).expect("few")));
        let counts = || {
            let core = &handle.snapshot().cores[0];
            (core.events, core.activations)
        };
        let before = counts();
        posts.send(()).expect("below the bound");
        eventually("all have run", || ran.load(Ordering::Relaxed) == 64 && counts().0 == before.0 + 65);
        assert_eq!(counts().1 - before.1, 1 + goes);
        runtime.shutdown(PATIENCE);
    }
}

/// Regression: a draining runtime stopped while an event ran, because only waiting events counted,
/// and the event's post to another core was dropped.
#[test]
fn shutdown_waits_for_events_posted_by_running_events() {
    let runtime = runtime();
    let handle = runtime.handle();
    let colors = [0, 1].map(|core| handle.color_at(&Place::Core(CoreIndex(core))));
    let (ran, hop) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::<Handler<usize>>::new()));
    let (ran_there, again, to) = (ran.clone(), hop.clone(), colors.clone());
    let handler = handle.handler("hop", move |left: usize| {
        ran_there.fetch_add(1, Ordering::Relaxed);
        // Long enough for several looks by the draining thread.
        std::thread::sleep(Duration::from_millis(5));
        if left > 0 {
            again.get().unwrap().post(&to[left % 2], left - 1).unwrap();
        }
    });
    hop.set(handler).ok().unwrap();
    handler.post(&colors[0], 20).unwrap();
    let stopped = runtime.shutdown(PATIENCE);
    assert_eq!((ran.load(Ordering::Relaxed), stopped.events_dropped), (21, 0));
}
