//! Both orders against plain models, on random lists of operations.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum ReadyOp {
    Push(u64),
    Pop,
    Steal,
    /// Followed by at most this many equivalent colors.
    StealAlike(usize),
    Reclass(u64),
    Remove,
}

fn ops() -> impl Strategy<Value = Vec<ReadyOp>> {
    let op = prop_oneof![
        3 => (0..1u64 << 20).prop_map(ReadyOp::Push),
        2 => Just(ReadyOp::Pop),
        1 => Just(ReadyOp::Steal),
        1 => (0..5usize).prop_map(ReadyOp::StealAlike),
        1 => (0..1u64 << 20).prop_map(ReadyOp::Reclass),
        1 => Just(ReadyOp::Remove),
    ];
    prop::collection::vec(op, 0..80)
}

/// Some colors have no steal class.
fn steal_class(color: u64) -> Option<StealClass> {
    (!color.is_multiple_of(7)).then_some(StealClass((color / 4 % 2) as u16))
}

/// The class of a color. Some colors are restricted.
fn class_of(color: u64, worth_ns: u64) -> Option<QueuedClass> {
    let class = QueuedClass::of(worth_ns);
    if color.is_multiple_of(5) { class.map(QueuedClass::restricted) } else { class }
}

/// Colors in order of arrival, with their classes.
#[derive(Default)]
struct ReadyModel(Vec<(u64, Option<QueuedClass>, u64)>);

impl ReadyModel {
    /// The best color: highest class, then the first to enter the class (by `entered`).
    fn best(&self) -> Option<usize> {
        let worthy = self.0.iter().enumerate().filter(|(_, entry)| entry.1.is_some());
        worthy.min_by_key(|(_, entry)| (std::cmp::Reverse(entry.1), entry.2)).map(|(at, _)| at)
    }

    /// Takes the best color and the equivalent colors: the next colors of the class while their
    /// steal class is equal.
    fn take_alike(&mut self, most: usize) -> Vec<u64> {
        let Some(at) = self.best() else { return Vec::new() };
        let (class, mut taken) = (self.0[at].1, vec![self.0.remove(at).0]);
        let first_of = |model: &Self| {
            let of_class = model.0.iter().enumerate().filter(|(_, entry)| entry.1 == class);
            of_class.min_by_key(|(_, entry)| entry.2).map(|(at, entry)| (at, entry.0))
        };
        while let Some((at, color)) = first_of(self)
            && taken.len() <= most
            && steal_class(color).is_some_and(|class_of| Some(class_of) == steal_class(taken[0]))
        {
            taken.push(self.0.remove(at).0);
        }
        taken
    }
}

proptest! {
    #[test]
    fn colors_behave_as_a_sorted_list_and_a_line(ops in ops()) {
        let mut ready = Ready::new(ReadyOrder::Colors);
        let (mut model, mut slots, mut clock) = (ReadyModel::default(), HashMap::new(), 0u64);
        for (color, op) in ops.into_iter().enumerate() {
            let color = color as u64;
            clock += 1;
            match op {
                ReadyOp::Push(worth_ns) => {
                    let class = class_of(color, worth_ns);
                    let noted = ready.next_slot();
                    let slot = ready.push(color, color, class);
                    prop_assert_eq!(slot, noted);
                    steal_class(color).into_iter().for_each(|steal_class| ready.set_steal_class(slot, steal_class));
                    slots.insert(color, slot);
                    model.0.push((color, class, clock));
                }
                ReadyOp::Pop => {
                    let first = (!model.0.is_empty()).then(|| model.0.remove(0).0);
                    prop_assert_eq!(ready.pop(), first);
                }
                ReadyOp::Steal => {
                    let best = model.best().map(|at| model.0.remove(at).0);
                    prop_assert_eq!(ready.steal(|_| true).map(|stolen| stolen.token), best);
                }
                ReadyOp::StealAlike(most) => {
                    let mut taken = Vec::new();
                    if let Some(judged) = ready.steal(|_| true) {
                        taken.push(judged.token);
                        if let Some(like) = judged.key
                            && most > 0
                        {
                            ready.steal_class(like, |other| {
                                taken.push(other);
                                if taken.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                            });
                        }
                    }
                    prop_assert_eq!(taken, model.take_alike(most));
                }
                ReadyOp::Reclass(worth_ns) => {
                    let Some(entry) = model.0.last_mut() else { continue };
                    let class = class_of(entry.0, worth_ns);
                    ready.reclass(slots[&entry.0], entry.0, class);
                    if entry.1 != class {
                        (entry.1, entry.2) = (class, clock);
                    }
                }
                ReadyOp::Remove => {
                    let Some(at) = model.0.len().checked_sub(1).map(|last| last / 2) else { continue };
                    let color = model.0.remove(at).0;
                    prop_assert_eq!(ready.remove(slots[&color], color).map(|stolen| stolen.token), Some(color));
                    prop_assert_eq!(ready.remove(slots[&color], color), None);
                }
            }
            prop_assert_eq!(ready.len(), model.0.len());
            prop_assert_eq!(ready.stealable(), model.0.iter().filter(|entry| entry.1.is_some()).count());
            prop_assert_eq!(ready.best(), model.0.iter().filter_map(|entry| entry.1).max());
        }
    }
}

