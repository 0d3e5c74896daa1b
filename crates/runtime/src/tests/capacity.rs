//! Backpressure: bounded colors, full cores, and posters that wait for room in either.

use super::{PATIENCE, eventually, four_cores, runtime, runtime_with};
use crate::{
    Color, Colored, CoreIndex, Ended, Exclusion, FullOf, Handle, Handler, Limits, Pinning, Policy, Runtime,
    Spec, Task, current_color, yield_now,
};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// A handler that reports each begin and waits for its release.
struct GatedHandler {
    handler: Handler<u32>,
    begun: Receiver<u32>,
    release: Sender<()>,
}

impl GatedHandler {
    fn new(handle: &Handle) -> Self {
        let ((begins, begun), (release, released)) = (channel(), channel());
        let released = Mutex::new(released);
        let handler = handle.handler("gate", move |number: u32| {
            begins.send(number).expect("somebody looks");
            released.lock().expect("nobody panics here").recv().expect("it is let go");
        });
        Self { handler, begun, release }
    }

    /// Releases the running event, and waits for the next begin.
    fn next(&self) -> u32 {
        self.release.send(()).expect("it waits");
        self.begins()
    }

    /// Waits for an event to begin.
    fn begins(&self) -> u32 {
        self.begun.recv_timeout(PATIENCE).expect("one more begins")
    }
}

struct UnparkThis(Thread);

impl Wake for UnparkThis {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on a thread that is no core.
fn wait_here<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(UnparkThis(thread::current())));
    let (mut future, deadline) = (pin!(future), Instant::now() + PATIENCE);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
        assert!(Instant::now() < deadline, "it is woken in time");
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn waiting(handle: &Handle, core: u32) -> usize {
    handle.shared.core(core).waiters.lock().expect("nobody panics under it").len()
}

#[test]
fn full_color_returns_the_event_and_blocks_no_other_color() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color().bounded(2);
    let gate = GatedHandler::new(&handle);
    for number in 0..3 {
        gate.handler.post(&color, number).expect("there is room");
        if number == 0 {
            assert_eq!(gate.begins(), 0, "it has begun, and counts no longer");
        }
    }
    let full = gate.handler.post(&color, 3).expect_err("two wait");
    assert_eq!((full.event, full.bound, full.of), (3, 2, FullOf::Color));
    assert_eq!(full.to_string(), "the color's event queue is full (2 events): post again later");
    let met = handle.when(&[&color], || 1);
    let task = handle.spawn_on(&color, async { 2 });
    let elsewhere = handle.handler("elsewhere", |()| ());
    elsewhere.post(&handle.color(), ()).expect("another color has room");
    assert_eq!(gate.next(), 1);
    gate.handler.post(&color, 4).expect("there is room again");
    assert_eq!((gate.next(), color.waiters()), (2, (1, 0)));
    gate.release.send(()).expect("it waits");
    assert_eq!((met.wait(), task.wait()), (Ok(1), Ok(2)));
    gate.release.send(()).expect("it waits");
    eventually("all have run", || color.waiters() == (0, 0) && color.is_empty());
    let fragile = handle.handler("fragile", |()| panic!("planted"));
    (0..2).for_each(|_| fragile.post(&color, ()).expect("there is room"));
    eventually("a panic gives its place back", || color.waiters() == (0, 0));
    runtime.shutdown(PATIENCE);
}

/// Tasks wait for a color with a single place. A cancelled task leaves the line, and a plain post
/// must not overtake the others.
#[test]
fn capacity_admits_the_longest_waiter_first() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let color = handle.color().bounded(1);
    let gate = GatedHandler::new(&handle);
    gate.handler.post(&color, 100).expect("there is room");
    assert_eq!(gate.begins(), 100);
    gate.handler.post(&color, 101).expect("there is room");
    let tasks: Vec<Task<_>> = (0..6)
        .map(|number| {
            let (posts, to) = (gate.handler, color.clone());
            let task = handle.spawn(async move { posts.post_when_room(&to, number).await });
            eventually("it waits", || color.waiters() == (1, number as usize + 1));
            task
        })
        .collect();
    tasks[2].cancel();
    eventually("it waits no longer", || color.waiters() == (1, 5));
    assert_eq!(gate.next(), 101);
    for number in [0, 1, 3, 4, 5] {
        assert_eq!(gate.handler.post(&color, 99).map_err(|full| full.of), Err(FullOf::Color));
        assert_eq!(gate.next(), number);
    }
    gate.release.send(()).expect("it waits");
    eventually("all are through", || color.waiters() == (0, 0));
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait().is_ok(), number != 2);
    }
    runtime.shutdown(PATIENCE);
}

