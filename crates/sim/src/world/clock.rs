//! What happens when: a heap of moments ordered by virtual time, then core, then order of asking.
//!
//! Owns the order, which is total, so a run never depends on the heap's insides. Tested below.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use vermeil_sched::CORES_MAX;

/// Something to do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    fn rank(self) -> u64 {
        match self {
            Self::Step { core, .. } => core.into(),
            _ => RANK_MAX,
        }
    }
}

/// Bits of the order of asking: enough for years of simulating.
const ASKED_BITS: u32 = 48;
/// Behind all cores.
const RANK_MAX: u64 = (1 << (u64::BITS - ASKED_BITS)) - 1;
const _: () = assert!(CORES_MAX as u64 <= RANK_MAX);

/// A moment and its place: time, then core, then order of asking, as one number, so that comparing two takes no branches.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: u128,
    moment: Moment,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.place.cmp(&self.place)
    }
}

/// The moments to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    heap: BinaryHeap<Entry>,
    asked: u64,
}

impl Clock {
    /// Adds a moment.
    pub(crate) fn at(&mut self, time_ns: u64, moment: Moment) {
        self.asked += 1;
        let place = u128::from(time_ns) << 64 | u128::from(moment.rank() << ASKED_BITS | self.asked);
        self.heap.push(Entry { place, moment });
    }

    /// The next moment and its time.
    pub(crate) fn next(&mut self) -> Option<(u64, Moment)> {
        self.heap.pop().map(|Entry { place, moment }| ((place >> 64) as u64, moment))
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
