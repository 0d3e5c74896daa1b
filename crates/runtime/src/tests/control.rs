//! Placement: plans put handlers on the planned cores, moves lose no event, and controllers see
//! every core.

use super::{PATIENCE, eventually, four_cores};
use crate::{
    Colored, CoreIndex, Exclusion, Handle, Handler, Place, PlanName, Policy, Runtime, Spec, StartError,
    TcpListener, TrialOptions, core_index, yield_now,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil_io::{ListenOptions, listen};
use vermeil_sched::{
    HandlerIndex,
    control::{Controller, DecisionLog, Observation},
    plan::{Move, PlanRules},
};

/// `stages` handlers, each with its own color, that pass a number on; the last handler counts the
/// numbers. `ran_on` records the cores of each stage.
struct CountedPipeline {
    first: Handler<usize>,
    done: Arc<AtomicUsize>,
    ran_on: Arc<Mutex<Vec<Vec<CoreIndex>>>>,
}

fn pipeline(handle: &Handle, stages: usize, work: Duration) -> CountedPipeline {
    let done = Arc::new(AtomicUsize::new(0));
    let ran_on = Arc::new(Mutex::new(vec![Vec::new(); stages]));
    let mut next: Option<Handler<usize>> = None;
    // Registered from last to first, because each stage needs the next stage.
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
    CountedPipeline { first: next.expect("a stage"), done, ran_on }
}

#[test]
fn named_plans_place_handlers() {
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
    // A choice of several cores, and a name without a handler.
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

/// Moves a color between cores while events are posted there: each event runs once, in order.
#[test]
fn migrating_color_loses_no_event() {
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

/// Regression: a plan sent a color away from the socket that the color had opened.
#[test]
fn socket_follows_color_to_planned_core() {
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
            listener.move_here().await?;
            looked.fetch_add(1, Ordering::Relaxed);
        }
        std::io::Result::Ok(())
    });
    eventually("it has opened its socket", || looks.load(Ordering::Relaxed) > 0);
    for number in 0..40 {
        let before = looks.load(Ordering::Relaxed);
        handle.shared.relocate(&color, CoreIndex(number % 4));
        eventually("it goes on", || looks.load(Ordering::Relaxed) > before + 1);
    }
    over.store(true, Ordering::Relaxed);
    task.wait().expect("it ends").expect("its socket is where its color is");
    runtime.shutdown(PATIENCE);
}

/// A handler that records its cores, alone or in a group.
struct Wanderer {
    handler: Handler<usize>,
    ran_on: Arc<Mutex<BTreeSet<u32>>>,
}

impl Wanderer {
    /// Posts to `next`, if there is a next handler.
    fn new(handle: &Handle, spec: Spec, next: Option<Handler<usize>>) -> Self {
        let ran_on = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = ran_on.clone();
        let handler = handle.handler(spec, move |item| {
            noted.lock().unwrap().insert(core_index().expect("runs on a core").0);
            if let Some(next) = &next {
                next.send(item).expect("below the bound");
            }
        });
        Self { handler, ran_on }
    }

    fn ran_on(&self) -> Vec<u32> {
        self.ran_on.lock().unwrap().iter().copied().collect()
    }
}

#[test]
fn plan_respects_placements_and_groups() {
    let runtime = four_cores(Policy::Placed(PlanName::RoundRobin));
    let handle = runtime.handle();
    let group = handle.color();
    let spec = |name: &str| Spec::new(name).exclusion(Exclusion::Handler);
    let grouped = |name: &str| Spec::new(name).exclusion(Exclusion::Group(group.clone()));
    let pair = Place::Cores(vec![CoreIndex(0), CoreIndex(1)]);
    let specs = [
        spec("first"),
        spec("pinned").place(Place::Core(CoreIndex(3))),
        grouped("read"),
        spec("pair").place(pair),
        grouped("write"),
        spec("last"),
        spec("follower").place(Place::Producer),
    ];
    let handlers = specs.map(|spec| Wanderer::new(&handle, spec, None));
    handlers.iter().for_each(|one| one.handler.send(0).expect("below the bound"));
    eventually("all have run", || handlers.iter().all(|one| !one.ran_on().is_empty()));
    let ran_on: Vec<_> = handlers.iter().map(Wanderer::ran_on).collect();
    // Four units have a choice, with the group as a single unit. Core 2 is not in the pair.
    assert_eq!([&ran_on[0], &ran_on[1], &ran_on[2], &ran_on[4], &ran_on[5]], [&[0], &[3], &[1], &[1], &[3]]);
    assert!(ran_on[3] == [0] || ran_on[3] == [1], "{ran_on:?}");
    let placed = handle.placements().handlers;
    let names: Vec<_> = placed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["first", "pinned", "read", "pair", "write", "last"], "who follows is not placed");
    assert_eq!((placed[2].1, placed[4].1), (CoreIndex(1), CoreIndex(1)));
    runtime.shutdown(PATIENCE);
}

