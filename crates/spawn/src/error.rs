//! The errors, with their cause and cure.
//!
//! [`ProcessStartError`] and [`DefineError`] come before a server serves, [`SpawnError`] with each
//! program. The reason of a failed start is a [`StartFault`], which crosses from the spawner to the
//! server as numbers (`reply.rs`).

use crate::{check::ProgramRefusal, request::REQUEST_BYTES_MAX, user::user_name};
use std::{
    io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The keeper, the spawner or another process beside the server could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProcessStartError {
    /// Forking copies only the calling thread, so the work of other threads would stay half done.
    #[error(
        "cannot fork a process beside the server: there are {threads} threads already; fork it before any other thread"
    )]
    Threads {
        /// The number of threads.
        threads: usize,
    },
    /// A system call failed.
    #[error(
        "cannot start a process beside the server: {step}: {source}; are the limits of processes and open files reached?"
    )]
    System {
        /// The failed step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl ProcessStartError {
    pub(crate) fn at<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { step, source: source.into() }
    }
}

/// A profile was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DefineError {
    /// Programs would run as the superuser.
    #[error(
        "cannot run programs of {root} as the superuser, which this server is; name another user for them, or run the \
         server as one"
    )]
    Superuser {
        /// The folder of the programs.
        root: PathBuf,
    },
    /// Only the superuser may change its user.
    #[error(
        "cannot run programs of {root} as user {user}: only the superuser may change users, and the server is not, or has \
         given that up because none of its programs was another's when it started; start it again as root with this \
         configuration, or name no user", user = user_name(u32::to_owned(.uid))
    )]
    Identity {
        /// The folder of the programs.
        root: PathBuf,
        /// The user that the programs should run as.
        uid: u32,
    },
    /// The root or a listed program.
    #[error("cannot use {path}: {fault}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The fault at that path.
        fault: StartFault,
    },
    /// The profile is too long: for example a list of thousands of programs or groups.
    #[error("cannot define the programs of {root}: {bytes} bytes, at most {REQUEST_BYTES_MAX}; list less")]
    TooLong {
        /// The folder of the programs.
        root: PathBuf,
        /// Bytes of the message.
        bytes: usize,
    },
    /// The keeper cannot read the allowed programs again.
    #[error("cannot read the list of permitted programs again: {0}")]
    Unreadable(String),
    /// The profile was not among those read.
    #[error(
        "cannot use the programs of {root}: the keeper of the spawner has read nothing like it; was the file changed at \
         this moment? Reload again"
    )]
    Unlisted {
        /// The folder of the programs.
        root: PathBuf,
    },
    /// The keeper does not answer.
    #[error("cannot define programs: the keeper does not answer: {0}; start the server again")]
    Keeper(io::Error),
}

/// A program was not started, or its fate is unknown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program was refused, or a step of the start failed.
    #[error("cannot start {}: {fault}", subject(path, fault))]
    Failed {
        /// The path that the step used, mostly the program.
        path: PathBuf,
        /// The reason.
        fault: StartFault,
    },
    /// The request does not fit a message.
    #[error(
        "cannot ask for a program: arguments and environment have {bytes} bytes, at most {REQUEST_BYTES_MAX} are sent; \
         send fewer or shorter ones"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
    },
    /// The kernel cannot represent the request.
    #[error("cannot ask for a program: {what} has a zero byte, or a name is empty or has an equals sign")]
    Invalid {
        /// The invalid part.
        what: &'static str,
    },
    /// Too many requests wait for the spawner.
    #[error("cannot ask for a program: {waiting} requests wait for the spawner already; ask again later")]
    Busy {
        /// The number of waiting requests.
        waiting: usize,
    },
    /// The server killed the job before the spawner had taken the request.
    #[error("not started: the request was withdrawn")]
    Withdrawn,
    /// The spawner died, and the program with it.
    #[error("lost a program: the spawner was killed; the next one takes requests, ask again")]
    Lost,
    /// Neither spawner nor keeper are left.
    #[error("cannot ask for a program: the spawner and its keeper are gone; restart the server")]
    Gone,
}

/// The program, or the program's cgroup in place of its path.
fn subject(path: &Path, fault: &StartFault) -> String {
    let is_cgroup = matches!(fault, StartFault::Step { step: StartStep::Cgroup | StartStep::Bounds, .. });
    let of = if is_cgroup { "the program in the cgroup " } else { "" };
    format!("{of}{}", path.display())
}

