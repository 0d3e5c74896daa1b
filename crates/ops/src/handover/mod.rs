//! Takeover: a new server process (a new binary, or other cores) replaces a running one without
//! losing a connection.
//!
//! The new server asks on the old server's control socket, which only the owner can open, and
//! receives an end of a socket pair. The listening sockets, the agent-check sockets and the control
//! socket follow as descriptors.
//!
//! From then on both servers hold the sockets, so some process listens at every moment. Whichever
//! server accepts first takes a queued connection, and handshakes under way complete in the same
//! sockets. The new server reports readiness. Then the old server finishes its requests, closes its
//! idle connections and ends. If the new server ends earlier, for any reason, the old server has
//! changed nothing. While the old server waits, the server refuses to reload.
//!
//! The kernel's socket selection changes last (`balance/changeover.rs`): the cpu that each socket
//! prefers, and the selecting program. With fewer cores than before, each core accepts from several
//! of the old sockets; with more, the last cores get new sockets. Surplus sockets stay open until a
//! restart, because closing a socket resets the handshakes under way in it. Refusing new handshakes
//! first is no better, because those clients wait a second before the next attempt.
//!
//! Reading order: `take` (the new server), `give` (the old server). Tested through the binary
//! (`crates/e2e/tests/e2e/handover.rs`).

mod give;
mod take;

pub use give::{Handing, HasControl, Taker};
pub use take::Inherited;
pub use take::TakeOverError;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vermeil_accept::listening::{Listening, SocketKeeper};
use vermeil_address::ListenAddr;
use vermeil_tls::TicketSecret;

/// The handover message. Descriptors: the control socket, then the sockets of all addresses. Other
/// versions may add fields but must not omit any.
#[derive(Serialize, Deserialize)]
struct Handed {
    /// Process id of the old server.
    pid: u32,
    /// Path of the old server's control socket.
    control: PathBuf,
    listening: Vec<AddressSockets>,
    /// Sockets for agent checks.
    agent: Vec<AddressSockets>,
    /// The secret of TLS session tickets. Older versions have none.
    tickets: Option<TicketSecret>,
}

/// An address with its sockets, in the order of the cores.
#[derive(Serialize, Deserialize)]
struct AddressSockets {
    asked: ListenAddr,
    addr: ListenAddr,
    sockets: usize,
    /// Older versions name none.
    #[serde(default)]
    keeper: SocketKeeper,
}

impl AddressSockets {
    fn of(listening: &Listening) -> Self {
        let Listening { asked, addr, sockets, keeper } = listening;
        Self { asked: *asked, addr: *addr, sockets: sockets.len(), keeper: *keeper }
    }
}

/// Sent by the new server once ready to serve.
#[derive(Serialize, Deserialize)]
struct Serves {
    /// Whether the new server answers the old server's control socket from now on.
    has_control: bool,
}

/// Whether the bytes are a message of either side.
#[cfg(feature = "fuzz")]
pub fn is_message(bytes: &[u8]) -> bool {
    crate::messages::read::<Handed>(bytes).is_ok() || crate::messages::read::<Serves>(bytes).is_ok()
}
