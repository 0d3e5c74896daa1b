//! Options of CGI: the user of programs, their confinement, and their number.

use crate::User;
use std::{path::PathBuf, time::Duration};
pub use vermeil_spawn::{Cgroup, Confinement, Identity, NewPrivileges, ResourceLimits, UserError};

/// Programs that run at once, of all hosts. A program takes some megabytes and a share of a core,
/// so the default bounds memory at about a gigabyte.
pub const RUNNING_MAX: usize = 256;

/// Programs of a single host that run at once: a quarter of all, so three flooded hosts leave room
/// for the others.
pub const HOST_RUNNING_MAX: usize = 64;

/// Requests of a single host that wait for a program to end: four for each program that may run.
pub const HOST_WAITING_MAX: usize = 256;

/// How long a program may run. Default 300 s, because Apache's `Timeout` was 300 s for decades, and
/// programs came to rely on that value.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// All options of CGI, except the paths, which are in the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiOptions {
    /// The user of programs. Default: the server's user, which is refused if that is the superuser.
    pub identity: Option<Identity>,
    /// Bounds of each process.
    pub limits: ResourceLimits,
    /// Whether programs may gain privileges by executing others. Default: no.
    pub new_privileges: NewPrivileges,
    /// The part of the file system that programs can access. Default: not restricted.
    pub confinement: Option<Confinement>,
    /// Permissions that files of programs lack. Default 0o022.
    pub umask: u32,
    /// How many programs run, and how many requests wait. Further requests get 503.
    pub bounds: ProgramBounds,
    /// How long a program may run in any case. Then the server kills the process group. The client
    /// gets 504, or a cut answer if the answer has begun.
    pub time_limit: Duration,
    /// Whether programs named `nph-…` write the whole answer themselves.
    pub nph: Nph,
}

/// Options of a host's programs that differ from [`CgiOptions`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPrograms {
    /// The user of the programs.
    pub user: Option<User>,
    /// The working directory, below the host's folder; empty: the host's folder itself. Default:
    /// each program's own folder.
    pub directory: Option<PathBuf>,
    /// Variables added to the environment, as names and values.
    pub environment: Vec<(String, String)>,
    /// Bounds of each process. An unset bound is the bound of all hosts.
    pub limits: ResourceLimits,
    /// The cgroup in which the programs are started.
    pub cgroup: Option<Cgroup>,
    /// Whether programs may gain privileges by executing others.
    pub new_privileges: NewPrivileges,
    /// The part of the file system that programs can access besides the host's folder, if access is
    /// restricted.
    pub confinement: Option<Confinement>,
    /// How long a program may run.
    pub time_limit: Option<Duration>,
}

impl Default for HostPrograms {
    fn default() -> Self {
        Self {
            user: None,
            directory: None,
            environment: Vec::new(),
            limits: ResourceLimits::NONE,
            cgroup: None,
            new_privileges: NewPrivileges::Refused,
            confinement: None,
            time_limit: None,
        }
    }
}

/// Whether programs may write the status line and all fields themselves (RFC 3875 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nph {
    /// Such programs run like any other program, and their status line is an invalid answer.
    #[default]
    Refused,
    /// Their output goes to the client unchanged, and the connection closes after the output.
    Allowed,
}

/// The bounds on running programs and waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBounds {
    /// Programs that run at once, of all hosts.
    pub running_max: usize,
    /// Programs of a host that run at once.
    pub host_running_max: usize,
    /// Requests of a host that wait.
    pub host_waiting_max: usize,
}

impl Default for CgiOptions {
    fn default() -> Self {
        Self {
            identity: None,
            limits: ResourceLimits::default(),
            new_privileges: NewPrivileges::Refused,
            confinement: None,
            umask: 0o022,
            bounds: ProgramBounds {
                running_max: RUNNING_MAX,
                host_running_max: HOST_RUNNING_MAX,
                host_waiting_max: HOST_WAITING_MAX,
            },
            time_limit: TIME_LIMIT,
            nph: Nph::default(),
        }
    }
}
