//! What each core shows of itself to other cores: since when it has not looked at its sockets.
//!
//! One block of words per core, alone on its cache lines. Every word has one writer, its core; readers see each word
//! whole, and several words perhaps of different moments. Leaves out what is made of them. Tested here.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// What one core shows. 128 bytes: two cache lines, which x86 fetches together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CoreBoard {
    busy_since_ns: AtomicU64,
    looks: AtomicU64,
}

/// The boards of all cores.
#[derive(Debug)]
pub struct Board {
    cores: Box<[CoreBoard]>,
}

/// The clock of boards: CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Board {
    /// Boards in memory of this process.
    pub fn private(cores: usize) -> Board {
        Board { cores: (0..cores).map(|_| CoreBoard::default()).collect() }
    }

    /// The board of one core.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn core(&self, core: usize) -> &CoreBoard {
        &self.cores[core]
    }

    /// How many cores have a board.
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// Whether no core has one.
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty()
    }
}

impl CoreBoard {
    /// The core has taken in what its sockets had for it and begins to work, at `now_ns`.
    #[inline]
    pub fn begin_work(&self, now_ns: u64) {
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// The core waits for something to do.
    #[inline]
    pub fn begin_wait(&self) {
        self.busy_since_ns.store(0, Ordering::Relaxed);
    }

    /// For how long the core has not looked at its sockets, at `now_ns`; `None` while it waits for them.
    pub fn busy_ns(&self, now_ns: u64) -> Option<u64> {
        match self.busy_since_ns.load(Ordering::Relaxed) {
            0 => None,
            since => Some(now_ns.saturating_sub(since)),
        }
    }

    /// How many times the core has looked at its sockets. Two looks that differ say that it runs.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_busy_from_its_look_to_its_wait() {
        let board = Board::private(2);
        let core = board.core(1);
        assert_eq!((board.len(), core.busy_ns(5), core.looks()), (2, None, 0));
        core.begin_work(7);
        assert_eq!((core.busy_ns(10), core.looks()), (Some(3), 1));
        core.begin_wait();
        assert_eq!(core.busy_ns(10), None);
        assert_eq!(board.core(0).looks(), 0);
    }

    #[test]
    fn boards_are_two_lines_each() {
        assert_eq!((size_of::<CoreBoard>(), align_of::<CoreBoard>()), (128, 128));
        assert!(monotonic_ns() > 0 && monotonic_ns() <= monotonic_ns());
    }
}
