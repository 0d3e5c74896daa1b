//! Stealing by every policy: each event runs once and in order on any core, bound colors stay, and
//! no color stays behind a long event.

use super::{PATIENCE, eventually};
use crate::{Colored, CoreIndex, Handle, Pinning, Policy, Runtime, Spec, core_index};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    time::{Duration, Instant},
};
use vermeil_queue::{Cores as _, Event, PushOutcome, Run};
use vermeil_sched::HandlerIndex;

/// Three cores, more than the cpus of some machines, so each core's thread is preempted anywhere.
fn runtime(policy: Policy) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..3).map(|core| allowed[core % allowed.len()]);
    Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy).build().expect("a runtime starts")
}

fn stealing() -> [Policy; 4] {
    [Policy::Libasync, Policy::Mely, Policy::Adaptive, Policy::PerNode]
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn steals(handle: &Handle) -> u64 {
    handle.snapshot().cores.iter().map(|core| core.steals).sum()
}

fn moves(handle: &Handle) -> u64 {
    handle.snapshot().cores.iter().map(|core| core.moves).sum()
}

/// An event on core 0 posts all work, so the other cores must steal.
#[test]
fn stolen_colors_run_each_event_once_in_order() {
    const COLORS: usize = 24;
    const EVENTS: usize = 60;
    for policy in stealing() {
        let runtime = runtime(policy.clone());
        let handle = runtime.handle();
        let first = handle.cores().next().expect("a core");
        let seen: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new(vec![0; COLORS]));
        let (wrong, ran_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(vec![0; 3])));
        let work = handle.handler("work", {
            let (seen, wrong, ran_on) = (seen.clone(), wrong.clone(), ran_on.clone());
            move |(color, number, next): (usize, usize, Arc<Colored<usize>>)| {
                spin(Duration::from_micros(40));
                next.with(|next| {
                    wrong.fetch_add(usize::from(*next != number), Ordering::Relaxed);
                    *next = number + 1;
                });
                seen.lock().unwrap()[color] += 1;
                ran_on.lock().unwrap()[core_index().expect("runs on a core").0 as usize] += 1;
            }
        });
        let maker = handle.clone();
        let produce = handle.handler("produce", move |()| {
            let colors: Vec<_> = (0..COLORS)
                .map(|_| {
                    let color = maker.color();
                    let next = Arc::new(Colored::new(color.id(), 0));
                    (color, next)
                })
                .collect();
            for number in 0..EVENTS {
                for (index, (color, next)) in colors.iter().enumerate() {
                    work.post(color, (index, number, next.clone())).expect("below the bound");
                }
            }
            // Runs until a steal has happened, because other cores may be late on a busy machine.
            let deadline = Instant::now() + PATIENCE;
            while steals(&maker) == 0 && Instant::now() < deadline {
                std::thread::yield_now();
            }
        });
        produce.post(&handle.color_on(first), ()).expect("below the bound");
        let all = || seen.lock().unwrap().iter().sum::<usize>() == COLORS * EVENTS;
        eventually(&format!("{policy} runs everything"), all);
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "{policy}");
        assert!(seen.lock().unwrap().iter().all(|count| *count == EVENTS), "{policy}");
        let spread = ran_on.lock().unwrap().iter().filter(|count| **count > 0).count();
        assert!(spread > 1 && steals(&handle) > 0, "{policy}: {:?}", handle.snapshot());
        let stopped = runtime.shutdown(PATIENCE);
        assert_eq!((stopped.events_dropped, stopped.tasks_cancelled), (0, 0), "{policy}");
        // Only colors of `work` may move.
        let of_handler =
            |handler: &crate::HandlerSnapshot| (handler.name == "work").then_some(handler.steals);
        assert_eq!(handle.snapshot().handlers.iter().find_map(of_handler), Some(steals(&handle)), "{policy}");
    }
}