#[test]
fn full_core_admits_its_waiters() {
    let runtime = runtime_with(Limits { events_per_core: 2, ..Limits::default() });
    let handle = runtime.handle();
    let color = handle.color_on(CoreIndex(0));
    let gate = GatedHandler::new(&handle);
    for number in 0..3 {
        gate.handler.post(&color, number).expect("there is room");
        if number == 0 {
            assert_eq!(gate.begins(), 0);
        }
    }
    assert_eq!(gate.handler.post(&color, 3).map_err(|full| full.of), Err(FullOf::Core));
    let (outside, far) = (color.clone(), color.clone());
    let (posts, other) = (gate.handler, handle.color_on(CoreIndex(1)));
    let first = handle.spawn_on(&other, async move { posts.post_when_room(&far, 4).await });
    eventually("it waits", || waiting(&handle, 0) == 1);
    let second = thread::spawn(move || wait_here(posts.post_when_room(&outside, 5)));
    eventually("it waits, too", || waiting(&handle, 0) == 2);
    // A poster that gives up delays no other poster.
    {
        let mut dropped = Box::pin(posts.post_when_room(&color, 6));
        assert!(poll_once(dropped.as_mut()).is_none());
        assert_eq!(waiting(&handle, 0), 3);
    }
    assert_eq!(waiting(&handle, 0), 2);
    assert_eq!(gate.handler.post(&color, 7).map_err(|full| full.of), Err(FullOf::Core));
    let mut seen: Vec<_> = (0..4).map(|_| gate.next()).collect();
    // Posters that were let in at once post in any order.
    seen[2..].sort_unstable();
    assert_eq!(seen, [1, 2, 4, 5]);
    gate.release.send(()).expect("it waits");
    assert_eq!(first.wait(), Ok(Ok(())));
    assert_eq!(second.join().expect("it ends"), Ok(()));
    eventually("nothing is left", || handle.snapshot().cores.iter().all(|core| core.queued_events == 0));
    runtime.shutdown(PATIENCE);
}

/// If the future with a reserved place is dropped, the place goes to the next poster.
#[test]
fn abandoned_permit_passes_to_the_next_waiter() {
    let limits = Limits { events_per_core: 1, ..Limits::default() };
    let runtime = runtime_with(limits);
    let handle = runtime.handle();
    let gate = GatedHandler::new(&handle);
    for color in [handle.color_on(CoreIndex(0)), handle.color_on(CoreIndex(0)).bounded(1)] {
        gate.handler.post(&color, 0).expect("there is room");
        assert_eq!(gate.begins(), 0);
        gate.handler.post(&color, 1).expect("there is room");
        let mut first = Box::pin(gate.handler.post_when_room(&color, 2));
        let mut second = Box::pin(gate.handler.post_when_room(&color, 3));
        assert!(poll_once(first.as_mut()).is_none() && poll_once(second.as_mut()).is_none());
        assert_eq!(gate.next(), 1);
        gate.handler.post(&color, 9).expect_err("the place is the first's");
        assert!(poll_once(second.as_mut()).is_none());
        drop(first);
        eventually("it is the second's", || poll_once(second.as_mut()) == Some(Ok(())));
        assert_eq!(gate.next(), 3);
        gate.release.send(()).expect("it waits");
        eventually("the color is empty", || color.is_empty());
    }
    assert_eq!(runtime.shutdown(PATIENCE).events_dropped, 0);
}

