//! What brings tokens from core to core: queueing one where its color is, the wish of a placement, and what a thief takes.
//!
//! A color names its core, and only who holds its token writes that. So the holder knows where the token goes; for everybody else
//! the name is a hint, which counts when it is confirmed under the lock of that core's queue.
//!
//! Leaves out what stands in a ready queue and in which order, whom to rob, what to place where (the runtime's: [`Cores`]) and who is
//! woken for it (`parking.rs`). Checked in `model/handover.rs` and `throng.rs`.

use crate::{
    canary::{Bug, planted},
    ready::ReadyQueue,
    sync::{AtomicU16, Ordering},
    token::{Head, Token},
};

/// Where a placement wants a color, if it is not there yet: written by whoever places, taken by whoever queues the token.
pub(crate) struct Wish(AtomicU16);

const NONE: u16 = u16::MAX;

impl Default for Wish {
    fn default() -> Self {
        Self(AtomicU16::new(NONE))
    }
}

impl Wish {
    fn make(&self, core: u16) {
        debug_assert_ne!(core, NONE, "that number stands for none");
        // Relaxed: who looks for it has a lock after this, or finds it another time. Exchanged, as it is when taken: the model checker
        // lets a plain store come between the two halves of an exchange.
        self.0.swap(core, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_made(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NONE
    }

    /// Tells it once.
    #[inline]
    fn take(&self) -> Option<u16> {
        let seen = self.0.load(Ordering::Relaxed);
        if seen == NONE {
            return None;
        }
        // One step: it may have been replaced meanwhile, and the last one counts.
        let taken = if planted(Bug::TakeWishInTwoSteps) {
            self.0.store(NONE, Ordering::Relaxed);
            seen
        } else {
            self.0.swap(NONE, Ordering::Relaxed)
        };
        (taken != NONE).then_some(taken)
    }
}

/// The cores of a runtime, as far as tokens that come and go need them. What is given is the caller's to use.
///
/// *Entries*: a queue may keep one for each event of a color, beside its token. They stand where the color is, and go with the
/// token: nothing of the color runs without one.
pub trait Cores {
    /// What else is known of a color.
    type About: 'static;

    /// What a ready queue holds.
    type Ready;

    /// The ready queue of core `core`.
    fn ready(&self, core: u32) -> &ReadyQueue<Self::Ready>;

    /// Whether all cores have ended, so that nothing is queued any more. Asked under a queue's lock; true before each queue is
    /// [cleared](Self::clear).
    fn have_ended(&self) -> bool;

    /// Whether a color stays on the core that it names, whatever is wished for.
    fn stays(&self, color: &Head<Self::About>) -> bool;

    /// Told that a color goes to another core, where it is wanted: for who counts that.
    fn goes(&self, _: &Head<Self::About>) {}

    /// Puts a token into the queue of the core that its color names, with so many more entries.
    fn put(&self, ready: &mut Self::Ready, token: Token<Self::About>, entries: usize);

    /// Takes a color's token and its entries out of a queue, if the token is there.
    fn remove(
        &self,
        ready: &mut Self::Ready,
        color: &Head<Self::About>,
    ) -> Option<(Token<Self::About>, usize)>;

    /// One more entry of a color.
    fn put_entry(&self, ready: &mut Self::Ready, color: &Head<Self::About>);

    /// Queues a token where its color is, or where it is wanted; gives that core. When all have ended, its events are dropped.
    #[inline]
    fn queue(&self, mut token: Token<Self::About>, entries: usize) -> u32 {
        let ended_early = planted(Bug::AskForEndBeforeLock).then(|| self.have_ended());
        if planted(Bug::LookForWishBeforeLock) {
            follows_wish(self, &token);
        }
        loop {
            let core = token.color().core();
            let back = self.ready(core).with(|ready| {
                // Under the lock, under which everything is taken out after this was set: nothing slips in behind.
                if ended_early.unwrap_or_else(|| self.have_ended()) {
                    return Some(token);
                }
                // Under the lock, too: who wishes looks here afterwards, so one of both sees the other.
                if !planted(Bug::LookForWishBeforeLock) && follows_wish(self, &token) {
                    return Some(token);
                }
                self.put(ready, token, entries);
                None
            });
            match back {
                None => return core,
                Some(late) if self.have_ended() => {
                    late.discard();
                    return core;
                }
                Some(sent) => token = sent,
            }
        }
    }

    /// `color` is wanted on core `to`. Gives its token, to be [queued](Self::queue), if it waits in the queue of the core that the color
    /// names. If it does not, it is with somebody who queues it sooner or later and so meets the wish: it runs, stands still, is about
    /// to be moved by somebody else, or is not there before the next event. Not for colors that have entries.
    fn call_away(&self, color: &Head<Self::About>, to: u16) -> Option<(Token<Self::About>, usize)> {
        self.wish(color, to);
        self.ready(color.core()).with(|ready| self.remove(ready, color))
    }

    /// `color` is wanted on core `to`. Whoever wishes [lets go](Self::let_go) afterwards of what waits where the color is by then.
    fn wish(&self, color: &Head<Self::About>, to: u16) {
        color.wish.make(to);
    }

    /// Takes the tokens of those of these colors that wait in the queue of core `donor` out of it, under one lock, and sends each where it
    /// is wanted: to be [queued](Self::queue_all) there. The others as in [`call_away`](Self::call_away).
    fn let_go<'a>(
        &self,
        donor: u32,
        colors: impl Iterator<Item = &'a Head<Self::About>>,
    ) -> Vec<Token<Self::About>> {
        let waiting = self.ready(donor).with(|ready| {
            let taken = colors.filter_map(|color| self.remove(ready, color));
            taken.map(|(token, _)| token).collect::<Vec<_>>()
        });
        for token in &waiting {
            follows_wish(self, token);
        }
        waiting
    }

    /// Queues tokens without entries on core `core`, which they name, under one lock. Gives what is wanted elsewhere by now, or comes
    /// after the end: to be [queued](Self::queue) one by one.
    #[must_use = "a token that is dropped strands its color"]
    fn queue_all(&self, core: u32, tokens: Vec<Token<Self::About>>) -> Vec<Token<Self::About>> {
        self.ready(core).with(|ready| {
            if self.have_ended() {
                return tokens;
            }
            let put = |token: Token<Self::About>| {
                // As in `queue`.
                if follows_wish(self, &token) {
                    return Some(token);
                }
                self.put(ready, token, 0);
                None
            };
            tokens.into_iter().filter_map(put).collect()
        })
    }

    /// One more entry of a color whose token is somewhere, where the color is; gives that core.
    fn queue_entry(&self, color: &Head<Self::About>) -> u32 {
        loop {
            let core = color.core();
            let queued = self.ready(core).with(|ready| {
                // Who takes a token with entries writes the new core under this lock: it is here, or this looks there next.
                let here = color.core() == core || planted(Bug::QueueEntryWithoutLook);
                if here {
                    self.put_entry(ready, color);
                }
                here
            });
            if queued {
                return core;
            }
        }
    }

    /// Drops, on their colors, the events of all that `pop` takes out of the queue of core `core`, when all have ended.
    fn clear(&self, core: u32, mut pop: impl FnMut(&mut Self::Ready) -> Option<Token<Self::About>>) {
        while let Some(token) = self.ready(core).with(&mut pop) {
            token.discard();
        }
    }
}

/// Sends a token where it is wanted; whether that is another core.
#[inline]
fn follows_wish<C: Cores + ?Sized>(cores: &C, token: &Token<C::About>) -> bool {
    let color = token.color();
    let Some(wish) = color.wish.take().map(u32::from) else { return false };
    let goes = wish != color.core() && !cores.stays(color);
    if goes {
        cores.goes(color);
        token.move_to(wish);
    }
    goes
}

/// What a thief takes from the queues of others. It is empty between two visits: a core has one, and uses it again.
pub struct Haul<D: 'static = ()> {
    thief: u32,
    taken: Vec<(Token<D>, usize)>,
}

