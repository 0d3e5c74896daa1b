//! Migration of tokens between cores: queueing a token on the color's core, migration requests of a
//! placement, and stealing.
//!
//! A color names a core, and only the token's holder writes that name. So the holder knows where
//! the token goes. For every other thread the name is a hint, which must be confirmed under the
//! lock of that core's queue.
//!
//! Leaves out the contents and order of a ready queue, and the choice of victims and placements,
//! which are the runtime's ([`Cores`]). Waking is in `parking.rs`. Checked in `model/migration.rs`
//! and `shuttle_tests.rs`.

use crate::{
    canary::{Bug, planted},
    color_head::ColorHead,
    ready::ReadyQueue,
    token::Token,
};

/// The cores of a runtime, as far as token migration needs the cores.
///
/// *Entries*: a queue may keep an entry for each event of a color, beside the token. Entries are on
/// the color's core and migrate with the token, because no event of the color runs without an
/// entry.
pub trait Cores {
    /// The scheduler's metadata of a color.
    type Meta: 'static;

    /// The contents of a ready queue.
    type Ready;

    /// The ready queue of core `core`.
    fn ready(&self, core: u32) -> &ReadyQueue<Self::Ready>;

    /// Whether all cores have ended, after which no token is queued any more. Called under a
    /// queue's lock. The answer turns true before each queue is [cleared](Self::clear).
    fn have_ended(&self) -> bool;

    /// Called when a color migrates to the requested core, for statistics.
    fn migrated(&self, _: &ColorHead<Self::Meta>) {}

    /// Puts a token, with `entries` more entries, into the queue of the color's core.
    fn put(&self, ready: &mut Self::Ready, token: Token<Self::Meta>, entries: usize);

    /// Takes a color's token and its entries out of a queue, if the token is there.
    fn remove(
        &self,
        ready: &mut Self::Ready,
        color: &ColorHead<Self::Meta>,
    ) -> Option<(Token<Self::Meta>, usize)>;

    /// Adds an entry of a color.
    fn put_entry(&self, ready: &mut Self::Ready, color: &ColorHead<Self::Meta>);

