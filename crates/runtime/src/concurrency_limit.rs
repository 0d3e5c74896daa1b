//! Handlers with a bound on the number of events that run at once, on any colors.
//!
//! An event of such a handler needs a permit while it runs. If no permit is free, the color waits
//! in the handler's semaphore: its token, with the event still first in the color. So the core goes
//! on with other colors, and the order stays the same. A returned permit goes to the color that has
//! waited longest. That color is marked and its token queued again, and the color finds its permit
//! by the mark.
//!
//! An event never blocks while it holds a permit, so every permit is returned. If the bound is at
//! least the number of cores, no event can wait, and the handler gets no semaphore. Tested in
//! `tests/concurrency_limit.rs`.

use crate::{
    color_meta::{RuntimeHead, RuntimeToken},
    handlers::Handlers,
    shared::RuntimeShared,
};
use std::sync::atomic::Ordering;
use vermeil_queue::{FairSemaphore, PermitOutcome};
use vermeil_sched::HandlerIndex;

/// The permits of a handler, and the tokens of the colors that wait.
pub(crate) type ConcurrencyLimit = FairSemaphore<RuntimeToken>;

/// Whether the first event of a color may begin. Takes the permit that the color has waited for, or
/// a free permit. The caller runs the color.
pub(crate) fn take_permit(limit: &ConcurrencyLimit, color: &RuntimeHead) -> bool {
    // Only the holder of the token reads and writes the mark.
    if color.meta.has_permit.load(Ordering::Relaxed) {
        color.meta.has_permit.store(false, Ordering::Relaxed);
        return true;
    }
    limit.try_acquire()
}

impl RuntimeShared {
    /// The first event of a color, an event of `handler`, found no permit.
    #[cold]
    pub(crate) fn wait_for_permit(&self, handler: HandlerIndex, token: RuntimeToken) {
        if let PermitOutcome::Acquired(token) = self.concurrency_limit(handler).acquire(token) {
            self.schedule_with_permit(token);
        }
    }

    /// An event of `handler` with a permit has run.
    #[cold]
    pub(crate) fn return_permit(&self, handler: HandlerIndex) {
        if let Some(next) = self.concurrency_limit(handler).release() {
            self.schedule_with_permit(next);
        }
    }

    fn schedule_with_permit(&self, token: RuntimeToken) {
        token.color().meta.has_permit.store(true, Ordering::Relaxed);
        self.schedule(token, 1);
    }

    fn concurrency_limit(&self, handler: HandlerIndex) -> &ConcurrencyLimit {
        self.handlers.concurrency_limit(handler).expect("only such a handler has its colors wait")
    }
}

impl Handlers {
    /// Drops the colors that wait for a permit, after all cores have stopped.
    pub(crate) fn discard_waiting(&self) {
        let waiting = self.concurrency_limits().flat_map(FairSemaphore::take_waiting);
        waiting.map(RuntimeToken::discard).for_each(|_| ());
    }
}
