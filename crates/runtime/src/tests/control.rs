//! Placement: plans put handlers where they say, moves lose and disturb nothing, controllers see every core.

use super::{PATIENCE, eventually, four_cores};
use crate::{
    Colored, CoreIndex, Exclusion, Handle, Handler, PlanName, Policy, Runtime, Spec, TcpListener, core_index,
    yield_now,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil_io::{ListenOptions, listen};

/// `stages` handlers, each with a color of its own, that hand a number on; the last counts it. What each ran on is noted.
struct Pipeline {
    first: Handler<usize>,
    done: Arc<AtomicUsize>,
    ran_on: Arc<Mutex<Vec<Vec<CoreIndex>>>>,
}

fn pipeline(handle: &Handle, stages: usize, work: Duration) -> Pipeline {
    let done = Arc::new(AtomicUsize::new(0));
    let ran_on = Arc::new(Mutex::new(vec![Vec::new(); stages]));
    let mut next: Option<Handler<usize>> = None;
    // Registered from the last to the first: each needs the one it hands on to.
    for stage in (0..stages).rev() {
        let (done, ran_on) = (done.clone(), ran_on.clone());
        next = Some(handle.handler(
            Spec::new(format!("stage-{stage}")).exclusion(Exclusion::Handler),
            move |item| {
                let start = Instant::now();
                while start.elapsed() < work {
                    std::hint::spin_loop();
                }
                ran_on.lock().unwrap()[stage].push(core_index().expect("runs on a core"));
                match &next {
                    Some(next) => next.send(item).expect("below the bound"),
                    None => drop(done.fetch_add(1, Ordering::Relaxed)),
                }
            },
        ));
    }
    Pipeline { first: next.expect("a stage"), done, ran_on }
}

#[test]
fn named_plans_put_handlers_where_they_say() {
    for (plan, expected) in
        [(PlanName::RoundRobin, [3, 2, 1, 0, 3, 2, 1, 0]), (PlanName::CacheAware, [3, 3, 2, 2, 1, 1, 0, 0])]
    {
        let runtime = four_cores(Policy::Placed(plan.clone()));
        let handle = runtime.handle();
        let pipeline = pipeline(&handle, 8, Duration::ZERO);
        for item in 0..100 {
            pipeline.first.send(item).expect("below the bound");
        }
        eventually("all pass", || pipeline.done.load(Ordering::Relaxed) == 100);
        for (stage, ran_on) in pipeline.ran_on.lock().unwrap().iter().enumerate() {
            assert!(ran_on.iter().all(|core| core.0 == expected[stage]), "{plan}, stage {stage}: {ran_on:?}");
        }
        assert_eq!(handle.placements().handlers[0], ("stage-7".to_owned(), CoreIndex(0)));
        runtime.shutdown(PATIENCE);
    }
}

#[test]
fn a_plan_may_come_from_a_file() {
    let file = std::env::temp_dir().join(format!("vermeil-plan-{}.toml", std::process::id()));
    std::fs::write(&file, "stage-0 = 3\nstage-1 = 1\n").expect("a file");
    let runtime = four_cores(Policy::Placed(PlanName::File(file.clone())));
    let handle = runtime.handle();
    let pipeline = pipeline(&handle, 2, Duration::ZERO);
    pipeline.first.send(1).expect("below the bound");
    eventually("it passes", || pipeline.done.load(Ordering::Relaxed) == 1);
    assert_eq!(*pipeline.ran_on.lock().unwrap(), [[CoreIndex(3)], [CoreIndex(1)]]);
    assert_eq!(handle.placements().unknown, None);
    runtime.shutdown(PATIENCE);
    // One of several cores, and what nobody is called.
    std::fs::write(&file, "stage-0 = [1, 3]\nstage-1 = [1, 3]\nstaeg-2 = 0\n").expect("a file");
    let runtime = four_cores(Policy::Placed(PlanName::File(file.clone())));
    let handle = runtime.handle();
    let pipeline = self::pipeline(&handle, 2, Duration::ZERO);
    pipeline.first.send(1).expect("below the bound");
    eventually("it passes", || pipeline.done.load(Ordering::Relaxed) == 1);
    let ran_on: Vec<_> = pipeline.ran_on.lock().unwrap().iter().flatten().copied().collect();
    assert!(ran_on == [CoreIndex(1), CoreIndex(3)] || ran_on == [CoreIndex(3), CoreIndex(1)], "{ran_on:?}");
    let unknown = handle.placements().unknown.expect("one is not there");
    assert!(unknown.starts_with("plan: line 3: there is no handler `staeg-2`; there are "), "{unknown}");
    runtime.shutdown(PATIENCE);
    std::fs::write(&file, "stage-0 = 77\n").expect("a file");
    let refused = Runtime::builder().policy(Policy::Placed(PlanName::File(file.clone()))).build();
    assert!(refused.is_err_and(|error| error.to_string().contains("vermeil-plan")));
    std::fs::remove_file(file).expect("the file is there");
}

/// A color that is sent around while events are posted to it from everywhere runs each once, in order.
#[test]
fn a_color_that_is_sent_around_loses_nothing() {
    for policy in [Policy::None, Policy::Mely, Policy::Adaptive] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let color = handle.color();
        let state = Arc::new(Colored::new(color.id(), 0));
        let wrong = Arc::new(AtomicUsize::new(0));
        let check = handle.handler("check", {
            let (state, wrong) = (state.clone(), wrong.clone());
            move |number: usize| {
                state.with(|next| {
                    wrong.fetch_add(usize::from(*next != number), Ordering::Relaxed);
                    *next = number + 1;
                });
            }
        });
        for number in 0..20_000 {
            check.post(&color, number).expect("below the bound");
            if number % 7 == 0 {
                handle.shared.relocate(&color, CoreIndex((number % 4) as u32));
            }
        }
        assert_eq!(runtime.shutdown(PATIENCE).events_dropped, 0, "{policy}");
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "{policy}");
    }
}

