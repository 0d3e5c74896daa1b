//! The state that a core publishes for thieves, and for threads that queue tokens on the core.
//!
//! Each core has a line. Only the core writes the line, except the kept token, with relaxed stores.
//! A reader may see words of two moments. The use of the hints: `vermeil_sched::CoreLoad`.

use crate::{color_meta::ColorMeta, utilization::Utilization};
use std::sync::atomic::{AtomicU64, Ordering};
use vermeil_queue::LifoSlot;
use vermeil_sched::{CoreLoad, Ready};

/// `running_since_ns` of a core that runs nothing.
const IDLE: u64 = 0;

#[derive(Default)]
pub(crate) struct CoreLoadCell {
    running_since_ns: AtomicU64,
    expected_ns: AtomicU64,
    activation_ns: AtomicU64,
    pub(crate) utilization: Utilization,
    /// The token that runs next unless a thief takes it. This word is exact, but lies here because
    /// the thief has read this line already.
    pub(crate) lifo_slot: LifoSlot<ColorMeta>,
}

impl CoreLoadCell {
    /// An activation begins that is expected to take `expected_ns`. Returns whether the core ran no
    /// color before.
    #[inline]
    pub(crate) fn begin(&self, now_ns: u64, expected_ns: u64) -> bool {
        let was_idle = self.running_since_ns.load(Ordering::Relaxed) == IDLE;
        self.running_since_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.expected_ns.store(expected_ns, Ordering::Relaxed);
        was_idle
    }

    /// A color from the queue took `ns`, with all its successors.
    pub(crate) fn took(&self, ns: u64) {
        let mean = self.activation_ns.load(Ordering::Relaxed);
        self.activation_ns.store(CoreLoad::smooth_ns(mean, ns), Ordering::Relaxed);
    }

    /// The core runs no color.
    pub(crate) fn idle(&self) {
        self.running_since_ns.store(IDLE, Ordering::Relaxed);
    }

    /// The core's hint, given the gauge of its ready queue.
    pub(crate) fn load(&self, queue_load: QueueLoad) -> CoreLoad {
        let since_ns = self.running_since_ns.load(Ordering::Relaxed);
        CoreLoad {
            running_since_ns: (since_ns != IDLE).then_some(since_ns),
            expected_ns: self.expected_ns.load(Ordering::Relaxed),
            activation_ns: self.activation_ns.load(Ordering::Relaxed),
            waiting: queue_load.waiting(),
            stealable: queue_load.stealable(),
        }
    }
}

/// The length of a ready queue as published beside its lock: the number of waiting colors, and the
/// number that a thief may take.
#[derive(Clone, Copy)]
pub(crate) struct QueueLoad(pub(crate) usize);

impl QueueLoad {
    /// For `ReadyQueue::new`: zero exactly if the owner would find nothing.
    pub(crate) fn measure<T>(ready: &Ready<T>) -> usize {
        ready.waiting().min(u32::MAX as usize) | ready.stealable() << 32
    }

    pub(crate) fn waiting(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn stealable(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
