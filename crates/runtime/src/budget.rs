//! The cooperative budget: how often a task may go on without waiting before its core looks
//! elsewhere.
//!
//! A task whose sockets and other sources are always ready would never return to its core. So
//! each event has a budget of such answers. When the budget is spent, the next wait answers "not
//! yet", and the task continues behind the other colors of the core. Tested in `tests/budget.rs`.

use crate::core::{Core, current};
use std::{
    future::poll_fn,
    task::{Context, Poll},
};

impl Core {
    #[inline]
    pub(crate) fn is_budget_spent(&self) -> bool {
        self.run.budget.get() == 0
    }

    /// Counts an answer.
    #[inline]
    pub(crate) fn spend_budget(&self, is_ready: bool) {
        self.run.budget.set(self.run.budget.get().saturating_sub(u32::from(is_ready)));
    }

    /// The running task waits for its next turn.
    #[cold]
    pub(crate) fn end_turn_of_spent_task<R>(&self, context: &Context<'_>) -> Poll<R> {
        self.expire_long_turn();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts against the budget of the running task, and lets other colors run once the budget is
/// spent. Sockets, listeners and sources do this by themselves. A loop that waits for other things
/// which may always be ready, such as a sleep whose deadline has passed or a channel with both ends
/// in one task, calls this function in each round.
///
/// Off a core the function has no effect.
pub async fn consume_budget() {
    poll_fn(|context| {
        let polled = current(|core| {
            if core.is_budget_spent() {
                return core.end_turn_of_spent_task(context);
            }
            core.spend_budget(true);
            Poll::Ready(())
        });
        polled.unwrap_or(Poll::Ready(()))
    })
    .await;
}