/// A haul at the victim's queue, under its lock.
pub struct Taking<'a, D: 'static = ()>(&'a mut Haul<D>);

impl<D> Haul<D> {
    /// For core `thief`, with room for so many colors.
    pub fn new(thief: u32, room: usize) -> Self {
        Self { thief, taken: Vec::with_capacity(room) }
    }

    /// Takes what `choose` adds out of the queue of core `victim`, and puts it into the thief's; gives how many colors. Nothing if somebody
    /// else is at the victim's queue: thieves do not wait. `moved` is shown each color on its way, when it is in no queue.
    pub fn steal<C: Cores<About = D>>(
        &mut self,
        cores: &C,
        victim: u32,
        choose: impl FnOnce(&mut C::Ready, &mut Taking<'_, D>),
        mut moved: impl FnMut(&Head<D>),
    ) -> usize {
        cores.ready(victim).try_with(|ready| choose(ready, &mut Taking(self)));
        let colors = self.taken.len();
        if colors == 0 {
            return 0;
        }
        for (token, _) in &self.taken {
            moved(token.color());
            if !planted(Bug::StealWithoutMove) {
                token.move_to(self.thief);
            }
        }
        // A wish made by now is met when the color is queued next, as if it ran already.
        cores.ready(self.thief).with(|ready| {
            for (token, entries) in self.taken.drain(..) {
                cores.put(ready, token, entries);
            }
        });
        colors
    }
}

impl<D> Taking<'_, D> {
    /// Takes a token that was taken out of the queue, and its entries.
    pub fn add(&mut self, token: Token<D>, entries: usize) {
        let Haul { thief, taken } = &mut *self.0;
        // Whoever queues one more entry looks for the color's core under this lock. What has none is not touched under it: that would
        // be a line from the victim's cache.
        if entries > 0 && !planted(Bug::MoveAfterLock) {
            token.move_to(*thief);
        }
        taken.push((token, entries));
    }

    /// Colors taken so far.
    pub fn len(&self) -> usize {
        self.0.taken.len()
    }

    /// Whether nothing is taken so far.
    pub fn is_empty(&self) -> bool {
        self.0.taken.is_empty()
    }
}
