//! Which core is given a new connection, and what happens when that core does not come to take it.
//!
//! Each core has a listening socket of its own. With `local` the kernel prefers the one whose core handled the packets
//! (`SO_INCOMING_CPU`), and neighbours watch: of a core that has not looked at its sockets for a while they take the
//! connections that wait. So locality stays, and a core that is stuck does not hold its share of all new connections.
//! `hash` is the kernel's plain choice, with nobody watching: for comparison, and where preferring does not work, which
//! a self-test finds out at start.
//!
//! Reading order: `neighbours` (who watches whom), `verdict` (when to take), `relieve` (the tasks), `self_test`,
//! `counters`. Leaves out what becomes of a connection (`accept.rs`).

mod counters;
mod neighbours;
mod relieve;
mod self_test;
mod verdict;

pub(crate) use counters::Accepted;
pub(crate) use relieve::{Watched, stop, stop_some, watch};

use counters::{AcceptCounts, Counters};
use std::{fmt, path::Path, str::FromStr};
use vermeil_topology::{CpuId, sysfs};

/// How new connections find their cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// `local` if the self-test shows that the kernel does it, otherwise `hash` with neighbours that watch. The default.
    #[default]
    Auto,
    /// The core that handled the packets; neighbours watch.
    Local,
    /// By a hash of the addresses; nobody watches.
    Hash,
}

impl Balance {
    /// All of them, with the name and what it does.
    pub const ALL: [(Balance, &str, &str); 3] = [
        (Balance::Auto, "auto", "local if a self-test at start shows that it works here, otherwise hash"),
        (
            Balance::Local,
            "local",
            "the core that handles the packets; neighbours relieve a core that is stuck",
        ),
        (Balance::Hash, "hash", "the kernel's choice by addresses; for comparison"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, ..)| *mode == self).expect("all are listed").1
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        let names = || Self::ALL.map(|(_, name, _)| name).join(", ");
        found.map(|(mode, ..)| *mode).ok_or_else(|| format!("\"{text}\" is none of {}", names()))
    }
}

/// What a listening socket prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    /// Connections whose packets its core's cpu handles.
    PacketsCpu,
    /// None.
    Hash,
}

/// How the connections of one server find their cores.
#[derive(Debug)]
pub(crate) struct Balancing {
    pub(crate) steering: Steering,
    /// For people: what was chosen and why.
    pub(crate) line: String,
    /// Of each core, those whose listeners it watches.
    watched: Vec<Vec<usize>>,
    counters: Counters,
}

impl Balancing {
    /// Chooses for cores on these cpus; may connect to itself to find out what works.
    pub(crate) fn choose(balance: Balance, cpus: &[CpuId]) -> Self {
        let watched = || neighbours_on(cpus);
        let unwatched = || vec![Vec::new(); cpus.len()];
        let (steering, watched, line) = match balance {
            Balance::Hash => (Steering::Hash, unwatched(), "hash, as asked for; nobody watches".to_owned()),
            Balance::Local => {
                (Steering::PacketsCpu, watched(), format!("local, as asked for; {}", verdict::describe()))
            }
            Balance::Auto => match self_test::prefers_cpu(cpus) {
                Ok(proof) => {
                    (Steering::PacketsCpu, watched(), format!("local ({proof}); {}", verdict::describe()))
                }
                Err(why) => (Steering::Hash, watched(), format!("hash ({why}); {}", verdict::describe())),
            },
        };
        Self { steering, line, watched, counters: Counters::new(cpus.len()) }
    }

    /// A connection was accepted on `core`.
    pub(crate) fn count(&self, core: usize, accepted: Accepted) {
        self.counters.count(core, accepted);
    }

    /// Whether it is this connection's turn to be looked at, for the share of those accepted where their packets are.
    pub(crate) fn is_sample(&self, core: usize) -> bool {
        self.counters.is_sample(core)
    }

    /// What was counted, in one line for people.
    pub(crate) fn summary(&self) -> String {
        let sum = |of: fn(&AcceptCounts) -> u64| self.counters.all().iter().map(of).sum::<u64>();
        let (sampled, here) = (sum(|core| core.sampled), sum(|core| core.sampled_here));
        let share = match sampled {
            0 => String::new(),
            _ => format!(
                ", {:.0} % of a sample of {sampled} on the cpu of their packets",
                here as f64 * 100.0 / sampled as f64
            ),
        };
        let (accepted, taken_over) = (sum(|core| core.accepted), sum(|core| core.taken_over));
        format!(
            "accepted: {accepted} connections, {taken_over} of them taken over from a core that did not come{share}"
        )
    }
}

/// Who watches whom on this machine.
fn neighbours_on(cpus: &[CpuId]) -> Vec<Vec<usize>> {
    if cpus.len() < 2 {
        return vec![Vec::new(); cpus.len()];
    }
    match sysfs::read(Path::new("/")) {
        Ok(machine) => neighbours::watched(&machine, cpus),
        Err(_) => neighbours::ring(cpus.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (mode, name, _) in Balance::ALL {
            assert_eq!((name.parse(), mode.to_string().as_str()), (Ok(mode), name));
        }
        assert_eq!("least".parse::<Balance>(), Err("\"least\" is none of auto, local, hash".to_owned()));
    }

    #[test]
    fn hash_has_nobody_watch() {
        let cpus = [CpuId(0), CpuId(0)];
        let hash = Balancing::choose(Balance::Hash, &cpus);
        assert_eq!((hash.steering, hash.watched.concat().len()), (Steering::Hash, 0));
        let local = Balancing::choose(Balance::Local, &cpus);
        assert_eq!(local.steering, Steering::PacketsCpu);
    }
}
