//! The parts of a reload that a server and a supervisor share: reasons for a refusal, and
//! added addresses.
//!
//! Leaves out the reload itself. Tested through the binary (`crates/e2e/tests/e2e/reload.rs`).

use crate::privileges;
use std::{error::Error, io};
use vermeil_accept::{
    balance::Balancing,
    listen::{ListenError, Unpublished, listen_on},
    listening::Listening,
};
use vermeil_address::ListenAddr;
use vermeil_config::{ConfigError, ServeOptions};
use vermeil_log::{LogError, operator_log::log_line};

/// Why a reload was refused. The server continues as before.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The server has no configuration file.
    #[error("it was started from a command line; only a server with --config FILE can be reloaded")]
    NoFile,
    /// The server is about to end.
    #[error("it is stopping")]
    Stopping,
    /// Another process is taking over, with the present configuration.
    #[error("another process is taking over; have that one read the configuration")]
    HandingOver,
    /// A part of the server cannot do as the new configuration says: the programs, or the folder of
    /// the default host.
    #[error(transparent)]
    Part(Box<dyn Error + Send + Sync>),
    /// An instance refuses the configuration, or does not answer.
    #[error("{0}")]
    Instance(String),
    /// The configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The topology of the machine.
    #[error(transparent)]
    Machine(#[from] vermeil_topology::TopologyError),
    /// Certificates.
    #[error("{0}")]
    Certificates(String),
    /// A new address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The mode of a socket of the service manager.
    #[error(
        "the service manager passed {0} and decides about its mode: write the former mode {1:04o} again, and change \
         SocketMode= in the socket unit"
    )]
    PassedMode(ListenAddr, u32),
    /// A new address, which the broker opens.
    #[error("{0}")]
    Broker(io::Error),
    /// The new log.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Refuses another mode for a unix socket that the service manager passed, because the server would
/// put a socket of its own in the place of the manager's.
pub fn refuse_mode_of_passed(
    bound: &[(ListenAddr, ListenAddr)],
    new: &ServeOptions,
) -> Result<(), ReloadError> {
    let passed = bound.iter().filter_map(|(asked, bound)| {
        let is_passed = bound.unix().is_some_and(|unix| unix.file().is_none());
        Some((asked, asked.unix()?)).filter(|_| is_passed)
    });
    for (asked, unix) in passed {
        if new.listen.iter().any(|addr| addr.is_at(asked) && addr != asked) {
            return Err(ReloadError::PassedMode(*asked, unix.mode()));
        }
    }
    Ok(())
}

/// Opens the addresses that `new` has and `old` lacks, for the cpus of `new`. `old` are the
/// addresses as configured and as bound. Unix sockets belong to the user of `new`, and get their
/// paths later, from the caller.
///
/// # Errors
/// The server cannot listen on one of them. Then it opens none.
pub fn listen_on_added(
    old: &[(ListenAddr, ListenAddr)],
    new: &ServeOptions,
    balancing: &Balancing,
) -> Result<(Vec<Listening>, Unpublished), ListenError> {
    let bound: Vec<_> = old.iter().map(|(_, bound)| *bound).collect();
    let owner = privileges::owner(new);
    listen_on(&added(old, new), &new.cpus, balancing, &bound, owner, |_| None)
}

/// The addresses that `new` has and `old` lacks. `old` are the addresses as configured and as
/// bound.
pub fn added(old: &[(ListenAddr, ListenAddr)], new: &ServeOptions) -> Vec<ListenAddr> {
    let is_new = |addr: &&ListenAddr| !old.iter().any(|(asked, _)| asked == *addr);
    new.listen.iter().filter(is_new).copied().collect()
}

/// Logs that the process of a takeover did not start to serve.
pub fn say_kept(pid: u32) {
    log_line(format_args!(
        "process {pid}, which was to take over, has not come to serve: going on as before"
    ));
}
