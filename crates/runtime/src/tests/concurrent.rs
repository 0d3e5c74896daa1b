//! Free colors: their events and tasks run in parallel to everything else, on permitted cores.

use super::{PATIENCE, eventually, four_cores};
use crate::{
    Color, Colored, CoreIndex, Exclusion, Handle, Place, Policy, Runtime, Spec, core_index, current_color,
    hop, sleep,
};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Barrier, Mutex},
    time::Duration,
};

/// Runs `on` with a concurrent color and a barrier for as many threads as cores.
fn at_once(policy: Policy, on: impl Fn(&Handle, &Color, Arc<Barrier>)) {
    let runtime = four_cores(policy);
    let handle = runtime.handle();
    on(&handle, &handle.concurrent_color(), Arc::new(Barrier::new(4)));
    let stopped = runtime.shutdown(PATIENCE);
    assert_eq!((stopped.tasks_cancelled, stopped.events_dropped), (0, 0));
}

/// If any two events waited for each other, the test would not end.
#[test]
fn events_and_tasks_of_a_free_color_run_at_once() {
    at_once(Policy::None, |handle, free, barrier| {
        let meets = handle.handler("meets", move |()| _ = barrier.wait());
        (0..40).for_each(|_| meets.post(free, ()).expect("below the bound"));
    });
    at_once(Policy::None, |handle, free, barrier| {
        let meet = |_| {
            let barrier = barrier.clone();
            handle.spawn_on(free, async move { barrier.wait().is_leader() })
        };
        let tasks: Vec<_> = (0..40).map(meet).collect();
        let led = tasks.into_iter().filter_map(|task| task.wait().expect("ends").then_some(()));
        assert_eq!(led.count(), 10);
    });
}

#[test]
fn concurrent_color_gives_each_event_a_placed_color() {
    for policy in [Policy::Adaptive, Policy::Libasync, Policy::Mely] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let free = handle.concurrent_color_at(&Place::Cores(vec![CoreIndex(1), CoreIndex(3)]));
        assert!(free.is_concurrent() && !handle.color().is_concurrent());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = handle.handler("note", {
            let seen = seen.clone();
            move |()| {
                std::thread::yield_now();
                seen.lock().unwrap().push((current_color().unwrap(), core_index().unwrap().0));
            }
        });
        (0..100).for_each(|_| note.post(&free, ()).expect("below the bound"));
        let tasks = (0..100).map(|_| handle.spawn_on(&free, async { (current_color(), core_index()) }));
        let tasks: Vec<_> = tasks.map(|task| task.wait().expect("ends")).collect();
        eventually("all have run", || seen.lock().unwrap().len() == 100);
        runtime.shutdown(PATIENCE);
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.extend(tasks.into_iter().map(|(color, core)| (color.unwrap(), core.unwrap().0)));
        assert!(seen.iter().all(|(color, core)| *color != free.id() && [1, 3].contains(core)));
        assert_eq!(seen.iter().map(|(color, _)| *color).collect::<HashSet<_>>().len(), 200);
        assert_eq!((free.len(), free.is_empty()), (0, true));
    }
}

#[test]
fn a_task_leaves_its_color_for_a_free_one_and_comes_back() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (home, free) = (handle.color(), handle.concurrent_color());
    let state = Arc::new(Colored::new(home.id(), 0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (home, free, state) = (home.clone(), free.clone(), state.clone());
            handle.spawn_on(&home.clone(), async move {
                let mut away = HashSet::new();
                for _ in 0..5 {
                    state.with(|count| *count += 1);
                    hop(&free).await;
                    away.insert(current_color().expect("on a core"));
                    sleep(Duration::from_micros(20)).await;
                    hop(&home).await;
                }
                away.len()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.wait(), Ok(5), "a color each time");
    }
    let whole = handle.spawn_on(&home, async move { state.with(|count| *count) });
    assert_eq!(whole.wait(), Ok(40));
    runtime.shutdown(PATIENCE);
}

/// A concurrent color does not delay an acquisition, and its placement holds.
#[test]
fn concurrent_color_is_acquired_at_once() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (free, second) = (handle.concurrent_color(), handle.concurrent_color_at(&Place::Core(CoreIndex(2))));
    assert_eq!(handle.when(&[&free, &free, &second], core_index).wait(), Ok(Some(CoreIndex(2))));
    let account = handle.color();
    let balance = Arc::new(Colored::new(account.id(), 7));
    let met = handle.when(&[&free, &account], move || balance.with(|balance| *balance));
    assert_eq!(met.wait(), Ok(7));
    runtime.shutdown(PATIENCE);
}

#[test]
fn exclusive_state_refuses_a_concurrent_color() {
    let panics = |runtime: &Runtime, f: &dyn Fn(&Handle)| {
        let handle = runtime.handle();
        let panic = catch_unwind(AssertUnwindSafe(|| f(&handle))).expect_err("it panics");
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref().cloned())
    };
    let runtime = four_cores(Policy::Adaptive);
    let said = panics(&runtime, &|handle| {
        let group = Exclusion::Group(handle.concurrent_color());
        handle.handler(Spec::new("grouped").exclusion(group), |()| ());
    });
    assert!(said.expect("a text").contains("`Exclusion::None`"));
    let other = four_cores(Policy::Adaptive);
    let stranger = other.handle().concurrent_color();
    let said = panics(&runtime, &|handle| {
        let _ = handle.handler("posts", |()| ()).post(&stranger, ());
    });
    assert!(said.expect("a text").contains("different runtimes"));
    let said = panics(&runtime, &|handle| drop(handle.spawn_on(&stranger, async {})));
    assert!(said.expect("a text").contains("another runtime"));
    let free = runtime.handle().concurrent_color();
    let state = Arc::new(Colored::new(free.id(), 0));
    let reaches = runtime.handle().spawn_on(&free, async move { state.with(|state| *state) });
    assert!(reaches.wait().is_err(), "no state belongs to it");
    runtime.shutdown(PATIENCE);
    other.shutdown(PATIENCE);
}
