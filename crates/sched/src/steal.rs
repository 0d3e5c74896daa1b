//! When a color is worth a steal, and when a sleeping core is worth waking for the color.
//!
//! [`Stealing::TimeLeft`] is Mely's rule: a thief takes a color if the queued time, reduced by the
//! handlers' penalties, exceeds the cost of a steal. [`Stealing::Learned`] asks two questions with
//! learned numbers: does the color finish sooner elsewhere (latency), and does the queued time
//! repay the move at that distance (throughput)? The same test precedes every wake-up, so a short
//! event does not wake a core in vain. A color behind a long event fails the second question, and a
//! third rule frees the color: patience. Tested below on invented numbers.

use crate::{CoreLoad, FixedPace, QueuedClass, ReadyOrder};
use vermeil_ablation::Mechanism;

/// The rule for thieves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stealing {
    /// No stealing: a color stays in place.
    #[default]
    Never,
    /// Any color that is not running, found by a scan: Libasync-SMP.
    Anything,
    /// Colors whose time exceeds the cost of a steal, nearest victims first: Mely.
    TimeLeft,
    /// Colors that finish sooner elsewhere and repay the move.
    Learned,
}

/// A color from the view of a thief.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StealCandidate {
    /// Expected time of the queued events, as counted by [`Stealing::queued_ns`].
    pub queued_ns: u64,
    /// Expected wait in the current place.
    pub wait_ns: u64,
    /// Extra time of the next run after a move over this distance: an upper bound until it was
    /// measured.
    pub penalty_ns: u64,
    /// The part of `penalty_ns` that was measured or annotated.
    pub known_penalty_ns: u64,
    /// Time by which the queued events take longer on the thief's core than in the current place,
    /// because the thief's core is slower; negative for a faster core.
    pub slower_ns: i64,
    /// Time since the last move; the maximum if never moved.
    pub since_move_ns: u64,
}

/// Maximum number of colors in a steal batch, because the thief holds the victim's lock meanwhile:
/// with two lines of 40 ns for each color at most 2.6 us, less than a wake-up takes.
pub const STEAL_BATCH_MAX: usize = 32;

/// The multiple of a move's cost that the queued time must reach. From Mely: 1; no bench has shown
/// a better value.
const REPAID: u64 = 1;

/// The multiple of a move's cost that a color may wait, however little its queued time. At a move
/// of 3 us, 50 us: far above a turn of short events, far below the notice of a person or a
/// deadline. Simulated: half or twice as much changes no rate of the shipped workloads by more than
/// 1.6 % in the mean of three seeds.
pub(crate) const PATIENCE: u64 = 16;

/// The part of its own time by which a color may end later on a thief, as a divisor, because all
/// colors behind it then begin earlier by the whole of that time. Without it, eight more of 182
/// simulated rows are behind the best policy.
const LATE_PART: u64 = 4;

/// As [`LATE_PART`], for a color that goes to a sleeping core before it waits. No color waits
/// behind it yet.
const HANDED_LATE_PART: u64 = 8;

/// As [`HANDED_LATE_PART`], for a color that would hold up a color that cannot leave: all that
/// arrives there meanwhile waits for up to the whole time of the color.
const GIVES_WAY_LATE_PART: u64 = 1;

/// A core does not take work that would make the expected events of its fixed colors wait for
/// longer than this, in sum. About the cost of waking a slow core. Simulated: with 0, `packets` on
/// 128 cores misses the goals.
const HELD_UP_NS: u64 = 30_000;

/// The multiple of a move's cost that must pass between two moves of a color, because the color
/// must not bounce: the limit on the time lost to moves, a fifth.
const COOLDOWN: u64 = 4;

impl StealCandidate {
    /// Whether measurements or an annotation explain at least seven eighths of the penalty. Both
    /// numbers are published by several cores, each with rounding, so they need not be equal.
    pub(crate) fn knows_penalty(&self) -> bool {
        self.known_penalty_ns >= self.penalty_ns - self.penalty_ns / 8
    }

    /// Whether the color ends early enough elsewhere, after a move that costs `move_ns`: later than
    /// here by at most its own time divided by `late_part`.
    fn ends_in_time(&self, late_part: u64, move_ns: u64) -> bool {
        i128::from(self.wait_ns) + i128::from(self.queued_ns / late_part)
            > i128::from(move_ns) + i128::from(self.slower_ns)
    }

