//! The sandbox: the serving process gives up rights for good before it serves, because a bug in it
//! must not become a foothold.
//!
//! The main thread enters the sandbox before it starts any other thread, and threads inherit it. So
//! the boundary is that of the process. By Landlock (Linux 5.13, network rules 6.7, signals 6.12)
//! the process writes no files, starts no programs, opens neither TCP connections nor further TCP
//! listeners, and signals no other process. UDP and UNIX sockets are not bounded. With programs the
//! process also writes into its private folder, and connects to their listening sockets. A seccomp
//! filter allows only the system calls that the server uses (`calls.txt`, `filter.rs`). Processes
//! that are older than the sandbox do the work that needs more rights: the broker opens logs and
//! addresses (`broker/`), the keeper starts programs (`vermeil-spawn`).
//!
//! Reading is bounded elsewhere, by opening everything beneath the served folder. If the kernel
//! offers less, the process takes that part and logs the rest. Tested through the binary
//! (`crates/e2e/tests/e2e/sandbox.rs`).

mod filter;

use filter::Filtered;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use std::path::Path;

/// The newest version of Landlock that this module knows.
const ABI_KNOWN: ABI = ABI::V6;

/// The rights that the server keeps for programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rights<'a> {
    /// A folder to write in.
    pub workspace: Option<&'a Path>,
    /// A folder for files without a name.
    pub spool: Option<&'a Path>,
    /// A port to connect to.
    pub connect_port: Option<u16>,
}

/// Processes beside the server that are not in the sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    /// The process id of the broker.
    pub broker: u32,
    /// Set if programs can be started.
    pub keeper: Option<u32>,
}

/// The sandbox that the process has entered.
#[derive(Debug)]
pub struct Sandbox {
    description: String,
    has_filter: bool,
}

impl Sandbox {
    /// Refuses new instances of io_uring to all threads, once every core has its own: a new
    /// instance would allow operations that the drivers' instances refuse. Returns the achieved
    /// bounds, for a line at the start.
    pub fn seal(self) -> String {
        let Self { description, has_filter } = self;
        if !has_filter {
            return description;
        }
        match filter::refuse_rings() {
            Ok(()) => description,
            Err(why) => format!("{description}; new io_uring instances are possible ({why})"),
        }
    }
}

/// Gives up the rights that serving does not need, for this thread and the threads that it starts.
pub fn enter(rights: &Rights<'_>, outside: Outside) -> Sandbox {
    let opens = vermeil_io::seal_opens().ok();
    let truncation = if opens.is_some() { Truncation::Filtered } else { Truncation::Refused };
    let mut landlock = described(rights, restrict(rights, truncation));
    let filtered = filter::enter(opens);
    if filtered.is_err() && truncation == Truncation::Filtered {
        landlock = described(rights, restrict(rights, Truncation::Refused));
    }
    let has_filter = filtered.is_ok();
    let calls = match filtered {
        Ok(Filtered { calls }) => format!("{calls} system calls (seccomp)"),
        Err(why) => format!("all system calls (no seccomp filter: {why})"),
    };
    Sandbox { description: format!("{landlock}; {calls}; {outside}"), has_filter }
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { broker, keeper } = self;
        write!(f, "outside: process {broker} (opens the log and new addresses)")?;
        keeper.map_or(Ok(()), |keeper| write!(f, ", process {keeper} (starts programs)"))
    }
}

fn described(rights: &Rights<'_>, restricted: Result<RestrictionStatus, RulesetError>) -> String {
    let status = match restricted {
        Ok(status) => status,
        Err(error) => return format!("no bounds on files and connections ({error})"),
    };
    let level = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    };
    let folders: Vec<String> = [rights.workspace, rights.spool]
        .iter()
        .flatten()
        .map(|folder| folder.display().to_string())
        .collect();
    let writing = match folders.is_empty() {
        true => "no writing of files".to_owned(),
        false => format!("no writing of files but below {}", folders.join(" and ")),
    };
    let connections = match rights.connect_port {
        None => "no TCP connections".to_owned(),
        Some(port) => format!("no TCP connections but to port {port}"),
    };
    match status.ruleset {
        RulesetStatus::FullyEnforced => {
            format!(
                "{writing}, no programs, {connections}, no further TCP addresses, no signals to others (Landlock {level})"
            )
        }
        RulesetStatus::PartiallyEnforced => {
            let connections = if level < 4 { ", no bounds on TCP connections" } else { "" };
            format!("{writing}, no programs{connections}, as far as this kernel's Landlock {level} goes")
        }
        RulesetStatus::NotEnforced => {
            "no bounds on files and connections (this kernel has no Landlock)".to_owned()
        }
    }
}

/// The part of the sandbox that refuses to truncate files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truncation {
    /// The filter refuses to open files with truncation.
    Filtered,
    /// Landlock refuses truncation. Then the kernel looks at all folders above each file that is
    /// opened for reading too, because the descriptor could be truncated later. That took 1.3 to
    /// 1.6 µs, beside 6.3 µs for the open and the close of a file in a random folder.
    Refused,
}

fn restrict(rights: &Rights<'_>, truncation: Truncation) -> Result<RestrictionStatus, RulesetError> {
    let mut handled = AccessFs::from_write(ABI_KNOWN) | AccessFs::Execute;
    if truncation == Truncation::Filtered {
        handled.remove(AccessFs::Truncate);
    }
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .handle_access(AccessNet::from_all(ABI_KNOWN))?
        .scope(Scope::Signal)?
        .create()?;
    if let Some(workspace) = rights.workspace.and_then(|path| PathFd::new(path).ok()) {
        rules = rules.add_rule(PathBeneath::new(workspace, within_workspace() & handled))?;
    }
    if let Some(spool) = rights.spool.and_then(|path| PathFd::new(path).ok()) {
        // No file gets a name there, because that would need `MakeReg`.
        rules = rules.add_rule(PathBeneath::new(spool, AccessFs::WriteFile))?;
    }
    if let Some(port) = rights.connect_port {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    rules.restrict_self()
}

/// The sockets and configurations of pools.
fn within_workspace() -> BitFlags<AccessFs> {
    AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::MakeSock | AccessFs::RemoveFile
}
