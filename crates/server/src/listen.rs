//! Opens the listening sockets: one per address and core, all before the first connection is
//! accepted.
//!
//! Leaves out accepting (`accept.rs`). The errors are tested through the binary.

use crate::{
    balance::Balancing,
    handover::Inherited,
    holder::{Holder, who_listens},
    overload::QUEUE_MAX,
};
use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
};
use vermeil_io::{ListenOptions, bind, listen, probe_free};
use vermeil_topology::CpuId;

/// The server cannot listen on an address.
#[derive(Debug)]
pub struct ListenError {
    addr: SocketAddr,
    holder: Option<Holder>,
    source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, source, .. } = self;
        write!(f, "cannot listen on {addr}: ")?;
        match (source.kind(), &self.holder) {
            (io::ErrorKind::AddrInUse, Some(holder)) => {
                write!(
                    f,
                    "the address is in use by {holder}; stop it or choose another with --listen or [[listener]]"
                )
            }
            (io::ErrorKind::AddrInUse, None) => {
                write!(f, "the address is in use; choose another with --listen or [[listener]]")
            }
            (io::ErrorKind::PermissionDenied, _) if addr.port() < 1024 => write!(
                f,
                "ports below 1024 need the right to bind them (CAP_NET_BIND_SERVICE); choose another with --listen or [[listener]]"
            ),
            (io::ErrorKind::AddrNotAvailable, _) => {
                write!(
                    f,
                    "this machine has no such address; choose one of its own with --listen or [[listener]]"
                )
            }
            _ => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// One address, and a socket on it for each core. More sockets if they come from a server that had
/// more cores.
#[derive(Debug)]
pub(crate) struct Listening {
    /// The address as configured.
    pub(crate) asked: SocketAddr,
    /// The address as bound, with the actual port.
    pub(crate) addr: SocketAddr,
    /// In the order of the cores. With more sockets than cores, the order begins again with the
    /// first core.
    pub(crate) sockets: Vec<OwnedFd>,
}

impl Listening {
    /// Duplicates the sockets.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let Self { asked, addr, sockets } = self;
        let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { asked: *asked, addr: *addr, sockets })
    }
}

/// Opens all sockets or none. Each new socket gets the cpu preference of `balancing`; inherited
/// sockets keep their state. `ours` are the ports on which this server listens already, perhaps on
/// another address.
pub(crate) fn listen_on(
    addrs: &[SocketAddr],
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[u16],
    inherited: &mut Inherited,
) -> Result<Vec<Listening>, ListenError> {
    let listen_on_one = |&addr: &SocketAddr| {
        let sockets = inherited.take(addr);
        if !sockets.is_empty() {
            return complete(addr, sockets, cpus).map_err(|source| refused(addr, source));
        }
        let listening = open(addr, cpus, balancing, ours)?;
        balancing.take_charge_of(listening.addr, &listening.sockets);
        Ok(listening)
    };
    addrs.iter().map(listen_on_one).collect()
}

/// Like [`listen_on`], but without inherited sockets and without the kernel's program that chooses
/// among the sockets.
pub(crate) fn bind_all(
    addrs: &[SocketAddr],
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[u16],
) -> Result<Vec<Listening>, ListenError> {
    addrs.iter().map(|addr| open(*addr, cpus, balancing, ours)).collect()
}

fn refused(addr: SocketAddr, source: io::Error) -> ListenError {
    let in_use = source.kind() == io::ErrorKind::AddrInUse;
    ListenError { addr, holder: in_use.then(|| who_listens(addr)).flatten(), source }
}

/// The processes that may block an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Other processes, which the server probes for.
    Others,
    /// This process, which shares its ports only with itself.
    Ours,
}

fn open(
    addr: SocketAddr,
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[u16],
) -> Result<Listening, ListenError> {
    let port_is_ours = addr.port() != 0 && ours.contains(&addr.port());
    let probe = if port_is_ours { Probe::Ours } else { Probe::Others };
    open_sockets(addr, cpus, balancing, probe).map_err(|source| refused(addr, source))
}

fn open_sockets(
    addr: SocketAddr,
    cpus: &[CpuId],
    balancing: &Balancing,
    probe: Probe,
) -> io::Result<Listening> {
    // Sockets that share a port share it with every process of this user. Without this probe, a
    // second server would start and take half of the first server's connections.
    if probe == Probe::Others {
        probe_free(addr)?;
    }
    let mut bound = addr;
    let mut sockets = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        let options = ListenOptions { backlog: QUEUE_MAX, incoming_cpu: balancing.preference(*cpu) };
        let socket = TcpListener::from(listen(bound, &options)?);
        bound = socket.local_addr()?;
        sockets.push(socket.into());
    }
    Ok(Listening { asked: addr, addr: bound, sockets })
}

/// Adds sockets for cores that the previous server did not have. A new socket listens only once its
/// core accepts. If it listened before, its connections would be lost with a server that fails to
/// start.
fn complete(asked: SocketAddr, mut sockets: Vec<OwnedFd>, cpus: &[CpuId]) -> io::Result<Listening> {
    let first = TcpListener::from(sockets[0].try_clone()?);
    let addr = first.local_addr()?;
    while sockets.len() < cpus.len() {
        sockets.push(bind(addr, None)?);
    }
    Ok(Listening { asked, addr, sockets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::Balance;

    fn balancing(cores: usize) -> Balancing {
        Balancing::choose(Balance::Local, &vec![CpuId(0); cores])
    }

    #[test]
    fn a_taken_address_says_so_and_how_to_go_on() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let error = listen_on(&[addr], &[CpuId(0)], &balancing(1), &[], &mut Inherited::default())
            .expect_err("it is taken")
            .to_string();
        let expected = "the address is in use; choose another with --listen or [[listener]]";
        assert_eq!(error, format!("cannot listen on {addr}: {expected}"));
    }

    #[test]
    fn every_core_gets_a_socket_on_the_same_port() {
        let any = "127.0.0.1:0".parse().unwrap();
        let listening =
            listen_on(&[any], &[CpuId(0), CpuId(0)], &balancing(2), &[], &mut Inherited::default()).unwrap();
        assert_eq!(listening[0].sockets.len(), 2);
        assert_ne!(listening[0].addr.port(), 0);
        let second =
            listen_on(&[listening[0].addr], &[CpuId(0)], &balancing(1), &[], &mut Inherited::default());
        assert!(second.is_err(), "a second server does not share the port");
    }
}
