//! The core-queue and the stealing-queue: one node per color, in two lists at once.
//!
//! Nodes are in a slab and link each other by index, so removing a node from the middle is O(1) and
//! moves no other node.

mod nodes;

use super::{QueuedClass, ReadySlot, StealClass, StealKey, Stolen};
use crate::{CLASSES_MAX, ClassIndex, ClassShares};
use nodes::{Links, NONE, Nodes, ReadyNode};
use std::ops::ControlFlow;

/// Candidates that a thief examines before giving up, among the colors that every core may take and
/// among the others. The stealing-queue is sorted, so if the first few do not pay, the others
/// hardly do. The number limits the time under the victim's lock: two lines of 40 ns for each
/// candidate, less than 1.5 us in all.
const CANDIDATES_MAX: usize = 8;

/// Initial capacity in colors, so that a thief's largest batch so far allocates nothing. 13 KiB per
/// core.
const COLORS_AT_ONCE: usize = 256;

#[derive(Debug)]
pub(super) struct ReadyColors<T> {
    nodes: Nodes<T>,
    /// By class of handlers.
    core_queues: [ListEnds; CLASSES_MAX],
    /// The division of time between classes; none if all handlers are in the default class.
    shares: Option<Box<ClassShares>>,
    /// Class of the color that the owner took last.
    running: ClassIndex,
    /// When long colors run although short ones wait; unused with classes.
    long_turns: LongTurns,
    stealing_queue: [ListEnds; QueuedClass::QUEUES],
    /// Bit `i`: queue `i` of the stealing-queue has a color.
    classes: u16,
    stealable: usize,
}

/// The turn of the next long color.
#[derive(Debug, Default)]
struct LongTurns {
    /// Duration of the last long color, until a later choice has used it.
    took_ns: u64,
    /// Until then short colors go first: for as long as the last long color took, so either kind
    /// has half of the time if both always wait.
    due_ns: u64,
}

impl LongTurns {
    fn is_due(&mut self, now_ns: u64) -> bool {
        let took_ns = std::mem::take(&mut self.took_ns);
        if took_ns > 0 {
            self.due_ns = now_ns.saturating_add(took_ns);
        }
        now_ns >= self.due_ns
    }
}

#[derive(Clone, Copy, Debug)]
struct ListEnds {
    first: u32,
    last: u32,
}

/// Selects the links that a list uses.
type PickLinks<T> = fn(&mut ReadyNode<T>) -> &mut Links;

impl<T> ReadyColors<T> {
    pub(super) fn new(shares: Option<ClassShares>) -> Self {
        let empty = ListEnds { first: NONE, last: NONE };
        Self {
            nodes: Nodes::with_capacity(COLORS_AT_ONCE),
            core_queues: [empty; CLASSES_MAX],
            shares: shares.map(Box::new),
            running: ClassIndex::default(),
            long_turns: LongTurns::default(),
            stealing_queue: [empty; QueuedClass::QUEUES],
            classes: 0,
            stealable: 0,
        }
    }
}

impl<T> ReadyColors<T> {
    pub(super) fn push(
        &mut self,
        color: u64,
        token: T,
        class: Option<QueuedClass>,
        of: ClassIndex,
        since_ns: u64,
    ) -> ReadySlot {
        let at = self.nodes.insert(color, token, of, since_ns);
        let queue = &mut self.core_queues[usize::from(of.0)];
        if let (NONE, Some(shares)) = (queue.first, &mut self.shares) {
            shares.arrives(of);
        }
        append(&mut self.nodes, queue, at, |node| &mut node.in_core);
        self.enter_class(at, class);
        ReadySlot(at)
    }

    pub(super) fn next_slot(&mut self) -> ReadySlot {
        ReadySlot(self.nodes.next())
    }

    pub(super) fn set_steal_class(&mut self, slot: ReadySlot, steal_class: StealClass) {
        self.nodes[slot.0].steal_class = Some(steal_class);
    }

