//! Replaces the previous server's choice among inherited sockets by the choice of this server.
//!
//! There are two steps, because a confined process cannot load programs. Preparing loads the
//! program before the confinement. Carrying out attaches the program when the previous server has
//! let go. Tested through the binary (`crates/e2e/tests/e2e/handover.rs`).

use super::Balancing;
use crate::listening::{Listening, SocketKeeper};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
};
use vermeil_address::ListenAddr;
use vermeil_io::{prefer_cpu, shares_port};
use vermeil_steer::{Group, detach_program};
use vermeil_topology::CpuId;

/// The change for the sockets of an address.
pub struct Changeover {
    addr: SocketAddr,
    sockets: Vec<OwnedFd>,
    /// The program for the sockets. `None` if this server does not choose by a program.
    group: Option<io::Result<Group>>,
}

impl Changeover {
    /// Prepares the change for an address. Returns `None` for a unix socket and a socket of the
    /// service manager, because all cores share such a socket.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn prepare(balancing: &Balancing, listening: &Listening) -> io::Result<Option<Self>> {
        let ListenAddr::Tcp(addr) = listening.addr else { return Ok(None) };
        let Listening { sockets, keeper, .. } = listening.try_clone()?;
        if keeper == SocketKeeper::Manager
            || !sockets.first().is_some_and(|socket| shares_port(socket.as_fd()))
        {
            return Ok(None);
        }
        let group = balancing.group();
        Ok(Some(Self { addr, sockets, group }))
    }

    /// Carries out the change. `cpus`: the cpu of each core. Call this function when all sockets
    /// listen.
    pub fn carry_out(self, balancing: &Balancing, cpus: &[CpuId]) {
        let Self { addr, sockets, group } = self;
        for (socket, &cpu) in sockets.iter().zip(cpus.iter().cycle()) {
            // A refusal is harmless, because the previous server got no preference, either.
            let _ = prefer_cpu(socket.as_fd(), balancing.preference(cpu));
        }
        match group {
            // The map of the program has room for one socket per core.
            Some(group) => balancing.take_charge_by(addr, group, &sockets[..cpus.len()]),
            // If the kernel cannot detach the previous server's program, the program goes on, and
            // sees no load. Each connection then goes to the cpu of its packets.
            None => drop(detach_program(sockets[0].as_fd())),
        }
    }
}