use std::collections::HashMap;

#[test]
fn events_run_in_the_order_of_posting_across_colors() {
    let mut ready = Ready::new(ReadyOrder::Events);
    for color in [1, 2, 1, 2, 2] {
        ready.post(color, 1);
    }
    ready.push(1, 'a', QueuedClass::of(1 << 20));
    ready.push(2, 'b', QueuedClass::of(1 << 20));
    let mut ran = Vec::new();
    while let Some(token) = ready.pop() {
        ran.push(token);
        let color = if token == 'a' { 1 } else { 2 };
        ready.push(color, token, QueuedClass::of(1 << 20));
    }
    assert_eq!(ran.iter().collect::<String>(), "ababb");
}

#[test]
fn a_thief_takes_the_first_color_that_does_not_run_with_all_its_entries() {
    let mut ready = Ready::new(ReadyOrder::Events);
    for color in [1, 2, 3, 2] {
        ready.post(color, 1);
    }
    // Color 1 runs, so its token is not here.
    ready.push(2, 'b', QueuedClass::of(1 << 20));
    ready.push(3, 'c', QueuedClass::of(1 << 20));
    assert_eq!(ready.steal(|_| true), Some(Stolen { token: 'b', entries: 2, key: None }));
    assert_eq!(ready.pop(), Some('c'));
    assert_eq!((ready.pop(), ready.has_work()), (None, false));
    // The color has run an event and returns for the entry that kept its position.
    ready.push(1, 'a', None);
    assert_eq!((ready.pop(), ready.leave()), (Some('a'), vec![]));
}

#[test]
fn thief_leaves_pinned_color() {
    for order in [ReadyOrder::Colors, ReadyOrder::Events] {
        let mut ready = Ready::new(order);
        ready.post(1, 1);
        ready.push(1, 'a', None);
        assert_eq!((ready.stealable(), ready.best()), (0, None));
        assert_eq!(ready.steal(|_| true), None);
        assert_eq!(ready.pop(), Some('a'));
    }
}

#[test]
fn thief_takes_judged_color_with_its_group_only() {
    let mut ready = Ready::new(ReadyOrder::Colors);
    let (small, large) = (QueuedClass::of(2_000), QueuedClass::of(200_000));
    for (color, class, steal_class) in
        [(1, small, 7), (2, small, 7), (3, large, 7), (4, small, 8), (5, small, 7), (6, None, 7)]
    {
        let slot = ready.push(color, color, class);
        ready.set_steal_class(slot, StealClass(steal_class));
    }
    ready.push(9, 9, small);
    let mut batch = Vec::new();
    while let Some(judged) = ready.steal(|_| true) {
        let mut together = vec![judged.token];
        if let Some(like) = judged.key {
            ready.steal_class(like, |other| {
                together.push(other);
                ControlFlow::Continue(())
            });
        }
        batch.push(together);
    }
    assert_eq!(batch, [vec![3], vec![1, 2], vec![4], vec![5], vec![9]]);
    assert_eq!(ready.len(), 1, "what must stay");
}

/// Of equal steal class and queued time, although two handler classes divide the time and other
/// colors are in between.
#[test]
fn taken_color_leaves_every_queue() {
    let class = Class::new("class").shares(std::num::NonZeroU32::new(300).expect("not zero"));
    let mut ready = Ready::divided(ReadyOrder::Colors, &[class]);
    for color in 0..12u64 {
        let worth = if color % 3 == 0 { None } else { QueuedClass::of(2_000) };
        let slot = ready.push_in(color, color, worth, ClassIndex((color / 2 % 2) as u8), 0);
        ready.set_steal_class(slot, StealClass(7));
    }
    let judged = ready.steal(|_| true).expect("it may go");
    let mut batch = vec![judged.token];
    ready.steal_class(judged.key.expect("it has steal class"), |other| {
        batch.push(other);
        ControlFlow::Continue(())
    });
    assert_eq!(batch, [1, 2, 4, 5, 7, 8, 10, 11]);
    assert_eq!((ready.len(), ready.stealable(), ready.best()), (4, 0, None));
    let mut left: Vec<_> = std::iter::from_fn(|| ready.pop_at(0)).collect();
    left.sort_unstable();
    assert_eq!(left, [0, 3, 6, 9]);
}

