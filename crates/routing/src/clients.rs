//! Counts the connections of each client address, across the cores of an instance.
//!
//! A connection takes a lock of the counts (`access/keyed_counts.rs`) at its begin and end, and no
//! request takes a lock. Without a bound the server counts nothing. Tested below, and through the
//! binary (`crates/e2e/tests/e2e/places.rs`).

use crate::access::{BUCKETS, KeyedCount, KeyedCounts};
use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// Default length of the IPv6 network prefix that counts as a client. A provider gives a customer a
/// network of this size.
pub const CLIENT_IPV6_PREFIX: u8 = 64;

/// The bound on connections of a client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBound {
    /// Connections of an address in an instance. `None` means no bound. A connection beyond the
    /// bound gets 503 and is closed.
    pub connections_max: Option<usize>,
    /// Bits of an IPv6 address that tell clients apart. See [`CLIENT_IPV6_PREFIX`].
    pub ipv6_prefix: u8,
    /// Clients whose requests are counted for rates.
    pub rated_max: usize,
}

impl Default for ClientBound {
    fn default() -> Self {
        Self { connections_max: None, ipv6_prefix: CLIENT_IPV6_PREFIX, rated_max: BUCKETS }
    }
}

impl ClientBound {
    /// The address under which a client is counted.
    pub fn client(self, addr: IpAddr) -> IpAddr {
        match addr.to_canonical() {
            IpAddr::V6(addr) => {
                let host_bits = 128_u32.saturating_sub(self.ipv6_prefix.into());
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                Ipv6Addr::from_bits(addr.to_bits() & mask).into()
            }
            addr => addr,
        }
    }
}

/// A connection that counts for its client until it is dropped.
pub struct Visit {
    _count: KeyedCount,
}

impl Visit {
    /// Counts a connection from `addr` in `clients`. `None` if the client holds `connections_max`
    /// connections already.
    pub fn new(
        clients: &Arc<KeyedCounts>,
        addr: IpAddr,
        bound: ClientBound,
        connections_max: usize,
    ) -> Option<Self> {
        clients.enter(bound.client(addr), connections_max).map(|count| Self { _count: count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(clients: &Arc<KeyedCounts>, addr: &str, bound: ClientBound) -> Option<Visit> {
        Visit::new(clients, addr.parse().unwrap(), bound, 1)
    }

    #[test]
    fn bound_counts_each_client_alone() {
        let (clients, bound) = (Arc::new(KeyedCounts::default()), ClientBound::default());
        let first = enter(&clients, "192.0.2.1", bound);
        assert!(first.is_some());
        assert!(enter(&clients, "192.0.2.1", bound).is_none());
        assert!(enter(&clients, "::ffff:192.0.2.1", bound).is_none(), "the same address, mapped");
        assert!(enter(&clients, "192.0.2.2", bound).is_some());
        drop(first);
        assert!(enter(&clients, "192.0.2.1", bound).is_some());
        assert!(clients.is_empty(), "nothing is left");
    }

    #[test]
    fn ipv6_prefix_joins_addresses() {
        let clients = Arc::new(KeyedCounts::default());
        let bound = ClientBound::default();
        let _first = enter(&clients, "2001:db8::1", bound);
        assert!(enter(&clients, "2001:db8::ffff:1", bound).is_none());
        assert!(enter(&clients, "2001:db8:0:1::1", bound).is_some());
        for (ipv6_prefix, is_other) in [(128, true), (48, false), (0, false)] {
            let bound = ClientBound { ipv6_prefix, ..bound };
            let clients = Arc::new(KeyedCounts::default());
            let _first = enter(&clients, "2001:db8::1", bound);
            assert_eq!(enter(&clients, "2001:db8::2", bound).is_some(), is_other, "/{ipv6_prefix}");
        }
    }
}
