//! The programming model: exclusion by handler and group, colors by key, hopping, placement.

use super::{Inside, PATIENCE, eventually, four_cores, runtime, within_patience};
use crate::{
    Class, Color, Colored, CoreIndex, Exclusion, Handle, Handler, Place, Policy, Runtime, Spec, Task,
    core_index, current_color, hop, sleep, yield_now,
};
use std::{
    future::{Future, poll_fn},
    num::NonZeroU32,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};
use vermeil_queue::{Event, PushOutcome, Run};

fn crowd(handle: &Handle, spec: Spec, events: usize) -> Arc<Inside> {
    let inside = Arc::<Inside>::default();
    let visitor = handle.handler(spec, {
        let inside = inside.clone();
        move |()| inside.visit()
    });
    for _ in 0..events {
        visitor.post(&handle.color(), ()).expect("below the bound");
    }
    inside
}

#[test]
fn handlers_follow_their_exclusion() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let group = handle.color();
    let excluding = |exclusion| Spec::new("visitor").exclusion(exclusion);
    let excluding = [
        (excluding(Exclusion::Handler), 1),
        (excluding(Exclusion::Handler).at_most(3), 1),
        (excluding(Exclusion::Group(group.clone())), 1),
        (excluding(Exclusion::None).at_most(2), 2),
        (excluding(Exclusion::None), 4),
        (excluding(Exclusion::Color).at_most(2), 2),
        (excluding(Exclusion::Color), 4),
    ];
    let crowds: Vec<_> =
        excluding.into_iter().map(|(spec, most)| (crowd(&handle, spec, 400), most)).collect();
    runtime.shutdown(PATIENCE);
    for (inside, most) in crowds {
        assert_eq!(inside.all.load(Ordering::SeqCst), 400);
        assert!(inside.most.load(Ordering::SeqCst) <= most);
    }
}

#[test]
fn events_without_a_color_run_one_after_the_other() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let inside = Arc::<Inside>::default();
    let visitor = handle.handler("visitor", {
        let inside = inside.clone();
        move |()| inside.visit()
    });
    for _ in 0..200 {
        visitor.send(()).expect("below the bound");
    }
    runtime.shutdown(PATIENCE);
    assert_eq!((inside.all.load(Ordering::SeqCst), inside.most.load(Ordering::SeqCst)), (200, 1));
}

#[test]
fn key_keeps_its_color_while_in_use() {
    let runtime = runtime();
    let handle = runtime.handle();
    let users = handle.keyed::<String>();
    let one = users.color_of(&"one".to_owned());
    assert_eq!(users.color_of(&"one".to_owned()).id(), one.id());
    assert_ne!(users.color_of(&"two".to_owned()).id(), one.id());
    for number in 0..100_000 {
        users.color_of(&number.to_string());
    }
    assert!(users.len() < 10_000, "{} colors kept for nothing", users.len());
    assert_eq!(users.color_of(&"one".to_owned()).id(), one.id());
    assert!(!users.is_empty());
}

#[test]
fn every_policy_respects_placements() {
    for policy in [Policy::Adaptive, Policy::Libasync, Policy::Mely] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let pair = Place::Cores(vec![CoreIndex(1), CoreIndex(3)]);
        let elsewhere = Arc::new(AtomicUsize::new(0));
        let placed = handle.handler(Spec::new("placed").exclusion(Exclusion::None).place(pair.clone()), {
            let elsewhere = elsewhere.clone();
            move |()| {
                std::thread::yield_now();
                let here = core_index().expect("runs on a core").0;
                elsewhere.fetch_add(usize::from(here != 1 && here != 3), Ordering::Relaxed);
            }
        });
        for _ in 0..300 {
            placed.send(()).expect("below the bound");
        }
        assert!([1, 3].contains(&handle.color_at(&pair).core().0));
        assert_eq!(handle.color_at(&Place::Core(CoreIndex(2))).core().0, 2);
        handle.color_at(&Place::Node(0));
        handle.color_at(&Place::Cache(CoreIndex(0)));
        runtime.shutdown(PATIENCE);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 0);
    }
}

