//! Opens the listening sockets, all before the first connection is accepted: of TCP one per address
//! and core, of a unix socket one for all cores (`listen/unix.rs`). Unix sockets get their paths
//! last (`listen/names.rs`).
//!
//! Leaves out accepting (`accept.rs`). The errors are tested through the binary.

mod names;
pub mod unix;

pub use names::{Published, Unpublished};

use crate::{
    admission_control::QUEUE_MAX,
    balance::Balancing,
    listening::{Listening, SocketKeeper},
    port_owner::{PortOwner, who_listens},
};
use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
};
use unix::Refusal;
use vermeil_address::{ListenAddr, SocketFile, UnixAddr};
use vermeil_io::{ListenOptions, bind, listen, output::FileOwner, probe_free, probe_once, shares_port};
use vermeil_settings::rights;
use vermeil_topology::CpuId;

/// The server cannot listen on an address.
#[derive(Debug)]
pub struct ListenError {
    addr: ListenAddr,
    holder: Option<PortOwner>,
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
            (io::ErrorKind::NotFound, _) => {
                write!(f, "there is no such folder; make it, or choose another with --listen or [[listener]]")
            }
            (io::ErrorKind::PermissionDenied, _) if addr.port().is_some_and(|port| port < 1024) => write!(
                f,
                "ports below 1024 need the right to bind them (CAP_NET_BIND_SERVICE); choose another with --listen or [[listener]]"
            ),
            (io::ErrorKind::AddrNotAvailable, _) => {
                write!(
                    f,
                    "this machine has no such address; choose one of its own with --listen or [[listener]]"
                )
            }
            (io::ErrorKind::PermissionDenied, _) => write!(
                f,
                "{source}; start as a user with the right to it, or choose another with --listen or [[listener]]"
            ),
            _ => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Opens all sockets or none. Each new socket gets the cpu preference of `balancing`; inherited
/// sockets keep their state. `inherited` gives the sockets of an address that an earlier process
/// opened. `ours` are the addresses of this server, or of the server that it takes over from, as
/// bound. Unix sockets listen under temporary names until the caller publishes them, and their
/// files get `owner`.
pub fn listen_on(
    addrs: &[ListenAddr],
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[ListenAddr],
    owner: Option<FileOwner>,
    mut inherited: impl FnMut(ListenAddr) -> Option<Listening>,
) -> Result<(Vec<Listening>, Unpublished), ListenError> {
    let (mut all, mut names) = (Vec::with_capacity(addrs.len()), Unpublished::of(owner));
    for &addr in addrs {
        if let Some(before) = inherited(addr)
            && let Some(taken) =
                complete(addr, before, cpus, &mut names).map_err(|source| refused(addr, source))?
        {
            all.push(taken);
            continue;
        }
        let listening = open(addr, cpus, balancing, ours, &mut names)?;
        if let ListenAddr::Tcp(addr) = listening.addr {
            balancing.take_charge_of(addr, &listening.sockets);
        }
        all.push(listening);
    }
    Ok((all, names))
}

/// Like [`listen_on`], but without inherited sockets and without the kernel's program that chooses
/// among the sockets.
pub fn bind_all(
    addrs: &[ListenAddr],
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[ListenAddr],
) -> Result<(Vec<Listening>, Unpublished), ListenError> {
    let mut names = Unpublished::default();
    let open = |addr: &ListenAddr| open(*addr, cpus, balancing, ours, &mut names);
    let all = addrs.iter().map(open).collect::<Result<_, _>>()?;
    Ok((all, names))
}

/// The reasons why no socket can listen on `addrs`, found by binding and closing a socket for each.
/// A server of this program that holds an address is no reason, because the configuration may be
/// its own. Neither is a service manager, which passes its sockets to the server.
pub fn obstacles(addrs: impl Iterator<Item = SocketAddr>) -> Vec<ListenError> {
    let ours = own_command();
    let is_known =
        |holder: &PortOwner| holder.pid == SERVICE_MANAGER || Some(&holder.command) == ours.as_ref();
    let look = |addr: SocketAddr| {
        let error = refused(addr.into(), probe_once(addr).err()?);
        let may_be_own = error.holder.as_ref().is_none_or(is_known);
        (error.source.kind() != io::ErrorKind::AddrInUse || !may_be_own).then_some(error)
    };
    addrs.filter_map(look).collect()
}

/// The process id of the service manager.
const SERVICE_MANAGER: u32 = 1;

/// The name of this process, as processes of the same program have.
fn own_command() -> Option<String> {
    std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim_end().to_owned())
}

