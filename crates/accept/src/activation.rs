//! Listening sockets that a service manager opened before this process began: the protocol of
//! sd_listen_fds(3), which systemd speaks with socket units.
//!
//! A passed socket takes the place of the socket that the server would open for the same address of
//! the configuration. All cores accept from it, as from a unix socket. The manager keeps the
//! socket, so connections wait in its queue while the server restarts, and the server never removes
//! the file of such a unix socket. A socket that no listener names is refused, because its clients
//! would wait forever. Tested below and through the binary (`crates/e2e/tests/e2e/activation.rs`).

use crate::listening::{Listening, SocketKeeper};
use rustix::net::getsockname;
use std::{
    env,
    ffi::OsStr,
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};
use vermeil_address::{ListenAddr, UnixAddr};
use vermeil_io::{is_listening, set_nodelay, take_passed, takes_both_families};

/// Sockets that a service manager may pass.
const SOCKETS_MAX: u16 = 256;

/// A passed descriptor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// `LISTEN_FDS` is wrong.
    #[error(
        "LISTEN_FDS is \"{0}\", which is no number up to {SOCKETS_MAX}; start the server by a socket unit, or unset it"
    )]
    Count(String),
    /// A descriptor is missing.
    #[error("the service manager announced {count} sockets in LISTEN_FDS, but not all are open: {source}")]
    Missing {
        /// The announced number.
        count: u16,
        /// The error of the system.
        source: io::Error,
    },
    /// A descriptor is not a listening socket with an address.
    #[error(
        "the service manager passed descriptor {number} ({name}), which is no listening stream socket with a TCP address or a path; use ListenStream= and Accept=no in the socket unit"
    )]
    Kind {
        /// The number of the descriptor.
        number: usize,
        /// Its name in `LISTEN_FDNAMES`.
        name: String,
    },
    /// The socket takes two families.
    #[error(
        "the service manager passed {addr} ({name}), which takes IPv4 too; write BindIPv6Only=ipv6-only, and a ListenStream= for each address, in the socket unit"
    )]
    BothFamilies {
        /// The address.
        addr: SocketAddr,
        /// Its name in `LISTEN_FDNAMES`.
        name: String,
    },
    /// No listener has the address.
    #[error(
        "the service manager passed sockets that no listener names: {0}; add a [[listener]] with this address, or remove it from the socket unit"
    )]
    Unnamed(String),
    /// The system refuses.
    #[error("a socket of the service manager cannot be used: {0}")]
    System(#[from] io::Error),
}

/// Takes the sockets that were passed to this process, each duplicated for `cores` cores.
///
/// # Errors
/// A descriptor is not a listening socket.
pub fn passed(cores: usize) -> Result<Vec<Listening>, ActivationError> {
    let variable = |name| env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    let Some(count) = count(variable("LISTEN_PID"), variable("LISTEN_FDS"), std::process::id())? else {
        return Ok(Vec::new());
    };
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat("unknown"));
    let sockets = take_passed(count).map_err(|source| ActivationError::Missing { count, source })?;
    let mut all: Vec<Listening> = Vec::new();
    for ((at, socket), name) in sockets.into_iter().enumerate().zip(names) {
        let addr = address(at, &socket, name)?;
        match all.iter_mut().find(|listening| listening.addr.is_at(&addr)) {
            Some(listening) => listening.sockets.push(socket),
            None => all.push(Listening {
                asked: addr,
                addr,
                sockets: vec![socket],
                keeper: SocketKeeper::Manager,
            }),
        }
    }
    for Listening { sockets, .. } in &mut all {
        let passed = sockets.len();
        for at in passed..cores {
            sockets.push(sockets[at % passed].try_clone()?);
        }
    }
    Ok(all)
}

/// The number of sockets that were passed to process `pid`. A process that inherited the variables
/// finds the number of its parent in them.
fn count(of: Option<String>, count: Option<String>, pid: u32) -> Result<Option<u16>, ActivationError> {
    let (Some(of), Some(text)) = (of, count) else { return Ok(None) };
    if of.parse() != Ok(pid) {
        return Ok(None);
    }
    match text.parse() {
        Ok(count) if count <= SOCKETS_MAX => Ok(Some(count)),
        _ => Err(ActivationError::Count(text)),
    }
}

fn address(at: usize, socket: &OwnedFd, name: &str) -> Result<ListenAddr, ActivationError> {
    let kind = || ActivationError::Kind { number: at + 3, name: name.to_owned() };
    if !is_listening(socket.as_fd()) {
        return Err(kind());
    }
    let bound = getsockname(socket).map_err(io::Error::from)?;
    if let Ok(addr) = SocketAddr::try_from(bound.clone()) {
        if takes_both_families(socket.as_fd()) {
            return Err(ActivationError::BothFamilies { addr, name: name.to_owned() });
        }
        // Accepted sockets inherit the option.
        set_nodelay(socket.as_fd())?;
        return Ok(addr.into());
    }
    let unix = rustix::net::SocketAddrUnix::try_from(bound).map_err(|_| kind())?;
    let path = unix.path_bytes().map(|path| Path::new(OsStr::from_bytes(path)).to_owned());
    path.and_then(|path| UnixAddr::new(&path)).map(ListenAddr::Unix).ok_or_else(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_count_for_named_process_only() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(count(text("7"), text("2"), 7).expect("right"), Some(2));
        assert_eq!(count(text("8"), text("2"), 7).expect("of the parent"), None);
        assert_eq!(count(None, text("2"), 7).expect("no process"), None);
        let error = count(text("7"), text("many"), 7).expect_err("no number").to_string();
        assert!(error.starts_with("LISTEN_FDS is \"many\", which is no number up to 256;"), "{error}");
    }
}
