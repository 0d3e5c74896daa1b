//! A core's ready queue: the tokens of the colors that have events, oldest first.
//!
//! One lock per queue, held for a push or a pop of one pointer. Any thread pushes; the owning core pops. A length kept
//! beside the lock lets the owner skip it when nothing waits, and lets others judge without touching it. Leaves out the
//! choice of the core (scheduler) and waking it (`parking.rs`). Checked in `model/parking.rs`.

use crate::{
    Token,
    sync::{AtomicUsize, Mutex, Ordering},
};
use std::collections::VecDeque;

/// Tokens waiting for one core.
pub struct ReadyQueue {
    tokens: Mutex<VecDeque<Token>>,
    /// Written under the lock, read anywhere.
    len: AtomicUsize,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        Self { tokens: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }
}

impl ReadyQueue {
    /// Puts a token at the tail.
    pub fn push(&self, token: Token) {
        let mut tokens = self.tokens.lock().expect("nothing panics under this lock");
        tokens.push_back(token);
        // Release pairs with the load in `pop`; a parking core is covered by the fences in `parking.rs`.
        self.len.store(tokens.len(), Ordering::Release);
    }

    /// Takes the oldest token.
    pub fn pop(&self) -> Option<Token> {
        if self.is_empty() {
            return None;
        }
        let mut tokens = self.tokens.lock().expect("nothing panics under this lock");
        let token = tokens.pop_front();
        self.len.store(tokens.len(), Ordering::Release);
        token
    }

    /// Tokens that wait; exact for whoever holds no race with a push, a hint otherwise.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether no token waits; as exact as [`ReadyQueue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
