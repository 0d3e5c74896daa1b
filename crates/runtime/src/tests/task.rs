//! Tasks: results, order with handlers, cancelling, panics, blocking work, stopping.

use super::{PATIENCE, eventually, runtime, runtime_with};
use crate::{
    Colored, CoreIndex, FullOf, Handler, Limits, Pinning, Policy, Runtime, StartError, TaskError, blocking,
    core_index, sleep, yield_now, yield_turn,
};
use std::{
    future::{Future, pending, poll_fn},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    time::Duration,
};

#[test]
fn task_returns_its_result_to_any_waiter() {
    let runtime = runtime();
    let handle = runtime.handle();
    let (here, there) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(1)));
    let inner = handle.spawn_on(&there, async { core_index().unwrap() });
    let outer = handle.spawn_on(&here, async move { (core_index().unwrap(), inner.await.unwrap()) });
    assert_eq!(outer.wait(), Ok((here.core(), there.core())));
}

#[test]
fn before_a_task_goes_on_in_the_next_turn_its_core_has_looked_at_its_io() {
    let runtime = runtime();
    let handle = runtime.handle();
    let looking = handle.clone();
    let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
        let polls = || looking.snapshot().cores[0].polls;
        let before = polls();
        for _ in 0..10 {
            yield_turn().await;
        }
        polls() - before
    });
    assert!(task.wait().unwrap() >= 10);
}

/// Tasks of a color take turns and never overlap; tasks of other colors run in parallel.
#[test]
fn tasks_of_a_color_share_state_without_locks() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let sum = Arc::new(Colored::new(color.id(), 0u64));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let sum = sum.clone();
            handle.spawn_on(&color, async move {
                for _ in 0..100 {
                    let seen = sum.with(|sum| *sum);
                    sum.with(|sum| *sum = seen + 1);
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.wait().unwrap();
    }
    assert_eq!(handle.spawn_on(&color, async move { sum.with(|sum| *sum) }).wait(), Ok(5000));
}

/// Regression: both runtimes gave their first color the same id, so state of the first color was
/// accessible on the second, at the same time.
#[test]
fn state_of_a_color_is_closed_to_another_runtime() {
    let (mine, other) = (runtime(), runtime());
    let color = mine.handle().color();
    let state = Arc::new(Colored::new(color.id(), 0));
    let stranger = other.handle().color();
    assert_ne!(color.id(), stranger.id());
    let outcome = other.handle().spawn_on(&stranger, async move { state.with(|value| *value) }).wait();
    assert!(outcome.is_err_and(|error| error.is_panic()));
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(crate::current_color().is_some(), Ordering::Release);
    }
}

#[test]
fn cancelling_drops_the_future_on_its_color() {
    let runtime = runtime();
    let handle = runtime.handle();
    let on_color = Arc::new(AtomicBool::new(false));
    let held = OnDrop(on_color.clone());
    let task = handle.spawn(async move {
        pending::<()>().await;
        drop(held);
    });
    task.cancel();
    assert_eq!(task.wait(), Err(TaskError::Cancelled));
    assert!(on_color.load(Ordering::Acquire));
}

#[test]
fn a_panic_ends_the_task_and_nothing_else() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let task = handle.spawn_on(&color, async { panic!("planted") });
    assert!(task.wait().is_err_and(|error| error.is_panic()));
    assert_eq!(handle.spawn_on(&color, async { 7 }).wait(), Ok(7));
    eventually("no task is left", || handle.snapshot().tasks == 0);
}

#[test]
fn blocking_work_leaves_the_core_and_comes_back() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let id = color.id();
    let task = handle.spawn_on(&color, async move {
        let elsewhere = blocking(core_index).await.unwrap();
        (elsewhere, crate::current_color() == Some(id))
    });
    assert_eq!(task.wait(), Ok((None, true)));
}