fn refused(addr: ListenAddr, source: io::Error) -> ListenError {
    let in_use = source.kind() == io::ErrorKind::AddrInUse;
    let holder = addr.tcp().filter(|_| in_use).and_then(who_listens);
    ListenError { addr, holder, source: rights::explain(source) }
}

/// The processes that may block an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressProbe {
    /// Other processes, which the server probes for.
    Others,
    /// This process, which shares its ports only with itself.
    Ours,
}

fn open(
    asked: ListenAddr,
    cpus: &[CpuId],
    balancing: &Balancing,
    ours: &[ListenAddr],
    names: &mut Unpublished,
) -> Result<Listening, ListenError> {
    match asked {
        ListenAddr::Tcp(addr) => {
            let is_shared = ours.iter().filter_map(ListenAddr::tcp).any(|ours| shares(addr, ours));
            let probe = if is_shared { AddressProbe::Ours } else { AddressProbe::Others };
            open_sockets(addr, cpus, balancing, probe).map_err(|source| refused(asked, source))
        }
        ListenAddr::Unix(addr) => {
            let own = ours.iter().find(|ours| ours.is_at(&asked)).and_then(ListenAddr::unix);
            open_unix(addr, cpus, own.and_then(UnixAddr::file), names)
        }
    }
}

/// Whether the sockets of one address block the other address.
fn shares(one: SocketAddr, other: SocketAddr) -> bool {
    let is_wildcard = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_same_ip = one.ip() == other.ip() || (is_wildcard && one.is_ipv4() == other.is_ipv4());
    one.port() != 0 && one.port() == other.port() && is_same_ip
}

fn open_unix(
    addr: UnixAddr,
    cpus: &[CpuId],
    own: Option<SocketFile>,
    names: &mut Unpublished,
) -> Result<Listening, ListenError> {
    let (pending, sockets) =
        unix::open(addr, cpus.len(), own, names.owner()).map_err(|refusal| refused_unix(addr, refusal))?;
    let (asked, bound) = (ListenAddr::Unix(addr), ListenAddr::Unix(pending.addr));
    names.add_name(pending);
    Ok(Listening { asked, addr: bound, sockets, keeper: SocketKeeper::Server })
}

fn refused_unix(addr: UnixAddr, refusal: Refusal) -> ListenError {
    let addr = ListenAddr::Unix(addr);
    match refusal {
        Refusal::Taken(holder) => ListenError { addr, holder, source: io::ErrorKind::AddrInUse.into() },
        Refusal::Io(source) => refused(addr, source),
    }
}

