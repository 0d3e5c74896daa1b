//! The policies by name: which colors each policy steals, where the policy puts a new color, and
//! whether the policy places handlers.
//!
//! A single type chooses among mechanisms in other files: stealing in `steal.rs`, plans in `plan/`,
//! their use in `control/`. Tested below.

use crate::{CoreIndex, Layout, Placement, Stealing};
use std::{fmt, path::PathBuf, str::FromStr};

/// How colors get their cores, and the mechanism that moves colors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// A color goes to the core that its number hashes to and stays there: Libasync-SMP's placement
    /// without stealing.
    None,
    /// Libasync-SMP: as `None`, and an idle core steals the first color of the busiest core's queue
    /// that does not run.
    Libasync,
    /// Mely: steals colors worth a steal, by annotated costs and penalties, from near cores first.
    Mely,
    /// A plan places handlers; no stealing.
    Placed(PlanName),
    /// Adaptive placement: the named plans in turn, then the best plan seen, watched with
    /// hysteresis.
    Trial,
    /// N-Copy, as in Mely's evaluation: one instance per core, and instances share nothing. A color
    /// stays on the core of its creation; colors made outside of the cores are spread evenly.
    NCopy,
    /// As [`Self::Adaptive`] without placement, within a node: a color stays on the node of its
    /// creation, and is stolen within the node.
    PerNode,
    /// For tests: a color that may move runs on another core at each activation, and takes its
    /// sockets along. No stealing.
    Scatter,
    /// Steals on learned costs and places handlers by search, within a bound on regret. The
    /// default.
    #[default]
    Adaptive,
}

/// A plan for handlers, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanName {
    /// Handler `i` on core `i mod n`: parallelism first.
    RoundRobin,
    /// Consecutive handlers together.
    CacheAware,
    /// Consecutive handlers alternate between the cores of one cache.
    Intermediate1,
    /// As [`Self::Intermediate1`], in shorter runs that go around the caches twice.
    Intermediate2,
    /// A plan from a file.
    File(PathBuf),
}

/// Text that names no policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[error(
    "there is no policy `{0}`: choose none, libasync, mely, placed:PLAN, trial, ncopy, per-node or adaptive, where \
    PLAN is round-robin, cache-aware, intermediate-1, intermediate-2 or a file"
)]
pub struct UnknownPolicy(String);

impl Policy {
    /// The stealing rule of idle cores.
    pub fn stealing(&self) -> Stealing {
        match self {
            Self::None | Self::Placed(_) | Self::Trial | Self::NCopy | Self::Scatter => Stealing::Never,
            Self::Libasync => Stealing::Anything,
            Self::Mely => Stealing::TimeLeft,
            Self::PerNode | Self::Adaptive => Stealing::Learned,
        }
    }

    /// Whether colors never move between these cores.
    pub fn keeps_apart(&self, layout: &Layout, from: CoreIndex, to: CoreIndex) -> bool {
        match self {
            Self::NCopy => from != to,
            Self::PerNode => layout.node(from) != layout.node(to),
            Self::None
            | Self::Libasync
            | Self::Mely
            | Self::Placed(_)
            | Self::Trial
            | Self::Scatter
            | Self::Adaptive => false,
        }
    }

    /// Whether a color that may move runs on another core at each activation.
    pub fn scatters(&self) -> bool {
        *self == Self::Scatter
    }

    /// The core for a new color among `cores` (at least one). `number`: the color's sequence
    /// number, requested only if the choice depends on the number; `maker`: the core that makes the
    /// color, if a core does.
    ///
    /// # Panics
    /// When `cores` is zero or the placement names no existing core: a fault of the caller.
    pub fn place(
        &self,
        number: impl FnOnce() -> u64,
        placement: &Placement,
        maker: Option<CoreIndex>,
        cores: usize,
    ) -> CoreIndex {
        assert!(cores > 0, "a runtime has at least one core");
        match (placement, maker) {
            (Placement::Core(core), _) => {
                assert!((core.0 as usize) < cores, "{core} of a runtime with {cores}");
                *core
            }
            (Placement::Cores(some), _) => {
                let exist: Vec<_> = some.iter().filter(|core| (core.0 as usize) < cores).collect();
                assert!(!exist.is_empty(), "a placement names no core of a runtime with {cores}");
                exist[(number() % exist.len() as u64) as usize]
            }
            // The color's data was just in the maker's cache, and an idle core can steal the color
            // from there.
            (Placement::Any, Some(maker)) if self.places_with_maker() => maker,
            // Color numbers are given out in sequence, so the remainder spreads them evenly.
            (Placement::Any, _) => CoreIndex((number() % cores as u64) as u32),
        }
    }

