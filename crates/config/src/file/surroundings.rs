//! The machine that a command line or a configuration is resolved against: this machine, or an
//! invented one in tests.

use super::values::{Listen, PhpPlace};
use crate::options::ServeOptions;
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
};
use vermeil_address::{ListenAddr, UnixAddr, too_long_path};
use vermeil_routing::paths;
use vermeil_settings::{RequestedPlacement, php::PhpSource};
use vermeil_topology::{Allowed, CPUS_MAX, CpuId, CpuSet, Instance, Machine, TopologyError, allowed, sysfs};

/// A machine, and the part of the machine that the server may use.
pub struct Surroundings {
    /// Its cpus, caches and nodes.
    pub machine: Machine,
    /// The cpus that this process may run on.
    pub allowed: Allowed,
    /// Whether sockets of IPv6 can be bound.
    pub has_ipv6: bool,
    /// Gives the addresses of a name, each with the port.
    pub look_up: fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    /// Cores and instances that are known already.
    pub given: GivenParts,
}

/// Cores and instances that are known before a configuration is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenParts {
    /// Nothing is known, because the server starts.
    Nothing,
    /// All instances are known: another process (the supervisor) decided.
    Instances(Vec<Instance>),
    /// A server runs, with the instances that its own selection resulted in. A cpu may have been
    /// taken away since.
    InForce(RequestedPlacement, Vec<Instance>),
}

/// Why a name is no address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The lookup failed.
    #[error("the name cannot be resolved: {0}; write an address such as 127.0.0.1:8080")]
    Failed(io::Error),
    /// The lookup found no address.
    #[error("the name has no address; write an address such as 127.0.0.1:8080")]
    None,
    /// A unix socket with a path that the kernel refuses.
    #[error("{}; name a shorter one", too_long_path(.0))]
    LongPath(PathBuf),
    /// A unix socket for a purpose that needs TCP.
    #[error("this is a unix socket; write an address of TCP such as 127.0.0.1:8080")]
    NotTcp,
    /// A socket for all interfaces overlaps with a socket for an address of the same port.
    #[error("another listener has this address: {all} has {one} too; leave one of them out")]
    Overlap {
        /// The address of all interfaces.
        all: SocketAddr,
        /// An address that the address of all interfaces includes.
        one: SocketAddr,
    },
}

impl Surroundings {
    /// This machine, from `/sys`, and what is allowed from the affinity mask and the cgroups.
    ///
    /// # Errors
    /// `/sys` has no cpus.
    pub fn here() -> Result<Self, TopologyError> {
        let root = Path::new("/");
        let machine = sysfs::read(root)?;
        let mut affinity = CpuSet::new();
        for cpu in vermeil_io::current_affinity() {
            match u32::try_from(cpu) {
                Ok(cpu) if cpu < CPUS_MAX => affinity.insert(CpuId(cpu)),
                _ => {}
            }
        }
        // The kernel lists the addresses of IPv6 there; without IPv6 there is no such file.
        let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
        let look_up = |name: &str, port| (name, port).to_socket_addrs().map(Iterator::collect);
        Ok(Self { machine, allowed: allowed(root, &affinity), has_ipv6, look_up, given: GivenParts::Nothing })
    }

    /// The surroundings of a running server with these options. Its instances stay the same, also
    /// after a cpu has been taken away.
    pub fn of_running(self, options: &ServeOptions) -> Self {
        Self { given: GivenParts::InForce(options.placement.clone(), options.instances.clone()), ..self }
    }

    /// The instances that the selection `asked` results in.
    ///
    /// # Errors
    /// Cores that do not exist or are not allowed.
    pub fn instances(&self, asked: &RequestedPlacement) -> Result<Vec<Instance>, TopologyError> {
        match &self.given {
            GivenParts::Instances(decided) => Ok(decided.clone()),
            GivenParts::InForce(before, came_to) if before == asked => Ok(came_to.clone()),
            GivenParts::InForce(..) | GivenParts::Nothing => {
                let cpus = asked.cores.resolve(&self.machine, &self.allowed)?;
                Ok(asked.instances.divide(&self.machine, &cpus))
            }
        }
    }

    /// The instances that will serve: a running server keeps its own, whatever was `asked` for.
    pub(super) fn serving<'i>(&'i self, asked: &'i [Instance]) -> &'i [Instance] {
        match &self.given {
            GivenParts::InForce(_, in_force) => in_force,
            GivenParts::Instances(_) | GivenParts::Nothing => asked,
        }
    }

    /// Adds the addresses of `listen` to `addrs`, each once, because two sockets for the same
    /// address would compete.
    ///
    /// # Errors
    /// A name without an address, or an address that overlaps with another listener's.
    pub fn resolve(&self, listen: &Listen, addrs: &mut Vec<ListenAddr>) -> Result<(), AddressError> {
        let Listen::Unix(path) = listen else {
            let mut tcp: Vec<SocketAddr> = addrs.iter().filter_map(ListenAddr::tcp).collect();
            let before = tcp.len();
            self.resolve_tcp(listen, &mut tcp)?;
            addrs.extend(tcp.drain(before..).map(ListenAddr::Tcp));
            return Ok(());
        };
        let path = paths::absolute(path);
        let addr = ListenAddr::Unix(UnixAddr::new(&path).ok_or(AddressError::LongPath(path))?);
        if !addrs.iter().any(|other| other.is_at(&addr)) {
            addrs.push(addr);
        }
        Ok(())
    }

    /// As [`resolve`](Self::resolve), for addresses of TCP only.
    ///
    /// # Errors
    /// As there, and a unix socket.
    pub fn resolve_tcp(&self, listen: &Listen, addrs: &mut Vec<SocketAddr>) -> Result<(), AddressError> {
        if let Listen::Unix(_) = listen {
            return Err(AddressError::NotTcp);
        }
        let found = listen.addresses(self.look_up).map_err(AddressError::Failed)?;
        if found.is_empty() {
            return Err(AddressError::None);
        }
        for addr in found {
            // Without IPv6, "all interfaces" is IPv4 only. A written IPv6 address is tried.
            let left_out = matches!(listen, Listen::Everywhere(_)) && addr.is_ipv6() && !self.has_ipv6;
            if left_out || addrs.contains(&addr) {
                continue;
            }
            if let Some(error) = addrs.iter().find_map(|&other| overlap(addr, other)) {
                return Err(error);
            }
            addrs.push(addr);
        }
        Ok(())
    }

    /// The source of PHP; a name stands for all its addresses.
    ///
    /// # Errors
    /// A name without address.
    pub fn resolve_php(&self, place: PhpPlace) -> Result<PhpSource, AddressError> {
        Ok(match place {
            PhpPlace::Own => PhpSource::Own,
            PhpPlace::Program(program) => PhpSource::Program(program),
            PhpPlace::Unix(path) => PhpSource::Unix(path),
            PhpPlace::Tcp(listen) => {
                let mut addrs = Vec::new();
                self.resolve_tcp(&listen, &mut addrs)?;
                PhpSource::Tcp(addrs)
            }
        })
    }
}

/// The error of two different addresses if one includes the other. An IPv6 socket does not include
/// IPv4 addresses.
fn overlap(a: SocketAddr, b: SocketAddr) -> Option<AddressError> {
    if a.port() == 0 || a.port() != b.port() || a.is_ipv4() != b.is_ipv4() {
        return None;
    }
    match (a.ip().is_unspecified(), b.ip().is_unspecified()) {
        (true, _) => Some(AddressError::Overlap { all: a, one: b }),
        (_, true) => Some(AddressError::Overlap { all: b, one: a }),
        _ => None,
    }
}
