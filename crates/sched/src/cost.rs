//! The cost of a handler, and the extra cost after a move: learned from timestamps alone.
//!
//! A run is *warm* if the color last ran on the same core, and no other core posted the event.
//! Otherwise the run is *cold*, at the distance of the color's move or of the poster. The mean of
//! the warm runs is the handler's cost. A core without recent warm runs takes the cost from the
//! cores that have them. The mean extra time of cold runs is the handler's penalty at that
//! distance. Until enough cold runs were seen, the penalty is an upper bound, because the scheduler
//! takes no unknown risk. Annotations are priors, forgotten as samples arrive. Leaves out the
//! choice of timed runs
//! (`budget::Sampler`), the counting of cache misses, and the time that a color spends off its core
//! while staying in place. The load of a core comes from the core's counters and not from these
//! means, because the means cap outliers. Tested in `cost/tests.rs`.

use crate::Distance;
use change::ChangeDetector;

mod change;
mod ewma;
mod interruption;
mod miss_cost;
mod steal;
mod table;
#[cfg(test)]
mod tests;

pub use ewma::Ewma;
pub use interruption::Interruptions;
pub use miss_cost::MissCost;
pub use steal::StealCost;
pub use table::CostTable;

/// Cold runs at a distance after which the mean replaces the upper bound. With a spread as large as
/// the mean, eight samples leave an error of a third. That suffices to choose between moving and
/// staying, which differ by more.
pub const PENALTY_SURE: u32 = 8;

/// Warm runs after which the mean is believed and outliers are distinguished from changes. As
/// [`PENALTY_SURE`].
pub const COST_SURE: u32 = 8;

/// Warm runs after which an annotated cost is forgotten. Guess: an annotation is about as good as
/// four measurements.
const COST_HINT_SAMPLES: u32 = 4;

/// The multiple of the mean that a run may count. A thread that loses the cpu for a time slice (a
/// millisecond or more) would otherwise move the mean of a microsecond's handler by thirty times. A
/// run beyond eight times the mean counts as such an accident until the change detector has seen
/// three.
const OUTLIER: f32 = 8.0;

/// Consecutive interrupted runs that are ignored. A handler that is interrupted every time takes
/// that long on this machine, so the next run counts. As many as make a change.
const INTERRUPTED_MOST: u8 = 3;

/// The least assumed spread, as a share of the mean, because clocks have an error of a few
/// nanoseconds and a change of a thirtieth is no change of phase. Simulated: half or twice as much
/// changes no rate of the shipped workloads by more than 0.6 % in the mean of three seeds.
const SPREAD_MIN: f32 = 1.0 / 16.0;

/// The assumed cost of a handler that has neither run nor been annotated: a short event. A start
/// value, which the first timed run replaces.
const COST_UNKNOWN_NS: u64 = 1_000;

/// The upper bound of an unknown penalty, in costs of the handler, by class of distance. A handler
/// that only waits for data would be slowed by the ratio of latencies: about 3 from L2 to L3, 7 to
/// memory, 10 to another node's memory (4, 12, 90 and 130 ns are common). The bound is that ratio,
/// less the warm run.
const UNKNOWN_COSTS: [f32; Distance::CLASSES] = [0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0];

/// One timed run of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSample {
    /// Run time in nanoseconds.
    pub run_ns: u64,
    /// The distance of the color's move since the color's last run; `None` if the color last ran
    /// here.
    pub cold: Option<Distance>,
    /// Whether the thread lost the cpu during the run, so that the time says little about the
    /// handler.
    pub interrupted: bool,
}

/// The cost that warm runs of all cores show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmCost {
    /// Expected time of a warm run in nanoseconds.
    pub cost_ns: u64,
    /// Whether a core has noticed a change of the cost since this core's last timed run.
    pub has_changed: bool,
}

