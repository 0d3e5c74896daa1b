//! Handlers with a bound on parallel events, on any colors: the number, the order, and the colors
//! that wait meanwhile.

use super::{Inside, PATIENCE, eventually, four_cores, runtime};
use crate::{
    Color, Colored, CoreIndex, Exclusion, Handle, Handler, Pinning, Policy, Runtime, Spec, Task, TurnLimits,
    current_color, yield_now,
};
use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    task::Poll,
    time::Duration,
};

/// Two bounded handlers and an unbounded handler share colors. Every event runs, in the order of
/// its color.
#[test]
fn concurrency_limit_bounds_runs_and_keeps_order() {
    const COLORS: usize = 12;
    const EVENTS: usize = 150;
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync, Policy::Mely] {
        for most in [1, 2, 3] {
            let runtime = four_cores(policy.clone());
            let handle = runtime.handle();
            let colors: Vec<_> = (0..COLORS).map(|_| handle.color()).collect();
            let next: Arc<Vec<_>> = Arc::new(colors.iter().map(|c| Colored::new(c.id(), 0)).collect());
            let wrong = Arc::new(AtomicUsize::new(0));
            let handlers: Vec<_> = [most, 1, usize::MAX]
                .into_iter()
                .map(|most| {
                    let (next, wrong, inside) = (next.clone(), wrong.clone(), Arc::<Inside>::default());
                    let visits = inside.clone();
                    let visitor = handle.handler(
                        Spec::new("visitor").at_most(most),
                        move |(color, number): (usize, usize)| {
                            visits.visit();
                            next[color].with(|next: &mut usize| {
                                wrong.fetch_add(usize::from(*next != number), Ordering::Relaxed);
                                *next = number + 1;
                            });
                            assert!((color, number) != (0, 57), "planted");
                        },
                    );
                    (visitor, inside, most)
                })
                .collect();
            std::thread::scope(|scope| {
                for part in 0..3 {
                    let (colors, handlers) = (&colors, &handlers);
                    scope.spawn(move || {
                        for number in 0..EVENTS {
                            for color in (part..COLORS).step_by(3) {
                                let (visitor, ..) = handlers[(number + color) % 3];
                                visitor.post(&colors[color], (color, number)).expect("below the bound");
                            }
                        }
                    });
                }
            });
            let stopped = runtime.shutdown(PATIENCE);
            assert_eq!((stopped.events_dropped, wrong.load(Ordering::Relaxed)), (0, 0), "{policy}");
            for (_, inside, most) in handlers {
                assert!((1..=most).contains(&inside.most.load(Ordering::SeqCst)), "{policy}: {most}");
            }
            let runs = handle.snapshot().handlers;
            let runs: u64 =
                runs.iter().filter(|handler| handler.name == "visitor").map(|handler| handler.runs).sum();
            assert_eq!(runs, (COLORS * EVENTS) as u64, "{policy}: a run is counted once");
        }
    }
}

/// A handler with a bound of a single event, which waits for its release.
fn gate(handle: &Handle) -> (Handler<u32>, Receiver<u32>, Sender<()>) {
    let ((entered, enters), (release, released)) = (channel(), channel());
    let released = Mutex::new(released);
    let gate = handle.handler(Spec::new("gate").at_most(1), move |number: u32| {
        entered.send(number).expect("somebody looks");
        released.lock().expect("nobody panics here").recv().expect("it is let go");
    });
    (gate, enters, release)
}

