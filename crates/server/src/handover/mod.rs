//! One server takes over from another: a new binary, or other cores, without a connection lost.
//!
//! The new one asks over the old one's control socket, which only its owner can open, and is given one end of a socket pair.
//! Over that come the listening sockets themselves, those for agent checks and the control socket, as descriptors. Both
//! have them from then on, so there is no moment at which nobody listens: who stands in a queue is taken by whichever comes
//! first, and handshakes that are under way end in the same sockets. Once the new one serves it says so, and the old one lets
//! go: it finishes its requests, closes its idle connections, and ends. If the new one ends before that, for whatever reason,
//! the old one has changed nothing. While it waits it takes no other configuration.
//!
//! What is chosen in the kernel changes at the end (`balance/changeover.rs`): which cpu a socket prefers, and by which program.
//! With fewer cores than the old server had, each core accepts from several of its sockets; with more, the last ones get new
//! ones. Those that are too many stay until a restart: to close a socket resets the handshakes that are under way in it, and to
//! refuse new ones first, until they are over, has clients wait for the second after which they try again.
//!
//! Reading order: `take` (the new server), `give` (the old one). Tested through the binary (`crates/cli/tests/e2e/handover.rs`).

mod give;
mod take;

pub(crate) use give::{Handing, HasControl, Taker};
pub(crate) use take::Inherited;
pub use take::{TakeOver, TakeOverError};

use crate::listen::Listening;
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// What is handed over. Descriptors: the control socket, and those of all addresses. Other versions may leave out nothing of
/// this, and may add to it.
#[derive(Serialize, Deserialize)]
struct Handed {
    /// Of the server that hands over.
    pid: u32,
    /// Where its control socket is.
    control: PathBuf,
    listening: Vec<Address>,
    /// For agent checks.
    agent: Vec<Address>,
}

/// An address with its sockets, in the order of the cores.
#[derive(Serialize, Deserialize)]
struct Address {
    asked: SocketAddr,
    addr: SocketAddr,
    sockets: usize,
}

impl Address {
    fn of(listening: &Listening) -> Self {
        let Listening { asked, addr, sockets } = listening;
        Self { asked: *asked, addr: *addr, sockets: sockets.len() }
    }
}

/// What the server that takes over says once it serves.
#[derive(Serialize, Deserialize)]
struct Serves {
    /// Whether it answers the control socket of the other from now on.
    has_control: bool,
}

/// Whether the bytes are a message of either side.
#[cfg(feature = "fuzz")]
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    crate::messages::read::<Handed>(bytes).is_ok() || crate::messages::read::<Serves>(bytes).is_ok()
}