/// Many tasks on four cores post to rooms with very few places; some post without waiting and some
/// give up. Every waiting poster enters, no event runs twice, and no place is lost.
#[test]
fn capacity_loses_no_permit_and_no_waiter() {
    const TASKS: usize = 24;
    const ROUNDS: usize = 120;
    for (policy, events_per_core) in
        [(Policy::Adaptive, 1), (Policy::None, 2), (Policy::Libasync, 3), (Policy::Mely, 1 << 20)]
    {
        let allowed = vermeil_io::current_affinity();
        let cpus = (0..4).map(|core| allowed[core % allowed.len()]);
        let limits = Limits { events_per_core, ..Limits::default() };
        let builder =
            Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy.clone()).limits(limits);
        let runtime = builder.build().expect("a runtime starts");
        let handle = runtime.handle();
        let colors: Arc<Vec<Color>> = Arc::new(
            (0..6).map(|number| handle.color().bounded(1 + number % 3)).chain([handle.color()]).collect(),
        );
        let (ran, posted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts: Arc<Vec<_>> = Arc::new(colors.iter().map(|c| Colored::new(c.id(), 0)).collect());
        let work = handle.handler("work", {
            let (ran, counts) = (ran.clone(), counts.clone());
            move |color: usize| {
                counts[color].with(|count| *count += 1);
                ran.fetch_add(1, Ordering::Relaxed);
            }
        });
        let poster = |number: usize| {
            let (colors, posted) = (colors.clone(), posted.clone());
            async move {
                for round in 0..ROUNDS {
                    let at = (number * 5 + round) % colors.len();
                    match round % 4 {
                        0 => {
                            if work.post(&colors[at], at).is_ok() {
                                posted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        1 => {
                            // Gives up after a single look, whether waiting or let in.
                            let mut waits = Box::pin(work.post_when_room(&colors[at], at));
                            if poll_once(waits.as_mut()).is_some() {
                                posted.fetch_add(1, Ordering::Relaxed);
                            }
                            yield_now().await;
                        }
                        _ => {
                            work.post_when_room(&colors[at], at).await.expect("the runtime runs");
                            posted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            }
        };
        let tasks: Vec<_> = (0..TASKS).map(|number| handle.spawn(poster(number))).collect();
        thread::scope(|scope| {
            let outside = poster(TASKS);
            scope.spawn(move || wait_here(outside));
        });
        eventually("nobody waits for ever", || handle.shared.tasks_alive() == 0);
        assert!(tasks.into_iter().all(|task| task.wait().is_ok()));
        let stopped = runtime.shutdown(PATIENCE);
        assert_eq!((stopped.tasks_cancelled, stopped.events_dropped), (0, 0), "{policy}");
        assert_eq!(ran.load(Ordering::Relaxed), posted.load(Ordering::Relaxed), "{policy}");
        assert!(posted.load(Ordering::Relaxed) >= TASKS * ROUNDS / 2);
        assert!(colors[..6].iter().all(|color| color.waiters() == (0, 0)), "{policy}");
        for core in 0..4 {
            let core = handle.shared.core(core);
            assert_eq!((core.queued.len(), core.queued.is_awaited()), (0, false));
        }
    }
}

/// Waiting tasks are cancelled, and waiting threads get their events back.
#[test]
fn shutdown_ends_waits_for_capacity() {
    let core_full = Limits { events_per_core: 1, ..Limits::default() };
    for (limits, bound) in [(core_full, 10), (Limits::default(), 1)] {
        let runtime = runtime_with(limits);
        let handle = runtime.handle();
        let color = handle.color_on(CoreIndex(0)).bounded(bound);
        let gate = GatedHandler::new(&handle);
        gate.handler.post(&color, 0).expect("there is room");
        assert_eq!(gate.begins(), 0);
        gate.handler.post(&color, 1).expect("there is room");
        // The future has its place and is never polled again, so posters behind it would wait for
        // ever.
        let mut keeps = Box::pin(gate.handler.post_when_room(&color, 2));
        assert!(poll_once(keeps.as_mut()).is_none());
        let (posts, to) = (gate.handler, color.clone());
        let far = handle.color_on(CoreIndex(1));
        let task = handle.spawn_on(&far, async move { posts.post_when_room(&to, 3).await });
        let waits = || match bound {
            1 => color.waiters().1,
            _ => waiting(&handle, 0),
        };
        eventually("the task waits", || waits() == 2);
        let to = color.clone();
        let outside = thread::spawn(move || wait_here(posts.post_when_room(&to, 4)));
        eventually("somebody else waits", || waits() == 3);
        assert_eq!(gate.next(), 1);
        gate.release.send(()).expect("it waits");
        runtime.shutdown(Duration::ZERO);
        assert!(task.wait().is_err());
        let ended = outside.join().expect("it ends").expect_err("nobody would run it");
        assert_eq!(ended, Ended { event: 4 });
        assert_eq!(ended.to_string(), "the event was not posted: its runtime has ended");
        drop(keeps);
        assert_eq!(wait_here(posts.post_when_room(&color, 5)), Err(Ended { event: 5 }));
        assert_eq!(wait_here(posts.send_when_room(6)), Err(Ended { event: 6 }));
    }
}

#[test]
fn zero_and_maximal_bounds_hold() {
    let runtime = runtime_with(Limits { events_per_core: 0, ..Limits::default() });
    let handle = runtime.handle();
    let nothing = handle.handler("nothing", |()| ());
    assert!(nothing.send(()).is_err());
    let waits = thread::spawn(move || wait_here(nothing.send_when_room(())));
    eventually("it waits", || waiting(&handle, handle.default_color().core().0) == 1);
    assert_eq!(runtime.shutdown(Duration::ZERO).events_dropped, 0);
    assert_eq!(waits.join().expect("it ends"), Err(Ended { event: () }));

    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let gate = GatedHandler::new(&handle);
    let least = handle.color().bounded(0);
    gate.handler.post(&least, 0).expect("at least one");
    assert_eq!(gate.begins(), 0);
    gate.handler.post(&least, 1).expect("at least one");
    assert_eq!(gate.handler.post(&least, 2).expect_err("one waits").bound, 1);
    (0..2).for_each(|_| gate.release.send(()).expect("it waits"));
    let note = handle.handler("note", |_: u32| ());
    let most = handle.color().bounded(usize::MAX);
    (0..1000).for_each(|number| note.post(&most, number).expect("there is room"));
    assert!(catch_unwind(AssertUnwindSafe(|| handle.default_color().bounded(1))).is_err());
    let shared = handle.color();
    let _other = shared.clone();
    assert!(catch_unwind(AssertUnwindSafe(|| shared.bounded(1))).is_err());
    runtime.shutdown(PATIENCE);
}

#[test]
fn bounds_go_with_keys_groups_and_free_colors() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let gate = GatedHandler::new(&handle);
    let users = handle.keyed::<u32>().bounded(1);
    let color = users.clone().color_of(&7);
    gate.handler.post(&color, 0).expect("there is room");
    assert_eq!(gate.begins(), 0);
    gate.handler.post(&users.color_of(&7), 1).expect("there is room");
    assert!(gate.handler.post(&users.color_of(&7), 2).is_err());
    assert_eq!(gate.next(), 1);
    gate.release.send(()).expect("it waits");

    let group = handle.color().bounded(1);
    let grouped = handle.handler(Spec::new("grouped").exclusion(Exclusion::Group(group.clone())), |()| ());
    gate.handler.post(&group, 3).expect("there is room");
    assert_eq!(gate.begins(), 3);
    grouped.send(()).expect("there is room");
    assert!(grouped.post(&handle.color(), ()).is_err(), "its color is the group's");
    gate.release.send(()).expect("it waits");

    // Otherwise the next gate event may get the release of an earlier event.
    eventually("all have ended", || color.is_empty() && group.is_empty());

    // The colors of all its events are on a single core, which a begun event keeps busy. Two more
    // events may wait.
    let free = handle.concurrent_color_at(&crate::Place::Core(CoreIndex(1))).bounded(2);
    assert!(free.is_concurrent());
    gate.handler.post(&free, 4).expect("there is room");
    assert_eq!(gate.begins(), 4);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = handle.handler("note", {
        let seen = seen.clone();
        move |()| seen.lock().unwrap().push(current_color().expect("on a core"))
    });
    (0..2).for_each(|_| note.post(&free, ()).expect("there is room"));
    assert_eq!((note.post(&free, ()).is_err(), free.waiters()), (true, (2, 0)));
    let (waits, to) = (note, free.clone());
    let task = handle.spawn(async move { waits.post_when_room(&to, ()).await });
    eventually("it waits", || free.waiters() == (2, 1));
    gate.release.send(()).expect("it waits");
    assert_eq!(task.wait(), Ok(Ok(())));
    eventually("all ran", || seen.lock().unwrap().len() == 3);
    let seen = seen.lock().unwrap();
    assert!(seen[0] != seen[1] && seen[1] != seen[2]);
    runtime.shutdown(PATIENCE);
}
