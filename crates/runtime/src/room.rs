//! Room for one more event, and who waits for it: a core's, which takes so many posted events, and a bounded color's.
//!
//! Who waits stands in a line and is let in from its front: the place that it will have is its own from then on, so nobody who posts
//! meanwhile takes it. A bounded color (`door.rs`) counts under the lock of its line, so there is nothing to argue. A core counts
//! without a lock (`queued.rs`), and nothing is added to that but a look at a flag on the same line:
//!
//! - Who comes to wait counts as an event at once, so posts find no room, and is let in when there is room for those that do not wait.
//! - It says that somebody waits, then looks whether it is let in. Whoever takes an event away, or takes back one that found no room, lets in
//!   then if it sees that: one of both sees the other (the queue's `tally.md` has the argument). The core itself looks when a color's go is over, and
//!   for the last time when it has announced its sleep.
//!
//! Wakers are woken and dropped outside of the locks: what that has run may come here. When the runtime has ended, whoever still waits is told (`Ends`). Tested in `tests/room.rs`.

use crate::{
    core::Core,
    error::Stops,
    shared::{CoreShared, Shared},
};
use slab::Slab;
use std::{
    collections::BTreeMap,
    future::Future,
    mem,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

/// Who waits for room, in order of coming.
#[derive(Default)]
pub(crate) struct Line {
    waiting: BTreeMap<u64, Waker>,
    came: u64,
}

impl Line {
    /// One more waits; gives its ticket.
    pub(crate) fn join(&mut self, waker: &Waker) -> u64 {
        self.came += 1;
        self.waiting.insert(self.came, waker.clone());
        self.came
    }

    /// Whether the one with this ticket still waits; it is woken through `waker` from now on, which becomes the one before.
    pub(crate) fn has(&mut self, ticket: u64, waker: &mut Waker) -> bool {
        let waits = self.waiting.get_mut(&ticket);
        waits.map(|woken| mem::swap(woken, waker)).is_some()
    }

    /// The first is let in, if anybody waits: to be woken.
    pub(crate) fn let_in(&mut self) -> Option<Waker> {
        self.waiting.pop_first().map(|(_, waker)| waker)
    }

    /// The one with this ticket waits no longer; gives its waker, if it still did.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        self.waiting.remove(&ticket)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// What takes so many events.
pub(crate) trait Room {
    /// Takes a place, or stands in line for one: gives the ticket.
    fn enter(&self, waker: &Waker) -> Option<u64>;

    /// Whether the one with this ticket still waits. If it does not, it has its place.
    fn waits(&self, ticket: u64, waker: &Waker) -> bool;

    /// Gives up waiting, or the place that waiting has led to.
    fn give_up(&self, ticket: u64);
}

/// Waits for a place in a room: has it, once it is ready.
pub(crate) struct Wait<'a, R: Room> {
    room: R,
    ends: &'a Ends,
    ticket: Option<u64>,
    /// Where it is told of the end.
    told: Option<usize>,
}

impl<'a, R: Room> Wait<'a, R> {
    pub(crate) fn new(shared: &'a Shared, room: R) -> Self {
        Self { room, ends: &shared.ends, ticket: None, told: None }
    }
}

impl<R: Room + Unpin> Future for Wait<'_, R> {
    type Output = Result<(), Stops>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (wait, waker) = (self.get_mut(), context.waker());
        let waits = match wait.ticket {
            Some(ticket) => wait.room.waits(ticket, waker),
            None => {
                wait.ticket = wait.room.enter(waker);
                wait.ticket.is_some()
            }
        };
        if !waits {
            wait.ticket = None;
            return Poll::Ready(Ok(()));
        }
        match wait.ends.note(&mut wait.told, waker) {
            Ok(()) => Poll::Pending,
            Err(stops) => Poll::Ready(Err(stops)),
        }
    }
}

impl<R: Room> Drop for Wait<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.room.give_up(ticket);
        }
        if let Some(told) = self.told.take() {
            self.ends.forget(told);
        }
    }
}

/// Who is to be told when the runtime has ended. Nothing once it has.
pub(crate) struct Ends(Mutex<Option<Slab<Waker>>>);

impl Default for Ends {
    fn default() -> Self {
        Self(Mutex::new(Some(Slab::new())))
    }
}

impl Ends {
    /// `waker` is told of the end, at place `told` if it has one.
    fn note(&self, told: &mut Option<usize>, waker: &Waker) -> Result<(), Stops> {
        let mut waker = waker.clone();
        let mut ends = self.0.lock().expect("nothing panics under this lock");
        let wakers = ends.as_mut().ok_or(Stops)?;
        match told {
            Some(told) => mem::swap(&mut wakers[*told], &mut waker),
            None => *told = Some(wakers.insert(waker)),
        }
        Ok(())
    }

    fn forget(&self, told: usize) {
        let mut ends = self.0.lock().expect("nothing panics under this lock");
        let forgotten = ends.as_mut().map(|wakers| wakers.remove(told));
        drop((ends, forgotten));
    }

    /// The runtime has ended.
    pub(crate) fn tell(&self) {
        let told = self.0.lock().expect("nothing panics under this lock").take();
        told.into_iter().flatten().for_each(|(_, waker)| waker.wake());
    }
}

/// The room of one core.
pub(crate) struct CoreRoom<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) core: u32,
}

impl CoreRoom<'_> {
    fn core(&self) -> &CoreShared {
        self.shared.core(self.core)
    }
}

impl Room for CoreRoom<'_> {
    fn enter(&self, waker: &Waker) -> Option<u64> {
        if self.shared.enter(self.core, self.shared.limits.events_per_core) {
            return None;
        }
        let core = self.core();
        let mut line = core.line.lock().expect("nothing panics under this lock");
        core.queued.come_elsewhere();
        let ticket = line.join(waker);
        core.queued.set_awaited(true);
        drop(line);
        self.shared.let_in(self.core);
        self.waits(ticket, waker).then_some(ticket)
    }

    fn waits(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        self.core().line.lock().expect("nothing panics under this lock").has(ticket, &mut waker)
    }

    fn give_up(&self, ticket: u64) {
        // It counts as an event in either case.
        let left = self.core().line.lock().expect("nothing panics under this lock").leave(ticket);
        self.shared.leave(self.core);
        if left.is_some() {
            self.shared.let_in(self.core);
        }
    }
}

impl Shared {
    /// Lets in who waits for room on core `index`, as far as there is some.
    #[cold]
    pub(crate) fn let_in(&self, index: u32) {
        let (core, bound) = (self.core(index), self.limits.events_per_core);
        let mut woken = Vec::new();
        let mut line = core.line.lock().expect("nothing panics under this lock");
        // Those who wait are counted too.
        while core.queued.len() < bound.saturating_add(line.len())
            && let Some(waker) = line.let_in()
        {
            woken.push(waker);
        }
        core.queued.set_awaited(line.len() > 0);
        drop(line);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Core {
    /// Lets in who waits for room here.
    #[inline]
    pub(crate) fn attend_line(&self) {
        if self.mine().queued.is_awaited() {
            self.shared.let_in(self.index.0);
        }
    }
}