#[test]
fn shutdown_waits_for_tasks_and_then_cancels_them() {
    let runtime = runtime();
    let handle = runtime.handle();
    let finished = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let finished = finished.clone();
        handle.spawn(async move {
            sleep(Duration::from_millis(30)).await;
            finished.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(runtime.shutdown(PATIENCE).tasks_cancelled, 0);
    assert_eq!(finished.load(Ordering::Relaxed), 4);

    let runtime = self::runtime();
    let handle = runtime.handle();
    let on_color = Arc::new(AtomicBool::new(false));
    let held = OnDrop(on_color.clone());
    let stuck = handle.spawn(async move {
        pending::<()>().await;
        drop(held);
    });
    assert_eq!(runtime.shutdown(Duration::ZERO).tasks_cancelled, 1);
    assert_eq!(stuck.wait(), Err(TaskError::Cancelled));
    assert!(on_color.load(Ordering::Acquire), "cancelled on its color, not from outside");
}

/// Regression: a core that stopped while another thread spawned tasks cancelled a task whose slot
/// was not recorded yet. The core then removed another task, or no task, which broke the registry.
#[test]
fn spawning_while_the_runtime_stops_harms_nothing() {
    for _ in 0..50 {
        let runtime = runtime();
        let handle = runtime.handle();
        let color = handle.color();
        let spawned = Arc::new(AtomicUsize::new(0));
        let spawner = std::thread::spawn({
            let (handle, spawned) = (handle.clone(), spawned.clone());
            move || {
                for _ in 0..500 {
                    drop(handle.spawn_on(&color, pending::<()>()));
                    spawned.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        eventually("some are spawned", || spawned.load(Ordering::Relaxed) > 50);
        runtime.shutdown(Duration::ZERO);
        spawner.join().expect("nothing panicked under the registry's lock");
        assert_eq!(handle.snapshot().cores.iter().map(|core| core.panics).sum::<u64>(), 0);
    }
}

/// Regression: an event that posts itself again ran for ever and kept the runtime from stopping.
#[test]
fn shutdown_ends_tasks_that_never_pause() {
    let runtime = runtime();
    let handle = runtime.handle();
    let task = handle.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let color = handle.color();
    let again: Arc<OnceLock<Handler<()>>> = Arc::default();
    let (next, on) = (again.clone(), color.clone());
    let handler = handle.handler("again", move |()| {
        next.get().expect("set before the first post").post(&on, ()).expect("below the bound");
    });
    assert!(again.set(handler).is_ok());
    handler.post(&color, ()).unwrap();
    eventually("both run", || {
        handle.snapshot().handlers.iter().any(|handler| handler.name.starts_with("task ") && handler.runs > 0)
    });
    let stopped = runtime.shutdown(Duration::ZERO);
    assert_eq!((stopped.tasks_cancelled, stopped.events_dropped), (1, 1));
    assert_eq!(task.wait(), Err::<(), _>(TaskError::Cancelled));
}

async fn kind<const KIND: usize>() -> usize {
    KIND
}

/// Regression: a single mean over all polls gave every task the worth of the longest poll.
#[test]
fn task_types_count_apart_up_to_the_limit() {
    let limits = Limits { handlers: usize::from(u16::MAX) - 3, ..Limits::default() };
    let runtime = Runtime::builder().policy(Policy::None).limits(limits).build().unwrap();
    let handle = runtime.handle();
    for _ in 0..2 {
        assert_eq!(handle.spawn(kind::<1>()).wait(), Ok(1));
    }
    assert_eq!(handle.spawn(kind::<2>()).wait(), Ok(2));
    assert_eq!(handle.spawn(kind::<3>()).wait(), Ok(3));
    assert_eq!(handle.spawn(kind::<4>()).wait(), Ok(4));
    let name = "task vermeil::tests::task::kind";
    // A run is counted at its end, perhaps after the waiter has the result.
    eventually("all runs are counted, each for its kind", || {
        let handlers = handle.snapshot().handlers;
        let runs: Vec<_> = handlers.iter().map(|handler| (&*handler.name, handler.runs)).collect();
        runs == [("task", 1), (name, 2), (name, 1), (name, 1)]
    });
}

#[test]
fn a_core_that_does_not_exist_is_refused() {
    let error = crate::Runtime::builder().cpus([100_000]).build().err().expect("no machine has this cpu");
    assert!(error.to_string().starts_with("cannot pin core 0 to cpu 100000"), "{error}");
    assert!(crate::Runtime::builder().cpus([]).build().is_err());
}

/// A handle that outlives its runtime keeps none of its arguments alive.
#[test]
fn ended_runtime_drops_new_tasks() {
    let runtime = runtime();
    let handle = runtime.handle();
    let (color, perf_counters) = (handle.color(), Arc::new(()));
    let handler = handle.handler("late", |_: (Arc<()>, crate::Handle)| {});
    runtime.shutdown(PATIENCE);
    let refused = handler.post(&color, (perf_counters.clone(), handle.clone())).expect_err("it has ended");
    assert_eq!(refused.of, FullOf::Ended);
    drop(refused);
    let held = (perf_counters.clone(), handle.clone());
    let late = handle.spawn_on(&color, async move { drop(held) });
    assert_eq!(late.wait(), Err(TaskError::Cancelled));
    assert_eq!(Arc::strong_count(&perf_counters), 1);
    assert_eq!(handle.snapshot().cores.iter().map(|core| core.queued_events).sum::<usize>(), 0);
}

/// The runtime stops with more than a turn of queued tasks, which have not been polled and never
/// will be.
#[test]
fn unpolled_task_is_dropped_on_its_color() {
    const TASKS: usize = 1_000;
    let runtime = runtime();
    let handle = runtime.handle();
    let (on_color, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (busy, core) = (handle.clone(), CoreIndex(0));
    handle.spawn_on(&handle.color_on(core), async move {
        while !busy.shared.end.is_stopping() {
            std::thread::yield_now();
        }
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let counted = CountOnColor(on_color.clone());
            let begun = begun.clone();
            handle.spawn_on(&handle.color_on(core), async move {
                begun.store(true, Ordering::Release);
                pending::<()>().await;
                drop(counted);
            })
        })
        .collect();
    assert_eq!(runtime.shutdown(Duration::ZERO).tasks_cancelled, TASKS + 1);
    assert_eq!(on_color.load(Ordering::Acquire), TASKS);
    assert!(!begun.load(Ordering::Acquire));
    assert!(tasks.into_iter().all(|task| task.wait() == Err(TaskError::Cancelled)));
    assert_eq!(handle.snapshot().tasks, 0);
}

struct CountOnColor(Arc<AtomicUsize>);

impl Drop for CountOnColor {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(crate::current_color().is_some()), Ordering::Release);
    }
}

/// A result without a reader is dropped with the task's handle, although a waker keeps the task
/// itself.
#[test]
fn a_result_is_not_kept_by_a_waker() {
    let runtime = runtime();
    let handle = runtime.handle();
    let (perf_counters, kept) = (Arc::new(()), Arc::new(OnceLock::new()));
    let (result, waker) = (perf_counters.clone(), kept.clone());
    let task = handle.spawn_on(
        &handle.color(),
        std::future::poll_fn(move |context| {
            waker.get_or_init(|| context.waker().clone());
            std::task::Poll::Ready(result.clone())
        }),
    );
    eventually("it ends", || handle.snapshot().tasks == 0 && kept.get().is_some());
    drop(task);
    eventually("only the test has it", || Arc::strong_count(&perf_counters) == 1);
    runtime.shutdown(PATIENCE);
}

/// No machine has that many cpus.
const NOWHERE: usize = 100_000;

#[test]
fn core_without_its_cpu_runs_unpinned_on_request() {
    let builder = || Runtime::builder().cpus([NOWHERE]);
    assert!(matches!(builder().build(), Err(StartError::Pin { core: 0, cpu: NOWHERE, .. })));
    let runtime = builder().pinning(Pinning::WherePossible).build().expect("it starts");
    let handle = runtime.handle();
    let core = handle.cores().next().expect("one core");
    assert_eq!(handle.cpu(core), NOWHERE);
    let ran = handle.spawn_on(&handle.color_on(core), async { vermeil_io::current_affinity().len() });
    assert!(ran.wait().expect("it runs") > 0);
}

/// Regression: the thread ended, and the pool still counted the thread.
#[test]
fn panicking_result_leaves_the_blocking_thread() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("planted");
        }
    }
    let runtime = runtime_with(Limits { blocking_threads: 1, ..Limits::default() });
    let handle = runtime.handle();
    let (go, goes_on) = mpsc::channel::<()>();
    let unclaimed = handle.spawn(async move {
        let mut waits = Box::pin(blocking(move || {
            goes_on.recv().expect("the test lets it go on");
            Panics
        }));
        poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await
    });
    assert_eq!(unclaimed.wait(), Ok(true));
    go.send(()).expect("it waits");
    let (to, done) = mpsc::channel();
    handle.spawn(async move { to.send(blocking(|| 7).await.expect("room")) });
    assert_eq!(done.recv_timeout(PATIENCE), Ok(7));
}