/// A color that is annotated with a high penalty is stolen nevertheless, within a budget that is
/// reported.
#[test]
fn snapshot_reports_exploring_steals() {
    let runtime = runtime(Policy::Adaptive);
    let handle = runtime.handle();
    assert!(handle.placements().explored.is_zero());
    let wake = handle.handler("wake", |()| ());
    let mut round = 0;
    // A new handler each time, because the costs of the old handler's moves are known by now.
    eventually("something is stolen to learn", || {
        round += 1;
        let annotated = Spec::new(format!("work-{round}")).cost(Duration::from_micros(5)).penalty(20);
        let work = handle.handler(annotated, |()| ());
        let (maker, before) = (handle.clone(), steals(&handle));
        let made = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
            let colors: Vec<_> = (0..20).map(|_| maker.color()).collect();
            colors.iter().for_each(|color| work.post(color, ()).expect("below the bound"));
            // A thief searches after it has run an event.
            for core in [1, 2].map(CoreIndex) {
                wake.post(&maker.color_on(core), ()).expect("below the bound");
            }
            let deadline = Instant::now() + PATIENCE;
            while steals(&maker) == before && Instant::now() < deadline {
                std::thread::yield_now();
            }
        });
        made.wait().expect("ends");
        handle.snapshot().cores.iter().any(|core| core.explored_ns > 0)
    });
    runtime.shutdown(PATIENCE);
    let explored_ns = handle.snapshot().cores.iter().map(|core| core.explored_ns).sum();
    assert_eq!(handle.placements().explored, Duration::from_nanos(explored_ns));
}

/// A placed color runs only on its core.
#[test]
fn pinned_colors_are_never_stolen() {
    for policy in stealing() {
        let runtime = runtime(policy.clone());
        let handle = runtime.handle();
        let first = handle.cores().next().expect("a core");
        let astray = Arc::new(AtomicUsize::new(0));
        let work = handle.handler("work", {
            let astray = astray.clone();
            move |expected| {
                spin(Duration::from_micros(200));
                astray.fetch_add(usize::from(core_index() != Some(expected)), Ordering::Relaxed);
            }
        });
        for _ in 0..200 {
            work.post(&handle.color_on(first), first).expect("below the bound");
        }
        runtime.shutdown(PATIENCE);
        assert_eq!(astray.load(Ordering::Relaxed), 0, "{policy}");
    }
}

/// A long event posts a short event and waits for it, so only another core can run the short event.
#[test]
fn nothing_is_caught_behind_a_long_event() {
    let runtime = runtime(Policy::Adaptive);
    let handle = runtime.handle();
    let freed = Arc::new(AtomicBool::new(false));
    let short = handle.handler("short", {
        let freed = freed.clone();
        move |()| freed.store(true, Ordering::Release)
    });
    let maker = handle.clone();
    let outcome = Arc::new(Mutex::new(None));
    let long = handle.handler("long", {
        let (freed, outcome) = (freed.clone(), outcome.clone());
        move |()| {
            short.post(&maker.color(), ()).expect("below the bound");
            let deadline = Instant::now() + PATIENCE;
            while !freed.load(Ordering::Acquire) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            *outcome.lock().unwrap() = Some(freed.load(Ordering::Acquire));
        }
    });
    long.post(&handle.color(), ()).expect("below the bound");
    eventually("the long event ends", || outcome.lock().unwrap().is_some());
    assert_eq!(*outcome.lock().unwrap(), Some(true), "{:?}", handle.snapshot());
    runtime.shutdown(PATIENCE);
}

/// Regression: two colors were queued for a sleeping core before the core ran. No core was called
/// to watch, so the second color waited for the end of the first color's event beside a sleeping
/// core.
#[test]
fn no_color_waits_behind_event_of_woken_core() {
    let runtime = two_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let done = Arc::new(AtomicUsize::new(0));
    let (to, seen) = channel();
    // Waits for a number of runs of the second handler, which may be 0.
    let first = handle.handler("first", {
        let done = done.clone();
        move |runs: usize| {
            let deadline = Instant::now() + PATIENCE / 2;
            while done.load(Ordering::Acquire) < runs && Instant::now() < deadline {
                std::thread::yield_now();
            }
            to.send(done.load(Ordering::Acquire) >= runs).expect("the test waits");
        }
    });
    let second = handle.handler("second", {
        let done = done.clone();
        move |()| {
            done.fetch_add(1, Ordering::Release);
        }
    });
    let mut runs = 0;
    // Posts to two colors of core 0. Returns whether the first event did not wait in vain.
    let mut run_both = |waits: bool| {
        let mut colors = std::iter::repeat_with(|| handle.color());
        let mut color = || colors.find(|color| color.core() == CoreIndex(0)).expect("it is endless");
        let (one, other) = (color(), color());
        runs += 1;
        first.post(&one, if waits { runs } else { 0 }).expect("room");
        second.post(&other, ()).expect("room");
        let saw = seen.recv_timeout(PATIENCE).expect("the first event ends");
        eventually("the second event ends", || done.load(Ordering::Acquire) == runs);
        saw
    };
    let asleep = |core| handle.shared.core(core).parking.is_asleep();
    for _ in 0..20 {
        // The scheduler learns that the events are short.
        assert!((0..50).all(|_| run_both(false)));
        eventually("both cores sleep and none watches", || {
            asleep(0) && asleep(1) && !handle.shared.idle_coordinator(CoreIndex(0)).is_watched()
        });
        assert!(run_both(true), "the second color waits for the first: {:?}", handle.snapshot());
    }
    runtime.shutdown(PATIENCE);
}

