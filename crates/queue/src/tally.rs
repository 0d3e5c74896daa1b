//! How many have come and not gone, counted by many threads, mostly by one; and whether nothing is left of what several count.
//!
//! The owner's numbers have it as their only writer: it counts without an operation that locks the line. The others share two more.
//! What is left is never told too low to who asks whether nothing is: all that has gone is read before anything that has come.
//!
//! Who waits until fewer are there says so here; whoever counts one as gone is told, but for the owner, who looks for itself.
//!
//! What has gone may bring something new before it ends: an event that runs counts no more, and posts others. So whoever asks for
//! the rest looks in between whether any is being run. Leaves out what is counted. Checked in `model/tally.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU64, Ordering, fence},
};

/// What has come and gone.
pub struct Tally {
    /// Written by the owner alone.
    come: AtomicU64,
    /// Written by the owner alone.
    gone: AtomicU64,
    come_elsewhere: AtomicU64,
    gone_elsewhere: AtomicU64,
    /// Somebody waits until fewer are there.
    awaited: AtomicBool,
}

impl Default for Tally {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let awaited = AtomicBool::new(false);
        Self { come: zero(), gone: zero(), come_elsewhere: zero(), gone_elsewhere: zero(), awaited }
    }
}

impl Tally {
    /// One more has come, by the owner itself.
    #[inline]
    pub fn come_here(&self) {
        self.come.store(self.come.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One has gone, by the owner itself.
    #[inline]
    pub fn gone_here(&self) {
        // Release: whoever sees it sees that it came, and who runs it.
        self.gone.store(self.gone.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// One more has come, by somebody else.
    #[inline]
    pub fn come_elsewhere(&self) {
        self.come_elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// One that had come by somebody else has not come after all. Whether somebody waits for that.
    #[inline]
    pub fn take_back(&self) -> bool {
        // As in `gone_elsewhere`.
        self.come_elsewhere.fetch_sub(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    /// One has gone, by somebody else. Whether somebody waits for that.
    #[inline]
    pub fn gone_elsewhere(&self) -> bool {
        // Release as in `gone_here`; and in one order with the look that follows and with what `set_awaited` does.
        self.gone_elsewhere.fetch_add(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    #[inline]
    fn is_awaited_now(&self) -> bool {
        // Both are in the one order of such accesses, for which no machine needs more. Loom does not take them to be.
        if cfg!(any(loom, shuttle)) && !planted(Bug::GoesUnseen) {
            fence(Ordering::SeqCst);
        }
        self.awaited.load(Ordering::SeqCst)
    }

    /// Says whether somebody waits until fewer are there: before it looks how many are.
    pub fn set_awaited(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::SeqCst);
        // Pairs with the accesses above, and with the fence of an owner that announces its sleep.
        fence(Ordering::SeqCst);
    }

    /// Whether somebody waits. For the owner, which is told by nobody: a hint, and exact if a fence stands between its last going and this
    /// look.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// How many are there: exact when none comes and goes meanwhile, and not too few.
    #[inline]
    pub fn len(&self) -> usize {
        let gone = self.gone();
        left(self.come(), gone)
    }

    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn come(&self) -> u64 {
        self.come.load(Ordering::Acquire).wrapping_add(self.come_elsewhere.load(Ordering::Acquire))
    }

    fn gone(&self) -> u64 {
        self.gone.load(Ordering::Acquire).wrapping_add(self.gone_elsewhere.load(Ordering::Acquire))
    }

    /// How many are there of all these together, where one may come at one and go at another: exact when none comes and goes
    /// meanwhile.
    pub fn sum<'a>(tallies: impl Iterator<Item = &'a Self> + Clone) -> usize {
        let gone = tallies.clone().fold(0, |sum: u64, tally| sum.wrapping_add(tally.gone()));
        left(tallies.fold(0, |sum: u64, tally| sum.wrapping_add(tally.come())), gone)
    }

    /// Whether nothing is left of what all these count, and nothing will come of what has gone, because none of `runs` says that
    /// it is being run.
    pub fn all_done<'a>(
        tallies: impl Iterator<Item = &'a Self> + Clone,
        mut runs: impl Iterator<Item = &'a Runs>,
    ) -> bool {
        let gone = |sum: u64, tally: &Self| sum.wrapping_add(tally.gone());
        let come = |sum: u64, tally: &Self| sum.wrapping_add(tally.come());
        if planted(Bug::CountComeFirst) {
            let come = tallies.clone().fold(0, come);
            return !runs.any(Runs::is_on) && come == tallies.fold(0, gone);
        }
        let gone = tallies.clone().fold(0, gone);
        !runs.any(Runs::is_on) && tallies.fold(0, come) == gone
    }
}

/// What is left of what has come; none when more has gone, by what was read.
fn left(come: u64, gone: u64) -> usize {
    usize::try_from(come.wrapping_sub(gone).cast_signed()).unwrap_or(0)
}

/// Whether one thread runs something that may bring more.
#[derive(Default)]
pub struct Runs(AtomicBool);

impl Runs {
    /// The thread begins, before anything that it runs counts as gone.
    #[inline]
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The thread has ended what it ran.
    #[inline]
    pub fn end(&self) {
        // Release: whoever sees it sees what has come of it.
        self.0.store(false, Ordering::Release);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
