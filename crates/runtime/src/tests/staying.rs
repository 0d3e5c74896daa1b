//! Tasks of `spawn_staying`: their color moves during a wait of `movable`, and at no other time.

use super::PATIENCE;
use crate::{CoreIndex, Pinning, Policy, Runtime, core_index, movable, wake_here};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

/// Three cores and the policy that moves every color at every activation.
fn scattering() -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..3).map(|core| allowed[core % allowed.len()]);
    Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(Policy::Scatter).build().expect("starts")
}

/// Waits once, for a thread that is no core.
async fn wait_for_thread() {
    let woken = Arc::new(Mutex::new(false));
    poll_fn(|context| {
        if *woken.lock().unwrap() {
            return Poll::Ready(());
        }
        let (waker, woken): (Waker, _) = (context.waker().clone(), woken.clone());
        std::thread::spawn(move || {
            *woken.lock().unwrap() = true;
            waker.wake();
        });
        Poll::Pending
    })
    .await;
}

fn here() -> CoreIndex {
    core_index().expect("runs on a core")
}

#[test]
fn staying_task_keeps_its_core() {
    let runtime = scattering();
    let handle = runtime.handle();
    for core in handle.cores() {
        let task = handle.spawn_staying(core, async move {
            for _ in 0..50 {
                wait_for_thread().await;
                assert_eq!(here(), core);
            }
        });
        task.wait().expect("the task does not panic");
    }
    runtime.shutdown(PATIENCE);
}

#[test]
fn staying_task_moves_in_movable_waits_alone() {
    let runtime = scattering();
    let handle = runtime.handle();
    let task = handle.spawn_staying(CoreIndex(0), async {
        let mut seen = vec![here()];
        for _ in 0..50 {
            movable(pin!(wait_for_thread())).await;
            let core = here();
            seen.push(core);
            for _ in 0..3 {
                wait_for_thread().await;
                assert_eq!(here(), core, "the wait before lets no color move");
            }
        }
        seen
    });
    let seen = task.wait().expect("the task does not panic");
    let moves = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(moves > 25, "moved {moves} times in 50 waits");
    runtime.shutdown(PATIENCE);
}

#[test]
fn task_that_gave_a_movable_wait_up_stays() {
    let runtime = scattering();
    let handle = runtime.handle();
    let task = handle.spawn_staying(CoreIndex(0), async {
        for _ in 0..50 {
            let mut wait = Box::pin(movable(std::future::pending::<()>()));
            poll_fn(|context| {
                assert!(wait.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(wait);
            let core = here();
            wait_for_thread().await;
            assert_eq!(here(), core);
        }
    });
    task.wait().expect("the task does not panic");
    runtime.shutdown(PATIENCE);
}

/// A task that waits on `core`, in a movable wait or not, until the wake-up; the waker and the end.
fn waiting_task(runtime: &Runtime, core: CoreIndex, may_move: bool) -> (Waker, crate::Task<CoreIndex>) {
    let (to, waker) = std::sync::mpsc::channel();
    let task = runtime.handle().spawn_staying(core, async move {
        let mut polls = 0;
        let wait = poll_fn(|context| {
            polls += 1;
            // The waker of the first poll is enough.
            let _ = to.send(context.waker().clone());
            if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
        });
        let wait = pin!(wait);
        if may_move {
            movable(wait).await
        } else {
            wait.await
        }
        here()
    });
    (waker.recv_timeout(PATIENCE).expect("the task waits"), task)
}

/// The policy moves nothing by itself.
#[test]
fn task_that_may_move_continues_where_it_is_woken() {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..2).map(|core| allowed[core % allowed.len()]);
    let runtime =
        Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(Policy::None).build().expect("starts");
    let handle = runtime.handle();
    for (may_move, expected) in [(true, CoreIndex(1)), (false, CoreIndex(0))] {
        let (waker, task) = waiting_task(&runtime, CoreIndex(0), may_move);
        // The poll of the first core may still be running.
        let idle = handle.spawn_on(&handle.color_on(CoreIndex(0)), async {});
        idle.wait().expect("the core runs");
        let on_other = handle.color_on(CoreIndex(1));
        handle.spawn_on(&on_other, async move { wake_here(|| waker.wake()) }).wait().expect("it wakes");
        assert_eq!(task.wait().expect("the task ends"), expected, "{may_move}");
    }
    runtime.shutdown(PATIENCE);
}
