//! Sockets that were another server's come to be chosen from as this server has it: prepared while it may load programs, and
//! done when the other one has let go. Tested through the binary (`crates/cli/tests/e2e/handover.rs`).

use super::Balancing;
use crate::{listen::Listening, voice::say};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
};
use vermeil_io::prefer_cpu;
use vermeil_steer::{Group, choose_no_more};
use vermeil_topology::CpuId;

/// What is to change for one address.
pub(crate) struct Changeover {
    addr: SocketAddr,
    sockets: Vec<OwnedFd>,
    /// The program that is to choose, if one is.
    group: Option<io::Result<Group>>,
}

impl Changeover {
    /// Prepares for an address.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn prepare(balancing: &Balancing, listening: &Listening) -> io::Result<Self> {
        let Listening { addr, sockets, .. } = listening.try_clone()?;
        let group = balancing.group();
        Ok(Self { addr, sockets, group })
    }

    /// To be called when all sockets listen.
    pub(crate) fn carry_out(self, balancing: &Balancing, cpus: &[CpuId]) {
        let Self { addr, sockets, group } = self;
        for (socket, &cpu) in sockets.iter().zip(cpus.iter().cycle()) {
            // Where the kernel has no such preference it had none before.
            let _ = prefer_cpu(socket.as_fd(), balancing.preference(cpu));
        }
        match (&balancing.chooser, group) {
            (Some(chooser), Some(group)) => {
                let chooses = group.and_then(|group| chooser.choose_by(group, &sockets[..cpus.len()]));
                chooses.unwrap_or_else(|error| say_unchosen(addr, &error));
            }
            // Where the kernel cannot, a program that knows of no work any more goes on to choose the cpu of the packets.
            _ => drop(choose_no_more(sockets[0].as_fd())),
        }
    }
}

/// The kernel does not choose, and what happens instead.
pub(super) fn say_unchosen(addr: SocketAddr, error: &io::Error) {
    say(format_args!(
        "balance: the kernel does not choose among the cores for {addr}: {error}; its connections go to the cpu of their packets"
    ));
}