#[test]
fn plan_file_outside_a_placement_is_rejected() {
    let file = std::env::temp_dir().join(format!("vermeil-places-{}.toml", std::process::id()));
    std::fs::write(&file, "pinned = 1\nread = 2\n").expect("a file");
    let runtime = four_cores(Policy::Placed(PlanName::File(file.clone())));
    let handle = runtime.handle();
    let pinned = Spec::new("pinned").exclusion(Exclusion::Handler).place(Place::Core(CoreIndex(3)));
    let group = handle.color();
    let grouped = |name: &str| Spec::new(name).exclusion(Exclusion::Group(group.clone()));
    let handlers = [grouped("write"), grouped("read"), pinned].map(|spec| Wanderer::new(&handle, spec, None));
    handlers.iter().for_each(|one| one.handler.send(0).expect("below the bound"));
    eventually("all have run", || handlers.iter().all(|one| !one.ran_on().is_empty()));
    let ran_on: Vec<_> = handlers.iter().map(Wanderer::ran_on).collect();
    assert_eq!(ran_on, [[2], [2], [3]]);
    let wrong = "plan: line 1: `pinned`: may not stand there: its place allows 3";
    assert_eq!(handle.placements().unknown.as_deref(), Some(wrong));
    runtime.shutdown(PATIENCE);
    std::fs::remove_file(file).expect("the file is there");
}

#[test]
fn plan_file_that_splits_a_group_is_rejected() {
    let file = std::env::temp_dir().join(format!("vermeil-parted-{}.toml", std::process::id()));
    std::fs::write(&file, "last = 1\nmiddle = 2\n").expect("a file");
    let runtime = four_cores(Policy::Placed(PlanName::File(file.clone())));
    let (handle, group) = (runtime.handle(), runtime.handle().color());
    let grouped = |name| Spec::new(name).exclusion(Exclusion::Group(group.clone()));
    let handlers = ["first", "middle", "last"].map(|name| Wanderer::new(&handle, grouped(name), None));
    handlers.iter().for_each(|one| one.handler.send(0).expect("below the bound"));
    eventually("all have run", || handlers.iter().all(|one| !one.ran_on().is_empty()));
    assert!(handlers.iter().all(|one| one.ran_on() == [2]));
    let parted = "plan: line 2: `middle`: shares its color with `last`, which line 1 puts elsewhere";
    assert_eq!(handle.placements().unknown.as_deref(), Some(parted));
    runtime.shutdown(PATIENCE);
    std::fs::remove_file(file).expect("the file is there");
}

/// Wants every unit on the next core in every round, permitted or not, and keeps its observations.
#[derive(Debug, Default)]
struct Restless {
    seen: Arc<Mutex<Vec<Observation>>>,
    rules: Arc<Mutex<PlanRules>>,
    log: DecisionLog,
}

impl Controller for Restless {
    fn round(&mut self, _: u64, seen: &Observation) -> Vec<Move> {
        self.seen.lock().unwrap().push(seen.clone());
        let next = |core: CoreIndex| CoreIndex((core.0 + 1) % 4);
        let placed = seen.placed.iter().map(|(handler, _)| handler);
        placed
            .map(|handler| Move { handler, to: next(seen.placed.core_of(handler).expect("placed")) })
            .collect()
    }