/// Tasks never overlap with other events of their color on any core. Sleeps and wake-ups follow the
/// tasks.
#[test]
fn tasks_and_their_timers_follow_their_color() {
    for policy in stealing() {
        let runtime = runtime(policy.clone());
        let handle = runtime.handle();
        let spawner = handle.clone();
        let first = handle.cores().next().expect("a core");
        let all = handle.spawn_on(&handle.color_on(first), async move {
            let tasks: Vec<_> = (0..30)
                .map(|number| {
                    spawner.spawn(async move {
                        for _ in 0..5 {
                            spin(Duration::from_micros(50));
                            crate::sleep(Duration::from_micros(300)).await;
                            crate::yield_now().await;
                        }
                        number
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.expect("ends");
            }
            sum
        });
        assert_eq!(all.wait().expect("ends"), (0..30).sum::<i32>(), "{policy}");
        assert_eq!(runtime.shutdown(PATIENCE).tasks_cancelled, 0);
    }
}

/// Regression: the core that watched was woken for a task of its own, which spawned a child and
/// blocked. No further core was called to watch, because the last call was recent.
#[test]
fn idle_core_takes_child_of_blocked_task() {
    for _ in 0..20 {
        let runtime = super::runtime();
        let handle = runtime.handle();
        for _ in 0..4 {
            let spawner = handle.clone();
            let parent = handle.spawn(async move {
                let (tells, told) = std::sync::mpsc::channel();
                drop(spawner.spawn(async move { tells.send(core_index()) }));
                // Blocks the core.
                told.recv_timeout(PATIENCE).is_ok_and(|child| child != core_index())
            });
            assert_eq!(parent.wait(), Ok(true), "another core runs the child");
        }
        runtime.shutdown(PATIENCE);
    }
}

/// Regression: the core of a pinned color ran the color's long products itself, so all clients of
/// the pinned color waited behind them beside a sleeping core.
#[test]
fn work_of_pinned_color_goes_to_sleeping_core() {
    let runtime = super::runtime();
    let handle = runtime.handle();
    let pinned = handle.color_on(CoreIndex(0));
    let work = handle.handler(Spec::new("work").cost(Duration::from_millis(1)).penalty(1), |()| ());
    // The other core may be awake at a post.
    eventually("the sleeping core gets the work before a search", || {
        let (maker, before) = (handle.clone(), moves(&handle));
        let made = handle.spawn_on(&pinned, async move {
            work.post(&maker.color(), ()).expect("below the bound");
            moves(&maker) > before
        });
        made.wait() == Ok(true)
    });
    runtime.shutdown(PATIENCE);
}

/// No core sleeps, so no core searches. The core that queues many long colors gives some of them to
/// the other cores, which have little to do.
#[test]
fn burst_spreads_over_busy_cores() {
    spreads_burst_over_busy_cores(Duration::from_micros(200));
}

/// As above with colors that are too short for a move, but not for a post to another core.
#[test]
fn short_new_colors_begin_on_busy_cores() {
    spreads_burst_over_busy_cores(Duration::from_micros(6));
}

fn spreads_burst_over_busy_cores(time: Duration) {
    let runtime = runtime(Policy::Adaptive);
    let handle = runtime.handle();
    let over = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicUsize::new(0));
    let busy = [1, 2].map(|core| {
        let (over, begun) = (over.clone(), begun.clone());
        handle.spawn_on(&handle.color_on(CoreIndex(core)), async move {
            begun.fetch_add(1, Ordering::Release);
            while !over.load(Ordering::Acquire) {
                crate::yield_now().await;
            }
        })
    });
    eventually("the other cores are busy", || begun.load(Ordering::Acquire) == 2);
    let work = handle.handler(Spec::new("work").cost(time).penalty(1), move |()| spin(time));
    let pinned = handle.color_on(CoreIndex(0));
    // The first rounds teach the core how long its colors take.
    eventually("the core gives colors away", || {
        let (maker, before) = (handle.clone(), moves(&handle));
        let made = handle.spawn_on(&pinned, async move {
            (0..20).for_each(|_| work.post(&maker.color(), ()).expect("below the bound"));
            moves(&maker) > before
        });
        made.wait() == Ok(true)
    });
    over.store(true, Ordering::Release);
    busy.into_iter().for_each(|task| task.wait().expect("ends"));
    runtime.shutdown(PATIENCE);
}

/// Regression: a task waited for another task's end, on a core with a long queue. The task then ran
/// behind the whole queue, although it could have run at once on the other task's core.
#[test]
fn a_task_goes_on_where_its_turn_comes_sooner() {
    const QUEUED: usize = 5_000;
    let runtime = runtime(Policy::Adaptive);
    let handle = runtime.handle();
    let [crowded, other, third] = [0, 1, 2].map(CoreIndex);
    let [over, ends, begun] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let yields_until = |core, flag: &Arc<AtomicBool>| {
        let flag = flag.clone();
        handle.spawn_on(&handle.color_on(core), async move {
            while !flag.load(Ordering::Acquire) {
                crate::yield_now().await;
            }
        })
    };
    // These cores steal nothing, because they have work.
    let busy = [other, third].map(|core| yields_until(core, &over));
    let awaited = yields_until(other, &ends);
    let (maker, begins) = (handle.clone(), begun.clone());
    let spawns = handle.spawn_on(&handle.color_on(crowded), async move {
        let waits = maker.spawn(async move {
            let before = core_index();
            begins.store(true, Ordering::Release);
            awaited.await.expect("ends");
            (before, core_index())
        });
        Some(waits)
    });
    let waits = spawns.wait().expect("ends").expect("it was spawned");
    eventually("it has begun", || begun.load(Ordering::Acquire));
    let ran = Arc::new(AtomicUsize::new(0));
    let work = handle.handler(Spec::new("work").cost(Duration::from_micros(100)), {
        let (ran, over) = (ran.clone(), over.clone());
        move |()| {
            if !over.load(Ordering::Acquire) {
                spin(Duration::from_micros(100));
            }
            ran.fetch_add(1, Ordering::Release);
        }
    });
    for _ in 0..QUEUED {
        work.post(&handle.color_on(crowded), ()).expect("below the bound");
    }
    eventually("what waits has been timed", || ran.load(Ordering::Acquire) > QUEUED / 50);
    ends.store(true, Ordering::Release);
    let went = waits.wait().expect("ends");
    over.store(true, Ordering::Release);
    assert_eq!(went, (Some(crowded), Some(other)));
    busy.into_iter().for_each(|task| task.wait().expect("ends"));
    runtime.shutdown(PATIENCE);
}

/// Regression: idle cores saw only the first colors of a queue, and these were placed elsewhere.
#[test]
fn placed_colors_hide_no_free_colors_from_thieves() {
    let runtime = super::four_cores(Policy::Mely);
    let handle = runtime.handle();
    let begun = Arc::new(AtomicUsize::new(0));
    let open: Arc<[AtomicBool; 4]> = Arc::default();
    let gate = handle.handler("gate", {
        let (begun, open) = (begun.clone(), open.clone());
        move |core: usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            let deadline = Instant::now() + PATIENCE;
            while !open[core].load(Ordering::SeqCst) && Instant::now() < deadline {
                std::thread::yield_now();
            }
        }
    });
    (0..4).for_each(|core| gate.post(&handle.color_on(CoreIndex(core)), core as usize).expect("room"));
    eventually("no core is idle", || begun.load(Ordering::SeqCst) == 4);
    let placed = handle.handler(Spec::new("placed").cost(Duration::from_millis(5)), |()| ());
    let (to, ran) = channel();
    let free = handle.handler(Spec::new("free").cost(Duration::from_micros(200)), move |()| {
        to.send(core_index().expect("runs on a core")).expect("the test waits");
    });
    let low = crate::Place::Cores(vec![CoreIndex(0), CoreIndex(1)]);
    let on_first = |make: &dyn Fn() -> crate::Color| {
        std::iter::repeat_with(make).find(|color| color.core() == CoreIndex(0)).expect("it is endless")
    };
    for _ in 0..20 {
        placed.post(&on_first(&|| handle.color_at(&low)), ()).expect("room");
    }
    free.post(&on_first(&|| handle.color()), ()).expect("room");
    [2, 3].iter().for_each(|core: &usize| open[*core].store(true, Ordering::SeqCst));
    let core = ran.recv_timeout(PATIENCE).expect("a thief takes the free color");
    assert!([2, 3].contains(&core.0), "{core:?}");
    [0, 1].iter().for_each(|core: &usize| open[*core].store(true, Ordering::SeqCst));
    runtime.shutdown(PATIENCE);
}

fn two_cores(policy: Policy) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = [allowed[0], allowed[allowed.len() - 1]];
    Runtime::builder().cpus(cpus).pinning(Pinning::Shared).policy(policy).build().expect("a runtime starts")
}

