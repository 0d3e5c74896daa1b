//! Behaviour that needs no interleavings: order, batches, drops, panics, misuse of colored state.

use crate::{
    AcquireOrder, AtomicQueuedMark, BatchRun, ColorHead, ColorId, ColorQueue, Colored, Event, HeldColor,
    Label, MultiAcquire, Promise, ReadyQueue, Run, ScheduleOutcome, Semaphore, TaskBody, TaskCell, Token,
    TraceRing, current_color, hold, token::run_together,
};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    future::Future as _,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

fn color() -> Arc<ColorQueue> {
    ColorQueue::new(0, ())
}

fn run(token: Token, batch: usize) -> (crate::BatchCounts, BatchRun) {
    token.run(batch, |_, _| ControlFlow::Continue(()))
}

struct Do<F>(F);

impl<F: FnOnce() + Send + 'static> Run for Do<F> {
    fn run(self) {
        (self.0)();
    }
}

fn event(f: impl FnOnce() + Send + 'static) -> Event {
    Event::once(Do(f))
}

proptest! {
    /// Any mix of pushes and batched runs keeps the order of the pushes and runs each event once.
    #[test]
    fn color_is_first_in_first_out_for_every_batch_size(ops in prop::collection::vec(0u8..8, 0..200)) {
        let color = color();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let (mut pushed, mut token) = (0u32, None);
        for op in ops {
            if op < 4 {
                let (number, ran) = (pushed, ran.clone());
                let new = color.push(event(move || ran.lock().unwrap().push(number)));
                prop_assert_eq!(new.is_some(), token.is_none(), "a token exists while events are queued");
                token = token.or(new);
                pushed += 1;
            } else if let Some(held) = token.take() {
                let before = color.len();
                let (did, next) = run(held, usize::from(op));
                prop_assert_eq!(did.events, before.min(usize::from(op)));
                token = match next { BatchRun::Again(again) => Some(again), _ => None };
            }
        }
        while let Some(held) = token.take() {
            if let (_, BatchRun::Again(again)) = run(held, 3) { token = Some(again); }
        }
        prop_assert_eq!(&*ran.lock().unwrap(), &(0..pushed).collect::<Vec<_>>());
    }
}

#[test]
fn panic_is_counted_and_the_color_continues() {
    let color = color();
    let ran = Arc::new(Mutex::new(0));
    let token = color.push(event(|| panic!("planted"))).unwrap();
    let after = ran.clone();
    assert!(color.push(event(move || *after.lock().unwrap() += 1)).is_none());
    let (did, next) = run(token, 10);
    assert_eq!((did.events, did.panics), (2, 1));
    assert!(matches!(next, BatchRun::Empty));
    assert_eq!(*ran.lock().unwrap(), 1);
    assert_eq!(current_color(), None);
}

