//! Colors in the background wait behind the others, and do not starve.

use super::{PATIENCE, eventually, moves::pair};
use crate::{
    Color, CoreIndex, DriverOptions, Handle, IoChoice, Policy, Runtime, TcpStream, background, yield_now,
};
use std::{
    future::{pending, poll_fn, ready},
    io::Write as _,
    net::Shutdown,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    time::{Duration, Instant},
};

/// Events before the event that is looked for.
const ROW: usize = 8;

/// The time of each event, so that the time of the background is more than the clock's noise.
const EVENT: Duration = Duration::from_micros(200);

fn one_core(policy: Policy) -> Runtime {
    let cpu = vermeil_io::current_affinity()[0];
    Runtime::builder().cpus([cpu]).policy(policy).build().expect("starts")
}

fn work() {
    work_for(EVENT, || {});
}

/// Runs `first`, and takes `time` in all.
fn work_for(time: Duration, first: impl FnOnce()) {
    let start = Instant::now();
    first();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// How many events run before the event on a color of `color`, if the events of [`ROW`] colors of
/// `row` are posted before.
fn events_before(runtime: &Runtime, row: impl Fn() -> Color, color: &Color) -> usize {
    let handle = runtime.handle();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = handle.handler("note", {
        let seen = seen.clone();
        move |is_last: bool| {
            work();
            seen.lock().unwrap().push(is_last);
        }
    });
    let (row, color): (Vec<_>, _) = ((0..ROW).map(|_| row()).collect(), color.clone());
    let all = handle.handler("all", move |()| {
        row.iter().for_each(|color| note.post(color, false).expect("no bound"));
        note.post(&color, true).expect("no bound");
    });
    all.post(&handle.color(), ()).expect("no bound");
    eventually("all run", || seen.lock().unwrap().len() == ROW + 1);
    let seen = seen.lock().unwrap();
    seen.iter().position(|&is_last| is_last).expect("it ran")
}

#[test]
fn color_alone_waits_for_one_color_of_a_row_in_the_background() {
    for policy in [Policy::Adaptive, Policy::None] {
        let runtime = one_core(policy);
        let handle = runtime.handle();
        assert!(events_before(&runtime, || handle.color().background(), &handle.color()) <= 1);
        assert_eq!(events_before(&runtime, || handle.color(), &handle.color()), ROW);
        let in_background = handle.color().background();
        assert_eq!(events_before(&runtime, || handle.color().background(), &in_background), ROW);
        runtime.shutdown(PATIENCE);
    }
}

#[test]
fn events_of_a_concurrent_color_are_in_its_background() {
    let runtime = one_core(Policy::Adaptive);
    let handle = runtime.handle();
    let row = handle.concurrent_color().background();
    assert!(events_before(&runtime, || row.clone(), &handle.color()) <= 1);
    // Regression: the tasks of the color were not.
    assert_eq!(handle.spawn_on(&row, events_while_yielding()).wait().expect("it ends"), ROW);
    runtime.shutdown(PATIENCE);
}

/// How many events of [`ROW`] colors in the background run before the running task, which lets
/// other colors run once.
async fn events_while_yielding() -> usize {
    let handle = Handle::current();
    let count = Arc::new(AtomicUsize::new(0));
    let note = handle.handler("note", {
        let count = count.clone();
        move |()| {
            work();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (0..ROW).for_each(|_| note.post(&handle.color().background(), ()).expect("no bound"));
    yield_now().await;
    count.load(Ordering::SeqCst)
}

#[test]
fn task_is_in_the_background_until_the_future_is_ready() {
    let runtime = one_core(Policy::Adaptive);
    let handle = runtime.handle();
    let inside = handle.spawn(async { background(Box::pin(events_while_yielding())).await });
    assert_eq!(inside.wait().expect("it ends"), ROW);
    let after = handle.spawn(async {
        background(pin!(yield_now())).await;
        events_while_yielding().await
    });
    assert!(after.wait().expect("it ends") <= 1);
    runtime.shutdown(PATIENCE);
}

#[test]
fn task_leaves_the_background_when_the_future_is_dropped() {
    let runtime = one_core(Policy::Adaptive);
    let task = runtime.handle().spawn(async {
        let mut waits = Box::pin(background(pending::<()>()));
        let is_pending = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await;
        assert!(is_pending);
        yield_now().await;
        drop(waits);
        events_while_yielding().await
    });
    assert!(task.wait().expect("it ends") <= 1);
    runtime.shutdown(PATIENCE);
}

#[test]
fn task_that_begins_in_the_background_leaves_the_background() {
    let runtime = one_core(Policy::Adaptive);
    let handle = runtime.handle();
    let begins = handle.spawn_staying_in_background(CoreIndex(0), events_while_yielding());
    assert_eq!(begins.wait().expect("it ends"), ROW);
    let leaves = handle.spawn_staying_in_background(CoreIndex(0), async {
        background(pin!(ready(()))).await;
        events_while_yielding().await
    });
    assert!(leaves.wait().expect("it ends") <= 1);
    runtime.shutdown(PATIENCE);
}

#[test]
fn color_made_for_the_background_stays_there() {
    let runtime = one_core(Policy::Adaptive);
    let handle = runtime.handle();
    let task = handle.spawn_on(&handle.color().background(), async {
        background(pin!(yield_now())).await;
        events_while_yielding().await
    });
    assert_eq!(task.wait().expect("it ends"), ROW);
    runtime.shutdown(PATIENCE);
}

/// Other colors always have an event, and a row of colors in the background runs nevertheless.
#[test]
fn row_of_colors_in_the_background_does_not_starve() {
    let runtime = one_core(Policy::Adaptive);
    let handle = runtime.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let busy = || {
        let stop = stop.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                yield_now().await;
            }
        }
    };
    let busy = [handle.spawn(busy()), handle.spawn(busy())];
    let (to, done) = std::sync::mpsc::channel();
    let row = handle.handler("row", move |()| {
        work();
        to.send(()).expect("the test waits");
    });
    (0..ROW).for_each(|_| row.post(&handle.color().background(), ()).expect("no bound"));
    (0..ROW).for_each(|_| done.recv_timeout(PATIENCE).expect("it runs"));
    stop.store(true, Ordering::Relaxed);
    for task in busy {
        task.wait().expect("it ends");
    }
    runtime.shutdown(PATIENCE);
}

/// A message arrives while a color in the background runs, and is read before the next such color
/// runs, although the first is short.
#[test]
fn core_looks_at_its_sockets_between_colors_in_the_background() {
    const SHORT: Duration = Duration::from_micros(21);
    for choice in [IoChoice::Epoll, IoChoice::Auto] {
        let cpu = vermeil_io::current_affinity()[0];
        let io = DriverOptions { choice, ..DriverOptions::default() };
        let runtime = Runtime::builder().cpus([cpu]).io(io).build().expect("starts");
        let handle = runtime.handle();
        let (socket, peer) = pair();
        let peer = Arc::new(peer);
        let (note, noted) = mpsc::channel();
        let reads = note.clone();
        let reader = async move {
            let stream = TcpStream::new(socket)?;
            reads.send("waits").expect("the test listens");
            while stream.recv(&mut Vec::new()).await? > 0 {
                reads.send("reads").expect("the test listens");
            }
            std::io::Result::Ok(())
        };
        let reader = handle.spawn(reader);
        assert_eq!(noted.recv_timeout(PATIENCE), Ok("waits"));
        let first = {
            let (note, peer) = (note.clone(), peer.clone());
            handle.handler("first", move |()| {
                work_for(SHORT, || (&*peer).write_all(b"x").expect("room"));
                note.send("first").expect("the test listens");
            })
        };
        let second = handle.handler("second", move |()| note.send("second").expect("the test listens"));
        let colors = [0, 1].map(|_| handle.color().background());
        let both = handle.handler("both", move |()| {
            first.post(&colors[0], ()).expect("no bound");
            second.post(&colors[1], ()).expect("no bound");
        });
        // Without such a look, most of these orders are right by chance.
        for round in 0..40 {
            both.post(&handle.color(), ()).expect("no bound");
            let order = [0, 1, 2].map(|_| noted.recv_timeout(PATIENCE).expect("it runs"));
            assert_eq!(order, ["first", "reads", "second"], "{choice:?}, round {round}");
        }
        peer.shutdown(Shutdown::Write).expect("connected");
        reader.wait().expect("it ends").expect("no error");
        runtime.shutdown(PATIENCE);
    }
}
