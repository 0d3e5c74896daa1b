//! What happens when: a heap of moments ordered by virtual time, then core, then order of asking.
//!
//! Owns the order, which is total, so a run never depends on the heap's insides. Tested below.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something to do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// A core goes on; `turn` tells whether it still means to.
    Step { core: u32, turn: u32 },
    /// A client asks.
    Ask { client: u32 },
    /// A source that does not wait for answers sends.
    Send { source: u32 },
    /// An event whose wait is over is posted.
    Deliver { event: u32 },
    /// Colors whose events gather on a core may have waited for long enough.
    Gathered { core: u32 },
    /// The workload changes.
    Shift { index: u32 },
    /// Something goes wrong.
    Fault { index: u32 },
    /// The placement controller looks.
    Control,
    /// The counted part begins.
    Count,
}

impl Moment {
    /// Cores first, by index: two moments of one time have one order.
    fn rank(self) -> u32 {
        match self {
            Self::Step { core, .. } => core,
            _ => u32::MAX,
        }
    }
}

/// The moments to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    heap: BinaryHeap<Reverse<(u64, u32, u64, Moment)>>,
    asked: u64,
}

impl Clock {
    /// Adds a moment.
    pub(crate) fn at(&mut self, time_ns: u64, moment: Moment) {
        self.asked += 1;
        self.heap.push(Reverse((time_ns, moment.rank(), self.asked, moment)));
    }

    /// The next moment and its time.
    pub(crate) fn next(&mut self) -> Option<(u64, Moment)> {
        self.heap.pop().map(|Reverse((time_ns, _, _, moment))| (time_ns, moment))
    }

    /// How many moments have been asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_core_then_order_of_asking() {
        let mut clock = Clock::default();
        let step = |core| Moment::Step { core, turn: 0 };
        clock.at(5, Moment::Ask { client: 9 });
        clock.at(5, step(2));
        clock.at(5, Moment::Ask { client: 1 });
        clock.at(5, step(1));
        clock.at(4, Moment::Count);
        let order: Vec<Moment> = std::iter::from_fn(|| clock.next()).map(|(_, moment)| moment).collect();
        let ask = |client| Moment::Ask { client };
        assert_eq!(order, [Moment::Count, step(1), step(2), ask(9), ask(1)]);
    }
}
