//! Classes of handlers, and the division of a core's time among waiting classes.
//!
//! Each class has shares. The waiting class that has had the least time per share is next. A class
//! with a target delay jumps ahead when its first color has waited for half of the delay, but only
//! up to [`AHEAD_NS`], so a class that is always late cannot starve other classes (I12). Time is
//! charged after use. An idle class saves no time. Leaves out the waiting colors (`ready.rs`).
//! Tested below.

use std::{num::NonZeroU32, time::Duration};

/// Maximum number of classes, including the default class, because each decision examines all
/// classes.
pub const CLASSES_MAX: usize = 8;

/// Maximum lead of a class over its share because of the target delay: the limit on the delay that
/// other classes have by another class's target, five turns.
pub const AHEAD_NS: u64 = 5_000_000;

/// Resolution of time per share, so that short times of classes with many shares count.
const FINENESS: u128 = 1 << 20;

/// Position of a class among the classes of the runtime; 0 is the default class of handlers without
/// a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassIndex(pub u8);

impl ClassIndex {
    /// In a ready queue without classes: the colors whose last timed event was long.
    pub const LONG: Self = Self(1);

    /// In a ready queue without classes: the part of the queue for a color.
    #[inline]
    pub fn by_length(is_long: bool) -> Self {
        if is_long { Self::LONG } else { Self::default() }
    }
}

/// A class of handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    name: String,
    shares: NonZeroU32,
    target_delay: Option<Duration>,
}

impl Class {
    /// Shares of the default class, and of a class without explicit shares.
    pub const SHARES: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

