//! Handlers with a bound on the number of events that run at once, on any colors.
//!
//! An event of such a handler needs a slot while it runs. If no slot is free, the color waits here:
//! its token, with the event still first in the color. So the core goes on with other colors, and
//! the order stays the same. A returned slot goes to the color that has waited longest. That
//! color's token is queued again, and the color finds its slot. A slot is free only if no color
//! waits. No returned slot is missed, because returning and waiting both happen under the lock.
//!
//! An event never blocks while it holds a slot, so every slot is returned. If the bound is at least
//! the number of cores, no event can wait, and no slots are made. Tested in `tests/slots.rs`.

use crate::{color::Token, handler::Handlers, shared::Shared};
use std::{collections::VecDeque, sync::Mutex};
use vermeil_queue::ColorId;
use vermeil_sched::HandlerIndex;

/// The slots of a handler.
pub(crate) struct Slots(Mutex<State>);

struct State {
    free: usize,
    waiting: VecDeque<Token>,
    /// Colors that have waited, got a slot and do not run yet: at most as many as there are slots.
    given: Vec<ColorId>,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(State { free: most, waiting: VecDeque::new(), given: Vec::new() }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
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
    fn wait(&self, token: Token) -> Option<Token> {
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
    fn give_back(&self) -> Option<Token> {
        self.with(|state| {
            let next = state.waiting.pop_front();
            match &next {
                None => state.free += 1,
                Some(token) => state.given.push(token.color().id()),
            }
            next
        })
    }

    fn take_waiting(&self) -> VecDeque<Token> {
        self.with(|state| std::mem::take(&mut state.waiting))
    }
}

impl Shared {
    /// The first event of a color, an event of `handler`, found no slot.
    #[cold]
    pub(crate) fn wait_for_slot(&self, handler: HandlerIndex, token: Token) {
        if let Some(token) = self.slots(handler).wait(token) {
            self.schedule(token, 1);
        }
    }

    /// An event of `handler` with a slot has run.
    #[cold]
    pub(crate) fn leave_slot(&self, handler: HandlerIndex) {
        if let Some(next) = self.slots(handler).give_back() {
            self.schedule(next, 1);
        }
    }

    fn slots(&self, handler: HandlerIndex) -> &Slots {
        self.handlers.slots(handler).expect("only such a handler has its colors wait")
    }
}

impl Handlers {
    /// Drops the colors that wait for a slot, after all cores have stopped.
    pub(crate) fn discard_waiting(&self) {
        let waiting = self.all_slots().flat_map(Slots::take_waiting);
        waiting.map(Token::discard).for_each(|_| ());
    }
}
