//! When a color that is about to wait goes to a busy core with less waiting work.
//!
//! If no core sleeps, no core searches, so a burst that comes to a core would wait there until
//! other cores run out of work. A core that queues a color on itself asks another core for the
//! load, a different core each time. The shorter of two queues is nearly as good as the shortest of
//! all queues (Mitzenmacher, 2001), and costs a look. Cores that queue colors elsewhere do not
//! ask, because these looks cost the simulated workload `web` up to a tenth of the rate.
//!
//! A color that has never run goes to the other core for less
//! ([`begins_elsewhere`](Stealing::begins_elsewhere)), because its move is a post. So a core that
//! hands out work of many new colors spreads them, and thieves need not fetch each. Such a color
//! stays on its node: with all nodes, the p99 of the simulated workload `web` on four nodes is 6 %
//! higher. Leaves out sleeping cores ([`Stealing::hands_over`]) and thieves
//! ([`Stealing::pays`]). Tested below.

use crate::{CoreIndex, CoreLoad, StealCandidate, Stealing, steal::PATIENCE};
use vermeil_ablation::Mechanism;

/// The part of a color's wait by which the wait on another core must be shorter, as a divisor,
/// because both waits are estimates, and because other cores move colors to that core at the same
/// time. Also for the number of colors before it.
const SHORTER_PART: u64 = 4;

/// The part of a color's own time that the move may cost, as a divisor, because no core is idle, so
/// the time of the move is lost to other colors. With the whole of the color's time, the simulated
/// workload `web` loses 2 % of the rate on a hybrid machine.
const COST_PART: u64 = 8;

/// The part of a steal's cost that a post to another core's queue costs, as a divisor. A steal
/// moves a dozen cache lines, and a post moves the line of the queue's lock.
const POST_PART: u64 = 8;

/// The order in which a core asks other cores for their load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskOrder(u32);

impl AskOrder {
    /// The next of `neighbours` to ask; `None` if there is no neighbour.
    #[inline]
    pub fn next(&mut self, neighbours: &[CoreIndex]) -> Option<CoreIndex> {
        let asked = self.0 as usize;
        self.0 = if asked + 1 < neighbours.len() { self.0 + 1 } else { 0 };
        neighbours.get(asked).or(neighbours.first()).copied()
    }
}

impl Stealing {
    /// Whether a color with `queued_ns` repays a move that costs `move_ns` while no core is idle.
    #[inline]
    pub fn repays_busy_move(self, queued_ns: u64, move_ns: u64) -> bool {
        self == Self::Learned && queued_ns / COST_PART > move_ns && !Mechanism::ShorterQueue.is_off()
    }

    /// Whether [`moves_to_shorter_queue`](Self::moves_to_shorter_queue) may answer yes for a color
    /// with `queued_ns` on a core with load `owner`. Needs neither the time nor the load of the
    /// other core.
    #[inline]
    pub fn may_move_to_shorter_queue(self, queued_ns: u64, owner: &CoreLoad, steal_ns: u64) -> bool {
        self.repays_busy_move(queued_ns, steal_ns) && owner.backlog_ns() > PATIENCE.saturating_mul(steal_ns)
    }

    /// Whether a color that is about to wait on a core with load `owner` goes to a core with load
    /// `other`, which does not sleep. On its own core the color would wait for
    /// [`StealCandidate::wait_ns`]. The color goes if the wait on the other core is much shorter,
    /// and the color's own time repays a move that costs `steal_ns`. Fewer colors must wait there
    /// too, because the other core may have got long colors that its mean time does not show yet.
    pub fn moves_to_shorter_queue(
        self,
        color: &StealCandidate,
        (owner, other): (&CoreLoad, &CoreLoad),
        now_ns: u64,
        steal_ns: u64,
    ) -> bool {
        let there_ns = i128::from(other.last_wait_ns(now_ns)) + i128::from(color.slower_ns);
        let sooner_ns = u64::try_from(i128::from(color.wait_ns) - there_ns).unwrap_or(0);
        let fewer = u64::from(owner.waiting.saturating_sub(other.waiting));
        self.may_move_to_shorter_queue(color.queued_ns, owner, steal_ns)
            && self.repays_busy_move(color.queued_ns, steal_ns.saturating_add(color.known_penalty_ns))
            && sooner_ns > color.wait_ns / SHORTER_PART
            && fewer > u64::from(owner.waiting) / SHORTER_PART
            && self.moves_to_its_turn(color, sooner_ns, steal_ns)
    }

    /// Whether [`begins_elsewhere`](Self::begins_elsewhere) may answer yes for a color with
    /// `queued_ns`. Needs neither the time nor the load of a core.
    #[inline]
    pub fn may_begin_elsewhere(self, queued_ns: u64, steal_ns: u64) -> bool {
        self == Self::Learned && queued_ns > steal_ns / POST_PART && !Mechanism::ShorterQueue.is_off()
    }

