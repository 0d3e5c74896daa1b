//! Failing starts, and stops: on a core, with an event that does not return, and the state of a
//! runtime afterwards.

use super::{PATIENCE, eventually, four_cores, runtime, runtime_with, within_patience};
use crate::{
    CoreIndex, DriverOptions, Exclusion, FullOf, Handle, Handler, IoChoice, Limits, Policy, RegisterError,
    Runtime, Spec, StartError, TaskError, core_index, hop, sleep,
};
use std::{
    fs,
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// No machine has this cpu.
const NOWHERE: usize = 100_000;

/// Regression: started cores waited for the end of a core that never began.
#[test]
fn unpinnable_core_fails_the_build() {
    let cpus = vermeil_io::current_affinity();
    let cpus: Vec<_> = cpus.into_iter().take(3).collect();
    for choice in [IoChoice::Epoll, IoChoice::Auto] {
        for at in 0..=cpus.len() {
            let mut cpus = cpus.clone();
            cpus.insert(at, NOWHERE);
            let io = DriverOptions { choice, ..DriverOptions::default() };
            let built =
                within_patience("the build ends", move || Runtime::builder().cpus(cpus).io(io).build().err());
            assert!(
                matches!(built, Some(StartError::Pin { core, cpu: NOWHERE, .. }) if core as usize == at),
                "core {at}: {built:?}"
            );
        }
    }
}

#[test]
fn build_refuses_a_repeated_cpu() {
    let cpu = vermeil_io::current_affinity()[0];
    let error = Runtime::builder().cpus([cpu, cpu]).build().err().expect("two cores cannot share a cpu");
    assert!(matches!(error, StartError::CpuTwice { cpu: twice } if twice == cpu), "{error}");
}

#[test]
fn a_build_on_a_core_is_refused() {
    let runtime = runtime();
    let built =
        runtime.handle().spawn(async { Runtime::builder().build().err().map(|error| error.to_string()) });
    assert!(
        built.wait().expect("it ends").is_some_and(|error| error.contains("on a thread that is no core"))
    );
}

/// Wakes another task when its own task is dropped.
struct WakesNext {
    wakers: Arc<Mutex<Vec<Option<Waker>>>>,
    next: usize,
}

impl Drop for WakesNext {
    fn drop(&mut self) {
        let next = self.wakers.lock().expect("no panic").get_mut(self.next).and_then(Option::take);
        next.into_iter().for_each(Waker::wake);
    }
}

/// Regression: each future that was dropped after the end woke the next task, whose future was
/// dropped within, so a long chain of tasks overflowed the stack.
#[test]
fn chain_of_waiting_tasks_ends_with_an_abandoned_core() {
    const TASKS: usize = 20_000;
    let limits = Limits { stop_grace: Duration::from_millis(50), ..Limits::default() };
    let runtime = runtime_with(limits);
    let handle = runtime.handle();
    let core = || handle.color_on(CoreIndex(0));
    let wakers = Arc::new(Mutex::new(vec![None; TASKS]));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let wakes = WakesNext { wakers: wakers.clone(), next: task + 1 };
            let wait = move |context: &mut Context<'_>| {
                wakes.wakers.lock().expect("no panic")[task] = Some(context.waker().clone());
                Poll::<()>::Pending
            };
            handle.spawn_on(&core(), poll_fn(wait))
        })
        .collect();
    eventually("all tasks wait", || wakers.lock().expect("no panic").iter().all(Option::is_some));
    let (end, ends) = mpsc::channel::<()>();
    let (begins, blocked) = mpsc::channel();
    handle.spawn_on(&core(), async move {
        begins.send(()).expect("the test waits");
        let _ = ends.recv();
    });
    blocked.recv_timeout(PATIENCE).expect("the core is blocked");
    let stopped = runtime.shutdown(Duration::ZERO);
    assert_eq!(stopped.cores_left.len(), 1, "{stopped:?}");
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Cancelled));
    }
    drop(end);
}

/// Regression: the core waited in `join` for another core, which waited for the first core.
#[test]
fn a_runtime_that_ends_on_its_own_core_panics_with_advice_and_ends() {
    type Way = fn(Runtime);
    let ways: [(&str, Way); 3] = [
        ("dropping a `Runtime`", drop),
        ("`Runtime::shutdown`", |runtime| drop(runtime.shutdown(Duration::ZERO))),
        // A task may hold the last reference to a shared runtime.
        ("dropping a `Runtime`", |runtime| drop(Arc::new(std::sync::Mutex::new(runtime)))),
    ];
    for (what, way) in ways {
        let runtime = runtime();
        let handle = runtime.handle();
        let task = handle.spawn(async move { way(runtime) });
        let error = within_patience("the task ends", move || task.wait()).expect_err("it panics");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("on a thread that is no core"), "{text}");
        eventually("the runtime ends", || handle.shared.end.has_ended());
    }
}