    pub(super) fn pop(&mut self, now_ns: impl FnOnce() -> u64) -> Option<T> {
        self.running = self.choose(now_ns)?;
        let first = self.core_queues[usize::from(self.running.0)].first;
        if first == NONE { None } else { self.take(first) }
    }

    pub(super) fn is_long_next(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        self.shares.is_none() && self.choose(now_ns) == Some(ClassIndex::LONG)
    }

    fn choose(&mut self, now_ns: impl FnOnce() -> u64) -> Option<ClassIndex> {
        let (queues, nodes) = (&self.core_queues, &self.nodes);
        let Some(shares) = &mut self.shares else {
            let [short, long] = [ClassIndex::default(), ClassIndex::LONG];
            let waits = |of: ClassIndex| queues[usize::from(of.0)].first != NONE;
            // The clock is read only if both kinds wait.
            let is_long = waits(long) && (!waits(short) || self.long_turns.is_due(now_ns()));
            return Some(if is_long { long } else { short });
        };
        shares.choose(now_ns(), |of| {
            let first = queues[usize::from(of.0)].first;
            (first != NONE).then(|| nodes.since_ns(first))
        })
    }

    pub(super) fn charge(&mut self, ns: u64) {
        match &mut self.shares {
            Some(shares) => shares.charge(self.running, ns),
            None if self.running == ClassIndex::LONG && ns > 0 => self.long_turns.took_ns = ns,
            None => {}
        }
    }

    pub(super) fn overdrawn(&self) -> Option<ClassIndex> {
        self.shares.as_ref()?.overdrawn()
    }

    pub(super) fn reclass(&mut self, slot: ReadySlot, color: u64, class: Option<QueuedClass>) {
        let at = slot.0;
        if self.nodes.is_at(at, color) && self.nodes[at].class != class {
            self.leave_class(at);
            self.enter_class(at, class);
        }
    }

    pub(super) fn remove(&mut self, slot: ReadySlot, color: u64) -> Option<T> {
        if self.nodes.is_at(slot.0, color) { self.take(slot.0) } else { None }
    }

