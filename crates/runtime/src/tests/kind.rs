//! Registered kinds of tasks: the spec holds for each poll.

use super::{PATIENCE, eventually, four_cores};
use crate::{
    Class, CoreIndex, Exclusion, Place, Policy, Runtime, Spec, TaskError, core_index, current_color, sleep,
    yield_now,
};
use std::{
    collections::HashSet,
    future::poll_fn,
    num::NonZeroU32,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    task::{Poll, Waker},
    time::{Duration, Instant},
};

/// Tasks with their own colors and tasks of a shared color, some of which have hopped, all run in
/// the class of their kind.
#[test]
fn class_divides_time_among_tasks() {
    let class = |name, shares| Class::new(name).shares(NonZeroU32::new(shares).expect("not zero"));
    let cpu = vermeil_io::current_affinity()[0];
    let classes = [class("net", 900), class("bulk", 100)];
    let runtime = Runtime::builder().cpus([cpu]).classes(classes).build().expect("a runtime starts");
    let handle = runtime.handle();
    let ran = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    for (class, at) in [("net", 0), ("bulk", 1)] {
        let kind = handle.kind(Spec::new(class).class(class));
        let work = || {
            let ran = ran.clone();
            async move {
                loop {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(20) {
                        std::hint::spin_loop();
                    }
                    ran[at].fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }
        };
        kind.spawn(work());
        kind.spawn_on(&handle.color(), work());
        let away = handle.color();
        let hopped = work();
        kind.spawn(async move {
            crate::hop(&away).await;
            hopped.await
        });
    }
    let count = |at: usize| ran[at].load(Ordering::Relaxed);
    eventually("both classes run", || count(0) + count(1) > 10_000 && count(1) > 200);
    assert!(count(0) > 2 * count(1), "{} against {}", count(0), count(1));
    runtime.shutdown(Duration::ZERO);
}

#[test]
fn kind_annotates_its_polls() {
    let runtime = four_cores(Policy::Mely);
    let handle = runtime.handle();
    let spec = Spec::new("seal").cost(Duration::from_micros(900)).penalty(7).batch(3);
    let seal = handle.kind(spec.batch_time(Duration::from_micros(50)));
    let shared = &handle.shared;
    assert_eq!(shared.handlers.cost_hint(seal.index()).cost_ns, 900_000);
    assert_eq!(shared.handlers.cost_hint(seal.index()).penalty, 7);
    assert_eq!(shared.handlers.batch(seal.index(), 32, 256), 3);
    assert_eq!(shared.handlers.batch_ns(seal.index()), Some(50_000));
    let polled_twice = |kind: crate::TaskKind| {
        kind.spawn(async {
            sleep(Duration::from_micros(10)).await;
            7
        })
    };
    assert_eq!((polled_twice(seal).wait(), polled_twice(handle.kind("other")).wait()), (Ok(7), Ok(7)));
    let panics = seal.spawn_on(&handle.color(), async { panic!("planted") });
    assert!(panics.wait().is_err_and(|error| error.is_panic()));
    let runs = |name: &str| {
        let handlers = handle.snapshot().handlers;
        handlers.iter().find(|handler| handler.name == name).expect("it was registered").runs
    };
    eventually("all polls are counted", || (runs("seal"), runs("other")) == (3, 2));
    runtime.shutdown(PATIENCE);
}

#[test]
fn kind_follows_its_exclusion_and_place() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (group, given) = (handle.color(), handle.color());
    let where_it_runs = async || {
        yield_now().await;
        (current_color().expect("on a core"), core_index().expect("on a core").0)
    };
    let place = Place::Cores(vec![CoreIndex(1), CoreIndex(3)]);
    let colors = |exclusion: Exclusion| {
        let kind = handle.kind(Spec::new("kind").exclusion(exclusion).place(place.clone()));
        let tasks = (0..40).map(|number| match number % 2 {
            0 => kind.spawn(where_it_runs()),
            _ => kind.spawn_on(&given, where_it_runs()),
        });
        let tasks: Vec<_> = tasks.collect();
        let seen: Vec<_> = tasks.into_iter().map(|task| task.wait().expect("ends")).collect();
        (seen.iter().map(|(color, _)| *color).collect::<HashSet<_>>(), seen)
    };
    let (own, seen) = colors(Exclusion::Color);
    assert_eq!(own.len(), 21, "one each, and the given one");
    let placed = |(color, core): &(_, u32)| *color == given.id() || [1, 3].contains(core);
    assert!(seen.iter().all(placed), "{seen:?}");
    let (one, seen) = colors(Exclusion::Handler);
    assert!(one.len() == 1 && !one.contains(&given.id()) && seen.iter().all(placed));
    assert_eq!(colors(Exclusion::Group(group.clone())).0, HashSet::from([group.id()]));
    let (fresh, seen) = colors(Exclusion::None);
    assert!(fresh.len() == 40 && seen.iter().all(placed));
    runtime.shutdown(PATIENCE);
}

