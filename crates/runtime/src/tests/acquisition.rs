//! Meetings: code that holds several colors at once. Which state and which core the code uses, and
//! that no acquisition deadlocks.

use super::{PATIENCE, eventually, four_cores};
use crate::{Colored, CoreIndex, Place, Policy, Source, TaskError, core_index};
use std::{
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

/// Transfers between accounts, each with a color, while each account is also used alone: the sum
/// stays constant.
#[test]
fn acquisitions_hold_all_colors_and_never_deadlock() {
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
fn acquisition_keeps_the_posting_order_of_each_color() {
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
fn panic_in_an_acquisition_ends_nothing_else() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (first, second) = (handle.color(), handle.color());
    let failed = handle.when(&[&first, &second], || panic!("planted"));
    assert!(failed.wait().is_err());
    assert_eq!(handle.when(&[&first, &second], || 7).wait(), Ok(7));
    runtime.shutdown(PATIENCE);
}

const POLICIES: [Policy; 4] = [Policy::None, Policy::Adaptive, Policy::Libasync, Policy::Mely];

#[test]
fn acquisition_runs_where_all_its_colors_may_run() {
    let (odd, low) = ([1, 3].map(CoreIndex), [0, 1].map(CoreIndex));
    for policy in POLICIES {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let (odd, low) =
            (handle.color_at(&Place::Cores(odd.into())), handle.color_at(&Place::Cores(low.into())));
        let (third, follower) = (handle.color_on(CoreIndex(3)), handle.color_at(&Place::Producer));
        for _ in 0..50 {
            let free = handle.color();
            let place =
                |colors: &[_]| handle.when(colors, core_index).wait().expect("takes place").unwrap().0;
            assert!([1, 3].contains(&place(&[&free, &odd])), "{policy}");
            assert_eq!(place(&[&odd, &low, &follower]), 1, "{policy}");
            assert_eq!(place(&[&follower, &third]), 3, "{policy}: who follows is nowhere at home");
        }
        runtime.shutdown(PATIENCE);
    }
}

/// Regression: the error was found only after some of the colors already waited, for ever.
#[test]
fn refused_acquisition_leaves_its_colors_unchanged() {
    let (runtime, other) = (four_cores(Policy::Adaptive), four_cores(Policy::Adaptive));
    let handle = runtime.handle();
    let (first, second) = (handle.color_on(CoreIndex(1)), handle.color_on(CoreIndex(2)));
    let stranger = other.handle().color();
    for colors in [vec![&first, &second], vec![&first, &stranger], vec![]] {
        assert!(catch_unwind(AssertUnwindSafe(|| handle.when(&colors, || ()))).is_err());
    }
    for color in [&first, &second] {
        assert_eq!(handle.spawn_on(color, async { 1 }).wait(), Ok(1));
    }
    runtime.shutdown(PATIENCE);
    other.shutdown(PATIENCE);
}

#[test]
fn socket_made_in_acquisition_works_on_its_colors() {
    for policy in [Policy::None, Policy::Adaptive, Policy::Mely] {
        let runtime = four_cores(policy.clone());
        let handle = runtime.handle();
        let (first, second) = (handle.color_on(CoreIndex(1)), handle.color());
        let opened = Arc::new(Colored::new(second.id(), None));
        let keeps = opened.clone();
        let met = handle.when(&[&first, &second], move || {
            let (reader, writer) = std::io::pipe()?;
            let source = Arc::new(Source::new(OwnedFd::from(reader))?);
            keeps.with(|kept| *kept = Some((source, writer)));
            std::io::Result::Ok(())
        });
        met.wait().expect("takes place").expect("pipes can be made");
        let looks = opened.clone();
        let used = handle.spawn_on(&second, async move {
            let source = looks.with(|kept| kept.as_ref().map(|(source, _)| source.clone()));
            let source = source.expect("it was opened");
            source.move_here().await?;
            source.with_fd(|_| ())
        });
        assert!(used.wait().expect("it ends").is_ok(), "{policy}");
        handle.spawn_on(&second, async move { drop(opened.with(Option::take)) }).wait().expect("ends");
        runtime.shutdown(PATIENCE);
    }
}

/// Regression: `cancel` had no effect.
#[test]
fn cancelled_acquisition_does_not_run() {
    let runtime = four_cores(Policy::Adaptive);
    let handle = runtime.handle();
    let (first, second) = (handle.color(), handle.color());
    let (go, goes_on) = std::sync::mpsc::channel::<()>();
    let holds = handle.spawn_on(&first, async move { goes_on.recv_timeout(PATIENCE).is_ok() });
    let kept = Arc::new(());
    let captured = kept.clone();
    let met = handle.when(&[&first, &second], move || drop(captured));
    met.cancel();
    go.send(()).expect("it waits");
    assert_eq!(met.wait(), Err(TaskError::Cancelled));
    assert_eq!((holds.wait(), Arc::strong_count(&kept)), (Ok(true), 1));
    assert_eq!(handle.when(&[&first, &second], || 7).wait(), Ok(7));
    runtime.shutdown(PATIENCE);
}
