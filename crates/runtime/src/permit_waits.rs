//! Colors that wait for a permit of a handler with a concurrency limit.
//!
//! The semaphore of the handler (`concurrency_limit.rs`) holds the tokens of these colors. Tested
//! in `tests/concurrency_limit.rs`.

use crate::{
    color_meta::RuntimeToken, concurrency_limit::ConcurrencyLimit, handlers::Handlers, shared::RuntimeShared,
};
use std::sync::atomic::Ordering;
use vermeil_queue::{FairSemaphore, PermitOutcome};
use vermeil_sched::HandlerIndex;

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