    /// Whether the last move was long enough ago for another move that costs `steal_ns`.
    pub(crate) fn has_rested(&self, steal_ns: u64) -> bool {
        self.since_move_ns > COOLDOWN.saturating_mul(steal_ns.saturating_add(self.penalty_ns))
    }
}

impl Stealing {
    /// The order of the ready queues.
    pub fn order(self) -> ReadyOrder {
        match self {
            Self::Anything => ReadyOrder::Events,
            Self::Never | Self::TimeLeft | Self::Learned => ReadyOrder::Colors,
        }
    }

    /// Whether cores steal at all.
    pub fn is_on(self) -> bool {
        self != Self::Never
    }

    /// Whether thieves ask near victims before far victims; otherwise the busiest victim first.
    pub fn prefers_near(self) -> bool {
        matches!(self, Self::TimeLeft | Self::Learned)
    }

    /// The worth that an event adds to its color, in nanoseconds: the expected time, which Mely
    /// divides by the handler's annotated penalty (at least 1), so that penalized colors are stolen
    /// last.
    pub fn queued_ns(self, cost_ns: u64, penalty_divisor: u32) -> u64 {
        match self {
            Self::TimeLeft => cost_ns / u64::from(penalty_divisor.max(1)),
            Self::Never | Self::Anything | Self::Learned => cost_ns,
        }
    }

    /// The worth class of a color with `queued_ns` that may move. Mely leaves colors of too little
    /// worth. The other policies may still take such a color, for its wait or without a reason.
    pub fn class(self, queued_ns: u64) -> Option<QueuedClass> {
        let class = QueuedClass::of(queued_ns);
        match self {
            Self::Never => None,
            Self::TimeLeft => class,
            Self::Anything | Self::Learned => class.or(Some(QueuedClass::LEAST)),
        }
    }

    /// Whether any color on a core with load `owner` may pay. If not, the thief need not lock the
    /// core's queue.
    pub fn may_pay(self, owner: &CoreLoad, now_ns: u64, steal_ns: u64) -> bool {
        owner.stealable > 0
            && (self != Self::Learned
                || owner.wait_ns(now_ns).saturating_add(owner.activation_ns / LATE_PART) > steal_ns)
    }

