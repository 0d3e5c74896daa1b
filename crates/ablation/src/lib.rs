//! Switches that turn single mechanisms off, so that `cargo xtask bench mechanisms` can measure the
//! gain of each.
//!
//! A mechanism on the path of a request, or in the scheduler, asks its switch where the mechanism
//! would act. Builds for tests, and a release with the feature `switches`, read the answers once
//! from the environment variable [`VARIABLE`]. In every other release the answer is a constant, so
//! the compiler removes the question.
//!
//! Leaves out the measurement (`crates/bench/src/mechanisms.rs`) and the mechanisms themselves.

/// The environment variable with the names of the mechanisms that are turned off, separated by
/// commas.
pub const VARIABLE: &str = "VERMEIL_WITHOUT";

/// A mechanism with a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A receive is tried before the socket is known to have input (`crates/io`).
    SpeculativeReceive,
    /// A core reads files itself where the file system cannot tell whether a read waits
    /// (`crates/io`).
    UntoldReads,
    /// A path enters the cache at its fourth request within a second (`crates/files`).
    Doorkeeper,
    /// The state of a folder is taken once a second (`crates/files`).
    FolderLooks,
    /// A color that a short event wakes runs next (`crates/sched`).
    LifoSlot,
    /// A color that would wait goes to a sleeping core (`crates/sched`).
    HandOver,
    /// A color goes to a busy core with less waiting work (`crates/sched`).
    ShorterQueue,
    /// A color whose core sleeps goes to the poster's core for a short event (`crates/sched`).
    MoveToPoster,
    /// A color with more events stays on its core for some more batches (`crates/sched`).
    WarmBatch,
    /// A queue separates colors with long events from the others (`crates/sched`).
    LengthClasses,
    /// Handshakes run in idle time (`crates/server`).
    IdleTime,
    /// A core hands on work that would delay its fixed colors (`crates/sched`).
    GivesWay,
    /// A color that would run at once goes to a faster sleeping core (`crates/sched`).
    FasterCore,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 13] = [
        Self::SpeculativeReceive,
        Self::UntoldReads,
        Self::Doorkeeper,
        Self::FolderLooks,
        Self::LifoSlot,
        Self::HandOver,
        Self::ShorterQueue,
        Self::MoveToPoster,
        Self::WarmBatch,
        Self::LengthClasses,
        Self::IdleTime,
        Self::GivesWay,
        Self::FasterCore,
    ];

    /// The name in [`VARIABLE`] and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpeculativeReceive => "speculative receive",
            Self::UntoldReads => "untold reads",
            Self::Doorkeeper => "doorkeeper",
            Self::FolderLooks => "folder looks",
            Self::LifoSlot => "LIFO slot",
            Self::HandOver => "hand-over",
            Self::ShorterQueue => "shorter queue",
            Self::MoveToPoster => "move to poster",
            Self::WarmBatch => "warm batch",
            Self::LengthClasses => "length classes",
            Self::IdleTime => "idle time",
            Self::GivesWay => "gives way",
            Self::FasterCore => "faster core",
        }
    }

    /// Whether this process runs without the mechanism. Always false in a release without the
    /// feature `switches`.
    #[inline]
    pub fn is_off(self) -> bool {
        #[cfg(any(debug_assertions, feature = "switches"))]
        return switches::off() & 1 << self as u32 != 0;
        #[cfg(not(any(debug_assertions, feature = "switches")))]
        false
    }
}

#[cfg(any(debug_assertions, feature = "switches"))]
mod switches {
    use super::{Mechanism, VARIABLE};
    use std::sync::OnceLock;

    /// A bit for each mechanism that is off.
    pub(super) fn off() -> u32 {
        static OFF: OnceLock<u32> = OnceLock::new();
        *OFF.get_or_init(|| std::env::var(VARIABLE).map_or(0, |names| bits(&names)))
    }

    fn bits(names: &str) -> u32 {
        let bit = |name: &str| {
            let named = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
            1 << named.unwrap_or_else(|| panic!("{VARIABLE}: no mechanism is called {name:?}")) as u32
        };
        names.split(',').filter(|name| !name.is_empty()).fold(0, |bits, name| bits | bit(name))
    }

    #[test]
    fn names_are_found_and_a_wrong_name_is_an_error() {
        assert_eq!(bits(""), 0);
        assert_eq!(bits("speculative receive,doorkeeper"), 0b101);
        assert!(std::panic::catch_unwind(|| bits("door")).is_err());
    }
}