/// The source of a core's mean of warm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WarmSource {
    /// No run, or the first cold run.
    #[default]
    Guess,
    /// Warm runs of this core.
    Own,
    /// Warm runs of other cores.
    Others,
}

/// The author's annotations of a handler, as in Mely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostHint {
    /// Expected time of a warm run in nanoseconds; 0 if not annotated.
    pub cost_ns: u32,
    /// The factor by which a move may lengthen a run: 1 for a handler that touches no data of its
    /// own, 0 if not annotated.
    pub penalty: u32,
}

/// The learned costs of a handler on one core, or on all cores after a merge: two cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(align(64))]
pub struct HandlerCost {
    warm: Ewma<32>,
    change: ChangeDetector,
    cost_hint: CostHint,
    /// Number of phases seen, less one.
    changes: u16,
    /// Consecutive interrupted runs that were ignored.
    interrupted: u8,
    /// The source of the mean of warm runs.
    source: WarmSource,
    /// Cold runs since the last warm run, up to [`COST_SURE`].
    cold_in_row: u8,
    /// Recent warm runs, halved by [`HandlerCost::fade`], because fresh knowledge weighs more in a
    /// merge.
    fresh: u16,
    /// Time beyond the warm mean, by class of distance less one. The mean moves faster, because
    /// fewer runs are cold and caches change with the load.
    beyond: [Ewma<16>; Distance::CLASSES - 1],
}

const _: () = assert!(size_of::<HandlerCost>() <= 128);

impl HandlerCost {
    /// A handler that has not run.
    pub fn new(cost_hint: CostHint) -> Self {
        Self { cost_hint, ..Self::default() }
    }

    /// Adds a timed run.
    pub fn observe(&mut self, sample: RunSample) {
        self.observe_beside(sample, None);
    }

    /// Adds a timed run. `others`: the cost that warm runs of any core show, if there were enough.
    ///
    /// A core that runs the handler cold only, for example because each event comes from another
    /// core, cannot tell a change of the cost from a penalty. Such a core takes the cost of a warm
    /// run from the others.
    pub fn observe_beside(&mut self, sample: RunSample, others: Option<WarmCost>) {
        if sample.interrupted && self.interrupted < INTERRUPTED_MOST {
            self.interrupted += 1;
            return;
        }
        self.interrupted = 0;
        let run_ns = sample.run_ns as f32;
        match sample.cold {
            None | Some(Distance::Same) => self.observe_warm(run_ns),
            Some(distance) => self.observe_cold(run_ns, distance, others),
        }
    }

    fn observe_cold(&mut self, run_ns: f32, distance: Distance, others: Option<WarmCost>) {
        self.cold_in_row = self.cold_in_row.saturating_add(1).min(COST_SURE as u8);
        match others {
            Some(others) if !self.runs_warm() => {
                let rise_ns = others.cost_ns as f32 - self.warm.mean();
                self.warm.restart(others.cost_ns as f32);
                let former = std::mem::replace(&mut self.source, WarmSource::Others);
                if others.has_changed || former != WarmSource::Others {
                    self.doubt_penalties(rise_ns);
                }
            }
            // Before any warm run, a cold run is the best guess of the cost, and says nothing about
            // the penalty.
            _ if self.warm.samples() == 0 => return self.warm.restart(run_ns),
            _ => {}
        }
        let class = distance.class();
        let most = OUTLIER * (self.warm.mean() * (1.0 + UNKNOWN_COSTS[class]));
        self.beyond[class - 1].observe(run_ns.min(most) - self.warm.mean());
    }

    /// Whether the mean of warm runs is this core's own and recent.
    pub fn runs_warm(&self) -> bool {
        self.source == WarmSource::Own && u32::from(self.cold_in_row) < COST_SURE
    }

    /// Whether no warm run has shown the cost, on this core or on another.
    pub fn is_guess(&self) -> bool {
        self.source == WarmSource::Guess
    }

