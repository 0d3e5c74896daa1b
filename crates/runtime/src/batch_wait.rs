//! Colors that gather events before they run: where their tokens wait meanwhile, and how the wait
//! ends.
//!
//! The handler sets the number of events and the longest wait (`vermeil_sched::BatchWait`). Tested
//! in `tests/handler.rs`.

use crate::{
    color_meta::{RuntimeHead, RuntimeToken},
    core::Core,
    shared::RuntimeShared,
};
use std::{
    sync::atomic::{Ordering, fence},
    time::Duration,
};
use vermeil_sched::{BatchWait, HandlerIndex};

impl RuntimeShared {
    /// Keeps the token of a previously empty color until its events have gathered.
    #[cold]
    pub(crate) fn wait_for_batch(&self, token: RuntimeToken, batch_wait: BatchWait) {
        let color = token.color().clone();
        // The color cannot move, because this is its token.
        let index = color.core();
        let name = color.id().0.get();
        let due_ns = self.clock.now_ns().saturating_add(batch_wait.within_ns);
        let late = self.core(index).ready.with(|ready| {
            if self.end.has_ended() {
                return Some(token);
            }
            color.meta.batch_waits.store(true, Ordering::Relaxed);
            ready.post(name, 1);
            ready.wait_for_batch(name, token, due_ns);
            None
        });
        if let Some(token) = late {
            token.discard();
            return;
        }
        // The poster of an event adds to the color's count and then reads `batch_waits`. Therefore
        // an event that is not seen below was posted by a thread that sees that the color gathers.
        fence(Ordering::SeqCst);
        if batch_wait.is_enough(color.len()) || self.has_gathered(&color, color.meta.handler()) {
            self.end_batch_wait(&color);
        } else {
            // The core may sleep beyond the due time.
            self.wake_core(index, color.meta.handler());
        }
    }

    /// Whether a color that gathers runs now that an event of `handler` is posted: the handler does
    /// not gather, or its number of events is reached.
    pub(crate) fn has_gathered(&self, color: &RuntimeHead, handler: HandlerIndex) -> bool {
        self.handlers.batch_wait(handler).is_none_or(|wait| wait.is_enough(color.len()))
    }

    pub(crate) fn end_batch_wait(&self, color: &RuntimeHead) {
        let name = color.id().0.get();
        let gathered = self.core(color.core()).ready.with(|ready| ready.take_batch_wait(name));
        if let Some(token) = gathered {
            self.batched(token);
        }
    }

    /// A color has gathered its events, or has waited for the longest time.
    pub(crate) fn batched(&self, token: RuntimeToken) {
        token.color().meta.batch_waits.store(false, Ordering::Relaxed);
        self.schedule(token, 0);
    }
}

impl Core {
    /// Queues colors whose gathering time is over.
    #[inline]
    pub(crate) fn attend_batch_waits(&self, stopping: bool) {
        if self.shared.handlers.any_batch_wait() {
            self.queue_batched(stopping);
        }
    }

    #[cold]
    fn queue_batched(&self, stopping: bool) {
        let now_ns = if stopping { u64::MAX } else { self.shared.clock.now_ns() };
        while let Some(token) = self.mine().ready.with(|ready| ready.take_batched(now_ns)) {
            self.shared.batched(token);
        }
    }

    pub(crate) fn until_batched(&self) -> Option<Duration> {
        let any = self.shared.handlers.any_batch_wait();
        let due_ns = any.then(|| self.mine().ready.with(|ready| ready.next_batched_ns())).flatten()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(self.shared.clock.now_ns())))
    }
}