#[test]
fn longest_waiting_color_gets_the_next_permit() {
    for policy in [Policy::None, Policy::Libasync] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let (gate, enters, release) = gate(&handle);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = handle.handler("note", {
            let seen = seen.clone();
            move |what: u32| seen.lock().unwrap().push(what)
        });
        let far = handle.color_on(CoreIndex(1));
        let near: Vec<_> = (0..5).map(|_| handle.color_on(CoreIndex(0))).collect();
        gate.post(&far, 100).expect("below the bound");
        assert_eq!(enters.recv_timeout(PATIENCE), Ok(100));
        for (number, color) in (0..).zip(&near) {
            gate.post(color, number).expect("below the bound");
            note.post(color, number).expect("below the bound");
            // Ensures that this event waits before the next event arrives.
            let after = handle.color_on(CoreIndex(0));
            handle.spawn_on(&after, yield_now()).wait().expect("the core goes on");
        }
        note.post(&handle.color_on(CoreIndex(0)), 99).expect("below the bound");
        eventually("others go on", || *seen.lock().unwrap() == [99]);
        assert!(enters.try_recv().is_err());
        for number in 0..5 {
            release.send(()).expect("it waits");
            assert_eq!(enters.recv_timeout(PATIENCE), Ok(number));
        }
        release.send(()).expect("it waits");
        eventually("all ran", || seen.lock().unwrap().len() == 6);
        assert_eq!(*seen.lock().unwrap(), [99, 0, 1, 2, 3, 4]);
        runtime.shutdown(PATIENCE);
    }
}

/// An event that waits for a slot blocks a task of its color; neither delays the stop of the
/// runtime.
#[test]
fn shutdown_ends_waits_for_a_permit() {
    let runtime = runtime();
    let handle = runtime.handle();
    let (gate, enters, release) = gate(&handle);
    gate.post(&handle.color_on(CoreIndex(1)), 0).expect("below the bound");
    assert_eq!(enters.recv_timeout(PATIENCE), Ok(0));
    let colors: Vec<Color> = (0..6).map(|number| handle.color_on(CoreIndex(number % 2))).collect();
    let perf_counters = Arc::new(());
    let tasks: Vec<_> = colors
        .iter()
        .map(|color| {
            let perf_counters = perf_counters.clone();
            let task = handle.spawn_on(color, async move {
                std::future::pending::<()>().await;
                drop(perf_counters);
            });
            gate.post(color, 1).expect("below the bound");
            task
        })
        .collect();
    (0..7).for_each(|_| release.send(()).expect("it waits"));
    let stopped = runtime.shutdown(Duration::ZERO);
    assert_eq!(stopped.tasks_cancelled, 6);
    assert!(tasks.into_iter().all(|task| task.wait().is_err()));
    drop(colors);
    assert_eq!(Arc::strong_count(&perf_counters), 1, "their futures are gone");
    assert_eq!(enters.try_iter().count() + stopped.events_dropped, 6);
}

/// Regression: an idle core stopped while a task in its first poll on another core had a slot. The
/// next task with the slot was queued on the stopped core and never ran, so the first core waited
/// for that task for ever.
#[test]
fn task_with_a_permit_ends_at_shutdown() {
    let runtime = runtime();
    let handle = runtime.handle();
    let one = handle.kind(Spec::new("one").at_most(1));
    let (begun, begins) = channel();
    let shared = handle.shared.clone();
    let first = one.spawn_on(&handle.color_on(CoreIndex(1)), async move {
        begun.send(()).expect("somebody looks");
        eventually("the runtime stops", || shared.end.is_stopping());
        std::future::pending::<()>().await;
    });
    begins.recv().expect("it begins");
    let second = one.spawn_on(&handle.color_on(CoreIndex(0)), std::future::pending::<()>());
    let after = handle.color_on(CoreIndex(0));
    handle.spawn_on(&after, yield_now()).wait().expect("the core goes on");
    assert_eq!(runtime.shutdown(Duration::ZERO).tasks_cancelled, 2);
    assert!(first.wait().is_err() && second.wait().is_err());
}