#[test]
fn color_drops_its_unrun_events() {
    let held = Arc::new(());
    let color = color();
    for _ in 0..3 {
        let held = held.clone();
        // The token's reference stands for a queue's reference; dropping it ends the color.
        drop(color.push(event(move || drop(held))));
    }
    assert_eq!(Arc::strong_count(&held), 4);
    drop(color);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn an_event_may_push_to_its_own_color() {
    let color = color();
    let again = color.clone();
    let ran = Arc::new(Mutex::new(false));
    let done = ran.clone();
    let token = color
        .push(event(move || {
            assert!(again.push(event(move || *done.lock().unwrap() = true)).is_none(), "the token is held");
        }))
        .unwrap();
    let (_, BatchRun::Again(token)) = run(token, 1) else { panic!("an event remains") };
    assert!(matches!(run(token, 1).1, BatchRun::Empty));
    assert!(*ran.lock().unwrap());
}

/// Counts runs, and drops without a run.
#[derive(Default)]
struct CountedRuns {
    runs: Mutex<u32>,
    drops: Mutex<u32>,
    _witness: Arc<()>,
}

impl TaskBody for CountedRuns {
    type Mark = AtomicQueuedMark;
    type Slotted = Vec<ColorId>;
    type Output = ();

    fn run(event: &Pin<Arc<TaskCell<Self>>>) {
        *event.body.runs.lock().unwrap() += 1;
        event
            .as_ref()
            .future_slot()
            .with(|colors| colors.get_mut().as_mut().unwrap().push(current_color().unwrap()));
    }

    fn wake(_: &Pin<Arc<TaskCell<Self>>>) {}

    fn dropped(event: &Pin<Arc<TaskCell<Self>>>) {
        *event.body.drops.lock().unwrap() += 1;
    }
}

#[test]
fn a_repeating_event_stands_in_one_queue() {
    let color = color();
    let witness = Arc::new(());
    let counted = CountedRuns { _witness: witness.clone(), ..CountedRuns::default() };
    let cell = TaskCell::on_color(counted, color.id(), Vec::new());
    let token = color.push(cell.post().expect("not posted yet")).unwrap();
    assert!(cell.post().is_none(), "already posted");
    assert!(matches!(run(token, 9).1, BatchRun::Empty));
    drop(cell.post().expect("it ran, so it can be posted again"));
    assert!(cell.post().is_some(), "a cancelled post can be repeated");
    assert_eq!((*cell.body.runs.lock().unwrap(), *cell.body.drops.lock().unwrap()), (1, 2));
    drop(cell);
    assert_eq!(Arc::strong_count(&witness), 1, "no count is left over");
}

/// A slotted value stays in place, and is reachable only on its color, also after a move to another
/// color.
#[test]
fn task_cell_keeps_its_address_when_its_color_changes() {
    let (from, to) = (color(), color());
    let cell = TaskCell::on_color(CountedRuns::default(), from.id(), Vec::new());
    let address = || {
        let (place, seen) = (Arc::new(Mutex::new(0)), cell.clone());
        let found = place.clone();
        let look = move || {
            seen.as_ref().future_slot().with(|colors| *found.lock().unwrap() = &raw const *colors as usize)
        };
        (place, look)
    };
    let (here, look) = address();
    assert_eq!(run(from.push(event(look)).unwrap(), 1).0.panics, 0);
    let (moved, id) = (cell.clone(), to.id());
    assert_eq!(
        run(from.push(event(move || moved.as_ref().future_slot().move_to(id))).unwrap(), 1).0.panics,
        0
    );
    let (_, look) = address();
    assert_eq!(run(from.push(event(look)).unwrap(), 1).0.panics, 1, "it is not here any more");
    let (there, look) = address();
    assert_eq!(run(to.push(event(look)).unwrap(), 1).0.panics, 0);
    assert_eq!(*here.lock().unwrap(), *there.lock().unwrap());
    assert_eq!(cell.as_ref().future_slot().color(), to.id());
}

/// Has a task color, and posts itself `more` times while it runs.
#[derive(Default)]
struct Again {
    more: Mutex<u32>,
    drops: Mutex<u32>,
    witness: Arc<()>,
}

impl TaskBody for Again {
    type Mark = ColorHead;
    type Slotted = Vec<ColorId>;
    type Output = ();

    fn run(event: &Pin<Arc<TaskCell<Self>>>) {
        let slot = event.as_ref().future_slot();
        slot.with(|colors| colors.get_mut().as_mut().unwrap().push(current_color().unwrap()));
        let mut more = event.body.more.lock().unwrap();
        if *more > 0 {
            *more -= 1;
            assert!(matches!(event.schedule(Label::default), ScheduleOutcome::Again(())));
            assert!(matches!(event.schedule(Label::default), ScheduleOutcome::Waits));
        }
    }

    fn wake(_: &Pin<Arc<TaskCell<Self>>>) {}

    fn dropped(event: &Pin<Arc<TaskCell<Self>>>) {
        assert_eq!(current_color(), Some(event.mark.id()));
        *event.body.drops.lock().unwrap() += 1;
    }
}

#[test]
fn task_color_runs_again_after_a_post_during_the_run() {
    let witness = Arc::new(());
    let body = Again { more: Mutex::new(1), witness: witness.clone(), ..Again::default() };
    let label = Label::new(7, 1, 100).stamped(5, 6);
    let (event, token) = TaskCell::with_color(3, (), label, body, Vec::new());
    assert_eq!((token.color().core(), token.color().worth_ns(), event.mark.len()), (3, 128, 1));
    assert!(matches!(event.clone().schedule_owned(|| unreachable!("it waits")), ScheduleOutcome::Waits));
    let mut seen = Vec::new();
    let (ran, next) = token.run(9, |head, label| {
        assert_eq!(head.len(), 2, "what runs is counted until it is accounted");
        seen.push(label);
        ControlFlow::Continue(())
    });
    assert_eq!((ran.events, ran.panics, seen), (1, 0, vec![label]));
    let BatchRun::Again(token) = next else { panic!("it was posted meanwhile") };
    assert_eq!(token.color().worth_ns(), 0, "what ran was worth what it had added");
    let shared = token.color().clone();
    assert!(matches!(run(token, 9).1, BatchRun::Empty));
    assert!(shared.is_empty());
    drop(shared);
    let ScheduleOutcome::First(token) = event.schedule(Label::default) else { panic!("it was empty") };
    assert_eq!((token.discard(), *event.body.drops.lock().unwrap()), (1, 1));
    assert_eq!(Arc::strong_count(&event.body.witness), 2);
    drop(event);
    assert_eq!(Arc::strong_count(&witness), 1, "no count is left over");
}

#[test]
fn colored_state_refuses_strangers_and_re_entry() {
    let color = color();
    let state = Arc::new(Colored::new(color.id(), 1));
    let off_color = catch_unwind(AssertUnwindSafe(|| state.with(|value| *value)));
    assert!(off_color.is_err());
    let inside = state.clone();
    let token = color
        .push(event(move || {
            inside.with(|value| *value += 1);
            let twice = catch_unwind(AssertUnwindSafe(|| inside.with(|_| inside.with(|value| *value))));
            assert!(twice.is_err());
            inside.with(|value| *value += 1);
        }))
        .unwrap();
    assert_eq!(run(token, 1).0.panics, 0);
    assert_eq!(Arc::into_inner(state).unwrap().into_inner(), 3);
}

/// Regression: callers gave the names, so two colors with one name ran at once and reached the same
/// state.
#[test]
fn colored_state_refuses_every_other_color() {
    let (mine, other) = (color(), color());
    let state = Arc::new(Colored::new(mine.id(), 0));
    let inside = state.clone();
    let token = other.push(event(move || inside.with(|value| *value += 1))).unwrap();
    assert_eq!(run(token, 1).0.panics, 1);
    assert_eq!(Arc::into_inner(state).unwrap().into_inner(), 0);
}

#[test]
fn ready_tokens_come_in_order() {
    let ready = ReadyQueue::new(VecDeque::new(), VecDeque::len);
    assert!(ready.with(VecDeque::pop_front).is_none());
    let colors = [color(), color(), color()];
    for color in &colors {
        ready.with(|tokens| tokens.push_back(color.push(event(|| ())).unwrap()));
    }
    assert_eq!(ready.len(), 3);
    for color in &colors {
        assert_eq!(ready.try_with(VecDeque::pop_front).flatten().unwrap().color().id(), color.id());
    }
    assert!(ready.is_empty());
}

#[test]
fn batch_stops_on_break_and_subtracts_labels() {
    let color = color();
    let mut token = None;
    for handler in 0..4 {
        let label = Label::new(handler, 0, 128 * (u32::from(handler) + 1));
        token = token.or(color.push(event(|| ()).labelled(label)));
    }
    assert_eq!(color.worth_ns(), 1280);
    let (mut begun, mut seen) = (Vec::new(), Vec::new());
    let (ran, next) = token.unwrap().run_watched(
        4,
        |_, label| {
            begun.push(label.handler());
            ControlFlow::Continue(())
        },
        |_, label| {
            seen.push(label.handler());
            if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    assert_eq!((ran.events, &begun, color.worth_ns()), (3, &seen, 512));
    assert_eq!(seen, [0, 1, 2]);
    let BatchRun::Again(token) = next else { panic!("an event remains") };
    assert_eq!((token.discard(), color.worth_ns()), (1, 0));
}

#[test]
fn refused_event_stays_first_in_its_color() {
    let color = color();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let add = |number: u16| {
        let ran = ran.clone();
        color.push(event(move || ran.lock().unwrap().push(number)).labelled(Label::new(number, 0, 128)))
    };
    let token = add(0).expect("the first event makes the token");
    assert!(add(1).is_none() && add(2).is_none());
    let until = |token: Token, first: u16| {
        let may = |_: &ColorHead, label: Label| match label.handler() < first {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let (did, BatchRun::Again(token)) = token.run_watched(9, may, |_, _| ControlFlow::Continue(()))
        else {
            panic!("events remain")
        };
        (did.events, token)
    };
    let (did, token) = until(token, 0);
    assert_eq!((did, color.len(), color.worth_ns()), (0, 3, 384));
    let (did, token) = until(token, 1);
    assert_eq!((did, color.len()), (1, 2));
    assert!(add(3).is_none(), "the color has its token");
    let (did, token) = until(token, 3);
    assert_eq!((did, color.worth_ns()), (2, 128));
    assert!(matches!(run(token, 9).1, BatchRun::Empty));
    assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3]);
    let token = add(4).expect("it was empty");
    assert_eq!(until(token, 0).1.discard(), 1);
    assert!(color.is_empty());
}

#[test]
fn task_color_defers_an_event_without_a_permit() {
    let witness = Arc::new(());
    let body = Again { witness: witness.clone(), ..Again::default() };
    let (event, token) = TaskCell::with_color(0, (), Label::default(), body, Vec::new());
    let not_yet = |token: Token| {
        let never = |_: &ColorHead, _| ControlFlow::Break(());
        token.run_watched(1, never, |_, _| panic!("nothing has run"))
    };
    let (did, BatchRun::Again(token)) = not_yet(token) else { panic!("it waits") };
    assert_eq!((did.events, token.color().len()), (0, 1));
    assert!(matches!(event.schedule(|| unreachable!("it waits")), ScheduleOutcome::Waits));
    let (did, next) = run(token, 1);
    assert!(did.events == 1 && matches!(next, BatchRun::Empty));
    let ScheduleOutcome::First(token) = event.schedule(Label::default) else { panic!("it was empty") };
    let (_, BatchRun::Again(token)) = not_yet(token) else { panic!("it waits") };
    assert_eq!((token.discard(), *event.body.drops.lock().unwrap()), (1, 1));
    drop(event);
    assert_eq!(Arc::strong_count(&witness), 1, "no count is left over");
}

#[test]
fn held_color_runs_nothing_until_release() {
    let color = color();
    let ran = Arc::new(Mutex::new(0));
    let count = |ran: &Arc<Mutex<u32>>| {
        let ran = ran.clone();
        event(move || *ran.lock().unwrap() += 1)
    };
    let token = color.push(count(&ran)).unwrap();
    assert!(color.push(event(hold)).is_none());
    assert!(color.push(count(&ran)).is_none());
    let (did, BatchRun::Held(held)) = run(token, 9) else { panic!("the second event holds the color") };
    assert_eq!((did.events, *ran.lock().unwrap(), color.len()), (2, 1, 2));
    assert!(color.push(count(&ran)).is_none(), "a held color has its token");
    let BatchRun::Again(token) = held.release() else { panic!("events remain") };
    assert!(matches!(run(token, 9).1, BatchRun::Empty));
    assert_eq!(*ran.lock().unwrap(), 3);
}

fn held(color: &Arc<ColorQueue>) -> HeldColor {
    match run(color.push(event(hold)).unwrap(), 1).1 {
        BatchRun::Held(held) => held,
        _ => panic!("the event holds its color"),
    }
}

#[test]
fn acquired_colors_give_access_to_their_state() {
    let (first, second) = (color(), color());
    let state = [&first, &second].map(|color| Colored::new(color.id(), 1));
    let both = [held(&first), held(&second)];
    let panicked = run_together(&both, || {
        state[0].with(|one| state[1].with(|other| std::mem::swap(one, other)));
        assert_eq!(current_color(), None);
    });
    assert!(!panicked);
    assert!(catch_unwind(AssertUnwindSafe(|| state[0].with(|_| ()))).is_err(), "it has run");
    assert!(both.into_iter().all(|held| matches!(held.release(), BatchRun::Empty)));
    let one = [held(&first)];
    assert!(run_together(&one, || state[1].with(|_| ())), "the second color is not held");
    let [one] = one;
    assert!(matches!(one.release(), BatchRun::Empty));
}

/// An acquisition of two colors, none of which has come yet.
fn acquisition() -> Arc<MultiAcquire<(), ()>> {
    let mut made = None;
    AcquireOrder::default().acquire_all([(); 2].into_iter(), (), |(), acquisition| made = Some(acquisition));
    made.expect("it has two colors")
}

/// Regression: a color that stood still for an acquisition kept its count without a token, so the
/// events behind were never dropped.
#[test]
fn dropped_acquisition_drops_events_of_its_colors() {
    let (first, second) = (color(), color());
    let pending = acquisition();
    assert!(pending.acquired(held(&first)).is_none(), "the second color is missing");
    let witness = Arc::new(());
    let behind = witness.clone();
    assert!(first.push(event(move || drop(behind))).is_none(), "the color stands still");
    drop(pending);
    assert_eq!((Arc::strong_count(&witness), first.len()), (1, 0));
    let pending = acquisition();
    assert!(pending.acquired(held(&first)).is_none());
    let (both, ()) = pending.acquired(held(&second)).expect("both colors have come");
    drop(both);
    assert!(first.is_empty() && second.is_empty());
}

/// The events of each color have the last reference to the acquisition for which the next color
/// stands still. Drops within drops would overflow the stack.
#[test]
fn chain_of_dropped_acquisitions_needs_no_stack() {
    let colors: Vec<_> = (0..20_000).map(|_| color()).collect();
    let mut token = None;
    for pair in colors.windows(2) {
        let pending = acquisition();
        assert!(pending.acquired(held(&pair[1])).is_none());
        // Only the first color does not stand still.
        token = token.or(pair[0].push(event(move || drop(pending))));
    }
    assert_eq!(token.expect("the first color has a token").discard(), 1);
    assert!(colors.iter().all(|color| color.is_empty()));
}

#[test]
fn state_moves_to_another_color() {
    let (from, to) = (color(), color());
    let state = Arc::new(Colored::new(from.id(), 1));
    let (there, here) = (to.id(), state.clone());
    let token = from.push(event(move || here.move_to(there))).unwrap();
    assert_eq!(run(token, 1).0.panics, 0);
    let here = state.clone();
    assert_eq!(run(from.push(event(move || here.with(|_| ()))).unwrap(), 1).0.panics, 1);
    let here = state.clone();
    assert_eq!(run(to.push(event(move || here.with(|value| *value += 1))).unwrap(), 1).0.panics, 0);
}

/// Regression: a panic payload whose destructor panics ended the core's thread.
#[test]
fn panic_payload_may_panic_on_drop() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("planted twice");
        }
    }
    let token = color().push(event(|| std::panic::panic_any(Bomb))).unwrap();
    assert_eq!(run(token, 1).0.panics, 1);
}