#[test]
fn kind_refuses_impossible_specs() {
    let (runtime, other) = (four_cores(Policy::None), four_cores(Policy::None));
    let handle = runtime.handle();
    let refused = |spec: Spec| catch_unwind(AssertUnwindSafe(|| handle.kind(spec))).is_err();
    assert!(refused(Spec::new("gathers").batch_wait(2, Duration::from_millis(1))));
    assert!(refused(Spec::new("unknown class").class("nobody")));
    assert!(refused(Spec::new("free group").exclusion(Exclusion::Group(handle.concurrent_color()))));
    let kind = handle.kind("kind");
    let stranger = other.handle().color();
    assert!(catch_unwind(AssertUnwindSafe(|| kind.spawn_on(&stranger, async {}))).is_err());
    assert_eq!(kind.spawn_on(&handle.concurrent_color(), async { 1 }).wait(), Ok(1));
    runtime.shutdown(PATIENCE);
    other.shutdown(PATIENCE);
    assert_eq!(kind.spawn(async { 1 }).wait(), Err(TaskError::Cancelled));
}

/// Regression: such tasks stayed on the core of their number.
#[test]
fn task_with_own_color_follows_its_leader() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Mely] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let (to, ran) = channel();
        let leader = handle.handler("leader", move |()| to.send(()).expect("the test waits"));
        let follows = handle.kind(Spec::new("follows").place(Place::Follow(leader.index())));
        let produced = handle.kind(Spec::new("produced").place(Place::Producer));
        for core in handle.cores() {
            leader.post(&handle.color_on(core), ()).expect("room");
            ran.recv_timeout(PATIENCE).expect("it runs");
            assert_eq!(follows.spawn(async { core_index() }).wait(), Ok(Some(core)), "{policy}");
            let maker = async move { produced.spawn(async { core_index() }).await };
            let made = handle.spawn_on(&handle.color_on(core), maker).wait();
            assert_eq!(made, Ok(Ok(Some(core))), "{policy}");
        }
        let shared_color = handle.concurrent_color_at(&Place::Producer);
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let waits = waker.clone();
        let woken = handle.spawn_on(&shared_color, async move {
            let mut has_waited = false;
            poll_fn(|context| {
                if std::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(core_index());
                }
                *waits.lock().expect("no panic under this lock") = Some(context.waker().clone());
                Poll::Pending
            })
            .await
        });
        let is_set = || waker.lock().expect("no panic under this lock").is_some();
        eventually("the task waits", is_set);
        let wakes = async move {
            let waker = waker.lock().expect("no panic under this lock").take();
            waker.expect("the task waits").wake();
        };
        handle.spawn_on(&handle.color_on(CoreIndex(2)), wakes).wait().expect("it ends");
        assert_eq!(woken.wait(), Ok(Some(CoreIndex(2))), "{policy}: the core that woke the task");
        runtime.shutdown(PATIENCE);
    }
}