    fn observe_warm(&mut self, run_ns: f32) {
        self.fresh = self.fresh.saturating_add(1);
        (self.source, self.cold_in_row) = (WarmSource::Own, 0);
        if self.warm.samples() < COST_SURE {
            return self.warm.observe(run_ns);
        }
        let mean = self.warm.mean();
        let run_ns = run_ns.min(OUTLIER * mean);
        let spread = self.warm.deviation().max(SPREAD_MIN * mean).max(1.0);
        if self.change.alarms((run_ns - mean) / spread) {
            self.changes = self.changes.saturating_add(1);
            self.warm.restart(run_ns);
            self.doubt_penalties(run_ns - mean);
        } else {
            self.warm.observe(run_ns);
        }
    }

    /// Lowers the confidence in the penalties, because the cost has risen by `rise_ns`. Cold runs
    /// since the change have counted the rise, or a fall, as penalty.
    fn doubt_penalties(&mut self, rise_ns: f32) {
        for beyond in &mut self.beyond {
            let (least, most) = (beyond.mean().min(0.0), beyond.mean().max(0.0));
            beyond.shift((beyond.mean() - rise_ns).clamp(least, most) - beyond.mean());
            beyond.doubt(PENALTY_SURE / 2);
        }
    }

    /// Expected time of a warm run, in nanoseconds, at least 1.
    pub fn estimate_ns(&self) -> u64 {
        let samples = self.warm.samples();
        let mean = self.warm.mean();
        let cost_hint = self.cost_hint.cost_ns as f32;
        let estimate = match samples {
            0 if self.cost_hint.cost_ns == 0 => return COST_UNKNOWN_NS,
            0 => cost_hint,
            1..COST_HINT_SAMPLES if self.cost_hint.cost_ns > 0 => {
                let share = samples as f32 / COST_HINT_SAMPLES as f32;
                share * mean + (1.0 - share) * cost_hint
            }
            _ => mean,
        };
        (estimate as u64).max(1)
    }

    /// Extra time of a run after a move over this distance, in nanoseconds: the mean once
    /// [`PENALTY_SURE`] runs were seen, and until then the upper bound.
    pub fn penalty_ns(&self, distance: Distance) -> u64 {
        if self.is_sure(distance) { self.mean_penalty_ns(distance) } else { self.penalty_upper_ns(distance) }
    }

    /// As [`HandlerCost::penalty_ns`], where all cores together have timed `runs` cold runs. If
    /// these are enough, a single cold run on this core replaces the bound, because otherwise each
    /// of a hundred cores would fear a move that the others have measured.
    pub fn penalty_among_ns(&self, distance: Distance, runs: u32) -> u64 {
        match runs >= PENALTY_SURE && self.has_seen(distance) {
            true => self.mean_penalty_ns(distance),
            false => self.penalty_ns(distance),
        }
    }

    /// The penalty as far as measurements and the author show one, in nanoseconds: the mean once it
    /// is sure, before that the mean of the runs so far, an annotation, or the penalty that was
    /// learned at a smaller distance.
    pub fn penalty_known_ns(&self, distance: Distance) -> u64 {
        let Some(index) = distance.class().checked_sub(1) else { return 0 };
        let near_ns = self.penalty_lower_ns(distance);
        if self.is_sure(distance) {
            return self.mean_penalty_ns(distance);
        }
        let seen_ns = match (self.beyond[index].samples(), self.cost_hint.penalty) {
            (0, 0) => 0,
            (0, penalty) => u64::from(penalty - 1) * self.estimate_ns(),
            _ => self.mean_penalty_ns(distance),
        };
        seen_ns.max(near_ns).min(self.penalty_upper_ns(distance))
    }