    fn places_with_maker(&self) -> bool {
        matches!(self, Self::NCopy | Self::PerNode | Self::Adaptive)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Libasync => f.write_str("libasync"),
            Self::Mely => f.write_str("mely"),
            Self::Placed(plan) => write!(f, "placed:{plan}"),
            Self::Trial => f.write_str("trial"),
            Self::NCopy => f.write_str("ncopy"),
            Self::PerNode => f.write_str("per-node"),
            Self::Scatter => f.write_str("scatter"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundRobin => f.write_str("round-robin"),
            Self::CacheAware => f.write_str("cache-aware"),
            Self::Intermediate1 => f.write_str("intermediate-1"),
            Self::Intermediate2 => f.write_str("intermediate-2"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Ok(match text {
            "none" => Self::None,
            "libasync" => Self::Libasync,
            "mely" => Self::Mely,
            "trial" => Self::Trial,
            "ncopy" => Self::NCopy,
            "per-node" => Self::PerNode,
            "scatter" => Self::Scatter,
            "adaptive" => Self::Adaptive,
            _ => match text.strip_prefix("placed:") {
                None | Some("") => return Err(UnknownPolicy(text.to_owned())),
                Some("round-robin") => Self::Placed(PlanName::RoundRobin),
                Some("cache-aware") => Self::Placed(PlanName::CacheAware),
                Some("intermediate-1") => Self::Placed(PlanName::Intermediate1),
                Some("intermediate-2") => Self::Placed(PlanName::Intermediate2),
                Some(path) => Self::Placed(PlanName::File(path.into())),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distance;
    use std::sync::Arc;

    #[test]
    fn a_hash_spreads_evenly() {
        let mut on_core = [0; 3];
        for color in 1..=300 {
            on_core[Policy::None.place(|| color, &Placement::Any, Some(CoreIndex(0)), 3).0 as usize] += 1;
        }
        assert_eq!(on_core, [100; 3]);
    }

    #[test]
    fn a_placement_wins_over_the_policy() {
        let place = |placement: &Placement| Policy::Adaptive.place(|| 8, placement, Some(CoreIndex(0)), 4);
        assert_eq!(place(&Placement::Core(CoreIndex(1))), CoreIndex(1));
        let some = Placement::Cores(Arc::new([2, 3].map(CoreIndex).into_iter().collect()));
        assert!(some.allows(place(&some)));
        assert_eq!(place(&Placement::Any), CoreIndex(0));
    }

    #[test]
    fn instances_keep_colors_apart() {
        let matrix = [
            [Distance::Same, Distance::L2, Distance::Hops(1)],
            [Distance::L2, Distance::Same, Distance::Hops(1)],
            [Distance::Hops(1), Distance::Hops(1), Distance::Same],
        ];
        let layout = Layout::from_matrix(&matrix.map(Vec::from)).expect("a matrix");
        let apart = |policy: Policy, to| policy.keeps_apart(&layout, CoreIndex(0), CoreIndex(to));
        assert_eq!([0, 1, 2].map(|to| apart(Policy::NCopy, to)), [false, true, true]);
        assert_eq!([0, 1, 2].map(|to| apart(Policy::PerNode, to)), [false, false, true]);
        assert_eq!([0, 1, 2].map(|to| apart(Policy::Adaptive, to)), [false; 3]);
        assert!(!Policy::NCopy.stealing().is_on());
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let names = "none libasync mely trial ncopy per-node scatter adaptive placed:round-robin placed:cache-aware \
            placed:intermediate-1 placed:intermediate-2 placed:my/plan.toml";
        for name in names.split_whitespace() {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        for wrong in ["", "placed", "placed:", "Adaptive"] {
            assert!(wrong.parse::<Policy>().unwrap_err().to_string().contains(wrong));
        }
    }
}