    /// Whether to take this color, when a steal over the distance costs `steal_ns`.
    pub fn pays(self, color: &StealCandidate, steal_ns: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Anything => true,
            Self::TimeLeft => color.queued_ns > steal_ns,
            // The color must finish earlier on the thief, even if its move costs as much as it may.
            // The time of the thief is lost to nothing else, so only the part of the cost that is
            // known must be repaid: a core that demanded more would stay idle beside work whose
            // penalty nothing has measured yet.
            Self::Learned => {
                let move_ns = steal_ns.saturating_add(color.penalty_ns);
                let known_ns = steal_ns.saturating_add(color.known_penalty_ns);
                color.ends_in_time(LATE_PART, move_ns)
                    && (color.queued_ns > REPAID.saturating_mul(known_ns)
                        || color.wait_ns > PATIENCE.saturating_mul(move_ns))
                    && color.has_rested(steal_ns)
            }
        }
    }

    /// Whether new work of `queued_ns` is better off on a sleeping core than on the core that made
    /// the work. That core runs a color that must stay, with this pace, and the next events of the
    /// color would wait behind the work. A batch of the color looks like a pause in the pace, so
    /// the sum of the waits counts too.
    pub fn gives_way(self, queued_ns: u64, pace: &FixedPace, now_ns: u64) -> bool {
        self.holds_up(HELD_UP_NS, queued_ns, pace, now_ns)
    }

    /// Whether a thief leaves `color` to another core that sleeps: if an event of the thief's fixed
    /// colors, which have this pace, is expected before the color would end. Otherwise the expected
    /// waits of these events must exceed both 30 us and the wait of the color, because the other
    /// core may leave the color too.
    pub fn leaves_to_others(self, color: &StealCandidate, pace: &FixedPace, now_ns: u64) -> bool {
        self.holds_up(HELD_UP_NS.max(color.wait_ns), color.queued_ns, pace, now_ns)
    }

    /// Whether an event of a color that must stay is expected within `queued_ns`, or waits of more
    /// than `bound_ns` in sum.
    fn holds_up(self, bound_ns: u64, queued_ns: u64, pace: &FixedPace, now_ns: u64) -> bool {
        self == Self::Learned
            && (pace.expects_within(queued_ns, now_ns) || pace.wait_longer_than(bound_ns, queued_ns, now_ns))
            && !Mechanism::GivesWay.is_off()
    }

    /// Whether to wake a sleeping core that would steal `color`, just queued on a core with hint
    /// `owner`. The woken core would be `wake_ns` late, and would take further colors too.
    pub fn wakes(self, color: &StealCandidate, owner: &CoreLoad, steal_ns: u64, wake_ns: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Anything => owner.running_since_ns.is_some() || owner.waiting > 1,
            Self::TimeLeft => {
                self.pays(color, steal_ns) && (owner.running_since_ns.is_some() || owner.waiting > 1)
            }
            Self::Learned => {
                let haul_ns = color.queued_ns.max(self.amount_ns(owner.backlog_ns(), 0));
                // The woken core explores a penalty that nothing has measured, so waking counts the
                // measured part.
                // The cooldown counts the color's next move only, not the cost of the wake-up.
                let color = StealCandidate { penalty_ns: color.known_penalty_ns, ..*color };
                let batch = StealCandidate { queued_ns: haul_ns, since_move_ns: u64::MAX, ..color };
                self.pays(&color, steal_ns) && self.pays(&batch, steal_ns.saturating_add(wake_ns))
            }
        }
    }

    /// Whether `color`, to which an event was just posted and whose core sleeps, runs on the
    /// poster's core instead, with a wait there of [`StealCandidate::wait_ns`]. The answer is yes
    /// if the run there, including the penalty, takes less than waking the color's core, and the
    /// wait is short. Two communicating colors thus come together.
    pub fn moves_to_poster(self, color: &StealCandidate, wake_ns: u64) -> bool {
        self == Self::Learned
            && !Mechanism::MoveToPoster.is_off()
            && color.queued_ns.saturating_add(color.penalty_ns) < wake_ns
            && color.wait_ns < PATIENCE.saturating_mul(wake_ns)
    }

    /// Whether a task that was just woken moves to the waker's core. The task moves if its turn
    /// comes `sooner_ns` sooner there, and a thief would take the task for that wait alone. A move
    /// at this point costs no lock. Without this rule a parent that spawns many tasks and waits for
    /// each would run behind all of them, and read results only when no core has any other work.
    pub fn moves_to_its_turn(self, task: &StealCandidate, sooner_ns: u64, steal_ns: u64) -> bool {
        let move_ns = steal_ns.saturating_add(task.penalty_ns);
        self == Self::Learned && sooner_ns > PATIENCE.saturating_mul(move_ns) && task.has_rested(steal_ns)
    }

    /// Whether a color that is about to wait on a core with load `owner` goes to a sleeping core
    /// instead. The color waits for [`StealCandidate::wait_ns`] behind all that the core has to do,
    /// or starts after a steal and a wake-up on the sleeping core. `gives_way`: the poster's color
    /// must stay on its core, so the new color would hold up that color's next events.
    pub fn hands_over(
        self,
        color: &StealCandidate,
        owner: &CoreLoad,
        gives_way: bool,
        (steal_ns, wake_ns): (u64, u64),
    ) -> bool {
        if self != Self::Learned || Mechanism::HandOver.is_off() {
            return false;
        }
        let late_part = if gives_way { GIVES_WAY_LATE_PART } else { HANDED_LATE_PART };
        let move_ns = steal_ns.saturating_add(wake_ns);
        let repaid_ns = color.queued_ns.max(owner.backlog_ns() / 2);
        color.ends_in_time(late_part, move_ns.saturating_add(color.penalty_ns))
            && repaid_ns > move_ns.saturating_add(color.known_penalty_ns)
            && color.has_rested(steal_ns)
    }

    /// Whether a color that runs next in its place goes to a sleeping core that is faster: if the
    /// color ends earlier there, after a steal and a wake-up.
    pub fn hurries(self, color: &StealCandidate, (steal_ns, wake_ns): (u64, u64)) -> bool {
        let move_ns = steal_ns.saturating_add(wake_ns).saturating_add(color.penalty_ns);
        self == Self::Learned
            && !Mechanism::FasterCore.is_off()
            && color.slower_ns.saturating_neg() > i64::try_from(move_ns).unwrap_or(i64::MAX)
            && color.has_rested(steal_ns)
    }

    /// Whether [`hands_over`](Self::hands_over) may answer yes for a color with `queued_ns`,
    /// whatever the wait and the sleeping core. Needs neither the time nor the sleeping core.
    #[inline]
    pub fn may_hand_over(self, queued_ns: u64, owner: &CoreLoad, wake_ns: u64) -> bool {
        self == Self::Learned && queued_ns.max(owner.backlog_ns() / 2) > wake_ns
    }

    /// Work that a thief takes beyond the first color, in nanoseconds: half of the difference to
    /// the victim's backlog, and at most the amount that the thief runs before searching again.
    pub fn amount_ns(self, victim_backlog_ns: u64, own_backlog_ns: u64) -> u64 {
        match self {
            // One color per steal, as in the publications.
            Self::Never | Self::Anything | Self::TimeLeft => 0,
            Self::Learned => (victim_backlog_ns.saturating_sub(own_backlog_ns) / 2).min(AMOUNT_NS_MAX),
        }
    }

    /// Events of a color that run in a row while others wait: at most `batch`, and where costs are
    /// learned at most as many as fit into a turn. `queued_ns` is the expected time of the
    /// `queued` events.
    pub fn batch(self, batch: usize, queued_ns: u64, queued: usize) -> usize {
        let turn_ns = TURN_NS.saturating_mul(queued as u64);
        // The division is rare, because most events are short.
        match self == Self::Learned && queued_ns.saturating_mul(batch as u64) > turn_ns {
            true => ((turn_ns / queued_ns) as usize).clamp(1, batch),
            false => batch,
        }
    }

    /// Whether a core that found no work spins for [`SPIN_NS`] before it parks; `looked` is the
    /// number of failed searches since the last success. Only after a steal, because more stealable
    /// work is likely to follow. At most one failed spin for each wake-up.
    pub fn spins(self, looked: u32) -> bool {
        self == Self::Learned && looked == 0
    }

    /// When the watcher (the single sleeping core that watches) must look at another core again;
    /// `looked`: failed looks since the last success. `None` if the other core runs nothing,
    /// because a core that runs an event calls a watcher again when a color starts to wait behind
    /// the event.
    pub fn look_again_ns(self, other: &CoreLoad, now_ns: u64, steal_ns: u64, looked: u32) -> Option<u64> {
        if self != Self::Learned || other.running_since_ns.is_none() {
            return None;
        }
        if other.stealable == 0 {
            return Some(WATCH_NS);
        }
        let patience_ns = PATIENCE.saturating_mul(steal_ns).min(WATCH_NS);
        let left_ns = patience_ns.saturating_sub(other.running_ns(now_ns));
        Some(left_ns.max(patience_ns << looked.min(10)).min(WATCH_NS))
    }
}

