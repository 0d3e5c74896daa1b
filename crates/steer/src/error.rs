//! What can go wrong here: one type, whose messages name the operation, the thing and the cure.
//!
//! Leaves out what a card cannot do: that is part of a plan (`Plan::refusals`), not an error.

use std::io;
use std::path::PathBuf;

use crate::Setting;

/// Why steering could not be read, changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder handed in has no network cards.
    #[error("cannot read network cards from {}: {source}; is sysfs mounted there?", path.display())]
    Sysfs {
        /// The folder that was to be listed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A card that was named does not exist.
    #[error("there is no network card {name:?}; there are {}", present.join(", "))]
    NoSuchNic {
        /// As it was asked for.
        name: String,
        /// Those there are.
        present: Vec<String>,
    },
    /// A plan that must not be carried out as things are.
    #[error("nothing was changed: {}", .0.join("; "))]
    Blocked(Vec<String>),
    /// The same, found out when the number of queues had changed already.
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
    /// A setting cannot be read, so it could not be restored.
    #[error("nothing was changed: cannot read {setting}: {source}; only what can be read can be restored")]
    Unreadable {
        /// The setting.
        setting: Setting,
        /// What the system said.
        source: io::Error,
    },
    /// A change was refused.
    #[error("cannot set {setting}: {source}{}", hint(source))]
    Refused {
        /// The setting.
        setting: Setting,
        /// What the system said.
        source: io::Error,
    },
    /// A change was accepted and had no effect, or another.
    #[error("{setting} was set to {wanted:?} and is {found:?}: the driver or another program decides")]
    NotTaken {
        /// The setting.
        setting: Setting,
        /// The value set, canonical.
        wanted: String,
        /// The value found after it.
        found: String,
    },
    /// A change failed, and all are taken back.
    #[error("{cause}; everything is as it was{}", crate::render::but_for(gone))]
    RolledBack {
        /// What failed.
        cause: Box<Error>,
        /// Settings that are no longer there.
        gone: Vec<Setting>,
    },
    /// Some settings could not be brought back.
    #[error("not everything could be restored: {}; try again: vermeil steer undo", .0.join("; "))]
    Restore(Vec<String>),
    /// The kernel does not classify a card's packets for us.
    #[error("cannot classify the packets of {nic} (XDP): {source}{}", xdp_hint(source))]
    Classify {
        /// The card.
        nic: String,
        /// What the system said.
        source: io::Error,
    },
    /// Packets that were classified came to nothing.
    #[error(
        "{nic}: stopped, since {wrong} packets had wrong checksums after they were handed to their cpus: {driver} \
         loses track of what a sender on this machine leaves to its card; use --xdp generic, or have the sender make them \
         (ethtool -K SENDER tx off)"
    )]
    Checksums {
        /// The card.
        nic: String,
        /// Its driver.
        driver: String,
        /// How many.
        wrong: u64,
    },
    /// Packets are spread already, and would be handed on twice.
    #[error(
        "nothing was changed: packets of {nic} are spread in software already (RPS); take it back first: vermeil steer undo"
    )]
    Spread {
        /// The card.
        nic: String,
    },
    /// Whoever takes unconfirmed changes back could not be started.
    #[error("nothing was changed: cannot start the process that would take the changes back: {0}")]
    Guard(io::Error),
    /// The file that remembers what was.
    #[error("cannot {doing} {}: {source}; choose another folder with --state", path.display())]
    State {
        /// What was to be done with it.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The same for XDP.
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

/// The cure, where the system's word suggests one.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => " (root, or CAP_NET_ADMIN, may)",
        Some(libc::EROFS) => " (is /sys or /proc mounted read-only, as in a container?)",
        Some(libc::EIO) => " (the kernel manages this interrupt itself)",
        _ => "",
    }
}
