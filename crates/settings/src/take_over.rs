//! The server to take over from at start (`handover/`).

use std::path::PathBuf;

/// The server to take over from at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// No takeover: an address that another server has is refused.
    #[default]
    Never,
    /// The server whose control socket has the path configured here; by default, the only server of
    /// this user.
    SameControl,
    /// The server with this control socket.
    At(PathBuf),
}
