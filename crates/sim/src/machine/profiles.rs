//! The shipped machines, as text and as built machines.
//!
//! Owns the list. Each file under `machines/` names the sources of the file's numbers.
//! `machine/tests.rs` builds every machine.

use super::SimMachine;
use crate::SimError;

/// Names and texts, in the order in which users see the names.
const PROFILES: [(&str, &str); 7] = [
    ("xeon5100-2x2", include_str!("../../machines/xeon5100-2x2.toml")),
    ("xeon-2x4-l2pairs", include_str!("../../machines/xeon-2x4-l2pairs.toml")),
    ("opteron8380-4x4", include_str!("../../machines/opteron8380-4x4.toml")),
    ("epyc-2x64", include_str!("../../machines/epyc-2x64.toml")),
    ("numa-4x32", include_str!("../../machines/numa-4x32.toml")),
    ("pentium3-4", include_str!("../../machines/pentium3-4.toml")),
    ("hybrid", include_str!("../../machines/hybrid.toml")),
];

/// The names of the shipped machines.
pub fn profiles() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// The TOML of a shipped machine, as a template for another machine.
///
/// # Errors
/// No shipped machine has that name.
pub fn profile_text(name: &str) -> Result<&'static str, SimError> {
    let found = PROFILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| SimError::Unknown {
        kind: "machine",
        name: name.to_owned(),
        known: profiles().collect::<Vec<_>>().join(", "),
    })
}

/// A shipped machine.
///
/// # Errors
/// No shipped machine has that name.
pub fn profile(name: &str) -> Result<SimMachine, SimError> {
    SimMachine::from_toml(profile_text(name)?)
}
