//! Colors that wait for a permit of a handler with a bound on concurrent runs.
//!
//! Leaves out the permits (`concurrency_limit.rs`). Tested in `tests/concurrency_limit.rs`.

use crate::{
    color_meta::RuntimeToken, concurrency_limit::ConcurrencyLimit, handlers::Handlers, shared::RuntimeShared,
};
use vermeil_sched::HandlerIndex;

impl RuntimeShared {
    /// The first event of a color, an event of `handler`, found no slot.
    #[cold]
    pub(crate) fn wait_for_permit(&self, handler: HandlerIndex, token: RuntimeToken) {
        if let Some(token) = self.concurrency_limit(handler).wait(token) {
            self.schedule(token, 1);
        }
    }

    /// An event of `handler` with a slot has run.
    #[cold]
    pub(crate) fn return_permit(&self, handler: HandlerIndex) {
        if let Some(next) = self.concurrency_limit(handler).give_back() {
            self.schedule(next, 1);
        }
    }

    fn concurrency_limit(&self, handler: HandlerIndex) -> &ConcurrencyLimit {
        self.handlers.concurrency_limit(handler).expect("only such a handler has its colors wait")
    }
}

impl Handlers {
    /// Drops the colors that wait for a slot, after all cores have stopped.
    pub(crate) fn discard_waiting(&self) {
        let waiting = self.concurrency_limits().flat_map(ConcurrencyLimit::take_waiting);
        waiting.map(RuntimeToken::discard).for_each(|_| ());
    }
}