/// Longest time between two looks of the watcher while any core runs, in nanoseconds: the bound on
/// the wait of a short event behind a long event. A thousand looks per second cost a few
/// thousandths of a sleeping core.
pub const WATCH_NS: u64 = 1_000_000;

/// Time that a core spins before it parks, in nanoseconds: about the cost of sleeping and waking on
/// both sides, so that the core never loses more than twice the optimum.
pub const SPIN_NS: u64 = 10_000;

/// Maximum duration of a turn, in nanoseconds, to the end of the running activation, because longer
/// turns delay the I/O of all connections.
pub const TURN_NS: u64 = 1_000_000;

/// Most work that a steal takes, in nanoseconds: a turn, because after a turn the thief looks at
/// its own I/O.
const AMOUNT_NS_MAX: u64 = TURN_NS;

#[cfg(test)]
mod tests {
    use super::*;

    const STEAL_NS: u64 = 1_000;
    const COLOR: StealCandidate = StealCandidate {
        queued_ns: 10_000,
        wait_ns: 10_000,
        penalty_ns: 500,
        known_penalty_ns: 500,
        slower_ns: 0,
        since_move_ns: u64::MAX,
    };

    fn busy(waiting: u32) -> CoreLoad {
        CoreLoad {
            running_since_ns: Some(0),
            expected_ns: 1_000,
            activation_ns: 1_000,
            waiting,
            stealable: waiting,
        }
    }

