//! Where a color lives: the placement policies.
//!
//! Owns the choice of a core for a new color. Leaves out the move itself. Tested below.

use std::fmt;

/// Index of a core of the runtime: position in its list of cores, not a cpu number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CoreIndex(pub u32);

impl fmt::Display for CoreIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}", self.0)
    }
}

/// Where a color may live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Wherever the policy puts it.
    #[default]
    Any,
    /// On this core and no other.
    Core(CoreIndex),
}

/// How colors find their cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// A color goes to the core that its number hashes to and stays there: Libasync-SMP's placement without its
    /// stealing.
    #[default]
    None,
}

impl Policy {
    /// The core for a new color with number `color`, among `cores` (at least one).
    ///
    /// # Panics
    /// When `cores` is zero or the placement names a core that does not exist: a fault of the caller.
    pub fn place(self, color: u64, placement: Placement, cores: usize) -> CoreIndex {
        assert!(cores > 0, "a runtime has at least one core");
        match (placement, self) {
            (Placement::Core(core), _) => {
                assert!((core.0 as usize) < cores, "{core} of a runtime with {cores}");
                core
            }
            // Color numbers are given out in sequence, so the remainder spreads them evenly.
            (Placement::Any, Self::None) => CoreIndex((color % cores as u64) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_spreads_evenly_and_never_moves() {
        let mut on_core = [0; 3];
        for color in 1..=300 {
            let core = Policy::None.place(color, Placement::Any, 3);
            assert_eq!(core, Policy::None.place(color, Placement::Any, 3));
            on_core[core.0 as usize] += 1;
        }
        assert_eq!(on_core, [100; 3]);
    }

    #[test]
    fn a_placement_wins_over_the_policy() {
        let core = CoreIndex(1);
        assert_eq!(Policy::None.place(8, Placement::Core(core), 2), core);
    }
}
