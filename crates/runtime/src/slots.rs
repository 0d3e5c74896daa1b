//! Handlers of which only so many events run at once, whatever colors they are on.
//!
//! An event of such a handler needs a slot for as long as it runs. If none is free, its color waits here: its token, with the event
//! still the first of the color, so that the core goes on with others and nothing changes places. A slot that is given back goes to the
//! color that has waited longest, whose token is queued again and finds it. So a slot is free only if nobody waits, and what is given back
//! while somebody comes to wait is not missed: both happen under the lock.
//!
//! Who has a slot runs to completion, and waits for none, so each is given back. Where as many may run as there are cores there is
//! nothing to wait for, and no slots are made. Tested in `tests/slots.rs`.

use crate::{color::Token, handler::Handlers, shared::Shared};
use std::{collections::VecDeque, sync::Mutex};
use vermeil_queue::ColorId;
use vermeil_sched::HandlerIndex;

/// The slots of one handler.
pub(crate) struct Slots(Mutex<State>);

struct State {
    free: usize,
    waiting: VecDeque<Token>,
    /// Colors that have waited, have a slot now and do not run yet: at most as many as there are slots.
    given: Vec<ColorId>,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(State { free: most, waiting: VecDeque::new(), given: Vec::new() }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// Whether there is a slot for the first event of `color`, which has it then.
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

    /// Has a color wait whose first event found no slot, unless there is one now: then it goes on.
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

    /// Gives a slot back. Gives the color that has it now, if one waits.
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
    /// The first event of a color is one of `handler`, and found no slot.
    #[cold]
    pub(crate) fn wait_for_slot(&self, handler: HandlerIndex, token: Token) {
        if let Some(token) = self.slots(handler).wait(token) {
            self.schedule(token, 1);
        }
    }

    /// An event of `handler`, which had a slot, has run.
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
    /// Drops what waits for a slot, once no core runs any more.
    pub(crate) fn discard_waiting(&self) {
        let waiting = self.all_slots().flat_map(Slots::take_waiting);
        waiting.map(Token::discard).for_each(|_| ());
    }
}
