//! Sets of addresses, and the choice of a set for a new connection.
//!
//! The addresses of a set are equivalent: the network cards of a memory node, an instance, or a
//! machine. The injector chooses a set for each connection. *Least pending* takes the set with the
//! fewest pending requests of this injector, which balances nodes of unequal speed (Gaud, Lachaize,
//! Lepers, Muller, Quéma, "Application-Level Optimizations on NUMA Multicore Architectures: the
//! Apache Case Study"). Tested here.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crossbeam_utils::CachePadded;

/// How a connection chooses its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetChoice {
    /// Each user keeps a fixed set.
    Fixed,
    /// Connections take the sets in turn.
    #[default]
    RoundRobin,
    /// The set with the fewest pending requests.
    LeastPending,
}

/// Equivalent addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Name of the set in the results.
    pub name: String,
    /// The addresses, at least one. Connections take them in turn.
    pub addrs: Vec<SocketAddr>,
}

/// The sets of a run, with the number of pending requests to each.
#[derive(Debug)]
pub(crate) struct Sets {
    sets: Vec<Set>,
    choice: SetChoice,
    pending: Box<[CachePadded<AtomicUsize>]>,
    turn: AtomicUsize,
}

impl Sets {
    /// The turns begin at `first_user`, the first user of this injector, so that several injectors
    /// do not all begin with the same addresses.
    pub(crate) fn new(sets: Vec<Set>, choice: SetChoice, first_user: usize) -> Self {
        assert!(!sets.is_empty() && sets.iter().all(|set| !set.addrs.is_empty()), "nowhere to connect to");
        let pending = sets.iter().map(|_| CachePadded::default()).collect();
        Self { sets, choice, pending, turn: AtomicUsize::new(first_user) }
    }

    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Chooses the set and the address of the next connection of `user`, numbered among the users
    /// of all injectors.
    pub(crate) fn choose(&self, user: usize) -> (usize, SocketAddr) {
        if let [set] = &self.sets[..]
            && let [addr] = &set.addrs[..]
        {
            // A turn writes beside `choice`, which each request reads.
            return (0, *addr);
        }
        let count = self.sets.len();
        let place = match self.choice {
            SetChoice::Fixed => user,
            SetChoice::RoundRobin | SetChoice::LeastPending => self.turn.fetch_add(1, Ordering::Relaxed),
        };
        let set = match self.choice {
            SetChoice::Fixed | SetChoice::RoundRobin => place % count,
            SetChoice::LeastPending => {
                // The scan begins at a rotating set, because otherwise the first set would get
                // every connection of an idle start.
                let pending = |set: &usize| self.pending[*set].load(Ordering::Relaxed);
                (0..count).map(|at| (place + at) % count).min_by_key(pending).unwrap_or(0)
            }
        };
        let addrs = &self.sets[set].addrs;
        (set, addrs[place / count % addrs.len()])
    }

    /// Begins a request to `set`. Only `LeastPending` counts requests.
    pub(crate) fn begin(&self, set: usize) -> Under<'_> {
        let pending = (self.choice == SetChoice::LeastPending).then(|| &*self.pending[set]);
        if let Some(pending) = pending {
            pending.fetch_add(1, Ordering::Relaxed);
        }
        Under(pending)
    }
}

/// A pending request; ends on drop.
pub(crate) struct Under<'a>(Option<&'a AtomicUsize>);

impl Drop for Under<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.0 {
            pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(choice: SetChoice) -> Sets {
        let set = |name: &str, ports: &[u16]| Set {
            name: name.to_owned(),
            addrs: ports.iter().map(|&port| SocketAddr::from(([127, 0, 0, 1], port))).collect(),
        };
        Sets::new(vec![set("slow", &[1]), set("fast", &[2, 3])], choice, 0)
    }

    #[test]
    fn fixed_and_in_turn() {
        let fixed = sets(SetChoice::Fixed);
        let of = |user| fixed.choose(user).1.port();
        assert_eq!([of(0), of(1), of(2), of(3), of(1)], [1, 2, 1, 3, 2]);
        let turns = sets(SetChoice::RoundRobin);
        assert_eq!([(); 4].map(|()| turns.choose(0).0), [0, 1, 0, 1]);
    }

    /// Regression: the sets and their addresses had a turn each, so each of two sets with two
    /// addresses used one of them only.
    #[test]
    fn turns_reach_every_address() {
        let addrs = |ports: [u16; 2]| ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
        let set = |ports| Set { name: String::new(), addrs: addrs(ports) };
        let sets = Sets::new(vec![set([1, 2]), set([3, 4])], SetChoice::RoundRobin, 0);
        assert_eq!([(); 5].map(|()| sets.choose(0).1.port()), [1, 3, 2, 4, 1]);
    }

    /// Regression: every injector began with the first set, so the first sets had most connections.
    #[test]
    fn turns_begin_at_first_user_of_injector() {
        let addrs = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let set = |addr| Set { name: String::new(), addrs: vec![addr] };
        let first = |first_user| {
            Sets::new(addrs.map(set).to_vec(), SetChoice::RoundRobin, first_user).choose(first_user).0
        };
        assert_eq!([0, 1, 2, 3].map(first), [0, 1, 2, 0]);
    }

    /// Regression: each connection to the only address wrote beside `choice`.
    #[test]
    fn only_address_takes_no_turn() {
        let set = Set { name: String::new(), addrs: vec![SocketAddr::from(([127, 0, 0, 1], 1))] };
        let sets = Sets::new(vec![set], SetChoice::LeastPending, 5);
        assert_eq!([3, 4].map(|user| sets.choose(user)), [(0, sets.sets[0].addrs[0]); 2]);
        assert_eq!(sets.turn.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn the_least_loaded_set_gets_the_connection() {
        let sets = sets(SetChoice::LeastPending);
        let slow: Vec<_> = (0..3).map(|_| sets.begin(0)).collect();
        assert!((0..5).all(|user| sets.choose(user).0 == 1));
        let _fast: Vec<_> = (0..4).map(|_| sets.begin(1)).collect();
        assert_eq!(sets.choose(0).0, 0);
        drop(slow);
        assert_eq!([(); 2].map(|()| sets.choose(0).0), [0, 0]);
    }
}
