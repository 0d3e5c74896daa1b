//! The errors of this crate: one type, whose messages name the operation, the thing and the cure.
//!
//! Leaves out operations that a card does not support, which are part of a plan (`Plan::refusals`),
//! not errors.

use std::io;
use std::path::PathBuf;

use crate::Setting;

/// The reason why steering could not be read, changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// The given folder has no network cards.
    #[error("cannot read network cards from {}: {source}; is sysfs mounted there?", path.display())]
    Sysfs {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A named card does not exist.
    #[error("there is no network card {name:?}; there are {}", present.join(", "))]
    NoSuchNic {
        /// The requested name.
        name: String,
        /// The existing cards.
        present: Vec<String>,
    },
    /// A plan that must not be applied in the present state.
    #[error("nothing was changed: {}", .0.join("; "))]
    Blocked(Vec<String>),
    /// The same, found after the number of queues had changed.
    #[error("with another number of queues, {}", .0.join("; "))]
    BlockedLate(Vec<String>),
    /// A plan is in force.
    #[error("a plan is in force already; take it back first: vermeil steer undo")]
    AlreadyApplied,
    /// No plan is in force.
    #[error(
        "no plan is in force here: nothing was applied since the last boot, or it was taken back already"
    )]
    NothingApplied,
    /// A setting cannot be read, so the setting could not be restored.
    #[error(
        "nothing was changed: cannot read {setting}: {source}; a setting that cannot be read cannot be restored"
    )]
    Unreadable {
        /// The setting.
        setting: Setting,
        /// The system's error.
        source: io::Error,
    },
    /// A change was refused.
    #[error("cannot set {setting}: {source}{}", hint(source))]
    Refused {
        /// The setting.
        setting: Setting,
        /// The system's error.
        source: io::Error,
    },
    /// A change was accepted and had no effect, or a different effect.
    #[error("{setting} was set to {wanted:?} and is {found:?}: the driver or another program decides")]
    NotTaken {
        /// The setting.
        setting: Setting,
        /// The value set, canonical.
        wanted: String,
        /// The value found afterwards.
        found: String,
    },
    /// A change failed, and all changes are undone.
    #[error("{cause}; everything is as it was{}", crate::setting::but_for(gone))]
    RolledBack {
        /// The failure.
        cause: Box<SteerError>,
        /// Settings that no longer exist.
        gone: Vec<Setting>,
    },
    /// Some settings could not be restored.
    #[error("not everything could be restored: {}; try again: vermeil steer undo", .0.join("; "))]
    Restore(Vec<String>),
    /// The kernel does not classify a card's packets.
    #[error("cannot classify the packets of {nic} (XDP): {source}{}", xdp_hint(source))]
    Classify {
        /// The card.
        nic: String,
        /// The system's error.
        source: io::Error,
    },
    /// Classified packets were lost.
    #[error(
        "{nic}: stopped, since {wrong} packets had wrong checksums after they were handed to their cpus: {driver} \
         loses track of what a sender on this machine leaves to its card; use --xdp generic, or have the sender make them \
         (ethtool -K SENDER tx off)"
    )]
    Checksums {
        /// The card.
        nic: String,
        /// The card's driver.
        driver: String,
        /// The number of packets.
        wrong: u64,
    },
    /// Packets are spread already, and would be passed on twice.
    #[error(
        "nothing was changed: packets of {nic} are spread in software already (RPS); take it back first: vermeil steer undo"
    )]
    Spread {
        /// The card.
        nic: String,
    },
    /// The process that undoes unconfirmed changes could not be started.
    #[error("nothing was changed: cannot start the process that would take the changes back: {0}")]
    Guard(io::Error),
    /// An error of the file with the former state.
    #[error("cannot {doing} {}: {source}; {}", path.display(), state_cure(source))]
    State {
        /// The failed operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SteerError {
    /// Whether this user may not read the file with the former state.
    pub(crate) fn is_missing_right(&self) -> bool {
        matches!(self, Self::State { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// The cure for errors of the file with the former state.
fn state_cure(source: &io::Error) -> &'static str {
    match source.kind() {
        // Another folder has no state to check or to undo.
        io::ErrorKind::PermissionDenied => "run as root",
        _ => "choose another folder with --state",
    }
}

/// The cure for XDP errors.
fn xdp_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => " (root, or CAP_BPF with CAP_NET_ADMIN, may)",
        Some(libc::EBUSY | libc::EEXIST) => {
            " (another program is there: `ip link show` names it; there is room for one)"
        }
        Some(libc::EOPNOTSUPP) => " (its driver cannot; --xdp generic needs nothing of it)",
        Some(libc::EINVAL | libc::ENOSYS) => " (since Linux 5.9; a driver may refuse its MTU or its queues)",
        Some(libc::ENODEV) => " (a cpu or the card is not there)",
        _ => "",
    }
}

/// The cure, if the system's error suggests one.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => " (root, or CAP_NET_ADMIN, may)",
        Some(libc::EROFS) => " (is /sys or /proc mounted read-only, as in a container?)",
        Some(libc::EIO) => " (the kernel manages this interrupt itself)",
        _ => "",
    }
}