    #[test]
    fn color_that_is_handed_over_passes_the_first_look() {
        for (queued_ns, waiting) in [(100, 0), (2_000, 0), (10_000, 0), (100, 30), (10_000, 30)] {
            let color = StealCandidate { queued_ns, wait_ns: 1_000_000, ..COLOR };
            let owner = busy(waiting);
            let goes = Stealing::Learned.hands_over(&color, &owner, false, (STEAL_NS, 2_000));
            let may_go = Stealing::Learned.may_hand_over(queued_ns, &owner, 2_000);
            assert!(may_go || !goes, "{queued_ns} ns, {waiting} waiting");
            assert_eq!(may_go, queued_ns > 2_000 || waiting > 0, "{queued_ns} ns, {waiting} waiting");
        }
    }

    #[test]
    fn task_goes_to_where_its_turn_is_much_sooner() {
        let learned = Stealing::Learned;
        let patience_ns = PATIENCE * (STEAL_NS + COLOR.penalty_ns);
        assert!(!learned.moves_to_its_turn(&COLOR, patience_ns, STEAL_NS));
        assert!(learned.moves_to_its_turn(&COLOR, patience_ns + 1, STEAL_NS));
        let moved = StealCandidate { since_move_ns: 2_000, ..COLOR };
        assert!(!learned.moves_to_its_turn(&moved, 1_000_000, STEAL_NS), "it does not bounce");
        let documents = Stealing::TimeLeft.moves_to_its_turn(&COLOR, 1_000_000, STEAL_NS);
        assert!(!documents, "the documents have no such rule");
    }

    #[test]
    fn a_long_color_that_waits_goes() {
        assert!(Stealing::Learned.pays(&COLOR, STEAL_NS));
        assert!(Stealing::TimeLeft.pays(&COLOR, STEAL_NS));
        assert!(!Stealing::Never.pays(&COLOR, STEAL_NS));
    }

    /// Regression: a thief took the lock of every core with queued colors, and each time found only
    /// short waits.
    #[test]
    fn where_nothing_waits_long_no_queue_is_asked() {
        let (owner, late) = (busy(1), busy(4));
        assert!(!Stealing::Learned.may_pay(&owner, 800, STEAL_NS));
        assert!(Stealing::Learned.may_pay(&late, 800, STEAL_NS));
        assert!(Stealing::TimeLeft.may_pay(&owner, 800, STEAL_NS));
        assert!(!Stealing::TimeLeft.may_pay(&busy(0), 500, STEAL_NS));
        assert_eq!(late.wait_ns(800), 2_200);
        let here = StealCandidate { queued_ns: 1_000, wait_ns: owner.wait_ns(800), penalty_ns: 0, ..COLOR };
        assert!(!Stealing::Learned.pays(&here, STEAL_NS), "the rule that the queue would be asked by");
    }

    #[test]
    fn a_color_that_would_finish_where_it_is_stays() {
        assert!(
            !Stealing::Learned.pays(&StealCandidate { queued_ns: 2_000, wait_ns: 900, ..COLOR }, STEAL_NS)
        );
    }

    /// Regression: a core ran its own products, while pinned colors waited behind them and other
    /// cores slept.
    #[test]
    fn a_long_color_goes_a_little_late() {
        assert!(Stealing::Learned.pays(&StealCandidate { wait_ns: 300, ..COLOR }, STEAL_NS));
        assert!(
            !Stealing::Learned.pays(&StealCandidate { queued_ns: 4_000, wait_ns: 300, ..COLOR }, STEAL_NS)
        );
    }

    #[test]
    fn a_short_color_stays_until_its_patience_ends() {
        let short = StealCandidate { queued_ns: 1_000, ..COLOR };
        assert!(!Stealing::Learned.pays(&short, STEAL_NS));
        assert!(!Stealing::TimeLeft.pays(&short, STEAL_NS));
        assert!(Stealing::Learned.pays(&StealCandidate { wait_ns: 20_000_000, ..short }, STEAL_NS));
    }

