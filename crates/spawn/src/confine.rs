//! A profile's confinement as a Landlock ruleset. The spawner makes the ruleset, and the program's
//! process enters it before the exec.

use crate::profile::Confinement;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError,
};
use rustix::io::Errno;
use std::{os::fd::OwnedFd, path::PathBuf};

/// The newest version of Landlock whose rights are bounded here. Older kernels bound the rights
/// that they know.
const ABI_KNOWN: ABI = ABI::V5;

/// Makes the ruleset.
///
/// # Errors
/// `EOPNOTSUPP` without Landlock: a program that was to be confined is not started unconfined.
pub(crate) fn ruleset(confinement: &Confinement) -> Result<OwnedFd, (PathBuf, Errno)> {
    let failed = |_: RulesetError| (PathBuf::from("its confinement"), Errno::OPNOTSUPP);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_KNOWN))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    // The default covers several systems, and no system has all of these paths.
    let read = confinement.read.iter().filter(|path| path.exists());
    let rules = allow(rules, read, AccessFs::from_read(ABI_KNOWN))?;
    let rules = allow(rules, &confinement.write, AccessFs::from_all(ABI_KNOWN))?;
    Option::<OwnedFd>::from(rules).ok_or((PathBuf::from("its confinement"), Errno::OPNOTSUPP))
}

fn allow<'p>(
    mut rules: RulesetCreated,
    paths: impl IntoIterator<Item = &'p PathBuf>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, (PathBuf, Errno)> {
    for path in paths {
        let opened = PathFd::new(path).map_err(|_| (path.clone(), Errno::NOENT))?;
        rules =
            rules.add_rule(PathBeneath::new(opened, access)).map_err(|_| (path.clone(), Errno::OPNOTSUPP))?;
    }
    Ok(rules)
}
