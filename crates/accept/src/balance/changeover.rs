//! Moves the choice among inherited sockets from the previous server to this server. The change is
//! prepared while this process may load programs, and carried out when the previous server has let
//! go. Tested through the binary (`crates/e2e/tests/e2e/handover.rs`).

use super::Balancing;
use crate::listening::{Listening, SocketKeeper};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
};
use vermeil_address::ListenAddr;
use vermeil_io::{prefer_cpu, shares_port};
use vermeil_log::operator_log::log_line;
use vermeil_steer::{Group, choose_no_more};
use vermeil_topology::CpuId;

/// The change for an address.
pub struct Changeover {
    addr: SocketAddr,
    sockets: Vec<OwnedFd>,
    /// The program that will choose, if a program is to choose.
    group: Option<io::Result<Group>>,
}

impl Changeover {
    /// Prepares for an address. A unix socket and a socket of the service manager need nothing,
    /// because all cores share it.
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

    /// Carries out the change. Call this function when all sockets listen.
    pub fn carry_out(self, balancing: &Balancing, cpus: &[CpuId]) {
        let Self { addr, sockets, group } = self;
        for (socket, &cpu) in sockets.iter().zip(cpus.iter().cycle()) {
            // A kernel that lacks this preference had none before either.
            let _ = prefer_cpu(socket.as_fd(), balancing.preference(cpu));
        }
        match (&balancing.chooser, group) {
            (Some(chooser), Some(group)) => {
                let chooses = group.and_then(|group| chooser.choose_by(group, &sockets[..cpus.len()]));
                chooses.unwrap_or_else(|error| say_unchosen(addr, &error));
            }
            // If the kernel cannot detach the program, the program continues to choose the cpu of
            // the packets, because it sees no more work.
            _ => drop(choose_no_more(sockets[0].as_fd())),
        }
    }
}

/// Logs that the kernel does not choose, and the consequence.
pub(super) fn say_unchosen(addr: SocketAddr, error: &io::Error) {
    log_line(format_args!(
        "balance: the kernel does not choose among the cores for {addr}: {error}; its connections go to the cpu of their packets"
    ));
}
