//! The workloads that ship, as text and ready-made.
//!
//! Owns the list; each file under `workloads/` says what it models and where its numbers come from. That every one runs is
//! tested in `workload/tests.rs`.

use super::Program;
use crate::Error;

/// Names and texts, in the order they are listed to people.
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

/// The TOML of a shipped workload, to start one's own from.
///
/// # Errors
/// No workload of that name ships.
pub fn workload_text(name: &str) -> Result<&'static str, Error> {
    let found = WORKLOADS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| Error::Unknown {
        kind: "workload",
        name: name.to_owned(),
        known: workloads().collect::<Vec<_>>().join(", "),
    })
}

/// A shipped workload.
///
/// # Errors
/// No workload of that name ships.
pub fn workload(name: &str) -> Result<Program, Error> {
    Program::from_toml(workload_text(name)?)
}
