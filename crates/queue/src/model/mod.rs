//! Model checks: the production files of this crate under loom, every interleaving within the
//! preemption bound.
//!
//! `cargo xtask test` runs the models; `RUSTFLAGS="--cfg loom" cargo test -p vermeil-queue
//! --release --lib` runs only the models.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

mod acquired_colors;
mod attachment;
mod color;
mod fair_semaphore;
mod idle;
mod in_flight;
mod lifo_slot;
mod migration;
mod multi_acquire;
mod parking;
mod result_cell;
mod task_cell;
mod task_color;
mod trace_ring;

use crate::{BatchCounts, BatchRun, ColorQueue, Run, Token};
use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

pub(crate) fn color() -> Arc<ColorQueue> {
    ColorQueue::new(0, ())
}

pub(crate) fn run(token: Token, batch: usize) -> (BatchCounts, BatchRun) {
    token.run(batch, |_, _| ControlFlow::Continue(()))
}

/// The events that ran, in order. A lock of std on purpose, because the journal must add no
/// orderings that loom could rely on.
pub(crate) type Journal = Arc<Mutex<Vec<(u8, u8)>>>;

/// Records its number in the journal; `within` fails if two events are inside at once.
pub(crate) struct JournalNote {
    pub(crate) producer: u8,
    pub(crate) number: u8,
    pub(crate) journal: Journal,
    pub(crate) within: Arc<Within>,
}

impl Run for JournalNote {
    fn run(self) {
        self.within.touch();
        self.journal.lock().unwrap().push((self.producer, self.number));
    }
}

/// A cell that loom watches: loom reports any two accesses that no protocol orders, not only
/// overlapping accesses.
pub(crate) struct Within(loom::cell::UnsafeCell<u32>);

impl Within {
    pub(crate) fn touch(&self) {
        self.0.with_mut(|runs| unsafe { *runs += 1 });
    }
}

// SAFETY: the models check that accesses are exclusive.
unsafe impl Sync for Within {}

impl Default for Within {
    fn default() -> Self {
        Self(loom::cell::UnsafeCell::new(0))
    }
}
