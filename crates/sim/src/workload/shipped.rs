//! The shipped workloads, as text and as programs.
//!
//! Owns the list. Each file under `workloads/` names the modelled program and the sources of the
//! numbers. `workload/tests.rs` reads every workload.

use super::CompiledProgram;
use crate::SimError;

/// Names and texts, in the order in which users see the names.
const WORKLOADS: [(&str, &str); 9] = [
    ("sqrt-pipeline", include_str!("../../workloads/sqrt-pipeline.toml")),
    ("image-pipeline", include_str!("../../workloads/image-pipeline.toml")),
    ("web", include_str!("../../workloads/web.toml")),
    ("sfs", include_str!("../../workloads/sfs.toml")),
    ("keyed", include_str!("../../workloads/keyed.toml")),
    ("mixed", include_str!("../../workloads/mixed.toml")),
    ("support", include_str!("../../workloads/support.toml")),
    ("packets", include_str!("../../workloads/packets.toml")),
    ("unbalanced", include_str!("../../workloads/unbalanced.toml")),
];

/// The names of the shipped workloads.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// The TOML of a shipped workload, as a template for another workload.
///
/// # Errors
/// No shipped workload has that name.
pub fn workload_text(name: &str) -> Result<&'static str, SimError> {
    let found = WORKLOADS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| SimError::Unknown {
        kind: "workload",
        name: name.to_owned(),
        known: workloads().collect::<Vec<_>>().join(", "),
    })
}

/// A shipped workload.
///
/// # Errors
/// No shipped workload has that name.
pub fn workload(name: &str) -> Result<CompiledProgram, SimError> {
    CompiledProgram::from_toml(workload_text(name)?)
}
