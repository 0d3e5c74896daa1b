//! Handlers with a bound on the number of events that run at once, on any colors.
//!
//! An event of such a handler needs a slot while it runs. If no slot is free, the color waits here:
//! its token, with the event still first in the color. So the core goes on with other colors, and
//! the order stays the same. A returned slot goes to the color that has waited longest. That
//! color's token is queued again, and the color finds its slot. A slot is free only if no color
//! waits. No returned slot is missed, because returning and waiting both happen under the lock.
//!
//! An event never blocks while it holds a slot, so every slot is returned. If the bound is at least
//! the number of cores, no event can wait, and no slots are made. Tested in
//! `tests/concurrency_limit.rs`.

use crate::color_meta::RuntimeToken;
use std::{collections::VecDeque, sync::Mutex};
use vermeil_queue::ColorId;

/// The slots of a handler.
pub(crate) struct ConcurrencyLimit(Mutex<LimitState>);

struct LimitState {
    free: usize,
    waiting: VecDeque<RuntimeToken>,
    /// Colors that have waited, got a slot and do not run yet: at most as many as there are slots.
    given: Vec<ColorId>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(LimitState { free: most, waiting: VecDeque::new(), given: Vec::new() }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut LimitState) -> R) -> R {
        f(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// Takes a slot for the first event of `color`. Returns whether there was one.
    pub(crate) fn take(&self, color: ColorId) -> bool {
        self.with(|state| {
            if let Some(at) = state.given.iter().position(|given| *given == color) {
                state.given.swap_remove(at);
                return true;
            }
            let free = state.free > 0;
            state.free -= usize::from(free);
            free
        })
    }

    /// Makes a color wait whose first event found no slot. Returns the token if a slot is free now.
    #[must_use = "a token that is dropped strands its color"]
    pub(crate) fn wait(&self, token: RuntimeToken) -> Option<RuntimeToken> {
        self.with(|state| {
            if state.free == 0 {
                state.waiting.push_back(token);
                return None;
            }
            state.free -= 1;
            state.given.push(token.color().id());
            Some(token)
        })
    }

    /// Returns a slot. If a color waits, the slot goes to that color, and the call returns its
    /// token.
    #[must_use = "a token that is dropped strands its color"]
    pub(crate) fn give_back(&self) -> Option<RuntimeToken> {
        self.with(|state| {
            let next = state.waiting.pop_front();
            match &next {
                None => state.free += 1,
                Some(token) => state.given.push(token.color().id()),
            }
            next
        })
    }

    pub(crate) fn take_waiting(&self) -> VecDeque<RuntimeToken> {
        self.with(|state| std::mem::take(&mut state.waiting))
    }
}