/// Begins an event of handler "stuck" on core 1. The event returns when the flag is set.
fn begin_stuck_event(handle: &Handle) -> Arc<AtomicBool> {
    let (begun, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, waits) = (begun.clone(), goes_on.clone());
    let stuck = handle.handler("stuck", move |()| {
        begins.store(true, Ordering::Release);
        while !waits.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    });
    stuck.post(&handle.color_on(CoreIndex(1)), ()).expect("room");
    eventually("the event has begun", || begun.load(Ordering::Acquire));
    goes_on
}

/// Regression: an event that did not return kept the process from ending.
#[test]
fn shutdown_abandons_core_with_endless_event() {
    let runtime = runtime_with(Limits { stop_grace: Duration::from_millis(50), ..Limits::default() });
    let handle = runtime.handle();
    let goes_on = begin_stuck_event(&handle);
    let stopped = within_patience("the runtime stops", move || runtime.shutdown(Duration::from_millis(10)));
    let [left] = &stopped.cores_left[..] else { panic!("{stopped:?}") };
    assert_eq!((left.core, left.running.as_deref()), (CoreIndex(1), Some("stuck")));
    assert!(left.to_string().contains("\"stuck\" has not returned"), "{left}");
    // The thread ends by itself when the event returns, and releases the runtime.
    let shared = Arc::downgrade(&handle.shared.arc());
    drop(handle);
    goes_on.store(true, Ordering::Release);
    eventually("the runtime is freed", || shared.strong_count() == 0);
}

/// Regression: a task had waited on core 0 and hopped to core 1, whose event did not return. Core 0
/// waited for the end of the task, so the stop waited for the event.
#[test]
fn shutdown_abandons_task_in_queue_of_abandoned_core() {
    let runtime = runtime_with(Limits { stop_grace: Duration::from_millis(50), ..Limits::default() });
    let handle = runtime.handle();
    let there = handle.color_on(CoreIndex(1));
    let (arrives, arrived) = mpsc::channel();
    let task = handle.spawn_on(&handle.color_on(CoreIndex(0)), async move {
        sleep(Duration::from_millis(1)).await;
        hop(&there).await;
        arrives.send(core_index()).expect("the test waits");
        pending::<()>().await;
    });
    assert_eq!(arrived.recv_timeout(PATIENCE), Ok(Some(CoreIndex(1))));
    let goes_on = begin_stuck_event(&handle);
    let stopped = within_patience("the runtime stops", move || runtime.shutdown(Duration::from_millis(10)));
    let [left] = &stopped.cores_left[..] else { panic!("{stopped:?}") };
    assert_eq!((left.core, stopped.tasks_cancelled), (CoreIndex(1), 1));
    assert_eq!(within_patience("the task ends", move || task.wait()), Err(TaskError::Cancelled));
    let shared = Arc::downgrade(&handle.shared.arc());
    drop(handle);
    goes_on.store(true, Ordering::Release);
    eventually("the runtime is freed", || shared.strong_count() == 0);
}

/// Regression: a core that was left behind kept a woken color to run next, whose task never ended.
#[test]
fn token_in_slot_of_abandoned_core_is_dropped() {
    let limits = Limits { stop_grace: Duration::from_millis(50), ..Limits::default() };
    // No other core takes the token out of the slot.
    let cpu = vermeil_io::current_affinity()[0];
    let runtime = Runtime::builder().cpus([cpu]).limits(limits).build().expect("it starts");
    let handle = runtime.handle();
    let goes_on = Arc::new(AtomicBool::new(false));
    let (spawner, waits) = (handle.clone(), goes_on.clone());
    let (spawns, spawned) = mpsc::channel();
    let stuck = handle.handler("stuck", move |()| {
        spawns.send(spawner.spawn(async {})).expect("the test waits");
        while !waits.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    });
    stuck.post(&handle.color(), ()).expect("room");
    let task = spawned.recv_timeout(PATIENCE).expect("the event spawns a task");
    let stopped = within_patience("the runtime stops", move || runtime.shutdown(Duration::ZERO));
    assert_eq!(stopped.cores_left.len(), 1, "{stopped:?}");
    assert_eq!(within_patience("the task ends", move || task.wait()), Err(TaskError::Cancelled));
    goes_on.store(true, Ordering::Release);
}