fn open_sockets(
    addr: SocketAddr,
    cpus: &[CpuId],
    balancing: &Balancing,
    probe: AddressProbe,
) -> io::Result<Listening> {
    // Sockets that share a port share it with every process of this user. Without this probe, a
    // second server would start and take half of the first server's connections.
    if probe == AddressProbe::Others {
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
    Ok(Listening { asked: addr.into(), addr: bound.into(), sockets, keeper: SocketKeeper::Server })
}

/// Adds sockets for cores that the previous server did not have. A new socket listens only once its
/// core accepts. If it listened before, its connections would be lost with a server that fails to
/// start. Returns `None` if no client reaches the inherited socket, because its path leads to
/// another file. A socket of the service manager serves all cores, because no further socket may
/// listen on its address.
fn complete(
    asked: ListenAddr,
    before: Listening,
    cpus: &[CpuId],
    names: &mut Unpublished,
) -> io::Result<Option<Listening>> {
    let Listening { addr, mut sockets, keeper, .. } = before;
    let addr = match (asked, addr) {
        (ListenAddr::Unix(asked), ListenAddr::Unix(bound)) => {
            let Some(addr) = unix::renew(asked, bound, names) else { return Ok(None) };
            duplicate(&mut sockets, cpus.len())?;
            ListenAddr::Unix(addr)
        }
        _ if keeper == SocketKeeper::Manager || !shares_port(sockets[0].as_fd()) => {
            duplicate(&mut sockets, cpus.len())?;
            addr
        }
        _ => {
            let first = TcpListener::from(sockets[0].try_clone()?);
            let addr = first.local_addr()?;
            while sockets.len() < cpus.len() {
                sockets.push(bind(addr, None)?);
            }
            addr.into()
        }
    };
    Ok(Some(Listening { asked, addr, sockets, keeper }))
}

/// Makes as many duplicates of one socket as there are cores.
fn duplicate(sockets: &mut Vec<OwnedFd>, cores: usize) -> io::Result<()> {
    sockets.truncate(cores);
    while sockets.len() < cores {
        sockets.push(sockets[0].try_clone()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_settings::Balance;

    fn balancing(cores: usize) -> Balancing {
        Balancing::choose(Balance::Local, &vec![CpuId(0); cores])
    }

    #[test]
    fn taken_address_is_named_with_cure() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = ListenAddr::from(taken.local_addr().unwrap());
        let error = listen_on(&[addr], &[CpuId(0)], &balancing(1), &[], None, |_| None)
            .map(drop)
            .expect_err("it is taken")
            .to_string();
        let expected = "the address is in use; choose another with --listen or [[listener]]";
        assert_eq!(error, format!("cannot listen on {addr}: {expected}"));
    }

    #[test]
    fn every_core_gets_a_socket_on_the_same_port() {
        let any = ListenAddr::from("127.0.0.1:0".parse::<SocketAddr>().unwrap());
        let (listening, _no_names) =
            listen_on(&[any], &[CpuId(0), CpuId(0)], &balancing(2), &[], None, |_| None).unwrap();
        assert_eq!(listening[0].sockets.len(), 2);
        assert!(listening[0].addr.port().is_some());
        let second = listen_on(&[listening[0].addr], &[CpuId(0)], &balancing(1), &[], None, |_| None);
        assert!(second.is_err(), "a second server does not share the port");
    }

    /// Regression: another process on the port, at another address of this machine, shared its
    /// connections with this server.
    #[test]
    fn other_address_with_our_port_is_probed() {
        let ours: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let ours = listen_on(&[ours.into()], &[CpuId(0)], &balancing(1), &[], None, |_| None).unwrap().0;
        let port = ours[0].addr.port().unwrap();
        let options = ListenOptions { backlog: QUEUE_MAX, incoming_cpu: None };
        let other = SocketAddr::from(([127, 0, 0, 2], port));
        let _another = listen(other, &options).unwrap();
        let shared = listen_on(&[other.into()], &[CpuId(0)], &balancing(1), &[ours[0].addr], None, |_| None);
        assert!(shared.is_err());
    }

    #[test]
    fn wildcard_shares_every_address_of_its_family() {
        let shares = |one: &str, other: &str| shares(one.parse().unwrap(), other.parse().unwrap());
        assert!(shares("127.0.0.1:80", "127.0.0.1:80"));
        assert!(shares("0.0.0.0:80", "127.0.0.1:80"));
        assert!(shares("[::1]:80", "[::]:80"));
        assert!(!shares("0.0.0.0:80", "[::1]:80"), "sockets of version 6 take no version 4");
        assert!(!shares("127.0.0.1:80", "127.0.0.2:80"));
        assert!(!shares("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!shares("127.0.0.1:0", "127.0.0.1:0"), "the kernel chooses another port");
    }
}
