//! The state of the color that a core runs, and of the color's running event.
//!
//! The code of an event reaches this state through `core::current`, and so tells the core where the
//! color goes next. Leaves out the measurement of runs (`batch_times.rs`).

use super::hop_request::HopRequest;
use crate::{
    acquisition::RuntimeAcquire,
    color_meta::{RuntimeHead, Staying},
};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};
use vermeil_sched::{AskOrder, FixedPace, HandlerIndex, LifoSlotRule};

/// Ready answers that the waits of an event give before the event must let other colors run
/// (`budget.rs`): the same limit as in tokio.
const BUDGET: u32 = 128;

/// The state of the running color and event.
#[derive(Default)]
pub(crate) struct RunState {
    /// Whether a color runs that must stay on this core.
    pub(crate) runs_fixed_color: Cell<bool>,
    /// How often such colors run.
    pub(crate) fixed_pace: Cell<FixedPace>,
    /// The state of the color after the running event, as far as its task has changed it.
    pub(crate) marks: TaskMarks,
    /// The running event waits for a socket of another core, so its time says nothing about its
    /// cost.
    asks_for_socket: Cell<bool>,
    /// Ready answers that the running event may still get from its waits.
    pub(crate) budget: Cell<u32>,
    /// The acquisition for which the running event holds its color.
    pub(crate) acquisition: RefCell<Option<Arc<RuntimeAcquire>>>,
    /// Handler of the color's first event, which lacks a permit; the color has just run.
    pub(super) needs_permit: Cell<Option<HandlerIndex>>,
    /// The color on which the running task wants to continue.
    pub(crate) hop: HopRequest,
    /// The colors that the running batch has woken here and that may run next.
    pub(crate) lifo_slot_rule: Cell<LifoSlotRule>,
    /// The other cores to ask for their load.
    pub(crate) ask_order: Cell<AskOrder>,
    /// This turn ends after the running color: the turn has lasted long enough, or its operations
    /// have to be submitted.
    pub(super) expired: Cell<bool>,
    /// A task of the running color lets other colors run before the task continues.
    pub(super) yields: Cell<bool>,
}

/// Changes of a color's state by its task during an event, made after the event.
#[derive(Default)]
pub(crate) struct TaskMarks {
    /// The task has begun or ended a wait in which its color may move.
    pub(crate) staying: Cell<Option<Staying>>,
    /// The task has entered or left the background.
    pub(crate) background: Cell<Option<bool>>,
}

impl RunState {
    pub(super) fn new() -> Self {
        Self { budget: Cell::new(BUDGET), ..Self::default() }
    }

    /// The core begins a batch of `color`.
    #[inline]
    pub(super) fn begin_batch(&self, color: &RuntimeHead) {
        self.runs_fixed_color.set(!color.meta.may_move());
    }

    /// The batch begins at `now_ns`, with this number of events.
    #[inline]
    pub(super) fn note_pace(&self, events: usize, now_ns: u64) {
        if self.runs_fixed_color.get() {
            let mut pace = self.fixed_pace.get();
            pace.observe(events, now_ns);
            self.fixed_pace.set(pace);
        }
    }

    /// An event begins, with a whole budget.
    #[inline]
    pub(super) fn begin_event(&self) {
        self.budget.set(BUDGET);
        self.asks_for_socket.set(false);
        self.hop.begin_event();
    }

    /// An event of `color` has ended.
    #[inline]
    pub(super) fn end_event(&self, color: &RuntimeHead) {
        if let Some(staying) = self.marks.staying.take() {
            color.meta.set_staying(staying);
        }
        if let Some(background) = self.marks.background.take() {
            color.meta.set_background(background);
        }
    }

    /// The running event waits for a socket of another core.
    pub(crate) fn note_asks_for_socket(&self) {
        self.asks_for_socket.set(true);
    }

    /// Whether the last event has waited for a socket of another core.
    #[inline]
    pub(super) fn take_asks_for_socket(&self) -> bool {
        self.asks_for_socket.take()
    }

    /// Ends the color's turn, and the core's turn if `expires`.
    pub(super) fn yield_turn(&self, expires: bool) {
        self.yields.set(true);
        self.expired.set(self.expired.get() || expires);
    }
}
