//! The limits of the injector's machine, checked before a run.
//!
//! Raises the limit of descriptors to the hard limit, and counts local ports. Tested here and in
//! `tests/`.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::error::LoadError;
use crate::targets::Set;

/// Descriptors other than sockets: standard streams, rings and eventfds of the cores, output files.
const OTHER_DESCRIPTORS: u64 = 64;

/// Whether `sockets` connections can be open at once, spread over `targets`.
pub(crate) fn check(sockets: u64, sets: &[Set]) -> Result<(), LoadError> {
    descriptors(sockets + OTHER_DESCRIPTORS)?;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    ports(sockets, sets, &range)
}

fn descriptors(needed: u64) -> Result<(), LoadError> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(allowed) = limit.maximum.filter(|&maximum| maximum < needed) {
        return Err(LoadError::Descriptors { needed, allowed });
    }
    limit.current = limit.maximum;
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, limit).map_err(|_| LoadError::Descriptors { needed, allowed })
}

/// A connection to one address and port needs a local port that no other connection to this address
/// and port uses.
fn ports(sockets: u64, sets: &[Set], range: &str) -> Result<(), LoadError> {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let (Some(low), Some(high)) = (ends.next(), ends.next()) else { return Ok(()) };
    let available = (high + 1).saturating_sub(low);
    let mut shares: HashMap<_, f64> = HashMap::new();
    for set in sets {
        for addr in &set.addrs {
            *shares.entry(addr).or_default() += 1.0 / (sets.len() * set.addrs.len()) as f64;
        }
    }
    let most = shares.values().copied().fold(0.0, f64::max);
    let needed = (sockets as f64 * most) as u64;
    if needed > available { Err(LoadError::Ports { needed, available }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_per_address() {
        let set = |ports: &[u16]| Set {
            name: String::new(),
            addrs: ports.iter().map(|&port| ([127, 0, 0, 1], port).into()).collect(),
        };
        assert!(ports(100, &[set(&[1])], "32768\t32867\n").is_ok());
        let said = ports(101, &[set(&[1])], "32768\t32867\n").unwrap_err().to_string();
        assert!(said.contains("101 connections") && said.contains("has 100"), "{said}");
        assert!(ports(200, &[set(&[1]), set(&[2])], "32768\t32867\n").is_ok());
        assert!(ports(200, &[set(&[1]), set(&[1])], "32768\t32867\n").is_err());
        assert!(ports(1 << 40, &[set(&[1])], "").is_ok(), "without the range nothing is known");
    }

    #[test]
    fn excessive_descriptor_demand_is_refused() {
        let said = check(1 << 40, &[]).unwrap_err().to_string();
        assert!(said.contains("ulimit -Hn"), "{said}");
    }
}
