//! The limits of the injector's machine, checked before a run.
//!
//! Raises the limit of descriptors to the hard limit, and counts local ports. Tested here and in
//! `tests/`.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LoadError;
use crate::targets::Set;

/// Descriptors other than sockets: standard streams, rings and eventfds of the cores, output files.
const OTHER_DESCRIPTORS: u64 = 64;

/// Checks whether `sockets` connections can be open at once, spread over `sets`. Returns the number
/// of descriptors that the process may open beyond these.
pub(crate) fn check(sockets: u64, sets: &[Set]) -> Result<u64, LoadError> {
    let spare = spare(sockets + OTHER_DESCRIPTORS, allowed_descriptors())?;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    ports(sockets, sets, &range)?;
    Ok(spare)
}

/// Raises the limit of descriptors to the hard limit, also if fewer are needed: connections that
/// wait for the server's close use the rest. Returns the limit; `None` if there is none.
fn allowed_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

fn spare(needed: u64, allowed: Option<u64>) -> Result<u64, LoadError> {
    let allowed = allowed.unwrap_or(u64::MAX);
    allowed.checked_sub(needed).ok_or(LoadError::Descriptors { needed, allowed })
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

    /// Regression: the limit stayed where it was if it was enough for the users, and connections
    /// that wait for the server's close then used up the descriptors.
    #[test]
    fn limit_is_raised_although_it_is_enough() {
        let spare_now = check(1, &[]).unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(Some(spare_now + 1 + OTHER_DESCRIPTORS), limit.maximum);
        assert!(matches!(spare(65, Some(64)), Err(LoadError::Descriptors { needed: 65, allowed: 64 })));
        assert_eq!(spare(64, Some(100)).unwrap(), 36);
    }
}
