//! The handle of a color.
//!
//! Leaves out bounded and concurrent colors (`bounded.rs`) and the scheduler's state of a color
//! (`color_meta.rs`).

use crate::{
    color_meta::{ColorMeta, RuntimeQueue},
    runtime_ref::RuntimeRef,
    stamps::poster,
};
use std::{fmt, sync::Arc};
use vermeil_queue::{ColorId, ColorQueue, Event, PushOutcome};
use vermeil_sched::{CoreIndex, HandlerIndex};

/// A serial queue of events: events on a color never overlap and run in order, unless the color is
/// [concurrent](crate::Handle::concurrent_color). Cheap to clone. A color lives as long as a handle
/// exists or an event is queued.
#[derive(Clone)]
pub struct Color {
    pub(crate) queue: Arc<RuntimeQueue>,
    pub(crate) shared: RuntimeRef,
}

impl Color {
    pub(crate) fn new(core: CoreIndex, meta: ColorMeta, shared: RuntimeRef) -> Self {
        Self { queue: ColorQueue::new(core.0, meta), shared }
    }

    /// The color's id, unique in the process.
    pub fn id(&self) -> ColorId {
        self.queue.id()
    }

    /// The color's current core. A policy may move the color.
    pub fn core(&self) -> CoreIndex {
        CoreIndex(self.queue.core())
    }

    /// Number of queued events; a hint. Events that the color's own events post count after these
    /// have run.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no event is queued; a hint.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues an event of `handler` and informs the scheduler.
    pub(crate) fn push(&self, handler: HandlerIndex, event: Event) {
        let worth_ns = self.shared.worth_ns(handler);
        let label = self.shared.label(handler, worth_ns);
        let (event, poster) = (event.labelled(label), poster(label));
        self.queue.meta.is_posted_by(handler);
        match self.queue.post(event) {
            PushOutcome::First(token) => {
                if !self.shared.follow(&token, poster)
                    && let Some(here) = poster
                {
                    self.shared.move_to_poster(&token, here);
                }
                match self.shared.handlers.batch_wait(handler) {
                    None => self.shared.woken(token, poster),
                    Some(batch_wait) => self.shared.wait_for_batch(token, batch_wait),
                }
            }
            PushOutcome::Behind => self.shared.posted(&self.queue, handler, worth_ns),
            PushOutcome::Own => self.shared.called_again(&self.queue),
        }
    }
}

impl fmt::Debug for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Color").field("id", &self.id()).field("core", &self.core()).finish_non_exhaustive()
    }
}
