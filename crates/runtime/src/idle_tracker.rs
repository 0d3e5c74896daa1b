//! The sleeping, searching and watching cores of a runtime, as all cores see them.
//!
//! Leaves out the choice of a thief (`thief.rs`) and the search (`steal.rs`).

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vermeil_queue::IdleCoordinator;

/// The idle cores of a runtime.
pub(crate) struct IdleTracker {
    /// The number of sleeping cores; a hint.
    asleep: CachePadded<AtomicUsize>,
    /// By node: the core that searches for work, and the core that watches busy cores.
    coordinators: Box<[CachePadded<IdleCoordinator>]>,
    /// Whether a movable color was ever queued: before that there is nothing to watch.
    something_moves: AtomicBool,
}

impl IdleTracker {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            asleep: CachePadded::default(),
            coordinators: (0..nodes).map(|_| CachePadded::default()).collect(),
            something_moves: AtomicBool::new(false),
        }
    }

    /// Whether any core sleeps; a hint.
    #[inline]
    pub(crate) fn any_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0
    }

    /// The calling core goes to sleep.
    pub(crate) fn sleep(&self) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    /// The calling core is awake.
    pub(crate) fn wake(&self) {
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// The coordinator of a node's idle cores.
    pub(crate) fn coordinator(&self, node: u32) -> &IdleCoordinator {
        &self.coordinators[node as usize]
    }

    /// Whether a movable color was ever queued.
    #[inline]
    pub(crate) fn something_moves(&self) -> bool {
        self.something_moves.load(Ordering::Relaxed)
    }

    /// A movable color is queued.
    #[inline]
    pub(crate) fn note_movable(&self) {
        // Stored once, because all cores read this word.
        if !self.something_moves() {
            self.something_moves.store(true, Ordering::Relaxed);
        }
    }
}
