//! What the server gives up for good before it serves: a fault in it must not become a foothold.
//!
//! By Landlock (Linux 5.13, network rules 6.7): it writes nothing but its log, starts no program, and opens neither
//! connections nor further listening sockets. Reading is bounded elsewhere, by opening everything beneath the served
//! folder. Threads started later inherit it. Where the kernel offers less, what it offers is taken and the rest is said.

use crate::log::LogTarget;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::path::{Path, PathBuf};

/// The newest version of Landlock whose rights are given up here.
const ABI_KNOWN: ABI = ABI::V5;

/// Gives up what serving does not need; says what was got, for a line at start.
pub(crate) fn enter(log: &LogTarget) -> String {
    match restrict(log) {
        Ok(RulesetStatus::FullyEnforced) => {
            "no writing but the log, no programs, no connections (Landlock)".to_owned()
        }
        Ok(RulesetStatus::PartiallyEnforced) => {
            "no writing but the log, no programs, as far as this kernel's Landlock goes".to_owned()
        }
        Ok(RulesetStatus::NotEnforced) => "none (this kernel has no Landlock)".to_owned(),
        Err(error) => format!("none ({error})"),
    }
}

fn restrict(log: &LogTarget) -> Result<RulesetStatus, RulesetError> {
    let given_up = writing() | AccessFs::Execute;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(given_up)?
        .handle_access(AccessNet::from_all(ABI_KNOWN))?
        .create()?;
    if let LogTarget::File(path) = log
        && let Ok(folder) = PathFd::new(folder_of(path))
    {
        // The folder, not the file: a rotated log is created anew.
        let create_and_append = AccessFs::WriteFile | AccessFs::MakeReg;
        rules = rules.add_rule(PathBeneath::new(folder, create_and_append))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI_KNOWN)
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