/// A plan sent a color away from the socket that it had opened.
#[test]
fn a_color_with_a_socket_stays_whatever_a_plan_wants() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let color = handle.color();
    let (looks, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (looked, ends) = (looks.clone(), over.clone());
    let task = handle.spawn_on(&color, async move {
        let socket = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default())?;
        let listener = TcpListener::new(socket)?;
        while !ends.load(Ordering::Relaxed) {
            yield_now().await;
            listener.with_fd(|_| ())?;
            looked.fetch_add(1, Ordering::Relaxed);
        }
        std::io::Result::Ok(())
    });
    eventually("it has opened its socket", || color.queue.about.is_bound());
    for number in 0..40 {
        let before = looks.load(Ordering::Relaxed);
        handle.shared.relocate(&color, CoreIndex(number % 4));
        eventually("it goes on", || looks.load(Ordering::Relaxed) > before + 1);
    }
    over.store(true, Ordering::Relaxed);
    task.wait().expect("it ends").expect("its socket is on its core");
    runtime.shutdown(PATIENCE);
}

#[test]
fn controllers_hear_every_core_and_disturb_nothing() {
    for policy in [Policy::Adaptive, Policy::Trial] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let pipeline = pipeline(&handle, 6, Duration::from_micros(20));
        let mut posted = 0;
        eventually("rounds are held", || {
            for _ in 0..10 {
                pipeline.first.send(posted).expect("below the bound");
                posted += 1;
            }
            eventually("they pass", || pipeline.done.load(Ordering::Relaxed) == posted);
            handle.snapshot().cores.iter().all(|core| core.rounds >= 3)
                || posted > 400_000 && policy == Policy::Trial
        });
        assert_eq!(handle.placements().handlers.len(), 6, "{policy}");
        assert_eq!(runtime.shutdown(PATIENCE).events_dropped, 0);
    }
}