    /// Whether a color that has never run, and that its maker's core is about to queue, begins on a
    /// core with load `other`, which does not sleep. At its maker's core the color would wait for
    /// [`StealCandidate::wait_ns`]. `gives_way`: the maker must stay on its core, and the new color
    /// would hold up the maker's next events.
    pub fn begins_elsewhere(
        self,
        color: &StealCandidate,
        other: &CoreLoad,
        gives_way: bool,
        (now_ns, steal_ns): (u64, u64),
    ) -> bool {
        let move_ns = (steal_ns / POST_PART).saturating_add(color.known_penalty_ns);
        let holds_up_ns = if gives_way { color.queued_ns } else { 0 };
        let here_ns = i128::from(color.wait_ns) + i128::from(holds_up_ns);
        let there_ns =
            i128::from(other.last_wait_ns(now_ns)) + i128::from(move_ns) + i128::from(color.slower_ns);
        self.may_begin_elsewhere(color.queued_ns, steal_ns) && color.queued_ns > move_ns && there_ns < here_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEAL_NS: u64 = 1_000;
    const COLOR: StealCandidate = StealCandidate {
        queued_ns: 20_000,
        wait_ns: 200_000,
        penalty_ns: 500,
        known_penalty_ns: 500,
        slower_ns: 0,
        since_move_ns: u64::MAX,
    };
    const OWNER: CoreLoad = CoreLoad {
        running_since_ns: Some(0),
        expected_ns: 10_000,
        activation_ns: 10_000,
        waiting: 19,
        stealable: 19,
    };

    /// Whether a color leaves `OWNER` for a core that is busy for `wait_ns`.
    fn moves(color: StealCandidate, wait_ns: u64) -> bool {
        let other = CoreLoad { running_since_ns: Some(0), expected_ns: wait_ns, ..CoreLoad::default() };
        Stealing::Learned.moves_to_shorter_queue(&color, (&OWNER, &other), 0, STEAL_NS)
    }

    #[test]
    fn color_moves_to_queue_with_much_shorter_wait() {
        assert!(moves(COLOR, 0));
        assert!(moves(COLOR, 149_000));
        assert!(!moves(COLOR, 151_000), "the waits are nearly equal");
        assert!(!moves(COLOR, 300_000));
        let idle = CoreLoad::default();
        assert!(!Stealing::TimeLeft.moves_to_shorter_queue(&COLOR, (&OWNER, &idle), 0, STEAL_NS));
    }

    /// Regression: a core that had run short events got a whole burst of long colors, because the
    /// mean time of its activations counted each waiting color as short.
    #[test]
    fn other_core_must_have_fewer_colors() {
        let moves = |waiting| {
            let other = CoreLoad { activation_ns: 200, waiting, ..OWNER };
            Stealing::Learned.moves_to_shorter_queue(&COLOR, (&OWNER, &other), 0, STEAL_NS)
        };
        assert!(moves(14));
        assert!(!moves(15));
    }

    #[test]
    fn short_color_stays_in_long_queue() {
        assert!(!moves(StealCandidate { queued_ns: 11_000, ..COLOR }, 0), "the move costs an eighth");
        assert!(moves(StealCandidate { queued_ns: 14_000, ..COLOR }, 0));
        assert!(!moves(StealCandidate { known_penalty_ns: 2_000, penalty_ns: 2_000, ..COLOR }, 0));
        assert!(!moves(StealCandidate { since_move_ns: 5_000, ..COLOR }, 0), "it does not bounce");
    }

    #[test]
    fn slow_core_must_have_shorter_queue() {
        assert!(!moves(StealCandidate { slower_ns: 60_000, ..COLOR }, 100_000));
        assert!(moves(StealCandidate { slower_ns: -60_000, ..COLOR }, 200_000));
    }

    #[test]
    fn color_that_moves_passes_the_first_look() {
        for (queued_ns, waiting) in [(7_000, 19), (9_000, 19), (20_000, 1), (20_000, 2), (20_000, 19)] {
            let owner = CoreLoad { waiting, ..OWNER };
            let color = StealCandidate { queued_ns, ..COLOR };
            let may_move = Stealing::Learned.may_move_to_shorter_queue(queued_ns, &owner, STEAL_NS);
            let moves =
                Stealing::Learned.moves_to_shorter_queue(&color, (&owner, &CoreLoad::default()), 0, STEAL_NS);
            assert!(may_move || !moves, "{queued_ns} ns, {waiting} waiting");
            assert_eq!(may_move, queued_ns > 8_000 && waiting > 1, "{queued_ns} ns, {waiting} waiting");
        }
    }

    #[test]
    fn cores_are_asked_in_turn() {
        let neighbours = [4, 7, 9].map(CoreIndex);
        let mut order = AskOrder::default();
        let asked: Vec<_> = (0..5).filter_map(|_| order.next(&neighbours)).map(|core| core.0).collect();
        assert_eq!(asked, [4, 7, 9, 4, 7]);
        assert_eq!(order.next(&[]), None);
        assert_eq!(AskOrder(9).next(&neighbours), Some(CoreIndex(4)), "of a core with more neighbours");
    }

    #[test]
    fn new_color_begins_where_it_waits_less() {
        let begins = |color: StealCandidate, busy_ns, gives_way| {
            let other = CoreLoad { running_since_ns: Some(0), expected_ns: busy_ns, ..CoreLoad::default() };
            Stealing::Learned.begins_elsewhere(&color, &other, gives_way, (0, STEAL_NS))
        };
        assert!(begins(COLOR, 199_000, false));
        assert!(!begins(COLOR, 200_000, false), "the color would begin later there");
        assert!(begins(COLOR, 200_000, true), "the color would hold up its maker");
        assert!(!begins(COLOR, 220_000, true));
        let short = StealCandidate { queued_ns: 600, ..COLOR };
        assert!(!begins(short, 0, true), "the time of the color does not repay the move");
        let idle = CoreLoad::default();
        assert!(!Stealing::TimeLeft.begins_elsewhere(&COLOR, &idle, true, (0, STEAL_NS)));
    }
}