impl SpawnError {
    /// Whether the program does not exist.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Failed { fault: StartFault::Step { step: StartStep::Look, source }, .. } => {
                matches!(source.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG))
            }
            _ => false,
        }
    }

    /// Whether a rule or a permission forbids the program.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Failed { fault: StartFault::Refused(_), .. } => true,
            Self::Failed {
                fault: StartFault::Step { step: StartStep::Look | StartStep::Execute, source },
                ..
            } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Lost | Self::Gone => true,
            Self::Failed { fault: StartFault::Step { source, .. }, .. } => matches!(
                source.raw_os_error(),
                Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ETXTBSY)
            ),
            _ => false,
        }
    }
}

/// Why a program was not started.
#[derive(Debug, Error)]
pub enum StartFault {
    /// A rule forbids the program.
    #[error(transparent)]
    Refused(#[from] ProgramRefusal),
    /// A step failed.
    #[error("{}: {source}{}", step.doing(), step.cure(source))]
    Step {
        /// The step.
        step: StartStep,
        /// The error of the system.
        source: io::Error,
    },
}

/// The step of starting a program that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StartStep {
    /// Understanding the request.
    Request = 1,
    /// Finding the profile.
    Profile,
    /// Opening the folder of programs.
    Root,
    /// Looking at the names on the way to the program.
    Look,
    /// Opening the folder to run in.
    Folder,
    /// Making or opening the cgroup.
    Cgroup,
    /// Writing the cgroup's bounds.
    Bounds,
    /// Preparing the confinement.
    Confinement,
    /// Making the process.
    Clone,
    /// Becoming the leader of a session or process group.
    Session,
    /// Putting the descriptors in place.
    Descriptors,
    /// Setting limits.
    Limits,
    /// Taking user and groups on.
    Identity,
    /// Going into the folder.
    Enter,
    /// Giving up new privileges.
    Privileges,
    /// Confining itself.
    Confine,
    /// Asking to die with the spawner.
    Parent,
    /// Executing.
    Execute,
}

impl StartStep {
    const ALL: [Self; 18] = [
        Self::Request,
        Self::Profile,
        Self::Root,
        Self::Look,
        Self::Folder,
        Self::Cgroup,
        Self::Bounds,
        Self::Confinement,
        Self::Clone,
        Self::Session,
        Self::Descriptors,
        Self::Limits,
        Self::Identity,
        Self::Enter,
        Self::Privileges,
        Self::Confine,
        Self::Parent,
        Self::Execute,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u8 == code)
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Request => "understanding the request",
            Self::Profile => "finding its profile",
            Self::Root => "opening the folder of programs",
            Self::Look => "looking for it",
            Self::Folder => "opening the folder to run in",
            Self::Cgroup => "making or opening its cgroup",
            Self::Bounds => "writing this bound of its cgroup",
            Self::Confinement => "preparing its confinement",
            Self::Clone => "making a process",
            Self::Session => "starting a session or process group",
            Self::Descriptors => "putting its descriptors in place",
            Self::Limits => "setting its limits",
            Self::Identity => "taking on its user and groups",
            Self::Enter => "entering the folder to run in",
            Self::Privileges => "giving up new privileges",
            Self::Confine => "confining it",
            Self::Parent => "tying it to the spawner",
            Self::Execute => "executing it",
        }
    }

    fn cure(self, source: &io::Error) -> &'static str {
        match (self, source.raw_os_error()) {
            (Self::Execute, Some(libc::EACCES)) => {
                "; make it executable (chmod +x), and every folder on the way enterable, for its user"
            }
            (Self::Execute, Some(libc::ENOENT)) => {
                "; does the interpreter named in its first line exist, and does that line end without a carriage return?"
            }
            (Self::Execute, Some(libc::ENOEXEC)) => "; begin a script with #! and its interpreter",
            (Self::Execute | Self::Clone, Some(libc::EAGAIN)) => "; raise the limit of processes of its user",
            (Self::Cgroup, Some(libc::ENOENT)) => "; make the folder that it is in",
            (Self::Bounds, Some(libc::ENOENT)) => {
                "; add its controller to the cgroup.subtree_control of the folder that the cgroup is in"
            }
            (Self::Bounds, Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {
                "; give this file to the user that the server is started by, or write the bound there before it starts"
            }
            (Self::Bounds, Some(libc::EINVAL | libc::ERANGE)) => "; configure a bound that the kernel takes",
            (Self::Confinement, Some(libc::EOPNOTSUPP)) => "; this kernel has no Landlock: confine nothing",
            (_, Some(libc::EMFILE)) => "; raise the limit of open files",
            _ => "",
        }
    }
}
