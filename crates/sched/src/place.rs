//! Cores by index, sets of cores, placements of colors, and leaders that colors follow.
//!
//! Leaves out the choice of a core among the allowed cores: `policy.rs`. Tested below.

use std::{fmt, sync::Arc};

/// Index of a core of the runtime: position in the runtime's list of cores, not a cpu number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CoreIndex(pub u32);

impl fmt::Display for CoreIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}", self.0)
    }
}

/// Index of a handler of the runtime: position in the order of registration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandlerIndex(pub u32);

/// A set of cores of a runtime.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CoreSet(Vec<u64>);

impl CoreSet {
    /// Whether the set contains `core`.
    pub fn contains(&self, core: CoreIndex) -> bool {
        self.0.get(core.0 as usize / 64).is_some_and(|word| word >> (core.0 % 64) & 1 == 1)
    }

    /// The cores, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = CoreIndex> + '_ {
        (0..self.0.len() as u32 * 64).map(CoreIndex).filter(|core| self.contains(*core))
    }

    /// The number of cores.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<CoreIndex> for CoreSet {
    fn from_iter<I: IntoIterator<Item = CoreIndex>>(cores: I) -> Self {
        let mut words = Vec::new();
        for core in cores {
            let word = core.0 as usize / 64;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (core.0 % 64);
        }
        Self(words)
    }
}

/// The cores on which a color may live.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Any core that the policy chooses.
    #[default]
    Any,
    /// Only this core.
    Core(CoreIndex),
    /// Any core of this set, for example the cores of a cache or a node.
    Cores(Arc<CoreSet>),
}

impl Placement {
    /// Whether a color of this placement may run on `core`.
    pub fn allows(&self, core: CoreIndex) -> bool {
        match self {
            Self::Any => true,
            Self::Core(only) => *only == core,
            Self::Cores(cores) => cores.contains(core),
        }
    }

    /// Whether the placement allows a single core only.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Core(_) => true,
            Self::Cores(cores) => cores.len() == 1,
        }
    }
}

/// The leader that a color follows: whenever an event is posted to the empty color, the color goes
/// to the leader's core, and stays until the color is empty again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Leader {
    /// The poster to the empty color.
    Producer,
    /// The handler, on the core where an event of the handler last began.
    Handler(HandlerIndex),
}

impl Leader {
    /// The core of an empty follower that `poster` posts to; `ran_on`: the core where a handler
    /// last ran. None if the leader has no core yet: the follower stays in place.
    #[inline]
    pub fn core(
        self,
        poster: Option<CoreIndex>,
        ran_on: impl FnOnce(HandlerIndex) -> Option<CoreIndex>,
    ) -> Option<CoreIndex> {
        match self {
            Self::Producer => poster,
            Self::Handler(leader) => ran_on(leader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_holds_given_members() {
        let cores = [3, 64, 129].map(CoreIndex);
        let set: CoreSet = cores.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), cores);
        assert_eq!((set.len(), set.contains(CoreIndex(4)), set.contains(CoreIndex(1000))), (3, false, false));
        assert!(CoreSet::default().is_empty());
    }

    #[test]
    fn placement_allows_named_cores() {
        let some = Placement::Cores(Arc::new([1, 2].map(CoreIndex).into_iter().collect()));
        assert!(some.allows(CoreIndex(2)) && !some.allows(CoreIndex(0)) && !some.is_fixed());
        assert!(Placement::Core(CoreIndex(1)).is_fixed() && Placement::Any.allows(CoreIndex(9)));
    }

    #[test]
    fn a_follower_goes_where_its_leader_was() {
        let ran_on = |handler: HandlerIndex| (handler.0 == 3).then_some(CoreIndex(7));
        let poster = Some(CoreIndex(2));
        assert_eq!(Leader::Producer.core(poster, ran_on), poster);
        assert_eq!(Leader::Producer.core(None, ran_on), None);
        assert_eq!(Leader::Handler(HandlerIndex(3)).core(poster, ran_on), Some(CoreIndex(7)));
        assert_eq!(Leader::Handler(HandlerIndex(4)).core(poster, ran_on), None, "has been nowhere");
    }
}
