//! Which cores sleep, run something, or have something to give: a bit each, so that a machine of 128 cores on which
//! little happens is asked about in two words.
//!
//! Owns the bits and the order in which a thief goes through them; when they change is the world's affair. Leaves out
//! what the bits mean to the scheduler. Tested below; against the cores themselves by `audit.rs`.

use vermeil_sched::{CoreIndex, Layout};

/// A set of cores.
#[derive(Clone, Debug)]
pub(crate) struct CoreSet {
    words: Vec<u64>,
}

impl CoreSet {
    /// None of so many cores.
    pub(crate) fn none(cores: usize) -> Self {
        Self { words: vec![0; cores.div_ceil(64)] }
    }

    /// All of so many cores.
    pub(crate) fn all(cores: usize) -> Self {
        let mut set = Self::none(cores);
        (0..cores as u32).for_each(|core| set.insert(CoreIndex(core)));
        set
    }

    /// Puts a core in.
    pub(crate) fn insert(&mut self, core: CoreIndex) {
        self.words[core.0 as usize / 64] |= 1 << (core.0 % 64);
    }

    /// Takes a core out.
    pub(crate) fn remove(&mut self, core: CoreIndex) {
        self.words[core.0 as usize / 64] &= !(1 << (core.0 % 64));
    }

    /// Whether the core is in it.
    pub(crate) fn contains(&self, core: CoreIndex) -> bool {
        self.words[core.0 as usize / 64] >> (core.0 % 64) & 1 == 1
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The cores, by index.
    pub(crate) fn iter(&self) -> Members<'_> {
        Members { words: &self.words, at: 0, rest: self.words.first().copied().unwrap_or(0) }
    }
}

/// The cores of a set, by index.
pub(crate) struct Members<'a> {
    words: &'a [u64],
    at: usize,
    /// What is left of the word at `at`.
    rest: u64,
}

impl Iterator for Members<'_> {
    type Item = CoreIndex;

    fn next(&mut self) -> Option<CoreIndex> {
        while self.rest == 0 {
            self.at += 1;
            self.rest = *self.words.get(self.at)?;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(CoreIndex(self.at as u32 * 64 + bit))
    }
}

/// What one core's looks at its neighbours take, nearest first: alike at one distance, so a few numbers for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Looks(Vec<Group>);

/// Neighbours at one distance.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// How many stand before it, and what looking at all of those takes.
    first: usize,
    before_ns: u64,
    each_ns: u64,
}

impl Looks {
    /// Groups of so many, each of whom takes so long to look at.
    pub(crate) fn new(groups: impl Iterator<Item = (usize, u64)>) -> Self {
        let (mut first, mut before_ns) = (0, 0);
        let group = |(count, each_ns): (usize, u64)| {
            let group = Group { first, before_ns, each_ns };
            (first, before_ns) = (first + count, before_ns + count as u64 * each_ns);
            group
        };
        Self(groups.map(group).collect())
    }

    /// What looking at the first so many takes.
    pub(crate) fn upto_ns(&self, count: usize) -> u64 {
        let group = self.0.iter().rfind(|group| group.first <= count);
        group.map_or(0, |group| group.before_ns + (count - group.first) as u64 * group.each_ns)
    }
}

/// By core, the place of every other among its neighbours, nearest first.
#[derive(Clone, Debug)]
pub(crate) struct Ranks(Vec<Vec<u16>>);

impl Ranks {
    /// Those of a layout.
    pub(crate) fn new(layout: &Layout) -> Self {
        let row = |core: CoreIndex| {
            let mut row = vec![u16::MAX; layout.cores()];
            for (rank, other) in (0..).zip(layout.neighbours(core)) {
                row[other.0 as usize] = rank;
            }
            row
        };
        Self(layout.indices().map(row).collect())
    }

    /// The members of a set in the order in which this core goes through its neighbours, itself left out.
    pub(crate) fn sort(&self, core: CoreIndex, set: &CoreSet, ranks: &mut Vec<u16>) {
        let row = &self.0[core.0 as usize];
        ranks.clear();
        for other in set.iter().filter(|&other| other != core) {
            ranks.push(row[other.0 as usize]);
        }
        if ranks.len() > 1 {
            ranks.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile;

    #[test]
    fn what_was_put_in_comes_out_by_index() {
        let mut set = CoreSet::none(200);
        let cores = [CoreIndex(0), CoreIndex(63), CoreIndex(64), CoreIndex(199)];
        cores.iter().rev().for_each(|&core| set.insert(core));
        assert!(set.iter().eq(cores) && set.contains(CoreIndex(63)) && !set.contains(CoreIndex(62)));
        cores.iter().for_each(|&core| set.remove(core));
        assert!(set.is_empty());
        assert_eq!(CoreSet::all(130).iter().count(), 130);
    }

    #[test]
    fn looks_add_up_from_group_to_group() {
        let looks = Looks::new([(2, 10), (3, 100)].into_iter());
        assert_eq!([0, 1, 2, 3, 5].map(|count| looks.upto_ns(count)), [0, 10, 20, 120, 320]);
        assert_eq!(Looks::new(std::iter::empty()).upto_ns(0), 0);
    }

    #[test]
    fn the_nearest_come_first_and_oneself_not_at_all() {
        let machine = profile("numa-4x32").unwrap();
        let layout = machine.layout();
        let (ranks, mut sorted) = (Ranks::new(layout), Vec::new());
        let thief = CoreIndex(5);
        ranks.sort(thief, &CoreSet::all(layout.cores()), &mut sorted);
        assert!(sorted.iter().copied().eq(0..layout.cores() as u16 - 1));
        let mut two = CoreSet::none(layout.cores());
        let (near, far) = (layout.neighbours(thief)[3], layout.neighbours(thief)[90]);
        [near, far, thief].into_iter().for_each(|core| two.insert(core));
        ranks.sort(thief, &two, &mut sorted);
        assert_eq!(sorted, [3, 90]);
    }
}