    /// A class of this name with the default shares and no target.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), shares: Self::SHARES, target_delay: None }
    }

    /// Sets the class's part of a core's time, against the shares of the other waiting classes on
    /// the core.
    pub fn shares(mut self, shares: NonZeroU32) -> Self {
        self.shares = shares;
        self
    }

    /// Sets the desired maximum wait of a color of the class. Not a guarantee, because running
    /// events are not interrupted, and shares bound the delay of other classes.
    pub fn target_delay(mut self, target: Duration) -> Self {
        self.target_delay = Some(target);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The division of a core's time so far.
#[derive(Clone, Debug)]
pub struct ClassShares {
    classes: [ClassAccount; CLASSES_MAX],
    count: usize,
    /// Time per share of the class with the least time at the last choice: a newly waiting class
    /// starts here.
    least: u128,
    longest_ns: u64,
}

/// The time that a class has had.
#[derive(Clone, Copy, Debug, Default)]
struct ClassAccount {
    shares: u32,
    /// Half of the target delay.
    late_ns: Option<u64>,
    /// Time per share.
    had: u128,
}

impl ClassAccount {
    /// `ns` of time, divided by the shares.
    fn for_share(&self, ns: u64) -> u128 {
        u128::from(ns) * FINENESS / u128::from(self.shares.max(1))
    }
}

impl ClassShares {
    /// The default class and `classes`, none of which has run.
    ///
    /// # Panics
    /// When there are more than [`CLASSES_MAX`] classes: a fault of the caller.
    pub fn new(classes: &[Class]) -> Self {
        assert!(
            classes.len() < CLASSES_MAX,
            "a runtime has at most {CLASSES_MAX} classes, the default one included"
        );
        let mut accounts =
            [ClassAccount { shares: Class::SHARES.get(), ..ClassAccount::default() }; CLASSES_MAX];
        for (account, class) in accounts.iter_mut().skip(1).zip(classes) {
            let late_ns = |target: Duration| u64::try_from(target.as_nanos() / 2).unwrap_or(u64::MAX);
            *account =
                ClassAccount { shares: class.shares.get(), late_ns: class.target_delay.map(late_ns), had: 0 };
        }
        Self { classes: accounts, count: classes.len() + 1, least: 0, longest_ns: 0 }
    }

    /// Called when the first color of `class` starts to wait.
    pub fn arrives(&mut self, class: ClassIndex) {
        let account = &mut self.classes[usize::from(class.0)];
        account.had = account.had.max(self.least);
    }

    /// The next class among the waiting classes; `since_ns`: the time since which the first color
    /// of a class waits.
    pub fn choose(
        &mut self,
        now_ns: u64,
        since_ns: impl Fn(ClassIndex) -> Option<u64>,
    ) -> Option<ClassIndex> {
        let waiting = || (0..self.count as u8).map(ClassIndex).filter_map(|at| Some((at, since_ns(at)?)));
        let least = waiting().map(|(at, _)| at).min_by_key(|at| self.account(*at).had)?;
        let least_had = self.account(least).had;
        let late = waiting().filter_map(|(at, since_ns)| {
            let account = self.account(at);
            let late_ns = account.late_ns?;
            let is_late = now_ns.saturating_sub(since_ns) >= late_ns;
            let ahead = account.had - least_had;
            (is_late && ahead < account.for_share(AHEAD_NS)).then_some((since_ns.saturating_add(late_ns), at))
        });
        let late = late.min().map(|(_, at)| at);
        self.least = self.least.max(least_had);
        Some(late.unwrap_or(least))
    }

    /// Charges `ns` of run time to `class`.
    pub fn charge(&mut self, class: ClassIndex, ns: u64) {
        self.longest_ns = self.longest_ns.max(ns);
        let account = &mut self.classes[usize::from(class.0)];
        account.had += account.for_share(ns);
    }

    /// I12: a class that has had more time than its share, its allowance and one run, and so has
    /// delayed other classes with less; none if the invariant holds.
    pub fn overdrawn(&self) -> Option<ClassIndex> {
        let over = |at: &ClassIndex| {
            let account = self.account(*at);
            account.had > self.least + account.for_share(AHEAD_NS + self.longest_ns) + 1
        };
        (0..self.count as u8).map(ClassIndex).find(over)
    }

    fn account(&self, class: ClassIndex) -> &ClassAccount {
        &self.classes[usize::from(class.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(shares: u32, target_us: Option<u64>) -> Class {
        let class = Class::new("class").shares(NonZeroU32::new(shares).unwrap());
        match target_us {
            Some(us) => class.target_delay(Duration::from_micros(us)),
            None => class,
        }
    }

    /// Time of each class if all classes always wait.
    fn divide(shares: &mut ClassShares, classes: usize, runs_ns: &[u64], until_ns: u64) -> Vec<u64> {
        let (mut now_ns, mut had) = (0, vec![0; classes]);
        (0..classes as u8).for_each(|at| shares.arrives(ClassIndex(at)));
        while now_ns < until_ns {
            let at = shares.choose(now_ns, |at| Some(now_ns.saturating_sub(1 + u64::from(at.0)))).unwrap();
            let ns = runs_ns[usize::from(at.0)];
            shares.charge(at, ns);
            had[usize::from(at.0)] += ns;
            now_ns += ns;
        }
        had
    }

    #[test]
    fn shares_divide_time_for_any_run_length() {
        let mut shares = ClassShares::new(&[class(300, None), class(600, None)]);
        let had = divide(&mut shares, 3, &[1_000, 70_000, 3_000], 1_000_000_000);
        for (had, part) in had.iter().zip([100, 300, 600]) {
            assert!(had.abs_diff(part * 1_000_000) < 200_000, "{had} of {part} million");
        }
    }

    #[test]
    fn late_class_runs_first_until_caught_up() {
        let mut shares = ClassShares::new(&[class(100, Some(200))]);
        (0..2).for_each(|at| shares.arrives(ClassIndex(at)));
        let choose = |shares: &mut ClassShares, waited_ns: u64| {
            shares.choose(10_000_000, |at| Some(10_000_000 - if at.0 == 1 { waited_ns } else { 0 }))
        };
        shares.charge(ClassIndex(1), 1_000_000);
        assert_eq!(choose(&mut shares, 99_000), Some(ClassIndex(0)), "half of its target has not gone by");
        assert_eq!(choose(&mut shares, 100_000), Some(ClassIndex(1)));
        shares.charge(ClassIndex(1), AHEAD_NS);
        assert_eq!(choose(&mut shares, 100_000), Some(ClassIndex(0)), "it has had too much");
    }

    #[test]
    fn nothing_is_saved_up() {
        let mut shares = ClassShares::new(&[class(100, None)]);
        let only_default = |at: ClassIndex| (at.0 == 0).then_some(0);
        for _ in 0..1_000 {
            assert_eq!(shares.choose(0, only_default), Some(ClassIndex(0)));
            shares.charge(ClassIndex(0), 1_000_000);
        }
        shares.arrives(ClassIndex(1));
        shares.charge(ClassIndex(1), 2_000_000);
        assert_eq!(
            shares.choose(0, |_| Some(0)),
            Some(ClassIndex(0)),
            "a second of the past gives no second now"
        );
        assert_eq!(shares.choose(0, |_| None), None);
    }

    proptest! {
        /// I12: a class that always waits gets its share of the time, less a bound that does not
        /// grow with the time.
        #[test]
        fn no_class_is_starved(
            parts in prop::collection::vec((1u32..1_000, prop::option::of(0u64..2_000)), 1..CLASSES_MAX),
            runs in prop::collection::vec((0..CLASSES_MAX, 1u64..3_000_000, prop::bool::weighted(0.3)), 1..400),
        ) {
            let classes: Vec<Class> = parts.iter().map(|(shares, target)| class(*shares, *target)).collect();
            let mut shares = ClassShares::new(&classes);
            let of = |at: usize| if at == 0 { 100 } else { u64::from(parts[at - 1].0) };
            let sum: u64 = (0..=parts.len()).map(of).sum();
            // Class 0 always waits, the others come and go.
            let mut since = vec![None; parts.len() + 1];
            since[0] = Some(0);
            shares.arrives(ClassIndex(0));
            let (mut now_ns, mut had_ns, mut longest_ns) = (0u64, 0u64, 0u64);
            for (other, ns, toggles) in runs {
                let other = other % since.len();
                if other > 0 && toggles {
                    if since[other].is_none() {
                        shares.arrives(ClassIndex(other as u8));
                    }
                    since[other] = since[other].is_none().then_some(now_ns);
                }
                let chosen = shares.choose(now_ns, |at| since[usize::from(at.0)]).unwrap();
                shares.charge(chosen, ns);
                (now_ns, longest_ns) = (now_ns + ns, longest_ns.max(ns));
                had_ns += if chosen.0 == 0 { ns } else { 0 };
                prop_assert_eq!(shares.overdrawn(), None);
                let bound_ns = (since.len() as u64 + 1) * (AHEAD_NS + longest_ns);
                prop_assert!(had_ns + bound_ns >= now_ns * of(0) / sum, "{} of {} ns", had_ns, now_ns);
            }
        }
    }
}
