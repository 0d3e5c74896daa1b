//! The names of colors.

use std::cell::Cell;

/// The name of a color: unique for the life of the process, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColorId(pub std::num::NonZeroU64);

/// Names that a thread takes at once, so that threads which make colors seldom share the counter:
/// a transfer of the counter's line, 40 ns or more, is divided among 256 colors.
const NAMES_AT_ONCE: u64 = 256;

impl ColorId {
    /// A name that no other color of the process has. Only this function gives out names, because
    /// `Colored` would be unsound if two colors, which may run at once, shared a name.
    pub(crate) fn fresh() -> Self {
        // std's atomic, also under loom, because no protocol depends on the number of a color.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let take = |count| NEXT.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        std::thread_local! {
            /// The next name of this thread, and the number of names left.
            static MINE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        }
        let mine = MINE.try_with(|mine| {
            let (next, left) = mine.get();
            let (next, left) = if left == 0 { (take(NAMES_AT_ONCE), NAMES_AT_ONCE) } else { (next, left) };
            mine.set((next + 1, left - 1));
            next
        });
        // A destructor that runs while the thread ends takes a single name from the counter.
        let number = mine.unwrap_or_else(|_| take(1));
        Self(std::num::NonZeroU64::new(number).expect("names start at one and do not run out"))
    }
}