/// Regression: a `when` had one of its colors when the runtime stopped. That color stood still for
/// ever, so a task behind the `when` never ended.
#[test]
fn pending_acquisition_strands_no_color_at_the_end() {
    // Without stealing, so each color stays on its core.
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let [first, second] = [0, 1].map(|core| {
        let mut colors = std::iter::repeat_with(|| handle.color());
        colors.find(|color| color.core() == CoreIndex(core)).expect("it is endless")
    });
    let (begins, begun) = mpsc::channel();
    let inner = handle.clone();
    let last = handle.handler("last", move |()| {
        begins.send(()).expect("the test waits");
        // The other cores wait for nothing, and the turn of this core is over.
        eventually("the other cores have stopped", || {
            (0..).zip(&inner.shared.cores).all(|(core, shared)| core == 1 || shared.tasks.is_closed())
        });
        std::thread::sleep(Duration::from_millis(10));
    });
    last.post(&second, ()).expect("room");
    begun.recv_timeout(PATIENCE).expect("it begins");
    let both = handle.when(&[&first, &second], || ());
    let behind = handle.spawn_on(&first, async {});
    eventually("the first color is held", || handle.shared.core(0).ready.is_empty());
    within_patience("the runtime stops", move || runtime.shutdown(Duration::ZERO));
    assert_eq!(within_patience("the acquisition ends", move || both.wait()), Err(TaskError::Cancelled));
    assert_eq!(within_patience("the task ends", move || behind.wait()), Err(TaskError::Cancelled));
    let shared = Arc::downgrade(&handle.shared.arc());
    drop((handle, first, second));
    eventually("the runtime is freed", || shared.strong_count() == 0);
}

#[test]
fn shutdown_without_end_waits_until_all_is_done() {
    let runtime = runtime();
    let slept = runtime.handle().spawn(async { sleep(Duration::from_millis(20)).await });
    let stopped = runtime.shutdown(Duration::MAX);
    assert_eq!((stopped.tasks_cancelled, stopped.cores_left), (0, Vec::new()));
    assert_eq!(slept.wait(), Ok(()));
}

#[test]
fn posts_are_refused_after_the_end() {
    let runtime = runtime();
    let handle = runtime.handle();
    let color = handle.color();
    let handlers: Vec<Handler<u32>> = [Exclusion::Color, Exclusion::Handler, Exclusion::None]
        .map(|exclusion| handle.handler(Spec::new("late").exclusion(exclusion), |_: u32| ()))
        .into();
    let kind = handle.kind("late task");
    drop(runtime);
    for handler in handlers {
        let posted = [handler.post(&color, 7), handler.send(7)];
        assert!(posted.iter().all(|posted| posted.as_ref().is_err_and(|full| full.of == FullOf::Ended)));
        let text = posted[0].as_ref().unwrap_err().to_string();
        assert_eq!(text, "the event was not posted: its runtime has ended");
    }
    assert_eq!(kind.spawn(async { 1 }).wait(), Err(TaskError::Cancelled));
    assert_eq!(kind.spawn_on(&color, async { 1 }).wait(), Err(TaskError::Cancelled));
}

