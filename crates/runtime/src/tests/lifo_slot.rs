//! The LIFO slot: a single woken color runs next, ahead of the queue; several woken colors run in
//! the order of the queue.

use super::PATIENCE;
use crate::{CoreIndex, Handle, Handler, Policy, Runtime, Spec};
use std::{
    sync::{Arc, Mutex, OnceLock, mpsc},
    time::Duration,
};

/// A single core, so that the order is deterministic.
fn runtime(policy: Policy) -> Runtime {
    let cpu = vermeil_io::current_affinity()[0];
    Runtime::builder().cpus([cpu]).policy(policy).build().expect("a runtime starts")
}

/// On a core with the events `a` and `c` queued, `a` wakes `wakes`; returns the order of all runs.
/// `a` is annotated with `cost`.
fn order(policy: Policy, cost: Duration, wakes: &'static [char]) -> String {
    let runtime = runtime(policy);
    let handle = runtime.handle();
    let ran = Arc::new(Mutex::new(String::new()));
    let (end, ended) = mpsc::channel();
    let color = |handle: &Handle| handle.color_on(CoreIndex(0));
    let note = handle.handler("note", {
        let ran = ran.clone();
        move |name: char| {
            let mut ran = ran.lock().unwrap();
            ran.push(name);
            if ran.len() == 2 + wakes.len() {
                end.send(()).expect("the test waits");
            }
        }
    });
    let first = handle.handler(Spec::new("first").cost(cost), {
        let (ran, handle) = (ran.clone(), handle.clone());
        move |()| {
            ran.lock().unwrap().push('a');
            for &name in wakes {
                note.post(&color(&handle), name).expect("below the bound");
            }
        }
    });
    let begin = handle.handler("begin", {
        let handle = handle.clone();
        move |()| {
            first.post(&color(&handle), ()).expect("below the bound");
            note.post(&color(&handle), 'c').expect("below the bound");
        }
    });
    begin.post(&color(&handle), ()).expect("below the bound");
    ended.recv_timeout(PATIENCE).expect("all ran");
    runtime.shutdown(PATIENCE);
    ran.lock().unwrap().clone()
}

const SHORT: Duration = Duration::from_nanos(500);

#[test]
fn only_woken_color_runs_next() {
    assert_eq!(order(Policy::Adaptive, SHORT, &['b']), "abc");
    assert_eq!(order(Policy::Mely, SHORT, &['b']), "acb", "Mely's policy has no LIFO slot");
}

#[test]
fn several_woken_colors_are_queued_in_order() {
    assert_eq!(order(Policy::Adaptive, SHORT, &['b', 'd', 'e']), "acbde");
}

#[test]
fn long_event_queues_its_woken_color() {
    assert_eq!(order(Policy::Adaptive, Duration::from_millis(1), &['b']), "acb");
}

/// Two colors wake each other for ever; a third color still gets its turn.
#[test]
fn pair_in_the_lifo_slot_delays_no_other_color() {
    let runtime = runtime(Policy::Adaptive);
    let handle = runtime.handle();
    let colors = [(); 2].map(|()| handle.color());
    let again: Arc<OnceLock<Handler<usize>>> = Arc::default();
    let talk = handle.handler("talk", {
        let again = again.clone();
        // Fails when the runtime ends.
        move |to: usize| drop(again.get().expect("set before").post(&colors[to], 1 - to))
    });
    assert!(again.set(talk).is_ok(), "set once");
    let (said, heard) = mpsc::channel();
    let other = handle.handler("other", move |()| said.send(()).expect("the test waits"));
    talk.post(&handle.color(), 0).expect("below the bound");
    for _ in 0..100 {
        other.post(&handle.color(), ()).expect("below the bound");
        heard.recv_timeout(PATIENCE).expect("the others have their turn");
    }
    runtime.shutdown(Duration::ZERO);
}