/// An event of the leader posts during its run, so its followers run on the same core.
#[test]
fn follower_runs_where_its_leader_ran() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync, Policy::NCopy, Policy::PerNode] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let (ran, elsewhere) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let follower = |spec: Spec| {
            let (ran, elsewhere) = (ran.clone(), elsewhere.clone());
            handle.handler(spec, move |leader: CoreIndex| {
                elsewhere.fetch_add(usize::from(core_index() != Some(leader)), Ordering::Relaxed);
                ran.fetch_add(1, Ordering::Relaxed);
            })
        };
        let beside = follower(Spec::new("beside").exclusion(Exclusion::None).place(Place::Producer));
        let by_color = follower(Spec::new("by color"));
        let color_of_producer = handle.color_at(&Place::Producer);
        let followed = color_of_producer.clone();
        let lead = handle.handler("lead", move |()| {
            let here = core_index().expect("runs on a core");
            beside.send(here).expect("below the bound");
            by_color.post(&followed, here).expect("below the bound");
        });
        let after =
            follower(Spec::new("after").exclusion(Exclusion::Handler).place(Place::Follow(lead.index())));
        for round in 1..=60 {
            let color = handle.color_on(CoreIndex(round as u32 % 4));
            lead.post(&color, ()).expect("below the bound");
            eventually("both have run", || ran.load(Ordering::Relaxed) == 3 * round - 1);
            after.send(color.core()).expect("below the bound");
            eventually("all have run", || ran.load(Ordering::Relaxed) == 3 * round);
            // Only an empty color moves.
            let own = after.color().expect("a handler with a color of its own");
            eventually("the colors are empty", || color_of_producer.is_empty() && own.is_empty());
        }
        runtime.shutdown(PATIENCE);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 0);
    }
}

/// Both classes always have more work than the core can do. The first class has nine tenths of the
/// time, and always misses its target delay.
#[test]
fn classes_divide_a_core_without_starvation() {
    let runtime = |target: Option<Duration>| {
        let class = |name, shares| Class::new(name).shares(NonZeroU32::new(shares).expect("not zero"));
        let net = class("net", 900);
        let net = target.into_iter().fold(net, Class::target_delay);
        let cpu = vermeil_io::current_affinity()[0];
        let classes = [net, class("bulk", 100)];
        Runtime::builder().cpus([cpu]).classes(classes).build().expect("a runtime starts")
    };
    for target in [None, Some(Duration::from_nanos(2))] {
        let runtime = runtime(target);
        let handle = runtime.handle();
        let ran = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let tasks: Vec<_> = [("net", 0), ("bulk", 1)]
            .into_iter()
            .flat_map(|(class, at)| {
                let ran = ran.clone();
                let posts = Arc::new(OnceLock::<Handler<Color>>::new());
                let own = posts.clone();
                let handler = handle.handler(Spec::new(class).class(class), move |color: Color| {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(20) {
                        std::hint::spin_loop();
                    }
                    ran[at].fetch_add(1, Ordering::Relaxed);
                    // Fails when the runtime stops.
                    let _ = own.get().expect("set before anything is posted").post(&color, color.clone());
                });
                assert!(posts.set(handler).is_ok());
                (0..4).map(|_| (handler, handle.color())).collect::<Vec<_>>()
            })
            .collect();
        for (handler, color) in &tasks {
            handler.post(color, color.clone()).expect("below the bound");
        }
        let count = |at: usize| ran[at].load(Ordering::Relaxed);
        eventually("both classes run", || count(0) + count(1) > 10_000 && count(1) > 200);
        assert!(count(0) > 2 * count(1), "{} against {}", count(0), count(1));
        drop(tasks);
        runtime.shutdown(Duration::ZERO);
    }
}

