//! How the server assigns new connections to cores: the names of the modes.

use std::{fmt, str::FromStr};

/// How the server assigns new connections to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The best mode that passes a self-test: `load-aware`, `local`, or `hash` with neighbours that
    /// watch.
    #[default]
    Auto,
    /// The core that handled the packets. Neighbours watch.
    Local,
    /// By a hash of the addresses. No core watches another.
    Hash,
    /// The core that handled the packets, unless much more work waits there than elsewhere.
    /// Neighbours watch.
    LoadAware,
    /// A single core for all connections of an address. No core watches another.
    Fixed,
    /// Each core in order. No core watches another.
    RoundRobin,
}

impl Balance {
    /// All modes, with names and effects.
    pub const ALL: [(Balance, &str, &str); 6] = [
        (
            Balance::Auto,
            "auto",
            "load-aware, local or hash: the first that a self-test at start shows to work here",
        ),
        (
            Balance::Local,
            "local",
            "the core that handles the packets; neighbours relieve a core that is stuck",
        ),
        (Balance::Hash, "hash", "the kernel's choice by addresses; for comparison"),
        (
            Balance::LoadAware,
            "load-aware",
            "local, unless much more work waits there than elsewhere (CAP_BPF)",
        ),
        (Balance::Fixed, "fixed", "one core for all connections of an address; for comparison (CAP_BPF)"),
        (Balance::RoundRobin, "round-robin", "one core after the other; for comparison (CAP_BPF)"),
    ];

    /// The name of the mode.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, ..)| *mode == self).expect("all are listed").1
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        let names = || Self::ALL.map(|(_, name, _)| name).join(", ");
        found.map(|(mode, ..)| *mode).ok_or_else(|| format!("\"{text}\" is none of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (mode, name, _) in Balance::ALL {
            assert_eq!((name.parse(), mode.to_string().as_str()), (Ok(mode), name));
        }
        let refused = "least".parse::<Balance>().unwrap_err();
        assert!(refused.starts_with("\"least\" is none of auto, local, hash, "), "{refused}");
    }
}