    fn next_round_ns(&self) -> Option<u64> {
        Some(1_000_000)
    }

    fn set_rules(&mut self, rules: PlanRules) {
        *self.rules.lock().unwrap() = rules;
    }

    fn begin(&self, _: HandlerIndex) -> Option<CoreIndex> {
        None
    }

    fn decisions(&self) -> &DecisionLog {
        &self.log
    }
}

/// Whatever the controller wants: a placed handler stays in its place, a group moves as a unit, and
/// all units are counted.
#[test]
fn controller_moves_movable_handlers_and_observes_all() {
    let runtime = four_cores(Policy::Trial);
    let handle = runtime.handle();
    let (seen, rules) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(PlanRules::new())));
    let restless = Restless { seen: seen.clone(), rules: rules.clone(), log: DecisionLog::default() };
    handle.shared.control.as_ref().expect("it places").set_controller(Box::new(restless));
    let spec = |name: &str| Spec::new(name).exclusion(Exclusion::Handler);
    let group = handle.color();
    let grouped = |name: &str| Spec::new(name).exclusion(Exclusion::Group(group.clone()));
    let pinned = Wanderer::new(&handle, spec("pinned").place(Place::Core(CoreIndex(2))), None);
    // The next core in order is not permitted.
    let some = spec("some").place(Place::Cores(vec![CoreIndex(0), CoreIndex(2)]));
    let some = Wanderer::new(&handle, some, Some(pinned.handler));
    let write = Wanderer::new(&handle, grouped("write"), Some(some.handler));
    let read = Wanderer::new(&handle, grouped("read"), Some(write.handler));
    let free = Wanderer::new(&handle, spec("free"), Some(read.handler));
    let mut posted = 0;
    eventually("the others go round", || {
        free.handler.send(posted).expect("below the bound");
        posted += 1;
        [&write, &read, &free].iter().all(|one| one.ran_on().len() == 4)
    });
    let (pinned_on, some_on) = (pinned.ran_on(), some.ran_on());
    assert_eq!(pinned_on, [2]);
    assert!(some_on == [0] || some_on == [2], "{some_on:?}");
    let unit = HandlerIndex;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    for Observation { placed, .. } in &seen {
        assert!(placed.len() < 4 || placed.core_of(unit(2)) == placed.core_of(unit(3)), "a group is one");
        assert!(rules.lock().unwrap().permits(placed), "{placed:?}");
    }
    let flowed = |from, to| {
        let mut flows = seen.iter().flat_map(|seen| seen.flows.flows());
        flows.any(|flow| flow.from == Some(unit(from)) && flow.to == unit(to))
    };
    assert!(flowed(4, 3) && flowed(3, 2) && flowed(2, 1) && flowed(1, 0), "what has a place counts");
    for at in 0..5 {
        let events = |seen: &Observation| seen.handlers.get(at).map_or(0, |handler| handler.events);
        assert!(seen.iter().map(events).sum::<u64>() > 0, "unit {at}");
    }
    assert_eq!(runtime.shutdown(PATIENCE).events_dropped, 0);
}

