//! The programming model: exclusion by handler and group, colors by key, hopping, meetings, placement.

use super::{PATIENCE, eventually, runtime};
use crate::{
    Colored, CoreIndex, Exclusion, Handle, Place, Policy, Runtime, Spec, Task, core_index, current_color,
    hop, sleep, yield_now,
};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn four_cores(policy: Policy) -> Runtime {
    let allowed = vermeil_io::current_affinity();
    let cpus = (0..4).map(|core| allowed[core % allowed.len()]);
    Runtime::builder().cpus(cpus).policy(policy).build().expect("a runtime starts")
}

/// How many are inside at once, at most.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Inside {
    fn visit(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        std::thread::yield_now();
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

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
fn handlers_exclude_what_they_say() {
    let runtime = four_cores(Policy::None);
    let handle = runtime.handle();
    let group = handle.color();
    let most = NonZeroUsize::new(2).expect("two");
    let excluding = [
        (Exclusion::Handler, 1),
        (Exclusion::Group(group.clone()), 1),
        (Exclusion::AtMost(most), 2),
        (Exclusion::None, 4),
        (Exclusion::Color, 4),
    ];
    let crowds: Vec<_> = excluding
        .into_iter()
        .map(|(exclusion, most)| (crowd(&handle, Spec::new("visitor").exclusion(exclusion), 400), most))
        .collect();
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
fn a_key_has_a_color_for_as_long_as_it_is_used() {
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
fn places_are_kept_whatever_the_policy() {
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

/// What a leader posts is posted during its run: its followers run on the core on which it ran.
#[test]
fn who_follows_runs_where_its_leader_ran() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync, Policy::NCopy] {
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
            // Only an empty color goes elsewhere.
            let own = after.color().expect("a handler with a color of its own");
            eventually("the colors are empty", || color_of_producer.is_empty() && own.is_empty());
        }
        runtime.shutdown(PATIENCE);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 0);
    }
}

/// The cryptography of a connection leaves its color and comes back: state of either is reached on it and nowhere else.
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

/// Transfers between accounts, each with a color, while each account is also used alone: money is neither made nor lost.
#[test]
fn meetings_have_all_their_colors_and_never_lock_up() {
    const ACCOUNTS: usize = 6;
    const TRANSFERS: usize = 60;
    for policy in [Policy::None, Policy::Adaptive, Policy::Libasync, Policy::Mely] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let accounts: Arc<Vec<_>> = Arc::new(
            (0..ACCOUNTS)
                .map(|_| {
                    let color = handle.color();
                    let balance = Arc::new(Colored::new(color.id(), 100i64));
                    (color, balance)
                })
                .collect(),
        );
        let interest =
            handle.handler("look", |balance: Arc<Colored<i64>>| balance.with(|balance| *balance += 0));
        std::thread::scope(|scope| {
            for start in 0..3 {
                let (accounts, handle) = (accounts.clone(), handle.clone());
                scope.spawn(move || {
                    let mut transfers = Vec::new();
                    for step in 0..TRANSFERS {
                        let (from, to) = ((start + step) % ACCOUNTS, (start * 2 + step * 3 + 1) % ACCOUNTS);
                        let (a, b) = (accounts[from].1.clone(), accounts[to].1.clone());
                        interest.post(&accounts[to].0, b.clone()).expect("below the bound");
                        transfers.push(handle.when(&[&accounts[from].0, &accounts[to].0], move || {
                            a.with(|a| *a -= 7);
                            b.with(|b| *b += 7);
                        }));
                    }
                    for transfer in transfers {
                        transfer.wait().expect("takes place");
                    }
                });
            }
        });
        runtime.shutdown(PATIENCE);
        let accounts = Arc::into_inner(accounts).expect("all have ended");
        let sum: i64 =
            accounts.into_iter().map(|(_, balance)| Arc::into_inner(balance).unwrap().into_inner()).sum();
        assert_eq!(sum, 100 * ACCOUNTS as i64, "{policy}");
    }
}

#[test]
fn a_meeting_stands_in_the_order_of_posting_on_each_color() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (first, second) = (handle.color(), handle.color_at(&Place::Core(CoreIndex(2))));
    let journal = Arc::new(Mutex::new(Vec::new()));
    let note = handle.handler("note", {
        let journal = journal.clone();
        move |what: &'static str| journal.lock().unwrap().push(what)
    });
    note.post(&first, "before, first").unwrap();
    note.post(&second, "before, second").unwrap();
    let both = journal.clone();
    let met = handle.when(&[&second, &first, &first], move || {
        both.lock().unwrap().push("both");
        core_index()
    });
    note.post(&first, "after, first").unwrap();
    note.post(&second, "after, second").unwrap();
    assert_eq!(met.wait().expect("takes place"), Some(CoreIndex(2)), "where the tied color is");
    eventually("all ran", || journal.lock().unwrap().len() == 5);
    let order: Vec<_> = journal.lock().unwrap().iter().map(|what| &what[..2]).collect();
    assert_eq!(order, ["be", "be", "bo", "af", "af"]);
    runtime.shutdown(PATIENCE);
}

#[test]
fn a_panic_in_a_meeting_ends_nothing_else() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (first, second) = (handle.color(), handle.color());
    let failed = handle.when(&[&first, &second], || panic!("planted"));
    assert!(failed.wait().is_err());
    assert_eq!(handle.when(&[&first, &second], || 7).wait(), Ok(7));
    runtime.shutdown(PATIENCE);
}
