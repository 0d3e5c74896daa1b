//! Steals, moves and wakes are counted once, for the acting thread and for the right handler.

use super::{PATIENCE, eventually, four_cores, runtime};
use crate::{CoreIndex, Handle, HandlerSnapshot, Pinning, Place, Policy, Runtime, Spec};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

fn two_cores(policy: Policy) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = [allowed[0], *allowed.last().expect("a process has a cpu")];
    Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy).build().expect("a runtime starts")
}

fn of(handle: &Handle, name: &str) -> HandlerSnapshot {
    let handlers = handle.snapshot().handlers;
    handlers.into_iter().find(|handler| handler.name == name).expect("it was registered")
}

fn of_cores(handle: &Handle, count: fn(&crate::CoreSnapshot) -> u64) -> Vec<u64> {
    handle.snapshot().cores.iter().map(count).collect()
}

#[test]
fn waking_thread_counts_the_wake() {
    let runtime = two_cores(Policy::None);
    let handle = runtime.handle();
    let (near, far) = (handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(1)));
    let pinged = Arc::new(AtomicU64::new(0));
    let ping = handle.handler("ping", {
        let pinged = pinged.clone();
        move |()| {
            pinged.fetch_add(1, Ordering::Relaxed);
        }
    });
    let there = far.clone();
    let call = handle.handler("call", move |()| ping.post(&there, ()).expect("below the bound"));
    let mut posts = 0;
    let mut once = |post: &dyn Fn()| {
        post();
        posts += 1;
        eventually("it has run", || pinged.load(Ordering::Relaxed) == posts);
    };
    eventually("this thread has woken a core", || {
        once(&|| ping.post(&far, ()).expect("below the bound"));
        of(&handle, "ping").wakes > 0
    });
    assert_eq!(of_cores(&handle, |core| core.wakes), [0, 0], "this thread is none of them");
    let before = of(&handle, "ping").wakes;
    eventually("core 0 has woken core 1", || {
        once(&|| call.post(&near, ()).expect("below the bound"));
        of_cores(&handle, |core| core.wakes)[0] > 0
    });
    runtime.shutdown(PATIENCE);
    let wakes = of_cores(&handle, |core| core.wakes);
    assert_eq!((of(&handle, "ping").wakes, wakes[1]), (before + wakes[0], 0));
    assert_eq!(of_cores(&handle, |core| core.thieves_woken), [0, 0]);
}

#[test]
fn counter_counts_only_real_moves() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color_on(CoreIndex(0));
    let work = handle.handler("work", |()| ());
    let looked = color.clone();
    let runs = |posts: u64| {
        eventually("it has run", || of(&handle, "work").runs == posts && looked.is_empty());
    };
    for (post, (to, moves)) in (1..).zip([(1, 1), (1, 1), (0, 2)]) {
        handle.shared.relocate(&color, CoreIndex(to));
        work.post(&color, ()).expect("below the bound");
        runs(post);
        assert_eq!((color.core().0, of(&handle, "work").moves), (to, moves));
    }
    assert_eq!(of_cores(&handle, |core| core.moves), [0, 0], "this thread has moved it");
    let moved = color.clone();
    let sends = handle.handler("sends", move |()| {
        moved.shared.relocate(&moved, CoreIndex(1));
        work.post(&moved, ()).expect("below the bound");
    });
    sends.post(&handle.color_on(CoreIndex(0)), ()).expect("below the bound");
    runs(4);
    runtime.shutdown(PATIENCE);
    assert_eq!((of(&handle, "work").moves, of(&handle, "sends").moves), (3, 0));
    assert_eq!(of_cores(&handle, |core| core.moves), [1, 0]);
}

#[test]
fn move_to_the_poster_counts_as_move() {
    let runtime = two_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let called = handle.handler(Spec::new("called"), |()| ());
    let call = handle.handler("call", move |color: crate::Color| {
        called.post(&color, ()).expect("below the bound");
    });
    let caller = handle.color_on(CoreIndex(1));
    eventually("core 1 has called a color of core 0, which sleeps", || {
        let before = of(&handle, "called").runs;
        let color = handle.color();
        if color.core() == CoreIndex(0) {
            call.post(&caller, color).expect("below the bound");
            eventually("it has run", || of(&handle, "called").runs > before);
        }
        of_cores(&handle, |core| core.moves)[1] > 0
    });
    runtime.shutdown(PATIENCE);
    let moves = of_cores(&handle, |core| core.moves);
    assert_eq!(of(&handle, "called").moves, moves.iter().sum::<u64>());
}

#[test]
fn follower_moves_after_its_leader() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let ran = Arc::new(AtomicU64::new(0));
    let follow = handle.handler(Spec::new("follow").place(Place::Producer), {
        let ran = ran.clone();
        move |()| {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    });
    let follower = handle.color_at(&Place::Producer);
    let followed = follower.clone();
    let lead = handle.handler("lead", move |()| follow.post(&followed, ()).expect("below the bound"));
    for (round, core) in (1..).zip([2, 2, 1, 3]) {
        lead.post(&handle.color_on(CoreIndex(core)), ()).expect("below the bound");
        eventually("it has run", || ran.load(Ordering::Relaxed) == round && follower.is_empty());
    }
    runtime.shutdown(PATIENCE);
    // The first run does not count, because the color was on no core before.
    assert_eq!(of(&handle, "follow").moves, 2);
    assert_eq!(of_cores(&handle, |core| core.moves), [0, 1, 0, 1]);
}