    #[test]
    fn a_heavy_penalty_keeps_a_color_at_home() {
        assert!(!Stealing::Learned.pays(&StealCandidate { penalty_ns: 50_000, ..COLOR }, STEAL_NS));
        assert_eq!(Stealing::TimeLeft.queued_ns(8_000, 10), 800);
        assert_eq!(Stealing::Learned.queued_ns(8_000, 10), 8_000);
    }

    /// Regression: an event never repaid its first move while the penalty was only a bound, so an
    /// idle core stayed idle.
    #[test]
    fn unknown_penalty_is_not_demanded_back() {
        let unknown = StealCandidate { penalty_ns: 12_000, known_penalty_ns: 0, wait_ns: 40_000, ..COLOR };
        assert!(Stealing::Learned.pays(&unknown, STEAL_NS), "the color finishes earlier even at the bound");
        assert!(!Stealing::Learned.pays(&StealCandidate { known_penalty_ns: 12_000, ..unknown }, STEAL_NS));
        assert!(!Stealing::Learned.pays(&StealCandidate { wait_ns: 10_500, ..unknown }, STEAL_NS));
        let owner = busy(1);
        assert!(Stealing::Learned.wakes(
            &StealCandidate { wait_ns: 12_500, ..unknown },
            &owner,
            STEAL_NS,
            5_000
        ));
    }

    /// Regression: a core ran long work of its own queue, and the clients of its pinned color
    /// waited behind that work beside sleeping cores.
    #[test]
    fn a_color_goes_to_a_sleeping_core_before_it_waits() {
        let goes = |wait_ns, queued_ns, gives_way| {
            let color = StealCandidate { wait_ns, queued_ns, ..COLOR };
            Stealing::Learned.hands_over(&color, &busy(0), gives_way, (STEAL_NS, 5_000))
        };
        assert!(goes(8_000, 10_000, false));
        assert!(!goes(3_000, 10_000, false), "the color ends earlier in its place");
        assert!(!goes(8_000, 4_000, false), "a short color does not repay the wake-up");
        assert!(!goes(0, 20_000, false), "no color waits behind it");
        assert!(goes(0, 20_000, true), "the color would hold up a pinned color");
        assert!(!Stealing::TimeLeft.hands_over(&COLOR, &busy(9), true, (0, 0)));
    }

    #[test]
    fn a_color_does_not_bounce() {
        assert!(!Stealing::Learned.pays(&StealCandidate { since_move_ns: 5_000, ..COLOR }, STEAL_NS));
    }