#[test]
fn a_batch_waits_for_its_number_or_its_time() {
    const HOUR: Duration = Duration::from_secs(3600);
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let batches = Arc::new(Mutex::new(Vec::new()));
        let writer = |spec: Spec| {
            let batches = batches.clone();
            handle.handler(spec, move |record: u32| batches.lock().unwrap().push(record))
        };
        let fourth = writer(Spec::new("by number").batch_wait(4, HOUR));
        let hurried = writer(Spec::new("by another"));
        let (color, same_core) = (handle.color_on(CoreIndex(1)), handle.color_on(CoreIndex(1)));
        let seen = || batches.lock().unwrap().clone();
        for record in 0..3 {
            fourth.post(&color, record).expect("below the bound");
        }
        hurried.post(&same_core, 99).expect("below the bound");
        eventually("what does not gather runs", || !seen().is_empty());
        assert_eq!(seen(), [99]);
        fourth.post(&color, 3).expect("below the bound");
        eventually("the batch is full", || seen().len() == 5);
        assert_eq!(seen()[1..], [0, 1, 2, 3]);
        eventually("the color is empty", || color.is_empty());
        fourth.post(&color, 4).expect("below the bound");
        hurried.post(&color, 5).expect("below the bound");
        eventually("another handler's event does not gather", || seen().len() == 7);
        let late = writer(Spec::new("by time").batch_wait(1_000, Duration::from_millis(2)));
        late.post(&handle.color_on(CoreIndex(2)), 6).expect("below the bound");
        eventually("its time has come", || seen().len() == 8);
        assert_eq!(seen()[5..], [4, 5, 6]);
        fourth.post(&handle.color(), 7).expect("below the bound");
        let stopped = runtime.shutdown(Duration::ZERO);
        assert_eq!(seen().len() - 8 + stopped.events_dropped, 1);
    }
}

/// The cryptography of a connection leaves its color and returns. State of either color is reached
/// only on that color.
#[test]
fn a_task_hops_to_another_color_and_back() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync] {
        let runtime = four_cores(policy);
        let handle = runtime.handle();
        let home = handle.color();
        let state = Arc::new(Colored::new(home.id(), Vec::new()));
        let tasks: Vec<Task<()>> = (0..20)
            .map(|number| {
                let (handle, home, state) = (handle.clone(), home.clone(), state.clone());
                handle.clone().spawn_on(&home.clone(), async move {
                    for round in 0..10 {
                        state.with(|seen| seen.push((number, round)));
                        let away = handle.color();
                        hop(&away).await;
                        assert_eq!(current_color(), Some(away.id()));
                        yield_now().await;
                        sleep(Duration::from_micros(20)).await;
                        assert_eq!(current_color(), Some(away.id()));
                        hop(&home).await;
                    }
                    state.with(|seen| seen.push((number, 10)));
                })
            })
            .collect();
        for task in tasks {
            task.wait().expect("ends");
        }
        runtime.shutdown(PATIENCE);
        let seen = Arc::into_inner(state).expect("all have ended").into_inner();
        for task in 0..20 {
            let rounds: Vec<_> =
                seen.iter().filter(|(number, _)| *number == task).map(|(_, round)| *round).collect();
            assert_eq!(rounds, (0..=10).collect::<Vec<_>>());
        }
    }
}

/// Regression: the color then waited for the full time.
#[test]
fn event_that_comes_before_the_wait_ends_the_batch() {
    struct EmptyBatchEvent;
    impl Run for EmptyBatchEvent {
        fn run(self) {}
    }
    let runtime = four_cores(Policy::None);
    let (handle, color) = (runtime.handle(), runtime.handle().color());
    let gathers = handle.handler(Spec::new("gathers").batch_wait(8, Duration::from_secs(3600)), |()| ());
    let (to, ran) = std::sync::mpsc::channel();
    let other = handle.handler("other", move |()| to.send(()).expect("the test waits"));
    // As `Color::push`, but the other event comes before the token is set apart.
    color.queue.meta.is_posted_by(gathers.index());
    let event = Event::once(EmptyBatchEvent).labelled(handle.shared.label(gathers.index(), 0));
    let PushOutcome::First(token) = color.queue.post(event) else { panic!("the color is new") };
    other.post(&color, ()).expect("room");
    let batch_wait = handle.shared.handlers.batch_wait(gathers.index()).expect("it gathers");
    handle.shared.wait_for_batch(token, batch_wait);
    ran.recv_timeout(PATIENCE).expect("the other event does not wait");
    runtime.shutdown(PATIENCE);
}