#[test]
fn trace_ring_keeps_last_records_and_total_count() {
    let ring = TraceRing::<2>::new(4);
    assert_eq!(ring.recent(), (0, Vec::new()));
    for number in 0..3 {
        assert_eq!(ring.pushed(), number);
        ring.push([number, 10 * number]);
    }
    assert_eq!(ring.recent(), (0, vec![[0, 0], [1, 10], [2, 20]]));
    (3..9).for_each(|number| ring.push([number, 10 * number]));
    // One slot always counts as being written.
    assert_eq!(ring.recent(), (6, vec![[6, 60], [7, 70], [8, 80]]));
}

/// A body of `BYTES` bytes.
struct Sized<const BYTES: usize>([u8; BYTES], Arc<Mutex<usize>>);

impl<const BYTES: usize> Run for Sized<BYTES> {
    fn run(self) {
        *self.1.lock().unwrap() += self.0.iter().filter(|byte| **byte == 7).count();
    }
}

/// More events than a thread and the depot keep, of sizes that are kept and of a size that is not,
/// from an ending thread to another.
#[test]
fn events_of_any_size_go_through_threads_that_end() {
    const EVENTS: usize = 20_000;
    let sum = Arc::new(Mutex::new(0));
    let mut bytes = 0;
    for _ in 0..2 {
        let poster = std::thread::spawn({
            let sum = sum.clone();
            move || {
                let events = (0..EVENTS).flat_map(|_| {
                    [
                        Event::once(Sized([7; 1], sum.clone())),
                        Event::once(Sized([7; 100], sum.clone())),
                        Event::once(Sized([7; 1_000], sum.clone())),
                    ]
                });
                events.collect::<Vec<_>>()
            }
        });
        let mut events = poster.join().unwrap();
        drop(events.split_off(2 * EVENTS));
        bytes += events.len() / 3 * 1_101 + [0, 1, 101][events.len() % 3];
        std::thread::spawn(move || events.into_iter().for_each(Event::run)).join().unwrap();
    }
    assert_eq!(*sum.lock().unwrap(), bytes);
    assert_eq!(Arc::strong_count(&sum), 1, "what was not run was dropped");
}

