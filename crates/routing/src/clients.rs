//! Counts the connections of each client address, across the cores of an instance.
//!
//! The counts are in shards, each behind a lock, chosen by the address. A connection takes a lock
//! at its begin and end, and no request takes a lock. Without a bound the server counts nothing.
//! Tested below, and through the binary (`crates/cli/tests/e2e/places.rs`).

use crate::access::BUCKETS;
use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
};

/// Locks of the table: more than the cores that accept at the same instant, because an accept holds
/// a lock for less than a microsecond.
const SHARDS: usize = 64;

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

type ClientShard = HashMap<IpAddr, usize, RandomState>;

/// The clients of an instance.
pub struct Clients {
    shards: Box<[CachePadded<Mutex<ClientShard>>]>,
    hasher: RandomState,
}

impl Default for Clients {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| CachePadded::default()).collect(), hasher: RandomState::default() }
    }
}

/// A connection that counts for its client until it is dropped.
pub struct Visit {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Clients {
    /// Counts a connection from `addr`. `None` if the client holds `connections_max` connections
    /// already.
    pub fn enter(
        self: &Arc<Self>,
        addr: IpAddr,
        bound: ClientBound,
        connections_max: usize,
    ) -> Option<Visit> {
        let client = bound.client(addr);
        let mut shard = self.shard(client).lock().expect("nothing panics under this lock");
        let count = shard.entry(client).or_default();
        if *count >= connections_max {
            return None;
        }
        *count += 1;
        drop(shard);
        Some(Visit { clients: self.clone(), client })
    }

    fn shard(&self, client: IpAddr) -> &Mutex<ClientShard> {
        &self.shards[self.hasher.hash_one(client) as usize % SHARDS]
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let Ok(mut shard) = self.clients.shard(self.client).lock() else { return };
        if let Some(count) = shard.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(clients: &Arc<Clients>, addr: &str, bound: ClientBound) -> Option<Visit> {
        clients.enter(addr.parse().unwrap(), bound, 1)
    }

    #[test]
    fn bound_counts_each_client_alone() {
        let (clients, bound) = (Arc::new(Clients::default()), ClientBound::default());
        let first = enter(&clients, "192.0.2.1", bound);
        assert!(first.is_some());
        assert!(enter(&clients, "192.0.2.1", bound).is_none());
        assert!(enter(&clients, "::ffff:192.0.2.1", bound).is_none(), "the same address, mapped");
        assert!(enter(&clients, "192.0.2.2", bound).is_some());
        drop(first);
        assert!(enter(&clients, "192.0.2.1", bound).is_some());
        assert!(clients.shards.iter().all(|shard| shard.lock().unwrap().is_empty()), "nothing is left");
    }

    #[test]
    fn ipv6_prefix_joins_addresses() {
        let clients = Arc::new(Clients::default());
        let bound = ClientBound::default();
        let _first = enter(&clients, "2001:db8::1", bound);
        assert!(enter(&clients, "2001:db8::ffff:1", bound).is_none());
        assert!(enter(&clients, "2001:db8:0:1::1", bound).is_some());
        for (ipv6_prefix, is_other) in [(128, true), (48, false), (0, false)] {
            let bound = ClientBound { ipv6_prefix, ..bound };
            let clients = Arc::new(Clients::default());
            let _first = enter(&clients, "2001:db8::1", bound);
            assert_eq!(enter(&clients, "2001:db8::2", bound).is_some(), is_other, "/{ipv6_prefix}");
        }
    }
}
