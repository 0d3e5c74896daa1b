//! The handle of a color.

use crate::shared::Shared;
use std::{fmt, sync::Arc};
use vermeil_queue::{ColorId, ColorQueue, Event};
use vermeil_sched::CoreIndex;

/// A serial queue of events: what is posted on one color never overlaps and runs in order. Cheap to clone; a color
/// lives as long as somebody holds it or something is queued on it.
#[derive(Clone)]
pub struct Color {
    queue: Arc<ColorQueue>,
    pub(crate) shared: Arc<Shared>,
}

impl Color {
    pub(crate) fn new(core: CoreIndex, shared: Arc<Shared>) -> Self {
        Self { queue: ColorQueue::new(core.0), shared }
    }

    /// The color's name, unique in the process.
    pub fn id(&self) -> ColorId {
        self.queue.id()
    }

    /// The core the color is on.
    pub fn core(&self) -> CoreIndex {
        CoreIndex(self.queue.core())
    }

    /// Events queued; a hint.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is queued; a hint.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues an event and, if the color was empty, hands its token to its core.
    pub(crate) fn push(&self, event: Event) {
        if let Some(token) = self.queue.push(event) {
            self.shared.schedule(token);
        }
    }
}

impl fmt::Debug for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Color").field("id", &self.id()).field("core", &self.core()).finish_non_exhaustive()
    }
}