/// Regression: a core that went to sleep missed a color that was queued at that moment. Only a
/// thief can run the color, because the poster waits for the color on the color's core.
#[test]
fn thief_that_goes_to_sleep_misses_no_color() {
    const ROUNDS: usize = 2_000;
    for policy in [Policy::Libasync, Policy::Mely] {
        let runtime = two_cores(policy.clone());
        let handle = runtime.handle();
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        let work = handle.handler(Spec::new("work").cost(Duration::from_millis(1)), move |()| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let seen = done.clone();
        let rounds = handle.handler("rounds", move |colors: Vec<crate::Color>| {
            let deadline = Instant::now() + PATIENCE;
            for (round, color) in colors.iter().enumerate() {
                // The thief goes on to its sleep meanwhile, a little longer each round.
                (0..round % 512).for_each(|_| std::hint::spin_loop());
                work.post(color, ()).expect("room");
                while seen.load(Ordering::SeqCst) == round && Instant::now() < deadline {
                    std::thread::yield_now();
                }
            }
        });
        let colors = std::iter::repeat_with(|| handle.color());
        let colors: Vec<_> = colors.filter(|color| color.core() == CoreIndex(0)).take(ROUNDS).collect();
        rounds.post(&handle.color_on(CoreIndex(0)), colors).expect("room");
        eventually("every round ends", || done.load(Ordering::SeqCst) == ROUNDS);
        assert_eq!(steals(&handle), ROUNDS as u64, "{policy}: no round waited for its own core");
        runtime.shutdown(PATIENCE);
    }
}

/// An event that reports its core.
struct CoreReport(Sender<Option<CoreIndex>>);

impl Run for CoreReport {
    fn run(self) {
        self.0.send(core_index()).expect("the test waits");
    }
}

/// Queues an event of `handler` on core 0, and wakes no core.
fn queue_silently(handle: &Handle, handler: HandlerIndex, to: Sender<Option<CoreIndex>>) {
    let mut colors = std::iter::repeat_with(|| handle.color());
    let color = colors.find(|color| color.core() == CoreIndex(0)).expect("it is endless");
    color.queue.meta.is_posted_by(handler);
    let label = handle.shared.label(handler, handle.shared.worth_ns(handler));
    let posted = color.queue.post(Event::once(CoreReport(to)).labelled(label));
    let PushOutcome::First(token) = posted else { panic!("the color is new") };
    handle.shared.queue(token, 1);
}

/// Both sides of a sleep that begins while a color is queued: the poster's late look, and the last
/// look of the core that goes to sleep, which gives up its sleep only a few times.
#[test]
fn late_looks_find_a_color_beside_a_sleep() {
    let runtime = two_cores(Policy::Mely);
    let handle = runtime.handle();
    let ((begins, begun), (go, goes_on)) = (channel(), channel::<()>());
    let goes_on = Mutex::new(goes_on);
    let gate = handle.handler("gate", move |()| {
        begins.send(()).expect("the test waits");
        goes_on.lock().expect("no panic under this lock").recv_timeout(PATIENCE).expect("it is let go");
    });
    gate.post(&handle.color_on(CoreIndex(0)), ()).expect("room");
    begun.recv_timeout(PATIENCE).expect("it begins");
    let work = handle.handler(Spec::new("work").cost(Duration::from_millis(1)), |()| ()).index();
    let (to, ran) = channel();
    eventually("core 1 sleeps", || handle.shared.core(1).parking.is_asleep());
    queue_silently(&handle, work, to.clone());
    handle.shared.call_late_thief(CoreIndex(0));
    assert_eq!(ran.recv_timeout(PATIENCE), Ok(Some(CoreIndex(1))));
    let (sees, seen) = channel();
    let inner = handle.clone();
    let looks = handle.handler("looks", move |()| {
        queue_silently(&inner, work, to.clone());
        let look = |_| crate::core::current(crate::core::Core::misses_color).expect("on a core");
        sees.send((0..5).map(look).collect::<Vec<_>>()).expect("the test waits");
    });
    looks.post(&handle.color_on(CoreIndex(1)), ()).expect("room");
    let seen = seen.recv_timeout(PATIENCE).expect("it looks");
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
    go.send(()).expect("it waits");
    runtime.shutdown(PATIENCE);
}