/// Regression: the request of a dropped future, or of an earlier event, moved the running task.
#[test]
fn dropped_hop_moves_no_task() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let (home, away) = (handle.color_on(CoreIndex(0)), handle.color());
    let there = away.clone();
    let dropped = handle.spawn_on(&home, async move {
        {
            let mut hops = pin!(hop(&there));
            let is_pending = poll_fn(|context| Poll::Ready(hops.as_mut().poll(context).is_pending())).await;
            assert!(is_pending);
        }
        yield_now().await;
        current_color()
    });
    assert_eq!(dropped.wait(), Ok(Some(home.id())));
    // An event that is no task asks, and keeps the future.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = kept.clone();
    let asks = handle.handler("asks", move |()| {
        let there = away.clone();
        let mut hops = Box::pin(async move { hop(&there).await });
        assert!(hops.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        keeps.lock().unwrap().push(hops);
    });
    asks.post(&home, ()).expect("below the bound");
    let next = handle.spawn_on(&home, async {
        yield_now().await;
        current_color()
    });
    assert_eq!(next.wait(), Ok(Some(home.id())));
    assert_eq!(kept.lock().unwrap().len(), 1);
    runtime.shutdown(PATIENCE);
}

/// The waker of a future within a combinator.
struct SubWaker {
    is_woken: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for SubWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let outer = self.outer.lock().unwrap().clone();
        outer.into_iter().for_each(Waker::wake);
    }
}

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for all futures. Polls each future only after a wake-up of the future's own waker, as
/// `FuturesUnordered` does.
async fn join_woken(futures: Vec<BoxedFuture>) {
    let first_poll = || SubWaker { is_woken: AtomicBool::new(true), outer: Mutex::new(None) };
    let mut left: Vec<_> = futures.into_iter().map(|future| (Arc::new(first_poll()), future)).collect();
    poll_fn(|context| {
        left.retain_mut(|(sub, future)| {
            *sub.outer.lock().unwrap() = Some(context.waker().clone());
            if !sub.is_woken.swap(false, Ordering::AcqRel) {
                return true;
            }
            let waker = Waker::from(sub.clone());
            future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Regression: a hop woke its task but not the waker of its future. A combinator that polls a
/// future only after such a wake-up waited for ever, as did all futures but the last that hopped.
#[test]
fn hops_of_joined_futures_all_end() {
    for policy in [Policy::None, Policy::Adaptive] {
        for count in [1, 40] {
            let runtime = four_cores(policy.clone());
            let handle = runtime.handle();
            let home = handle.color();
            let (colors, back) = (handle.clone(), home.clone());
            let task = handle.spawn_on(&home, async move {
                let hops = |_| {
                    let (away, back) = (colors.color(), back.clone());
                    let future = async move {
                        hop(&away).await;
                        assert_eq!(current_color(), Some(away.id()));
                        hop(&back).await;
                        assert_eq!(current_color(), Some(back.id()));
                    };
                    Box::pin(future) as BoxedFuture
                };
                join_woken((0..count).map(hops).collect()).await;
            });
            let ended = within_patience("every hop ends", move || task.wait());
            assert_eq!(ended, Ok(()), "{count} futures");
            runtime.shutdown(PATIENCE);
        }
    }
}

/// Regression: a dropped hop took along the hop that another future of the task had asked for
/// before, and the task waited for ever.
#[test]
fn dropped_hop_leaves_other_hop_of_task() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let (away, nowhere) = (handle.color(), handle.color());
    let there = away.id();
    let task = handle.spawn_on(&handle.color(), async move {
        let mut hops = pin!(hop(&away));
        let mut drops = Some(Box::pin(hop(&nowhere)));
        poll_fn(|context| {
            let polled = hops.as_mut().poll(context);
            if let Some(mut dropped) = drops.take() {
                assert!(dropped.as_mut().poll(context).is_pending());
            }
            polled
        })
        .await;
        current_color()
    });
    let ended = within_patience("the hop that is left ends", move || task.wait());
    assert_eq!(ended, Ok(Some(there)));
    runtime.shutdown(PATIENCE);
}