/// Regression: handlers kept their runtime and their captured state for the life of the process.
#[test]
fn a_runtime_with_handlers_is_freed_with_its_last_handle() {
    for policy in ["none", "adaptive", "libasync"] {
        let runtime =
            Runtime::builder().policy(policy.parse().expect("a policy")).build().expect("it starts");
        let handle = runtime.handle();
        let (state, group) = (Arc::new(()), handle.color());
        let exclusions =
            [Exclusion::Color, Exclusion::Handler, Exclusion::Group(group.clone()), Exclusion::None];
        for exclusion in exclusions {
            // Regression: a handle in the code was a cycle.
            let (held, inner) = (state.clone(), handle.clone());
            let spec = Spec::new("holds").exclusion(exclusion.clone());
            let handler = handle.handler(spec.at_most(1), move |()| drop((held.clone(), inner.clone())));
            handler.send(()).expect("room");
            let task = handle.kind(Spec::new("kind").exclusion(exclusion)).spawn(async {});
            task.wait().expect("it ends");
        }
        runtime.shutdown(PATIENCE);
        assert_eq!(Arc::strong_count(&state), 1, "{policy}: the code is dropped");
        let shared = Arc::downgrade(&handle.shared.arc());
        drop((handle, group));
        eventually("the runtime is freed", || shared.strong_count() == 0);
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}

/// Regression: two hundred runtimes left four hundred descriptors open. The other tests of this
/// process open some descriptors too.
#[test]
fn runtimes_with_handlers_leave_no_descriptors() {
    const RUNTIMES: usize = 200;
    let before = descriptors();
    for _ in 0..RUNTIMES {
        let runtime = runtime();
        runtime.handle().handler("one", |_: u8| ()).send(1).expect("room");
    }
    eventually("descriptors are closed", || descriptors() < before + RUNTIMES);
}

#[test]
fn one_handler_too_many_is_an_error() {
    let runtime = runtime_with(Limits { handlers: 1, ..Limits::default() });
    let handle = runtime.handle();
    handle.handler("first", |_: u8| ());
    for _ in 0..2 {
        let refused = handle.try_handler("second", |_: u8| ()).map(drop);
        assert_eq!(refused, Err(RegisterError::TooMany { bound: 1 }));
        assert_eq!(handle.try_kind("second").map(drop), Err(RegisterError::TooMany { bound: 1 }));
    }
}

/// Regression: the number of handlers overflowed.
#[test]
fn bound_of_handlers_may_be_any_number() {
    for handlers in [usize::from(u16::MAX), usize::MAX] {
        let runtime = runtime_with(Limits { handlers, ..Limits::default() });
        let handle = runtime.handle();
        let adds = handle.handler("adds", |_: u8| ());
        adds.post(&handle.color(), 1).expect("room");
        assert_eq!(handle.spawn(async { 7 }).wait(), Ok(7));
    }
}

#[test]
fn a_panicked_task_gives_its_message_and_payload() {
    let runtime = runtime();
    let handle = runtime.handle();
    let said: Result<(), TaskError> = handle.spawn(async { panic!("the number is {}", 7) }).wait();
    let Err(TaskError::Panicked(said)) = said else { panic!("it panicked") };
    assert_eq!((said.message(), &*said.to_string()), (Some("the number is 7"), "the number is 7"));
    let thrown: Result<(), TaskError> = handle.when(&[&handle.color()], || panic_any(7u64)).wait();
    let Err(TaskError::Panicked(thrown)) = thrown else { panic!("it panicked") };
    assert_eq!(thrown.message(), None);
    let payload = thrown.take_payload().expect("nothing has taken it");
    assert_eq!(payload.downcast_ref::<u64>(), Some(&7));
    assert!(thrown.take_payload().is_none());
}

/// Regression: a panic named a line of the runtime instead of the caller's line.
#[test]
fn panics_name_the_line_of_the_caller() {
    static PLACES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (one, other) = (runtime(), runtime());
    let (handle, stranger) = (one.handle(), other.handle().color());
    let handler = handle.handler("posts", |_: u8| ());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|place| place.file().to_owned());
        PLACES.lock().expect("no panic under this lock").extend(place.filter(|_| is_planted()));
        before(panic);
    }));
    let wrong: [&dyn Fn(); 6] = [
        &|| drop(handler.post(&stranger, 1)),
        &|| drop(handle.spawn_on(&stranger, async {})),
        &|| drop(handle.when(&[&stranger], || ())),
        &|| drop(sleep(Duration::ZERO)),
        &|| drop(handle.color_on(CoreIndex(9))),
        &|| assert!(crate::now_ms() > 0),
    ];
    for wrong in wrong {
        assert!(planted(|| catch_unwind(AssertUnwindSafe(wrong)).is_err()));
    }
    // Only a core's thread may not wait.
    let awaited = handle.spawn(async {});
    let on_core = handle
        .spawn(async move { planted(|| catch_unwind(AssertUnwindSafe(|| drop(awaited.wait()))).is_err()) });
    assert!(on_core.wait().expect("it caught the panic"));
    let places = PLACES.lock().expect("no panic under this lock");
    assert_eq!(places.len(), 7);
    assert!(places.iter().all(|place| place.ends_with("tests/stopping.rs")), "{places:?}");
}

thread_local! {
    static PLANTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn is_planted() -> bool {
    PLANTED.get()
}

fn planted<R>(f: impl FnOnce() -> R) -> R {
    PLANTED.set(true);
    let result = f();
    PLANTED.set(false);
    result
}
