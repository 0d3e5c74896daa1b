//! Tasks of `spawn_staying`: their color moves during a wait of `movable`, and at no other time.

use super::PATIENCE;
use crate::{CoreIndex, Pinning, Policy, Runtime, core_index, movable};
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
