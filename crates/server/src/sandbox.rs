//! What the server gives up for good before it serves: a fault in it must not become a foothold.
//!
//! By Landlock (Linux 5.13, network rules 6.7): it writes nothing but its log, starts no program, and opens neither
//! connections nor further listening sockets. With programs it also writes into its private folder, and connects to where
//! they listen; starting them is the spawner's part, which is older than the sandbox. Reading is bounded elsewhere, by
//! opening everything beneath the served folder. Threads started later inherit it. Where the kernel offers less, what it
//! offers is taken and the rest is said.

use crate::log::LogTarget;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::path::{Path, PathBuf};

/// The newest version of Landlock whose rights are given up here.
const ABI_KNOWN: ABI = ABI::V5;

/// What programs need the server to keep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rights<'a> {
    /// A folder to write in, and to remove at the end.
    pub(crate) workspace: Option<&'a Path>,
    /// A folder for files without a name.
    pub(crate) spool: Option<&'a Path>,
    /// A port to connect to.
    pub(crate) connect_port: Option<u16>,
}

/// Gives up what serving does not need; says what was got, for a line at start.
pub(crate) fn enter(log: &LogTarget, rights: &Rights<'_>) -> String {
    let folders = [rights.workspace, rights.spool].into_iter().flatten();
    let folders: String = folders.map(|folder| format!(", {}", folder.display())).collect();
    let writing = format!("no writing but the log{folders}");
    let connections = match rights.connect_port {
        None => "no connections".to_owned(),
        Some(port) => format!("no connections but to port {port}"),
    };
    match restrict(log, rights) {
        Ok(RulesetStatus::FullyEnforced) => format!("{writing}, no programs, {connections} (Landlock)"),
        Ok(RulesetStatus::PartiallyEnforced) => {
            format!("{writing}, no programs, as far as this kernel's Landlock goes")
        }
        Ok(RulesetStatus::NotEnforced) => "none (this kernel has no Landlock)".to_owned(),
        Err(error) => format!("none ({error})"),
    }
}

fn restrict(log: &LogTarget, rights: &Rights<'_>) -> Result<RulesetStatus, RulesetError> {
    let given_up = writing() | AccessFs::Execute;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(given_up)?
        .handle_access(AccessNet::from_all(ABI_KNOWN))?
        .create()?;
    if let LogTarget::File(path) = log {
        // The folder, not the file: a rotated log is created anew.
        rules = allow(rules, &folder_of(path), AccessFs::WriteFile | AccessFs::MakeReg)?;
    }
    if let Some(workspace) = rights.workspace {
        let within = AccessFs::WriteFile
            | AccessFs::MakeReg
            | AccessFs::MakeSock
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir;
        rules = allow(rules, workspace, within)?;
        // Removing the folder itself changes the one it is in.
        rules = allow(rules, &folder_of(workspace), AccessFs::RemoveDir.into())?;
    }
    if let Some(spool) = rights.spool {
        // No file gets a name there: that would be `MakeReg`.
        rules = allow(rules, spool, AccessFs::WriteFile.into())?;
    }
    if let Some(port) = rights.connect_port {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn allow(
    rules: RulesetCreated,
    folder: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(folder) {
        Ok(folder) => rules.add_rule(PathBeneath::new(folder, access)),
        Err(_) => Ok(rules),
    }
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
