//! The free list of heads: heads that were sent, empty, for the next answers of any stream.
//!
//! A stream keeps none, because an idle connection would otherwise hold the memory of its last
//! answer.

/// Maximum number of kept heads. The bound limits the memory kept after a burst; a further head
/// costs an allocation.
const SPARES_MAX: usize = 64;

/// Largest kept capacity, in bytes, because a listing or a batch of pipelined answers is not
/// typical.
const CAPACITY_MAX: usize = 128 * 1024;

/// The free heads of a driver.
#[derive(Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// Keeps an empty head, if its capacity is useful.
    #[inline]
    pub(crate) fn put(&mut self, head: Vec<u8>) {
        debug_assert!(head.is_empty());
        if self.0.len() < SPARES_MAX && (1..=CAPACITY_MAX).contains(&head.capacity()) {
            self.0.push(head);
        }
    }

    /// A recycled head, or a new head.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }
}