#[test]
fn result_cell_hands_the_result_over_once() {
    let value = Arc::new(());
    let (promise, mut join) = Promise::new();
    assert!(join.poll(Waker::noop()).is_pending());
    promise.complete(value.clone());
    promise.complete(value.clone());
    assert_eq!(Arc::strong_count(&value), 2, "the first counts");
    assert!(join.poll(Waker::noop()).is_ready());
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| join.poll(Waker::noop()))).is_err(), "it was handed on");
    let (promise, join) = Promise::new();
    promise.complete(value.clone());
    drop(join);
    assert_eq!(Arc::strong_count(&value), 1, "nobody can ask for it, though the promise lives");
    let (promise, join) = Promise::new();
    drop(join);
    promise.complete(value.clone());
    assert_eq!(Arc::strong_count(&value), 1);
    let (promise, join) = Promise::new();
    promise.complete(value.clone());
    drop(promise);
    drop(join);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Regression: a task that no receiver could wait for any more kept the waker of the last receiver,
/// and so the receiver's task.
#[test]
fn result_cell_drops_the_waker_with_the_reader() {
    struct Quiet;
    impl Wake for Quiet {
        fn wake(self: Arc<Self>) {}
    }
    let quiet = Arc::new(Quiet);
    let (promise, mut join) = Promise::<()>::new();
    for _ in 0..2 {
        assert!(join.poll(&Waker::from(quiet.clone())).is_pending());
        assert_eq!(Arc::strong_count(&quiet), 2, "the last waker alone is kept");
    }
    drop(join);
    assert_eq!(Arc::strong_count(&quiet), 1);
    promise.complete(());
}

/// A waiter that gives up passes on the permit that it has got, and a later caller overtakes none.
#[test]
fn semaphore_serves_waiting_tasks_in_order() {
    let semaphore = Semaphore::new(1);
    let mut context = Context::from_waker(Waker::noop());
    let held = semaphore.try_acquire();
    let (mut first, mut second) = (Box::pin(semaphore.acquire()), pin!(semaphore.acquire()));
    assert!(
        first.as_mut().poll(&mut context).is_pending() && second.as_mut().poll(&mut context).is_pending()
    );
    assert_eq!((semaphore.free(), semaphore.waiting()), (0, 2));
    drop(held);
    assert!(second.as_mut().poll(&mut context).is_pending() && semaphore.try_acquire().is_none());
    drop(first);
    let Poll::Ready(held) = second.as_mut().poll(&mut context) else { panic!("the first has left") };
    drop(held);
    assert_eq!((semaphore.free(), semaphore.waiting()), (1, 0));
}
