//! Where a color may live, or which handler the color follows, and the bound of a bounded color.
//!
//! Leaves out the scheduler's other state of a color (`color_meta.rs`) and the making of bounded
//! and concurrent colors (`bounded.rs`). Tested in `tests/capacity.rs` and `tests/concurrent.rs`.

use std::sync::Arc;
use vermeil_queue::Semaphore;
use vermeil_sched::{Leader, Placement};

/// Where a color may live, or which handler the color follows.
#[derive(Clone)]
pub(crate) enum Affinity {
    Placed(Placement),
    FollowsHandler(Leader),
    /// As its bound says. Few colors are bounded or concurrent.
    Bounded(Arc<Bounded>),
}

impl Affinity {
    /// The placement or the leader, also within a bound.
    #[inline]
    pub(crate) fn inner(&self) -> &Self {
        if let Self::Bounded(bounded) = self { &bounded.affinity } else { self }
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self::Placed(Placement::Any)
    }
}

/// A bounded or concurrent color.
pub(crate) struct Bounded {
    /// Where the color may live, or the colors of its events.
    pub(crate) affinity: Affinity,
    pub(crate) is_concurrent: bool,
    pub(crate) bound: Option<EventBound>,
}

/// The bound on events of a color.
pub(crate) struct EventBound {
    pub(crate) most: usize,
    /// A permit for each event, returned when the event begins or is dropped.
    pub(crate) permits: Semaphore,
}

impl Bounded {
    pub(crate) fn wrap(affinity: Affinity, is_concurrent: bool, most: Option<usize>) -> Affinity {
        let bound =
            most.map(|most| most.max(1)).map(|most| EventBound { most, permits: Semaphore::new(most) });
        Affinity::Bounded(Arc::new(Self { affinity, is_concurrent, bound }))
    }
}
