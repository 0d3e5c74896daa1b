//! Sleeps, time limits, and the wake-up of an idle core for a new, earlier timer.

use super::{PATIENCE, eventually, runtime, within_patience};
use crate::{CoreIndex, Sleep, Timeout, now_ms, sleep, yield_now};
use std::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let order = std::sync::Arc::new(crate::Colored::new(color.id(), Vec::new()));
    let tasks: Vec<_> = [40u64, 10, 25]
        .map(|ms| {
            let order = order.clone();
            handle.spawn_on(&color, async move {
                let before = now_ms();
                sleep(Duration::from_millis(ms)).await;
                order.with(|order| order.push(ms));
                assert!(now_ms() - before + 1 >= ms, "no sleep ends early");
            })
        })
        .into();
    for task in tasks {
        task.wait().unwrap();
    }
    assert_eq!(
        handle.spawn_on(&color, async move { order.with(std::mem::take) }).wait().unwrap(),
        [10, 25, 40]
    );
}

#[test]
fn timeout_ends_a_slow_future_and_is_reusable() {
    let runtime = runtime();
    let handle = runtime.handle();
    let task = handle.spawn(async {
        let mut limit = Sleep::unset();
        limit.set(Duration::from_secs(3600));
        assert_eq!(limit.limit(async { 1 }).await, Ok(1));
        limit.set(Duration::from_millis(5));
        assert_eq!(limit.limit(pending::<()>()).await, Err(Timeout));
        limit.set(Duration::from_secs(3600));
        assert_eq!(limit.limit(yield_now()).await, Ok(()), "a spent limit can be set again");
        // Set far, awaited, then moved near: the armed timer must not delay the new deadline.
        assert_eq!(limit.limit(yield_now()).await, Ok(()));
        limit.set(Duration::from_millis(5));
        assert_eq!(limit.limit(pending::<()>()).await, Err(Timeout));
    });
    task.wait().unwrap();
}

/// Regression: the task woke at the former deadline.
#[test]
fn earlier_deadline_wakes_the_waiting_task() {
    let runtime = runtime();
    let handle = runtime.handle();
    for [waits_on, sets_on] in [[0, 0], [0, 1], [1, 0]].map(|cores| cores.map(CoreIndex)) {
        for first in [Duration::from_secs(3600), Duration::MAX] {
            let limit = Arc::new(Mutex::new(Sleep::unset()));
            let (waiting, waits) = mpsc::channel();
            let shared = limit.clone();
            let task = handle.spawn_on(&handle.color_on(waits_on), async move {
                shared.lock().expect("no panic").set(first);
                poll_fn(|context| {
                    let polled = Pin::new(&mut *shared.lock().expect("no panic")).poll(context);
                    // The receiver is gone once the deadline has moved.
                    let _ = waiting.send(());
                    polled
                })
                .await;
            });
            waits.recv_timeout(PATIENCE).expect("it waits");
            let sets = handle.spawn_on(&handle.color_on(sets_on), async move {
                limit.lock().expect("no panic").set(Duration::from_millis(1));
            });
            sets.wait().expect("it ends");
            within_patience("the sleep ends at its new deadline", move || task.wait()).expect("it ends");
        }
    }
}

/// Regression: a sleep of an older runtime lasted longer by the difference in age.
#[test]
fn runtimes_share_a_clock() {
    let older = runtime();
    eventually("a moment passes", || older.handle().spawn(async { now_ms() }).wait().expect("it ends") > 100);
    let before = older.handle().spawn(async { now_ms() }).wait().expect("it ends");
    let younger = runtime();
    let after = younger.handle().spawn(async { now_ms() }).wait().expect("it ends");
    assert!(after >= before, "{after} is before {before}");
}

/// Regression: a sleep counted from the core's last look at its timers, so the sleep was over
/// before it began.
#[test]
fn a_sleep_counts_from_now_however_long_its_task_has_run() {
    let runtime = runtime();
    let handle = runtime.handle();
    let task = handle.spawn(async {
        std::thread::sleep(Duration::from_millis(30));
        let before = Instant::now();
        sleep(Duration::from_millis(10)).await;
        before.elapsed()
    });
    let slept = task.wait().unwrap();
    assert!(slept >= Duration::from_millis(10), "{slept:?}");
}
