//! Heads that were sent, empty, for the next answers of any stream.
//!
//! A stream keeps none: between two answers an idle connection would hold the memory of its last one.

/// Heads kept at most. Guess: more than are made in one turn under any load that leaves time for others.
const SPARES_MAX: usize = 64;

/// Largest capacity that is kept, in bytes: a listing or a batch of pipelined answers is not typical.
const CAPACITY_MAX: usize = 128 * 1024;

/// The spare heads of one driver.
#[derive(Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// Keeps an empty head, if it is of use.
    #[inline]
    pub(crate) fn put(&mut self, head: Vec<u8>) {
        debug_assert!(head.is_empty());
        if self.0.len() < SPARES_MAX && (1..=CAPACITY_MAX).contains(&head.capacity()) {
            self.0.push(head);
        }
    }

    /// A head that was used before, or a new one.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }
}
