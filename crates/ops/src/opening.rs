//! The first steps of a start: sockets, the control socket, the user and the signals.
//!
//! A server with one instance and the supervisor of several instances take the same steps. Leaves
//! out their order. Tested through the binary.

use crate::{
    balancers,
    control::ControlSocket,
    control_socket::PlaceError,
    handover::{Inherited, TakeOverError},
    privileges::{self, PrivilegeError},
};
use std::{io, net::SocketAddr};
use thiserror::Error;
use vermeil_accept::{
    activation::{self, ActivationError},
    balance::Balancing,
    listen::{ListenError, Unpublished, listen_on},
    listening::Listening,
};
use vermeil_address::ListenAddr;
use vermeil_config::ServeOptions;
use vermeil_log::operator_log::log_line;
use vermeil_settings::tls::HTTPS_PORT;

/// A first step of a start failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server that runs already.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// The sockets of the service manager.
    #[error(transparent)]
    Activation(#[from] ActivationError),
    /// Duplicates of the sockets, for a later takeover.
    #[error("cannot keep the listening sockets: {0}; raise the limit of open files?")]
    Descriptors(io::Error),
    /// The address of agent checks.
    #[error("cannot answer agent checks at {addr}: {source}; choose another address")]
    Agent {
        /// The address.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The control socket.
    #[error(transparent)]
    Control(#[from] PlaceError),
    /// The log file of the user that the server becomes.
    #[error("cannot make the access log for the user that the server becomes: {0}")]
    OwnLog(io::Error),
    /// The user.
    #[error(transparent)]
    User(#[from] PrivilegeError),
    /// The signals.
    #[error("cannot watch for signals: {0}")]
    Signals(io::Error),
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnded {
    /// Every request that was begun was answered.
    Clean,
    /// The drain timeout expired, or the second signal came: the number of connections that were
    /// closed early. With several instances, the number of instances that closed connections early.
    Cut(u64),
}

/// Opens all listening sockets, except those that the service manager or the old server has. Unix
/// sockets get their paths later, from the caller.
///
/// # Errors
/// The server cannot listen on an address, or a passed socket has no listener.
pub fn listen_at_start(
    options: &ServeOptions,
    balancing: &Balancing,
    inherited: &mut Inherited,
) -> Result<(Vec<Listening>, Unpublished), OpenError> {
    inherited.add(activation::passed(options.cpus.len())?);
    let ours = inherited.addrs();
    let owner = privileges::owner(options);
    let opened =
        listen_on(&options.listen, &options.cpus, balancing, &ours, owner, |addr| inherited.take(addr))?;
    inherited.refuse_unnamed()?;
    Ok(opened)
}

/// Opens the sockets for agent checks.
pub fn bind_agent(options: &ServeOptions, inherited: &mut Inherited) -> Result<Vec<Listening>, OpenError> {
    balancers::bind(&options.balancers.agent, inherited)
        .map_err(|(addr, source)| OpenError::Agent { addr, source })
}

/// Duplicates the sockets.
pub fn cloned(listening: &[Listening]) -> Result<Vec<Listening>, OpenError> {
    listening.iter().map(Listening::try_clone).collect::<io::Result<_>>().map_err(OpenError::Descriptors)
}

/// Logs the path of the control socket, or why there is none.
pub fn watch_over(control: Result<ControlSocket, String>) -> Option<ControlSocket> {
    match control {
        Ok(control) => {
            log_line(format_args!("control: {}", control.path().display()));
            Some(control)
        }
        Err(why) => {
            log_line(format_args!("control: {why}"));
            None
        }
    }
}

/// Logs each address, of TCP as a URL.
pub fn describe_addresses(what: &str, bound: &[(ListenAddr, ListenAddr)], secure: &[ListenAddr]) {
    for (asked, addr) in bound {
        let (scheme, usual_port) = if secure.contains(asked) { ("https", HTTPS_PORT) } else { ("http", 80) };
        match addr {
            ListenAddr::Tcp(addr) => {
                log_line(format_args!("serving {what} at {}", url(*addr, scheme, usual_port)))
            }
            ListenAddr::Unix(addr) => log_line(format_args!("serving {what} at {addr}")),
        }
    }
}

/// A URL for a browser. All interfaces are shown as this machine.
fn url(addr: SocketAddr, scheme: &str, usual_port: u16) -> String {
    let host = match addr {
        _ if addr.ip().is_unspecified() => "localhost".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let all = if addr.ip().is_unspecified() { format!(" (all interfaces, {addr})") } else { String::new() };
    match addr.port() {
        port if port == usual_port => format!("{scheme}://{host}/{all}"),
        port => format!("{scheme}://{host}:{port}/{all}"),
    }
}