    pub(super) fn steal(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<Stolen<T>> {
        // By the lowest bit of the class.
        let mut looked = [0; 2];
        let mut classes = self.classes;
        while classes != 0 {
            let class = 15 - classes.leading_zeros() as usize;
            classes &= !(1 << class);
            let looked = &mut looked[class & 1];
            if class & 1 == 0 {
                // Those of the classes before may all be for other cores.
                *looked = (*looked).min(CANDIDATES_MAX - 1);
            }
            let mut at = self.stealing_queue[class].first;
            while at != NONE && *looked < CANDIDATES_MAX {
                let node = &self.nodes[at];
                if node.token.as_ref().is_some_and(&mut fits) {
                    let like = node
                        .class
                        .zip(node.steal_class)
                        .map(|(class, steal_class)| StealKey { class, steal_class });
                    return self.take(at).map(|token| Stolen { token, entries: 0, key: like });
                }
                *looked += 1;
                at = node.in_class.after;
            }
            if class & 1 == 0 && at != NONE {
                self.pass_over(class, at);
            }
        }
        None
    }

    /// Puts the colors before `next` at the tail of their queue, so that each thief comes to others
    /// than the last. For colors that some cores must not take: the next thief may be such a core.
    fn pass_over(&mut self, class: usize, next: u32) {
        let ends = &mut self.stealing_queue[class];
        let last = self.nodes[next].in_class.before;
        if last == NONE {
            return;
        }
        let (old_first, old_last) = (ends.first, ends.last);
        self.nodes[old_last].in_class.after = old_first;
        self.nodes[old_first].in_class.before = old_last;
        self.nodes[next].in_class.before = NONE;
        self.nodes[last].in_class.after = NONE;
        *ends = ListEnds { first: next, last };
    }

    pub(super) fn steal_class(&mut self, like: StealKey, mut take: impl FnMut(T) -> ControlFlow<()>) {
        let class = like.class.queue();
        let (mut next, mut goes_on) = (self.stealing_queue[class].first, true);
        while next != NONE && goes_on && self.is_in_steal_class(next, like) {
            // Consecutive nodes of the core-queue leave the core-queue together.
            let first = next;
            let last = loop {
                let at = next;
                next = self.nodes[at].in_class.after;
                self.stealable -= 1;
                goes_on = self.nodes.remove(at).is_none_or(|token| take(token).is_continue());
                let joins = goes_on
                    && next == self.nodes[at].in_core.after
                    && next != NONE
                    && self.is_in_steal_class(next, like);
                if !joins {
                    break at;
                }
            };
            self.unlink_freed(class, first, last);
        }
    }

    fn is_in_steal_class(&self, at: u32, like: StealKey) -> bool {
        self.nodes[at].steal_class == Some(like.steal_class)
    }

    /// Unlinks all nodes from `first` to `last`, already freed, which are adjacent in both lists,
    /// and first in the list of `class`.
    fn unlink_freed(&mut self, class: usize, first: u32, last: u32) {
        let queue = &mut self.core_queues[usize::from(self.nodes[first].of.0)];
        unlink(&mut self.nodes, queue, (first, last), |node| &mut node.in_core);
        self.unlink_in_class(class, (first, last));
    }

    fn unlink_in_class(&mut self, class: usize, range: (u32, u32)) {
        let ends = &mut self.stealing_queue[class];
        unlink(&mut self.nodes, ends, range, |node| &mut node.in_class);
        if ends.first == NONE {
            self.classes &= !(1 << class);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn stealable(&self) -> usize {
        self.stealable
    }

    pub(super) fn has_free(&self) -> bool {
        self.classes & QueuedClass::FREE_QUEUES != 0
    }

    pub(super) fn best(&self) -> Option<QueuedClass> {
        (self.classes != 0).then(|| QueuedClass(15 - self.classes.leading_zeros() as u8))
    }

    /// Removes a linked node from both lists.
    fn take(&mut self, at: u32) -> Option<T> {
        self.leave_class(at);
        let queue = &mut self.core_queues[usize::from(self.nodes[at].of.0)];
        unlink(&mut self.nodes, queue, (at, at), |node| &mut node.in_core);
        self.nodes.remove(at)
    }

    fn enter_class(&mut self, at: u32, class: Option<QueuedClass>) {
        self.nodes[at].class = class;
        let Some(class) = class else { return };
        let ends = &mut self.stealing_queue[class.queue()];
        append(&mut self.nodes, ends, at, |node| &mut node.in_class);
        self.classes |= 1 << class.queue();
        self.stealable += 1;
    }

    fn leave_class(&mut self, at: u32) {
        let Some(class) = self.nodes[at].class.take() else { return };
        self.unlink_in_class(class.queue(), (at, at));
        self.stealable -= 1;
    }
}

fn append<T>(nodes: &mut Nodes<T>, ends: &mut ListEnds, at: u32, pick: PickLinks<T>) {
    *pick(&mut nodes[at]) = Links { before: ends.last, after: NONE };
    match ends.last {
        NONE => ends.first = at,
        last => pick(&mut nodes[last]).after = at,
    }
    ends.last = at;
}

/// Unlinks all nodes from `first` to `last`.
fn unlink<T>(nodes: &mut Nodes<T>, ends: &mut ListEnds, (first, last): (u32, u32), pick: PickLinks<T>) {
    let (before, after) = (pick(&mut nodes[first]).before, pick(&mut nodes[last]).after);
    match before {
        NONE => ends.first = after,
        before => pick(&mut nodes[before]).after = after,
    }
    match after {
        NONE => ends.last = before,
        after => pick(&mut nodes[after]).before = before,
    }
}