    /// Upper confidence bound of the penalty, in nanoseconds.
    pub fn penalty_upper_ns(&self, distance: Distance) -> u64 {
        let class = distance.class();
        if class == 0 {
            return 0;
        }
        let beyond = &self.beyond[class - 1];
        let unseen = 1.0 - beyond.samples().min(PENALTY_SURE) as f32 / PENALTY_SURE as f32;
        let doubt = unseen * (self.unknown_ns(class) - beyond.mean()).max(0.0);
        let margin = if beyond.samples() < 2 { 0.0 } else { beyond.upper() - beyond.mean() };
        (beyond.mean() + doubt.max(margin)).max(0.0) as u64
    }

    /// Lower confidence bound of the penalty, in nanoseconds: the learned penalty at this distance,
    /// or else at the next nearer distance.
    pub fn penalty_lower_ns(&self, distance: Distance) -> u64 {
        let sure = |beyond: &&Ewma<16>| beyond.samples() >= PENALTY_SURE;
        let learned = self.beyond[..distance.class()].iter().rfind(sure);
        learned.map_or(0, |beyond| beyond.mean().max(0.0) as u64)
    }

    /// The expected penalty at an untried distance: a multiple of the cost, but at least the
    /// penalty learned nearer and at most the penalty learned farther.
    fn unknown_ns(&self, class: usize) -> f32 {
        let times = match self.cost_hint.penalty {
            0 => UNKNOWN_COSTS[class],
            penalty => (penalty - 1) as f32,
        };
        let (near, far) = self.beyond.split_at(class - 1);
        let sure = |beyond: &&Ewma<16>| beyond.samples() >= PENALTY_SURE;
        let least = near.iter().rfind(sure).map_or(0.0, Ewma::mean);
        let most = far.iter().skip(1).find(sure).map_or(f32::INFINITY, Ewma::mean).max(least);
        (times * self.estimate_ns() as f32).clamp(least, most)
    }

    fn mean_penalty_ns(&self, distance: Distance) -> u64 {
        distance.class().checked_sub(1).map_or(0, |index| self.beyond[index].mean().max(0.0) as u64)
    }

    /// Whether any cold run over this distance was timed.
    pub fn has_seen(&self, distance: Distance) -> bool {
        distance.class().checked_sub(1).is_some_and(|index| self.beyond[index].samples() > 0)
    }

    /// Whether the penalty at this distance is learned and not merely bounded.
    pub fn is_sure(&self, distance: Distance) -> bool {
        distance.class().checked_sub(1).is_none_or(|index| self.beyond[index].samples() >= PENALTY_SURE)
    }

    /// Whether the cost is learned and not assumed. Until then every run is worth timing.
    #[cfg(test)]
    pub(crate) fn knows_cost(&self) -> bool {
        self.warm.samples() >= COST_SURE
    }

    /// Lower and upper confidence bounds of the cost, in nanoseconds; `None` before the second warm
    /// run.
    #[cfg(test)]
    pub(crate) fn bounds_ns(&self) -> Option<(u64, u64)> {
        (self.warm.samples() > 1).then(|| (self.warm.lower().max(0.0) as u64, self.warm.upper() as u64))
    }

    /// The number of detected changes of behaviour.
    pub fn changes(&self) -> u16 {
        self.changes
    }

    /// Called once per round of control: halves the weight of older runs in a merge.
    pub fn fade(&mut self) {
        self.fresh /= 2;
    }

    /// Merges another core's knowledge of the same handler. Merge into a fresh copy, because data
    /// that is merged twice counts twice.
    pub fn merge(&mut self, other: &Self) {
        let weight = |cost: &Self| cost.warm.weight() * (1.0 + f32::from(cost.fresh));
        let (own, others) = (weight(self), weight(other));
        self.warm.merge(&other.warm, own, others);
        for (own, other) in self.beyond.iter_mut().zip(&other.beyond) {
            own.merge(other, own.weight(), other.weight());
        }
        self.changes = self.changes.max(other.changes);
        self.fresh = self.fresh.saturating_add(other.fresh);
        if self.cost_hint == CostHint::default() {
            self.cost_hint = other.cost_hint;
        }
    }
}