/// Lets a long event end, also if a test fails before.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Colors that wait behind a long event move at once: a message to the donor, and a message from
/// the donor to each receiver. The running color moves at the end of its event, and an empty color
/// with its next event.
#[test]
fn busy_donor_gives_up_its_queued_colors() {
    let runtime = four_cores(Policy::Placed(PlanName::RoundRobin));
    let handle = runtime.handle();
    let control = handle.shared.control.as_ref().expect("it places");
    let spec = |name: String| Spec::new(name).exclusion(Exclusion::Handler);
    let handlers: Vec<_> =
        (0..9).map(|at| Wanderer::new(&handle, spec(format!("handler-{at}")), None)).collect();
    let over = Over(Arc::new(AtomicBool::new(false)));
    let (until, begun, ended) =
        (over.0.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (begins, ends) = (begun.clone(), ended.clone());
    let long = handle.handler(spec("long".to_owned()), move |waits: bool| {
        begins.fetch_add(1, Ordering::Relaxed);
        while waits && !until.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        ends.lock().unwrap().push(core_index().expect("runs on a core").0);
    });
    let to = |units: std::ops::Range<u32>, to: u32| {
        units.map(move |unit| Move { handler: HandlerIndex(unit), to: CoreIndex(to) })
    };
    control.carry_out(&handle.shared, &to(0..10, 0).collect::<Vec<_>>());
    handlers.iter().for_each(|one| one.handler.send(0).expect("below the bound"));
    long.send(false).expect("below the bound");
    eventually("all stand on core 0", || {
        ended.lock().unwrap().len() == 1 && handlers.iter().all(|one| one.ran_on() == [0])
    });
    long.send(true).expect("below the bound");
    eventually("it runs", || begun.load(Ordering::Relaxed) == 2);
    handlers[..8].iter().for_each(|one| one.handler.send(0).expect("below the bound"));
    long.send(false).expect("below the bound");
    let before = handle.placements();
    control.carry_out(&handle.shared, &to(0..4, 1).chain(to(4..10, 2)).collect::<Vec<_>>());
    let after = handle.placements();
    assert_eq!((after.moves - before.moves, after.messages - before.messages), (10, 3));
    for (at, one) in handlers[..8].iter().enumerate() {
        let expected = if at < 4 { [0, 1] } else { [0, 2] };
        eventually("it has run", || one.ran_on() == expected);
    }
    assert_eq!(*ended.lock().unwrap(), [0], "the long event still runs");
    drop(over);
    handlers[8].handler.send(0).expect("below the bound");
    eventually("all have run", || handlers[8].ran_on() == [0, 2] && *ended.lock().unwrap() == [0, 0, 2]);
    assert_eq!(runtime.shutdown(PATIENCE).events_dropped, 0);
}

/// All handlers move to the next core every millisecond while events are posted.
#[test]
fn handlers_that_go_round_together_lose_nothing() {
    let runtime = four_cores(Policy::Trial);
    let handle = runtime.handle();
    handle.shared.control.as_ref().expect("it places").set_controller(Box::new(Restless::default()));
    let (wrong, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let check = |at: usize| {
        let (wrong, ran, next) = (wrong.clone(), ran.clone(), AtomicUsize::new(0));
        let spec = Spec::new(format!("check-{at}")).exclusion(Exclusion::Handler);
        handle.handler(spec, move |number: usize| {
            wrong.fetch_add(usize::from(next.load(Ordering::Relaxed) != number), Ordering::Relaxed);
            next.store(number + 1, Ordering::Relaxed);
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    let checks: Vec<_> = (0..12).map(check).collect();
    let mut number = 0;
    eventually("they have gone round", || {
        for _ in 0..1_000 {
            checks.iter().for_each(|check| check.send(number).expect("below the bound"));
            number += 1;
        }
        eventually("they have run", || ran.load(Ordering::Relaxed) == 12 * number);
        handle.placements().moves > 1_200
    });
    assert_eq!((wrong.load(Ordering::Relaxed), runtime.shutdown(PATIENCE).events_dropped), (0, 0));
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

#[test]
fn trial_follows_its_options() {
    let with = |dwell_ns| {
        let trial = TrialOptions { dwell_ns, ..TrialOptions::default() };
        Runtime::builder().policy(Policy::Trial).trial(trial).build()
    };
    let refused = with(0).err().expect("no plan stands for no time");
    assert!(matches!(refused, StartError::Trial { .. }), "{refused}");
    let told = refused.to_string();
    assert!(told.starts_with("cannot try plans: trial: dwell_ns: "), "{told}");
    let runtime = with(TrialOptions::DWELL_NS_MIN).expect("a runtime starts");
    let handle = runtime.handle();
    let _pipeline = pipeline(&handle, 4, Duration::ZERO);
    // With 2 s per plan, as many rounds take a minute, longer than this test waits.
    eventually("rounds are held", || handle.snapshot().cores.iter().all(|core| core.rounds >= 30));
    runtime.shutdown(PATIENCE);
}
