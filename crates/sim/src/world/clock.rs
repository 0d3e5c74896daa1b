//! The order of moments: by virtual time, then core, then order of asking.
//!
//! There are two heaps. The heap of core steps has small entries, because steps come most often;
//! each core has at most one future step. The other heap has all other moments. Owns the order,
//! which is total, so a run never depends on the inner order of a heap. Tested below.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use vermeil_sched::CoreIndex;

/// A moment of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A core continues.
    Step { core: CoreIndex },
    /// A client sends a request.
    Ask { client: u32 },
    /// A source that does not wait for answers sends requests.
    Send { source: u32 },
    /// Posts an event after its wait has ended.
    Deliver { event: u32 },
    /// Colors that gather events on a core may have waited for long enough.
    Batched { core: u32 },
    /// The workload changes.
    Shift { index: u32 },
    /// A fault happens.
    Fault { index: u32 },
    /// A round of the placement controller begins.
    Control,
    /// The counted part begins.
    Count,
}

/// A moment other than a core's step, with its place: time, then order of asking.
#[derive(Clone, Copy, Debug)]
struct ClockEntry {
    place: u128,
    moment: Moment,
}

impl PartialEq for ClockEntry {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for ClockEntry {}

impl PartialOrd for ClockEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClockEntry {
    /// The earliest entry is the greatest, because the heap gives the greatest entry first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.place.cmp(&self.place)
    }
}

/// A time and a tie-breaker as one number, so that a comparison takes no branch.
fn place(time_ns: u64, then: u64) -> u128 {
    u128::from(time_ns) << 64 | u128::from(then)
}

fn time_ns(place: u128) -> u64 {
    (place >> 64) as u64
}

/// The core has no future step.
const NEVER: u64 = u64::MAX;

/// The future moments.
#[derive(Clone, Debug)]
pub(crate) struct EventClock {
    /// Places of steps. An entry is void if the core's due time has changed since.
    steps: BinaryHeap<Reverse<u128>>,
    /// The due time of each core, or [`NEVER`].
    due_ns: Vec<u64>,
    others: BinaryHeap<ClockEntry>,
    asked: u64,
    happened: u64,
}

impl EventClock {
    /// An empty clock for a machine with this number of cores.
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            steps: BinaryHeap::new(),
            due_ns: vec![NEVER; cores],
            others: BinaryHeap::new(),
            asked: 0,
            happened: 0,
        }
    }

    /// Continues the core at this time. An earlier plan of the core is dropped.
    pub(crate) fn step_at(&mut self, time_ns: u64, core: CoreIndex) {
        self.asked += 1;
        self.due_ns[core.0 as usize] = time_ns;
        self.steps.push(Reverse(place(time_ns, core.0.into())));
    }

    /// Drops the future step of the core.
    pub(crate) fn rest(&mut self, core: CoreIndex) {
        self.due_ns[core.0 as usize] = NEVER;
    }

    /// Adds a moment other than a core's step.
    pub(crate) fn at(&mut self, time_ns: u64, moment: Moment) {
        self.asked += 1;
        self.others.push(ClockEntry { place: place(time_ns, self.asked), moment });
    }

    /// The next moment and its time. At equal times core steps come first, by index.
    pub(crate) fn next(&mut self) -> Option<(u64, Moment)> {
        loop {
            let step = self.steps.peek().map(|&Reverse(step)| step);
            let other = self.others.peek();
            match (step, other) {
                (Some(step), other) if other.is_none_or(|other| time_ns(step) <= time_ns(other.place)) => {
                    self.steps.pop();
                    let (time_ns, core) = (time_ns(step), step as u32);
                    let due_ns = &mut self.due_ns[core as usize];
                    if *due_ns == time_ns {
                        *due_ns = NEVER;
                        self.happened += 1;
                        return Some((time_ns, Moment::Step { core: CoreIndex(core) }));
                    }
                }
                _ => {
                    let ClockEntry { place, moment } = self.others.pop()?;
                    self.happened += 1;
                    return Some((time_ns(place), moment));
                }
            }
        }
    }

    /// Number of moments that were asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// Number of moments that were given out.
    pub(crate) fn happened(&self) -> u64 {
        self.happened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(core: u32) -> Moment {
        Moment::Step { core: CoreIndex(core) }
    }

    fn all(clock: &mut EventClock) -> Vec<Moment> {
        std::iter::from_fn(|| clock.next()).map(|(_, moment)| moment).collect()
    }

    #[test]
    fn time_then_core_then_order_of_asking() {
        let mut clock = EventClock::new(3);
        let ask = |client| Moment::Ask { client };
        clock.at(5, ask(9));
        clock.step_at(5, CoreIndex(2));
        clock.at(5, ask(1));
        clock.step_at(5, CoreIndex(1));
        clock.at(4, Moment::Count);
        assert_eq!(all(&mut clock), [Moment::Count, step(1), step(2), ask(9), ask(1)]);
    }

    #[test]
    fn a_core_has_one_step_to_come() {
        for cores in [1, 2, 5, 64] {
            let mut clock = EventClock::new(cores);
            for core in 0..cores as u32 {
                clock.step_at(100 + u64::from(core) % 7, CoreIndex(core));
                clock.step_at(1_000 - u64::from(core), CoreIndex(core));
            }
            clock.rest(CoreIndex(0));
            let latest_first: Vec<Moment> = (1..cores as u32).rev().map(step).collect();
            assert_eq!(all(&mut clock), latest_first);
            assert_eq!((clock.asked(), clock.happened()), (2 * cores as u64, cores as u64 - 1));
        }
    }
}
