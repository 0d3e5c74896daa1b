//! The proxies that the server believes: their networks, the fields that they set, and the
//! listeners at which they announce the client before the first request.
//!
//! Leaves out reading the announcements (`connection/origin.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/proxies.rs`).

use super::Network;
use vermeil_address::{Client, ListenAddr};
use vermeil_http::forwarded::ForwardedBy;

/// The believed proxies. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// The networks of the proxies.
    pub from: Vec<Network>,
    /// The fields that name the client. `None` if only the PROXY protocol does.
    pub fields: Option<ForwardedBy>,
    /// The listeners, as configured, whose connections begin with a header of the PROXY protocol.
    pub listeners: Vec<ListenAddr>,
}

impl TrustedProxies {
    /// Whether `client` is a believed proxy.
    pub fn trusts(&self, client: Client) -> bool {
        self.from.iter().any(|network| network.contains(client))
    }

    /// Whether a connection at the listener `at` begins with a header of the PROXY protocol.
    pub fn announce_at(&self, at: Option<ListenAddr>) -> bool {
        at.is_some_and(|at| self.listeners.iter().any(|listener| listener.is_at(&at)))
    }
}