/// Of many waiting colors, some get the slot after their core has ended, and some never get the
/// slot.
#[test]
fn shutdown_drops_colors_that_wait_for_a_permit() {
    const WAITING: usize = 2_000;
    let turn = TurnLimits { batch_events: 1, turn_events: 1 };
    let cpus = vermeil_io::current_affinity();
    let cpus = [cpus[0], *cpus.last().expect("a process has a cpu")];
    let runtime =
        Runtime::builder().cpus(cpus).pinning(Pinning::Shared).turn(turn).build().expect("a runtime starts");
    let handle = runtime.handle();
    let (ran, shared) = (Arc::new(AtomicUsize::new(0)), handle.shared.clone());
    let (begun, begins) = channel();
    let gate = handle.handler(Spec::new("gate").at_most(1), {
        let ran = ran.clone();
        move |first: bool| {
            if first {
                begun.send(()).expect("somebody looks");
                eventually("the runtime stops", || shared.end.is_stopping());
            }
            ran.fetch_add(usize::from(!first), Ordering::Relaxed);
        }
    });
    gate.post(&handle.color_on(CoreIndex(1)), true).expect("below the bound");
    begins.recv().expect("it begins");
    let colors: Vec<_> = (0..WAITING).map(|_| handle.color_on(CoreIndex(0))).collect();
    colors.iter().for_each(|color| gate.post(color, false).expect("below the bound"));
    let after = handle.color_on(CoreIndex(0));
    handle.spawn_on(&after, yield_now()).wait().expect("the core goes on");
    let stopped = runtime.shutdown(Duration::ZERO);
    assert_eq!(stopped.events_dropped + ran.load(Ordering::Relaxed), WAITING);
    assert!(colors.iter().all(Color::is_empty));
}

/// For a task polls count, not waits: all tasks exist, and a single task is polled at a time.
#[test]
fn kind_with_limit_one_polls_one_task_at_a_time() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let one = handle.kind(Spec::new("one").at_most(1));
        let lanes = handle.kind(Spec::new("lanes").exclusion(Exclusion::None).at_most(2));
        for (kind, most) in [(one, 1), (lanes, 2)] {
            let inside = Arc::<Inside>::default();
            let shared = handle.color();
            let tasks: Vec<_> = (0..24)
                .map(|number| {
                    let inside = inside.clone();
                    let work = async move {
                        for _ in 0..20 {
                            inside.visit();
                            yield_now().await;
                        }
                        current_color()
                    };
                    if number % 2 == 0 { kind.spawn(work) } else { kind.spawn_on(&shared, work) }
                })
                .collect();
            assert!(tasks.into_iter().all(|task| task.wait().is_ok()));
            assert!((1..=most).contains(&inside.most.load(Ordering::SeqCst)));
        }
        runtime.shutdown(PATIENCE);
    }
}

/// Regression: tasks that arrived one by one, while earlier tasks waited, shared a color for life.
#[test]
fn concurrency_limit_bounds_polls_of_tasks() {
    const MOST: usize = 3;
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let kind = handle.kind(Spec::new("three").exclusion(Exclusion::None).at_most(MOST));
    let (came, inside) = (Arc::new(AtomicUsize::new(0)), Arc::<Inside>::default());
    let spawn = |number| {
        let (waits, inside, mut polled) = (came.clone(), inside.clone(), false);
        let task = kind.spawn(poll_fn(move |_| {
            if !std::mem::replace(&mut polled, true) {
                waits.fetch_add(1, Ordering::SeqCst);
                return Poll::Pending;
            }
            inside.visit_until(MOST);
            Poll::Ready(())
        }));
        eventually("it waits", || came.load(Ordering::SeqCst) == number);
        task
    };
    let tasks: Vec<_> = (1..=MOST + 1).map(spawn).collect();
    tasks.iter().for_each(Task::wake);
    assert!(tasks.into_iter().all(|task| task.wait() == Ok(())));
    assert_eq!(inside.most.load(Ordering::SeqCst), MOST);
    runtime.shutdown(PATIENCE);
}

/// A bound of zero means one. A bound of at least the number of cores is no bound, so a huge number
/// allocates nothing.
#[test]
fn a_bound_that_makes_no_sense_is_the_next_that_does() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    for (said, is) in [(0, Some(1)), (3, Some(3)), (4, None), (usize::MAX, None)] {
        for exclusion in [Exclusion::Color, Exclusion::None] {
            let spec = Spec::new("bounded").exclusion(exclusion).at_most(said);
            assert_eq!(handle.most_runs(&spec), is);
            let handler = handle.handler(spec, |()| ());
            (0..20).for_each(|_| handler.post(&handle.concurrent_color(), ()).expect("below the bound"));
        }
    }
    let stopped = runtime.shutdown(PATIENCE);
    assert_eq!(stopped.events_dropped, 0);
}