#[test]
fn a_class_spans_a_factor_of_four() {
    let class = |ns| QueuedClass::of(ns).map(|class| usize::from(class.0 / 2));
    assert_eq!([0, 1023, 1024, 4095, 4096].map(class), [None, None, Some(0), Some(0), Some(1)]);
    assert_eq!(class(u64::MAX), Some(QueuedClass::COUNT - 1));
}

#[test]
fn classes_have_their_turns_and_keep_their_order() {
    let class = |shares| Class::new("class").shares(std::num::NonZeroU32::new(shares).expect("not zero"));
    let mut ready = Ready::divided(ReadyOrder::Colors, &[class(300)]);
    for color in 0..40 {
        ready.push_in(color, color, None, ClassIndex((color % 2) as u8), 0);
    }
    let mut ran: [Vec<u64>; 2] = Default::default();
    for now_ns in 0..20 {
        let color = ready.pop_at(now_ns).expect("something waits");
        ran[color as usize % 2].push(color);
        ready.charge(1_000);
        assert_eq!(ready.overdrawn(), None);
    }
    assert_eq!((ran[0].len(), ran[1].len()), (5, 15), "one share to three");
    assert!(ran.iter().all(|ran| ran.is_sorted()), "oldest first within a class");
    assert_eq!((ready.len(), ready.steal(|_| true)), (20, None));
}

/// Regression: an owner that looked at its I/O before a long color forgot how long the last one had
/// taken, so a short color that came meanwhile waited for the long color too.
#[test]
fn short_color_that_comes_between_long_colors_passes() {
    let mut ready = Ready::new(ReadyOrder::Colors);
    for color in 0..2 {
        ready.push_in(color, color, None, ClassIndex::LONG, 0);
    }
    assert_eq!(ready.pop_at(0), Some(0));
    ready.charge(2_000);
    assert!(ready.is_long_next(|| 2_000));
    ready.charge(0);
    ready.push_in(2, 2, None, ClassIndex::default(), 2_100);
    assert_eq!(ready.pop_at(2_100), Some(2));
}

#[test]
fn short_colors_pass_long_colors_that_keep_half_of_the_time() {
    let mut ready = Ready::new(ReadyOrder::Colors);
    let push = |ready: &mut Ready<u64>, color, is_long| {
        ready.push_in(color, color, None, ClassIndex::by_length(is_long), 0);
    };
    for color in 0..4 {
        push(&mut ready, color, true);
    }
    // Without short colors the order is that of arrival, and the clock is not read.
    assert_eq!(ready.pop_with(|| unreachable!("one kind waits")), Some(0));
    let (mut now_ns, mut long_ns) = (2_000, 2_000);
    ready.charge(2_000);
    // Short colors of 100 ns always wait.
    let mut number = 100;
    while !ready.is_empty() && now_ns < 14_000 {
        push(&mut ready, number, false);
        number += 1;
        let is_long = ready.is_long_next(|| now_ns);
        let color = ready.pop_at(now_ns).expect("something waits");
        assert_eq!(is_long, color < 100);
        let took_ns = if is_long { 2_000 } else { 100 };
        ready.charge(took_ns);
        (now_ns, long_ns) = (now_ns + took_ns, long_ns + if color < 100 { took_ns } else { 0 });
    }
    // A long color of 2,000 ns ran after 2,000 ns of short ones, three times.
    assert_eq!((long_ns, now_ns), (8_000, 14_000));
}

/// Regression: a thief gave up after eight colors that the thief must not take.
#[test]
fn restricted_colors_hide_no_other_colors() {
    let mut ready = Ready::new(ReadyOrder::Colors);
    let restricted = QueuedClass::of(200_000).map(QueuedClass::restricted);
    for color in 0..20 {
        ready.push(color, color, restricted);
    }
    ready.push(20, 20, QueuedClass::of(2_000));
    ready.push(21, 21, QueuedClass::of(2_000).map(QueuedClass::restricted));
    for other in [20, 21] {
        let stolen = ready.steal(|color| *color == other);
        assert_eq!(stolen.map(|stolen| stolen.token), Some(other));
    }
    // Each search examines other restricted colors than the last.
    let found = (0..3).find_map(|_| ready.steal(|color| *color == 19));
    assert_eq!(found.map(|stolen| stolen.token), Some(19));
    assert_eq!((ready.stealable(), ready.best()), (19, restricted));
    let left: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
    assert_eq!(left, (0..19).collect::<Vec<_>>(), "the owner keeps the order of arrival");
    assert_eq!((ready.stealable(), ready.best()), (0, None));
}
