//! The clients that a host or a route lets in: by network, by name and password, and how often.
//!
//! The rules of a route are complete: keys that the route does not set are those of its host.
//! Leaves out the answers to refused requests (`answer/gate.rs`). Tested through the binary
//! (`crates/e2e/tests/e2e/access.rs`).

use super::Network;
use crate::access::{ProgressLimit, RateLimit, UserFile};
use std::sync::Arc;
use vermeil_address::Client;

/// The rules of a host or a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The clients that are let in; an empty list means all clients.
    pub allow: Vec<Network>,
    /// Clients that are not let in, although `allow` has them.
    pub deny: Vec<Network>,
    /// The users with passwords. `None` lets in every client.
    pub realm: Option<Realm>,
    /// How often a client may ask.
    pub rate: Option<RateLimit>,
    /// How many requests of a client may be in progress at once.
    pub in_progress: Option<ProgressLimit>,
}

/// Users with passwords, and the name under which clients are asked for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Realm {
    /// The name that browsers show.
    pub name: Box<str>,
    /// The users.
    pub users: Arc<UserFile>,
}

impl Guard {
    /// Whether the client `peer` may ask. An unknown client is in no network, and could be in each
    /// denied one.
    pub fn lets_in(&self, peer: Option<Client>) -> bool {
        let is_in = |networks: &[Network]| {
            peer.is_some_and(|peer| networks.iter().any(|network| network.contains(peer)))
        };
        let is_unknown = matches!(peer, None | Some(Client::Unknown));
        let is_denied = is_in(&self.deny) || is_unknown && !self.deny.is_empty();
        !is_denied && (self.allow.is_empty() || is_in(&self.allow))
    }
}