    #[test]
    fn short_events_wake_no_core() {
        let short = StealCandidate { queued_ns: 2_000, wait_ns: 2_000, ..COLOR };
        assert!(!Stealing::Learned.wakes(&short, &busy(1), STEAL_NS, 5_000));
        assert!(Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 5_000));
        assert!(Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 8_000));
        assert!(!Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 9_000), "it has begun by then");
        assert!(Stealing::Anything.wakes(&short, &busy(1), STEAL_NS, 5_000));
        assert!(!Stealing::TimeLeft.wakes(
            &COLOR,
            &CoreLoad { waiting: 1, ..CoreLoad::default() },
            STEAL_NS,
            5_000
        ));
    }

    /// Regression: thieves ignored the speed of cores, so slow cores took work that a fast core
    /// would have ended earlier.
    #[test]
    fn slow_thief_leaves_colors_that_end_later_there() {
        let behind = StealCandidate { queued_ns: 100_000, wait_ns: 50_000, ..COLOR };
        let on_slow = StealCandidate { slower_ns: 80_000, ..behind };
        assert!(Stealing::Learned.pays(&behind, STEAL_NS));
        assert!(!Stealing::Learned.pays(&on_slow, STEAL_NS));
        assert!(Stealing::Learned.pays(&StealCandidate { wait_ns: 60_000, ..on_slow }, STEAL_NS));
        let on_fast = StealCandidate { wait_ns: 0, slower_ns: -40_000, ..behind };
        assert!(Stealing::Learned.hurries(&on_fast, (STEAL_NS, 5_000)));
        assert!(!Stealing::Learned.hurries(&on_fast, (STEAL_NS, 39_000)));
        assert!(!Stealing::Learned.hurries(&behind, (STEAL_NS, 5_000)));
    }

    #[test]
    fn batch_of_long_events_ends_with_turn() {
        assert_eq!(Stealing::Learned.batch(32, 50 * 400_000, 50), 2);
        assert_eq!(Stealing::Learned.batch(32, 5_000_000, 1), 1);
        assert_eq!(Stealing::Learned.batch(32, 50 * 10_000, 50), 32);
        assert_eq!(Stealing::TimeLeft.batch(32, 50 * 400_000, 50), 32);
    }

    #[test]
    fn work_gives_way_to_frequent_fixed_colors() {
        let mut pace = FixedPace::default();
        (0..20).for_each(|step| pace.observe(1, step * 10_000));
        assert!(Stealing::Learned.gives_way(300_000, &pace, 195_000));
        assert!(!Stealing::Learned.gives_way(5_000, &pace, 195_000));
        assert!(!Stealing::TimeLeft.gives_way(300_000, &pace, 195_000));
        assert!(Stealing::Learned.gives_way(100_000, &pace, 300_000), "a batch may have taken the time");
        let waits = |wait_ns| StealCandidate { wait_ns, queued_ns: 100_000, ..COLOR };
        assert!(Stealing::Learned.leaves_to_others(&waits(499_000), &pace, 300_000));
        assert!(!Stealing::Learned.leaves_to_others(&waits(500_000), &pace, 300_000));
    }

    /// Regression: no single event of a thousand short events repaid a slow wake-up.
    #[test]
    fn many_short_events_repay_a_wake_together() {
        let (steal_ns, wake_ns) = (200, 30_000);
        let one = |waiting: u32| {
            let color = StealCandidate {
                queued_ns: 1_000,
                penalty_ns: 100,
                known_penalty_ns: 100,
                wait_ns: busy(waiting).wait_ns(0),
                slower_ns: 0,
                since_move_ns: u64::MAX,
            };
            Stealing::Learned.wakes(&color, &busy(waiting), steal_ns, wake_ns)
        };
        assert!(!one(50));
        assert!(one(70));
    }

    #[test]
    fn work_shorter_than_wake_up_stays_on_posting_core() {
        let short = StealCandidate { queued_ns: 500, ..COLOR };
        assert!(Stealing::Learned.moves_to_poster(&short, 3_000));
        assert!(!Stealing::Learned.moves_to_poster(&StealCandidate { penalty_ns: 2_500, ..short }, 3_000));
        assert!(!Stealing::Learned.moves_to_poster(&StealCandidate { wait_ns: 1_000_000, ..short }, 3_000));
        assert!(!Stealing::Learned.moves_to_poster(&COLOR, 3_000));
        assert!(!Stealing::TimeLeft.moves_to_poster(&short, 3_000));
    }

    /// Regression: a thief that emptied its victim slept at once, and was woken for each of the
    /// next few colors.
    #[test]
    fn only_recent_thief_lingers() {
        assert!(Stealing::Learned.spins(0));
        assert!(!Stealing::Learned.spins(1));
        assert!(!Stealing::TimeLeft.spins(0), "Mely's thieves are as the document has them");
    }

    #[test]
    fn the_sentinel_looks_when_patience_ends_and_not_for_nothing() {
        let learned = Stealing::Learned;
        assert_eq!(learned.look_again_ns(&busy(3), 0, STEAL_NS, 0), Some(16_000));
        assert_eq!(learned.look_again_ns(&busy(3), 15_000, STEAL_NS, 2), Some(64_000));
        assert_eq!(learned.look_again_ns(&busy(3), 0, STEAL_NS, u32::MAX), Some(WATCH_NS));
        assert_eq!(learned.look_again_ns(&busy(0), 0, STEAL_NS, 0), Some(WATCH_NS));
        assert_eq!(learned.look_again_ns(&CoreLoad::default(), 0, STEAL_NS, 0), None);
        assert_eq!(Stealing::TimeLeft.look_again_ns(&busy(3), 0, STEAL_NS, 0), None);
    }

    #[test]
    fn half_of_the_difference_is_taken_in_time_not_in_number() {
        assert_eq!(Stealing::Learned.amount_ns(100_000, 20_000), 40_000);
        assert_eq!(Stealing::Learned.amount_ns(1_000, 20_000), 0);
        assert_eq!(Stealing::TimeLeft.amount_ns(100_000, 0), 0);
    }
}