    /// Queues a token on the color's core, or on the requested core, and returns that core. When
    /// all cores have ended, the events are dropped.
    #[inline]
    fn queue(&self, mut token: Token<Self::Meta>, entries: usize) -> u32 {
        let ended_early = planted(Bug::AskForEndBeforeLock).then(|| self.have_ended());
        if planted(Bug::ReadMigrationBeforeLock) {
            apply_migration(self, &token);
        }
        loop {
            let core = token.color().core();
            let back = self.ready(core).with(|ready| {
                // Under the lock. Every queue is cleared under the same lock after the end was set,
                // so no token enters a queue after the clearing.
                if ended_early.unwrap_or_else(|| self.have_ended()) {
                    return Some(token);
                }
                // Under the lock too: a placement takes this lock after writing the request, so
                // either side sees the other.
                if !planted(Bug::ReadMigrationBeforeLock) && apply_migration(self, &token) {
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

    /// Requests that `color` migrate to core `to`. Returns the token, to be [queued](Self::queue),
    /// if the token waits in the queue of the color's core. Otherwise the color runs, is held, is
    /// moved by another thread, or is empty. In each case a later `queue` serves the request. Not
    /// for colors with entries.
    fn request_migration(
        &self,
        color: &ColorHead<Self::Meta>,
        to: u16,
    ) -> Option<(Token<Self::Meta>, usize)> {
        self.migrate_to(color, to);
        self.ready(color.core()).with(|ready| self.remove(ready, color))
    }

    /// Requests that `color` migrate to core `to`. The caller must afterwards call
    /// [`drain_migrating`](Self::drain_migrating), because the color may wait in a queue.
    fn migrate_to(&self, color: &ColorHead<Self::Meta>, to: u16) {
        color.migration.set(to);
    }

    /// Takes the tokens of `colors` that wait in the queue of core `donor` out of the queue, under
    /// one lock, and moves each to the requested core, to be [queued](Self::queue_all) there. The
    /// other colors are as in [`request_migration`](Self::request_migration).
    fn drain_migrating<'a>(
        &self,
        donor: u32,
        colors: impl Iterator<Item = &'a ColorHead<Self::Meta>>,
    ) -> Vec<Token<Self::Meta>> {
        let waiting = self.ready(donor).with(|ready| {
            let taken = colors.filter_map(|color| self.remove(ready, color));
            taken.map(|(token, _)| token).collect::<Vec<_>>()
        });
        for token in &waiting {
            apply_migration(self, token);
        }
        waiting
    }

    /// Queues tokens without entries on core `core`, which the tokens name, under one lock. Returns
    /// the tokens that now have another request or come after the end, to be [queued](Self::queue)
    /// singly.
    #[must_use = "a token that is dropped strands its color"]
    fn queue_all(&self, core: u32, tokens: Vec<Token<Self::Meta>>) -> Vec<Token<Self::Meta>> {
        self.ready(core).with(|ready| {
            if self.have_ended() {
                return tokens;
            }
            let put = |token: Token<Self::Meta>| {
                // As in `queue`.
                if apply_migration(self, &token) {
                    return Some(token);
                }
                self.put(ready, token, 0);
                None
            };
            tokens.into_iter().filter_map(put).collect()
        })
    }

    /// Adds an entry of a color whose token exists, on the color's core; returns that core.
    fn queue_entry(&self, color: &ColorHead<Self::Meta>) -> u32 {
        loop {
            let core = color.core();
            let queued = self.ready(core).with(|ready| {
                // A thief that takes a token with entries writes the new core under this lock. So
                // the color is here, or the loop reads the new core.
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

    /// When all cores have ended: drops, on their colors, the events of every token that `pop`
    /// takes out of the queue of core `core`.
    fn clear(&self, core: u32, mut pop: impl FnMut(&mut Self::Ready) -> Option<Token<Self::Meta>>) {
        while let Some(token) = self.ready(core).with(&mut pop) {
            token.discard();
        }
    }
}

/// Moves a token to the requested core. Returns whether that is another core.
#[inline]
fn apply_migration<C: Cores + ?Sized>(cores: &C, token: &Token<C::Meta>) -> bool {
    let color = token.color();
    let Some(to) = color.migration.take().map(u32::from) else { return false };
    let moves = to != color.core();
    if moves {
        cores.migrated(color);
        token.move_to(to);
    }
    moves
}

/// A steal batch. A core reuses the same batch, which is empty between two steals.
pub struct StealBatch<D: 'static = ()> {
    thief: u32,
    taken: Vec<(Token<D>, usize)>,
}

/// A steal batch that is being filled under the lock of the victim's queue.
pub struct StealBatchFill<'a, D: 'static = ()>(&'a mut StealBatch<D>);

impl<D> StealBatch<D> {
    /// A batch for core `thief`, with room for `room` colors.
    pub fn new(thief: u32, room: usize) -> Self {
        Self { thief, taken: Vec::with_capacity(room) }
    }

    /// Takes the tokens that `choose` adds out of the queue of core `victim`, puts the tokens into
    /// the thief's queue and returns the number of colors. Takes nothing if another thread has the
    /// victim's lock, because thieves do not wait. `moved` is called with each color while the
    /// color is in no queue.
    pub fn steal<C: Cores<Meta = D>>(
        &mut self,
        cores: &C,
        victim: u32,
        choose: impl FnOnce(&mut C::Ready, &mut StealBatchFill<'_, D>),
        mut moved: impl FnMut(&ColorHead<D>),
    ) -> usize {
        cores.ready(victim).try_with(|ready| choose(ready, &mut StealBatchFill(self)));
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
        // A migration requested by now happens when the color is queued next, as if the color
        // already ran.
        cores.ready(self.thief).with(|ready| {
            for (token, entries) in self.taken.drain(..) {
                cores.put(ready, token, entries);
            }
        });
        colors
    }
}

impl<D> StealBatchFill<'_, D> {
    /// Adds a token that was removed from the queue, with the token's entries.
    pub fn add(&mut self, token: Token<D>, entries: usize) {
        let StealBatch { thief, taken } = &mut *self.0;
        // A producer that queues an entry reads the color's core under this lock. A color without
        // entries is not touched under the lock, because the write would fetch a line from the
        // victim's cache.
        if entries > 0 && !planted(Bug::MoveAfterLock) {
            token.move_to(*thief);
        }
        taken.push((token, entries));
    }
}
