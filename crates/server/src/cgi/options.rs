//! What CGI can be told: who programs run as, within what, and how many of them.

pub use super::turns::ProgramBounds;
use crate::privileges::User;
use std::{path::PathBuf, time::Duration};
pub use vermeil_spawn::{Cgroup, Confinement, Identity, NewPrivileges, ResourceLimits, UserError};

/// Programs that run at once, of all hosts. Guess: a program takes some megabytes and a share of a core; beyond some
/// dozens on a core they only make each other wait.
pub const RUNNING_MAX: usize = 256;

/// Programs that run at once, of one host. Guess: half of a small machine's.
pub const HOST_RUNNING_MAX: usize = 64;

/// Requests of one host that wait for a program to end. Guess: some seconds of work.
pub const HOST_WAITING_MAX: usize = 256;

/// How long a program may run. Apache's `Timeout` was 300 s for decades, and programs came to rely on it.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Everything about CGI but which paths it is for, which routes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiOptions {
    /// Who programs run as; as the server itself if nothing is said, which is refused to the superuser.
    pub identity: Option<Identity>,
    /// Bounds of each process.
    pub limits: ResourceLimits,
    /// Whether programs may gain privileges by executing others. Default: no.
    pub new_privileges: NewPrivileges,
    /// The part of the file system that programs reach, if it is bounded. Default: it is not.
    pub confinement: Option<Confinement>,
    /// Permissions that files made by programs lack. Default 0o022.
    pub umask: u32,
    /// How many programs run, and how many requests wait. Beyond: 503.
    pub bounds: ProgramBounds,
    /// How long a program may run, whatever it does. Then its process group is killed: 504, or cut if the answer has
    /// begun.
    pub time_limit: Duration,
    /// Whether programs whose names begin with `nph-` write the whole answer themselves.
    pub nph: Nph,
}

/// What the programs of one host run as and within, where it is not as [`CgiOptions`] say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPrograms {
    /// Who they run as.
    pub user: Option<User>,
    /// The folder that they run in, below the host's; empty: the host's itself. Default: the one that each stands in.
    pub directory: Option<PathBuf>,
    /// Added to their environment, as names and values.
    pub environment: Vec<(String, String)>,
    /// Bounds of each process; where there is none, that of all hosts.
    pub limits: ResourceLimits,
    /// The cgroup that they are born in.
    pub cgroup: Option<Cgroup>,
    /// Whether they may gain privileges by executing others.
    pub new_privileges: NewPrivileges,
    /// The part of the file system that they reach, besides the host's folder, if it is bounded.
    pub confinement: Option<Confinement>,
    /// How long one may run.
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

/// Programs that write the status line and all fields themselves (RFC 3875 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nph {
    /// They are run as any other, and their status line makes a bad answer.
    #[default]
    Refused,
    /// What they write goes to the client as it is, and the connection closes behind it.
    Allowed,
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
